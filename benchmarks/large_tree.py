"""A tree of ten million nodes: does it work, how large is it, how fast is it still?

python benchmarks/large_tree.py [nodes]
"""

from __future__ import annotations

import resource
import sys

import engram


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    game = engram.game("connect_four")
    search = engram.Search(game, "uct", max_nodes=wanted)
    result = None
    while result is None or not result.tree_full:
        result = search.run(game.initial_state(), engram.Limit(simulations=1_000_000), seed=0)
        print(f"{result.nodes:>12,} nodes  {result.simulations / result.seconds:>12,.0f} simulations/s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    size = result.node_bytes
    print(f"{size / result.nodes:.0f} bytes a node, {size / 1e6:,.0f} MB; peak of the process {peak / 1e6:,.0f} MB")
    print(result)
    search.advance(result.action)
    print(f"after the move {search.tree.num_nodes:,} nodes are kept")


if __name__ == "__main__":
    main()
