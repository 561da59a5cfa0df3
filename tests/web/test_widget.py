"""The widget of notebooks: its front end in a real browser, over the model of a real search."""

import gc
import json
import threading
import time
import weakref

import numpy as np
import pytest

import engram
from engram.errors import IllegalAction, InvalidLimit, InvalidParameter, InvalidState, MissingPackage
from engram.games.record import NATURE
from engram.presets import puct
from tests.web.test_play import expect, serious

live = pytest.importorskip("engram.web.live", reason="the widget needs engram[notebook]")

NAMES = ("opened", "snapshot", "running", "search_text")
PAGE = """<!doctype html><html lang="en"><head><title>A notebook</title>
<meta name="viewport" content="width=device-width">
<style>button, table, p { color: lime; } body { background: BACK; color: INK; font: 14px serif }</style></head>
<body><main><h1>A notebook</h1><div id="one"></div><div id="two"></div></main></body></html>"""
MOUNT = """async ([esm, state]) => {
  const handlers = {};
  window.model = {
    get: (name) => state[name], on: (name, handler) => (handlers[name] ??= []).push(handler), off: () => {},
    send: (message) => window.order(message),
    take: (changed) => {
      Object.assign(state, changed);
      for (const name in changed) for (const handler of handlers[`change:${name}`] ?? []) handler();
    },
  };
  for (const id of ["one", "two"]) {  // each view evaluates the module again, as a notebook does
    const { default: widget } = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
    widget.render({ model: window.model, el: document.getElementById(id) });
  }
}"""


class Notebook:
    """A page with two views of a widget; what they order is carried out, and the model follows Python's."""

    def __init__(self, browser, widget, *, width=1000, dark=False):
        self.context = browser.new_context(viewport={"width": width, "height": 900})
        self.page, self.widget, self.complaints, self.asked = self.context.new_page(), widget, [], []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.expose_function("order", lambda message: widget._on_message(None, message, None))
        back, ink = ("#111", "#eee") if dark else ("#fff", "#222")
        self.page.set_content(PAGE.replace("BACK", back).replace("INK", ink))
        self.page.evaluate(MOUNT, [str(widget._esm), self.state()])
        self.one = self.page.locator("#one")

    def state(self):
        return json.loads(json.dumps({name: getattr(self.widget, name) for name in NAMES}))

    def follow(self):
        self.page.evaluate("(changed) => model.take(changed)", self.state())

    def close(self):
        self.context.close()
        assert not self.complaints
        assert all(url.startswith("blob:") for url in self.asked), self.asked


@pytest.fixture
def mount(browser):
    opened = []

    def mount(widget, **options):
        opened.append(Notebook(browser, widget, **options))
        return opened[-1]

    yield mount
    for notebook in opened:
        notebook.close()


def test_an_analysis_streams_and_stops(mount):
    widget = engram.widget(engram.Search("connect_four", "memory_uct"), limit=engram.Limit(seconds=600))
    notebook = mount(widget)
    view = notebook.one
    view.get_by_role("button", name="Analyse").click()
    texts = set()
    while len(texts) < 3:  # three different snapshots of one search
        notebook.follow()
        text = view.locator(".progress").inner_text()
        assert "search failed" not in text
        texts |= {text} if "thinking" in text else set()
    expect(view.locator("engram-board .heat")).not_to_have_count(0)
    expect(view.get_by_role("columnheader", name="Memory")).to_be_visible()
    view.get_by_role("button", name="Stop").click()
    assert widget.wait(60) is not None and not widget.running
    notebook.follow()
    expect(view.locator(".progress")).to_contain_text("stopped")
    visits = [move.visits for move in widget.result.moves]
    assert sum(visits) + 1 == widget.result.simulations  # the first one values the root
    shares = view.locator("engram-moves .share").all_inner_texts()
    assert shares[0].startswith(str(round(100 * visits[0] / sum(visits)))[:1])
    view.locator("engram-moves tbody tr").first.hover()
    expect(view.locator("engram-board .ghost")).not_to_have_count(0)
    notebook.page.mouse.move(0, 0)
    for heat in ("Value", "Memory", "Nothing"):
        view.get_by_label("Show").select_option(label=heat)
        expect(view.locator("engram-board .heat")).to_have_count(0 if heat == "Nothing" else 7)


def test_moves_are_played_on_the_board_and_taken_back(mount):
    notebook = mount(engram.widget(engram.Search("connect_four")))
    notebook.one.get_by_role("button", name="Column 4").click()
    notebook.follow()
    expect(notebook.one.locator(".turn")).to_have_text("Yellow to move")
    expect(notebook.page.locator("#two .piece")).to_have_count(1)
    notebook.page.locator("#two").get_by_role("button", name="Take back").click()
    notebook.follow()
    expect(notebook.one.locator(".piece")).to_have_count(0)
    expect(notebook.one.get_by_role("button", name="Take back")).to_be_disabled()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1000])
def test_it_fits_its_place_follows_the_theme_and_all_can_use_it(mount, width, dark):
    widget = engram.widget(engram.Search("go:9"), limit=engram.Limit(simulations=400))
    widget.analyse()
    assert widget.wait(120) is not None
    notebook = mount(widget, width=width, dark=dark)
    expect(notebook.one.locator(".others button")).to_have_text(["pass"])
    colour = notebook.page.evaluate(
        "getComputedStyle(document.querySelector('#one > div').shadowRoot.querySelector('.turn')).color"
    )
    assert (sum(map(int, colour[4:-1].split(","))) > 380) is dark  # neither lime nor the other theme's
    assert notebook.page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious(notebook.page) == []


def test_a_game_without_a_picture_and_orders_that_are_wrong(mount):
    widget = engram.widget(engram.Search("p_game:branching=2,depth=4"))
    notebook = mount(widget)
    expect(notebook.one.locator("pre")).to_contain_text("move 0 of 4")
    notebook.one.locator(".others button").first.click()
    notebook.follow()
    expect(notebook.one.locator("pre")).to_contain_text("move 1 of 4")
    before = widget.opened
    for message in ({"do": "play", "action": 99}, {"do": "play"}, {"do": "close"}, {"do": "_go"}, "analyse", None):
        widget._on_message(None, message, None)
    assert widget.opened == before
    notebook.follow()
    expect(notebook.one.locator(".progress")).not_to_be_empty()


def test_from_python_it_refuses_in_a_sentence():
    game = engram.game("tic_tac_toe")
    widget = engram.widget(engram.Search(game), game.play_moves("a1 a2 b1 b2"), limit=engram.Limit(simulations=50))
    assert widget.result is None
    with pytest.raises(IllegalAction, match="a1 is not legal"):
        widget.play("a1")
    widget.analyse()
    assert widget.wait(60).name == "c1"
    widget.play("c1")
    with pytest.raises(InvalidState, match="the game is over"):
        widget.analyse()
    assert widget.opened["position"]["outcome"] == 1.0 and widget.snapshot is None


def test_what_no_widget_shows_is_refused():
    with pytest.raises(InvalidParameter, match="a widget shows a Search, not 'x'"):
        engram.widget("x")
    with pytest.raises(InvalidLimit, match="a widget takes a Limit"):
        engram.widget(engram.Search("tic_tac_toe"), limit=5)


def test_without_anywidget_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "engram.web.live", None)
    with pytest.raises(MissingPackage, match=r"pip install 'engram\[notebook\]'"):
        engram.widget(engram.Search("tic_tac_toe"))


def test_a_second_analysis_of_a_search_ends_the_first():
    search = engram.Search("go:9")
    first, second = (engram.widget(search, limit=engram.Limit(seconds=600)) for _ in range(2))
    first.analyse()
    time.sleep(0.3)
    second.analyse()
    assert not first.running and second.running
    end = time.monotonic() + 120
    while second.snapshot is None:  # it comes during the run
        assert time.monotonic() < end
        time.sleep(0.01)
    with pytest.raises(InvalidState, match="this search is under way"):
        search.run(search.game.initial_state(), engram.Limit(simulations=10))
    second.stop()
    assert second.result.stopped == "interrupted"


def test_a_search_that_does_not_stop_shows_nothing_of_the_position_before(monkeypatch):
    """Such as one that compiles."""
    entered, released = threading.Event(), threading.Event()

    class Slow:
        def evaluate(self, states):
            entered.set()
            assert released.wait(60)
            return engram.Evaluation(np.zeros(len(states)), np.ones((len(states), 9)))

    monkeypatch.setattr(live, "ENDS_S", 0.05)
    widget = engram.widget(engram.Search("tic_tac_toe", puct(evaluator=Slow())), limit=engram.Limit(simulations=50))
    widget.analyse()
    assert entered.wait(60)
    before = widget._session
    widget.play("b2")
    assert not widget.running and widget.opened["moves"] == ["b2"]
    released.set()
    assert before.wait(60) and before.result is not None
    assert widget.snapshot is None and widget.result is None
    widget.analyse()
    assert widget.wait(60) is not None and widget.snapshot["player"] == 1


def test_a_search_that_nobody_holds_is_freed_after_its_analysis():
    widget = engram.widget(engram.Search("tic_tac_toe"), limit=engram.Limit(simulations=50))
    widget.analyse()
    assert widget.wait(60) is not None
    tree = weakref.ref(widget.search.tree)
    widget._session._thread.join()
    widget.close()
    del widget
    gc.collect()
    assert tree() is None


@pytest.mark.parametrize("game", ["2048", "pig:goal=10"])
def test_nature_moves_by_itself(game):
    widget = engram.widget(engram.Search(game, "uct"), limit=engram.Limit(simulations=20))
    rules = widget.search.game
    lengths = []
    for _ in range(3):
        assert rules.to_play(widget.state) != NATURE
        lengths.append(len(widget.opened["actions"]))
        widget.play(rules.action_name(rules.legal_actions(widget.state)[-1], widget.state))
        if rules.is_over(widget.state):
            break
    while lengths:
        widget.back()
        length = lengths.pop()
        assert len(widget.opened["actions"]) == length
    before = widget.opened["actions"]
    widget.back()  # only nature has moved
    assert widget.opened["actions"] == before
    widget._on_message(None, {"do": "play", "action": float("inf")}, None)
    assert widget.snapshot["stopped"] == "failed"


@pytest.mark.parametrize("name", ["connect_four", "examples/nim.py:nim", "openspiel:hex(board_size=4)"])
def test_a_viewer_without_widgets_shows_the_position(name):
    if name.startswith("openspiel"):
        pytest.importorskip("pyspiel")
    game = engram.game(name)
    widget = engram.widget(engram.Search(game, "uct"))
    data = widget._repr_mimebundle_()
    html = (data[0] if isinstance(data, tuple) else data)["text/html"]
    assert "<svg" in html or "<pre" in html
