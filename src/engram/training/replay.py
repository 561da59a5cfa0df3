"""The replay window of self-play: bounded, sampled at random, augmented by symmetries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engram import storage
from engram.games.game import Game
from engram.networks.symmetry import symmetry_tables, turned, turned_policy


class Examples(NamedTuple):
    """Positions to learn from, of one or more games.

    Attributes:
      planes: (N, C, H, W) floats. policy: (N, num_actions) float32, shares of visits by action, or (N,) actions played.
      value: (N,) float32 in [-1, 1], for the player to move; nan: not to be learnt.
    """

    planes: np.ndarray
    policy: np.ndarray
    value: np.ndarray


class Replay:
    """The newest positions of self-play, up to a number.

    Args:
      game: the game. planes_shape: (C, H, W) of the network's input. capacity: positions kept, ≥ 1.
    """

    def __init__(self, game: Game, planes_shape: tuple[int, int, int], capacity: int):
        self.capacity = capacity
        self.added = 0
        planes, policy = (
            np.zeros((capacity, *planes_shape), np.float16),
            np.zeros((capacity, game.num_actions), np.float32),
        )
        self._held = Examples(planes, policy, np.zeros(capacity, np.float32))
        self._cells, self._actions = symmetry_tables(game)

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, examples: Examples) -> None:
        """Adds positions, which replace the oldest."""
        rows = (self.added + np.arange(len(examples.value))) % self.capacity
        for held, new in zip(self._held, examples, strict=True):
            held[rows[-self.capacity :]] = new[-self.capacity :]
        self.added += len(examples.value)

    def draw(self, batch: int, rng: np.random.Generator) -> Examples:
        """Positions drawn uniformly with replacement, in float32, each under a random symmetry."""
        rows = rng.integers(0, len(self), batch)
        turns = rng.integers(0, len(self._cells), batch)
        planes = turned(self._held.planes[rows].astype(np.float32), turns, self._cells)
        policy = turned_policy(self._held.policy[rows], self._actions[turns])
        return Examples(planes, policy, self._held.value[rows])

    def arrays(self) -> dict[str, np.ndarray]:
        """All positions held, oldest first, for a checkpoint."""
        order = (self.added - len(self) + np.arange(len(self))) % self.capacity
        return {name: held[order] for name, held in self._held._asdict().items()}

    def restore(self, arrays: dict[str, np.ndarray], added: int) -> None:
        """Restores the state of `arrays` after `added` positions.

        Raises:
          LookupError, ValueError: they have another form, or there are more than were added.
        """
        storage.check_form(arrays, self.arrays())
        lengths = {len(array) for array in arrays.values()}
        if len(lengths) != 1 or max(lengths) != min(added, self.capacity):
            raise ValueError("its window does not fit together")
        self.added = added - len(arrays["value"])
        self.add(Examples(**{name: arrays[name] for name in Examples._fields}))
