"""Processor time of a move with each search for neighbours, and SimHash's candidates.

    python experiments/memory_over_rave/cost.py simhash
    python experiments/memory_over_rave/cost.py sketch

Both players search the same game of 42 moves, which they play in turns, 1,000 simulations a move.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from players import baseline, memory

from engram import Limit, Search, game
from engram.memory.neighbours.simhash import BITS, TABLES

MOVES, QUERIES = 42, 300


def main(neighbours: str) -> None:
    go = game("go:19")
    state = go.initial_state()
    searches = [Search(go, baseline()), Search(go, memory(neighbours=neighbours))]
    seconds = [0.0, 0.0]
    for number in range(MOVES):
        start = time.process_time()
        result = searches[number % 2].run(state, Limit(simulations=1000), seed=number)
        seconds[number % 2] = time.process_time() - start
        for search in searches:
            search.advance(result.action)
        state = go.play(state, result.action)
    print(f"last move: baseline {seconds[0]:.2f} s, memory with {neighbours} {seconds[1]:.2f} s")
    if neighbours == "simhash":
        (store,) = [extension.store for extension in searches[1].extensions if extension.store is not None]
        codes = store.index.arrays["codes"].reshape(TABLES, -1)[:, : int(store.index.header["size"][0])]
        print(f"candidates of {QUERIES} stored positions, mean: {num_candidates(codes):,.0f} of {codes.shape[1]:,}")


def num_candidates(codes: np.ndarray) -> float:
    """Mean number of entries within one bit of an entry in some table; codes: (tables, entries)."""
    ones = np.array([code.bit_count() for code in range(1 << BITS)], np.uint8)
    queries = np.random.default_rng(0).choice(codes.shape[1], QUERIES, replace=False)
    near = np.zeros((QUERIES, codes.shape[1]), bool)
    for table in codes:
        near |= ones[table[queries][:, None] ^ table[None, :]] <= 1
    return float(near.sum(1).mean())


if __name__ == "__main__":
    main(sys.argv[1])
