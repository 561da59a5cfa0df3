"""Errors of the compiler in one sentence: the user's file, line and function, the fault there, and the remedy."""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any

from numba import types

from engram.errors import nearest

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OBJECT = "use numbers, tuples and NumPy arrays"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_GLOBAL = "compiled code cannot read a list or set of the module: make {0} a tuple or an array"
_MESSAGES = (
    (r"Untyped global name '(\w+)':.*<class 'function'>", "{0} is a plain Python function: write @compiled above it "
     "(from engram.native.jit import compiled)"),
    (r"variable '(\w+)' in globals", _GLOBAL),
    (r"Untyped global name '(\w+)':.*[Cc]annot type empty list", _GLOBAL),
    (r"Untyped global name '(\w+)':.*<class '([\w.]+)'>", "compiled code cannot read {0} ({1}): " + _OBJECT),
    (r"OverloadSelector object.*\((?:List|Set)\(",
     "compiled code cannot read a list or set from outside the function: make it a tuple or an array"),
    (r"No conversion from none to", "it must return a number on every path, and on one path it returns nothing"),
    (r"No conversion from (\w+) to whole numbers", "it must return a whole number, and here it returns {0}: use //, or "
     "np.int64(...)"),
    (r"No conversion from (.+) to \w+ for '\$\w*return", "it must return a number, and here it returns {0}"),
    (r"Exception matching is limited", "compiled code cannot tell exceptions apart: test with `if` before, "
     "or catch them all by `except Exception`"),
    (r"name '(\w+)' is not defined", "{0} is not defined: is it spelt differently, or not imported?"),
    (r">>> (?:static_)?setitem\(readonly", "compiled code cannot write to an array of the module: keep it in the "
     "state's record or in a parameter"),
    (r">>> (?:static_)?getitem\((\w+), ", "{0} has no entries"),
    (r">>> (int|float)\((?:Literal\[str\]|unicode)", "compiled code cannot make a number from a text"),
    (r"[gs]etitem\((?:array\(\w+, 1d, \w+\)|\w+\*), \w*Tuple\(", "an array of one dimension takes one index; "
     "the planes of `encode` are such an array"),
    (r"Unsupported array index type (\w+)|getitem\((?!\w*Tuple).*, (float\d+)\)|setitem\(.*, (float\d+), [^()]+\)",
     "an index is a float: / gives one, and so does a variable that takes int64 and uint64; use //, or "
     "np.int64(...) around one of them"),
    (r"\((?:.*, )?none\b.*\)':\n", "it computes with None: give every variable a number first"),
    (r"Unknown attribute '(\w+)' of type (.+)", "compiled code has no .{0} of {1}"),
    (r"unsupported NumPy function '([\w.]+)'", "Numba does not compile {0}: write a loop"),
    (r"Cannot unify (.+) and (.+) for '([^.']+)", "{2} is {0} in one place and {1} in another: give it one type"),
    (r"imprecise type: (\w+)", "{0} without entries has no type: use np.empty(size, np.int64) and a count"),
    (r"format spec in f-strings", "an f-string takes no format in compiled code: print the number as it is"),
    (r"IMPORT_NAME", "an import belongs to the top of the file"),
    (r"STORE_GLOBAL", "compiled code cannot change a variable of the module: keep it in the state's record or in a "
     "parameter"),
    (r"Cannot bind .* to signature '(.+?)' due to \"TypeError: (.+?)\"", "a call here does not fit {0}: {1}"),
    (r"runaway recursion|recursion", "compiled code does not call itself here: use a loop"),
    (r"context manager|yield|opcode", "compiled code has no `with`, generators or classes: use loops and numbers"),
    (r"found for signature:\s+>>> (.+)", "Numba does not compile {0}"),
)  # fmt: skip
_KINDS = ((r"\w+\*", "a buffer"), ("list|reflected list", "a list"),
          ("unicode_type|Literal\\[str\\]", "a text"), ("(Uni)?Tuple", "a tuple"),
          ("DictType|dict", "a dict"), ("nestedarray|[Aa]rray", "an array"), ("none", "None"),
          ("u?int\\d|Literal\\[int\\]", "a whole number"), ("float", "a float"), ("Record", "a record"))  # fmt: skip


def place_of(function: Any, line: int = 0) -> str:
    """`file.py:line name` of a function or code object; by default its first line."""
    code: CodeType = function if isinstance(function, CodeType) else inspect.unwrap(function).__code__
    return f"{os.path.basename(code.co_filename)}:{line or code.co_firstlineno} {code.co_name}"


def reason(function: Callable[..., Any], arguments: tuple[Any, ...], error: Exception) -> str:
    """Why a function cannot be compiled for arguments of these Numba types."""
    code, text = function.__code__, _COLOUR.sub("", str(error))
    if code.co_argcount != len(arguments):
        return f"{place_of(code)}: it takes {code.co_argcount} arguments, but is called with {len(arguments)}"
    if isinstance(error, KeyError):
        # Numba raises this for an unknown field of a record, with only the field's name.
        fields = [name for kind in arguments if isinstance(kind, types.Record) for name in kind.fields]
        field = str(error.args[0])
        where = place_of(code, _line_of(function, field))
        return f"{where}: a record has no field {field!r}{nearest(field, fields)}"
    where = _place(function, text)
    for pattern, sentence in _MESSAGES:
        match = re.search(pattern, text)
        if match:
            words = [_kind(word) for word in match.groups() if word]
            if words[:1] == [code.co_name]:
                return f"{where}: compiled code does not call itself: use a loop"
            if "is not defined" in match[0]:
                where = place_of(code, _line_of(function, words[0]))
            return f"{where}: {sentence.format(*words)}"
    noise = ("Failed in", "During:", "- ", "This error", ">>>", "File ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(noise)]
    return f"{where}: {lines[0] if lines else type(error).__name__}"


def _place(function: Any, text: str) -> str:
    """The innermost place in a user's file that the compiler's text names, or else the function's first line."""
    code = function.__code__
    for path, line in re.findall(r'(?:File "|Raised from |at )([^"\n]+?)"?(?:, line | \()(\d+)', text):
        full = os.path.abspath(path)
        if os.path.isfile(full) and not full.startswith(PACKAGE) and f"{os.sep}numba{os.sep}" not in full:
            return f"{os.path.basename(path)}:{line} {_name_at(full, int(line)) or code.co_name}"
    return place_of(code)


def _name_at(path: str, line: int) -> str:
    """The innermost function around a line of a file; empty if there is none."""
    try:
        with open(path, "rb") as file:
            nodes = ast.walk(ast.parse(file.read()))
    except (OSError, SyntaxError, ValueError):
        return ""
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda))
    around = [node for node in functions if node.lineno <= line <= (node.end_lineno or 0)]
    return getattr(around[-1], "name", "<lambda>") if around else ""


def _line_of(function: Callable[..., Any], name: str) -> int:
    """The first line of a function that uses a name or an attribute; 0 if there is no source."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return 0
    uses = [
        getattr(node, "lineno", 1)
        for node in ast.walk(tree)
        if name in (getattr(node, "id", ""), getattr(node, "attr", ""))
    ]
    return first + min(uses) - 1 if uses else 0


def _kind(word: str) -> str:
    """A Numba type in plain words; any other word unchanged."""
    return next((plain for pattern, plain in _KINDS if re.match(rf"({pattern})(\b|[(\[<\d]|$)", word)), word)
