"""The price of being watched: one search on the page, in short turns with watchers and without.

The figure is simulations a second of processor time, of the search's own thread and of the serving ones together, so
that other work of the machine counts for little. Each pair of turns gives a ratio. Beside it stand the shares of the
processor time that snapshots took in the search's thread, and that all other threads of the server took.

    python benchmarks/watching.py --watchers 1 --game go:9 --pairs 60

It also tells how long the first board takes: from a request for the page to the answer with the first position.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection
from statistics import mean, stdev
from subprocess import PIPE, Popen
from typing import IO, Any
from urllib.parse import urlsplit

import uvicorn

from engram.web.app import Settings, application


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


class Watched:
    """A server in a thread of this process, one endless search, and its watchers in a process of their own."""

    def __init__(self, game: str, search: str):
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        app = application(Settings(token="benchmark", game=game))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on"))
        threading.Thread(target=server.run, args=([listener],), daemon=True).start()
        connection = HTTPConnection(place, timeout=600)
        headers = {"authorization": "Bearer benchmark"}
        connection.request("POST", "/api/searches", json.dumps({"game": game, "search": search}), headers)
        name = json.loads(connection.getresponse().read())["id"]
        connection.close()
        self.session, self.published_s = app.state.server.sessions.get(name), 0.0
        self.publish = self.session._publish
        self.session._publish = self._timed
        self.watchers = Popen(
            [sys.executable, __file__, "--as-watchers", place, name], stdin=PIPE, stdout=PIPE, text=True
        )

    def _timed(self, *arguments: Any, **more: Any) -> None:
        begin = time.thread_time()
        self.publish(*arguments, **more)
        self.published_s += time.thread_time() - begin

    def now(self) -> tuple[int, float, float, float]:
        """Simulations, and seconds of the processor: of the search's thread, of the servers', and of snapshots so far.

        It is asked in the search's thread, so that no figure is older than another; this one's own time counts not.
        """
        ours = time.pthread_getcpuclockid(threading.get_ident())

        def figures() -> tuple[int, float, float, float]:
            own = time.thread_time()
            others = time.process_time() - own - time.clock_gettime(ours)
            return int(self.session.search.tree.nodes["visit_count"][0]), own, others, self.published_s

        return self.session.ask(figures)

    def turn(self, seconds: float, watchers: int) -> list[float]:
        """What `now` tells, less what it told before: while so many watch, for some processor time of the search."""
        assert self.watchers.stdin is not None and self.watchers.stdout is not None
        self.watchers.stdin.write(f"{watchers}\n")
        self.watchers.stdin.flush()
        self.watchers.stdout.readline()
        while self.session.channel.num_watchers != watchers:
            time.sleep(0.05)
        begin = end = self.now()
        while end[1] < begin[1] + seconds:
            time.sleep(0.25)
            end = self.now()
        return [after - before for after, before in zip(end, begin, strict=True)]


def as_watchers(place: str, search: str) -> None:
    """For each number on standard input: watches a search by so many streams, until the next number."""
    host, _, port = place.partition(":")
    request = f"GET /api/searches/{search}/events HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer benchmark\r\n\r\n"
    streams: list[socket.socket] = []
    for line in sys.stdin:
        for stream in streams:
            stream.shutdown(socket.SHUT_RDWR)
        streams = [socket.create_connection((host, int(port))) for _ in range(int(line))]
        for stream in streams:
            stream.sendall(request.encode())
            threading.Thread(target=read, args=(stream,), daemon=True).start()
        print("watching", flush=True)


def read(stream: socket.socket) -> None:
    """Reads a stream until it is closed."""
    with suppress(OSError):
        while stream.recv(1 << 16):
            pass


def first_board(game: str) -> float:
    """Seconds from a request for the page to the answer with the first position."""
    server = Server(game)
    try:
        begin = time.perf_counter()
        for path in ("/", "/static/app.js", "/static/style.css", "/api/setup"):
            server.ask(path)
        server.ask("/api/position", {"game": game})
        return time.perf_counter() - begin
    finally:
        server.process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="go:9")
    parser.add_argument("--search", default="uct")
    parser.add_argument("--watchers", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--as-watchers", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_watchers:
        return as_watchers(*options.as_watchers)
    print(f"first board after {first_board(options.game):.2f} s, of the server's part")
    watched = Watched(options.game, options.search)
    watched.turn(1.0, options.watchers)  # what is compiled is compiled now
    logs, sums = [], {0: [0.0] * 4, options.watchers: [0.0] * 4}
    for number in range(options.pairs):
        speeds = {}
        for watchers in sorted(sums, reverse=number % 2 == 0):
            figures = watched.turn(options.seconds, watchers)
            sums[watchers] = [value + other for value, other in zip(sums[watchers], figures, strict=True)]
            speeds[watchers] = figures[0] / (figures[1] + figures[2])
        logs.append(math.log(speeds[options.watchers] / speeds[0]))
        print(f"{options.watchers} watching {speeds[options.watchers]:,.0f}/s, none {speeds[0]:,.0f}/s", flush=True)
    error = 1.96 * stdev(logs) / len(logs) ** 0.5 if len(logs) > 1 else math.inf
    low, middle, high = (math.exp(mean(logs) + part) for part in (-error, 0.0, error))
    print(f"ratio {middle:.4f}, 95 % interval {low:.4f} to {high:.4f}, {options.pairs} pairs")
    for watchers, (_, own, others, published) in sums.items():
        total = own + others
        shares = f"snapshots {published / total:.2%}, other threads {others / total:.2%}"
        print(f"{watchers} watching, {total:.0f} s of the processor: {shares}")
    watched.session.stop()
    watched.watchers.terminate()


if __name__ == "__main__":
    main()
