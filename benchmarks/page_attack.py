"""Random requests and broken streams against the page's server: tracebacks, searches that stay, memory that grows.

    python -m benchmarks.page_attack [--requests 10000] [--streams 500] [--seed 0]

The first third of the requests fills caches, and memory is compared from there on (Linux). A request is a route with
fields that fit, fields that do not, bytes that are no JSON, or a foreign host, origin or token. A broken stream is
closed in the middle of the events of a search that runs.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import struct
import tempfile
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Any

from benchmarks.watching import Server
from engram.web.sessions import ALONE_S

GAMES = ("tic_tac_toe", "connect_four", "go:5", "hex:4", "pig", "2048", "othello:4", "nothing", "x.py:g", "go:99", "")
SEARCHES = ("uct", "rave", "memory_uct(capacity=100,dimension=32)", "uct(exploration=nan)", "uct(", "random", "y.py:p")
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    1e308,
    "",
    "a" * 3000,
    "\0",
    "<b>",
    [],
    [[]],
    {"a": 1},
    "🙂",
    "\ud800",
)
READ = ("alive", "setup", "matches", "matches/1", "ratings", "nothing")
ROUTES = (
    *READ, "position", "searches", "searches", "compare", "matches/1/games", "runs", "sgf/read", "sgf/write",
    "searches/{}/stop", "searches/{}/tree", "searches/{}/node", "searches/{}/memory", "searches/{}/map", "runs/{}/stop",
)  # fmt: skip


def fields_of(choose: random.Random, searches: list[str]) -> dict[str, Any]:
    """Fields of a request, most of them as the page would send them."""
    fields: dict[str, Any] = {
        "game": choose.choice(GAMES[:7]), "search": choose.choice(SEARCHES[:3]), "simulations": choose.randint(1, 500),
        "moves": [], "path": choose.choices(range(9), k=choose.randrange(3)), "width": 300, "depth": 3,
        "a": choose.choice(searches), "b": choose.choice(searches), "sgf": "(;SZ[5];B[aa];W[bb])",
    }  # fmt: skip
    for name in choose.sample(sorted(fields), choose.choice((0, 0, 1, 2))):
        fields[name] = choose.choice((*GAMES, *SEARCHES, *ODD))
    return fields


def request(server: Server, choose: random.Random, searches: list[str]) -> int:
    """Sends one request; the status of the answer. Notes the name of a search that it has started."""
    route = choose.choice(ROUTES)
    path = "/api/" + route.format(choose.choice(searches))
    method = "GET" if route in READ else "POST"
    body = json.dumps(fields_of(choose, searches)).encode("utf-8", "replace")
    headers = dict(server.headers)
    match choose.randrange(16):
        case 0:
            body = choose.randbytes(choose.randrange(200))
        case 1:
            body = b"[" * choose.randrange(100_000)
        case 2:
            headers = {"authorization": f"Bearer {choose.random()}"}
        case 3:
            headers["origin"] = "http://elsewhere.example"
        case 4:
            headers["host"] = "elsewhere.example"
        case 5:
            method = choose.choice(("GET", "POST", "PUT", "DELETE"))
    connection = HTTPConnection(server.place, timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        if path == "/api/searches" and answer.status == 200:
            searches.append(json.loads(data)["id"])
            del searches[:-8]
        return answer.status
    finally:
        connection.close()


def break_stream(server: Server, choose: random.Random) -> None:
    """Watches a search that runs, and resets the connection in the middle."""
    fields = {"game": "connect_four", "search": "uct", "seconds": 0.2}
    answer = json.loads(server.ask("/api/searches", fields))
    if "id" not in answer:  # as many searches run as may
        return
    host, port = server.place.split(":")
    with socket.create_connection((host, int(port))) as stream:
        lines = [f"GET /api/searches/{answer['id']}/events HTTP/1.1", f"Host: {server.place}"]
        lines += [f"{name}: {value}" for name, value in server.headers.items()]
        stream.sendall("\r\n".join([*lines, "", ""]).encode())
        stream.recv(choose.choice((1, 100, 4000)))
        # With a linger of 0 seconds, close sends a reset.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def memory_of(process: int) -> float:
    """Resident memory, MiB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) / 256


def settled(server: Server) -> float:
    """Resident memory, MiB, once the searches that the server keeps are small ones."""
    time.sleep(ALONE_S + 5.0)  # until no search goes on that nothing watches
    fields = {"game": "tic_tac_toe", "search": "uct", "simulations": 10}
    deadline, ended = time.monotonic() + 120, 0
    while ended < 20:
        answer = json.loads(server.ask("/api/searches", fields))
        if "id" in answer:
            server.watch(answer["id"])
            ended += 1
        elif time.monotonic() < deadline:
            time.sleep(0.1)  # as many searches run as may
        else:
            raise SystemExit("the places of searches do not come free again")
    return memory_of(server.process.pid)


def attack(server: Server, log: IO[str], options: argparse.Namespace) -> None:
    choose, searches = random.Random(options.seed), ["nothing"]
    statuses: Counter[str] = Counter()
    memory = []
    for number in range(options.requests):
        if number in (options.requests // 3, 2 * options.requests // 3):
            memory.append(settled(server))
        try:
            statuses[str(request(server, choose, searches))] += 1
        except (OSError, HTTPException) as error:
            statuses[type(error).__name__] += 1
        if number * options.streams // options.requests != (number + 1) * options.streams // options.requests:
            break_stream(server, choose)
    memory.append(settled(server))
    tracebacks = Path(log.name).read_text().count("Traceback")
    print(", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items())))
    print(
        f"{options.requests:,} requests, {options.streams} broken streams: {tracebacks} tracebacks; "
        f"memory after each third {', '.join(f'{part:.0f}' for part in memory)} MiB ({memory[2] / memory[0] - 1:+.1%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        server = Server("connect_four", errors=log)
        try:
            attack(server, log, options)
        finally:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
