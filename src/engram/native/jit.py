"""From Python to machine code, in two ways:

* `compiled` turns a helper function into a Numba function with the project's flags;
* `Callback` turns an operator (a function of a game, a selection rule, a backup rule …) into the *address* of a C
  function. The search kernel takes addresses as integers and calls them by `intrinsics.call` and `call_float`, so
  one compiled kernel serves every game and every rule, from any file.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numba
from numba import types
from numba.core import event
from numba.core.ccallback import CFunc
from numba.core.errors import NumbaError

from engram.errors import CompileError, nearest
from engram.native.cache import caching, lock


class _Announce(event.Listener):
    """Prints once, on a terminal, that code is being compiled (once on each machine)."""

    def __init__(self) -> None:
        self.announced = False

    def on_start(self, occurrence: Any) -> None:
        quiet = os.environ.get("ENGRAM_QUIET") or not sys.stderr.isatty()
        if not self.announced and not quiet:
            print("engram: compiling for this machine (once; kept on disk)...", file=sys.stderr, flush=True)
        self.announced = True

    def on_end(self, occurrence: Any) -> None:
        pass


event.register("numba:compile", _Announce())


def compiled(function: Callable[..., Any] | None = None, *, inline: bool = False) -> Any:
    """Compiles a helper for use inside operators and kernels (Numba, no Python objects, GIL released).

    Args:
      function: a function of numbers, NumPy arrays and records.
      inline: copy the body into every caller, for a few lines on a hot path.

    Division by zero gives inf or nan as in NumPy and raises nothing. Mixing int64 with uint64 gives float64, so keep
    one signedness.
    """

    def wrap(target: Callable[..., Any]) -> Any:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        if inline:
            options["forceinline"] = True
        with caching(target) as is_cached:
            return numba.njit(cache=is_cached, **options)(target)

    return wrap if function is None else wrap(function)


class Callback:
    """A Python function compiled to a C function that kernels call by its address.

    Args:
      function: module-level function; records arrive as records, buffers as typed pointers.
      returns: Numba type of the result (`int64` or `float64`).
      arguments: Numba types of the arguments.

    The first use of `address` compiles the function or loads it from the cache. This happens once in a process for a
    function and its types, because Numba never frees machine code and games of all sizes share their functions. No
    exception can leave a C function: operators report failure by their result.
    """

    _compiled: ClassVar[dict[Any, CFunc]] = {}

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
            with lock:
                if key not in self._compiled:
                    self._compiled[key] = self._compile()
                self._address = int(self._compiled[key].address or 0)
        return self._address

    def _compile(self) -> CFunc:
        with caching(self.function) as is_cached:
            callback = CFunc(self.function, (self.arguments, self.returns), {}, {"nogil": True, "error_model": "numpy"})
            if is_cached:
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
            # Numba raises this for an unknown field of a record, with its name alone.
            fields = [name for kind in self.arguments if isinstance(kind, types.Record) for name in kind.fields]
            field = str(error.args[0])
            return f"{where}: a record has no field {field!r}{nearest(field, fields)}"
        if code.co_argcount != len(self.arguments):
            return f"{where}: it takes {code.co_argcount} arguments, but is called with {len(self.arguments)}"
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(("Failed in", "During:", "- ", "This error"))]
        line = re.search(r"line (\d+)\)", str(error))
        place = f" (line {line[1]})" if line else ""
        if "from none to" in str(error):
            return f"{where}: it must return a number on every path, and somewhere it returns nothing"
        return f"{where}: {lines[0] if lines else type(error).__name__}{place}"

    @property
    def from_python(self) -> Callable[..., Any]:
        """The machine code as a Python function of addresses and numbers."""
        kinds: dict[Any, Any] = {types.float64: ctypes.c_double, types.uint64: ctypes.c_uint64}
        result = kinds.get(self.returns, ctypes.c_int64)
        return ctypes.CFUNCTYPE(result, *(kinds.get(kind, ctypes.c_int64) for kind in self.arguments))(self.address)
