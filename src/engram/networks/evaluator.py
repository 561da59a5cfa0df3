"""A network as a search's evaluator: batches of positions in, policies, values and embeddings out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray, int64

from engram.games.game import Game, game_dtype
from engram.native.intrinsics import call, pointer_at, record_at
from engram.native.jit import Callback
from engram.networks.architectures import check_fit
from engram.networks.backend import Backend
from engram.networks.encoding import Encoder, encode_batch
from engram.networks.native_backend import NativeBackend
from engram.search.evaluation import CompiledEvaluator, Evaluation

request_dtype = np.dtype(
    [
        ("game", game_dtype),
        ("history", np.int64),
        ("state_bytes", np.int64),
        ("planes", np.int64),  # address of room for a batch
        ("num_planes", np.int64),  # float32 numbers a position
        ("forward", np.int64),  # the network's C function and its first argument (`NativeBackend`)
        ("network", np.int64),
        ("asked", np.int64),  # positions so far
    ]
)


class NetworkEvaluator:
    """Evaluates batches of a game's positions with a network.

    Args:
      backend: of the network. game: one that the network fits.

    Attributes:
      compiled: the evaluator as compiled code calls it, if the backend is engram's own machine code; else None.

    Values are for the player to move. Without a value head there are none, and rollouts value the leaves.

    Raises:
      InvalidParameter: a network of another game.
    """

    def __init__(self, backend: Backend, game: Game):
        configuration = backend.architecture.configuration
        check_fit(configuration, game, configuration.network)
        self.backend = backend
        self._encode = Encoder(game, configuration.history)
        # Kept, because new memory costs more than the planes. One search asks an evaluator, from one thread at a time.
        self._planes = np.empty((0, *self._encode.shape), np.float32)
        self._request = np.zeros(1, request_dtype)
        native: NativeBackend | None = getattr(backend, "native", None)
        self.compiled = None if native is None else self._compiled(native)

    @property
    def asked(self) -> int:
        """The number of positions so far."""
        return int(self._request["asked"][0])

    def evaluate(self, states: Sequence[Any] | np.ndarray) -> Evaluation:
        """Policy (B, num_actions), value (B,) or None, and embedding (B, D) or None of B positions.

        Raises:
          InvalidParameter: states of another game. OperatorError: the game's `encode` failed.
        """
        states = np.asarray(states)
        self._reserve(len(states))
        planes = self._encode(states, self._planes)
        self._request["asked"] += len(planes)
        return self.backend.forward(planes)

    def _reserve(self, batch: int) -> None:
        """Makes room for the planes of a batch."""
        if batch > len(self._planes):
            self._planes = np.empty((batch, *self._encode.shape), np.float32)
            self._request["planes"] = self._planes.ctypes.data

    def _compiled(self, native: NativeBackend) -> CompiledEvaluator:
        encode, game = self._encode, self._encode.game
        for name, number in {
            "game": encode.record[0], "history": encode.steps, "state_bytes": game.state_bytes,
            "num_planes": math.prod(encode.shape), "forward": native.address, "network": native.argument,
        }.items():  # fmt: skip
            self._request[name] = number
        return CompiledEvaluator(
            _ANSWER.address, int(self._request.ctypes.data), native.has_value, native.embedding_size, native.lock,
            self._reserve,
        )  # fmt: skip


def _answer(argument, states, count, values, weights, embeddings):  # type: ignore[no-untyped-def]
    request = record_at(argument, request_dtype)
    rows = carray(pointer_at(states, np.uint8), (count, request.state_bytes))
    planes = carray(pointer_at(request.planes, np.float32), (count, request.num_planes))
    if encode_batch(request.game, request.history, rows, planes) < 0:
        return -1
    request.asked += count
    return call(request.forward, (request.network, request.planes, count, weights, values, embeddings))


_ANSWER = Callback(_answer, int64, (int64,) * 6)
