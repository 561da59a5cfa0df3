"""A network as a search's evaluator: batches of positions in, policies, values and embeddings out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engram.games.game import Game
from engram.networks.architectures import check_fit
from engram.networks.backend import Backend
from engram.networks.encoding import Encoder
from engram.search.evaluation import Evaluation


class NetworkEvaluator:
    """Evaluates batches of a game's positions with a network.

    Args:
      backend: of the network. game: one that the network fits.

    Attributes:
      asked: number of positions so far.

    Values are for the player to move. Without a value head there are none, and rollouts value the leaves.

    Raises:
      InvalidParameter: a network of another game.
    """

    def __init__(self, backend: Backend, game: Game):
        configuration = backend.architecture.configuration
        check_fit(configuration, game, configuration.network)
        self.backend = backend
        self.asked = 0
        self._encode = Encoder(game, configuration.history)
        # Kept, because new memory costs more than the planes. One search asks an evaluator, from one thread at a time.
        self._planes = np.empty((0, *self._encode.shape), np.float32)

    def evaluate(self, states: Sequence[Any] | np.ndarray) -> Evaluation:
        """Policy (B, num_actions), value (B,) or None, and embedding (B, D) or None of B positions.

        Raises:
          InvalidParameter: states of another game. OperatorError: the game's `encode` failed.
        """
        states = np.asarray(states)
        if len(states) > len(self._planes):
            self._planes = np.empty((len(states), *self._encode.shape), np.float32)
        planes = self._encode(states, self._planes)
        self.asked += len(planes)
        return self.backend.forward(planes)
