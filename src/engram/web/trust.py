"""Texts typed on the page: without `--allow-files` they may not name a file, a program or a user's code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import engram
from engram.arena.sources import files_named
from engram.errors import InvalidSpecification
from engram.specification import parse
from engram.user_files import is_in_file, stored

_PACKAGE = Path(engram.__file__).resolve().parent
_PROGRAMS = ("gtp",)


@contextmanager
def typed(text: str, *, allow_files: bool) -> Iterator[None]:
    """A block in which a text from the page, and no other, becomes a game or a player.

    Raises:
      InvalidSpecification: the text names a file or a program, and files are not allowed.
    """
    if allow_files:
        yield
        return
    if is_in_file(text) or _names_files(text):
        raise InvalidSpecification(
            f"{text} names a file or a program of this machine: start `engram serve` with --allow-files to use it"
        )
    with stored("the page"):
        yield


def _names_files(text: str) -> bool:
    files = files_named([text])
    return parse(text).name in _PROGRAMS or any(not file.resolve().is_relative_to(_PACKAGE) for file in files)
