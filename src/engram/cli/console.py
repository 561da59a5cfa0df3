"""Where tables go: as wide as the terminal, and wide enough for a file or a pipe."""

from __future__ import annotations

import sys

from rich.console import Console


def console() -> Console:
    """A console for standard output that does not cut tables short where nobody's window is narrow."""
    return Console(width=None if sys.stdout.isatty() else 160)
