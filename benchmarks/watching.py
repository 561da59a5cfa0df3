"""The price of being watched: a search on the page alone and with watchers, in turns.

The figure is simulations a second of the server's processor time, all its threads together, so that a busy machine
counts for little (Linux).

    python benchmarks/watching.py --watchers 1 --game go:9

It also tells how long the first board takes: from a request for the page to the answer with the first position.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import IO
from urllib.parse import urlsplit


class Server:
    """A server of the page in a process of its own."""

    def __init__(self, game: str, errors: IO[str] | None = None):
        command = "from engram.cli.app import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, "serve", "--no-open", "--port", "8750", "-g", game],
            stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        address = urlsplit(self.process.stdout.readline().strip())
        self.place = address.netloc
        self.headers = {"authorization": f"Bearer {address.fragment.removeprefix('token=')}"}

    def processor_s(self) -> float:
        """Processor time so far, seconds."""
        parts = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, path: str, fields: dict[str, object] | None = None) -> bytes:
        """The body of an answer."""
        connection = HTTPConnection(self.place, timeout=60)
        body = None if fields is None else json.dumps(fields)
        connection.request("GET" if fields is None else "POST", path, body, self.headers)
        data = connection.getresponse().read()
        connection.close()
        return data

    def watch(self, search: str) -> dict[str, object]:
        """Reads a search's stream to its end; the last message."""
        last = [line for line in self.ask(f"/api/searches/{search}/events").splitlines() if line.startswith(b"data: ")]
        return dict(json.loads(last[-1].removeprefix(b"data: ")))


def speed(server: Server, game: str, search: str, seconds: float, watchers: int) -> float:
    """Simulations a second of processor time; without watchers its end alone is read."""
    fields = {"game": game, "search": search, "seconds": seconds}
    begin = server.processor_s()
    name = json.loads(server.ask("/api/searches", fields))["id"]
    threads = [threading.Thread(target=server.watch, args=(name,)) for _ in range(watchers)]
    for thread in threads:
        thread.start()
    if not watchers:
        time.sleep(seconds + 0.2)
    last = server.watch(name)
    for thread in threads:
        thread.join()
    return float(last["simulations"]) / (server.processor_s() - begin)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", default="go:9")
    parser.add_argument("--search", default="uct")
    parser.add_argument("--watchers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    server = Server(given.game)
    try:
        begin = time.perf_counter()
        for path in ("/", "/static/app.js", "/static/style.css", "/api/setup"):
            server.ask(path)
        server.ask("/api/position", {"game": given.game})
        print(f"first board after {time.perf_counter() - begin:.2f} s, of the server's part")
        speed(server, given.game, given.search, 0.5, 0)
        ratios = []
        for _ in range(given.rounds):
            alone = speed(server, given.game, given.search, given.seconds, 0)
            watched = speed(server, given.game, given.search, given.seconds, given.watchers)
            ratios.append(watched / alone)
            print(f"alone {alone:,.0f}/s, watched by {given.watchers} {watched:,.0f}/s: {ratios[-1]:.3f}", flush=True)
        print(f"median {median(ratios):.3f} of {given.rounds} rounds")
    finally:
        server.process.terminate()


if __name__ == "__main__":
    main()
