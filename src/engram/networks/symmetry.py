"""Planes and policies under a game's symmetries, and a backend around another that turns them at random."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from engram.errors import InvalidParameter
from engram.games.game import Game
from engram.native.jit import compiled
from engram.networks.backend import Backend, BackendWrapper
from engram.networks.encoding import rows_of
from engram.networks.evaluation_cache import keys_of
from engram.rng import mix
from engram.search.evaluation import Evaluation


def symmetry_tables(game: Game) -> tuple[np.ndarray, np.ndarray]:
    """The places to which S symmetries take cells (S, H·W) and actions (S, num_actions), int64."""
    cells = np.array([symmetry.cells for symmetry in game.symmetries], np.int64)
    actions = np.array([symmetry.actions for symmetry in game.symmetries], np.int64)
    return cells, actions


@compiled
def _turn_all(planes, turns, cells, turned):
    area = np.uint64(cells.shape[1])
    for row in range(len(planes)):
        source, target, places = planes[row], turned[row], cells[turns[row]]
        for first in range(np.uint64(0), np.uint64(len(source)), area):
            for cell in range(area):
                target[first + np.uint64(places[cell])] = source[first + cell]


def turned(planes: np.ndarray, turns: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Planes (B, C, H, W), each position under a symmetry; a copy.

    Args:
      turns: (B,) numbers of symmetries. cells: of `symmetry_tables`.

    Raises:
      InvalidParameter: the symmetries are of another board, or a number does not name one.
    """
    if math.prod(planes.shape[2:]) != cells.shape[1]:  # compiled code trusts the sizes
        raise InvalidParameter(f"these symmetries are not those of a board of {planes.shape[2:]}")
    if np.shape(turns) != (len(planes),) or not ((turns >= 0) & (turns < len(cells))).all():
        raise InvalidParameter(f"turns must be {len(planes)} numbers, 0 to {len(cells) - 1}, not {turns}")
    result = np.empty(planes.shape, planes.dtype)
    _turn_all(rows_of(np.ascontiguousarray(planes)), turns, cells, rows_of(result))
    return result


def turned_policy(policy: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Policies (B, num_actions), each under a symmetry; `actions` (B, num_actions) has the places of its actions."""
    result = np.empty(policy.shape, np.float32)
    np.put_along_axis(result, actions, policy, 1)
    return result


@compiled
def _draw(keys, seed, number, turns):
    # By position: the same position is always turned in the same way, whatever else is in the batch.
    for row in range(len(keys)):
        turns[row] = np.int64(mix(keys[row] ^ seed) % np.uint64(number))


class RandomSymmetry(BackendWrapper):
    """Shows a backend each position turned at random, and turns the policy back.

    Args:
      game: symmetries are drawn from the game's. seed: together with a position's planes, decides its symmetry.

    Raises:
      InvalidParameter: the backend gives an embedding; embeddings under different symmetries are not comparable.
    """

    def __init__(self, backend: Backend, game: Game, seed: int = 0):
        super().__init__(backend)
        if backend.layer is not None:
            raise InvalidParameter("embeddings of positions that are turned at random are not comparable")
        self._cells, self._actions = symmetry_tables(game)
        self._seed = np.uint64(mix(np.uint64(seed & 0xFFFFFFFFFFFFFFFF)))

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`; actions are those of the board before it was turned."""
        turns = np.zeros(len(planes), np.int64)
        _draw(keys_of(planes), self._seed, len(self._cells), turns)
        answer = self.ask(turned(planes, turns, self._cells))
        if answer.policy is None:
            return answer
        if answer.policy.shape != (shape := (len(planes), self._actions.shape[1])):
            raise InvalidParameter(f"a policy of shape {answer.policy.shape}, not {shape}, cannot be turned back")
        return replace(answer, policy=np.take_along_axis(answer.policy, self._actions[turns], 1))
