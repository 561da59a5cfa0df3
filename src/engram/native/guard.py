"""The first run of a user's compiled code: in a child process, with indices and divisors checked, statements counted.

Compiled code trusts its indices: a wrong index reads other memory, and Ctrl-C cannot interrupt an endless loop.
`guarded` therefore forks the process and compiles the user's functions again in the child, with additional code. Each
statement is counted and writes its place to memory that both processes share; each index and each divisor of numbers
(not of arrays) is checked. A crash, a wrong index, a division by zero or an endless loop can then be reported with its
file, line and function. Code that has passed gets a mark in its cache folder and then runs without checks. The child
ends with its parent, and at Ctrl-C.

`ENGRAM_GUARD=0` turns all this off; a system without `os.fork` (Windows) lacks it.
"""

from __future__ import annotations

import faulthandler
import hashlib
import mmap
import operator
import os
import select
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CellType
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, registry
from numba.core.caching import Cache, NullCache
from numba.core.dispatcher import _DispatcherBase
from numba.core.lowering import Lower

from engram import errors
from engram.interrupts import interrupts_later
from engram.native import buffers, crash, jit
from engram.native.cache import cache_folder, lock, numbers_of
from engram.native.messages import PACKAGE

MAX_STATEMENTS = 300_000_000
"""Statements of user code between two calls of `begin_step`, at most: in a simulation, or in checks of a position."""
QUIET_S = 120  # seconds without a statement after which a child is killed, without a verdict
_PLACE, _COUNT, _INDEX, _LENGTH, _TEXTS = range(5)
_BYTES = 1 << 16
_CRASHES = {
    getattr(signal, name) for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT") if hasattr(signal, name)
}
_INT = ir.IntType(64)
_NUMBA = os.path.dirname(os.path.abspath(numba.__file__)) + os.sep
_words: np.ndarray | None = None  # in the child: the shared memory
_passed: set[str] = set()


def guarded(
    functions: Iterable[Callable[..., Any]], what: str, work: Callable[[], object], *,
    before: Callable[[], None] = lambda: None, always: bool = False,
) -> None:  # fmt: skip
    """Runs `work` in a child process with checks, if one of the functions is a user's and has not passed before.

    Args:
      functions: those that `work` calls in compiled form.
      what: identifies the work in the mark, together with the numbers that the functions get.
      before: called in this process before the fork, to compile or load code without checks. always: ignore marks.

    Raises:
      EngramError: `work` raised it in the child; or user code has a wrong index, an endless loop or a crash.
    """
    users = users_functions(functions)
    if not users or _words is not None or os.environ.get("ENGRAM_GUARD") == "0" or not hasattr(os, "fork"):
        return
    digest, mark = _mark(users, what)
    if not always and (digest in _passed or (mark is not None and mark.exists())):
        return
    before()
    buffers.lookup()
    if _run(work, what):
        _passed.add(digest)
        if mark is not None:
            mark.touch()


@cache
def is_users(path: str) -> bool:
    """Whether a source file is neither engram's nor Numba's, which compiles its own versions of NumPy's functions."""
    return not os.path.abspath(path).startswith((PACKAGE, _NUMBA))


def users_functions(functions: Iterable[Any]) -> list[Any]:
    """The user's functions among those given, and among the compiled functions that these close over."""
    reached = dict.fromkeys(functions)
    rest = list(reached)
    for function in rest:  # the list grows in the loop
        cells = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
        inner = dict.fromkeys(cell.py_func for cell in cells if hasattr(cell, "py_func"))
        rest += [each for each in inner if each not in reached]
        reached |= inner
    return [function for function in reached if is_users(function.__code__.co_filename)]


def begin_step() -> None:
    """Resets the count of statements, in the child."""
    if _words is not None:
        _words[_COUNT] = 0


def _mark(functions: list[Any], what: str) -> tuple[str, Path | None]:
    """A digest of the functions' code, and the file that marks it as passed."""
    identity, folders = [what], []
    for function in functions:
        code = function.__code__
        folder = cache_folder(code.co_filename, function.__module__) if os.path.isfile(code.co_filename) else None
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        cells = [cell.tobytes() if isinstance(cell, np.ndarray) else cell for cell in cells]
        plain = [cell for cell in cells if isinstance(cell, (bool, int, float, str, bytes, tuple))]
        identity.append(f"{folder} {function.__qualname__} {code.co_code.hex()} {plain}")
        identity.append(numbers_of(function))
        if folder is None:  # the code was typed in a session, so no folder identifies its constants
            identity.append(f"{code.co_consts} {code.co_names}")
        folders += [folder] if folder else []
    digest = hashlib.sha256("\n".join(sorted(identity)).encode()).hexdigest()[:20]
    return digest, Path(folders[0]) / f"passed-{digest}" if folders else None


def _run(work: Callable[[], object], what: str) -> bool:
    """Whether the work passed in a child; False if there was no verdict.

    Raises:
      EngramError: it did not pass.
    """
    shared = mmap.mmap(-1, _BYTES)
    reader, writer = os.pipe()
    alive, lifeline = os.pipe()  # when this process ends, the child reads end-of-file from `alive`
    child = status = 0
    with tempfile.TemporaryFile() as printed:
        try:
            with lock, warnings.catch_warnings(), interrupts_later():
                warnings.simplefilter("ignore", DeprecationWarning)  # other threads hold no lock that the child needs
                child = os.fork()
                if child == 0:
                    os.close(lifeline)
                    _in_child(work, shared, writer, printed.fileno(), alive)
                os.close(writer)
                os.close(alive)
            verdict = _verdict(shared, reader)
        finally:
            if child:
                with suppress(ProcessLookupError, ChildProcessError):  # no child is left where SIGCHLD is ignored
                    os.kill(child, signal.SIGKILL)  # it has ended, or ignores any other signal
                    status = os.waitpid(child, 0)[1]
            os.close(reader)
            os.close(lifeline)
        if verdict == "passed":
            return True
        kind, _, sentence = verdict.partition("\n")
        if not sentence and os.WIFSIGNALED(status) and os.WTERMSIG(status) in _CRASHES:
            cause, place = signal.Signals(os.WTERMSIG(status)).name, _place(shared) or what
            sentence = f"{place}: the process crashed here ({cause}); is an index wrong, or a recursion endless?"
        if not sentence:
            return False
        printed.seek(0)
        if lines := printed.read()[-4000:].decode(errors="replace").removesuffix("\n"):
            jit.tell(lines)
        raise getattr(errors, kind, errors.OperatorError)(sentence)


def _verdict(shared: mmap.mmap, reader: int) -> str:
    """The child's output; incomplete if the child executes no statement for `QUIET_S`."""
    output, last, quiet = b"", b"", 0
    answers = select.poll()  # `select.select` accepts no descriptor above 1,023
    answers.register(reader)
    while quiet < QUIET_S:
        if answers.poll(1000):
            part = os.read(reader, 1 << 16)
            output += part
            if not part:
                break
        now = shared[: 8 * _TEXTS]
        quiet, last = (quiet + 1 if now == last else 0), now
    return output.decode()


def _in_child(work: Callable[[], object], shared: mmap.mmap, writer: int, printed: int, alive: int) -> None:
    verdict = "passed"
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts both, and the parent ends the child
        signal.set_wakeup_fd(-1)
        faulthandler.disable()  # its lines would appear among those that user code prints
        for number in crash.SIGNALS:
            signal.signal(number, signal.SIG_DFL)  # the parent says where the child crashed
        jit.progress.silence()
        threading.Thread(target=lambda: os.read(alive, 1) or os._exit(0), daemon=True).start()
        for stream in (1, 2):
            os.dup2(printed, stream)
        sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
        global _words
        _words = np.frombuffer(shared, np.int64, _TEXTS)
        buffers.note_buffers()
        _instrument(shared)
        work()
    except errors.EngramError as error:
        verdict = f"{type(error).__name__}\n{error}"
    except BaseException as error:  # from the user's Python code, which raises it again in the parent
        verdict = f"none: {error!r}"
    finally:
        os.write(writer, verdict.encode())
        os._exit(0)


def _place(shared: mmap.mmap) -> str:
    """`file.py:line name` of the statement that user code executed last; empty before the first."""
    place = int.from_bytes(shared[:8], sys.byteorder)
    texts = shared[8 * _TEXTS :].split(b"\0", 1)[0].decode().split("\n")
    if not place:
        return ""
    file, name = texts[(place >> 32) - 1].split("\t")
    return f"{file}:{place & 0xFFFFFFFF} {name}"


def _instrument(shared: mmap.mmap) -> None:
    """Makes this process compile user code with checks."""
    assert _words is not None
    base, texts, renewed = _words.ctypes.data, [], set()
    lower, compile_plainly, template = Lower.lower_inst, jit.Callback._compile, _DispatcherBase.get_call_template

    entries_at, table = buffers.lookup()
    lookup_type = ir.FunctionType(_INT, [_INT] * 3).as_pointer()

    def word(number: int) -> Any:
        return ir.Constant(_INT, base + 8 * number).inttoptr(_INT.as_pointer())

    def lower_inst(self: Any, inst: Any) -> Any:
        at = (id(self.builder.block), self.loc.line)
        if is_users(self.loc.filename) and getattr(self, "_at", None) != at:
            self._at = at
            text = f"{os.path.basename(self.loc.filename)}\t{self.func_ir.func_id.func_name}"
            if text not in texts:
                texts.append(text)
                room = _BYTES - 8 * _TEXTS
                shared[8 * _TEXTS :] = "\n".join(texts).encode()[:room].ljust(room, b"\0")
            place = (texts.index(text) + 1) << 32 | self.loc.line
            # Atomic, so that the optimiser keeps them in every loop.
            self.builder.store_atomic(ir.Constant(_INT, place), word(_PLACE), "monotonic", 8)
            before = self.builder.load_atomic(word(_COUNT), "monotonic", 8)  # a race between threads may lose a count
            count = self.builder.add(before, ir.Constant(_INT, 1))
            self.builder.store_atomic(count, word(_COUNT), "monotonic", 8)
            with cgutils.if_unlikely(
                self.builder, self.builder.icmp_signed(">", count, ir.Constant(_INT, MAX_STATEMENTS))
            ):
                self.context.call_conv.return_user_exc(self.builder, RuntimeError, ("endless",))
        return lower(self, inst)

    def check(context: Any, builder: Any, index: Any, length: Any, axis: Any = None) -> None:
        index = builder.sext(index, _INT) if index.type.width < 64 else index
        below = builder.icmp_signed("<", index, ir.Constant(_INT, 0))
        with cgutils.if_unlikely(builder, builder.or_(below, builder.icmp_signed(">=", index, length))):
            builder.store(index, word(_INDEX))
            builder.store(length, word(_LENGTH))
            context.call_conv.return_user_exc(builder, IndexError, ("index",))

    def checked_pointer(implementation: Any) -> Any:
        def access(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            size = context.get_abi_sizeof(context.get_data_type(sig.args[0].dtype))
            numbers = builder.ptrtoint(args[0], _INT), ir.Constant(_INT, size), ir.Constant(_INT, table)
            entries = builder.call(builder.inttoptr(ir.Constant(_INT, entries_at), lookup_type), numbers)
            check(context, builder, args[1], entries)
            return implementation(context, builder, sig, args)

        return access

    def renew(self: Any, args: Any, kws: Any) -> Any:
        if id(self) not in renewed:
            renewed.add(id(self))
            self._reset_overloads()
            self.targetoptions["boundscheck"] = True
            if is_users(self.py_func.__code__.co_filename):
                self.targetoptions["error_model"] = "python"  # a division by zero raises
            self._cache, self._is_cached = NullCache(), False  # no cache, now or at the first compilation
        return template(self, args, kws)

    def compile_checked(self: jit.Callback) -> Any:
        return compile_plainly(self, checked=bool(users_functions([self.function])))

    def describe(error: BaseException, trace: Any) -> str:
        assert _words is not None
        index, length, where = int(_words[_INDEX]), int(_words[_LENGTH]), _place(shared)
        if isinstance(error, IndexError) and error.args == ("index",):
            bound = "its buffer" if length == buffers.UNKNOWN else f"an array of {length} entries (0 to {length - 1})"
            return f"{where}: index {index} is outside {bound}"
        if isinstance(error, RuntimeError) and error.args == ("endless",):
            return (
                f"{where}: {MAX_STATEMENTS:,} statements in one simulation, or for one position; does the loop here "
                "ever end? (If it does, ENGRAM_GUARD=0 turns this check off.)"
            )
        if isinstance(error, ZeroDivisionError):
            return f"{where} divides by zero, which silently gives inf or nan in a search: test for 0 before"
        return f"{where} raised {type(error).__name__}: {error}"

    for key in [key for key in jit.Callback.code if users_functions([key[0]])]:
        del jit.Callback.code[key]
        jit.Callback.python.pop(key, None)
    target = registry.cpu_target.target_context
    target.refresh()  # loads all implementations
    for operation in (operator.getitem, operator.setitem):
        selector = target._defns[operation]
        selector.versions = [
            (signature, checked_pointer(implementation) if signature[0] is types.CPointer else implementation)
            for signature, implementation in selector.versions
        ]
        selector._cache.clear()
    replacements: list[tuple[Any, str, Any]] = [
        (Lower, "lower_inst", lower_inst),
        (cgutils, "do_boundscheck", check),
        (_DispatcherBase, "get_call_template", renew),
        (Cache, "save_overload", lambda *_: None),  # this code is only for this process
        (jit, "describe", describe),
        (jit.Callback, "_compile", compile_checked),
    ]
    for owner, name, replacement in replacements:
        setattr(owner, name, replacement)
