"""Specifications: texts that name a game, a player, a preset or one of their parts.

    uct(exploration=1.0)                     a name and options
    puct(network='go9', backup=softmax(temperature=2.0))      a part, written in the same way
    puct(backup=average)                     a bare word: a part without options
    monotone_uct(knots=[-10, -4, -4])        a list of numbers, kept as a tuple
    go:19,komi=7.5    line:rows=6,columns=7,gravity=true      the way games are written
    gymnasium:FrozenLake-v1   gymnasium:ALE/Pong-v5           a word may have parts joined by - and /

No text is ever evaluated. A text is parsed as Python syntax, of which only calls, words, numbers, strings, lists,
`true`, `false` and `none` are accepted. Any other text raises `InvalidSpecification`.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from engram.errors import InvalidSpecification, check_options

Value = Union[None, bool, int, float, str, tuple["Value", ...], "Specification"]

MAX_LENGTH = 4000
MAX_DEPTH = 12

_COLON = re.compile(r"\s*(\w+)\s*:(.*)", re.DOTALL)
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "none": None}
_NUMBERS = {"inf": math.inf, "nan": math.nan}
_PAIRS = {")": "(", "]": "["}
_MARK = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[][(),'"]""", re.DOTALL)  # a string, or one character
_BACKSLASH = "write / in place of \\ in a path"
THROUGH_A_PRESET = "a rule of your file is named through a preset of that file, such as rules.py:mine"


@dataclass(frozen=True)
class Specification:
    """A name with arguments; the order of the options does not matter.

    Args:
      name: an identifier, several of them joined by - and /, or a whole number.
      positional: arguments given without a key, in order.
      options: values by key, kept in alphabetical order of the keys.
    """

    name: str
    positional: tuple[Value, ...] = ()
    options: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", {key: self.options[key] for key in sorted(self.options)})

    def __hash__(self) -> int:
        return hash((self.name, self.positional, tuple(self.options.items())))

    @property
    def text(self) -> str:
        """The one canonical way to write the specification; reading it back gives an equal specification."""
        inner = self._arguments(", ")
        return f"{self.name}({inner})" if inner else self.name

    @property
    def colon_text(self) -> str:
        """The same in the notation of games: `go:19,komi=7.5`."""
        inner = self._arguments(",")
        return f"{self.name}:{inner}" if inner else self.name

    def _arguments(self, separator: str) -> str:
        texts = [value_text(value) for value in self.positional]
        return separator.join(texts + [f"{key}={value_text(value)}" for key, value in self.options.items()])

    @property
    def names(self) -> list[tuple[str, str]]:
        """Pairs of an option and a name or text: "" with its own name, "?" with a positional value."""
        values = [("", self.name), *(("?", value) for value in self.positional), *self.options.items()]
        return [pair for option, value in values for pair in _names(option, value)]

    def by_name(self, order: Sequence[str], names: Iterable[str] | None = None) -> dict[str, Value]:
        """The values by parameter.

        Args:
          order: parameters that take the positional values, in this order.
          names: of all parameters; None: any name is accepted.

        Raises:
          InvalidSpecification: too many positional values, or an unknown or repeated parameter.
        """
        if len(self.positional) > len(order):
            rule = f"options by name only, as in {self.name}(x=1)" if names is None or list(names) else "no options"
            rule = f"{', '.join(order)}, not {len(self.positional)} values" if order else rule
            raise InvalidSpecification(f"{self.name} takes {rule}")
        if names is not None:
            check_options(self.name, self.options, names)
        values = dict(zip(order, self.positional, strict=False))
        for name, value in self.options.items():
            if name in values:
                raise InvalidSpecification(f"{self.name}: {name} occurs twice")
            values[name] = value
        return values

    def bind(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters by name: the values of this specification, and `defaults` for the rest.

        Positional values take the parameters in the order of `defaults`. A value must have the type of its default;
        a default of None accepts any value unchanged.

        Raises:
          InvalidSpecification: a parameter is unknown or repeated, or a value has another type.
        """
        values = self.by_name(list(defaults), defaults)
        for name, value in values.items():
            if defaults[name] is not None:
                values[name] = typed(f"{self.name}: {name}", value, type(defaults[name]))
        return {**defaults, **values}


def parse(text: str) -> Specification:
    """Reads `name`, `name(...)` or `name:...`.

    Raises:
      InvalidSpecification: the text is none of these; the message says where it goes wrong.
    """
    source = _checked(text)
    colon = _COLON.match(source)
    if colon:
        # Brackets must close within the part after the colon, or `go:9)(` would become `go(9)()`.
        _check_brackets(colon[2], text)
        source = f"{colon[1]}({colon[2]})"
    if source.strip().isdecimal():
        return Specification(source.strip(), (), {})  # the game 2048
    specification = _from_node(_tree(source.strip(), text), text)
    if not isinstance(specification, Specification):
        raise InvalidSpecification(f"{_shown(text)} is not a name with options, such as name(key=value)")
    return specification


def split_specifications(text: str) -> list[str]:
    """The parts of a list such as `a(x=1,y=2),b(z=3)`, split at the commas outside brackets and strings.

    Raises:
      InvalidSpecification: a part is empty, or brackets or quotes do not close.
    """
    source = _checked(text)
    cuts = _check_brackets(source, text)
    parts = [source[start + 1 : end].strip() for start, end in zip([-1, *cuts], [*cuts, len(source)], strict=True)]
    if not all(parts):
        raise InvalidSpecification(f"{_shown(text)} has an empty part between its commas")
    return parts


def _names(option: str, value: Value) -> list[tuple[str, str]]:
    if isinstance(value, tuple):
        return [pair for part in value for pair in _names(option, part)]
    if isinstance(value, Specification):
        return [(option, value.name), *value.names[1:]]
    return [(option, value)] if isinstance(value, str) else []


def value_text(value: Value) -> str:
    """The one canonical way to write a value."""
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(value_text(part) for part in value) + "]"
    return value.text if isinstance(value, Specification) else repr(value)


# ------------------------------------------------------------------------------------- types


def typed(what: str, value: Value, hint: Any) -> Any:
    """A value converted to the type of a parameter.

    A float parameter accepts a whole number, and an int parameter a float without a fraction. A bare word is text,
    except that `inf` and `nan` are numbers where a float is allowed. A class that no text can express accepts no value.

    Args:
      what: the parameter's name in the error sentence. hint: a resolved type hint.

    Raises:
      InvalidSpecification: the value has another type.
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for kind in kinds:
        result = _as_kind(value, kind)
        if result is not _MISFIT:
            return result
    words = [word for kind in kinds if (word := _kind_words(kind))]
    rule = f"be {' or '.join(words)}" if words else "come from Python"
    raise InvalidSpecification(f"{what} must {rule}, not {value_text(value)}")


_MISFIT = object()
_KIND_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _kind_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return "a list" if _is_list(kind) else _KIND_WORDS.get(kind, "")


def _is_list(kind: Any) -> bool:
    return (get_origin(kind) or kind) in (tuple, list, Sequence, Collection, Iterable)


def _as_kind(value: Value, kind: Any) -> Any:
    """The value as this type, or `_MISFIT`."""
    bare = value.name if isinstance(value, Specification) and not (value.positional or value.options) else None
    if kind in (float, int):
        number = _NUMBERS.get(bare, value) if kind is float and bare is not None else value
        if isinstance(number, bool) or not isinstance(number, (int, float)) or (kind is int and number % 1 != 0):
            return _MISFIT
        return kind(number)
    if kind is str:
        return bare if bare is not None else value if isinstance(value, str) else _MISFIT
    if _is_list(kind):
        return _as_list(value, kind)
    if get_origin(kind) is Literal:
        word = value if bare is None else bare
        return word if word in get_args(kind) else _MISFIT
    if kind in (bool, NoneType, Specification):
        return value if isinstance(value, kind) else _MISFIT
    if kind is not Any and kind is not object and isinstance(get_origin(kind) or kind, type):
        return _MISFIT
    return value if bare is None else _NUMBERS.get(bare, bare)


def _as_list(value: Value, kind: Any) -> Any:
    if not isinstance(value, tuple):
        return _MISFIT
    inner = tuple(element for element in get_args(kind) if element is not Ellipsis)
    try:
        elements = [typed("", element, Union[inner] if inner else Any) for element in value]
    except InvalidSpecification:
        return _MISFIT
    return elements if (get_origin(kind) or kind) is list else tuple(elements)


# ------------------------------------------------------------------------------------- inner parts


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise InvalidSpecification(f"a specification is a text, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise InvalidSpecification(f"a specification has at most {MAX_LENGTH} characters, not {len(text)}")
    if not text.strip():
        raise InvalidSpecification("a specification must not be empty")
    if bad := next((letter for letter in text if letter == "#" or not letter.isprintable()), ""):
        raise InvalidSpecification(f"{_shown(text)} contains {bad!r}, a character that no specification may contain")
    _check_brackets(text, text)
    return text


def _check_brackets(source: str, text: str) -> list[int]:
    """Positions of the commas outside all brackets; refuses nesting that is too deep for Python's own parser."""
    open_brackets: list[str] = []
    commas: list[int] = []
    for match in _MARK.finditer(source):
        mark = match[0]
        if mark in ("'", '"'):
            raise InvalidSpecification(f"{_shown(text)}: a quote {mark} is not closed")
        if mark in _PAIRS.values():
            open_brackets.append(mark)
            if len(open_brackets) > MAX_DEPTH:
                raise InvalidSpecification(f"{_shown(text)} nests more than {MAX_DEPTH} brackets")
        elif mark in _PAIRS:
            if not open_brackets or open_brackets.pop() != _PAIRS[mark]:
                raise InvalidSpecification(f"{_shown(text)}: {mark!r} has no opening bracket")
        elif mark == "," and not open_brackets:
            commas.append(match.start())
    if open_brackets:
        raise InvalidSpecification(f"{_shown(text)}: {open_brackets[-1]!r} is not closed")
    return commas


def _tree(source: str, text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source, mode="eval").body
    except SyntaxError as error:
        reason = (error.msg or "not understood").split(". Perhaps")[0].split(". Maybe")[0]
        if "\\" in source:
            reason = _BACKSLASH
        elif reason == "invalid decimal literal":
            reason = "a word that begins with a digit needs quotes"
        elif ".py:" in source:
            reason = THROUGH_A_PRESET
        elif ":" in source:
            reason = "options follow one colon, separated by commas, as in line:rows=5,columns=6"
        raise InvalidSpecification(f"{_shown(text)} cannot be read: {reason}") from None
    except (ValueError, RecursionError, MemoryError):
        raise InvalidSpecification(f"{_shown(text)} cannot be read") from None


def _from_node(node: ast.expr, text: str) -> Value:
    if isinstance(node, ast.Name):
        return _WORDS[node.id.lower()] if node.id.lower() in _WORDS else Specification(node.id)
    if isinstance(node, ast.BinOp) and (word := _joined(node)) is not None:
        return Specification(word)
    if isinstance(node, ast.Constant):
        return _constant(node.value, text)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        # Only one sign may precede a number.
        number = _constant(node.operand.value, text) if isinstance(node.operand, ast.Constant) else None
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            return -number if isinstance(node.op, ast.USub) else number
    if isinstance(node, (ast.List, ast.Tuple)):
        return tuple(_from_node(element, text) for element in node.elts)
    if isinstance(node, ast.Call) and (name := _name(node.func)) is not None:
        options: dict[str, Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise InvalidSpecification(f"{_shown(text)}: a specification cannot contain **")
            if keyword.arg in options:
                raise InvalidSpecification(f"{_shown(text)}: {keyword.arg} occurs twice")
            options[keyword.arg] = _from_node(keyword.value, text)
        positional = tuple(_from_node(argument, text) for argument in node.args)
        return Specification(name, positional, options)
    raise InvalidSpecification(
        f"{_shown(text)}: a specification contains only names, options, numbers, strings and lists"
    )


def _name(node: ast.expr) -> str | None:
    """The name before a bracket, or None."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value)  # OpenSpiel's game 2048
    return node.id if isinstance(node, ast.Name) and node.id.lower() not in _WORDS else None


def _joined(node: ast.expr) -> str | None:
    """Words joined by - and /, or None."""
    tail = ""
    while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Sub, ast.Div)):
        right = _joined(node.right)
        if right is None:
            return None
        tail = ("-" if isinstance(node.op, ast.Sub) else "/") + right + tail
        node = node.left
    return node.id + tail if isinstance(node, ast.Name) else None


def _constant(value: Any, text: str) -> Value:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str) and value.isprintable():
        return value
    rule = _BACKSLASH if "\\" in text else "a value is a finite number or a printable text"
    raise InvalidSpecification(f"{_shown(text)}: {rule}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
