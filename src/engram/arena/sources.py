"""Files that specifications of games and players name, and their digest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from engram import user_files
from engram.errors import EngramError
from engram.player import PLAYERS
from engram.presets.catalogue import PRESETS
from engram.registry import FilesOf, files_from_outside, files_of, marks_of, registries_of, types_of
from engram.search.operators import OPERATORS
from engram.specification import Specification, parse
from engram.user_files import is_in_file, split

_RULES = (*OPERATORS, "decision")
"""Options whose values are names of rules."""


def text_digest(texts: Sequence[str]) -> str:
    """Digest of the files that specifications name, so that an edited file makes another match; empty without files."""
    return user_files.digest_of(files_named(texts))


def is_out_of_date(sources: str, texts: Sequence[str]) -> bool:
    """Whether files of specifications have changed since their digest was `sources`.

    False if they are gone, or if a script has registered a name that this process lacks.
    """
    with suppress(EngramError, OSError):
        rules = [(option, name) for option, name in _names(texts) if option in _RULES]
        if all(name in registry for option, name in rules for registry in registries_of(option)):
            return text_digest(texts) != sources
    return False


def _names(texts: Sequence[str]) -> list[tuple[str, str]]:
    return [pair for text in texts if not is_in_file(text) for pair in parse(text).names]


def code_from_outside(texts: Sequence[str]) -> list[str]:
    """Files that define names in specifications, such as a rule in the script that runs; other processes lack these."""
    return sorted({file for option, name in _names(texts) for file in files_from_outside(option, name)})


def files_named(texts: Sequence[str]) -> list[Path]:
    """Files that specifications name.

    These are users' source files with their imports, also those that only define a name, and the files that options of
    the type `DataFile` name.
    """
    data: list[Path] = []
    for text in texts:
        if is_in_file(text):
            data += _files_in(split(text)[1])
            continue
        specification = parse(text)
        for names in (PRESETS, PLAYERS):
            if specification.name in names:
                data += files_of(names[specification.name], specification, OPERATORS)
    outside = [file for place in code_from_outside(texts) for file in user_files.users_sources(Path(place))]
    return list(dict.fromkeys([*user_files.code_of(texts), *outside, *data]))


def _files_in(specification: Specification) -> Iterator[Path]:
    """Data files of a user's function: texts that name a file, and options named like a built-in preset's file option.

    The function's types are not read, because code that a record names may not run before its digest is known.
    """
    marks = _file_options()
    for name, value in [*(("", value) for value in specification.positional), *specification.options.items()]:
        if isinstance(value, Specification):
            yield from _files_in(value)
            continue
        files = {file for mark in marks.get(name, ()) for file in mark.find(str(value))}
        for text in value if isinstance(value, tuple) else (value,):
            path = os.path.expanduser(text) if isinstance(text, str) else ""  # Path.expanduser raises without a home
            if os.path.isfile(path):
                files.add(Path(path))
        yield from sorted(files)


def _file_options() -> dict[str, list[FilesOf]]:
    return {name: marks_of(hint) for entry in PRESETS.values() for name, hint in types_of(entry, marks=True)[0].items()}
