"""Pictures of notebooks beside the page's own, and reports, in a real browser."""

from __future__ import annotations

import re

import numpy as np
import pytest

import engram
from engram.pictures.board import Heat, board
from engram.pictures.bundle import bundle
from engram.pictures.chart import Chart, Series
from engram.pictures.markup import cards, notebook, table
from engram.pictures.report import pictures, section, write_report
from tests.web.test_play import serious

GAMES = [
    "connect_four", "go:9", "go:5", "othello:6", "hex:5", "breakthrough:5", "dots_and_boxes", "tic_tac_toe", "gomoku:9",
    "same_game", "backgammon", "2048",
]  # fmt: skip
STROKES = """(svg) => [...svg.querySelectorAll("*")].map((one) => [one.tagName,
  ...[...one.attributes].filter(({ name }) => name !== "class").map(({ name, value }) => `${name}=${value}`).sort(),
  `class=${(one.getAttribute("class") ?? "").trim().split(/\\s+/).join(" ")}`,
  one.children.length ? "" : one.textContent])"""


def strokes(drawn):
    """The elements of a picture, their numbers rounded alike."""

    def rounded(text):
        parts = "".join(letter if letter in "0123456789.-" else f" {letter} " for letter in text).split()
        return [round(float(part), 2) if part.strip("-.").replace(".", "").isdigit() else part for part in parts]

    return [[rounded(attribute) for attribute in element] for element in drawn]


@pytest.mark.parametrize("name", GAMES)
def test_a_board_without_a_script_is_the_page_s_own(browser, name):
    game = engram.game(name)
    state, actions = game.initial_state(), []
    for number in range(9):
        legal = game.legal_actions(state)
        if not legal or number > 5:
            break
        actions.append(legal[(7 * number + 3) % len(legal)])
        state = game.play(state, actions[-1])
    legal = game.legal_actions(state)
    heat = {action: Heat(strength=(1 + k) / len(legal), text=str(k)) for k, action in enumerate(legal)}
    scene, marks = game.scene.board(), game.scene.marks(state)
    counts = game.scene.counts and game.scene.counts(state)
    ours = board(scene, marks, label="ours", counts=counts, last=actions[-1], heat=heat)
    position = {"marks": marks, "counts": counts, "legal": [[action, str(action)] for action in legal], "to_play": 0}
    context = browser.new_context()
    page = context.new_page()
    page.set_content(f"<div>{ours}</div><engram-board></engram-board><script>{bundle('html', 'board')}</script>")
    page.evaluate(
        """([scene, position, last, heat]) => {
          const element = document.querySelector("engram-board");
          element.board = scene;
          element.show(position, { last });
          element.heat = new Map(heat);
        }""",
        [scene, position, actions[-1], [[action, vars(heat[action])] for action in heat]],
    )
    drawn, theirs = (strokes(page.locator(at).evaluate(STROKES)) for at in ("div > svg", "engram-board svg"))
    assert len(drawn) > 9
    assert drawn == theirs
    boxes = [page.locator(at).get_attribute("viewBox") for at in ("div > svg", "engram-board svg")]
    assert strokes([[boxes[0]]]) == strokes([[boxes[1]]])
    context.close()


@pytest.mark.parametrize(
    ("format", "numbers"),
    [
        ("percent", [0.47, 0.50, 0.53, 0.57, 0.61]),
        ("percent", [0.519, 0.521, 0.529]),
        ("signed", [0.001, 0.002, 0.003, 0.004]),
        ("number", [12345, 12350, 12360, 12380, 12399]),
        ("number", [0.00001, 0.00002, 0.00004]),
        ("number", [1e-10, 2e-10, 4e-10]),
        ("number", [12e6, 14e6, 16e6]),
        ("signed", [100, 100.5, 101.2]),
    ],
)
def test_marks_of_an_axis_have_the_digits_that_tell_them_apart(browser, tmp_path, format, numbers):
    chart = Chart("a chart", [Series("a", range(len(numbers)), numbers)], x="x", y="y", format=format, ticks=[0])
    write_report(tmp_path / "report.html", "a title", "a question", pictures([chart]))
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("""
      window.drawn = [];
      const fillText = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
        window.drawn.push(text);
        return fillText.call(this, text, ...more);
      };""")
    page.goto(f"file://{tmp_path / 'report.html'}")
    page.locator("engram-curve canvas").wait_for()
    texts = {text for text in page.evaluate("() => window.drawn") if re.search(r"[.,%+]", text)}
    marks = np.sort([float(re.sub(r"[,%+ ]", "", text)) for text in texts])
    steps = np.diff(marks)
    assert len(marks) >= 4 and steps == pytest.approx(steps[0], rel=1e-6, abs=0), texts
    context.close()


def until(page, holds):
    """Waits until a condition holds; the policy of a report lets the browser evaluate no text by itself."""
    for _ in range(600):
        if holds():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it never came to hold")


def test_a_legend_of_long_names_takes_nothing_from_the_curves_and_paper_is_light(browser, tmp_path):
    names = [f"uct(backup=softmax(knots=[{k}.12345, 1.23456, 2.34567, 3.45678, 1.98765]))" for k in range(4)]
    series = [Series(name, [1, 2, 3], [k, k + 1, k]) for k, name in enumerate(names)]
    dot = Chart("dot", [Series("a", [5], [3])], x="x", y="y")
    wide = table([f"column {k}" for k in range(16)], [["0.123 [0.100, 0.200]"] * 16])
    write_report(
        tmp_path / "report.html", "a title", "a question",
        section("Charts", pictures([Chart("long", series, x="x", y="y"), dot])),
        section("Figures", wide),
    )  # fmt: skip
    context = browser.new_context(color_scheme="dark", viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"file://{tmp_path / 'report.html'}")
    page.locator("engram-curve canvas").first.wait_for()

    def ends(at):
        box = page.locator(at).first.bounding_box()
        return box["y"], box["y"] + box["height"]

    until(page, lambda: ends(".u-legend")[1] <= ends("engram-curve")[1] + 1)
    top, bottom = ends("engram-curve .u-over")
    assert bottom - top > 80
    page.emulate_media(media="print", color_scheme="dark")
    scroll = page.locator(".report .scroll").last
    until(page, lambda: scroll.evaluate("(place) => place.scrollWidth <= place.clientWidth + 1"))
    paper = scroll.evaluate("(place) => getComputedStyle(place.closest('.panel')).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    pixels = """() => {
          const canvas = document.querySelectorAll("engram-curve canvas")[1];
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height), seen = [];
          for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 250) seen.push(data.slice(at, at + 3).join());
          return [...new Set(seen)];
        }"""
    # The single point, in the colour of the light.
    until(page, lambda: "31,107,102" in (colours := page.evaluate(pixels)) and "95,196,186" not in colours)
    context.close()


def test_the_rules_of_a_notebook_do_not_move_the_figures_of_a_card(browser):
    """Those of JupyterLab float the names of a list over its values."""
    rules = ".common dt { float: left; width: 20%; display: block; font-weight: 700 } .common dd { margin-left: 20% }"
    shown = notebook(cards([("", [("returns", "1,467"), ("weight", "99.3 %")])]))
    context = browser.new_context()
    page = context.new_page()
    page.set_content(f'<style>{rules}</style><div class="common">{shown}</div>')
    for row in page.locator("dl div").all():
        name, value = (row.locator(tag).bounding_box() for tag in ("dt", "dd"))
        assert name["x"] + name["width"] <= value["x"] and abs(name["y"] - value["y"]) < 2
    context.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with every kind of part."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    x = [1.0, 10.0, 100.0]
    game = engram.game("connect_four")
    parts = [
        Chart("Bars", [Series("one", x, [0.1, 0.2, 0.3], [0.0, 0.1, 0.2], [0.2, 0.3, 0.4], whiskers=True, points=True),
                       Series("other", x, [0.3, 0.2, 0.1])],
              x="simulations", y="error", log_x=True, ticks=x, format="percent", lines=[0.15]),
        Chart("Band", [Series("mean", x, [1.0, 5.0, 9.0], [0.5, 4.0, 8.0], [1.5, 6.0, 10.0])], x="u", y="weight",
              scale="log", format="number", note="a note"),
        Chart("Dots", [Series("τ", [0.0, 0.5, 1.0], [0.0, 1.0, 30.0], stairs=True)], x="u", y="τ", scale="asinh",
              dots=[(0.25, 2.0, 3), (0.75, 9.0, 6)], format="number"),
    ]  # fmt: skip
    boards = cards([(game.play_moves("4" * k).picture(), [("moves", k)]) for k in range(5)])
    cell = "uct(backup=softmax(knots=[2]))"
    wide = table([f"a long heading {k}" for k in range(9)], [[cell] * 9 for _ in range(3)])
    write_report(
        path, "A report <b>", "Does it fit?", section("Curves", pictures(parts)), section("Boards", boards),
        section("Table", wide), command="engram move " + "a-long-word" * 20, settings={"game": "hex"},
    )  # fmt: skip
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_a_report_opens_from_the_disk_and_all_can_read_it(browser, report, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    addresses, complaints = [], []
    page.on("request", lambda request: addresses.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: line.type in ("error", "warning") and complaints.append(line.text))
    page.goto(f"file://{report}")
    page.locator("engram-curve canvas").nth(2).wait_for()
    drawn = page.evaluate(
        """() => [...document.querySelectorAll("canvas")].map((one) => {
          const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height), colours = new Set();
          for (let k = 0; k < data.length; k += 4)
            if (data[k + 3] > 200) colours.add(`${data[k]},${data[k + 1]},${data[k + 2]}`);
          return [colours.size, one.getBoundingClientRect().right];
        })"""
    )
    assert len(drawn) == 3
    assert all(colours > 3 and right <= width for colours, right in drawn)
    names = [text.strip() for text in page.locator(".u-legend tr.u-series:visible").all_inner_texts()]
    assert names[-2:] == ["one", "other"]
    assert page.locator("h1").inner_text() == "A report <b>"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    back = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, back[4:-1].split(","))) < 200) is (scheme == "dark")
    assert addresses == [f"file://{report}"] and not complaints
    assert serious(page) == []
    context.close()


def test_colours_of_curves_follow_the_dark(browser, report):
    context = browser.new_context(color_scheme="light")
    page = context.new_page()
    page.goto(f"file://{report}")
    page.locator("engram-curve canvas").nth(2).wait_for()
    before = page.locator("canvas").first.evaluate("(one) => one.toDataURL()")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("(before) => document.querySelector('canvas').toDataURL() !== before", arg=before)
    context.close()
