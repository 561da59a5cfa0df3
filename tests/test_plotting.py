"""Figures: a clear word where Matplotlib is missing, and no half-written file."""

import sys

import pytest

from engram.errors import InvalidFile, MissingPackage
from engram.plotting import new_figure, save


def test_a_figure_without_matplotlib_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackage, match=r"a report needs Matplotlib: pip install 'engram\[plots\]'"):
        new_figure("a report")


def test_a_picture_that_fails_leaves_the_old_one(tmp_path):
    class Broken:
        def findobj(self, match):
            return []

        def savefig(self, part, **_):
            part.write_bytes(b"half")
            raise OSError("no room")

    file = tmp_path / "curve.png"
    save(new_figure("a test", figsize=(1, 1)), file)
    before = file.read_bytes()
    assert before.startswith(b"\x89PNG")
    with pytest.raises(InvalidFile, match="cannot be written: no room"):
        save(Broken(), file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]


def test_texts_with_dollar_signs_are_no_formulas(tmp_path):
    pytest.importorskip("matplotlib")
    figure = new_figure("a report")
    axes = figure.add_subplot()
    axes.plot([1, 1e6], label="d$x_$^/p.py:mine")
    axes.set_yscale("log")
    axes.legend()
    save(figure, tmp_path / "a.png")
    assert not axes.get_legend().get_texts()[0].get_parse_math()
    assert all(label.get_parse_math() for label in axes.get_yticklabels())
