"""A training's progress on the terminal: one line that changes, and each warning once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def training_live(line: Callable[[Any], str], *, quiet: bool) -> Iterator[Callable[[Any], None]]:
    """Gives a function to call with every progress, which has `warnings`; `line` says it in words.

    Args:
      quiet: warnings only.
    """
    from rich.console import Console
    from rich.live import Live

    said: set[str] = set()
    with Live(console=Console(stderr=True), auto_refresh=False) as live:

        def shown(now: Any) -> None:
            for warning in now.warnings:
                if warning not in said:
                    live.console.print(f"warning: {warning}")
                    said.add(warning)
            if not quiet and sys.stderr.isatty():
                live.update(line(now), refresh=True)

        yield shown
