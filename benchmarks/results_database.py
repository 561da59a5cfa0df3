"""The results database: how fast a match records games, and how long a match of many games takes to open and report.

    python benchmarks/results_database.py [--games 1000000] [--database FILE_OR_URL] [--workers 2] [--head 20000]

The first `--head` games come from workers that answer at once, through all that a match does with a game: claim, task,
result, transaction, tally. The others are written directly, 10,000 a transaction, but 40 are left out. Then the match
is opened, reported, and played to its end. The games are random actions, not games of Connect-4; the last 40 are real.
Without `--database` the file is a temporary one. A URL should name an empty database.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import results_database  # this file: workers cannot import a script

from engram.arena.claims import Claims
from engram.arena.configuration import configure
from engram.arena.game_record import GameRecord
from engram.arena.match import play_match
from engram.arena.report import recorded_result
from engram.arena.results import Results
from engram.arena.tally import Tally
from engram.fleet import Fleet, Link

MISSING = 40


def made(number: int) -> GameRecord:
    """A record as large as one of a random game of Connect-4."""
    rng = random.Random(number)
    moves = tuple(rng.choices(range(7), k=rng.randint(10, 34)))
    return GameRecord(
        number, number // 2, 4, "AB"[number % 2], moves, rng.choice((1.0, 1.0, 0.0, -1.0)), "end",
        8, 8000, 0.1, 8, 8000, 0.1,
    )  # fmt: skip


def answer(link: Link) -> None:
    """A worker that plays no games."""
    for number in link.tasks():
        link.send(made(number))


@contextmanager
def measured(what: str, count: int | None = None) -> Iterator[None]:
    begin, spent = time.perf_counter(), time.process_time()
    yield
    seconds, processor = time.perf_counter() - begin, time.process_time() - spent
    rate = f", {count / seconds:,.0f} a second ({count / processor:,.0f} of processor time)" if count else ""
    print(f"{what}: {seconds:.2f} s, processor {processor:.2f} s{rate}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=1_000_000)
    parser.add_argument("--database")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--head", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(options.database or str(Path(folder) / "results.sqlite"), options)


def measure(database: str, options: argparse.Namespace) -> None:
    def setup(games: int):
        return configure("connect_four", "random", "random", games=games, seed=1)

    match = setup(options.games).configuration
    with Results(database) as results:
        match_id = results.open_match(match.identity, options.head, match.version)
        tally = Tally(setup(options.head).configuration)
        workers = Fleet(results_database.answer, count=options.workers)
        with workers as fleet, Claims(results, match_id, tally) as claims:
            records = fleet.run(claims.numbers())
            claims.add(next(records))  # from here on the workers run
            with measured("head", options.head - 1):
                for record in records:
                    claims.add(record)
                claims.read()
        assert tally.complete
        rest = range(options.head, options.games - MISSING)
        with measured("written directly", len(rest)):
            for start in rest[::10_000]:
                results.add_games(match_id, [made(number) for number in rest[start - rest.start :][:10_000]])
        results.open_match(match.identity, options.games, match.version)
    if Path(database).exists():
        print(f"file: {Path(database).stat().st_size / 2**20:.0f} MiB")
    with measured("opened, read and reported"), Results(database, must_exist=True) as results:
        assert recorded_result(results, match_id).games == options.games - MISSING
    with measured(f"opened, {MISSING} games played, reported"):
        assert play_match(setup(options.games), workers=1, database=database).complete
    print(f"memory at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB")


if __name__ == "__main__":
    main()
