"""Simulations a second of this checkout against another one, in turns: A B A B …, medians and their ratio.

    python benchmarks/against.py OTHER_CHECKOUT/src [--rounds 9] [--seconds 1.0] [--only go]

One long-lived process a checkout measures all rows, so that each compiles once; the two take turns row by row, and
neither runs while the other does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROWS = {
    "tic_tac_toe uct": ("tic_tac_toe", "uct", 0),
    "connect_four uct": ("connect_four", "uct", 0),
    "go:9 uct": ("go:9", "uct", 0),
    "go:19 uct": ("go:19", "uct", 0),
    "go:9 rave": ("go:9", "rave(rollout=heavy)", 0),
    "go:9 memory_uct": ("go:9", "memory_uct", 0),
    "go:9 td_uct": ("go:9", "td_uct", 0),
    "go:9 puct network, 32 games in lockstep": ("go:9", "puct(network='go9',num_leaves=1)", 32),
}
WORKER = """
import sys, time
import engram
rows = {}
def measure(game, preset, games, seconds):
    key = game, preset
    if key not in rows:
        rows[key] = engram.Search(game, preset) if not games else engram.Lockstep(game, preset, games)
    search, game = rows[key], engram.game(game)
    state, done, start, passed = game.initial_state(), 0, time.perf_counter(), 0.0
    while passed < seconds:
        if games:
            search.run([state] * games, engram.Limit(simulations=32), range(games))
            for tree in range(games):
                search.clear(tree)
            done += 32 * games
        else:
            search.clear()
            done += search.run(state, engram.Limit(seconds=min(0.25, seconds))).simulations
        passed = time.perf_counter() - start
    return done / passed
print("ready", engram.__file__, flush=True)
for line in sys.stdin:
    print(measure(*eval(line)), flush=True)
"""


def worker(source: str) -> subprocess.Popen:
    """A process that measures with the engram of a source folder."""
    environment = {**os.environ, "PYTHONPATH": source}
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    answer = process.stdout.readline()
    if source not in answer:
        raise SystemExit(f"{source} is not where engram was imported from: {answer}")
    return process


def ask(process: subprocess.Popen, row: tuple[str, str, int], seconds: float) -> float:
    """Simulations a second of one row."""
    process.stdin.write(f"{(*row, seconds)}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    here, there = worker(str(Path(__file__).resolve().parent.parent / "src")), worker(os.path.abspath(options.other))
    print(f"{'':42} {'this':>10} {'other':>10}  ratio (median of the rounds' ratios)")
    for name, row in ROWS.items():
        if options.only not in name:
            continue
        ask(here, row, 0.2), ask(there, row, 0.2)
        pairs = []
        for number in range(options.rounds):
            order = (here, there) if number % 2 == 0 else (there, here)
            speeds = {process: ask(process, row, options.seconds) for process in order}
            pairs.append((speeds[here], speeds[there]))
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{name:42} {ours:10,.0f} {theirs:10,.0f}  {ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
