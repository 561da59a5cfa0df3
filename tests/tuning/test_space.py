"""Spaces: what can be tuned, how values become a search, and what is said of nonsense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import EngramError, InvalidParameter, InvalidSpecification
from engram.presets.catalogue import preset
from engram.tuning.sampler import unit_of, units, value_at
from engram.tuning.space import Alternatives, Space, Tunable, parse_tunable, space


def test_values_become_a_search_that_can_be_made():
    where = space("uct(backup=softmax(budget=100))", knots=3, tune=["exploration=0.2:3:log", "expand_after=1:8:int"])
    values = where.values([0.0, 0.5, 1.0, 0.0, 1.0])
    text = where.specification(values)
    assert text == "uct(backup=softmax(budget=100, knots=[-4.0, 1.0, 6.0]), expand_after=8, exploration=0.2)"
    assert preset(text).text == text
    assert where.rule == "softmax"
    assert where.num_knots == 3
    assert units(where.ranges, values) == pytest.approx([0.0, 0.5, 1.0, 0.0, 1.0])


def test_numbers_of_parts_and_of_files(tmp_path):
    assert space("uct(backup=erwa)", tune=["backup.step=0.01:0.5:log"]).specification({"backup.step": 0.1}) == (
        "uct(backup=erwa(step=0.1))"
    )
    file = tmp_path / "mine.py"
    file.write_text("import engram\ndef mine(c=1.0):\n    return engram.presets.uct(exploration=c)\n")
    assert space(f"{file}:mine", tune=["c=0:2"]).specification({"c": 0.5}) == f"{file}:mine(c=0.5)"


@given(st.floats(0.0, 1.0), st.booleans())
def test_values_come_back(unit, log):
    numbers = Tunable("x", 0.01, 50.0, log=log).range
    value = value_at(numbers, unit)
    assert 0.01 <= value <= 50.0
    assert unit_of(numbers, value) == pytest.approx(unit, abs=1e-9)


def test_whole_numbers_in_the_logarithm_and_narrow_ranges():
    assert parse_tunable("n=1:512:int:log") == parse_tunable("n=1:512:log:int") == Tunable("n", 1, 512, True, True)
    narrow = space("uct", tune=["exploration=1000000:1000001"])
    assert narrow.specification({"exploration": 1000000.85}) == "uct(exploration=1000000.85)"
    assert space("uct", tune=["exploration=0.2:3"]).specification({"exploration": 1 / 3}) == "uct(exploration=0.333333)"


def test_words_become_a_search_that_can_be_made():
    tune = ["decision=robust|lcb", "backup = average | erwa(step=0.10)|Average()", "expand_after=1:8:int"]
    with pytest.raises(InvalidParameter, match="two or more different words"):
        space("uct", tune=["decision=lcb|lcb"])
    where = space("uct", tune=tune[:2])
    assert where.tunables[1] == Alternatives("backup", ("average", "erwa(step=0.1)", "Average"))
    where = space("uct", tune=[tune[0], "backup=average|erwa(step=0.10)", tune[2]])
    assert where.middle == {"decision": "robust", "backup": "average", "expand_after": 4}
    text = where.specification({"decision": "lcb", "backup": "erwa(step=0.1)", "expand_after": 2})
    assert text == "uct(backup=erwa(step=0.1), decision=lcb, expand_after=2)" and preset(text).text == text


def test_words_of_other_kinds():
    where = space("uct", tune=["solver=true|false", "first_play_urgency=0.5|none"])
    assert where.specification({"solver": "true", "first_play_urgency": "none"}) == (
        "uct(first_play_urgency=none, solver=true)"
    )


@pytest.mark.parametrize("text", ["x=a||b", "x=a|", "x=|", "x=a|b,c", "x=a|b=1", "x=a|b)(", "x=0.5|1:2", "x=a(|b"])
def test_words_that_are_none(text):
    with pytest.raises(InvalidSpecification, match=r"x: '.*' is not the value of an option"):
        parse_tunable(text)


def test_words_in_quotes_and_words_that_are_one():
    assert parse_tunable("x='a'|'b|c'") == Alternatives("x", ("'a'", "'b|c'"))
    for text in ("x=1|1.0", "x=robust|'robust'"):
        with pytest.raises(InvalidParameter, match="two or more different words"):
            parse_tunable(text)


@pytest.mark.parametrize("text", ["exploration", "exploration=1", "=1:2", "x=a:b", "x=1:2:cubic", "x=1:2:log:log"])
def test_what_is_no_range(text):
    with pytest.raises(InvalidSpecification, match="name=low:high"):
        parse_tunable(text)


@pytest.mark.parametrize(
    "text",
    [
        "x=2:1",
        "x=0:1:log",
        "x=0.5:2:int",
        "x=1:inf",
        "x=nan:1",
        "x=1e-300:1e300:log",
        "x=-1e308:1e308",
        "x=-1e308:1e308:int",
    ],
)
def test_ranges_that_are_none(text):
    with pytest.raises(InvalidParameter):
        parse_tunable(text)


def test_ends_of_a_range_are_numbers_and_a_space_has_ranges():
    with pytest.raises(InvalidParameter, match="low must be a number, not 'x'"):
        Tunable("a", "x", 3)
    with pytest.raises(InvalidParameter, match="a Space has Tunable and Alternatives"):
        Space("uct", ("exploration=0:1",))


@pytest.mark.parametrize(
    ("search", "options", "sentence"),
    [
        ("uct", {}, "nothing to tune"),
        ("uct", {"knots": 3}, "belong to a backup rule"),
        ("uct(backup=softmax)", {"knots": 0}, "1 to 32"),
        ("uct", {"tune": ["exploration=1:2", "exploration=1:3"]}, "twice"),
        ("uct(backup=softmax)", {"knots": 3, "tune": ["backup.knots=1:2"]}, "take one of them"),
        ("uct(backup=softmax)", {"knots": 3, "tune": ["backup=erwa|softmax"]}, "whose words replace it"),
        ("uct(backup=erwa)", {"tune": ["backup.step=0:1", "backup=erwa|td"]}, "backup.step is a part of backup"),
    ],
)
def test_spaces_that_are_none(search, options, sentence):
    with pytest.raises(EngramError, match=sentence):
        space(search, **options)


def test_a_part_that_is_not_there():
    with pytest.raises(InvalidSpecification, match="no part called 'backup'"):
        space("uct", tune=["backup.step=0:1"]).specification({"backup.step": 0.5})
