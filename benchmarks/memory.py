"""Speed and recall of the memory: 10,000 entries, M = 50, one thread.

    python benchmarks/memory.py [--capacity 10000] [--queries 1000]
    python benchmarks/memory.py --game go:9 --network go9 --layer block4 --dimensions 512

The features are those of the positions that a search of the game meets, hand-made or a network's: drawn
at random, some are stored and the others asked. Recall@50 is against `exact`, and a row as near as the
exact list's last counts as found. Rates are per second; `adds` fill an empty store, `replaces` a full one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import engram
from engram.memory.store import Store

NUM_NEIGHBOURS = 50


def real_features(name: str, network: str, dimension: int, count: int) -> np.ndarray:
    """φ of `count` positions in the order in which a search met them."""
    game = engram.game(name)
    search = engram.Search(game, f"memory_uct({network}capacity={count}, dimension={dimension}, num_neighbours=1)")
    search.run(game.initial_state(), engram.Limit(simulations=2 * count), seed=0)
    store = search.extensions[0].store
    assert len(store) == count
    return store.features.copy()


def rate(count: int, work: Callable[..., object], *arguments: object, **options: object) -> float:
    begin = time.perf_counter()
    work(*arguments, **options)
    return count / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capacity", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--network", help="compare by a layer of this one; default hand-made features")
    parser.add_argument("--layer", help="of the network")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[512, 4096])
    options = parser.parse_args()
    network = f"network='{options.network}', " if options.network else ""
    network += f"layer={options.layer}, " if options.layer else ""
    capacity, queries = options.capacity, options.queries
    print("   D  neighbours       queries/s  compared  recall@50     adds/s  replaces/s    updates/s")
    for dimension in options.dimensions:
        rows = real_features(options.game, network, dimension, capacity + queries)
        order = np.random.default_rng(0).permutation(len(rows))
        stored, questions = rows[order[:capacity]], rows[order[capacity:]]
        truth = np.zeros(0)
        for name, settings in (
            ("exact", {}),
            ("simhash", {}),
            ("sketch", {"num_candidates": 100}),
            ("sketch", {"num_candidates": 200}),
            ("sketch", {"num_candidates": 300}),
            ("sketch", {"num_candidates": 400}),
        ):
            store = Store(dimension, capacity, neighbours=name, **settings)
            store.add_all(np.arange(10), stored[:10])
            store.query_all(questions[:1])
            store.clear()
            store.features[:] = 0  # the pages are there before the clock runs
            keys = np.arange(capacity)
            adds = rate(capacity, store.add_all, keys, stored)
            replaces = rate(capacity, store.add_all, keys + capacity, stored)
            which = np.random.default_rng(1).integers(0, capacity, 1_000_000)
            values = np.random.default_rng(2).uniform(-1, 1, len(which))
            updates = rate(len(which), store.update_all, which, values)
            number = queries if name != "exact" else min(queries, 200)
            asks = rate(number, store.query_all, questions[:number], num_neighbours=NUM_NEIGHBOURS)
            neighbours = store.query_all(questions[:200], num_neighbours=NUM_NEIGHBOURS)[0]
            compared = []
            cosines = questions[:200] @ store.features.T
            if name == "exact":
                truth = np.take_along_axis(cosines, neighbours.astype(np.int64), 1).min(axis=1)
            hits = sum(np.sum(cosines[k, row[row >= 0]] >= truth[k] - 1e-5) for k, row in enumerate(neighbours))
            for x in questions[:200]:
                store.query(x, num_neighbours=NUM_NEIGHBOURS)
                compared.append(int(store.header["num_compared"][0]))
            label = name + (f"({settings['num_candidates']})" if settings else "")
            print(
                f"{dimension:>4}  {label:<14}{asks:>12,.0f}{np.mean(compared):>10,.0f}"
                f"{hits / (len(neighbours) * NUM_NEIGHBOURS):>11.3f}{adds:>11,.0f}{replaces:>12,.0f}{updates:>13,.0f}"
            )


if __name__ == "__main__":
    main()
