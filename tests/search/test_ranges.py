"""Ranges that the docstrings of rules give: their ends are taken, and the numbers just outside are refused."""

import inspect
import re
from functools import partial
from math import inf, nextafter

import pytest

import engram.presets  # noqa: F401  (defines the rules)
from engram.errors import InvalidParameter
from engram.search.operators import OPERATORS
from engram.search.selection import ucb1

NUMBER = r"-?[\d.]+(?:e-?\d+)?"
INTERVAL = re.compile(rf"in ([\[(])({NUMBER}), ({NUMBER})\]")
BOUND = re.compile(rf"(≥) ({NUMBER})")
SEQUENCES = {"steps", "knots"}
MORE = {"widening": {"selection": ucb1()}}


def documented(rule):
    """(parameter, lowest, highest) of each range in the section Args of a rule, if it has a docstring."""
    text = " ".join((inspect.getdoc(rule) or "").partition("Args:")[2].partition("\n\n")[0].split())
    for names, words in re.findall(r"([a-z_]+(?:, [a-z_]+)*): (.*?)(?=\. [a-z_, ]+: |$)", text):
        ranges = [match for match in (INTERVAL.search(words), BOUND.search(words)) if match]
        if ranges and not set(names.split(", ")) & SEQUENCES:
            sign, low, *high = min(ranges, key=re.Match.start).groups()
            lowest = nextafter(float(low), inf) if sign == "(" else float(low)
            yield from ((name, lowest, float(*high or [inf])) for name in names.split(", "))


RANGES = [
    pytest.param(partial(rules[rule], **MORE.get(rule, {})), *row, id=f"{kind}:{rule}({row[0]})")
    for kind, rules in OPERATORS.items()
    for rule in rules
    for row in documented(rules[rule])
]


@pytest.mark.parametrize(("rule", "name", "low", "high"), RANGES)
def test_a_rule_takes_the_range_that_its_docstring_gives(rule, name, low, high):
    rule(**{name: low})
    rule(**{name: min(high, low + 1.0)})
    for outside in (nextafter(low, -inf), nextafter(high, inf)):
        if outside < inf:
            with pytest.raises(InvalidParameter, match=name):
                rule(**{name: outside})
