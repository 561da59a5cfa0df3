"""`engram move`: the best move of a position."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli import options
from engram.cli.console import Live, app, say, show
from engram.cli.options import option, whole

if TYPE_CHECKING:
    from engram.games.game import Game
    from engram.games.go.sgf import GameFile
    from engram.games.state import State


@app.command()
def move(
    file: Annotated[Optional[Path], typer.Argument(help="An SGF file of Go, for its size, komi and moves.")] = None,
    game: Annotated[Optional[str], option("Game; default the SGF file's, else connect_four.", "--game", "-g")] = None,
    number: Annotated[Optional[int], whole("Moves to take from the SGF file; default all.", "--move", low=0)] = None,
    search: options.Search = "uct",
    moves: options.Moves = "",
    position: Annotated[
        Optional[str], option("A file, '-' for stdin, or lines joined by '/'.", "--position", "-p")
    ] = None,
    simulations: options.Simulations = None,
    seconds: options.Seconds = None,
    seed: options.Seed = 0,
    only: Annotated[Optional[str], option("The only moves to choose from, such as '3 4'; default all.")] = None,
    max_nodes: Annotated[Optional[int], whole("Largest number of nodes in the tree.", high=2**32 - 1)] = None,
    threads: Annotated[Optional[int], whole("Threads; default the search's own, 1.", high=256)] = None,
    parallel: Annotated[Optional[str], option("Threads share one 'tree', or have one each: 'root'.")] = None,
    why: Annotated[bool, option("Say why this move and not the second best.", "--explain")] = False,
    save: Annotated[Optional[Path], option("Save the search in a file.")] = None,
    resume: Annotated[Optional[Path], option("Continue a search from a file, with its seed.")] = None,
    as_json: options.Json = False,
) -> None:
    """Find the best move of a position, with a table of all moves."""

    from engram.drivers.explanation import explain
    from engram.drivers.recollection import explain_memory
    from engram.drivers.search import Search
    from engram.errors import InvalidSpecification, InvalidState
    from engram.memory.similar_positions import PositionMemory

    limit = options.move_limit(simulations, seconds)
    rules, start = _game_and_start(file, game, number, position)
    tree = Search(rules, search, max_nodes=max_nodes, threads=threads, parallel=parallel)
    state = _position(rules, moves, position, start)
    if only is not None and (save is not None or resume is not None):
        raise InvalidSpecification("a file has a search of all moves: leave --only out, or --save and --resume")
    if save is not None:
        tree.check_save(save)
    if resume is not None:
        tree.load(resume)
        if (moves or position or file) and not rules.same(tree.root, state):
            raise InvalidState(f"{resume} continues another position; leave out the file, moves or position")
        state = tree.root
    next_seed = None if resume else seed
    with Live("simulations", limit.simulations, quiet=as_json) as live:

        def update(done: int, passed: float) -> None:
            live.update(done, f"{done:,} simulations, {passed:.0f} s of {limit.text}")

        explanation = explain(tree, state, limit, seed=next_seed, only=only) if why else None
        result = (
            explanation.result if explanation else tree.run(state, limit, seed=next_seed, progress=update, only=only)
        )
    has_memory = any(isinstance(extension, PositionMemory) for extension in tree.extensions)
    answer = explain_memory(tree, state) if why and has_memory else None
    memory = {} if answer is None else {"memory": answer.to_json()}
    texts = [f"{rules.render(state)}\n{result}", *(f"\n{text}" for text in (explanation, answer) if text)]
    try:
        show((explanation or result).to_json() | memory, "\n".join(texts), as_json)
    finally:  # a full disk must not lose the answer, nor a closed output the tree
        if save is not None:
            tree.save(save)


def _game_and_start(
    file: Path | None, game: str | None, number: int | None, diagram: str | None
) -> tuple[Game, State | None]:
    """The game, and the position of the SGF file; None without a file."""
    from engram.errors import InvalidSpecification
    from engram.games.catalogue import game as game_of

    if file is not None and diagram is not None:
        raise InvalidSpecification("an SGF file and --position are two positions: leave one out")
    if file is None:
        if number is not None:
            raise InvalidSpecification("--move counts the moves of an SGF file: name the file, too")
        return game_of("connect_four" if game is None else game), None
    record = read_record(file, game)
    return record.game, record.position(number)


def read_record(file: Path, game: str | None) -> GameFile:
    """A game of Go from an SGF file, with its warnings on stderr."""
    from engram.games.catalogue import game as game_of
    from engram.games.go.sgf import read_sgf

    record = read_sgf(file, game_of(game) if game else None)
    if record.warning:
        say(f"warning: {record.warning}")
    return record


def _position(game: Any, moves: str, diagram: str | None, start: State | None) -> State:
    """The state after `moves`, from a diagram if there is one, else from `start` (None: the initial state)."""
    from engram.errors import InvalidState
    from engram.storage import contents

    if diagram == "-":
        start = game.parse_state(sys.stdin.read())
    elif diagram is not None and os.path.exists(diagram) and not os.path.isdir(diagram):  # False for a name too long
        try:
            start = game.parse_state(contents(diagram).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise InvalidState(f"{diagram} cannot be read: {error}") from None
    elif diagram is not None:
        start = game.parse_state(diagram.replace("/", "\n").replace("\\n", "\n"))
    return game.play_moves(moves, start)
