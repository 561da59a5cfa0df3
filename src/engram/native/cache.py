"""The cache of machine code: a folder for each module, named by everything that the code depends on.

Numba's own cache checks only the file of a function, so it becomes stale when a function in *another* file changes.
Here a folder holds the compiled code of one module. Its name contains a hash of the flags that change code and of every
source file that the module imports, directly or indirectly. Editing a user's game recompiles that game but not the
engine; an edit two imports away takes effect. Within a folder, the key of a user's function contains a digest of the
constants that the function takes from its surroundings.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import re
import shutil
import sys
import sysconfig
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numba.core.codegen import RuntimeLinker
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys

from engram.errors import InvalidFile
from engram.native.messages import PACKAGE

_FLAGS = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "CPU_NAME", "CPU_FEATURES")
_IMPORT = re.compile(
    r"^(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]+)|import[ \t]+([^\n#]+))", re.MULTILINE
)
_INSTALLED = tuple(
    os.path.realpath(sysconfig.get_paths()[key]) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")
)
_FOLDER = re.compile(r".+-[0-9a-f]{20}")
_MARKER = ".engram-cache"  # a file in every cache folder; a folder without it is not engram's
lock = global_compiler_lock  # a compilation opens caches, and `caching` may compile: two locks could deadlock


def cache_root() -> Path:
    """The folder of all compiled code: `$ENGRAM_CACHE_DIR`, or `engram` in the user's cache folder.

    The variable may name any folder. engram adds one subfolder for each module, removes subfolders not used for a
    month, and leaves everything else there alone.

    Raises:
      InvalidFile: the user has no home folder.
    """
    folder = os.environ.get("ENGRAM_CACHE_DIR")
    if folder:
        return Path(os.path.expanduser(folder))
    base, home = os.environ.get("XDG_CACHE_HOME"), os.path.expanduser("~")
    if not base and home == "~":
        raise InvalidFile("this user has no home folder: name a folder for compiled code in ENGRAM_CACHE_DIR")
    return Path(os.path.expanduser(base or "~/.cache")) / "engram"


@cache
def _imports(path: str, root: str) -> tuple[str, ...]:
    """Source files that the file at `path` imports by name, without installed libraries.

    Args:
      root: for a user's file, the folder of the file that runs, whose files take precedence. Else "".
    """
    files: list[str] = []
    for source, names in _parsed_statements(path) if root else _statements(path):
        base = source.lstrip(".")
        level = len(source) - len(base)
        file_of = partial(_file_in, str(Path(path).parents[level - 1])) if level else partial(_file_of, root)
        modules = names
        if source:
            modules = [f"{base}.{name}".lstrip(".") for name in names if name.isidentifier()]
            # `from package import module` depends on the package only insofar as the module itself imports it.
            if not modules or any(file_of(name) is None for name in modules):
                modules.append(base)
        if root:  # the packages that contain the module also run
            modules += [package for name in modules for package in _packages(name)]
        files += [file for name in modules if (file := file_of(name)) is not None]
    return tuple(dict.fromkeys(files))


def _packages(name: str) -> list[str]:
    parts = name.split(".")
    return [] if parts[0] == "engram" else [".".join(parts[:count]) for count in range(1, len(parts))]


def _statements(path: str) -> Iterator[tuple[str, list[str]]]:
    """The imports of a file of ours: the module after `from`, or "", and the names. To parse all takes a second."""
    for source, names, plain in _IMPORT.findall(Path(path).read_text(encoding="utf-8", errors="replace")):
        yield source, [part.split(" as ")[0].strip() for part in (plain or names.strip("()\n ")).split(",")]


def _parsed_statements(path: str) -> Iterator[tuple[str, list[str]]]:
    """The imports of a user's file, in any style, and by `importlib.import_module`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(Path(path).read_bytes(), path)
    except (SyntaxError, ValueError, RecursionError):  # the error is reported when the file runs
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            yield source, [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name == "import_module" and isinstance(node.args[0].value, str):
                yield "", [node.args[0].value]


def _file_in(folder: str, name: str) -> str | None:
    place = os.path.join(folder, *name.split("."))
    return next((file for file in (f"{place}.py", os.path.join(place, "__init__.py")) if os.path.isfile(file)), None)


@cache
def _own_file(name: str) -> str | None:
    """The source file of one of engram's modules, loaded or not, so that every process names the same folders."""
    return _file_in(os.path.dirname(PACKAGE.rstrip(os.sep)), name)


def _file_of(root: str, name: str) -> str | None:
    """The source file of a module by its full name; None for modules whose source does not change.

    The module may not be loaded yet: a user's file may import files of its folder, `root`, which take precedence.
    """
    first = name.partition(".")[0]
    if first == "engram":
        return _own_file(name)
    is_beside = root and first not in sys.stdlib_module_names
    path = (_file_in(root, name) if is_beside else None) or getattr(sys.modules.get(name), "__file__", None)
    if path is None:
        parent, _, last = name.rpartition(".")
        folders = getattr(sys.modules.get(parent), "__path__", None) or []
        path = next((str(file) for place in folders if (file := Path(place, f"{last}.py")).is_file()), None)
    if path is None or not path.endswith(".py"):
        return None
    return None if is_installed(path) else path


@cache
def is_installed(path: str) -> bool:
    """Whether a source file belongs to Python or to an installed package."""
    real = os.path.realpath(path)
    return real.startswith(_INSTALLED) or not {"site-packages", "dist-packages"}.isdisjoint(Path(real).parts)


def sources(path: str) -> list[str]:
    """All source files on which the compiled code of the file at `path` can depend, that file first."""
    reached: dict[str, None] = {path: None}
    queue, root = [path], os.path.dirname(os.path.abspath(path))
    while queue:
        importer = queue.pop()
        for file in _imports(importer, "" if importer.startswith(PACKAGE) else root):
            if file not in reached:
                reached[file] = None
                queue.append(file)
    return list(reached)


@cache
def _digest(path: str, _changed: int) -> bytes:
    """Digest of a file as of this last change; the result is kept, because many modules import the same files."""
    return hashlib.sha256(Path(path).read_bytes()).digest()


@cache
def cache_folder(path: str, module: str) -> str | None:
    """The cache folder of the module at `path`; None (no cache) if no folder can be written.

    Raises:
      InvalidFile: the folder exists, and another user owns it or may write to it.
    """
    digest = hashlib.sha256()
    for file in sorted(sources(path)):
        digest.update(os.fsencode(os.path.basename(file)) + b"\0" + _digest(file, os.stat(file).st_mtime_ns))
    for flag in _FLAGS:
        digest.update(f"{flag}={getattr(numba.config, flag, None)};".encode())
    digest.update(f"{numba.__version__};{np.__version__};".encode() + os.fsencode(path))
    name = path.removesuffix(".py") if module == "__main__" else module
    try:
        return str(private_folder(f"{os.path.basename(name)}-{digest.hexdigest()[:20]}"))
    except OSError as error:
        unkept.append(f"{cache_root()}: {error.strerror or error}")
        return None


unkept: list[str] = []
"""Where compiled code cannot be kept, and why."""


def private_folder(name: str) -> Path:
    """A private folder of the user in the cache; its name ends in a hyphen and a digest of 20 digits.

    Raises:
      InvalidFile: the folder exists, and another user owns it or may write to it. OSError: it cannot be written.
    """
    folder = cache_root().absolute() / name
    is_new = not folder.is_dir()
    for place in (folder.parent, folder):
        place.mkdir(0o700, parents=True, exist_ok=True)
        _check_private(place)
    (folder / _MARKER).touch()
    os.utime(folder)
    if is_new:  # only then does the cache grow; a start with a warm cache looks at no other folder
        _drop_stale(folder)
    return folder


def _check_private(folder: Path) -> None:
    """Refuses a folder whose code another user may have written: engram would run it."""
    status = folder.stat()
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        reason = "others may write to it" if status.st_uid == os.geteuid() else "it belongs to another user"
        raise InvalidFile(
            f"{folder} cannot be the cache of machine code, which engram runs: {reason}, so code in it may be theirs; "
            "name a new folder in ENGRAM_CACHE_DIR"
        )


def _drop_stale(folder: Path, keep_days: float = 30.0) -> None:
    """Removes cache folders not used for a month, so that editing does not fill the disk.

    The cache may be in a folder with other contents: only a folder with the name and the marker of a cache folder is
    removed, and never the target of a link.
    """
    for sibling in folder.parent.iterdir():
        try:
            is_cache = _FOLDER.fullmatch(sibling.name) and not sibling.is_symlink() and (sibling / _MARKER).is_file()
            if is_cache and sibling != folder and time.time() - sibling.stat().st_mtime > keep_days * 86400:
                shutil.rmtree(sibling, ignore_errors=True)
        except OSError:
            continue


def fault_of_cache(error: BaseException) -> str:
    """A sentence if an error arose from writing compiled code to disk; else empty."""
    trace = error.__traceback__
    while isinstance(error, OSError) and trace is not None:
        if trace.tb_frame.f_code.co_filename == numba.core.caching.__file__:
            where = f"{cache_root()}: {error.strerror or error}; ENGRAM_CACHE_DIR names another folder"
            return f"compiled code cannot be kept in {where}"
        trace = trace.tb_next
    return ""


class KeptCode(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function. engram's own code needs none of the compiler's tables, a third of a start's time.

    A user's code may need them: Numba's hashes of strings are symbols that come with those tables.
    """

    @property
    def _is_ours(self) -> bool:
        return bool(self._py_func.__code__.co_filename.startswith(PACKAGE))

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        key = super()._index_key(sig, codegen)
        return key if self._is_ours else (*key, constants_of(self._py_func))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            if not self._is_ours:
                return super().load_overload(sig, target_context)
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except OSError:
            raise
        except Exception:  # a power failure or the disk has damaged the file: the function is compiled again
            self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        data.library._ensure_finalized()  # only then does it hold the functions that it calls
        if not is_circular(data.library):
            super().save_overload(sig, data)


def constants_of(function: Any) -> str:
    """A digest of what a user's function, and those that it calls, take from their modules and enclosing functions.

    Numbers, texts and arrays are constants in compiled code, and a module may take them from a data file or from the
    environment. The same holds for the choice of a function.
    """
    return _taken_by(function, with_arrays=True)[0]


def numbers_of(function: Any) -> str:
    """The same digest, but with only the shapes of arrays, which may hold many numbers."""
    return _taken_by(function, with_arrays=False)[0]


def helpers_of(function: Any) -> list[Any]:
    """The user's compiled helpers that a function calls, directly or indirectly."""
    return _taken_by(function, with_arrays=False)[1]


def _taken_by(function: Any, with_arrays: bool) -> tuple[str, list[Any]]:
    """The digest of a function's constants, and its helpers."""
    digest, visited, functions, helpers = hashlib.sha256(), set[int](), [function], list[Any]()
    while functions:
        function = functions.pop()
        code = function.__code__
        if id(function) in visited or code.co_filename.startswith(PACKAGE) or is_installed(code.co_filename):
            digest.update(function.__qualname__.encode())
            continue
        digest.update(function.__qualname__.encode() + code.co_code + _content(code.co_consts))
        visited.add(id(function))
        codes = [code]  # those of inner functions and comprehensions follow
        for outer in codes:
            codes += [inner for inner in outer.co_consts if isinstance(inner, CodeType)]
        names = sorted({name for each in codes for name in each.co_names})
        values: list[Any] = [function.__globals__.get(name) for name in names]
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # the variable is not set yet
                values.append(cell.cell_contents)
        for value in values:
            callee = getattr(value, "py_func", value)
            if isinstance(value, ModuleType):
                if id(value) not in visited:
                    visited.add(id(value))
                    values += [vars(value).get(name) for name in names]
            elif inspect.isfunction(callee):
                functions.append(callee)
                if hasattr(value, "overloads") and not callee.__code__.co_filename.startswith(PACKAGE):
                    helpers.append(value)
            elif isinstance(value, np.ndarray) and not with_arrays:
                digest.update(f"{value.dtype}{value.shape};".encode())
            else:
                digest.update(_content(value) + b";")
    return digest.hexdigest(), helpers


def _content(value: Any) -> bytes:
    """The bytes of a value that compiled code may have as a constant; empty for other values."""
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return f"{value.dtype}{value.shape}".encode() + value.tobytes()
    if isinstance(value, tuple):
        return b"(" + b",".join(map(_content, value)) + b")"
    constants = bool | int | float | complex | str | bytes | Enum | np.dtype | type
    return repr(value).encode() if isinstance(value, constants) else b""


def is_circular(library: Any) -> bool:
    """Whether functions call each other in a circle: Numba links these at run time, so their code cannot be kept."""
    return any(place.name.startswith(RuntimeLinker.PREFIX) for place in library._final_module.global_variables)


@contextmanager
def caching(function: Callable[..., Any], part: str = "") -> Iterator[bool]:
    """Sets Numba's cache to the folder of the function's module; yields whether the function can be cached.

    `part` names a subfolder, for functions that are compiled with other options.
    """
    path = function.__code__.co_filename
    folder = cache_folder(path, function.__module__) if os.path.isfile(path) else None
    with lock:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = os.path.join(folder, part) if folder else before
        try:
            yield folder is not None
        finally:
            numba.config.CACHE_DIR = before
