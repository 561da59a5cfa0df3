"""A real browser on a real server, for the tests of the page."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 120_000
"""Bound of waiting for an event; a first search may have to be compiled."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Served:
    """A server of the page in a process of its own, which can be killed and started again at its address."""

    def __init__(
        self, folder: Path, *options: str, stderr: int | None = None, environment: dict[str, str] | None = None
    ):
        self.port = free_port()
        self.folder, self.options, self.stderr, self.environment = folder, options, stderr, environment
        self.start()

    def start(self) -> None:
        command = "from engram.cli.app import main; main()"
        opens = [] if self.environment else ["--no-open"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, "serve", *opens, "--port", str(self.port), *self.options],
            stdout=subprocess.PIPE, stderr=self.stderr, text=True, cwd=self.folder,
            env={**os.environ, **self.environment} if self.environment else None,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith(f"http://127.0.0.1:{self.port}/#token="), self.address

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


class Visit:
    """A page in a browser that is new to the server, and all that it asked for and complained of."""

    def __init__(self, browser, address: str, *, width: int = 1280, height: int = 900, scheme: str = "light"):
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.hosts: set[str | None] = set()
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname))
        self.page.on("console", lambda line: line.type == "error" and self.complaints.append(line.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        self.page.locator("body.ready").wait_for()

    def close(self) -> None:
        self.context.close()
