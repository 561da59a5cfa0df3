"""`engram memory build | inspect | ask | merge | prune`: memories as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli.console import Live, app, command, print_json, print_table
from engram.cli.options import GameOption, JsonOption, MovesOption, SearchOption, SeedOption

memory_app = typer.Typer(help="Build, inspect, ask, merge and prune memories in files.", no_args_is_help=True)
app.add_typer(memory_app, name="memory")
FileArgument = Annotated[Path, typer.Argument(help="A memory.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]


@command(memory_app)
def build(
    output: OutputOption,
    game: GameOption = "connect_four",
    search: SearchOption = "memory_uct(capacity=50000)",
    games: Annotated[int, typer.Option(min=0, help="Games of self-play in all.")] = 100,
    simulations: Annotated[int, typer.Option("--simulations", "-n", min=1, help="Simulations a move.")] = 500,
    opening_moves: Annotated[int, typer.Option(min=0, help="Most random moves at the start of a game.")] = 4,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Let a search play itself and keep its memory; the same command again continues."""
    from dataclasses import asdict

    from engram.games.catalogue import game as game_of
    from engram.training.memory_build import build as build_memory

    with Live("games", games, quiet=as_json) as live:
        built = build_memory(
            game_of(game),
            search,
            output,
            games=games,
            simulations=simulations,
            opening_moves=opening_moves,
            seed=seed,
            progress=lambda now: live.update(now.games, f"{now.games} games, {now.entries:,} entries"),
        )
    if as_json:
        return print_json({"file": str(output), **asdict(built)})
    typer.echo(
        f"{output}: {built.entries:,} entries with {built.returns:,.0f} returns from {built.games} games; "
        f"{built.replaced:,} made room"
    )


@command(memory_app)
def inspect(file: FileArgument, as_json: JsonOption = False) -> None:
    """Show the contents of a memory."""
    import numpy as np

    from engram import storage
    from engram.memory import files

    header, store = storage.about(file, files.KIND), files.load(file)
    entries = store.entries[: len(store)]
    quantiles = [0, 25, 50, 75, 100]
    summary: dict[str, Any] = {"file": str(file), **header, "entries": len(store)}
    for field in ("visit_count", "value"):
        numbers = np.percentile(entries[field], quantiles).tolist() if len(store) else []
        summary[field] = dict(zip((f"{quantile} %" for quantile in quantiles), numbers, strict=False))
    if as_json:
        return print_json(summary)
    from rich.table import Table

    table = Table("what", "value")
    for name, value in summary.items():
        text = ", ".join(f"{key}: {number:.4g}" for key, number in value.items()) if isinstance(value, dict) else value
        table.add_row(name, str(text))
    print_table(table)


@command(memory_app)
def ask(
    file: FileArgument,
    moves: MovesOption = "",
    search: SearchOption = "memory_uct",
    most: Annotated[int, typer.Option(min=1, help="Most stored positions to show.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Ask a memory about a position: which stored positions answer, how similar, what they contribute."""
    from dataclasses import asdict

    from engram import storage
    from engram.drivers.recollection import explain
    from engram.drivers.search import Search
    from engram.errors import InvalidFile
    from engram.games.catalogue import game as game_of
    from engram.memory import files
    from engram.memory.similar_positions import position_memory
    from engram.presets.catalogue import preset
    from engram.search.extension import assemble
    from engram.specification import Specification, parse

    header = storage.about(file, files.KIND)
    if "game" not in header:
        raise InvalidFile(f"{file} does not name its game")
    game = game_of(header["game"])
    specification = parse(search)
    position_memory(assemble(game, preset(specification.text)).extensions, specification.text, "ask")
    options = {"dimension": header["dimension"], **specification.options, "memory": str(file)}
    text = Specification(specification.name, specification.positional, options).text
    state = game.play_moves(moves)
    recollection = explain(Search(game, text), state, most)
    if as_json:
        return print_json(asdict(recollection) if recollection else None)
    typer.echo(game.render(state))
    typer.echo(str(recollection) if recollection else "memory: no similar position with a return")


@command(memory_app)
def merge(
    memories: Annotated[list[Path], typer.Argument(help="Memories of one game and the same features.")],
    output: OutputOption,
    capacity: Annotated[Optional[int], typer.Option(min=1, help="Room; default that of all entries.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Join memories; an entry of several has the returns of all."""
    from engram.memory import files

    header = _header(memories[0])
    _write(output, files.merge([files.load(path, header) for path in memories], capacity), header, as_json)


@command(memory_app)
def prune(
    file: FileArgument,
    output: OutputOption,
    min_visits: Annotated[float, typer.Option(min=0, help="Fewest returns of an entry that stays.")] = 1.0,
    keep: Annotated[Optional[int], typer.Option(min=1, help="Most entries that stay, by returns.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Keep only the entries that were seen most."""
    from engram.memory import files

    _write(output, files.prune(files.load(file), min_visits=min_visits, keep=keep), _header(file), as_json)


def _header(file: Path) -> dict[str, Any]:
    """The game and features of a memory."""
    from engram import storage
    from engram.memory import files

    header = storage.about(file, files.KIND)
    return {key: header.get(key) for key in ("game", "features", "dimension")}


def _write(output: Path, store: Any, header: dict[str, Any], as_json: bool) -> None:
    from engram.memory import files

    files.save(output, store, header)
    if as_json:
        return print_json({"file": str(output), "entries": len(store)})
    typer.echo(f"{output}: {len(store):,} entries")
