"""Simulations a second with several threads against one, in turns within one process.

python benchmarks/threads.py [threads] [seconds a measurement] [game ...]

`one tree`, `trees`: simulations a second with all threads on one tree, with a tree each. `apart`: as many searches that
share nothing, at once: what the machine has to give. `a CPU second`: one tree's simulations for each second of
processor time; times the threads, the speed-up to expect where as many cores are free.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time

from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.games.catalogue import game as game_of

FEWEST_ROUNDS, SECONDS_A_COLUMN = 7, 4.0
WIDTHS = {"one tree": 9, "trees": 7, "apart": 7, "a CPU second": 13}


def per_second(search: Search, state, seconds: float, clock=time.perf_counter) -> float:
    search.clear()
    start = clock()
    return search.run(state, Limit(seconds=seconds)).simulations / (clock() - start)


def side_by_side(searches: list[Search], state, seconds: float) -> float:
    """What so many searches of one thread each do in the same time, added up."""
    rates = [0.0] * len(searches)

    def work(number: int) -> None:
        rates[number] = per_second(searches[number], state, seconds)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(len(searches))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(rates)


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.5
    print("ratios to one thread, medians")
    print(f"{'game':<14} {'one thread':>12}" + "".join(f" {name:>{width}}" for name, width in WIDTHS.items()))
    for text in sys.argv[3:] or ["tic_tac_toe", "connect_four", "go:9", "go:19"]:
        game = game_of(text)
        state = game.initial_state()
        search = Search(game)
        shared = Search(game, threads=threads)
        several = Search(game, threads=threads, parallel="root")
        apart = [Search(game) for _ in range(threads)]
        rates: list[float] = []
        ratios: list[list[float]] = [[] for _ in WIDTHS]
        for round_number in range(max(FEWEST_ROUNDS, round(SECONDS_A_COLUMN / seconds)) + 1):
            alone = per_second(search, state, seconds)
            others = (
                per_second(shared, state, seconds),
                per_second(several, state, seconds),
                side_by_side(apart, state, seconds),
                per_second(shared, state, seconds, time.process_time),
            )
            ratios_to = (alone, alone, alone, per_second(search, state, seconds, time.process_time))
            if round_number:  # the first warms up
                rates.append(alone)
                for column, other, base in zip(ratios, others, ratios_to, strict=True):
                    column.append(other / base)
        medians = [statistics.median(column) for column in ratios]
        figures = "".join(f" {median:>{width}.2f}" for median, width in zip(medians, WIDTHS.values(), strict=True))
        print(f"{text:<14} {statistics.median(rates):>12,.0f}{figures}", flush=True)


if __name__ == "__main__":
    main()
