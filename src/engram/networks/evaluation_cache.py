"""What a network has answered, by what it saw: equal planes are computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

from engram.native.jit import compiled
from engram.rng import mix

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@compiled
def key_of(planes):
    """A key of planes (float32), never 0; different ones share one by a chance of 2⁻⁶⁴."""
    key = np.uint64(len(planes))
    for word in planes.view(np.uint32):
        key = (key ^ np.uint64(word)) * _FACTOR
        key ^= key >> np.uint64(32)  # or the high bits, where numbers like 1.0 differ, would never reach the low ones
    key = mix(key)
    return key if key != np.uint64(0) else np.uint64(1)


@compiled(inline=True)
def place_of(key, size):
    """Where in a table of so many places a key belongs."""
    return key % np.uint64(size)


@compiled
def _places(keys, size):
    places = np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        places[row] = place_of(keys[row], size)
    return places


class Answers:
    """Answers of one network, kept by the planes they answer; a new one takes the place of an old one.

    Evaluators of the same network, layer, precision and batch may share them: a network gives equal planes of equal
    batches the same answer to the last bit, so that nothing but the time shows who has asked before.

    Args:
      size: answers kept, ≥ 0. widths: numbers of each part of an answer, 0 for a scalar.
      source: what the answers depend on beside the planes; equal for all who share them.

    Attributes:
      keys: (size,) of what is kept, 0 where nothing is.
    """

    def __init__(self, size: int, widths: tuple[int, ...], source: tuple[Any, ...]):
        self.keys = np.zeros(size, np.uint64)
        self.widths, self.source = widths, source
        self._parts = [np.zeros((size, width) if width else size, np.float32) for width in widths]

    def read(self, keys: np.ndarray) -> list[np.ndarray]:
        """The parts of the answers under some keys, all of which are kept."""
        places = _places(keys, len(self.keys))
        return [part[places] for part in self._parts]

    def keep(self, keys: np.ndarray, answers: list[np.ndarray]) -> None:
        """Keeps answers, the parts of each in row k under `keys[k]`."""
        places = _places(keys, len(self.keys))
        self.keys[places] = 0  # whoever is interrupted leaves no key over another's answer
        for part, new in zip(self._parts, answers, strict=True):
            part[places] = new
        self.keys[places] = keys
