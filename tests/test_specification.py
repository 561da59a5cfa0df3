"""Specifications: what is read, what is refused, and that nothing else ever happens."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram.errors import InvalidSpecification
from engram.specification import MAX_DEPTH, MAX_LENGTH, Specification, parse, split_specifications

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("true", "false", "none") and not keyword.iskeyword(name)
)

NUMBERS = st.one_of(
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.text(st.characters(codec="utf-8"), max_size=6).filter(lambda text: text.isprintable() and "#" not in text),
)


def _specifications(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.builds(
        Specification,
        NAMES,
        st.lists(values, max_size=2).map(tuple),
        st.dictionaries(NAMES, values, max_size=3),
    )


VALUES = st.recursive(
    NUMBERS, lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), _specifications(inner)), max_leaves=6
)


def test_nested_names_words_numbers_strings_and_lists():
    result = parse(
        "puct(network='go9', backup=softmax(temperature=2.0), mix=average, knots=[-1, 2.5], on=true, off=none)"
    )
    assert result.name == "puct"
    assert result.positional == ()
    assert result.options == {
        "network": "go9",
        "backup": Specification("softmax", (), {"temperature": 2.0}),
        "mix": Specification("average"),
        "knots": (-1, 2.5),
        "on": True,
        "off": None,
    }


@pytest.mark.parametrize(
    ("text", "positional", "options"),
    [
        ("go:9", (9,), {}),
        ("go:19,komi=7.5", (19,), {"komi": 7.5}),
        ("line:rows=6,columns=7,gravity=true", (), {"rows": 6, "columns": 7, "gravity": True}),
        ("go", (), {}),
        ("go:", (), {}),
        (" uct ( ) ", (), {}),
    ],
)
def test_games_are_written_with_a_colon(text, positional, options):
    result = parse(text)
    assert result.positional == positional
    assert result.options == options


def test_order_and_spaces_do_not_matter():
    first, other = parse("uct(b=2,a= 1)"), parse(" uct(a=1 , b=2)")
    assert first == other
    assert hash(first) == hash(other)
    assert first.text == "uct(a=1, b=2)"
    assert first.colon_text == "uct:a=1,b=2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("uct(", "'(' is not closed"),
        ("uct)", "has no opening bracket"),
        ("uct(a=1]", "has no opening bracket"),
        ("go:9)(", "has no opening bracket"),
        ("uct(a='x)", "is not closed"),
        ("uct(a=1, a=2)", "a occurs twice"),
        ("uct(**x)", "a specification cannot contain"),
        ("uct(*x)", "a specification contains only"),
        ("uct(a=b.c)", "a specification contains only"),
        ("uct(a=1+1)", "a specification contains only"),
        ("uct(a=--1)", "a specification contains only"),
        ("uct(a=1e999)", "finite"),
        ("uct(a=1j)", "finite"),
        (f"uct(a={2**63})", "finite"),
        ("uct(a=b'x')", "finite"),
        ("uct()()", "a specification contains only"),
        ("true", "not a name"),
        ("true(a=1)", "a specification contains only"),
        ("uct # x", "character"),
        ("uct\n", "character"),
        ("uct\0", "character"),
        ("x" * (MAX_LENGTH + 1), "at most"),
        ("a(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1), "nests more"),
        (r"puct(network='C:\Users\me\net.safetensors')", "write / in place of \\ in a path"),
        (r"puct(network='C:\nets\go')", "write / in place of \\ in a path"),
    ],
)
def test_what_is_refused_is_said(text, says):
    with pytest.raises(InvalidSpecification) as caught:
        parse(text)
    assert says in str(caught.value)


def test_signs_without_end_are_refused():
    with pytest.raises(InvalidSpecification, match=r"cannot be read|contains only"):  # Python 3.13 reads them
        parse("uct(a=" + "-" * 3000 + "1)")


def test_lists_are_split_outside_brackets_and_strings():
    assert split_specifications("a(x=1,y=2), b(z=[3,4]),c('p,q')") == ["a(x=1,y=2)", "b(z=[3,4])", "c('p,q')"]
    for broken in ("a,,b", "a,", ",", "a(,b"):
        with pytest.raises(InvalidSpecification):
            split_specifications(broken)


def test_bind_fills_in_types_and_names_the_nearest():
    defaults = {"depth": 4, "scale": 1.5, "word": "auto", "on": False, "any": None}
    assert parse("x(7, scale=2, word=naive, on=true, any=[1])").bind(defaults) == {
        "depth": 7, "scale": 2.0, "word": "naive", "on": True, "any": (1,)
    }  # fmt: skip
    assert isinstance(parse("x(scale=2)").bind(defaults)["scale"], float)
    assert parse("x").bind(defaults) == defaults
    for text, says in (
        ("x(dept=3)", "did you mean 'depth'"),
        ("x(depth=3.5)", "depth must be a whole number, not 3.5"),
        ("x(depth=true)", "whole number"),
        ("x(on=1)", "true or false"),
        ("x(scale=a)", "must be a number"),
        ("x(word=3)", "word must be text, not 3"),
        ("x(1, depth=2)", "depth occurs twice"),
        ("x(1, 2, 3, 4, 5, 6)", "not 6 values"),
    ):
        with pytest.raises(InvalidSpecification, match=says):
            parse(text).bind(defaults)


@given(_specifications(VALUES))
@settings(max_examples=150, deadline=None)
def test_the_canonical_text_reads_back_as_the_same(specification):
    try:
        result = parse(specification.text)
    except InvalidSpecification as error:
        assert "nests more" in str(error) or "at most" in str(error)
        return
    assert result == specification
    assert result.text == specification.text


@given(st.one_of(st.text(max_size=60), st.text("ab1_(),=:'\"[]{}-.*\\ \t", max_size=40)))
@settings(max_examples=400, deadline=None)
def test_no_text_does_anything_but_parse_or_be_refused(text):
    for reader in (parse, split_specifications):
        try:
            reader(text)
        except InvalidSpecification as error:
            assert str(error)
            assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("uct(backup=rules.py:mine)", "a rule of your file is named through a preset of that file"),
        ("gymnasium:FrozenLake-v1:is_slippery=true", "options follow one colon, separated by commas"),
        ("2048:4", "2048 takes no options"),
        ("openspiel:nosuch", "no game 'nosuch'; `engram games`"),
    ],
)
def test_a_slip_in_a_name_says_how_it_is_written(text, words):
    if text.startswith("openspiel"):
        pytest.importorskip("pyspiel")
    with pytest.raises(InvalidSpecification, match=words):
        engram.game(text)
