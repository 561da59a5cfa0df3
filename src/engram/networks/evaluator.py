"""A network as a search's evaluator: batches of positions in, policies, values and embeddings out."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray, int64

from engram.errors import InvalidParameter
from engram.games.game import Game
from engram.games.record import game_dtype
from engram.native.intrinsics import call, pointer_at, record_at
from engram.native.jit import Callback
from engram.networks.architectures import check_fit
from engram.networks.backend import Backend, check_backend, native_of
from engram.networks.encoding import Encoder, encode_batch
from engram.search.evaluation import CompiledEvaluator, Evaluation, KernelEvaluator

request_dtype = np.dtype(
    [
        ("game", game_dtype),
        ("history", np.int64),
        ("state_bytes", np.int64),
        ("planes", np.int64),  # address of room for a batch
        ("num_planes", np.int64),  # float32 numbers per position
        ("forward", np.int64),  # the network's C function and its first argument (`NativeBackend`)
        ("network", np.int64),
        ("asked", np.int64),  # address of the number of positions so far
    ]
)


class NetworkEvaluator(KernelEvaluator):
    """Evaluates batches of a game's positions with a network.

    Args:
      backend: of the network. game: one that the network fits.

    Values are for the player to move. Without a value head there are no values, and rollouts must value the leaves
    (`leaf_value="rollout"`). Several threads may ask at once.

    Raises:
      InvalidParameter: the network is for another game.
    """

    def __init__(self, backend: Backend, game: Game):
        check_backend(backend)
        configuration = backend.architecture.configuration
        check_fit(configuration, game, configuration.network)
        self.backend = backend
        self._asked = np.zeros(1, np.int64)
        self._encode = Encoder(game, configuration.history)
        self._rooms = threading.local()  # an array for each thread, because new memory costs more than the planes

    @property
    def asked(self) -> int:
        """The number of positions asked about so far."""
        return int(self._asked[0])

    def evaluate(self, states: Sequence[Any] | np.ndarray) -> Evaluation:
        """Policy (B, num_actions), value (B,) or None, and embedding (B, D) or None of B positions; B = 1 for a state.

        Raises:
          InvalidParameter: the states are of another game. OperatorError: the game's `encode` failed.
        """
        states = np.atleast_1d(states)
        room = getattr(self._rooms, "planes", None)
        if room is None or len(states) > len(room):
            room = self._rooms.planes = np.empty((len(states), *self._encode.shape), np.float32)
        planes = self._encode(states, room)
        self._asked += len(planes)
        return self.backend.forward(planes)

    def check_game(self, game: Game) -> None:
        """Raises InvalidParameter if a game's sizes differ from the network's."""
        if not game.is_like(self._encode.game):
            raise InvalidParameter(f"this evaluator is for {self._encode.game.name}, and not for {game.name}")

    def compile(self, game: Game, batch: int) -> CompiledEvaluator | None:
        """See `KernelEvaluator`; None unless engram's own machine code computes the network."""
        self.check_game(game)
        native, encode = native_of(self.backend), self._encode
        if native is None or type(self) is not NetworkEvaluator:
            return None
        planes, request = np.empty((batch, math.prod(encode.shape)), np.float32), np.zeros(1, request_dtype)
        for name, number in {
            "game": encode.record[0], "history": encode.steps, "state_bytes": game.state_bytes,
            "planes": planes.ctypes.data, "num_planes": planes.shape[1], "forward": native.address,
            "network": native.argument, "asked": self._asked.ctypes.data,
        }.items():  # fmt: skip
            request[name] = number
        return CompiledEvaluator(
            _ANSWER.address, int(request.ctypes.data), native.has_value, native.embedding_size, native.lock,
            fault="its encode failed", kept=(self, native, planes, request),
        )  # fmt: skip


def _answer(argument, states, count, values, weights, embeddings):  # type: ignore[no-untyped-def]
    request = record_at(argument, request_dtype)
    rows = carray(pointer_at(states, np.uint8), (count, request.state_bytes))
    planes = carray(pointer_at(request.planes, np.float32), (count, request.num_planes))
    if encode_batch(request.game, request.history, rows, planes) < 0:
        return -1
    pointer_at(request.asked, np.int64)[0] += count
    return call(request.forward, (request.network, request.planes, count, weights, values, embeddings))


_ANSWER = Callback(_answer, int64, (int64,) * 6)
