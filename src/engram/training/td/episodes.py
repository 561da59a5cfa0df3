"""Temporal-difference learning from game to game: episodes of play whose searches share one table of values.

One episode is one game, with a search at every move. The table (`memory/values/table.py`) keeps all states on the
paths of the search, or, as Tesauro's program did, those on the board alone (`learn_from`).
"""

from __future__ import annotations

import glob
import hashlib
import random
from collections import deque
from pathlib import Path

import numpy as np

from engram import storage
from engram.arena.roster import player
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidFile
from engram.games.game import random_line
from engram.games.state import State
from engram.memory.values import table_files
from engram.memory.values.table import Table
from engram.player import Player
from engram.rng import derive_seed
from engram.training.td.settings import TdConfiguration
from engram.user_files import check_sources

REPLAYED_GAMES = 1000
SNAPSHOTS = 16
"""Number of earlier states, the newest, from which opponents are drawn; older ones stay on the disk."""

episode_dtype = np.dtype(
    [
        ("outcome", np.float32),  # for player 0
        ("moves", np.int32),  # after the episode's start
        ("game", np.uint64),  # hash of all moves
        ("played_states", np.int64),  # different positions on the board, of all episodes so far
        ("plain_states", np.int64),  # the same, with mirror images counted separately
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

    Attributes:
      table: the values. snapshots: earlier states by episode, each (slots, entries) of the table then.

    `save` and `load` restore it exactly: a killed training has the same result as an uninterrupted one.
    """

    def __init__(self, configuration: TdConfiguration, seed: int = 0):
        self.configuration = configuration
        self.seed = seed
        self.game = configuration.made_game
        self.game.require_plain("training by temporal differences")
        self.episodes = np.zeros(0, episode_dtype)
        self._records: list[np.ndarray] = []
        self._set_table(Table(configuration.capacity))
        self._played: set[int] = set()
        self._plain: set[int] = set()
        self._games: deque[tuple[int, ...]] = deque(maxlen=REPLAYED_GAMES)
        self._opponent, self._opponent_limit = configuration.made_opponent, configuration.opponent_limit
        self.snapshots: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._saved_snapshots: set[int] = set()
        self._past = Table(configuration.capacity if configuration.earlier else 1)
        self._earlier = player(self.game, configuration.preset(self._past, learn=False))

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
        opponent, limit = self._draw_opponent(rng)
        first = len(moves)
        self._search.clear()
        if opponent is not None:
            opponent.new_game(derive_seed(seed, "opponent"))
        keys: list[int] = []
        shares: list[float] = []
        while not self.game.is_over(state) and len(moves) < self.game.max_moves:
            keys.append(self._key(state))
            self._plain.add(self.game.hash(state))
            if opponent is not None and self.game.to_play(state) == number % 2:
                action = opponent.choose(state, limit, derive_seed(seed, "opponent", len(moves))).action
            else:
                action = self._move(state, len(moves), seed, rng, shares)
            moves.append(action)
            state = self.game.play(state, action)
            self._search.advance(action)
            if opponent is not None:
                opponent.played(action)
        self._played.update(keys)
        self._games.append(tuple(moves))
        outcome = self.game.outcome(state) if self.game.is_over(state) else 0.0
        if self.configuration.learn_from == "positions":
            self._learn_positions(np.array(keys, np.uint64), outcome)
        values, visits = self.table.get(np.array(keys, np.uint64))
        game = int.from_bytes(hashlib.blake2b(repr(moves).encode(), digest_size=8).digest(), "little")
        states = len(self._played), len(self._plain), len(self.table) + self.table.num_replaced
        figures = np.mean(shares) if shares else 0.0, np.median(visits), np.abs(values).max()
        self._records.append(np.array((outcome, len(moves) - first, game, *states, *figures), episode_dtype))
        if self.configuration.earlier and self.num_episodes % self.configuration.snapshot_every == 0:
            self._keep(self.num_episodes, self.table)

    def save(self, path: str | Path) -> None:
        """Writes the complete state of the training, and each new snapshot as a table in a file next to it.

        Raises:
          InvalidFile: the file cannot be written.
        """
        for episode in sorted(self.snapshots.keys() - self._saved_snapshots):
            self._recall(episode)
            about = {**self.configuration.metadata, "seed": self.seed, "episodes": episode}
            table_files.save(snapshot_file(path, episode), self._past, about)
            self._saved_snapshots.add(episode)
        for episode in sorted(self.snapshots)[:-SNAPSHOTS]:
            del self.snapshots[episode]
        lengths = np.array([len(moves) for moves in self._games], np.int64)
        moves = np.array([move for moves in self._games for move in moves], np.int32)
        table_files.save(
            path, self.table,
            {**self.configuration.metadata, "seed": self.seed, "episodes": self.num_episodes},
            history=self.history, lengths=lengths, moves=moves,
            played=_sorted(self._played), plain=_sorted(self._plain),
        )  # fmt: skip

    def load(self, path: str | Path) -> None:
        """Resumes from a file.

        Raises:
          InvalidFile: the file or one of its snapshots is missing, damaged, or of another training or seed.
        """
        wanted = {**self.configuration.identity, "seed": self.seed}
        table, about, arrays = table_files.load(path, wanted)
        check_sources(
            path, about, self.configuration.opponent_sources, "opponent_sources", "a training against a player"
        )
        with storage.reading(path):
            history, lengths, moves = arrays["history"], arrays["lengths"], arrays["moves"].tolist()
            if history.dtype != episode_dtype or (lengths < 0).any() or int(lengths.sum()) != len(moves):
                raise InvalidFile(f"{path} is damaged: its games do not fit together")
            self._played, self._plain = set(arrays["played"].tolist()), set(arrays["plain"].tolist())
            ends = np.cumsum(lengths).tolist()
            self._games = deque(
                (tuple(moves[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)),
                maxlen=REPLAYED_GAMES,
            )
        self.episodes, self._records = history, []
        self._set_table(table)
        every = self.configuration.snapshot_every
        due = range(every, self.num_episodes + 1, every)[-SNAPSHOTS:] if self.configuration.earlier else ()
        for episode in due:
            self._keep(episode, table_files.load(snapshot_file(path, episode), {**wanted, "episodes": episode})[0])
        self._saved_snapshots = set(due)

    def _keep(self, episode: int, table: Table) -> None:
        self.snapshots[episode] = table.used, table.entries[table.used]

    def _recall(self, episode: int) -> None:
        """Fills the earlier opponent's table."""
        self._past.replace(*self.snapshots[episode], num_replaced=0)

    def _draw_opponent(self, rng: random.Random) -> tuple[Player | None, Limit]:
        """An earlier state, the configured opponent, or None: self-play; and the limit of its moves."""
        if self.snapshots and rng.random() < self.configuration.earlier:
            self._recall(rng.choice(sorted(self.snapshots)[-SNAPSHOTS:]))
            return self._earlier, Limit(simulations=self.configuration.simulations)
        return self._opponent, self._opponent_limit

    def _learn_positions(self, keys: np.ndarray, outcome: float) -> None:
        """TD(λ) backwards over a game's positions; targets come from the values before it, as in a search."""
        settings = self.configuration
        keys, places = np.unique(keys, return_inverse=True)  # a position may come twice, or its mirror image
        values, visits = self.table.get(keys)
        following = target = outcome
        for place in reversed(places):
            decay = settings.trace_decay
            target = settings.discount * (decay * target + (1.0 - decay) * following)
            following = float(values[place])
            visits[place] += 1
            values[place] += max(1.0 / visits[place], settings.min_step) * (target - following)
        self.table.put(keys, values, visits)

    def _set_table(self, table: Table) -> None:
        self.table = table
        learn = self.configuration.learn_from == "search"
        self._search = Search(self.game, self.configuration.preset(table, learn=learn))

    def _key(self, state: State) -> int:
        return self.game.canonical_hash(state) if self.configuration.symmetric else self.game.hash(state)

    def _beginning(self, rng: random.Random) -> tuple[list[int], State]:
        """The first moves of an episode, and the state after them, which is not over."""
        if self._games and rng.random() < self.configuration.replay:
            earlier = rng.choice(self._games)
            moves = list(earlier[: rng.randrange(len(earlier))])
            return moves, self.game.play_moves(moves)
        moves, state = random_line(self.game, rng, rng.randint(0, self.configuration.opening_moves))
        if self.game.is_over(state):
            del moves[-1]
            state = self.game.play_moves(moves)
        return moves, state

    def _move(self, state: State, played: int, seed: int, rng: random.Random, shares: list[float]) -> int:
        if rng.random() < self.configuration.epsilon:
            return rng.choice(self.game.legal_actions(state))
        limit = Limit(simulations=self.configuration.simulations)
        action = self._search.choose(state, limit, seed=derive_seed(seed, played)).action
        visits = self._search.moves().visits
        if len(visits) > 1:
            shares.append(float(visits.max() / max(visits.sum(), 1)))
        return action


def snapshot_file(path: str | Path, episode: int) -> Path:
    """The path of an earlier state, next to the table in training: `c4.seed0.episode100.table`."""
    return Path(path).with_name(f"{Path(path).stem}.episode{episode}{Path(path).suffix}")


def files_of_seed(path: str | Path) -> list[Path]:
    """The existing files of a seed's training: its earlier states, then its table, which needs them."""
    path = Path(path)
    snapshots = path.parent.glob(f"{glob.escape(path.stem)}.episode*{glob.escape(path.suffix)}")
    return [*sorted(snapshots), *([path] if path.exists() else [])]


def _sorted(keys: set[int]) -> np.ndarray:
    return np.array(sorted(keys), np.uint64)
