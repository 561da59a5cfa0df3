"""Work in processes: results in order, failures with their reason, workers that never outlive their parent."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from engram.errors import InvalidParameter, TooLarge
from engram.fleet import Fleet, WorkerError, default_workers, spread
from engram.fleet.place import processor_quota, usable_cores
from engram.fleet.processes import interpreter


def slow_square(number, seconds=0.0):
    time.sleep(seconds)
    return number * number


def refuse(number):
    raise TooLarge(f"{number} is too large")


def talk(number):
    print("said to nobody", flush=True)
    os.write(1, b"written to nobody\n")
    return sys.stdin.read(), number


def die(number):
    os.kill(os.getpid(), number)


def break_down(number):
    raise ZeroDivisionError


def finish_in_time(link, file):
    link.send("working")
    while not link.closing:
        time.sleep(0.01)
    file.write_text("saved")


def test_results_come_in_the_order_of_the_tasks():
    tasks = [(number, 0.2 * (number == 0)) for number in range(9)]
    squares = [number * number for number in range(9)]
    assert list(spread(slow_square, tasks, 1)) == list(spread(slow_square, tasks, 3)) == squares
    assert list(spread(partial(slow_square, seconds=0.0), [(3,)], 4)) == [9]


def test_workers_import_nothing_from_the_working_directory(tmp_path, monkeypatch):
    for name in ("json", "pickle", "operator", "signal"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w').write('x')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(tmp_path))])
    assert list(spread(slow_square, [(number,) for number in range(3)], 2)) == [0, 1, 4]
    subprocess.run(interpreter("import signal, pickle, operator"), check=True)
    assert not (tmp_path / "imported").exists()


def test_the_default_number_of_processes_is_that_of_the_environment(monkeypatch):
    monkeypatch.delenv("ENGRAM_WORKERS", raising=False)
    assert default_workers() >= 1
    monkeypatch.setenv("ENGRAM_WORKERS", "3")
    assert default_workers() == 3
    for wrong in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv("ENGRAM_WORKERS", wrong)
        with pytest.raises(InvalidParameter, match="ENGRAM_WORKERS must be a whole number"):
            default_workers()


@pytest.mark.parametrize(
    ("line", "files", "cores"),
    [
        ("0::/a/b", {"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3.0),
        ("0::/", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/a/b", {"a/b/cpu.max": "damaged"}, math.inf),
        ("0::/a/b", {}, math.inf),
        ("4:cpu,cpuacct:/c", {"cpu/c/cpu.cfs_quota_us": "400000\n", "cpu/c/cpu.cfs_period_us": "100000\n"}, 4.0),
        ("4:cpu:/gone", {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2.0),
        ("4:cpu:/c", {"cpu/c/cpu.cfs_quota_us": "-1", "cpu/c/cpu.cfs_period_us": "100000"}, math.inf),
        ("4:memory:/c", {"cpu/c/cpu.cfs_quota_us": "100000", "cpu/c/cpu.cfs_period_us": "100000"}, math.inf),
    ],
)
def test_a_containers_limit_on_processor_time_bounds_the_workers(tmp_path, line, files, cores):
    (tmp_path / "groups").write_text(f"9:freezer:/\n{line}\n")
    for name, text in files.items():
        (tmp_path / "mount" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mount" / name).write_text(text)
    assert processor_quota(tmp_path / "groups", tmp_path / "mount") == cores
    assert processor_quota(tmp_path / "nothing", tmp_path / "mount") == math.inf
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_an_error_of_the_work_is_raised_as_it_is():
    with pytest.raises(TooLarge, match="5 is too large"):
        list(spread(refuse, [(5,), (5,)], 2))


def test_what_workers_print_and_read_does_not_disturb():
    assert list(spread(talk, [(1,), (2,)], 2)) == [("", 1), ("", 2)]


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_a_worker_that_dies_is_reported_by_its_signal():
    for number in [
        signal.SIGKILL,
        *([signal.SIGRTMIN + 1] if hasattr(signal, "SIGRTMIN") else []),
    ]:  # the second is not in signal.Signals
        with pytest.raises(WorkerError, match=f"ended by signal {int(number)} "):
            list(spread(die, [(number,), (number,)], 2))
    with pytest.raises(WorkerError, match="ended with exit code 1"):
        list(spread(break_down, [(1,), (2,)], 2))


def test_results_not_read_yet_can_be_read_after_an_error_and_failures_are_collected():
    with Fleet(finish_in_time, None, count=1, grace_s=5.0) as fleet:
        first = next(fleet.run())
        assert first == "working" and list(fleet.finished()) == []
    with Fleet(break_down, count=2) as fleet:
        assert [type(error) for error in fleet.join()] == [WorkerError, WorkerError]


def test_workers_have_their_grace_when_the_fleet_closes_or_the_parent_is_killed(tmp_path):
    with Fleet(finish_in_time, tmp_path / "closed", count=1, grace_s=30.0) as fleet:
        assert next(fleet.run()) == "working"
    assert (tmp_path / "closed").read_text() == "saved"
    parent = (
        "import sys; from pathlib import Path; from engram.fleet import Fleet; import test_fleet\n"
        "fleet = Fleet(test_fleet.finish_in_time, Path(sys.argv[1]), count=1, grace_s=30.0)\n"
        "print(next(fleet.run()), flush=True); import time; time.sleep(60)"
    )
    folder = os.path.dirname(__file__)
    paths = os.pathsep.join([folder, *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(tmp_path / "orphan")], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "working\n"
        process.kill()
    deadline = time.monotonic() + 30
    while not (tmp_path / "orphan").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "orphan").read_text() == "saved"


def read_shared(link, wait_s):
    for token in link.tasks():
        link.send(link.shared(token), ends=None)
        time.sleep(wait_s)


@pytest.mark.parametrize("wait_s", [0.0, 60.0], ids=["idle", "busy"])
def test_shared_objects_go_with_a_killed_parent(tmp_path, wait_s):
    parent = (
        "import sys, time; from collections import deque; from engram.fleet import Fleet; import test_fleet\n"
        "fleet = Fleet(test_fleet.read_shared, float(sys.argv[1]), count=1)\n"
        "token = fleet.share(list(range(9)))\n"
        "print(next(fleet.stream(deque([token]))), flush=True); time.sleep(60)"
    )
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(wait_s)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == f"{list(range(9))}\n"
        assert list(tmp_path.glob("engram-*"))
        process.kill()
    deadline = time.monotonic() + 30
    while list(tmp_path.glob("engram-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(tmp_path.glob("engram-*"))


@pytest.mark.parametrize("count", [0, -1, 5000, 2**63, 1.5])
def test_workers_are_bounded(count):
    with pytest.raises(InvalidParameter, match="workers must be a whole number, 1 to"):
        next(spread(slow_square, [(1,), (2,)], count))
    if count:
        with pytest.raises(InvalidParameter, match="workers must be a whole number, 1 to"):
            Fleet(slow_square, count=count)


def test_work_that_no_other_process_can_import_is_refused():
    with pytest.raises(InvalidParameter, match="cannot receive"):
        Fleet(lambda link: None, count=1)
    code = "from engram.fleet import Fleet\ndef work(link): pass\nFleet(work, count=1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "move its functions into a module" in done.stderr


@pytest.mark.parametrize("orders", [b"", b"\x80\x05\x95"])
def test_a_worker_whose_match_is_killed_while_it_starts_ends_without_a_word(orders):
    reader, writer = os.pipe()
    worker = subprocess.Popen(
        [sys.executable, "-c", "from engram.fleet.processes import serve; serve()"],
        stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writer)
    os.close(reader)
    assert worker.communicate(orders)[1] == b"" and worker.returncode == 0
