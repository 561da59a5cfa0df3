"""Groups of positions with values, the training data for a memory's features.

A memory compares a leaf with other positions of the same search, so a group is drawn from the nodes of one search's
tree. Pairs of unrelated positions would teach the network to distinguish games, which a memory does not need.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage
from engram.arena.exact_values import ExactValues, exact_values
from engram.arena.sources import text_digest
from engram.arena.truth.memory_truth import moves_below
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidFile, InvalidParameter, TooLarge, check_fields
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.line.heuristics import is_line_game
from engram.games.record import SLACK
from engram.games.state import State
from engram.networks.encoding import Encoder
from engram.networks.symmetry import symmetry_tables, turned
from engram.rng import derive_seed
from engram.search.tree import TERMINAL
from engram.training.records import legal_length, replayed, words_of
from engram.user_files import check_sources

KIND = "families"  # the name in files
MEMBERS = 16
"""Positions of a group."""
_SHARE = 0.25  # share of a game's positions that are roots of a group; successive positions are much alike


@dataclass(frozen=True)
class Sampling:
    """The settings for drawing and valuing groups.

    Attributes:
      game, search: specifications; the search plays the games and grows the trees. simulations: of it, ≥ 64.
      label_simulations: of the same search, whose root value labels a position; None: the exact value from a solver,
        or 1000 if there is none.
      random_share: share of random moves in a game, in [0, 1]. seed: of all random numbers.
    """

    game: str
    search: str = "uct"
    simulations: int = 400
    label_simulations: int | None = None
    random_share: float = 0.3
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, simulations=4 * MEMBERS, label_simulations=1)
        if not 0.0 <= self.random_share <= 1.0:
            raise InvalidParameter(f"a share is between 0 and 1, not {self.random_share}")


@dataclass(frozen=True)
class PositionGroups:
    """G groups, each position by the moves that lead to it.

    Attributes:
      game: the game. offset: (G·MEMBERS + 1,) start of each position's moves in `actions`. actions: uint16.
      value: (G, MEMBERS) float32 V* in [-1, 1] for the player to move. number: (G,) of each group's game.
    """

    game: Game
    offset: np.ndarray
    actions: np.ndarray
    value: np.ndarray
    number: np.ndarray

    def __len__(self) -> int:
        return len(self.value)

    def split(self, share: float) -> tuple[np.ndarray, np.ndarray]:
        """Rows (to learn from, held out): by game, so that no game has groups on both sides."""
        draws = np.array([derive_seed("held out", int(number)) % 10_000 for number in self.number])
        return np.flatnonzero(draws >= share * 10_000), np.flatnonzero(draws < share * 10_000)

    def planes(
        self, rows: np.ndarray, encode: Encoder, turns: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Planes (G'·MEMBERS, C, H, W) of some groups, and the side to move (G', MEMBERS): 1 or -1.

        Args:
          turns: (G'·MEMBERS,) symmetry applied to each position; None: none.
        """
        at = (np.asarray(rows)[:, None] * MEMBERS + np.arange(MEMBERS)).ravel()
        moves = np.stack([np.zeros_like(at), self.offset[at], self.offset[at + 1]], axis=1)
        planes, sides = replayed(encode, words_of(self.game, self.game.initial_state().reshape(1)), moves, self.actions)
        if turns is not None:
            planes = turned(planes, turns, symmetry_tables(self.game)[0])
        return planes, sides.reshape(-1, MEMBERS)


class GroupSampler:
    """Plays games and draws groups from their searches; game k depends only on the sampling and k.

    Attributes:
      exact: whether values are exact. games: played.

    Raises:
      InvalidParameter: a plain Python game.
    """

    def __init__(self, sampling: Sampling):
        self.sampling = sampling
        self.game = game_of(sampling.game)
        self._sources = text_digest([sampling.game, sampling.search])
        if not self.game.compiled:
            raise InvalidParameter(f"{self.game.name} is a plain Python game, which a network cannot encode")
        self._search = Search(self.game, sampling.search)
        self._judge = Search(self.game, sampling.search)
        self._exact = _exact(self.game) if sampling.label_simulations is None else None
        self.exact = self._exact is not None
        # Exact values of early positions take long, so a quarter of the cells is filled first, as in
        # `solved_positions`.
        self._first = self.game.max_moves // 4 if self.exact else 0
        self.games = 0
        self._moves: list[list[int]] = []
        self._values: list[float] = []
        self._number: list[int] = []

    @property
    def positions(self) -> int:
        """The number of positions drawn."""
        return len(self._moves)

    def groups(self) -> PositionGroups:
        """All groups drawn."""
        actions = np.array([action for moves in self._moves for action in moves], np.uint16)
        offset = np.array([0, *accumulate(map(len, self._moves))], np.int64)
        value = np.array(self._values, np.float32).reshape(-1, MEMBERS)
        return PositionGroups(self.game, offset, actions, value, np.array(self._number, np.int64))

    def play(self) -> None:
        """Plays the next game and keeps its groups."""
        game, sampling = self.game, self.sampling
        rng = np.random.default_rng(derive_seed(sampling.seed, "family", self.games))
        moves: list[int] = []
        state = game.initial_state()
        while not game.is_over(state):
            is_root = rng.random() < _SHARE and len(moves) >= self._first
            at_random = rng.random() < sampling.random_share
            action, seed = int(rng.choice(game.legal_actions(state))), int(rng.integers(1 << 62))
            if is_root or not at_random:
                self._search.clear()
                choice = self._search.choose(state, Limit(simulations=sampling.simulations), seed=seed)
                action = action if at_random else choice.action
                if is_root:
                    self._keep(state, moves, rng)
            moves.append(action)
            state = game.play(state, action)
        self.games += 1

    def _keep(self, root: State, moves: list[int], rng: np.random.Generator) -> None:
        """Keeps a group of the last search's tree, unless it has too few different positions."""
        nodes = self._search.tree.nodes[: self._search.tree.num_nodes]
        alive = np.flatnonzero((nodes["visit_count"] > 0) & ((nodes["flags"] & TERMINAL) == 0))
        members: dict[int, tuple[list[int], State]] = {}
        for path in moves_below(self._search, rng.permutation(alive)[: 2 * MEMBERS]):
            state = self.game.play_moves(path, root)
            members.setdefault(self.game.hash(state), ([*moves, *path], state))
        group = list(members.values())[:MEMBERS]
        if len(group) < MEMBERS:
            return
        self._moves += [path for path, _ in group]
        self._values += self._label([state for _, state in group], rng)
        self._number.append(self.games)

    def _label(self, states: list[State], rng: np.random.Generator) -> list[float]:
        if self._exact is not None:
            return self._exact.of(states).tolist()
        values = []
        for state in states:
            self._judge.clear()
            limit = Limit(simulations=self.sampling.label_simulations or 1000)
            values.append(self._judge.choose(state, limit, seed=int(rng.integers(1 << 62))).value)
        return np.array(values, np.float64).tolist()

    def save(self, path: Path) -> None:
        """Writes all groups, whole or not at all."""
        groups = self.groups()
        arrays = {name: getattr(groups, name) for name in ("offset", "actions", "value", "number")}
        about = {"sampling": asdict(self.sampling), "sources": self._sources, "games": self.games}
        storage.save(path, KIND, about, arrays)

    def load(self, path: Path) -> None:
        """Resumes from a file of `save`; raises InvalidFile if it is damaged, or of another sampling or source file."""
        about, arrays = storage.load(path, KIND)
        with storage.reading(path):
            self._take_up(path, about, arrays)

    def _take_up(self, path: Path, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        if about["sampling"] != asdict(self.sampling):
            raise InvalidFile(f"{path} holds positions of another sampling: name another folder")
        check_sources(path, about, self._sources, what="a game or search")
        none = self.groups()
        storage.check_form(arrays, {name: getattr(none, name) for name in ("actions", "value", "number")})
        offset, groups = arrays["offset"], len(arrays["value"])
        lengths, games = np.diff(offset), int(about["games"])
        if (len(lengths), len(arrays["number"])) != (groups * MEMBERS, groups) or (lengths < 0).any():
            raise ValueError("its groups do not fit together")
        if offset[0] != 0 or offset[-1] != len(arrays["actions"]):
            raise ValueError("its groups do not fit together")
        if not 0 <= games < 1 << 62 or (np.abs(arrays["value"]) > 1.0).any():
            raise ValueError("a number is out of range")
        start = words_of(self.game, self.game.initial_state().reshape(1))[0]
        record, buffer = self.game.record(), self.game.new_buffer()
        legal = np.zeros(self.game.num_actions + SLACK, np.int32)
        moves = [arrays["actions"][a:b] for a, b in pairwise(offset)]
        if any(legal_length(record, start, path, buffer, legal) != len(path) for path in moves):
            raise ValueError("a move of its positions is illegal")
        self._moves = [path.tolist() for path in moves]
        self._values = arrays["value"].ravel().tolist()
        self._number, self.games = arrays["number"].tolist(), games


def _exact(game: Game) -> ExactValues | None:
    try:
        return exact_values(game) if is_line_game(game) else None
    except TooLarge:
        return None
