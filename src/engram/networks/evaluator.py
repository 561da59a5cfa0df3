"""A network as a search's evaluator: batches of positions in, policies, values and embeddings out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engram.errors import InvalidParameter, OperatorError
from engram.games.game import Game
from engram.native.intrinsics import call
from engram.native.jit import compiled
from engram.networks.architectures import Network, fit
from engram.networks.encoding import encode_unknown, encoder, symmetry_tables
from engram.networks.evaluation_cache import Answers
from engram.rng import mix
from engram.search.evaluation import Evaluation

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@compiled
def _hash_all(function, states, stride, count, keys):
    for row in range(count):
        keys[row] = np.uint64(call(function, (states + row * stride,)))


@compiled
def _turns(keys, seed, number, turns):
    # By position and not by draw: the same position is seen the same way whatever else is in the batch.
    for row in range(len(keys)):
        turns[row] = np.int64(mix(keys[row] ^ seed) % np.uint64(number))


def fastest_precision() -> str:
    """`bfloat16` where this machine computes with it, else `float32`."""
    if torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    able = torch.backends.cpu.get_cpu_capability()
    has = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return "bfloat16" if able == "AVX512" and has() else "float32"


class NetworkEvaluator:
    """Answers batches of a game's positions with a network.

    Args:
      net: the network. game: whose positions; it must have the planes and actions of the network.
      batch: positions computed at once, ≥ 1; fewer are filled up, more are taken in parts. With a fixed batch the
        answer to a position does not depend on what else is asked, to the last bit.
      precision: `float32`, `bfloat16`, or `auto`: what is faster here.
      embedding: the layer whose output is answered too (`net.layers`), or None.
      symmetry: see each position turned at random, by its hash and `seed`; not with an embedding.
      cache: answers kept, by what the network sees; 0: none. Or the `answers` of another evaluator of this network,
        layer, precision and batch, to share them.
      device: `cpu`, `cuda`, or `auto`.

    Attributes:
      answers: what is kept of its answers.
      asked, computed: positions so far, and those of them that went through the network.

    Values are for the player to move; a network without a value head gives none, and serves presets whose leaves are
    valued by rollouts. torch's computing threads are set to one for the process: many small
    batches gain nothing from more, and one repeats bit for bit.

    Raises:
      InvalidParameter: a network of another game, or an option out of range.
    """

    def __init__(
        self,
        net: Network,
        game: Game,
        *,
        batch: int = 64,
        precision: str = "auto",
        embedding: str | None = None,
        symmetry: bool = False,
        cache: int | Answers = 0,
        device: str = "auto",
        seed: int = 0,
    ):
        fit(net.configuration, game, net.configuration.network)
        if batch < 1 or (isinstance(cache, int) and cache < 0):
            raise InvalidParameter(f"batch is 1 or more and cache 0 or more, not {batch} and {cache}")
        self.embedding_size = net.size_of(embedding) if embedding is not None else 0
        if embedding is not None and symmetry:
            raise InvalidParameter("positions seen turned at random have embeddings that cannot be compared")
        chosen = fastest_precision() if precision == "auto" else precision
        if chosen not in PRECISIONS:
            raise InvalidParameter(f"precision is auto, {' or '.join(PRECISIONS)}, not {precision!r}")
        if device == "cuda" and not torch.cuda.is_available():
            raise InvalidParameter("there is no CUDA device here")
        torch.set_num_threads(1)
        shape = net.configuration
        self.game = game
        self.batch = batch
        self.precision = chosen
        self.embedding = embedding
        self._valued = net.value is not None
        self.asked = 0
        self.computed = 0
        automatic = "cuda" if torch.cuda.is_available() else "cpu"
        self._device = torch.device(automatic if device == "auto" else device)
        self._type = PRECISIONS[chosen]
        self._planes = torch.zeros(batch, shape.planes, shape.height, shape.width)
        self._flat = self._planes.numpy().reshape(batch, -1)
        self._scratch = np.zeros(self._flat.shape[1], np.float32)
        self._encode, self._history = encoder(game, shape.history)
        self._cells, self._actions = symmetry_tables(game)
        self._symmetry = symmetry and len(self._cells) > 1
        self._seed = np.uint64(mix(np.uint64(seed & 0xFFFFFFFFFFFFFFFF)))
        self._net = net.fused().to(self._device, self._type).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        widths = tuple(len(row) if row.ndim else 0 for row in (part[0] for part in self._compute()))
        source = (net, embedding, chosen, batch, self._device)
        self.answers = cache if isinstance(cache, Answers) else Answers(cache, widths, source)
        if self.answers.source != source:
            raise InvalidParameter("answers are shared by evaluators of one network, layer, precision and batch alone")

    def evaluate(self, states: Sequence[Any] | np.ndarray) -> Evaluation:
        """Policy, value and (where one was asked for) embedding of B positions.

        Numbers that are not finite are passed on: a search looks at each and stops with an error.

        Raises:
          OperatorError: the game's `encode` failed.
        """
        states = np.ascontiguousarray(states)
        if states.dtype != self.game.state_dtype:
            raise InvalidParameter(f"these are not states of {self.game.name}")
        count = len(states)
        self.asked += count
        turns = np.zeros(count, np.int64)
        if self._symmetry:
            hashes = np.zeros(count, np.uint64)
            _hash_all(self.game.address("hash"), states.ctypes.data, states.itemsize, count, hashes)
            _turns(hashes, self._seed, len(self._cells), turns)
        found = [np.zeros((count, width) if width else count, np.float32) for width in self.answers.widths]
        rows, keys = np.zeros((2, count), np.int64), np.zeros((2, count), np.uint64)
        row = 0
        while row < count:
            row, fresh, hits = encode_unknown(
                self._encode, self._history, states.ctypes.data, states.itemsize, count, row, turns, self._cells,
                self._scratch, self._flat, self.answers.keys, rows, keys,
            )  # fmt: skip
            if row < 0:
                raise OperatorError(f"{self.game.name}: its encode failed")
            if hits:
                _lay(found, rows[1, :hits], self.answers.read(keys[1, :hits]))
            if fresh:
                self.computed += fresh
                answers = [part[:fresh] for part in self._compute()]
                _lay(found, rows[0, :fresh], answers)
                if len(self.answers.keys):
                    self.answers.keep(keys[0, :fresh], answers)
        if self._symmetry:
            found[0] = np.take_along_axis(found[0], self._actions[turns], 1)
        policy, *rest = found
        value = rest.pop(0) if self._valued else None
        return Evaluation(value, policy, rest[0] if rest else None)

    def forward(self) -> None:
        """The network alone, on a batch that lies ready; what a benchmark compares with."""
        with torch.inference_mode():
            self._net(self._ready, self.embedding)

    @cached_property
    def _ready(self) -> Tensor:
        return self._planes.to(self._device, self._type, memory_format=torch.channels_last)

    def _compute(self) -> list[np.ndarray]:
        with torch.inference_mode():
            # Narrowing first and turning then is twice as fast as both at once.
            planes = self._planes.to(self._device, self._type).contiguous(memory_format=torch.channels_last)
            logits, value, inner = self._net(planes, self.embedding)
            answers = [torch.softmax(logits.float(), 1), value, inner]
            return [tensor.float().cpu().numpy() for tensor in answers if tensor is not None]


def _lay(whole: list[np.ndarray], rows: np.ndarray, parts: list[np.ndarray]) -> None:
    for all_rows, part in zip(whole, parts, strict=True):
        all_rows[rows] = part
