"""A memory for SameGame: positions are compared by how many tiles of each colour stand in each third of the columns."""

from __future__ import annotations

from dataclasses import replace

import engram
from engram.memory.features import Features
from engram.memory.similar_positions import remembering

COLOURS, PARTS = 5, 3
NUMBERS = COLOURS * PARTS + 1


def tiles(state, numbers):
    """The tiles of each colour and part of the board, and a constant."""
    total = state.rows * state.columns
    for cell in range(total):
        colour = state.cells[cell]
        if colour > 0:
            numbers[(colour - 1) * PARTS + cell * PARTS // total] += 0.1
    numbers[COLOURS * PARTS] = 2.0
    return 0


def remembering_tiles(
    exploration: float = 0.02, equivalence: float = 1000.0, temperature: float = 0.01, capacity: int = 1000,
    num_neighbours: int = 50,
) -> engram.presets.Preset:  # fmt: skip
    """UCT with a memory that compares tiles."""
    memory = remembering(
        features=lambda game: Features(game, NUMBERS, own=tiles, num_own=NUMBERS), equivalence=equivalence,
        temperature=temperature, capacity=capacity, num_neighbours=num_neighbours, neighbours="exact",
    )  # fmt: skip
    return replace(engram.presets.uct(exploration=exploration), extensions=(memory,))
