"""Games, presets and players from a user's own file, written `path/to/file.py:name` or `file.py:name(size=5)`."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from engram.errors import EngramError, InvalidSpecification, nearest
from engram.registry import Parts, bind
from engram.specification import Specification, parse

_WRITTEN = re.compile(r"\s*(?P<path>.+\.py):(?P<rest>.+)", re.DOTALL)


def is_in_file(text: str) -> bool:
    """Whether a specification names something in a file."""
    return _WRITTEN.fullmatch(text) is not None or text.strip().endswith(".py")


def load(text: str) -> tuple[Any, Specification, str]:
    """The object that a specification names in a file, the part after the file as a specification, the canonical text.

    Raises:
      InvalidSpecification: no such file or name, or the file does not run.
    """
    found = _WRITTEN.fullmatch(text)
    if found is None:
        name = Path(text.strip()).stem
        raise InvalidSpecification(
            f"{text.strip()} lacks the name of a game, preset or player in it, such as {text.strip()}:{name}"
        )
    path = Path(found["path"]).expanduser()
    specification = parse(found["rest"])
    module = _module(path)
    if not hasattr(module, specification.name):
        public = [name for name in vars(module) if not name.startswith("_")]
        raise InvalidSpecification(f"{path} has no {specification.name!r}{nearest(specification.name, public)}")
    return getattr(module, specification.name), specification, f"{path}:{specification.text}"


def make(text: str, kinds: type | tuple[type, ...], parts: Parts | None = None, **given: Any) -> tuple[Any, str]:
    """The object that a specification in a file stands for, or that its function makes, and the canonical text.

    Args:
      kinds: types of objects to return as they are; any other class or function is called with the options.
      parts, given: as in `engram.registry.bind`.

    Raises:
      InvalidSpecification: no such file, name or option, or the function fails.
    """
    entry, specification, canonical = load(text)
    if isinstance(entry, kinds) or not callable(entry):
        if specification.positional or specification.options:
            raise InvalidSpecification(f"{canonical} is not a function, so it takes no options")
        return entry, canonical
    arguments = bind(entry, specification, parts, given)
    try:
        return entry(**arguments), canonical
    except EngramError:
        raise
    except Exception as error:
        raise InvalidSpecification(f"{canonical}: {type(error).__name__}: {error}") from error


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidSpecification(f"there is no file {path}")
    full = str(path.resolve())
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == full:
            return module
    name = path.stem
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        name = f"{path.stem}_{hashlib.sha256(full.encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = os.path.dirname(full)
    if folder not in sys.path:
        sys.path.append(folder)  # lets the file import its neighbours
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        cause = str(error) if isinstance(error, EngramError) else f"{type(error).__name__}: {error}"
        raise InvalidSpecification(f"{path} does not run: {cause}") from error
    return module
