"""The last message of a process that crashes in a user's compiled code, which names that code.

Compiled code trusts its indices, so a wrong one may end the process. Python cannot run then, so a native handler of the
signal writes a sentence that was prepared in advance.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

SIGNALS = tuple(getattr(signal, name) for name in ("SIGSEGV", "SIGBUS") if hasattr(signal, name))
"""The signals of a crash that this system has."""
_BYTES = 2000
_INT = ir.IntType(64)
_places: dict[str, None] = {}


def name_at_crash(places: Iterable[str]) -> None:
    """Names functions, `file.py:line name`, in the last words of this process; those named before stay."""
    _places.update(dict.fromkeys(places))
    if not _places or os.name != "posix":
        return
    sentence = (
        f"engram: compiled code crashed. Your functions in it are {', '.join(_places)}. Is an index wrong, or a "
        "recursion endless? `engram check -n 100000` runs them with checks"
    )
    text, _ = _last_words()
    text.value = f"{sentence[: _BYTES - 2]}\n".encode("ascii", "replace")


@cache
def _last_words() -> tuple[ctypes.Array[ctypes.c_char], Any]:
    """The text that a crash writes, and the owner of the handler's code."""
    text, library = ctypes.create_string_buffer(_BYTES), ctypes.CDLL(None)
    module = ir.Module()
    handler = ir.Function(module, ir.FunctionType(ir.VoidType(), [_INT]), "last_words")
    builder = ir.IRBuilder(handler.append_basic_block())

    def call(name: str, *arguments: Any) -> Any:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        kind = ir.FunctionType(_INT, [_INT] * len(arguments)).as_pointer()
        return builder.call(builder.inttoptr(ir.Constant(_INT, address), kind), arguments)

    place = ir.Constant(_INT, ctypes.addressof(text))
    call("write", ir.Constant(_INT, 2), place, call("strlen", place))
    for number in SIGNALS:
        call("signal", ir.Constant(_INT, number), ir.Constant(_INT, 0))  # the same fault then ends the process
    builder.ret_void()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    for number in SIGNALS:
        library.signal(number, ctypes.c_void_p(engine.get_function_address("last_words")))
    return text, engine
