"""What a backend has answered, by what it saw: equal planes are computed once."""

from __future__ import annotations

import numpy as np

from engram.errors import InvalidParameter
from engram.native.jit import compiled
from engram.networks.backend import Backend, BackendWrapper, each_part
from engram.networks.encoding import rows_of
from engram.rng import mix
from engram.search.evaluation import Evaluation

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@compiled
def _key_all(planes, keys):
    for row in range(len(planes)):
        key = np.uint64(planes.shape[1])
        for word in planes[row]:
            key = (key ^ np.uint64(word)) * _FACTOR
            key ^= key >> np.uint64(32)  # or the high bits, where numbers like 1.0 differ, would never reach the low
        key = mix(key)
        keys[row] = key if key != np.uint64(0) else np.uint64(1)


def keys_of(planes: np.ndarray) -> np.ndarray:
    """Keys (B,) of planes (B, …) float32, never 0; different planes share one by a chance of 2⁻⁶⁴."""
    keys = np.empty(len(planes), np.uint64)
    _key_all(rows_of(np.ascontiguousarray(planes)).view(np.uint32), keys)
    return keys


class EvaluationCache(BackendWrapper):
    """A backend that keeps another's answers; a new one takes the place of an old one.

    Evaluators that ask the same cache share its answers. In front of fixed batches no answer changes by it, to the
    last bit: such a backend gives equal planes equal answers.

    Args:
      size: answers kept, ≥ 1.

    Attributes:
      asked, computed: positions so far, and those of them that the backend had to compute.
    """

    def __init__(self, backend: Backend, size: int):
        super().__init__(backend)
        if size < 1:
            raise InvalidParameter(f"a cache keeps 1 answer or more, not {size}")
        self.asked = self.computed = 0
        self._keys = np.zeros(size, np.uint64)  # of the answer in each place; 0: none
        self._kept: Evaluation | None = None

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`."""
        self.asked += len(planes)
        keys = keys_of(planes)
        places = (keys % np.uint64(len(self._keys))).astype(np.int64)
        misses = np.flatnonzero(self._keys[places] != keys)
        if self._kept is not None and not len(misses):
            return each_part(lambda kept: kept[places], self._kept)
        _, first, same = np.unique(keys[misses], return_index=True, return_inverse=True)
        fresh = self.backend.forward(planes[misses[first]])
        self.computed += len(first)
        if self._kept is None:
            self._kept = each_part(lambda new: np.zeros((len(self._keys), *new.shape[1:]), np.float32), fresh)
        answer = each_part(lambda kept: kept[places], self._kept)
        each_part(lambda whole, new: _put(whole, misses, new[same]), answer, fresh)
        free = places[misses[first]]
        self._keys[free] = 0  # an interruption then leaves no key over another's answer
        each_part(lambda kept, new: _put(kept, free, new), self._kept, fresh)
        self._keys[free] = keys[misses[first]]
        return answer


def _put(whole: np.ndarray, rows: np.ndarray, part: np.ndarray) -> np.ndarray:
    whole[rows] = part
    return whole
