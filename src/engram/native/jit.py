"""From Python to machine code, in two ways:

* `compiled` turns a helper function into a Numba function with the project's flags;
* `Callback` turns an operator (a function of a game, a selection rule, a backup rule …) into the *address* of a C
  function. The search kernel takes addresses as integers and calls them by `intrinsics.call` and `call_float`, so
  one compiled kernel serves every game and every rule, from any file.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numba
from numba import types
from numba.core import event, ir
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher

from engram.errors import CompileError, OperatorError
from engram.interrupts import interrupts_later
from engram.native.cache import KeptCode, caching, fault_of_cache, helpers_of, is_circular, lock, numbers_of, unkept
from engram.native.messages import PACKAGE, place_of, reason

_YIELDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_OPTIONS = {"nogil": True, "error_model": "numpy"}
_GARBAGE = 50_000  # new objects between two garbage collections while code is compiled


class _Progress(event.Listener):
    """Reports on stderr that code is being compiled, and then the time that this took; `ENGRAM_QUIET=1` silences it.

    Meanwhile garbage is collected rarely: Numba makes millions of small objects, and the search for cycles among them
    takes a tenth of the time.
    """

    def __init__(self) -> None:
        self._running, self._seconds, self._began, self._ended = 0, 0.0, 0.0, 0.0
        self._stage = 2 if os.environ.get("ENGRAM_QUIET") else 0
        self._threshold = gc.get_threshold()

    def on_start(self, occurrence: Any) -> None:
        if not hasattr(_compiling, "signals"):  # the program's code, not engram's
            return
        self._running += 1
        if self._running == 1:
            self._began = time.perf_counter()
            self._threshold = gc.get_threshold()
            gc.set_threshold(max(self._threshold[0], _GARBAGE) if self._threshold[0] else 0, *self._threshold[1:])
        if self._stage == 0:
            self._stage = 1
            kept = "once; kept on disk"
            if unkept:
                kept = f"at each start, for it cannot be kept in {unkept[0]}; ENGRAM_CACHE_DIR names another folder"
            tell(f"engram: compiling for this machine ({kept}) ...")
            with suppress(RuntimeError):  # this machine allows no further thread
                threading.Thread(target=self._wait, daemon=True).start()
            atexit.register(self._end)

    def on_end(self, occurrence: Any) -> None:
        if not hasattr(_compiling, "signals"):
            return
        self._running -= 1
        if self._running == 0:
            gc.set_threshold(*self._threshold)
            self._ended = time.perf_counter()
            self._seconds += self._ended - self._began

    def silence(self) -> None:
        """Reports nothing more."""
        self._stage = 2

    def _wait(self) -> None:
        while self._running or time.perf_counter() < self._ended + 1.0:
            time.sleep(0.2)
        self._end()

    def _end(self) -> None:
        if self._stage == 1:
            self._stage = 2
            tell(f"engram: compiled in {self._seconds:.1f} s")


def tell(line: str) -> None:
    """Prints to stderr, if it exists and accepts the line: a closed stderr must not stop a compilation."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


if numba.config.DISABLE_JIT:
    raise CompileError("engram calls machine code by its address: unset NUMBA_DISABLE_JIT")
_compiling = threading.local()  # has `signals` while this thread compiles engram's code or code for it
progress = _Progress()
event.register("numba:compile", progress)


@contextmanager
def _interrupts_between_functions() -> Iterator[None]:
    """Delays Ctrl-C until the next function is compiled: LLVM calls Python, and drops exceptions from these calls.

    Other handlers are called at the end, as is the handler of Ctrl-C if it is not Python's own.
    """
    outermost = not hasattr(_compiling, "signals")
    if not outermost:
        if _compiling.signals.interrupted and _compiling.ends:
            raise KeyboardInterrupt
        yield
        return
    _compiling.ends = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interrupts_later() as _compiling.signals:
        try:
            yield
        finally:
            del _compiling.signals


_failures: dict[int, str] = {}  # the first failure, by thread
_hooks: list[Any] = []  # `sys.unraisablehook` before ours, and the last hook that another part of the program has set
_calls = threading.local()  # depth: of nested calls of searches; in_hook: another hook runs


@contextmanager
def listening() -> Iterator[None]:
    """Marks a call of a search: exceptions of compiled functions are kept for `raise_failure` at its end."""
    listen()
    depth = _calls.depth = getattr(_calls, "depth", 0) + 1
    try:
        yield
    finally:
        _calls.depth = depth - 1


def listen() -> None:
    """Stores the exceptions of compiled functions for `raise_failure`; Python would only print them.

    It is called before such functions, because another part of the program may have set a hook of its own. Outside a
    search's call, a stored exception came from one of the program's own functions.
    """
    if _failures and not getattr(_calls, "depth", 0) and (failure := _failures.pop(threading.get_ident(), None)):
        tell(f"engram: ignored, outside of a search: {failure}")
    if sys.unraisablehook is not _keep_failure:
        _hooks[min(len(_hooks), 1) :] = [sys.unraisablehook]
        sys.unraisablehook = _keep_failure


def _keep_failure(unraisable: Any) -> None:
    if str(unraisable.object).startswith("<numba."):
        _failures.setdefault(threading.get_ident(), describe(unraisable.exc_value, unraisable.exc_traceback))
        return
    is_called_back = getattr(_calls, "in_hook", False)  # by a hook that was set on top of this one
    _calls.in_hook = True
    try:
        _hooks[0 if is_called_back else -1](unraisable)
    finally:
        _calls.in_hook = is_called_back


def describe(error: BaseException, trace: Any) -> str:
    """An exception of a compiled function in a sentence, with its place."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "a compiled function" if trace is None else place_of(trace.tb_frame.f_code, trace.tb_lineno)
    return f"{where} raised {type(error).__name__}: {error}"


def raise_failure() -> None:
    """Raises the first exception of a compiled function in this thread since the last call.

    Raises:
      OperatorError: the message has the file, line, function and exception.
    """
    failure = _failures.pop(threading.get_ident(), None)
    if failure is not None:
        raise OperatorError(failure)


def compiled(function: Callable[..., Any] | None = None, *, inline: bool = False) -> Any:
    """Compiles a helper for use inside operators and kernels (Numba, no Python objects, GIL released).

    Args:
      function: a function of numbers, NumPy arrays and records.
      inline: copy the body into every caller, for a few lines on a hot path.

    Division by zero gives inf or nan as in NumPy; only the first run of a user's code refuses it (`guard.py`). Do not
    mix signedness: int64 + uint64 gives int64, but `max` of both, or a variable that takes both, gives float64.
    """

    def wrap(target: Callable[..., Any]) -> _Compiled:
        return _Compiled(target, _OPTIONS | ({"forceinline": True} if inline else {}))

    return wrap if function is None else wrap(function)


class _Linked(JITCodeLibrary):  # type: ignore[misc]
    """Code that callers link into theirs: only they optimise it and turn it into machine code."""

    def _optimize_final_module(self) -> None:
        """Does nothing: each caller optimises what it links."""

    def _finalize_final_module(self) -> None:
        if is_circular(self):
            return super()._finalize_final_module()
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    @property
    def codegen(self) -> _Linked:
        """Itself: Numba asks it only for `set_env`."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Does nothing: a caller's code holds the environment."""

    serialize_using_object_code = JITCodeLibrary.serialize_using_bitcode


class _Linking(Compiler):  # type: ignore[misc]
    """Numba's compiler for functions that only compiled code calls."""

    def define_pipelines(self) -> Any:
        self.state.library = _Linked(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


def _set_environments(result: Any) -> None:
    """Gives fresh code the environments that `print` needs; Numba sets all of them only in code from the cache."""
    for environment in (result.environment, *result._find_referenced_environments()):
        result.codegen.set_env(environment.env_name, environment)


class _Kept(CPUDispatcher):  # type: ignore[misc]
    """A Numba function with the cache of `KeptCode`."""

    def enable_caching(self) -> None:
        self._cache = KeptCode(self.py_func)

    def add_overload(self, result: Any) -> None:
        super().add_overload(result)
        _set_environments(result)


class _Compiled(_Kept):
    """A Numba function for compiled callers, with neither wrappers for Python nor machine code of its own.

    The wrappers would take a fifth of the compilation time, and the machine code with its optimisation a quarter to a
    third of the rest. Calls from Python go to a second Numba function, which the first such call makes and compiles.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        without = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions=options | without, pipeline_class=_Linking)
        self._options = options
        with caching(function, "inner") as is_cached:  # now, while the file still holds the code that was loaded
            self._is_cached = is_cached

    @cached_property
    def _for_python(self) -> Any:
        with caching(self.py_func) as is_cached:
            function = _Kept(self.py_func, targetoptions=self._options | {"nopython": True})
            if is_cached:
                function.enable_caching()
            return function

    @_interrupts_between_functions()
    def compile(self, sig: Any) -> Any:
        """As Numba's, but opens the cache first; a caller loaded from disk usually contains this function's code."""
        if self._is_cached:
            self._is_cached = False
            with caching(self.py_func, "inner"):
                self.enable_caching()
        return super().compile(sig)

    def add_overload(self, result: Any) -> None:
        self.overloads[tuple(result.signature.args)] = result  # compiled callers look here, calls from Python do not

    @_interrupts_between_functions()
    def _compile_for_args(self, *arguments: Any, **named: Any) -> Any:
        with lock:  # two threads may make the first call at once: Numba refuses to call one added twice
            overloads = self._for_python.overloads
            before = len(overloads)
            try:
                entry = self._for_python._compile_for_args(*arguments, **named)
            except OSError as error:
                raise CompileError(fault_of_cache(error) or str(error)) from error
            for result in list(overloads.values())[before:]:
                super().add_overload(result)  # so that Python's next such call needs no compiler
            return entry


class _Function(CFunc):  # type: ignore[misc]
    """A C function with the cache of `KeptCode`."""

    _fresh: Any = None
    _pyfunc: Any
    _sig: Any

    def enable_caching(self) -> None:
        self._cache = KeptCode(self._pyfunc)

    def _compile_uncached(self) -> Any:
        with event.trigger_event("numba:compile"):
            self._fresh = super()._compile_uncached()  # type: ignore[misc]
        if isinstance(self._sig.return_type, types.Integer):
            self._refuse_floats(self._fresh.type_annotation)
        return self._fresh

    def _refuse_floats(self, annotation: Any) -> None:
        """Refuses a float returned as a whole number, which Numba itself would truncate."""
        assignments = (assignment for block in annotation.blocks.values() for assignment in block.find_insts(ir.Assign))
        for assignment in assignments:
            if getattr(assignment.value, "op", "") == "cast":  # of a result; Numba makes no other
                kind = annotation.typemap[assignment.value.value.name]
                if isinstance(kind, types.Float):
                    raise TypingError(f"No conversion from {kind} to whole numbers", assignment.loc)

    def compile(self) -> None:
        super().compile()
        if self._fresh is not None:
            _set_environments(self._fresh)


_numbers: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # the numbers that a user's helper had when it was compiled


class Callback:
    """A Python function compiled to a C function that kernels call by its address.

    Args:
      function: module-level function; records arrive as records, buffers as typed pointers.
      returns: Numba type of the result (`int64` or `float64`).
      arguments: Numba types of the arguments.

    The first use of `address` compiles the function or loads it from the cache. This happens once per process for a
    function, its types, and the numbers and texts that it takes from its module, because Numba never frees machine code
    and games of all sizes share their functions. No exception can leave a C function: operators report failure by their
    result, and `raise_failure` raises what a user's function has raised.
    """

    code: ClassVar[dict[Any, CFunc]] = {}
    """All compiled functions, by function and types."""
    python: ClassVar[dict[Any, Callable[..., Any]]] = {}
    """All functions that Python has called, by function and types."""

    def __init__(self, function: Callable[..., Any], returns: Any, arguments: tuple[Any, ...]):
        self.function = getattr(function, "py_func", function)
        self.returns = returns
        self.arguments = arguments
        self._key = self._present_key()

    def _present_key(self) -> tuple[Any, ...]:
        is_ours = self.function.__code__.co_filename.startswith(PACKAGE)
        return self.function, self.returns, self.arguments, "" if is_ours else numbers_of(self.function)

    @property
    def address(self) -> int:
        """Address of the machine code, for `call`."""
        self._key = self._present_key()
        compiled_function = self.code.get(self._key)
        if compiled_function is None:
            with lock:
                compiled_function = self.code.get(self._key) or self._compile()
                self.code[self._key] = compiled_function
        return int(compiled_function.address or 0)

    @_interrupts_between_functions()
    def _compile(self, *, checked: bool = False) -> CFunc:
        options = _OPTIONS | {"boundscheck": True, "error_model": "python"} if checked else _OPTIONS
        for helper in helpers_of(self.function):
            numbers = numbers_of(helper.py_func)
            if helper.overloads and _numbers.get(helper) != numbers:  # made with a number that a module has changed
                helper._reset_overloads()
            _numbers[helper] = numbers
        with caching(self.function) as is_cached:
            if self.function.__code__.co_flags & _YIELDS:
                raise CompileError(
                    f"{place_of(self.function)}: it must return a number, and a function that yields has none"
                )
            callback = _Function(self.function, (self.arguments, self.returns), {}, options)
            if is_cached and not checked:
                callback.enable_caching()
            try:
                callback.compile()
            except Exception as error:
                if fault := fault_of_cache(error):
                    raise CompileError(fault) from error
                raise CompileError(reason(self.function, self.arguments, error)) from error
            return callback

    @property
    def from_python(self) -> Callable[..., Any]:
        """The machine code as a Python function of addresses and numbers."""
        listen()
        function = self.python.get(self._key)
        if function is None:
            kinds: dict[Any, Any] = {types.float64: ctypes.c_double, types.uint64: ctypes.c_uint64}
            returns, *arguments = (kinds.get(kind, ctypes.c_int64) for kind in (self.returns, *self.arguments))
            function = self.python[self._key] = ctypes.CFUNCTYPE(returns, *arguments)(self.address)
        return function
