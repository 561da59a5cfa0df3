"""Figures by Matplotlib, an optional package, drawn without a screen and written completely or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engram.errors import InvalidFile, optional_package
from engram.storage import check_place, writing


def new_figure(what: str, **options: Any) -> Any:
    """An empty figure of Matplotlib.

    Args:
      what: the purpose of the figure, such as "a report". options: of Matplotlib's `Figure`.

    Raises:
      MissingPackage: Matplotlib is not installed.
    """
    return optional_package("matplotlib.figure", "Matplotlib", "plots", what).Figure(**options)


def format_of(file: str | Path) -> str:
    """The format of a picture, by the ending of its name.

    Raises:
      InvalidFile: the ending is not .png, .pdf or .svg.
    """
    if (ending := Path(file).suffix.lower()) not in (".png", ".pdf", ".svg"):
        raise InvalidFile(f"{file}: a picture's name ends in .png, .pdf or .svg")
    return ending[1:]


def check_picture(file: str | Path, what: str) -> None:
    """Checks, before long work, that a picture could be saved to a file.

    Args:
      file: its name. what: as in `new_figure`.

    Raises:
      MissingPackage: Matplotlib is not installed. InvalidFile: another ending, or the file could not be written.
    """
    new_figure(what)
    check_place(file)
    format_of(file)


def save(figure: Any, file: str | Path, *, dpi: int = 110) -> None:
    """Writes a figure in the format that the file's name gives: .png, .pdf or .svg.

    Raises:
      InvalidFile: another ending, or the file cannot be written.
    """
    # A player's text is not a formula, but the numbers on an axis are.
    for text in figure.findobj(lambda part: hasattr(part, "set_parse_math")):
        if "$" in text.get_text() and "\\mathdefault" not in text.get_text():
            text.set_parse_math(False)
    with writing(file) as part:
        figure.savefig(part, dpi=dpi, format=format_of(file))
