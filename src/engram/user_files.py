"""Games, presets and players from a user's own file, written `path/to/file.py:name` or `file.py:name(size=5)`.

Using such a text runs the file, with all rights of the user. Therefore a text that the user typed may name a file, but
a text from a database, a memory or a network may not; its readers use it inside `stored`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from itertools import dropwhile
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import engram
from engram.errors import EngramError, InvalidFile, InvalidSpecification, nearest
from engram.native.cache import is_installed, sources
from engram.native.messages import PACKAGE
from engram.registry import Parts, bind
from engram.specification import MAX_LENGTH, Specification, parse
from engram.storage import check_regular

_WRITTEN = re.compile(r"\s*(?P<path>\S.*?\.py):(?P<rest>.+)", re.DOTALL)


@dataclass(frozen=True)
class _Record:
    name: str
    allow_files: bool
    digest: str
    present_digest: Callable[[], str]


_moved: tuple[Path, Path] | None = None
"""A folder on another machine, and the folder on this machine that holds its files."""

_loading = threading.RLock()
_running: set[str] = set()  # files whose module has not yet run to its end
_displaced: dict[str, dict[str, ModuleType]] = {}
"""Modules of a folder whose names in `sys.modules` belong to other modules."""

_record: ContextVar[_Record | None] = ContextVar("record", default=None)


@contextmanager
def stored(
    name: str, *, allow_files: bool = False, digest: str = "", present_digest: Callable[[], str] = str
) -> Iterator[None]:
    """Texts used inside this block come from a record that a stranger may have written, so they run no code.

    Args:
      name: of the record, for messages, such as `"match 1 of results.sqlite"`.
      allow_files: the user trusts the record, so its files may run if they have not changed since it was written.
      digest: the record's digest of its files; empty: no file may run.
      present_digest: computes the current digest of the files, without running them.
    """
    token = _record.set(_Record(name, allow_files, digest, present_digest))
    try:
        yield
    finally:
        _record.reset(token)


def check_code(code: str, *, allowable: bool = True) -> None:
    """Refuses code that a record names; has no effect outside `stored`.

    Args:
      code: the name of the code, for the message. allowable: whether the user can allow it at all.

    Raises:
      InvalidSpecification: the record may not run it; the message gives the reason and the remedy.
    """
    record = _record.get()
    if record is None:
        return
    if not allowable or not record.digest:
        reason = "type it yourself if you trust it"
    elif not record.allow_files:
        reason = "if you trust it, allow its files (--allow-files, in Python allow_files=True)"
    elif record.digest != record.present_digest():
        reason = "its contents have changed since the record was made"
    else:
        return
    raise InvalidSpecification(f"{record.name} names {code}, which is code and was not run: {reason}")


def check_data(file: str) -> None:
    """Refuses a file that a record names as data of a game; has no effect outside `stored`.

    Raises:
      InvalidSpecification: it was not read; the message gives the reason.
    """
    record = _record.get()
    if record is not None:
        raise InvalidSpecification(f"{record.name} names {file!r}, which may be a file and was not read")


def move(places: tuple[Path, Path] | None) -> None:
    """Redirects the files of a folder on another machine to its copy on this machine; texts do not change.

    Args:
      places: the folder there, and its copy here; None: no redirection.
    """
    global _moved
    _moved = places


def _place(path: Path) -> Path:
    """The place on this machine of a file that a text names."""
    if _moved is not None and path.is_absolute() and path.is_relative_to(_moved[0]):
        return _moved[1] / path.relative_to(_moved[0])
    return path


def is_in_file(text: str) -> bool:
    """Whether a specification names something in a file."""
    return isinstance(text, str) and (_written(text) is not None or text.strip().endswith(".py"))


def _written(text: str) -> re.Match[str] | None:
    """The file in a text and the part after it; None for `uct(option='x.py:y')`, where the colon is in an option."""
    written = _WRITTEN.fullmatch(text) if len(text) <= MAX_LENGTH else None
    return written if written is not None and written["path"].count("(") == written["path"].count(")") else None


def split(text: str) -> tuple[Path, Specification]:
    """The file of a specification, and the part after it, without running the file.

    Raises:
      InvalidSpecification: there is no such file, or the text names no object in it.
    """
    written = _written(text)
    if written is None:
        name = Path(text.strip()).stem
        raise InvalidSpecification(
            f"{text.strip()} lacks the name of a game, preset or player in the file, such as {text.strip()}:{name}"
        )
    path = Path(os.path.expanduser(written["path"]))
    if not _place(path).is_file():
        if "(" in written["path"]:
            raise InvalidSpecification(f"{text.strip()}: a file comes first, as in my_rules.py:mine")
        raise InvalidSpecification(f"there is no file {path}")
    return path, parse(written["rest"])


def _file_of(text: str) -> Path:
    """The file of a specification on this machine."""
    return _place(split(text)[0]).resolve()


def load(text: str) -> tuple[Any, Specification, str]:
    """The object that a specification names in a file, the part after the file's name, and the canonical text.

    Raises:
      InvalidSpecification: there is no such file or name, the file does not run, or a record may not run it.
    """
    check_code(text)
    path, specification = split(text)
    module = _module(_place(path))
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
      InvalidSpecification: as `load`; or there is no such option, or the function fails.
    """
    entry, specification, canonical = load(text)
    has_options = bool(specification.positional or specification.options)
    if not callable(entry) or (isinstance(entry, kinds) and not has_options):
        if has_options:
            raise InvalidSpecification(f"{canonical} is not a function, so it takes no options")
        return entry, canonical
    arguments = bind(entry, specification, parts, given)
    try:
        with _neighbours_first(str(_file_of(text).parent)), redirect_stdout(sys.stderr):
            return entry(**arguments), canonical
    except EngramError:
        raise
    except Exception as error:
        raise InvalidSpecification(f"{canonical}: {failure(error)}") from error


def failure(error: BaseException, *, users_only: bool = False) -> str:
    """An exception in a sentence, with the last line of a user's file in its traceback.

    Args:
      users_only: return an empty text for an exception without such a line.
    """
    called = dropwhile(lambda frame: not frame.filename.startswith(PACKAGE), traceback.extract_tb(error.__traceback__))
    frames = [frame for frame in called if _is_users(frame.filename)]  # the caller's own script comes before them
    if not frames:
        return "" if users_only else f"{type(error).__name__}: {error}"
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno} {frames[-1].name}"
    return f"{place} raised {type(error).__name__}: {error}"


def code_of(texts: Iterable[str]) -> list[Path]:
    """Source files that specifications name, with the user's files that these import; none of them is run."""
    files = {str(file) for text in filter(is_in_file, texts) for file in users_sources(_file_of(text))}
    return list(map(Path, sorted(files)))


def users_sources(file: Path) -> list[Path]:
    """A source file and the user's files that it imports, sorted by name: the order is the same wherever they are."""
    package = str(Path(engram.__file__).resolve().parent) + os.sep
    files = [Path(place) for place in sources(str(file))]
    return sorted((place for place in files if not str(place.resolve()).startswith(package)), key=attrgetter("name"))


def digest_of(files: Iterable[Path]) -> str:
    """Digest of the names and contents of files, as 16 hexadecimal digits; empty without files."""
    digest, empty = hashlib.sha256(), hashlib.sha256().digest()
    for file in files:
        check_regular(file)
        with open(file, "rb") as content:
            digest.update(file.name.encode() + b"\0" + hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16] if digest.digest() != empty else ""


def check_sources(
    path: str | Path, about: Mapping[str, Any], sources: str | None, key: str = "sources", what: str = "a game"
) -> None:
    """Refuses data of a game, search or player for a different one of the same name, if both digests are known.

    Args:
      path, about: the file of the data, and its metadata. sources: digest of the present game, search or player. key,
        what: the place of the digest in the metadata, and the word for its kind.

    Raises:
      InvalidFile: the digests differ.
    """
    if sources is not None and about.get(key, sources) != sources:
        raise InvalidFile(f"{path} is of {what} in other files, or of an earlier version of this one: build it anew")


class _Neighbours:
    """Finds top-level modules in a folder, except those with names in Python's own library."""

    def __init__(self, folder: str):
        self._folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if path is not None or name in sys.stdlib_module_names:
            return None
        spec = PathFinder.find_spec(name, [self._folder])
        if spec is not None and spec.loader is None:  # a folder without `__init__.py` may hold only data
            other = PathFinder.find_spec(name)
            return spec if other is None or other.loader is None else None
        return spec


def _is_users(place: str) -> bool:
    """Whether a path belongs to neither engram nor Python nor an installed package."""
    return os.path.isabs(place) and not place.startswith(PACKAGE) and not is_installed(place)


def _folder_of(module: Any) -> str:
    """The folder of a user's module; "" for those of engram, Python and installed packages."""
    place = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", None) or ()), "")
    return os.path.dirname(os.path.realpath(place)) + os.sep if _is_users(place) else ""


@contextmanager
def _neighbours_first(folder: str) -> Iterator[None]:
    """Imports use the files of a folder, not loaded files of the same name from elsewhere, such as an older copy."""

    def has(name: str) -> bool:
        place = os.path.join(folder, name)
        return os.path.isfile(f"{place}.py") or os.path.isdir(place)

    with _loading:
        others = {
            name: module
            for name, module in list(sys.modules.items())
            if (place := _folder_of(module)) and not place.startswith(folder + os.sep) and has(name.partition(".")[0])
        }
        for name in others:
            del sys.modules[name]
        sys.modules.update(_displaced.get(folder, {}))
        finder = _Neighbours(folder)
        sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
        try:
            yield
        finally:
            sys.meta_path.remove(finder)  # type: ignore[arg-type]
            tops = {name.partition(".")[0] for name in others}
            own = {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in tops}
            for name in own:
                del sys.modules[name]
            _displaced.setdefault(folder, {}).update(own)
            sys.modules.update(others)


def _module(path: Path) -> ModuleType:
    full = str(path.resolve())
    module = _loaded(full)
    if module is None or full in _running:  # another thread is running it, and it would be taken half-run
        with _loading:
            module = _loaded(full) or _run(path, full)
    return module


def _loaded(full: str) -> ModuleType | None:
    return next((module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == full), None)


def _run(path: Path, full: str) -> ModuleType:
    name = path.stem
    folder = os.path.dirname(full)
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        name = f"{path.stem}_{hashlib.sha256(os.fsencode(full)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    _running.add(full)
    sys.modules[name] = module
    if folder not in sys.path:
        sys.path.append(folder)  # for imports inside functions, which run later
    try:
        with _neighbours_first(folder), redirect_stdout(sys.stderr):  # a library's greeting is no part of the output
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        cause = str(error) if isinstance(error, EngramError) else failure(error)
        raise InvalidSpecification(f"{path} does not run: {cause}") from error
    finally:
        _running.discard(full)
    return module
