"""Figures by Matplotlib, an optional package, drawn without a screen and written completely or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engram.errors import InvalidFile, MissingPackage
from engram.storage import whole


def new_figure(what: str, **options: Any) -> Any:
    """A figure of Matplotlib's, to draw on.

    Args:
      what: the reason for the figure, such as "a report". options: of Matplotlib's `Figure`.

    Raises:
      MissingPackage: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackage(f"{what} needs Matplotlib: pip install 'engram[plots]'") from None
    return Figure(**options)


def save(figure: Any, file: Path, *, dpi: int = 110) -> None:
    """Writes a figure as PNG.

    Raises:
      InvalidFile: the file cannot be written.
    """
    try:
        with whole(file) as part:
            figure.savefig(part, dpi=dpi, format="png")
    except OSError as error:
        raise InvalidFile(f"{file} cannot be written: {error.strerror or error}") from None
