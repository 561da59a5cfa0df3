"""Two threads for t against one thread for 2t: python experiments/two_threads/run.py [games]

The same command again goes on where it was stopped. Two free cores are needed: only one player thinks at a time. The
rows of 0.05 s take 85 minutes each for 1,200 games, and those of 0.5 s some 13 hours.
"""

from __future__ import annotations

import sys
from pathlib import Path

from engram import match

SETTINGS = [("go:9", 0.05), ("go:9", 0.5), ("connect_four", 0.05)]
PLAYERS = {"tree": "uct(threads=2)", "root": "uct(parallel=root, threads=2)"}

if __name__ == "__main__":
    games = int(sys.argv[1]) if len(sys.argv) > 1 else 1200
    for name, seconds in SETTINGS:
        for kind, player in PLAYERS.items():
            result = match(
                name,
                player,
                "uct",
                games=games,
                a_seconds=seconds,
                b_seconds=2 * seconds,
                seed=31,
                resign=0.8,
                workers=1,
                database=Path(__file__).with_name("two_threads.sqlite"),
            )
            print(f"{name}, one {kind}, {seconds} s against {2 * seconds} s\n{result}\n", flush=True)
