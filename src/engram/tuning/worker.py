"""More processes of this machine on one study: each runs the same search and ends when the games are spent.

They meet in the database alone, as machines far apart would. A worker lives as long as its standard input: when
the process that began it goes, however it goes, so does the worker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from typing import Any

from engram.errors import EngramError
from engram.tuning.objective import MatchObjective
from engram.tuning.space import Space, Tunable

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from engram.tuning.worker import serve; serve()"


class Workers:
    """Processes that work on a study; use it in a `with` block.

    Args:
      objective, budget: what `Study` takes.
      count: how many, ≥ 0.
    """

    def __init__(self, objective: MatchObjective, budget: dict[str, Any], count: int):
        apart: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        told = json.dumps({"objective": asdict(objective), "budget": budget}) + "\n"
        self._processes = []
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, encoding="utf-8", **apart,
            )  # fmt: skip
            self._processes.append(process)
            assert process.stdin is not None
            process.stdin.write(told)
            process.stdin.flush()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def wait(self) -> None:
        """Until the slices that they have under way are played."""
        for process in self._processes:
            process.wait()


def serve() -> None:
    """Works on the study that standard input names; runs in the worker process."""
    told = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from engram.tuning.study import Study

    given = told["objective"]
    space = Space(given["space"]["search"], tuple(Tunable(**one) for one in given["space"]["tunables"]))
    try:
        Study(MatchObjective(**{**given, "space": space}), **told["budget"]).search()
    except EngramError as error:
        print(f"engram: a worker stopped: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)
