"""`engram move`: the best move of a position."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli.console import command, print_json
from engram.cli.options import (
    JsonOption,
    MovesOption,
    SearchOption,
    SecondsOption,
    SeedOption,
    SimulationsOption,
    move_limit,
)

if TYPE_CHECKING:
    from engram.games.game import Game, State


@command()
def move(
    file: Annotated[Optional[Path], typer.Argument(help="An SGF file of Go, for its size, komi and moves.")] = None,
    game: Annotated[
        Optional[str], typer.Option("--game", "-g", help="Game; default the SGF file's, else connect_four.")
    ] = None,
    number: Annotated[
        Optional[int], typer.Option("--move", help="Moves of the SGF file that are played; default all.")
    ] = None,
    search: SearchOption = "uct",
    moves: MovesOption = "",
    position: Annotated[
        Optional[str],
        typer.Option("--position", "-p", help="A diagram: a file, '-' for stdin, or lines joined by '/'."),
    ] = None,
    simulations: SimulationsOption = None,
    seconds: SecondsOption = None,
    seed: SeedOption = 0,
    max_nodes: Annotated[Optional[int], typer.Option(help="Most nodes of the tree.")] = None,
    threads: Annotated[Optional[int], typer.Option(help="Threads; default the search's own, 1.")] = None,
    parallel: Annotated[
        Optional[str], typer.Option(help="With several threads: 'tree', all on one, or 'root', a tree each.")
    ] = None,
    why: Annotated[bool, typer.Option("--explain", help="Say why this move and not the next.")] = False,
    save: Annotated[Optional[Path], typer.Option(help="Keep the search in a file.")] = None,
    resume: Annotated[Optional[Path], typer.Option(help="Continue a search from a file, with its seed.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the best move of a position, with a table of all moves."""
    from dataclasses import asdict

    from engram.drivers.explanation import explain
    from engram.drivers.recollection import explain as explain_memory
    from engram.drivers.search import Search
    from engram.errors import InvalidState
    from engram.memory.similar_positions import PositionMemory

    limit = move_limit(simulations, seconds)
    rules, start = _game_and_start(file, game, number)
    tree = Search(rules, search, max_nodes=max_nodes, threads=threads, parallel=parallel)
    state = _position(rules, moves, position, start)
    if save is not None:
        tree.check_save(save)
    if resume is not None:
        tree.load(resume)
        if (moves or position or file) and not rules.same(tree.root, state):
            raise InvalidState(f"{resume} continues another position than that of the command; leave that out")
        state = tree.root
    next_seed = None if resume else seed
    explanation = explain(tree, state, limit, seed=next_seed) if why else None
    result = explanation.result if explanation else tree.run(state, limit, seed=next_seed)
    if save is not None:
        tree.save(save)
    has_memory = any(isinstance(extension, PositionMemory) for extension in tree.extensions)
    recollection = explain_memory(tree, state) if why and has_memory else None
    if as_json:
        memory = {} if recollection is None else {"memory": asdict(recollection)}
        return print_json((explanation or result).to_json() | memory)
    typer.echo(rules.render(state))
    typer.echo(str(result))
    for text in (explanation, recollection):
        if text is not None:
            typer.echo(f"\n{text}")


def _game_and_start(file: Path | None, game: str | None, number: int | None) -> tuple[Game, State | None]:
    """The game; and of an SGF file the position, else None."""
    from engram.errors import InvalidSpecification
    from engram.games.catalogue import game as game_of

    if file is None:
        if number is not None:
            raise InvalidSpecification("--move counts the moves of an SGF file, and the command names no file")
        return game_of(game or "connect_four"), None
    from engram.games.go.sgf import read_sgf

    record = read_sgf(file, game_of(game) if game else None)
    return record.game, record.position(number)


def _position(game: Any, moves: str, diagram: str | None, start: State | None) -> State:
    """The state after `moves`, from a diagram if there is one, else from `start` (None: the initial state)."""
    from engram.errors import InvalidState

    if diagram == "-":
        start = game.parse_state(sys.stdin.read())
    elif diagram is not None and "\n" not in diagram and len(diagram) < 1000 and Path(diagram).is_file():
        try:
            start = game.parse_state(Path(diagram).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidState(f"{diagram} cannot be read: {error}") from None
    elif diagram is not None:
        start = game.parse_state(diagram.replace("/", "\n").replace("\\n", "\n"))
    return game.play_moves(moves, start)
