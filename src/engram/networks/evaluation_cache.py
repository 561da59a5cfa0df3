"""A cache of a backend's answers by the planes of a position: equal planes are computed once."""

from __future__ import annotations

import threading

import numpy as np

from engram.errors import check_whole
from engram.native.jit import compiled
from engram.networks.backend import Backend, BackendWrapper, each_part
from engram.networks.encoding import rows_of
from engram.rng import GOLDEN, mix
from engram.search.evaluation import Evaluation


@compiled
def _key_all(planes, keys):
    for row in range(len(planes)):
        key = np.uint64(planes.shape[1])
        for word in planes[row]:
            key = (key ^ np.uint64(word)) * GOLDEN
            key ^= key >> np.uint64(32)  # numbers such as 1.0 differ in high bits, which must reach the low ones
        key = mix(key)
        keys[row] = key if key != np.uint64(0) else np.uint64(1)


def keys_of(planes: np.ndarray) -> np.ndarray:
    """Keys (B,) uint64 of planes (B, …) float32, never 0; two different planes share a key with probability 2⁻⁶⁴."""
    keys = np.empty(len(planes), np.uint64)
    _key_all(rows_of(np.ascontiguousarray(planes)).view(np.uint32), keys)
    return keys


class EvaluationCache(BackendWrapper):
    """A backend that keeps the answers of another; a new answer takes the place of an old one.

    Several evaluators may share a cache, and their threads then wait for each other. Around fixed batches of a multiple
    of eight, or around an independent backend, a cache does not change an answer by a single bit: equal planes have
    equal answers.

    Args:
      size: number of answers to keep, ≥ 1.

    Attributes:
      asked, computed: the number of positions so far, and the number that the backend computed.

    Raises:
      InvalidParameter: the size is below 1.
    """

    def __init__(self, backend: Backend, size: int):
        super().__init__(backend)
        check_whole("the number of answers in a cache", size, 1)
        self.asked = self.computed = 0
        self._keys = np.zeros(size, np.uint64)  # of the answer in each place; 0: none
        self._answers: Evaluation | None = None
        self._lock = threading.Lock()

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`."""
        with self._lock:
            return self._forward(planes)

    def _forward(self, planes: np.ndarray) -> Evaluation:
        self.asked += len(planes)
        keys = keys_of(planes)
        places = (keys % np.uint64(len(self._keys))).astype(np.int64)
        misses = np.flatnonzero(self._keys[places] != keys)
        if self._answers is not None and not len(misses):
            return each_part(lambda rows: rows[places], self._answers)
        _, first, inverse = np.unique(keys[misses], return_index=True, return_inverse=True)
        new = self.ask(planes[misses[first]])
        self.computed += len(first)
        if self._answers is None:
            self._answers = each_part(lambda part: np.zeros((len(self._keys), *part.shape[1:]), np.float32), new)
        answer = each_part(lambda rows: rows[places], self._answers)
        each_part(lambda rows, part: _put(rows, misses, part[inverse]), answer, new)
        targets = places[misses[first]]
        self._keys[targets] = 0  # an interruption then leaves no key with another key's answer
        each_part(lambda rows, part: _put(rows, targets, part), self._answers, new)
        self._keys[targets] = keys[misses[first]]
        return answer


def _put(rows: np.ndarray, places: np.ndarray, part: np.ndarray) -> np.ndarray:
    rows[places] = part
    return rows
