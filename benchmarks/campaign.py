"""Attacks on engram with counts: what is lost, doubled, a traceback or a hang in so many tries.

    python -m benchmarks.campaign [STEP ...] [--minutes 5] [--count N] [--folder campaign] [--seed 0]

Each step repeats its attack until its minutes or its count are over, and prints one line. The folder holds the counts,
so that the same command again goes on where it stopped, and a sentence for each fault. Attacks are drawn by the seed,
the step and the number of the try.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cached_property
from itertools import product
from pathlib import Path

import engram
from benchmarks.gtp_fuzz import Fuzzer
from engram import storage
from engram.errors import InvalidFile
from engram.games.go.sgf import write_sgf
from engram.memory import files
from engram.memory.values import table_files
from engram.networks.network import KIND as NETWORK_KIND
from engram.rng import derive_seed
from tests.cli.test_numbers import faults_of, numeric_options
from tests.test_crafted_files import KINDS

FAULTS = ("lost", "doubled", "tracebacks", "hangs")
HANG_S = 900.0
"""Seconds after which a command counts as hanging; the longest takes a minute on an idle machine."""
ROOT = Path(__file__).parents[1]
Outcome = Counter[str]

JOBS = {
    "match": "match -g tic_tac_toe --a uct --b random --games 2000 -n 100 --workers 2 -d {out}",
    "tune": "tune -s uct --tune exploration=0.1:2 -g tic_tac_toe --max-games 40 --confirm-games 20 --trial-games 20 "
    "-n 50 --against random --storage {out}",
    "td": "train td -g tic_tac_toe -n 100 --episodes 120 --every 60 --games 6 --evaluate random --workers 1 -o {out} "
    "-d {out}.sqlite",
    "memory": "memory build -g tic_tac_toe -s memory_uct(capacity=400,dimension=64) --games 60 -n 100 -o {out}",
    "selfplay": "train selfplay -g tic_tac_toe --network residual(blocks=1,filters=4) --steps 400 --batch 16 "
    "--games 16 -n 16 --fast-simulations 4 --refresh 50 --checkpoint-s 0.3 --workers 1 -o {out} "
    "-d {out}.sqlite",
    "records": "train records -g go:5 --network residual(blocks=1,filters=4) --data {data} --steps 300 --batch 16 "
    "--validation 0.2 --checkpoint-s 0.3 -o {out} -d {out}.sqlite",
    "cluster": "match -g tic_tac_toe --a uct --b random --games 2000 -n 100 --cluster {cluster} -d {out}",
}
"""Commands that write; the same one again finishes the work, with the result of an uninterrupted run."""


class Attack:
    """One step: its folder, the numbers of its tries, and the faults that it finds."""

    def __init__(self, name: str, folder: Path, seed: int):
        self.name, self.seed = name, seed
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.reference: dict[str, object] = {}
        self.times: dict[str, tuple[float, float]] = {}
        self.largest: dict[str, int] = {}

    @cached_property
    def cluster(self) -> str:
        """The address of a cluster of Ray with one machine, which lives as long as the campaign."""
        from ray.cluster_utils import Cluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        node = {"num_cpus": 2, "object_store_memory": 80 << 20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=node)
        atexit.register(cluster.shutdown)
        return str(cluster.address)

    @cached_property
    def data(self) -> Path:
        """A folder of random games of Go as SGF."""
        place, choose = self.folder / "data", random.Random(0)
        place.mkdir(exist_ok=True)
        game = engram.game("go:5")
        for number in range(60):
            state, moves = game.initial_state(), list[tuple[int, int]]()
            while len(moves) < 20:
                action = choose.choice(game.legal_actions(state)[:-1])  # no pass
                moves.append((game.to_play(state), action))
                state = game.play(state, action)
            raw = write_sgf(game, game.initial_state(), moves, result=choose.choice(("B+R", "W+R")))
            (place / f"{number}.sgf").write_bytes(raw)
        return place

    def start(self, job: str, place: Path, **options: object) -> subprocess.Popen[str]:
        """A job in a process group of its own, so that a signal may strike all of it."""
        names = {name: getattr(self, name) for name in ("cluster", "data") if f"{{{name}}}" in JOBS[job]}
        words = [word.format(out=place / "out", **names) for word in JOBS[job].split()]
        return subprocess.Popen(
            [sys.executable, "-m", "engram", *words], cwd=place, start_new_session=True, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "ENGRAM_QUIET": "1"}, **options,
        )  # fmt: skip

    def random(self, number: int) -> random.Random:
        return random.Random(derive_seed("campaign", self.name, self.seed, number))

    def fault(self, number: int, kind: str, sentence: str) -> Outcome:
        with open(self.folder.parent / "faults.txt", "a", encoding="utf-8") as log:
            log.write(f"{self.name} {number}: {kind}: {sentence[-2000:]}\n")
        return Counter({kind: 1})

    def fresh(self) -> Path:
        """An empty folder for one try."""
        place = self.folder / "try"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def whole(self, job: str) -> object:
        """What an undisturbed run of a job makes; notes when its first result and its end come, and its size."""
        if job not in self.reference:
            place, began = self.fresh(), time.monotonic()
            command = self.start(job, place)
            is_over(command, HANG_S, until_news_in=place)
            first = time.monotonic() - began
            assert command.wait() == 0, command.stderr.read()
            self.times[job] = first, time.monotonic() - began
            self.reference[job] = contents(job, place)
            self.largest[job] = max(path.stat().st_size for path in place.rglob("*") if path.is_file())
        return self.reference[job]

    def moment(self, job: str, place: Path, command: subprocess.Popen[str], choose: random.Random) -> bool:
        """Waits for a random moment of a job; whether it comes before the end.

        Half of the moments are of the time before the first result, and half of the work after it: imports and, on a
        cluster, the workers' start take most of a command. An eighth of the work is the most, as the next try goes on.
        """
        first, last = self.times[job]
        if choose.random() < 0.5:
            return not is_over(command, choose.uniform(0.0, first), until_news_in=place)
        is_over(command, HANG_S, until_news_in=place)
        return not is_over(command, choose.uniform(0.0, (last - first) / 8))

    def finish(self, job: str, place: Path, number: int) -> Outcome:
        """Runs a job to its end after an attack, and compares its result."""
        ended = self.end(self.start(job, place), number)
        return ended if ended["hangs"] else ended + self.compared(job, place, number)

    def compared(self, job: str, place: Path, number: int) -> Outcome:
        """Compares what a job has made with what an undisturbed run makes."""
        compared = Counter(doubled=doubles(place))
        if contents(job, place) != self.whole(job):
            compared += self.fault(number, "lost", f"{job}: the result differs from that of an undisturbed run")
        return compared

    def end(self, command: subprocess.Popen[str], number: int, *, allowed: tuple[int, ...] = (0,)) -> Outcome:
        """Waits for the end of a command, and looks at its last words."""
        try:
            words = command.communicate(timeout=HANG_S)[1]
        except subprocess.TimeoutExpired:
            os.killpg(command.pid, signal.SIGKILL)
            return self.fault(number, "hangs", str(command.args))
        if "Traceback" in words or command.returncode not in allowed:
            return self.fault(number, "tracebacks", f"{command.args} ended with {command.returncode}: {words}")
        return Counter()


def rows(place: Path) -> list[tuple[object, ...]]:
    """All games of the databases in a folder, without their times."""
    records: list[tuple[object, ...]] = []
    for database in (place / "out", place / "out.sqlite"):
        if database.is_file() and is_database(database):
            with closing(sqlite3.connect(database)) as connection:
                games = "select key, number, first, moves, outcome from game join match on match.id = match_id"
                if connection.execute("select 1 from sqlite_master where name = 'game'").fetchone():
                    records += connection.execute(games).fetchall()
    return sorted(records)


def is_over(command: subprocess.Popen[str], seconds: float, *, until_news_in: Path | None = None) -> bool:
    """Waits for the end of a command, or for so long, or for a game or a file that it writes; whether it has ended."""
    ends, before = time.monotonic() + seconds, until_news_in and results(until_news_in)
    while command.poll() is None and time.monotonic() < ends:
        now = until_news_in and results(until_news_in)
        if now != before:
            break
        time.sleep(0.02)
    return command.poll() is not None


def results(place: Path) -> set[object]:
    """The games and the files that jobs have written; databases count by their games alone."""
    written = set[object]()
    with suppress(OSError, sqlite3.Error):  # it is being made
        written |= set(rows(place))
    for path in place.rglob("[!.]*"):
        with suppress(OSError):  # it is being replaced
            if path.is_file() and path.stat().st_size and not is_database(path):
                written.add((path, path.stat().st_mtime_ns))
    return written


def is_database(path: Path) -> bool:
    with open(path, "rb") as file:
        return path.name.endswith(("-wal", "-shm")) or file.read(6) == b"SQLite"


def doubles(place: Path) -> int:
    """Games that are recorded twice."""
    numbers = Counter(row[:2] for row in rows(place))
    return sum(count - 1 for count in numbers.values())


def contents(job: str, place: Path) -> object:
    """What a job has made, for a comparison."""
    parts: list[object] = [rows(place)]
    kind = {"td": table_files.KIND, "memory": files.KIND}.get(job)
    if kind is not None and (place / "out").exists():
        about, arrays = storage.load(place / "out", kind)
        parts += [sorted(about.items(), key=str), {name: array.tobytes() for name, array in sorted(arrays.items())}]
    for network in sorted((place / "out").glob("network*.safetensors")):
        arrays = storage.load(network, NETWORK_KIND)[1]
        parts.append({name: array.tobytes() for name, array in sorted(arrays.items())})
    return parts


# ------------------------------------------------------------------------------------------- the steps
def signals(attack: Attack, number: int) -> tuple[int, Outcome]:
    """Kills a job at eight random moments, each time with the same command again, and lets the last one finish."""
    choose, job = attack.random(number), list(JOBS)[number % len(JOBS)]
    attack.whole(job)
    place, outcome, struck, before = attack.fresh(), Counter[str](), 0, set[tuple[object, ...]]()
    for _ in range(8):
        name = choose.choice((signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
        command = attack.start(job, place, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        if attack.moment(job, place, command, choose):
            (os.killpg if choose.random() < 0.5 else os.kill)(command.pid, name)
            struck += 1
        outcome += attack.end(command, number, allowed=(0, 130, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL))
        now = set(rows(place))
        if before - now:
            outcome += attack.fault(number, "lost", f"{job}: {len(before - now)} recorded games are gone")
        before = now
        if command.returncode == 0:
            outcome += attack.compared(job, place, number)
            place, before = attack.fresh(), set()
    return struck, outcome + attack.finish(job, place, number) + Counter({f"signals to {job}": struck})


def together(attack: Attack, number: int) -> tuple[int, Outcome]:
    """Three users type the same command at once; a refusal in a sentence is an answer too."""
    job, place, outcome = list(JOBS)[number % len(JOBS)], attack.fresh(), Counter[str]()
    attack.whole(job)
    place = attack.fresh()
    for command in [attack.start(job, place) for _ in range(3)]:
        outcome += attack.end(command, number, allowed=(0, 2))
    if job == "tune":  # the three share a study's trials, in an order of their own
        return 3, outcome + attack.end(attack.start(job, place), number) + Counter(doubled=doubles(place))
    return 3, outcome + attack.finish(job, place, number)


def full_disk(attack: Attack, number: int) -> tuple[int, Outcome]:
    """No file may grow beyond a random size; then there is room again."""
    choose, job = attack.random(number), list(JOBS)[number % len(JOBS)]
    attack.whole(job)
    place, room = attack.fresh(), choose.randrange(int(1.1 * attack.largest[job]))
    limited = attack.start(job, place, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))
    return 1, attack.end(limited, number, allowed=(0, 1, 2)) + attack.finish(job, place, number)


def crafted(attack: Attack, number: int) -> tuple[int, Outcome]:
    """250 files of a kind, half with contents that no program has written and half with damage; counted by kind.

    Each game as SGF is read whole and damaged.
    """
    every = [*KINDS, "sgf"]
    kind, place, count = every[number % len(every)], attack.fresh(), 250
    half = str(count // 2)
    seed = str(derive_seed(attack.seed, number) % 2**32)
    words = ["tests.test_crafted_files", kind, str(place), half, half, seed]
    if kind == "sgf":
        words = ["benchmarks.sgf_fuzz", str(count), "--seed", seed]
    command = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=ROOT, start_new_session=True, text=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, env={**os.environ, "ENGRAM_QUIET": "1"},
    )  # fmt: skip
    return count, attack.end(command, number) + Counter({kind.partition(" ")[0]: count})


def options(attack: Attack, number: int) -> tuple[int, Outcome]:
    """Every numeric option of every command with 0, -1, nan, inf and huge numbers; one option a try."""
    every = list(numeric_options())
    tried, faults = faults_of(*every[number % len(every)], attack.fresh())
    return tried, sum((attack.fault(number, "tracebacks", fault) for fault in faults), Counter[str]())


def gtp(attack: Attack, number: int) -> tuple[int, Outcome]:
    """Random GTP commands, 10,000 in a session, each answer checked for truth by sgfmill's boards and a superko."""
    try:
        Fuzzer(derive_seed(attack.seed, number) % 2**32).run(10_000)
    except AssertionError as error:
        return 10_000, attack.fault(number, "tracebacks", str(error))
    return 10_000, Counter()


def power(attack: Attack, number: int) -> tuple[int, Outcome]:
    """A file is replaced, and the power fails: every state that a file system may leave holds the old or the new one.

    The system calls are recorded by strace. What was written to a file may be lost, all or in part, until that file is
    synced; a change of the folder may be lost, too. One try is one of these states.
    """
    place, choose = attack.fresh(), attack.random(number)
    size, target = choose.choice((1, 100, 5000)), str(place / "file")
    program = (
        "import sys, numpy as np; from engram import storage\n"
        f"storage.save(sys.argv[1], 'memory', {{}}, {{'x': np.full({size}, int(sys.argv[2]))}})"
    )
    words = [sys.executable, "-c", program, target]
    subprocess.run([*words, "1"], check=True)
    calls: list[Call] = [("link", target, 0, b""), ("write", "0", 0, Path(target).read_bytes()), ("sync", "0", 0, b"")]
    options = ["-f", "-y", "-xx", "-s", "10000000", "-o", str(place / "trace"), "-e", f"trace={','.join(CALLS)}"]
    subprocess.run(["strace", *options, *words, "2"], check=True)
    calls += recorded((place / "trace").read_text(), str(place), target)
    outcome, states, values = Counter[str](), 0, set[int]()
    for left in after_power_loss(calls, target, choose):
        states += 1
        (place / "left").write_bytes(left)
        try:
            value = storage.load(place / "left", "memory")[1]["x"]
            if len(value) != size or set(value.tolist()) not in ({1}, {2}):
                raise InvalidFile("neither the old nor the new contents")
            values.add(int(value[0]))
        except InvalidFile as error:
            outcome += attack.fault(number, "lost", f"{error}")
    assert values == {1, 2}, "the recording holds no replacement"
    return states, outcome


Call = tuple[str, str, int, bytes]
"""(`link`, name, file or -1, -), (`write`, file, place, bytes), (`truncate`, file, size, -) or (`sync`, file, -, -)."""
CALLS = ("openat", "write", "pwrite64", "writev", "ftruncate", "fallocate", "fsync", "fdatasync", "rename", "renameat",
         "renameat2", "unlink", "unlinkat", "mmap")  # fmt: skip


def recorded(trace: str, folder: str, target: str) -> Iterator[Call]:
    """The changes below a folder that strace has recorded; the target is file 0."""
    files, ends, count = {target: 0}, Counter[int](), 1
    for name, escaped, result in re.findall(r"^\d+ +(\w+)\((.*)\) += (\d+)", trace, re.MULTILINE):
        names = [bytes.fromhex(text.replace("\\x", "")) for text in re.findall(r'[<"]((?:\\x\w\w)*)[>"]', escaped)]
        paths = [path.decode() for path in names if path.startswith(folder.encode())]
        if not paths or (name == "openat" and (paths[0] in files or "O_CREAT" not in escaped)):
            continue
        if name == "openat":
            files[paths[0]], count = count, count + 1
            yield "link", paths[0], files[paths[0]], b""
        elif name.startswith("rename"):
            files[paths[1]] = files.pop(paths[0])
            yield "link", paths[1], files[paths[1]], b""
            yield "link", paths[0], -1, b""
        elif name.startswith("unlink"):
            yield "link", paths[0], -1, b""
            del files[paths[0]]
        elif name == "write":
            yield "write", str(files[paths[0]]), ends[files[paths[0]]], names[-1]
            ends[files[paths[0]]] += int(result)
        elif name == "ftruncate":
            yield "truncate", str(files[paths[0]]), int(escaped.rpartition(",")[2]), b""
        elif name in ("fsync", "fdatasync"):
            yield "sync", str(files[paths[0]]), 0, b""
        elif name != "mmap" or "MAP_SHARED" in escaped:
            raise NotImplementedError(f"{name} on {paths[0]}: this campaign does not replay it")


def after_power_loss(calls: list[Call], target: str, choose: random.Random) -> Iterator[bytes]:
    """Contents of the target after a failure at each call, with each subset of the calls that no sync saved."""
    for moment in range(3, len(calls) + 1):  # the first three made the old file
        done = calls[:moment]
        unsaved = [
            at for at, (name, path, _, _) in enumerate(done)
            if at and name != "sync" and not any(other[:2] == ("sync", path) for other in done[at:])
        ]  # fmt: skip
        every = product((True, False), repeat=len(unsaved))
        some = (tuple(choose.random() < 0.5 for _ in unsaved) for _ in range(1024))
        for mask in every if len(unsaved) <= 10 else some:
            lost = {at for at, keep in zip(unsaved, mask, strict=True) if not keep}
            folder, disk = dict[str, int](), dict[str, bytearray]()
            for at, (name, path, number, data) in enumerate(done):
                if at in lost or name == "sync":
                    continue
                if name == "link":
                    folder[path] = number
                    continue
                file = disk.setdefault(path, bytearray())
                file.extend(bytes(max(0, number - len(file))))
                if name == "truncate":
                    del file[number:]
                else:
                    part = data[: choose.randrange(len(data) + 1)] if at in unsaved and choose.random() < 0.3 else data
                    file[number : number + len(part)] = part
            yield bytes(disk.get(str(folder.get(target, -1)), b""))


BOUNDED = """
import sys
import numpy as np
import engram
from engram.presets import td_uct
from engram.memory.values.table import Table

choose = np.random.default_rng(int(sys.argv[1]))
for search in sys.argv[2:]:
    name, _, preset = search.partition(" ")
    game = engram.game(name)
    specification = engram.presets.td_uct(table=Table(300), learn=True) if preset == "table" else preset
    player, state = engram.Search(game, specification), game.initial_state()
    for number in range(40):
        if game.is_over(state):
            break
        action = int(choose.choice(game.legal_actions(state)))
        if choose.random() < 0.5:
            action = player.run(state, engram.Limit(simulations=100), seed=int(choose.integers(2**32))).action
        player.advance(action)
        state = game.play(state, action)
"""
BOARDS = ("go:2", "go:5", "go:9", "go:13", "go:19", "go:25")
SEARCHES = (
    *product(BOARDS, ("uct", "rave", "uct(rollout=heavy)", "history_uct")),
    *product(
        ("connect_four", "go:9", "line:rows=9,columns=9,run=5"),
        ("memory_uct(capacity=300,dimension=64)", "memory_uct(capacity=300,dimension=64,neighbours=simhash)",
         "memory_uct(capacity=40,dimension=16,neighbours=exact,every_node=true)", "table"),
    ),
)  # fmt: skip


def bounds(attack: Attack, number: int) -> tuple[int, Outcome]:
    """Games by searches in Go, with memories and with tables, all indices checked: no word may come on stderr."""
    choose = attack.random(number)
    searches = [" ".join(search) for search in choose.sample(SEARCHES, 6)]
    environment = {**os.environ, "ENGRAM_QUIET": "1", "NUMBA_BOUNDSCHECK": "1"}
    command = subprocess.Popen(
        [sys.executable, "-c", BOUNDED, str(choose.randrange(2**32)), *searches], cwd=attack.folder,
        start_new_session=True, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    words = command.communicate()[1]  # the first try compiles for minutes
    if words or command.returncode:
        return len(searches), attack.fault(number, "tracebacks", f"{searches}: {words}")
    return len(searches), Counter()


STEPS: dict[str, Callable[[Attack, int], tuple[int, Outcome]]] = {
    step.__name__.replace("_", "-"): step
    for step in (signals, together, full_disk, crafted, options, gtp, power, bounds)
}


def run(name: str, folder: Path, minutes: float, count: int | None, seed: int) -> Outcome:
    """Repeats a step until its minutes or its count are over; its counts so far."""
    book, attack = folder / f"{name}.{seed}.json", Attack(name, folder, seed)
    counts = Counter(json.loads(book.read_text())) if book.exists() else Counter[str]()
    ends = time.monotonic() + 60 * minutes
    while time.monotonic() < ends and (count is None or counts["tried"] < count):
        tried, outcome = STEPS[name](attack, counts["rounds"])
        counts += outcome + Counter(tried=tried, rounds=1)
        with storage.whole(book) as part:
            part.write_text(json.dumps(counts))
    faults = ", ".join(f"{counts[fault]} {fault}" for fault in FAULTS)
    print(f"{name}: {counts['tried']:,} tried, {faults}", flush=True)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}; default all")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each step")
    parser.add_argument("--count", type=int, help="tries of each step, those of earlier runs included")
    parser.add_argument("--folder", type=Path, default=Path("campaign"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.steps:
        if name not in STEPS:
            parser.error(f"there is no step {name!r}: {', '.join(STEPS)}")
    folder = options.folder.resolve()
    ended = [run(name, folder, options.minutes, options.count, options.seed) for name in options.steps or STEPS]
    sys.exit(any(counts[fault] for counts in ended for fault in FAULTS))


if __name__ == "__main__":
    main()
