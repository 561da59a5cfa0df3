"""Processes that play games of a match: each asks for a game whenever it has room, in lines of JSON.

A worker knows a match by its texts alone, so it runs in a fresh interpreter and needs nothing of the
caller's script (no `if __name__ == "__main__"`). It lives as long as its standard input: when the parent
goes, however it goes, the pipe ends and so does the worker, in the middle of a game if need be.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TextIO

from engram.arena.configuration import MatchConfiguration
from engram.arena.game_record import GameRecord
from engram.arena.ongoing_game import PlayerError
from engram.arena.runner import Table
from engram.errors import EngramError

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from engram.arena.worker import serve; serve()"


class WorkerError(EngramError, RuntimeError):
    """A worker process ended without having been asked to."""


class WorkerPool:
    """Workers for one match.

    Args:
      configuration: of the match.
      count: how many, ≥ 1. share: games for each of them, about.
    """

    def __init__(self, configuration: MatchConfiguration, count: int, share: int):
        self._messages: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[str]] = []
        # A group of their own, so that Ctrl-C on the terminal reaches the parent alone.
        apart: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        try:
            for index in range(count):
                process = subprocess.Popen(
                    [sys.executable, "-c", _START, json.dumps(sys.path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                    **apart,
                )
                self._processes.append(process)
                threading.Thread(target=self._listen, args=(index, process), daemon=True).start()
                self._tell(index, {"configuration": configuration.to_json(), "share": share})
        except BaseException:
            self.close()
            raise

    def send(self, worker: int, number: int | None) -> None:
        """Gives a worker that asked the number of the game to play next; None: there is none."""
        self._tell(worker, {"game": number})

    def receive(self) -> tuple[int, GameRecord | None]:
        """Waits for a worker: its index and the game that it has finished, or None when it asks for one.

        Raises:
          WorkerError: a worker ended. PlayerError: a game failed in it.
        """
        while True:
            try:
                # A wait without end cannot be interrupted by Ctrl-C on every system.
                index, message = self._messages.get(timeout=0.5)
            except queue.Empty:
                continue
            return index, self._understood(index, message)

    def finished(self) -> Iterator[GameRecord]:
        """Games that are finished but not yet received; does not wait, and passes over failures."""
        while True:
            try:
                _, message = self._messages.get_nowait()
            except queue.Empty:
                return
            if message is not None and "record" in message:
                yield _record(message["record"])

    def close(self) -> None:
        """Ends all workers, in the middle of their games if need be."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()

    def _tell(self, worker: int, message: dict[str, Any]) -> None:
        stdin = self._processes[worker].stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(message) + "\n")
            stdin.flush()
        except OSError:
            pass  # it has ended; that shows as the end of its answers

    def _listen(self, index: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                # What the interpreter itself may print while it starts is no answer.
                if line.startswith("{"):
                    self._messages.put((index, json.loads(line)))
        self._messages.put((index, None))

    def _understood(self, index: int, message: dict[str, Any] | None) -> GameRecord | None:
        if message is None:
            process = self._processes[index]
            code = process.wait()
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            raise WorkerError(
                f"a worker process ended {how} in the middle of the match; what is recorded is kept, and the same"
                " match started again goes on from there"
            )
        if "error" in message:
            raise PlayerError(message["error"])
        return _record(message["record"]) if "record" in message else None


def _record(data: dict[str, Any]) -> GameRecord:
    return GameRecord(**{**data, "moves": tuple(data["moves"])})


# ------------------------------------------------------------------------------------ in the worker


def serve() -> None:
    """Plays what standard input asks for until it ends; runs in the worker process."""
    asked = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What a player reads or prints must not come between questions and answers.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked, requests), daemon=True).start()
    try:
        begun = requests.get()
        table = Table(MatchConfiguration.from_json(begun["configuration"]), share=begun["share"])
        table.warm_up()
        for record in table.play_all(_numbers(requests, answers)):
            _answer(answers, {"record": asdict(record)})
    except EngramError as error:
        _answer(answers, {"error": str(error)})
    threading.Event().wait()  # until the parent is done with all workers


def _numbers(requests: queue.SimpleQueue[dict[str, Any]], answers: TextIO) -> Iterator[int]:
    """Games to play, each asked for when it is wanted."""
    while True:
        _answer(answers, {"wants": "a game"})
        number = requests.get()["game"]
        if number is None:
            return
        yield number


def _read(lines: TextIO, requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in lines:
        requests.put(json.loads(line))
    os._exit(0)  # the parent is gone: nobody waits for the game under way


def _answer(answers: TextIO, message: dict[str, Any]) -> None:
    try:
        answers.write(json.dumps(message) + "\n")
        answers.flush()
    except OSError:
        os._exit(0)
