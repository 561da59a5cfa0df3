"""The command line: `engram games | move | tree | play | match | results | truth | bench | check`.

Every command takes `--json`. Bad input gets one sentence on stderr and exit code 2. The engine is
imported inside the commands, so that `engram --help` is there at once.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli.memory import memory_app
from engram.cli.options import (
    DatabaseOption,
    GameOption,
    JsonOption,
    MovesOption,
    ResignOption,
    SearchOption,
    SecondsOption,
    SeedOption,
    SimulationsOption,
    guarded,
    print_json,
)
from engram.cli.train.app import train_app
from engram.cli.tune import tune

app = typer.Typer(
    name="engram",
    help="Monte-Carlo tree search that remembers: search, play, compare.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


app.add_typer(memory_app, name="memory")
app.add_typer(train_app, name="train")
app.command()(tune)


@app.command()
@guarded
def games(as_json: JsonOption = False) -> None:
    """List the games that can be named."""
    from engram.errors import MissingPackage
    from engram.games.catalogue import GAMES
    from engram.games.open_spiel.kinds import playable
    from engram.registry import about, defaults_of

    rows: list[dict[str, Any]] = [
        {"game": name, "parameters": defaults_of(entry), "about": about(entry)} for name, entry in GAMES.items()
    ]
    if as_json:
        return print_json(rows)
    from rich.table import Table

    from engram.cli.console import console

    table = Table("game", "parameters", "about")
    for row in rows:
        given = ", ".join(key if value is None else f"{key}={value}" for key, value in row["parameters"].items())
        table.add_row(row["game"], given, row["about"])
    console().print(table)
    with suppress(MissingPackage):
        typer.echo(f"Games of OpenSpiel: {', '.join(playable())}")
    typer.echo("A game of your own: path/to/file.py:name")


@app.command()
@guarded
def check(
    game: GameOption = "connect_four", games: Annotated[int, typer.Option(min=1)] = 50, as_json: JsonOption = False
) -> None:
    """Test by random play that a game keeps its contract."""
    from dataclasses import asdict

    from engram.conformance.game_contract import check_game
    from engram.games.catalogue import game as game_of

    report = check_game(game_of(game), games)
    print_json(asdict(report)) if as_json else typer.echo(str(report))


def _limit(simulations: int | None, seconds: float | None, default: int) -> Any:
    from engram.search.limit import Limit

    if simulations is None and seconds is None:
        simulations = default
    return Limit(simulations=simulations, seconds=seconds)


def _opened(file: Path | None, game: str | None, number: int | None) -> tuple[Any, Any]:
    """The game and its start, or the position of an SGF file."""
    from engram.errors import InvalidSpecification
    from engram.games.catalogue import game as game_of

    if file is None:
        if number is not None:
            raise InvalidSpecification("--move counts the moves of an SGF file, and no file is given")
        return game_of(game or "connect_four"), None
    from engram.games.go.sgf import read_sgf

    given = read_sgf(file, game_of(game) if game else None)
    return given.game, given.position(number)


def _position(game: Any, moves: str, position: str | None, start: Any = None) -> Any:
    from engram.errors import InvalidState

    if position is not None:
        if position == "-":
            start = game.parse_state(sys.stdin.read())
        elif "\n" not in position and len(position) < 1000 and Path(position).is_file():
            try:
                start = game.parse_state(Path(position).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidState(f"{position} cannot be read: {error}") from None
        else:
            start = game.parse_state(position.replace("/", "\n").replace("\\n", "\n"))
    return game.play_moves(moves, start)


@app.command()
@guarded
def move(
    file: Annotated[Optional[Path], typer.Argument(help="An SGF file of Go, for its size, komi and moves.")] = None,
    game: Annotated[
        Optional[str], typer.Option("--game", "-g", help="Game; default the SGF file's, else connect_four.")
    ] = None,
    number: Annotated[
        Optional[int], typer.Option("--move", help="The position after so many moves of the file; default all.")
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
    max_nodes: Annotated[Optional[int], typer.Option(help="Bound on the nodes of the tree.")] = None,
    threads: Annotated[Optional[int], typer.Option(help="Threads; default the search's own, 1.")] = None,
    parallel: Annotated[
        Optional[str], typer.Option(help="Of several threads: 'tree', all on one, or 'root', a tree each.")
    ] = None,
    why: Annotated[bool, typer.Option("--explain", help="Say why this move and not the next.")] = False,
    save: Annotated[Optional[Path], typer.Option(help="Keep the search in a file.")] = None,
    resume: Annotated[Optional[Path], typer.Option(help="Go on with a search from a file, its seed too.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the best move of a position, with a table of all moves."""
    from engram.drivers.explanation import explain
    from engram.drivers.recollection import explain as recall
    from engram.drivers.search import Search
    from engram.errors import InvalidState
    from engram.memory.similar_positions import PositionMemory

    limit = _limit(simulations, seconds, 10_000)
    found, start = _opened(file, game, number)
    made = Search(found, search, max_nodes=max_nodes, threads=threads, parallel=parallel)
    given = _position(found, moves, position, start)
    if save is not None:
        made.check_save(save)
    state: Any = given
    if resume is not None:
        made.load(resume)
        state = made.root
        if (moves or position or file) and not found.same(state, given):
            raise InvalidState(f"{resume} goes on from another position than the one given; leave that out")
    told = explain(made, state, limit, seed=None if resume else seed) if why else None
    result = told.result if told else made.run(state, limit, seed=None if resume else seed)
    if save is not None:
        made.save(save)
    remembers = any(isinstance(extension, PositionMemory) for extension in made.extensions)
    recalled = recall(made, state) if why and remembers else None
    if as_json:
        remembered = {} if recalled is None else {"memory": asdict(recalled)}
        return print_json((told or result).to_json() | remembered)
    typer.echo(found.render(state))
    typer.echo(str(result))
    if told:
        typer.echo(f"\n{told}")
    if recalled:
        typer.echo(f"\n{recalled}")


@app.command()
@guarded
def tree(
    file: Annotated[Path, typer.Argument(help="A search kept by `engram move --save`.")],
    other: Annotated[Optional[Path], typer.Argument(help="A later one of the same position, to compare.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Positions of the main line that are shown.")] = 4,
    as_json: JsonOption = False,
) -> None:
    """Look at a kept search, or see which moves gained and lost from one to another."""
    from engram.cli.tree import show_tree

    show_tree(file, other, depth=depth, as_json=as_json)


@app.command()
@guarded
def play(
    game: GameOption = "connect_four",
    opponent: Annotated[str, typer.Option("--opponent", "-o", help="Who plays against you.")] = "uct",
    simulations: SimulationsOption = None,
    seconds: SecondsOption = None,
    second: Annotated[bool, typer.Option("--second", help="Let the opponent move first.")] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Play a game in the terminal; `undo`, `hint` and `quit` besides moves."""
    from engram.cli.play import play_game

    record = play_game(
        game, opponent, _limit(simulations, seconds, 10_000), human_player=int(second), seed=seed, quiet=as_json
    )
    if as_json:
        print_json(record)


@app.command()
@guarded
def match(
    game: GameOption = "connect_four",
    a: Annotated[str, typer.Option("--a", help="First player, such as 'uct(exploration=1.0)'.")] = "uct",
    b: Annotated[str, typer.Option("--b", help="Second player.")] = "random",
    games: Annotated[int, typer.Option(help="Games, even: each opening is played from both sides.")] = 100,
    simulations: SimulationsOption = None,
    seconds: SecondsOption = None,
    a_simulations: Annotated[Optional[int], typer.Option(help="Simulations a move of A alone.")] = None,
    a_seconds: Annotated[Optional[float], typer.Option(help="Seconds a move of A alone.")] = None,
    b_simulations: Annotated[Optional[int], typer.Option(help="Simulations a move of B alone.")] = None,
    b_seconds: Annotated[Optional[float], typer.Option(help="Seconds a move of B alone.")] = None,
    seed: SeedOption = 0,
    opening_moves: Annotated[Optional[int], typer.Option(help="Random moves that begin each pair.")] = None,
    resign: ResignOption = None,
    sprt: Annotated[
        Optional[str], typer.Option(help="Stop early: 'elo0=0,elo1=20' (also alpha, beta; default 0.05).")
    ] = None,
    workers: Annotated[Optional[int], typer.Option(help="Processes; default one a core.")] = None,
    database: DatabaseOption = "engram.sqlite",
    as_json: JsonOption = False,
) -> None:
    """Is A stronger than B? Paired games with an interval; the same command again resumes."""
    from engram.cli.match import run_match

    run_match(
        game, a, b, games=games, simulations=simulations, seconds=seconds, a_simulations=a_simulations,
        a_seconds=a_seconds, b_simulations=b_simulations, b_seconds=b_seconds, seed=seed, opening_moves=opening_moves,
        resign=resign, sprt=sprt, workers=workers, database=database, as_json=as_json,
    )  # fmt: skip


@app.command()
@guarded
def results(
    matches: Annotated[Optional[list[int]], typer.Argument(help="One match to show, or several to compare.")] = None,
    games: Annotated[bool, typer.Option("--games", help="Show every game as text.")] = False,
    database: DatabaseOption = "engram.sqlite",
    as_json: JsonOption = False,
) -> None:
    """List and compare the matches that a database holds."""
    from engram.cli.results import show_results

    show_results(matches or [], games=games, database=database, as_json=as_json)


@app.command()
@guarded
def bench(
    game: Annotated[
        Optional[list[str]], typer.Option("--game", "-g", help="Repeat for several; default a selection.")
    ] = None,
    simulations: Annotated[int, typer.Option("--simulations", "-n", min=1, help="Simulations of one search.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.05, help="Seconds for each figure.")] = 2.0,
    peer: Annotated[bool, typer.Option(help="Run OpenSpiel's C++ MCTS beside, where it is installed.")] = True,
    network: Annotated[
        Optional[str], typer.Option(help="A network instead, such as go9: alone, in lockstep and in one search.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure rollouts, uniform and heavy, and simulations a second, beside OpenSpiel's C++ MCTS in the same run."""
    from engram.cli.bench import measure, table

    if network is not None:
        from engram.cli.bench_network import measure_network

        records = measure_network(network, game[0] if game else None, seconds=seconds, tell=not as_json)
        return print_json(records) if as_json else table(records)
    records = measure(game, simulations=simulations, seconds=seconds, peer=peer, tell=not as_json)
    print_json(records) if as_json else table(records)


@app.command()
@guarded
def truth(
    game: GameOption = "connect_four",
    rules: Annotated[str, typer.Option("--rules", "-r", help="Backup rules, with commas between.")] = "average,softmax",
    search: Annotated[
        Optional[str],
        typer.Option("--search", "-s", help="Preset and its options; default uct, or memory_uct with --memory."),
    ] = None,
    simulations: Annotated[
        Optional[str],
        typer.Option(
            "--simulations", "-n", help="Budgets, with commas between; default 100,1000, or 1000 with --memory."
        ),
    ] = None,
    positions: Annotated[int, typer.Option(min=1, help="Positions, drawn by random play and solved.")] = 1000,
    memory: Annotated[
        bool, typer.Option("--memory", help="Compare memory's values with the search's own, node by node.")
    ] = False,
    seed: SeedOption = 0,
    workers: Annotated[Optional[int], typer.Option(min=1, help="Processes; default one a core.")] = None,
    output: Annotated[Optional[str], typer.Option("--output", "-o", help="Folder for the figures and a plot.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure backup rules, or memories, against the exact values of a solved game."""
    if memory:
        from engram.cli.memory_truth import run_memory_truth

        return run_memory_truth(
            game, search or "memory_uct", simulations or "1000", positions=positions, seed=seed, workers=workers,
            output=output, as_json=as_json,
        )  # fmt: skip
    from engram.cli.truth import run_truth

    run_truth(
        game, rules, search or "uct", simulations or "100,1000", positions=positions, seed=seed, workers=workers,
        output=output, as_json=as_json,
    )  # fmt: skip


@app.command()
@guarded
def gtp(
    game: GameOption = "go:9",
    search: SearchOption = "uct",
    simulations: SimulationsOption = None,
    seconds: SecondsOption = None,
    seed: SeedOption = 0,
) -> None:
    """Speak the Go Text Protocol on standard input and output, for boards such as Sabaki and GoGui."""
    from engram.cli.gtp import run_gtp

    run_gtp(game, search, simulations=simulations, seconds=seconds, seed=seed)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from engram import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point of the `engram` command."""
    app()


if __name__ == "__main__":
    main()
