"""`engram memory build | inspect | ask | merge | prune`: memories as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli.options import GameOption, JsonOption, MovesOption, SearchOption, SeedOption, guarded, print_json

memory_app = typer.Typer(help="Build, inspect, ask, merge and prune memories kept in files.", no_args_is_help=True)
FileArgument = Annotated[Path, typer.Argument(help="A memory.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]


@memory_app.command()
@guarded
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
    """Play a search against itself and keep what it remembers; the same command again goes on."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.progress import Progress

    from engram.games.catalogue import game as game_of
    from engram.training.memory_build import Built
    from engram.training.memory_build import build as build_memory

    with Progress(console=Console(stderr=True), disable=as_json or not sys.stderr.isatty()) as bar:
        task = bar.add_task("games", total=games)

        def shown(now: Built) -> None:
            bar.update(task, completed=now.games, description=f"{now.entries:,} entries")

        built = build_memory(
            game_of(game), search, output, games=games, simulations=simulations, opening_moves=opening_moves,
            seed=seed, progress=shown,
        )  # fmt: skip
    if as_json:
        return print_json({"file": str(output), **asdict(built)})
    typer.echo(
        f"{output}: {built.entries:,} entries with {built.returns:,.0f} returns from {built.games} games; "
        f"{built.replaced:,} made room"
    )


@memory_app.command()
@guarded
def inspect(file: FileArgument, as_json: JsonOption = False) -> None:
    """Say what a memory holds."""
    import numpy as np

    from engram import storage as durable
    from engram.memory import files

    about, store = durable.about(file, files.KIND), files.load(file)
    entries = store.entries[: len(store)]
    quantiles = [0, 25, 50, 75, 100]
    found: dict[str, Any] = {"file": str(file), **about, "entries": len(store)}
    for field in ("visit_count", "value"):
        numbers = np.percentile(entries[field], quantiles).tolist() if len(store) else []
        found[field] = dict(zip((f"{q} %" for q in quantiles), numbers, strict=False))
    if as_json:
        return print_json(found)
    from rich.table import Table

    from engram.cli.console import console

    table = Table("what", "value")
    for name, value in found.items():
        shown = ", ".join(f"{key}: {number:.4g}" for key, number in value.items()) if isinstance(value, dict) else value
        table.add_row(name, str(shown))
    console().print(table)


@memory_app.command()
@guarded
def ask(
    file: FileArgument,
    moves: MovesOption = "",
    search: SearchOption = "memory_uct",
    most: Annotated[int, typer.Option(min=1, help="Stored positions shown.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Ask a memory about a position: which stored positions answer, how similar, what they contribute."""
    from dataclasses import asdict

    from engram import storage as durable
    from engram.drivers.recollection import explain
    from engram.drivers.search import Search
    from engram.errors import InvalidFile
    from engram.games.catalogue import game as game_of
    from engram.memory import files
    from engram.memory.similar_positions import position_memory
    from engram.presets.catalogue import preset
    from engram.search.extension import assemble
    from engram.specification import Specification, parse

    about = durable.about(file, files.KIND)
    if "game" not in about:
        raise InvalidFile(f"{file} does not say of which game it is")
    game = game_of(about["game"])
    asked = parse(search)
    position_memory(assemble(game, preset(asked.text)).extensions, asked.text, "ask")
    options = {"dimension": about["dimension"], **asked.options, "memory": str(file)}
    chosen = Specification(asked.name, asked.positional, options).text
    state = game.play_moves(moves)
    found = explain(Search(game, chosen), state, most)
    if as_json:
        return print_json(asdict(found) if found else None)
    typer.echo(game.render(state))
    typer.echo(str(found) if found else "memory: nothing similar with a return")


@memory_app.command()
@guarded
def merge(
    memories: Annotated[list[Path], typer.Argument(help="Memories of one game and features.")],
    output: OutputOption,
    capacity: Annotated[Optional[int], typer.Option(min=1, help="Room; default what all hold.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Join memories: what more than one knows has all their returns."""
    from engram import storage as durable
    from engram.memory import files

    about = durable.about(memories[0], files.KIND)
    shared = {what: about.get(what) for what in ("game", "features", "dimension")}
    merged = files.merge([files.load(path, shared) for path in memories], capacity)
    _write(output, merged, shared, as_json)


@memory_app.command()
@guarded
def prune(
    file: FileArgument,
    output: OutputOption,
    min_visits: Annotated[float, typer.Option(min=0, help="Fewest returns of an entry that stays.")] = 1.0,
    keep: Annotated[Optional[int], typer.Option(min=1, help="Most entries that stay, by returns.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Keep only the entries that were seen most."""
    from engram import storage as durable
    from engram.memory import files

    about = durable.about(file, files.KIND)
    shared = {what: about.get(what) for what in ("game", "features", "dimension")}
    _write(output, files.prune(files.load(file), min_visits=min_visits, keep=keep), shared, as_json)


def _write(output: Path, store: Any, belongs_to: dict[str, Any], as_json: bool) -> None:
    from engram.memory import files

    files.save(output, store, belongs_to)
    if as_json:
        return print_json({"file": str(output), "entries": len(store)})
    typer.echo(f"{output}: {len(store):,} entries")
