"""Figures: a clear word where Matplotlib is missing, and no half-written file."""

import sys

import pytest

from engram.errors import InvalidFile, InvalidParameter, MissingPackage
from engram.pictures.chart import Chart, Series, draw
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


def test_a_picture_has_the_format_of_its_name(tmp_path):
    for name, start in (("a.png", b"\x89PNG"), ("b.PDF", b"%PDF"), ("c.svg", b"<?xml")):
        save(new_figure("a test"), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(InvalidFile, match=r"ends in .png, .pdf or .svg"):
        save(new_figure("a test"), tmp_path / "d.jpg")
    chart = Chart("t", [Series("a", [1, 2], [1, 2])], x="x", y="y")
    draw(str(tmp_path / "e.png"), "t", [chart])
    assert (tmp_path / "e.png").exists()
    with pytest.raises(InvalidParameter, match=r"f\.png has no chart"):
        draw(tmp_path / "f.png", "t", [])


def test_a_legend_names_every_curve_and_fits(tmp_path):
    labels = ["_mine.py:_a", "puct(" + "a_long_option=1, " * 20 + ")"]
    chart = Chart("t", [Series(label, [1, 2], [1, 2]) for label in labels], x="x", y="y")
    figures = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engram.pictures.chart.save", lambda figure, file: figures.append(figure))
        draw(tmp_path / "a.png", "title", [chart])
    (legend,) = figures[0].legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[0].endswith("_mine.py:_a") and len(texts) == 2
    assert max(len(line) for text in texts for line in text.split("\n")) <= 80
