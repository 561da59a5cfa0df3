"""The suite's own settings, before NumPy and PyTorch are imported."""

import gc
import os
import signal
from functools import cache

import pytest

# The processes of the suite share the processors: each computes in one thread, and starts others where a test says so.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("ENGRAM_WORKERS", "1")
# The first, guarded run of new code costs a second each; the tests in `test_guard.py` turn it on.
os.environ.setdefault("ENGRAM_GUARD", "0")
os.environ.setdefault("ENGRAM_QUIET", "1")
# Hundreds of child processes load the package; without its bytecode each would need half a second more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The background job of a script ignores Ctrl-C, which tests send to their own process.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = ("test_study.py", "test_play.py")  # else the last to begin, when other processes have no more to do


def pytest_xdist_auto_num_workers(config):
    """One process more than processors: tests often wait for a child process, a browser or a cluster."""
    from engram.fleet.place import usable_cores

    return int(os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS", usable_cores() + 1))


def pytest_collection_modifyitems(session, items):
    """The longest files of the last folders begin before the files beside the folders, when most code is compiled."""
    longest = [item for item in items if item.path.name in LONGEST]
    others = [item for item in items if item.path.name not in LONGEST]
    beside = (at for at, item in enumerate(others) if item.path.parent == session.config.rootpath / "tests")
    place = next(beside, len(others))
    items[:] = [*others[:place], *longest, *others[place:]]


def pytest_collection_finish(session):
    """Collections of garbage then pass over the modules and the tests, which stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def commands_made_once():
    """Typer's runner makes all commands anew at each call, which takes longer than most calls."""
    from typer.main import get_command

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command), raising=False)
        yield
