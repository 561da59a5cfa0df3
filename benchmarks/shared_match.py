"""A match in several processes on one database, killed again and again: no game is lost, and none is recorded twice.

    python benchmarks/shared_match.py [--games 2000] [--processes 3] [--kills 10] [--every 3] [--database URL]

Each process runs the same `engram match` with one worker. Every few seconds one of them is killed (SIGKILL) and started
again. Then the games are compared with those of a match in one process: all but the clock must agree. A line of each
process's log says which games ended there, so that games played twice are counted, too: a kill may cost those under way
and those that ended within its last 50 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from engram.arena.database import redacted
from engram.arena.game_record import GameRecord
from engram.arena.results import Results


def start(database: str, options: argparse.Namespace, log: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "engram", "match", "--game", options.game, "--a", options.a, "--b", options.b,
        "--games", str(options.games), "--simulations", str(options.simulations), "--workers", "1",
        "--database", database, "--json",
    ]  # fmt: skip
    with log.open("a") as errors, log.with_suffix(".out").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=errors, env={**os.environ, "ENGRAM_LOG": "debug"})


def games(database: str) -> list[GameRecord]:
    with Results(database, must_exist=True) as results:
        return [replace(record, a_seconds=0.0, b_seconds=0.0) for record in results.games(results.matches()[0].id)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--a", default="uct")
    parser.add_argument("--b", default="uct(exploration=0.5)")
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--games", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--every", type=float, default=3.0, help="seconds between kills")
    parser.add_argument("--database", help="an empty one; default a temporary file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    database = options.database or str(folder / "shared.sqlite")
    logs = [folder / f"{number}.log" for number in range(options.processes)]
    begin = time.perf_counter()
    processes = [start(database, options, log) for log in logs]
    kills = 0
    while kills < options.kills and any(process.poll() is None for process in processes):
        time.sleep(options.every)
        at = random.randrange(len(processes))
        if processes[at].poll() is None:
            processes[at].kill()
            processes[at].wait()
            kills += 1
            processes[at] = start(database, options, logs[at])
    codes = [process.wait() for process in processes]
    seconds = time.perf_counter() - begin
    tables = {json.dumps(json.loads(log.with_suffix(".out").read_text()) | {"database": ""}) for log in logs}
    alone = start(str(folder / "alone.sqlite"), options, folder / "alone.log")
    alone.wait()
    shared, expected = games(database), games(str(folder / "alone.sqlite"))
    ended = Counter(number for log in logs for number in re.findall(r"game (\d+) ends", log.read_text()))
    again = sum(ended.values()) - len(ended)
    print(f"{redacted(database)}: {options.processes} processes, {kills} kills, {seconds:.0f} s, exit codes {codes}")
    print(f"{len(shared)} of {options.games} games are recorded, {len(shared) - len({g.number for g in shared})} twice")
    print(f"{sum(a != b for a, b in zip(shared, expected, strict=True))} differ from those of one process")
    print(f"{again} games were played to their end twice; {len(tables)} different results were printed")


if __name__ == "__main__":
    main()
