"""`engram memory build | inspect | ask | merge | prune`: memories as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli import options
from engram.cli.console import Live, app, print_json, show
from engram.cli.options import option, real, whole
from engram.cli.tables import print_table
from engram.cli.typed import typed

memory_app = typer.Typer(help="Build, inspect, ask, merge and prune memories in files.", no_args_is_help=True)
app.add_typer(memory_app, name="memory")
File = Annotated[Path, typer.Argument(help="A memory.")]
Report = Annotated[Optional[Path], option("Write a report here, an .html file.", "--report")]
Output = Annotated[Path, option("The file to write.", "--output", "-o")]


@memory_app.command()
def build(
    output: Output,
    game: options.Game = "connect_four",
    search: options.Search = "memory_uct(capacity=50000)",
    games: Annotated[int, whole("Games of self-play in all.", low=0)] = 100,
    simulations: Annotated[int, whole("Simulations a move.", "--simulations", "-n")] = 500,
    opening_moves: Annotated[int, whole("Most random moves at the start of a game.", low=0)] = 4,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Let a search play against itself and keep its memory; repeat the command to continue."""
    from dataclasses import asdict

    from engram.games.catalogue import game as game_of
    from engram.training.memory_build import build as build_memory

    with Live("games", games, quiet=as_json) as live:
        built = build_memory(
            game_of(game), search, output, games=games, simulations=simulations, opening_moves=opening_moves, seed=seed,
            progress=lambda now: live.update(now.games, f"{now.games} games, {now.entries:,} entries"),
        )  # fmt: skip
    text = (
        f"{output}: {built.entries:,} entries with {built.returns:,.0f} returns from {built.games} games; "
        f"{built.replaced:,} made room"
    )
    show({"file": str(output), **asdict(built)}, text, as_json)


@memory_app.command()
def inspect(
    context: typer.Context,
    file: File,
    report: Report = None,
    allow_files: options.AllowFiles = False,
    as_json: options.Json = False,
) -> None:
    """Show the contents of a memory."""
    import numpy as np

    from engram import storage
    from engram.memory import files

    header, store = storage.about(file, files.KIND), files.load(file, neighbours="exact")  # needs no code of a user
    header = {name: value for name, value in header.items() if value != ""}  # a named game is not from a file
    entries = store.entries[: len(store)]
    if report is not None:
        from engram.cli.memory_views import write_contents

        write_contents(report, file, store, allow_files=allow_files, **typed(context))
    summary: dict[str, Any] = {"file": str(file), **header, "entries": len(store)}
    for field in ("visit_count", "value"):
        quantiles = [0, 25, 50, 75, 100] if len(store) else []
        summary[field] = {f"{share} %": float(np.percentile(entries[field], share)) for share in quantiles}
    if as_json:
        return print_json(summary)
    labels = {"visit_count": "returns of an entry", "value": "value for player 0, -1 to 1"}
    for name in labels:
        summary[name] = ", ".join(f"{share}: {number:.4g}" for share, number in summary[name].items())
    print_table([{"what": labels.get(name, name), "value": value} for name, value in summary.items()])


@memory_app.command()
def ask(
    context: typer.Context,
    file: File,
    moves: options.Moves = "",
    search: options.Search = "memory_uct",
    most: Annotated[int, whole("Most stored positions to show.")] = 5,
    report: Report = None,
    allow_files: options.AllowFiles = False,
    as_json: options.Json = False,
) -> None:
    """Ask a memory about a position: the similar positions stored, and what each contributes."""
    from engram import storage
    from engram.drivers.recollection import explain_memory
    from engram.drivers.search import Search
    from engram.errors import InvalidFile, InvalidState
    from engram.memory import files
    from engram.memory.similar_positions import position_memory
    from engram.presets.catalogue import preset
    from engram.search.extension import assemble
    from engram.specification import Specification, parse
    from engram.user_files import is_in_file

    header, game = storage.about(file, files.KIND), files.game_of(file, allow_files=allow_files)
    if type(header.get("dimension")) is not int:  # a text would become a part of the search's specification
        raise InvalidFile(f"{file} is damaged: its dimension is not a whole number")
    state = game.play_moves(moves)
    if game.is_over(state):
        raise InvalidState(f"the game is over, with outcome {game.outcome(state):g}: a memory stores no finished games")
    if is_in_file(search):
        tree = Search(game, search)
        memory = position_memory(tree.extensions, search, "ask")
        store = files.load(file, files.identity(memory.features), memory.store.neighbours)
        store.corrects = memory.store.corrects
    else:
        specification = parse(search)
        if "neighbours" not in specification.options:
            _import_index(file, allow_files)
        position_memory(assemble(game, preset(specification.text, game=game)).extensions, specification.text, "ask")
        values = {"dimension": header["dimension"], **specification.options, "memory": str(file)}
        tree, store = Search(game, Specification(specification.name, specification.positional, values).text), None
    answer = explain_memory(tree, state, most, store)
    if report is not None:
        from engram.cli.memory_views import write_answer

        write_answer(report, game, state, answer, **typed(context))
    sentence = str(answer) if answer else "memory: no similar position with a return"
    show(answer.to_json() if answer else None, f"{game.render(state)}\n{sentence}", as_json)


@memory_app.command()
def merge(
    memories: Annotated[list[Path], typer.Argument(help="Memories of one game and the same features.")],
    output: Output,
    capacity: Annotated[Optional[int], whole("Capacity; default that of all together.")] = None,
    allow_files: options.AllowFiles = False,
    as_json: options.Json = False,
) -> None:
    """Join memories; an entry found in several has the returns of all."""
    from engram.memory import files

    headers = [_header(path) for path in memories]
    header = next((each for each in headers if "sources" in each), headers[0])
    first, *_ = [_import_index(path, allow_files) for path in memories]
    merged = files.merge([files.load(path, header) for path in memories], capacity)
    _write(output, merged, header | first, as_json)


@memory_app.command()
def prune(
    file: File,
    output: Output,
    min_visits: Annotated[float, real("Fewest returns of an entry that is kept.", high=1e12)] = 1.0,
    keep: Annotated[Optional[int], whole("Most entries to keep, those with most returns.")] = None,
    allow_files: options.AllowFiles = False,
    as_json: options.Json = False,
) -> None:
    """Keep only the entries that were seen most."""
    from engram.memory import files

    header = _header(file) | _import_index(file, allow_files)
    _write(output, files.prune(files.load(file), min_visits=min_visits, keep=keep), header, as_json)


def _header(file: Path) -> dict[str, Any]:
    """The game and features of a memory, and the game's text and digest if it is from a file."""
    from engram import storage
    from engram.memory.files import KIND

    header = storage.about(file, KIND)
    of_files = {key: header[key] for key in ("text", "sources") if key in header}
    return {key: header.get(key) for key in ("game", "features", "dimension")} | of_files


def _import_index(file: Path, allow_files: bool) -> dict[str, Any]:
    """Runs the file of the search that built a memory, if its index is a user's; returns that search and its digest."""
    from engram import storage
    from engram.arena.sources import text_digest
    from engram.memory.files import KIND
    from engram.memory.neighbours import INDICES
    from engram.user_files import is_in_file, load, stored

    about = storage.about(file, KIND)
    index, search = INDICES.get(str(about.get("neighbours"))), about.get("search", "")
    if (index is not None and index.__module__.startswith("engram.")) or not is_in_file(search):
        return {}
    digest = str(about.get("search_sources", ""))
    with stored(str(file), allow_files=allow_files, digest=digest, present_digest=lambda: text_digest([search])):
        load(search)
    return {"search": search, "search_sources": digest}


def _write(output: Path, store: Any, header: dict[str, Any], as_json: bool) -> None:
    from engram import storage
    from engram.memory.files import KIND, save

    if output.exists():
        storage.about(output, KIND)  # another file stays
    save(output, store, header)
    show({"file": str(output), "entries": len(store)}, f"{output}: {len(store):,} entries", as_json)
