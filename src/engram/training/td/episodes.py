"""Temporal-difference learning from game to game: episodes of play whose searches share one table of values.

One episode is one game, with a search at every move. The table (`memory/values/table.py`) keeps all states on the
paths of the search, not only those on the board.
"""

from __future__ import annotations

import hashlib
import random
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from engram.drivers.search import Search
from engram.errors import InvalidFile
from engram.games.game import State
from engram.memory.values import table_files
from engram.memory.values.table import Table
from engram.rng import derive_seed
from engram.search.limit import Limit
from engram.training.td.settings import TdConfiguration

REPLAYED_GAMES = 1000

episode_dtype = np.dtype(
    [
        ("outcome", np.float32),  # for player 0
        ("moves", np.int32),  # after the episode's start
        ("game", np.uint64),  # hash of all moves
        ("played_states", np.int64),  # different positions on the board, of all episodes so far
        ("plain_states", np.int64),  # the same, mirror images told apart
        ("searched_states", np.int64),  # entered into the table so far
        ("concentration", np.float32),  # share of the most visited move at the roots, mean
        ("visits", np.float32),  # median visits of the positions on the board
        ("largest", np.float32),  # largest |value| of the positions on the board
    ]
)


class TdLearner:
    """A training of one seed: a table, and its games.

    Args:
      configuration: of the training. seed: of all its random numbers.

    `save` and `load` restore it exactly: a killed training has the same result as an uninterrupted one.
    """

    def __init__(self, configuration: TdConfiguration, seed: int = 0):
        self.configuration = configuration
        self.seed = seed
        self.game = configuration.made_game
        self.episodes = np.zeros(0, episode_dtype)
        self._records: list[np.ndarray] = []
        self._set_table(Table(configuration.capacity))
        self._played: set[int] = set()
        self._plain: set[int] = set()
        self._games: deque[tuple[int, ...]] = deque(maxlen=REPLAYED_GAMES)
        self._opponent, self._opponent_limit = configuration.made_opponent, configuration.opponent_limit

    @property
    def num_episodes(self) -> int:
        """Episodes played."""
        return len(self.episodes) + len(self._records)

    @property
    def history(self) -> np.ndarray:
        """One record an episode (`episode_dtype`)."""
        if self._records:
            self.episodes = np.concatenate([self.episodes, np.array(self._records, episode_dtype)])
            self._records = []
        return self.episodes

    def warm_up(self) -> None:
        """Compiles everything."""
        self._search.warm_up()
        if self._opponent is not None:
            self._opponent.warm_up()

    def episode(self) -> None:
        """Plays one episode and learns from it.

        Raises:
          KeyboardInterrupt: Ctrl-C; the table has learned a part of the episode.
        """
        number = self.num_episodes
        seed = derive_seed(self.seed, "episode", number)
        rng = random.Random(seed)
        moves, state = self._beginning(rng)
        first = len(moves)
        self._search.clear()
        if self._opponent is not None:
            self._opponent.new_game(derive_seed(seed, "opponent"))
        keys: list[int] = []
        shares: list[float] = []
        while not self.game.is_over(state) and len(moves) < self.game.max_moves:
            keys.append(self._key(state))
            self._plain.add(self.game.hash(state))
            action = self._move(state, number, len(moves), seed, rng, shares)
            moves.append(action)
            state = self.game.play(state, action)
            self._search.advance(action)
            if self._opponent is not None:
                self._opponent.played(action)
        self._played.update(keys)
        self._games.append(tuple(moves))
        outcome = self.game.outcome(state) if self.game.is_over(state) else 0.0
        values, visits = self.table.get(np.array(keys, np.uint64))
        record = np.zeros((), episode_dtype)
        record["outcome"] = outcome
        record["moves"] = len(moves) - first
        record["game"] = int.from_bytes(hashlib.blake2b(repr(moves).encode(), digest_size=8).digest(), "little")
        record["played_states"], record["plain_states"] = len(self._played), len(self._plain)
        record["searched_states"] = len(self.table) + self.table.num_replaced
        record["concentration"] = np.mean(shares) if shares else 0.0
        record["visits"] = np.median(visits)
        record["largest"] = np.abs(values).max()
        self._records.append(record)

    def save(self, path: str | Path) -> None:
        """Writes the complete state of the training.

        Raises:
          InvalidFile: the file cannot be written.
        """
        lengths = np.array([len(moves) for moves in self._games], np.int64)
        moves = np.array([move for moves in self._games for move in moves], np.int32)
        table_files.save(
            path, self.table,
            {**self.configuration.identity, "seed": self.seed, "episodes": self.num_episodes},
            history=self.history, lengths=lengths, moves=moves,
            played=_sorted(self._played), plain=_sorted(self._plain),
        )  # fmt: skip

    def load(self, path: str | Path) -> None:
        """Resumes from a file.

        Raises:
          InvalidFile: no such file, damaged, or of another training or seed.
        """
        table, _, arrays = table_files.load(path, {**self.configuration.identity, "seed": self.seed})
        try:
            history, lengths, moves = arrays["history"], arrays["lengths"], arrays["moves"].tolist()
            if history.dtype != episode_dtype or (lengths < 0).any() or int(lengths.sum()) != len(moves):
                raise InvalidFile(f"{path} is damaged: its games do not fit together")
            self._played, self._plain = set(arrays["played"].tolist()), set(arrays["plain"].tolist())
        except KeyError as error:
            raise InvalidFile(f"{path} is damaged: it has no {error}") from error
        self.episodes, self._records = history, []
        ends = np.cumsum(lengths).tolist()
        self._games = deque(
            (tuple(moves[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)),
            maxlen=REPLAYED_GAMES,
        )
        self._set_table(table)

    def _set_table(self, table: Table) -> None:
        self.table = table
        self._search = Search(self.game, self.configuration.preset(table, learn=True))

    def _key(self, state: State) -> int:
        return self.game.canonical_hash(state) if self.configuration.symmetric else self.game.hash(state)

    def _beginning(self, rng: random.Random) -> tuple[list[int], State]:
        """The first moves of an episode, and the state after them, which is not over."""
        if self._games and rng.random() < self.configuration.replay:
            earlier = rng.choice(self._games)
            moves = list(earlier[: rng.randrange(len(earlier))])
            return moves, self.game.play_moves(moves)
        state, moves = self.game.initial_state(), []
        for _ in range(rng.randint(0, self.configuration.opening_moves)):
            action = rng.choice(self.game.legal_actions(state))
            after = self.game.play(state, action)
            if self.game.is_over(after):
                break
            moves.append(action)
            state = after
        return moves, state

    def _move(self, state: State, number: int, played: int, seed: int, rng: random.Random, shares: list[float]) -> int:
        if self._opponent is not None and self.game.to_play(state) == number % 2:
            return self._opponent.choose(state, self._opponent_limit, derive_seed(seed, "opponent", played)).action
        if rng.random() < self.configuration.epsilon:
            return rng.choice(self.game.legal_actions(state))
        limit = Limit(simulations=self.configuration.simulations)
        result = self._search.run(state, limit, seed=derive_seed(seed, played))
        if result.stopped == "interrupted":
            raise KeyboardInterrupt
        visits: list[int] = [move.visits for move in result.moves]
        if len(visits) > 1:
            shares.append(max(visits) / max(sum(visits), 1))
        return result.action


def about_merged(configuration: TdConfiguration, seeds: int, episodes: int) -> dict[str, Any]:
    """Metadata of the file of several trainings' merged tables."""
    return {**configuration.identity, "seeds": seeds, "episodes": episodes}


def _sorted(keys: set[int]) -> np.ndarray:
    return np.array(sorted(keys), np.uint64)
