"""The typed command as a report may show it: without folders, databases and options that concern only this machine."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from engram.errors import InvalidSpecification
from engram.specification import split_specifications

_HIDDEN = ("as_json", "allow_files", "cluster", "gpu_share", "allow_unequal", "workers")
_DATABASES = ("database", "storage")
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\]")  # not gymnasium:ALE/Pong-v5
_QUOTED = re.compile(r"(['\"])(.*?)\1")  # in a specification


def typed(context: typer.Context) -> dict[str, Any]:
    """A command and its settings: `command` and `settings`, arguments of `write_report`.

    A path appears by its last part, and a database not at all: people publish reports, which must show neither folders
    nor passwords.
    """
    words, settings = context.command_path.split(), dict[str, Any]()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in context.params or name in _DATABASES:
            continue
        value = _shown(context.params[name])
        if is_typed(context, name):
            words += _words(parameter, value)
        if name not in _HIDDEN and not isinstance(context.params[name], Path):
            settings[max(parameter.opts, key=len).lstrip("-").replace("-", " ")] = value
    return {"command": shlex.join(words), "settings": settings}


def is_typed(context: typer.Context, name: str) -> bool:
    """Whether an option is on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _words(parameter: Any, value: Any) -> list[str]:
    """An option or argument with its value."""
    values = value if isinstance(value, list) else [value]
    if not parameter.opts[-1].startswith("-"):
        return list(map(str, values))
    name = max(parameter.opts, key=len)
    if isinstance(value, bool):
        return [name if value else parameter.secondary_opts[0]] if value or parameter.secondary_opts else []
    return [word for item in values for word in (name, str(item))]


def _shown(value: Any) -> Any:
    """A value without the folders of a path."""
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value]
    if isinstance(value, str):
        return without_folders(value)
    return value.name if isinstance(value, Path) else value


def without_folders(text: str) -> str:
    """A text, or a list of specifications, with the last part of each path in it."""
    parts = [text]
    with suppress(InvalidSpecification):  # another text, such as a title
        parts = split_specifications(text) or parts
    short = list(map(_without_folders, parts))
    return ",".join(short) if short != parts else text


def _without_folders(text: str) -> str:
    head, bracket, rest = text.partition("(")
    in_words = head == "gtp"  # a command line
    return _last(head) + bracket + _QUOTED.sub(lambda text: text[1] + _last(text[2], in_words) + text[1], rest)


def _last(text: str, in_words: bool = False) -> str:
    """The last part of a text that is a path, or of each of its words; other texts as they are."""
    if in_words:
        return " ".join(map(_last, text.split(" ")))
    is_path = _PATH.match(text) or os.path.exists(text.partition(":")[0])  # such as nets/my.py:mine
    return re.split(r"[/\\]", text)[-1] if is_path else text
