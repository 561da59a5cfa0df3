"""The one place where Python becomes machine code, and where that code is cached.

Everything compiled in engram goes through two doors:

* `compiled` turns a helper function into a Numba function with the project's flags;
* `Callback` turns an operator (a function of a game, a selection rule, a backup rule...) into the
  *address* of a C function. The search kernel receives addresses as integers and calls them through
  `call` and `call_float`, so one compiled kernel serves every game and every rule, from any file.

Cache: Numba's own on-disk cache looks at the file of a function and at nothing else, so it goes
silently stale when a function in *another* file changes. Here each module's compiled code lies in a
folder whose name holds a hash of every source file the module imports, directly or not, and of the
flags that change code. An edit of a user's game recompiles that game and not the engine; an edit two
imports away takes effect.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, event
from numba.core.ccallback import CFunc
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from engram.errors import CompileError, nearest

_FLAGS = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "CPU_NAME", "CPU_FEATURES")
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]+)|import[ \t]+([^\n#]+))", re.MULTILINE
)
_INSTALLED = tuple(
    os.path.realpath(sysconfig.get_paths()[key]) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")
)
_FOLDER = re.compile(r".+-[0-9a-f]{20}")
_MARKER = ".engram-cache"  # a file in every cache folder: what lacks it is somebody else's
_lock = threading.RLock()


# ------------------------------------------------------------------------------------ the cache


def cache_root() -> Path:
    """Folder of all compiled code: `$ENGRAM_CACHE_DIR`, or `engram` in the user's cache folder.

    The variable may name any folder. engram adds subfolders of its own, one a module, and removes those that were not
    used for a month; it leaves everything else there alone.
    """
    chosen = os.environ.get("ENGRAM_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "engram"


@cache
def _imports(path: str) -> tuple[str, ...]:
    """Source files that the file at `path` imports by name, installed libraries left out."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    package = _package_of(path)
    found: list[str] = []
    for source, names, plain in _IMPORT.findall(text):
        if plain:
            wanted = [part.split(" as ")[0].strip() for part in plain.split(",")]
        else:
            base = _absolute(source, package)
            members = [part.split(" as ")[0].strip() for part in names.strip("()\n ").split(",")]
            wanted = [f"{base}.{member}" for member in members if member.isidentifier()]
            # `from package import module` runs nothing of the package that the module does not import itself.
            if not wanted or any(_file_of(name) is None for name in wanted):
                wanted.append(base)
        found += [file for file in map(_file_of, wanted) if file is not None]
    return tuple(dict.fromkeys(found))


def _package_of(path: str) -> str:
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == path:
            return name if os.path.basename(path) == "__init__.py" else name.rpartition(".")[0]
    return ""


def _absolute(source: str, package: str) -> str:
    if not source.startswith("."):
        return source
    level = len(source) - len(source.lstrip("."))
    parents = package.split(".")[: len(package.split(".")) - level + 1]
    return ".".join([*parents, source.lstrip(".")]).rstrip(".")


def _file_of(name: str) -> str | None:
    """The source file of a module by its full name, or None where it is not one whose source can change."""
    module = sys.modules.get(name)
    path = getattr(module, "__file__", None)
    if path is None:
        parent = getattr(sys.modules.get(name.rpartition(".")[0]), "__path__", None) or []
        for folder in parent:
            for candidate in (Path(folder) / f"{name.rpartition('.')[2]}.py",):
                if candidate.is_file():
                    path = str(candidate)
    if path is None or not path.endswith(".py"):
        return None
    installed = os.path.realpath(path).startswith(_INSTALLED)
    return path if not installed or name.split(".", maxsplit=1)[0] == "engram" else None


def sources(path: str) -> list[str]:
    """All source files that the compiled code of the file at `path` can depend on, itself first."""
    reached: dict[str, None] = {path: None}
    queue = [path]
    while queue:
        for file in _imports(queue.pop()):
            if file not in reached:
                reached[file] = None
                queue.append(file)
    return list(reached)


@cache
def _cache_folder(path: str, module: str) -> str | None:
    """Cache folder for the module at `path`; None (no cache) where no folder can be written."""
    digest = hashlib.sha256()
    for file in sorted(sources(path)):
        digest.update(os.path.basename(file).encode() + b"\0" + Path(file).read_bytes() + b"\0")
    for flag in _FLAGS:
        digest.update(f"{flag}={getattr(numba.config, flag, None)};".encode())
    digest.update(f"{numba.__version__};{np.__version__};{path}".encode())
    name = path.removesuffix(".py") if module == "__main__" else module
    folder = cache_root() / f"{os.path.basename(name)}-{digest.hexdigest()[:20]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARKER).touch()
        os.utime(folder)
    except OSError:
        return None
    _drop_stale(folder)
    return str(folder)


def _drop_stale(folder: Path, keep_days: float = 30.0) -> None:
    """Removes cache folders that were not used for a month, so that editing does not fill the disk.

    The user may have chosen a folder that holds other things: only a folder with the name and the marker of a cache
    folder goes, and never what a link leads to.
    """
    for other in folder.parent.iterdir():
        try:
            ours = _FOLDER.fullmatch(other.name) and not other.is_symlink() and (other / _MARKER).is_file()
            if ours and other != folder and time.time() - other.stat().st_mtime > keep_days * 86400:
                shutil.rmtree(other, ignore_errors=True)
        except OSError:
            continue


@contextmanager
def _caching(function: Callable[..., Any]) -> Iterator[bool]:
    """Points Numba's cache at the folder of `function`'s module; yields whether it can be cached."""
    path = function.__code__.co_filename
    folder = _cache_folder(path, function.__module__) if os.path.isfile(path) else None
    with _lock:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = folder or before
        try:
            yield folder is not None
        finally:
            numba.config.CACHE_DIR = before


class _Announce(event.Listener):
    """Says once, on the terminal, that something is being compiled (it happens once a machine)."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, occurrence: Any) -> None:
        quiet = os.environ.get("ENGRAM_QUIET") or not sys.stderr.isatty()
        if not self.said and not quiet:
            print("engram: compiling for this machine (once; kept on disk)...", file=sys.stderr, flush=True)
        self.said = True

    def on_end(self, occurrence: Any) -> None:
        pass


event.register("numba:compile", _Announce())


# ----------------------------------------------------------------------- functions and callbacks


def compiled(function: Callable[..., Any] | None = None, *, inline: bool = False) -> Any:
    """Compiles a helper for use inside operators and kernels (Numba, no Python objects, GIL released).

    Args:
      function: a function of numbers, NumPy arrays and records.
      inline: copy the body into every caller; worth it for a few lines on a hot path.

    Division by zero gives inf or nan as in NumPy; nothing is raised. Mixing int64 with uint64 gives
    float64: keep one signedness.
    """

    def wrap(target: Callable[..., Any]) -> Any:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        if inline:
            options["forceinline"] = True
        with _caching(target) as cached:
            return numba.njit(cache=cached, **options)(target)

    return wrap if function is None else wrap(function)


class Callback:
    """A Python function compiled to a C function that kernels call by its address.

    Args:
      function: module-level function; records arrive as records, buffers as typed pointers.
      returns: Numba type of the result (`int64` or `float64`).
      arguments: Numba types of the arguments.

    Compiling (or loading from the cache) happens when `address` is first asked for, once in a process for a
    function and its types: Numba never gives machine code back, and games of every size and komi are made from the
    same functions. An exception inside cannot leave a C function: operators report failure by their result.
    """

    _made: ClassVar[dict[Any, CFunc]] = {}

    def __init__(self, function: Callable[..., Any], returns: Any, arguments: tuple[Any, ...]):
        self.function = getattr(function, "py_func", function)
        self.returns = returns
        self.arguments = arguments
        self._address: int = 0

    @property
    def address(self) -> int:
        """Address of the machine code, for `call`."""
        if not self._address:
            key = (self.function, self.returns, self.arguments)
            with _lock:
                if key not in self._made:
                    self._made[key] = self._compile()
                self._address = int(self._made[key].address or 0)
        return self._address

    def _compile(self) -> CFunc:
        with _caching(self.function) as cached:
            callback = CFunc(self.function, (self.arguments, self.returns), {}, {"nogil": True, "error_model": "numpy"})
            if cached:
                callback.enable_caching()
            try:
                callback.compile()
            except (NumbaError, KeyError, TypeError, NameError, AttributeError, NotImplementedError) as error:
                raise CompileError(self._reason(error)) from error
            return callback

    def _reason(self, error: Exception) -> str:
        code = self.function.__code__
        where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno} {self.function.__name__}"
        if isinstance(error, KeyError):
            # Numba looks a record's field up like this and says no more than its name.
            fields = [name for kind in self.arguments if isinstance(kind, types.Record) for name in kind.fields]
            wanted = str(error.args[0])
            return f"{where}: a record has no field {wanted!r}{nearest(wanted, fields)}"
        wanted_arguments = len(self.arguments)
        if code.co_argcount != wanted_arguments:
            return f"{where}: it takes {code.co_argcount} arguments, but is called with {wanted_arguments}"
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(("Failed in", "During:", "- ", "This error"))]
        place = re.search(r"line (\d+)\)", str(error))
        at = f" (line {place[1]})" if place else ""
        if "from none to" in str(error):
            return f"{where}: it must return a number on every path, and somewhere it returns nothing"
        return f"{where}: {lines[0] if lines else type(error).__name__}{at}"

    @property
    def from_python(self) -> Callable[..., Any]:
        """The same machine code callable from Python with addresses and numbers."""
        kinds: dict[Any, Any] = {types.float64: ctypes.c_double, types.uint64: ctypes.c_uint64}
        result = kinds.get(self.returns, ctypes.c_int64)
        return ctypes.CFUNCTYPE(result, *(kinds.get(kind, ctypes.c_int64) for kind in self.arguments))(self.address)


# ---------------------------------------------------------------------------------- intrinsics

_INT = ir.IntType(64)


def _call_address(builder: Any, signature: Any, arguments: Any, result: Any) -> Any:
    address, packed = arguments
    values = cgutils.unpack_tuple(builder, packed, len(signature.args[1]))
    function = ir.FunctionType(result, [value.type for value in values])
    return builder.call(builder.inttoptr(address, function.as_pointer()), values)


@intrinsic
def call(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Calls the C function at `address` with a tuple of numbers; int64 result."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _call_address(builder, signature, values, _INT)

    return types.int64(types.int64, arguments), generate


@intrinsic
def call_float(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Calls the C function at `address` with a tuple of numbers; float64 result."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _call_address(builder, signature, values, ir.DoubleType())

    return types.float64(types.int64, arguments), generate


@intrinsic
def record_at(typingctx: Any, address: Any, dtype: Any) -> Any:
    """The record of NumPy type `dtype` that lies at `address`, not copied."""
    record = dtype.dtype

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(record))

    return record(types.int64, dtype), generate


@intrinsic
def pointer_at(typingctx: Any, address: Any, dtype: Any) -> Any:
    """A typed pointer to `address`; give it a length with `numba.carray`."""
    pointer = types.CPointer(dtype.dtype)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(pointer))

    return pointer(types.int64, dtype), generate


@intrinsic
def address_of(typingctx: Any, record: Any) -> Any:
    """Address of a record, for passing it to an operator."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ptrtoint(values[0], _INT)

    return types.int64(record), generate


@intrinsic
def atomic_add(typingctx: Any, address: Any, change: Any) -> Any:
    """Adds to the integer at `address` in one step that no thread can interrupt; returns what was there.

    The width of the integer is that of `change`; adding -1 to an unsigned one is adding its highest value.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], values[1].type.as_pointer())
        return builder.atomic_rmw("add", pointer, values[1], "acq_rel")

    return change(types.int64, change), generate


@intrinsic
def compare_exchange(typingctx: Any, address: Any, expected: Any, wanted: Any) -> Any:
    """Puts `wanted` at `address` if `expected` is there, in one step; returns whether it was.

    Both are of one type, an integer or a float64, which is compared bit by bit.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        expected_bits, wanted_bits = values[1:]
        if isinstance(expected_bits.type, ir.DoubleType):
            expected_bits, wanted_bits = (builder.bitcast(value, _INT) for value in (expected_bits, wanted_bits))
        pointer = builder.inttoptr(values[0], expected_bits.type.as_pointer())
        pair = builder.cmpxchg(pointer, expected_bits, wanted_bits, "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64, expected, expected), generate


@intrinsic
def fence(typingctx: Any) -> Any:
    """What stands before it in the program happens, for every thread, before what stands after it."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.fence("acq_rel")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def popcount(typingctx: Any, word: Any) -> Any:
    """Number of set bits of a uint64."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ctpop(values[0])

    return types.uint64(types.uint64), generate


@intrinsic
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Index of the lowest set bit of a uint64; 64 for zero."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def _pdep(typingctx: Any, bits: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.x86.bmi.pdep.64", (), ir.FunctionType(_INT, [_INT, _INT]))
        return builder.call(function, values)

    return types.uint64(types.uint64, types.uint64), generate


def _pick_bit_pdep(mask, k):
    return _pdep(np.uint64(1) << k, mask)


def _pick_bit_portable(mask, k):
    rest = mask
    for _ in range(k):
        rest &= rest - np.uint64(1)
    return rest & (~rest + np.uint64(1))


HAS_PDEP = bool(binding.get_host_cpu_features().get("bmi2", False))
pick_bit_portable = compiled(_pick_bit_portable, inline=True)
pick_bit = compiled(_pick_bit_pdep, inline=True) if HAS_PDEP else pick_bit_portable
"""`pick_bit(mask, k)`: the k-th set bit of `mask` (k from 0, uint64) alone in its word; one instruction with BMI2."""
