"""Neighbour indices by name: the built-in ones, and every subclass of `NeighbourIndex` that a user defines."""

from engram.memory.neighbours.exact import Exact
from engram.memory.neighbours.index import INDICES, NeighbourIndex, make_index
from engram.memory.neighbours.simhash import SimHash
from engram.memory.neighbours.sketch import Sketch

__all__ = ["INDICES", "Exact", "NeighbourIndex", "SimHash", "Sketch", "make_index"]
