"""Tables as text, CSV, Markdown and LaTeX."""

import csv
import io
import re

import pytest
from typer.testing import CliRunner

from engram.arena.match import match
from engram.cli.app import app
from engram.cli.tables import Form, print_table

ROWS = [{"player": "a|b_{50%}", "empty": "", "score": "50 % ± 3"}, {"player": "[c, d]", "empty": None, "score": 0.5}]


def test_a_table_beside_a_long_path_folds_and_loses_no_word(capsys):
    row = {"game": "/" + "g" * 76, "budget a move": "100 simulations", "random moves": 4, "seed": 0, "games": 400}
    row |= {"A": "uct", "B": "random", "outcome of A less B's [95 %]": "+1.127 [+0.915, +1.339]"}
    print_table([row])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 160 and lines[0].startswith("┏")
    words = " ".join(lines).split()
    assert {word for text in (*row, *map(str, row.values())) for word in text.split()} <= set(words)


def test_a_table_shows_brackets_and_no_empty_column(capsys):
    print_table([{"player": "uct", "peer": "", "ratio": 1.5}, {"player": "[bold]", "peer": None, "ratio": 2.0}])
    text = capsys.readouterr().out
    assert "[bold]" in text and "peer" not in text and "ratio" in text


def test_a_table_as_csv_reads_back(capsys):
    print_table(ROWS, title="ignored", form=Form.CSV)
    shown = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert shown == [["player", "score"], ["a|b_{50%}", "50 % ± 3"], ["[c, d]", "0.5"]]


def test_a_table_as_markdown_keeps_its_columns(capsys):
    print_table(ROWS, title="first", form=Form.MARKDOWN)
    title, _, head, line, first, second, _ = capsys.readouterr().out.splitlines()
    assert (title, head, line) == ("**first**", "| player | score |", "| --- | --- |")
    assert first == r"| a\|b_{50%} | 50 % ± 3 |" and second == "| [c, d] | 0.5 |"
    print_table([{"player": "<img src=x>"}], form=Form.MARKDOWN)
    assert "| &lt;img src=x> |" in capsys.readouterr().out.replace("&gt;", ">")


def test_a_table_as_latex_escapes_its_marks(capsys):
    print_table(ROWS, title="of {2}", form=Form.LATEX)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "% of {2}" and lines[1] == r"\begin{tabular}{ll}" and lines[-1] == r"\end{tabular}"
    # LaTeX would read a bracket after the end of a row as the row's option.
    assert lines[5:7] == [r"a\textbar{}b\_\{50\%\} & 50 \% $\pm$ 3 \\", r"{}[c, d] & 0.5 \\"]


@pytest.mark.parametrize("form", ["csv", "markdown", "latex"])
def test_results_in_each_form(form, tmp_path):
    database = tmp_path / "r.sqlite"
    for seed in range(2):
        match("tic_tac_toe", "uct", "random", games=4, simulations=10, seed=seed, workers=1, database=database)
    words = ["-d", str(database), "--format", form]
    several = CliRunner().invoke(app, ["results", *words]).stdout
    alone = CliRunner().invoke(app, ["results", "2", *words]).stdout
    games = CliRunner().invoke(app, ["results", "2", "--games", *words]).stdout
    assert len(re.findall(r"tic\\?_tac", several)) == 2 and len(re.findall(r"tic\\?_tac", alone)) == 1
    assert len(games.splitlines()) == {"csv": 5, "markdown": 7, "latex": 10}[form] and "moves" in games
    assert "┏" not in several + alone + games and "['" not in games


def test_an_unnamed_form_is_refused(tmp_path):
    shown = CliRunner().invoke(app, ["results", "--format", "word", "-d", str(tmp_path / "r.sqlite")])
    assert shown.exit_code == 2 and "it must be text, csv, markdown or latex, not word" in shown.output
