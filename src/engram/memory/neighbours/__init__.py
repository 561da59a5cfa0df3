"""Neighbour indices by name."""

from __future__ import annotations

from collections.abc import Callable

from engram.memory.neighbours.exact import Exact
from engram.memory.neighbours.index import NeighbourIndex
from engram.memory.neighbours.simhash import SimHash
from engram.memory.neighbours.sketch import Sketch

INDICES: dict[str, Callable[..., NeighbourIndex]] = {kind.name: kind for kind in (Exact, SimHash, Sketch)}
"""What `neighbours=` of a store and of the memory presets may name."""
