"""Builds a memory by self-play: games of a search that share one store."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram import storage
from engram.arena.sources import text_digest
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidFile, InvalidParameter, check_whole
from engram.games.game import Game, random_action
from engram.games.record import NATURE
from engram.memory import files
from engram.memory.similar_positions import position_memory
from engram.rng import derive_seed
from engram.search.preset import Preset
from engram.storage import check_place
from engram.user_files import check_sources

SAVE_EVERY_S = 20.0


@dataclass(frozen=True)
class Built:
    """Progress: games played, entries held, entries replaced, and returns in the held ones."""

    games: int
    entries: int
    replaced: int
    returns: float


def build(
    game: Game | str, search: Preset | str, path: str | Path, *, games: int = 100, simulations: int = 500,
    opening_moves: int = 4, seed: int = 0, progress: Callable[[Built], None] | None = None,
) -> Built:  # fmt: skip
    """Plays games of a search against itself with one store, and saves it regularly.

    The same call resumes from the file, with the result of an uninterrupted run. With `simhash`, entries of equal
    cosine may change their order, because a file does not hold the bins.

    Args:
      game: game or specification. search: with a memory, such as `"memory_uct(capacity=50000)"`.
      path: the file; saved every 20 seconds and at the end.
      games: number in all, including those in the file. simulations: per move.
      opening_moves: upper bound on the number of random moves that begin each game, so that games differ.
      seed: of openings and searches. progress: called after each game.

    Raises:
      InvalidSpecification: a search without memory. InvalidParameter: a number out of range.
      InvalidFile: a file of another game, search or seed, a path that cannot be written, or one to which another build
        is writing.
    """
    games, opening_moves = check_whole("games", games, 0), check_whole("opening_moves", opening_moves, 0)
    seed = check_whole("seed", seed)
    limit = Limit(simulations=simulations)
    player = Search(game, search)
    if player.preset.threads > 1:
        raise InvalidParameter("a memory is built by one thread: leave threads out")
    memory = position_memory(player.extensions, player.preset.text, "build")
    identity: dict[str, Any] = {
        **files.identity(memory.features), "search": player.preset.text, "simulations": limit.simulations,
        "opening_moves": opening_moves, "build_seed": seed,
    }  # fmt: skip
    path, sources = Path(path), text_digest([player.preset.text])
    check_place(path)
    refusal = f"another build writes {path}: wait for it, or name another file"
    with storage.hold(path.with_name(f".{path.name}.lock"), refusal):
        done = 0
        if path.exists():
            about = files.restore(memory.store, path, identity)
            check_sources(path, about, sources, "search_sources", "a search")
            done = check_whole(f"the games of {path}", about.get("games", 0), 0, None, InvalidFile)
        saved, saved_games = time.monotonic(), done
        while done < games:
            for extension in player.extensions:
                if extension is not memory and extension.new_game is not None:
                    extension.new_game()
            _play(player, limit, opening_moves, derive_seed(seed, "memory", done))
            done += 1
            if time.monotonic() - saved > SAVE_EVERY_S:
                files.save(path, memory.store, {**identity, "search_sources": sources, "games": done})
                saved, saved_games = time.monotonic(), done
            if progress is not None:
                progress(_progress(done, memory.store))
        if saved_games < done or not path.exists():
            files.save(path, memory.store, {**identity, "search_sources": sources, "games": done})
    return _progress(done, memory.store)


def _play(search: Search, limit: Limit, opening_moves: int, seed: int) -> None:
    game, rng = search.game, random.Random(seed)
    state, opening = game.initial_state(), rng.randint(0, opening_moves)
    for number in range(game.max_moves):
        if game.is_over(state):
            return
        if number < opening or (game.has("chance") and game.to_play(state) == NATURE):
            action = random_action(game, state, rng)
        else:
            action = search.choose(state, limit, seed=derive_seed(seed, number)).action
        if search.root is not None and game.same(search.root, state):
            search.advance(action)
        state = game.play(state, action)


def _progress(games: int, store: Any) -> Built:
    visits = store.entries["visit_count"][: len(store)]
    return Built(games, len(store), int(store.header["num_replaced"][0]), float(visits.sum()))
