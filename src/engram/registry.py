"""Names that specifications may use, and how the options of a specification become arguments of a function.

A `Registry` holds functions by name. `bind` checks options against a function's signature and its resolved type
hints, whether or not its module postpones annotations. The keys of `**options: Unpack[SomeTypedDict]` (PEP 692)
count as options of the function.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar, Unpack, get_args, get_origin, get_type_hints
from weakref import ref

from engram.errors import InvalidSpecification, choices
from engram.specification import THROUGH_A_PRESET, Specification, Value, typed, value_text

Entry = TypeVar("Entry", bound=Callable[..., Any])
Parts = Mapping[str, "Registry[Any]"]
"""Options that name a part, such as `backup`, and the registry of such parts."""


class Registry(dict[str, Entry]):
    """Functions by name. Looking up an unknown name raises `InvalidSpecification`, which names the nearest.

    Args:
      kind: the word for an entry in error sentences: `game`, `selection rule`.
      reserved: another registry, whose names are not available here; error sentences list them too.
    """

    def __init__(self, kind: str, reserved: Mapping[str, Any] | None = None):
        super().__init__()
        self.kind = kind
        self._reserved = {} if reserved is None else reserved
        _registries.append(ref(self))

    def __missing__(self, name: str) -> Entry:
        hint = choices(str(name), [*self, *self._reserved]) if ".py:" not in str(name) else f"; {THROUGH_A_PRESET}"
        raise InvalidSpecification(f"no {self.kind} is called {name!r}{hint}")

    def check(self, name: str) -> None:
        """Raises `InvalidSpecification` for an unknown name."""
        _ = self[name]

    def add(self, name: str, entry: Entry) -> Entry:
        """Gives an entry a name. A file or notebook cell that runs again replaces its own entries.

        Raises:
          InvalidSpecification: another definition already has this name.
        """
        rival = self.get(name, self._reserved.get(name))
        if rival is not None and not _same_definition(rival, entry):
            raise InvalidSpecification(
                f"there is already a {self.kind} called {name!r}, in {_place(rival)}; choose another name"
            )
        self[name] = entry
        return entry

    def named(self, name: str) -> Callable[[Entry], Entry]:
        """Decorator: `add` with this name."""
        return partial(self.add, name)


_registries: list[ref[Registry[Any]]] = []


def registries_of(option: str) -> list[Registry[Any]]:
    """The registries whose names an option may take: those of its kind, such as `selection`; all if none has its kind.

    The option "" stands for searches, players and games.
    """
    live = [registry for reference in _registries if (registry := reference()) is not None]
    kinds = (option,) if option else ("search", "player", "game")
    return [registry for registry in live if registry.kind.split()[0] in kinds] or live


def files_from_outside(option: str, name: str) -> Iterator[str]:
    """The source files of an option's entries of this name, without the package's own."""
    for registry in registries_of(option):
        entry = registry.get(name)
        if entry is not None and not _is_ours(origin := _origin(entry)):
            module = sys.modules.get(origin.__module__)
            yield (
                origin.__code__.co_filename if hasattr(origin, "__code__") else getattr(module, "__file__", None) or ""
            )


def _origin(entry: Any) -> Any:
    """The function or class in the source that lies behind an entry."""
    origin = inspect.unwrap(getattr(entry, "function", entry))
    return _origin(origin.func) if isinstance(origin, partial) else origin


def _is_ours(origin: Any) -> bool:
    return str(origin.__module__).startswith("engram.")


def _place(entry: Any) -> str:
    """The file and line of a function; else the module."""
    origin = _origin(entry)
    code = getattr(origin, "__code__", None)
    if code is None or _is_ours(origin):
        return str(origin.__module__)
    return f"{code.co_filename}:{code.co_firstlineno}"


def _same_definition(entry: Any, rival: Any) -> bool:
    """Whether two entries come from one place in the source; its module may have been loaded under two names."""
    first, second = _origin(entry), _origin(rival)
    modules = first.__module__, second.__module__
    files = [getattr(sys.modules.get(module), "__file__", None) for module in modules]
    same_source = modules[0] == modules[1] or (files[0] is not None and files[0] == files[1])
    return same_source and first.__qualname__ == second.__qualname__


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of those parameters that have one, by parameter."""
    parameters = inspect.signature(function).parameters
    empty = inspect.Parameter.empty
    return {name: parameter.default for name, parameter in parameters.items() if parameter.default is not empty}


def about(function: Callable[..., Any]) -> str:
    """A description for lists: the first line of the docstring, without its full stop."""
    return (inspect.getdoc(function) or "").partition("\n")[0].removesuffix(".")


@dataclass(frozen=True)
class FilesOf:
    """Marks the type of an option that names files, as in `DataFile`.

    Args:
      find: a function from a value to the files that it names, possibly none.
    """

    find: Callable[[str], Iterable[Path]]


def data_files(text: str) -> list[Path]:
    """The file with this name, or the files that a training run wrote into the folder with this name."""
    path = Path(text).expanduser()
    return sorted(path.glob("*.safetensors")) if path.is_dir() else [path] if path.exists() else []


DataFile = Annotated[str, FilesOf(data_files)]
"""The type of an option that names a file of data, or a folder that a training run wrote."""


def files_of(function: Callable[..., Any], specification: Specification, parts: Parts) -> Iterator[Path]:
    """The files that a function's specification names, by the types of its options; its parts' files are included."""
    types, open_ended = types_of(function, marks=True)
    for name, value in specification.by_name(list(types), None if open_ended else types).items():
        part = value if isinstance(value, Specification) else Specification(str(value))
        entries = _registry_of(function, name, parts)
        if entries is not None and part.name in entries:
            yield from files_of(entries[part.name], part, parts)
        for mark in marks_of(types.get(name)) if value is not None else ():
            yield from mark.find(part.name)


def _registry_of(function: Callable[..., Any], option: str, parts: Parts) -> Registry[Any] | None:
    """The registry for an option's parts: that of the kind that the function declares, or else of the option's name."""
    return parts.get(getattr(function, "part_kinds", {}).get(option, option))


def marks_of(hint: Any) -> list[FilesOf]:
    """The marks of a type with `Annotated`, at any depth."""
    if get_origin(hint) is Annotated:
        return [mark for mark in hint.__metadata__ if isinstance(mark, FilesOf)]
    return [mark for part in get_args(hint) for mark in marks_of(part)]


@lru_cache(maxsize=256)
def types_of(function: Callable[..., Any], marks: bool = False) -> tuple[Mapping[str, Any], bool]:
    """Types by parameter of a function or class, and whether it accepts any other option as well.

    A parameter has the type `Any` if it has no annotation, or if only type checkers can resolve the annotation. With
    `marks`, types keep what `Annotated` adds to them.
    """
    written = function.func if isinstance(function, partial) else function
    if inspect.isclass(written):
        written = written.__init__
    elif not inspect.isroutine(written):
        written = type(written).__call__
    scope = getattr(inspect.unwrap(written), "__globals__", {})
    types: dict[str, Any] = {}
    open_ended = False
    for name, parameter in inspect.signature(function).parameters.items():
        hint = _resolved(parameter.annotation, scope, marks)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            if get_origin(hint) is Unpack:
                types.update(get_type_hints(get_args(hint)[0], include_extras=marks))
            else:
                open_ended = True
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            types[name] = hint
    return types, open_ended


def _resolved(annotation: Any, scope: dict[str, Any], marks: bool) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any
    try:
        holder = SimpleNamespace(__annotations__={"hint": annotation})
        return get_type_hints(holder, scope, include_extras=marks)["hint"]
    except NameError:
        return Any


def bind(
    function: Callable[..., Any],
    specification: Specification,
    parts: Parts | None = None,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Arguments of a function by name, from the options of a specification.

    Args:
      parts: options that name a part; `bind` makes the part.
      given: arguments that the specification must not set; the function gets those that it takes.

    Raises:
      InvalidSpecification: an option is unknown, repeated or missing, or a value is not of its parameter's type.
    """
    signature = inspect.signature(function)
    types, open_ended = types_of(function)
    passed = {name: value for name, value in (given or {}).items() if name in types}
    types = {name: hint for name, hint in types.items() if name not in passed}
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name in types]
    in_order = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
    for name, value in specification.by_name(in_order, None if open_ended else types).items():
        what = f"{specification.name}: {name}"
        is_part = value is not None and not _is_own(types.get(name, Any), value)
        part = _registry_of(function, name, parts or {}) if is_part else None
        passed[name] = typed(what, value, types.get(name, Any)) if part is None else _part(what, value, part, parts)
    try:
        signature.bind(**passed)
    except TypeError as error:
        remedy = "a function named here returns a preset, or another part, and its arguments are options"
        raise InvalidSpecification(f"{specification.name}: {error}; {remedy}") from None
    return passed


def _is_own(hint: Any, value: Value) -> bool:
    """Whether an option belongs to the function itself, although a part has its name: by its type, or by its value."""
    return hint in (bool, int, float, str) or (hint is Any and isinstance(value, bool | int | float))


def call(function: Callable[..., Any], specification: Specification, parts: Parts | None = None, **given: Any) -> Any:
    """Calls a function with the options of a specification; arguments and errors as in `bind`."""
    return function(**bind(function, specification, parts, given))


def _part(what: str, value: Value, registry: Registry[Any], parts: Parts | None) -> Any:
    part = Specification(value) if isinstance(value, str) else value
    if not isinstance(part, Specification):
        raise InvalidSpecification(f"{what} must be a {registry.kind}, not {value_text(value)}")
    if part.positional:
        raise InvalidSpecification(f"{part.name} takes options by name only, as in {part.name}(x=1)")
    return call(registry[part.name], part, parts)
