"""The numbers and words to tune: parts of a search's specification, named by their place in it.

    exploration            an option of the search itself
    backup.step            an option of one of its parts
    backup.knots[2]        one of the knots of a backup rule's function h

A space turns values into the text of a search, so every part of a specification can be tuned.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from engram.errors import InvalidParameter, InvalidSpecification, check_fields, check_whole
from engram.specification import Specification, Value, parse, value_text
from engram.tuning.sampler import Knots, SearchSpace, is_too_wide, num_coordinates, values_at
from engram.user_files import is_in_file, load

KNOT_RANGE = (-4.0, 6.0)
"""Range of h. The paper's is [-1.48, 4.52] in relative form, and its optima touch both ends, so this range is wider."""
_TUNE = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s*([^:]+):([^:]+?)(?::(log|int|log:int|int:log))?\s*")
_CHOOSE = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s*(.*\|.*)")
_BAR = re.compile(r"""\|(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")  # outside quotes
_DIGITS = 6


@dataclass(frozen=True)
class Tunable:
    """One number to tune: its place in the specification, and its range, low < high.

    Args:
      log: uniform in the logarithm; low > 0. integer: whole numbers only.
    """

    name: str
    low: float
    high: float
    log: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidParameter(f"{self.name}: a range goes from low to high, not {self.low:g}:{self.high:g}")
        if self.log and self.low <= 0:
            raise InvalidParameter(f"{self.name}: a logarithmic range begins above 0, not at {self.low:g}")
        if self.integer and (self.low != int(self.low) or self.high != int(self.high)):
            raise InvalidParameter(f"{self.name}: a range of whole numbers has whole ends")
        if is_too_wide(self.range):
            raise InvalidParameter(f"{self.name}: the range {self.low:g}:{self.high:g} is too wide")

    @property
    def range(self) -> FloatDistribution | IntDistribution:
        """The range as a distribution of Optuna."""
        if self.integer:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def rounded(self, value: float) -> int | float:
        """A value as a specification has it: a whole number, or rounded to six digits, more in a narrow range."""
        if self.integer:
            return int(value)
        largest = max(abs(self.low), abs(self.high))
        digits = max(_DIGITS, _DIGITS - 1 + math.ceil(math.log10(largest / (self.high - self.low))))
        return float(f"{value:.{digits}g}")


@dataclass(frozen=True)
class Alternatives:
    """Words or other values to choose from: their place in the specification, and two or more texts."""

    name: str
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        values = [_value(word) for word in self.words]
        plain = {value.text if isinstance(value, Specification) else value for value in values}
        if len(plain) < max(2, len(values)):
            raise InvalidParameter(f"{self.name}: a choice has two or more different words")

    @property
    def range(self) -> CategoricalDistribution:
        """The words as a distribution of Optuna."""
        return CategoricalDistribution(self.words)

    def rounded(self, value: str) -> Value:
        """A word as a specification has it."""
        return _value(value)


@dataclass(frozen=True)
class Space:
    """A search, as a specification, with values left open: at least one, with different names."""

    search: str
    tunables: tuple[Tunable | Alternatives, ...]

    def __post_init__(self) -> None:
        if not all(isinstance(tunable, Tunable | Alternatives) for tunable in self.tunables):
            raise InvalidParameter("a Space has Tunable and Alternatives; `space(search, tune=[...])` reads texts")
        if not self.names:
            raise InvalidParameter("nothing to tune: give --knots or --tune")
        for name in self.names:
            if self.names.count(name) > 1:
                raise InvalidParameter(f"{name} is named twice")
        if self.num_knots and "backup.knots" in self.names:
            raise InvalidParameter("--knots and --tune backup.knots set the same numbers: take one of them")
        for choice in self.alternatives:
            for name in self.names:
                if name.startswith(f"{choice.name}."):
                    raise InvalidParameter(f"{name} is a part of {choice.name}, whose words replace it")

    @property
    def names(self) -> list[str]:
        """The names of all that is tuned, in order."""
        return [tunable.name for tunable in self.tunables]

    @property
    def alternatives(self) -> list[Alternatives]:
        """The choices of words among them."""
        return [tunable for tunable in self.tunables if isinstance(tunable, Alternatives)]

    @property
    def ranges(self) -> SearchSpace:
        """The ranges by name, as a search space of Optuna."""
        return {tunable.name: tunable.range for tunable in self.tunables}

    @property
    def knots(self) -> Knots | None:
        """The knots, which share one range, as the posterior takes them; None without knots."""
        first = self.tunables[0]
        return Knots(self.num_knots, first.low, first.high) if self.num_knots and isinstance(first, Tunable) else None

    @property
    def num_knots(self) -> int:
        """The number of knots among them."""
        return sum(map(is_knot, self.names))

    @property
    def rule(self) -> str | None:
        """The backup rule whose knots are tuned; None without knots."""
        backup = _read(self.search)[1].options.get("backup")
        return backup.name if self.num_knots and isinstance(backup, Specification) else None

    @property
    def middle(self) -> dict[str, Any]:
        """The values in the middle of each range, and the first word of each choice."""
        return self.values([0.5] * num_coordinates(self.ranges))

    def specification(self, values: Mapping[str, Any]) -> str:
        """The search with these values in it, canonical; raises InvalidSpecification if it lacks a name's place."""
        prefix, specification = _read(self.search)
        knots = tuple(tunable.rounded(values[tunable.name]) for tunable in self.tunables if is_knot(tunable.name))
        if knots:
            specification = _with(specification, ["backup", "knots"], knots)
        for tunable in self.tunables:
            if not is_knot(tunable.name):
                value = tunable.rounded(values[tunable.name])
                specification = _with(specification, tunable.name.split("."), value)
        return prefix + specification.text

    def values(self, point: Sequence[float]) -> dict[str, Any]:
        """The values at a point of the unit cube."""
        return values_at(self.ranges, point)


def is_knot(name: str) -> bool:
    """Whether a number is a knot of the backup rule's h."""
    return name.startswith("backup.knots[")


def space(
    search: str, *, knots: int | None = None, knot_range: tuple[float, float] = KNOT_RANGE, tune: Sequence[str] = ()
) -> Space:
    """A space from the options of a command.

    Args:
      search: such as `uct(backup=softmax)`. knot_range: range of each knot.
      knots: number of knots of the backup rule's h, 1 to 32; None: no knots.
      tune: scalars such as `exploration=0.2:3:log`, `backup.step=0.01:0.5`, `expand_after=1:8:int`, and words such as
        `decision=robust|lcb`.

    Raises:
      InvalidSpecification, InvalidParameter: a text cannot be read, or names no part of the search.
    """
    tunables: list[Tunable | Alternatives] = []
    if knots is not None:
        check_whole("knots", knots, 1, 32)
        if not isinstance(_read(search)[1].options.get("backup"), Specification):
            raise InvalidSpecification("knots belong to a backup rule: write it in the search, as uct(backup=softmax)")
        tunables += [Tunable(f"backup.knots[{index}]", *knot_range) for index in range(knots)]
    return Space(search, (*tunables, *map(parse_tunable, tune)))


def parse_tunable(text: str) -> Tunable | Alternatives:
    """A number to tune from `name=low:high`, with `:log`, `:int` or both after it; words from `name=word|word`.

    Raises:
      InvalidSpecification, InvalidParameter: the text is none of these, or its range is not valid.
    """
    if choice := _CHOOSE.fullmatch(text):
        return Alternatives(choice[1], tuple(_word(choice[1], word) for word in _BAR.split(choice[2])))
    parts = _TUNE.fullmatch(text)
    try:
        if parts is None:
            raise ValueError
        low, high = float(parts[2]), float(parts[3])
    except ValueError:
        raise InvalidSpecification(
            f"{text!r} is not name=low:high, as in exploration=0.2:3:log, nor name=word|word, as in decision=robust|lcb"
        ) from None
    kinds = (parts[4] or "").split(":")
    return Tunable(parts[1], low, high, log="log" in kinds, integer="int" in kinds)


def _word(name: str, text: str) -> str:
    """A word to choose from as its canonical text."""
    try:
        return value_text(_value(text))
    except InvalidSpecification:
        raise InvalidSpecification(f"{name}: {text.strip()!r} is not the value of an option") from None


def _value(text: str) -> Value:
    """A value of an option from its text, such as `lcb`, `0.5` or `softmax(knots=[1, 2])`."""
    around = parse(f"choice({text})")
    if len(around.positional) != 1 or around.options:
        raise InvalidSpecification(f"{text!r} is not one value")
    return around.positional[0]


def _read(search: str) -> tuple[str, Specification]:
    """The file before a specification, or an empty text, and the specification."""
    if not is_in_file(search):
        return "", parse(search)
    _, specification, text = load(search)
    return text.removesuffix(specification.text), specification


def _with(specification: Specification, path: list[str], value: Value) -> Specification:
    """A specification with another value at a place."""
    name, *rest = path
    if rest:
        part = specification.options.get(name)
        if not isinstance(part, Specification):
            raise InvalidSpecification(f"{specification.text} has no part called {name!r} to tune")
        value = _with(part, rest, value)
    return replace(specification, options={**specification.options, name: value})
