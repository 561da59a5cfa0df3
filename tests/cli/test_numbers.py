"""Every number that a command takes is refused in one sentence where it is out of range."""

from __future__ import annotations

import math
import re
import typing

import pytest
import typer
from typer.testing import CliRunner

from engram.cli.app import app

EARLY = {
    "distil": ["--table", "nothing", "-o", "OUT", "-g", "nothing"],
    "records": ["--data", "nothing", "-o", "OUT", "-g", "nothing"],
    "tune": ["-s", "uct", "--tune", "nothing=0:1", "-g", "nothing"],
    "analysis": ["-s", "nothing"],
    "league": ["--player", "uct", "--player", "random", "-g", "nothing"],
    "tree": ["nothing"],
    "results": ["-d", "OUT/nothing.sqlite"],
    "ask": ["nothing"],
    "merge": ["nothing", "-o", "OUT"],
    "prune": ["nothing", "-o", "OUT"],
}
"""Further words of a command, with which a number in range is refused soon: no such game, no such file."""
GAME = ["-g", "nothing"]
VALUES = ["0", "-1", "nan", "inf", "1e308", str(2**63)]


def leaves(entry, words=()):
    """(words, command) for each command below a group."""
    if not hasattr(entry, "commands"):
        yield words, entry
    for name, inner in getattr(entry, "commands", {}).items():
        yield from leaves(inner, (*words, name))


def numeric_options():
    """(words of a command, option) for each option of a number."""
    for words, entry in leaves(typer.main.get_command(app)):
        hints = typing.get_type_hints(entry.callback)
        for parameter in entry.params:
            if re.search(r"\b(int|float)\b", str(hints.get(parameter.name, ""))) and parameter.opts[0].startswith("--"):
                yield words, parameter


def faults_of(words, option, folder):
    """(Number of values tried, a sentence for each that is not refused in one of its own)."""
    command = [word.replace("OUT", str(folder / "out")) for word in EARLY.get(words[-1], GAME)]
    if words[-1] in ("build", "td", "features", "selfplay"):
        command += ["-o", str(folder / "out")]
    faults = []
    for value in VALUES:
        result = CliRunner().invoke(app, [*words, *command, option.opts[0], value])
        is_refused = option.opts[0] in result.stderr
        is_sentence = len(result.stderr.strip().splitlines()) == 1 and "Traceback" not in result.output
        must_refuse = not math.isfinite(float(value)) or abs(float(value)) > 1e300
        if (
            result.exit_code != 2
            or not is_sentence
            or not (is_refused or ("nothing" in result.stderr and not must_refuse))
        ):
            faults.append(f"{words} {option.opts[0]} {value}: {result.output} {result.exception!r}")
    return len(VALUES), faults


@pytest.mark.parametrize(
    ("words", "option"),
    [pytest.param(words, option, id=f"{'-'.join(words)}{option.opts[0]}") for words, option in numeric_options()],
)
def test_numbers_out_of_range_are_one_sentence(words, option, tmp_path):
    assert not faults_of(words, option, tmp_path)[1]


def test_absurd_numbers_are_refused_and_say_the_range():
    for value in ("5000", str(2**63)):
        result = CliRunner().invoke(app, ["match", "--workers", value])
        assert result.exit_code == 2
        assert f"'--workers': it must be a whole number, 1 to 512, not {value}" in result.stderr
    result = CliRunner().invoke(app, ["train", "selfplay", "-o", "nowhere", "--checkpoint-s", "nan"])
    assert result.exit_code == 2 and "'--checkpoint-s': it must be a number from 0" in result.stderr


@pytest.mark.parametrize("number", ["0", "-1", "nan", "inf", "1e308", str(2**63)])
def test_numbers_of_matches_are_bounded(number, tmp_path):
    result = CliRunner().invoke(app, ["results", "-d", str(tmp_path / "no.sqlite"), "--", number])
    assert result.exit_code == 2 and len(result.stderr.strip().splitlines()) == 1
