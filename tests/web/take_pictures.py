"""Takes the pictures of docs/serve.md and docs/notebooks.md: `python -m tests.web.take_pictures`.

It needs chromium, playwright and anywidget.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

import engram
from engram.arena.truth.backup_truth import truth
from engram.cli import truth_views
from tests.web.browser import ARGUMENTS, CHROMIUM, PATIENCE_MS, Served, Visit
from tests.web.test_widget import Notebook

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def play(visit):
    page = visit.page
    page.get_by_label("Search", exact=True).fill("uct")
    page.get_by_role("button", name="Analyse").click()
    expect(page.locator("engram-board .heat-text").first).to_be_visible()
    page.wait_for_timeout(4000)  # a picture of some thousand simulations says more
    page.get_by_role("button", name="Stop").click()


def tree(visit):
    page = visit.page
    page.get_by_role("button", name="Tree").click()
    page.get_by_role("button", name="Grow a tree").click()
    expect(page.locator(".runner .progress")).to_contain_text("done")
    expect(page.locator("#tree-node")).to_contain_text("wide enough")
    page.locator(".icicle").click(position={"x": 60, "y": 95})
    expect(page.locator("#node-title")).to_contain_text("After")


def review(visit):
    page = visit.page
    page.get_by_role("button", name="Review the game").click()
    page.get_by_role("region", name="The moves that cost most").get_by_role("button").first.wait_for()
    expect(page.get_by_role("button", name="Review the game")).to_be_enabled()
    page.mouse.move(0, 0)
    return page.locator(".panel", has=page.locator(".review"))


PICTURES = [
    ("serve_play", "go:9", "D4,F6,C6,F4", play, "light", 1040, 760),
    ("serve_review", "connect_four", "4,4,4,4,3,2,1,5,5,5,6,7,2", review, "light", 1280, 900),
    ("serve_tree", "connect_four", "4,4,3", tree, "dark", 1280, 760),
    ("serve_phone", "othello", "c4", play, "light", 375, 760),
]


CELLS = """<!doctype html><html lang="en"><title>A notebook</title><style>
body { font: 14px/1.5 system-ui; margin: 16px; color: #222 }
.in { background: #f5f5f5; border: 1px solid #ddd; padding: 8px 12px; margin-bottom: 10px; white-space: pre;
  font: 13px/1.4 ui-monospace, monospace }
.out { margin: 0 0 18px 12px }</style><main>"""


def notebook(browser):
    """A result and a tree, as cells show them."""
    search = engram.Search("connect_four", "memory_uct")
    state = search.game.play_moves("4 4 3")
    result = search.run(state, engram.Limit(simulations=3000), seed=0)
    cells = [("search.run(state, engram.Limit(simulations=3000), seed=0)", result), ("search", search)]
    shown = "".join(
        f'<div class="in">{code}</div><div class="out">{thing._repr_html_()}</div>' for code, thing in cells
    )
    page = browser.new_page(viewport={"width": 940, "height": 760})
    page.set_content(CELLS + shown)
    page.screenshot(path=FOLDER / "notebook.png", full_page=True)


def widget(browser):
    """The widget after a search."""
    live = engram.widget(engram.Search("go:9", "rave"), limit=engram.Limit(simulations=5000))
    live.analyse()
    live.wait()
    shown = Notebook(browser, live, width=960)
    shown.page.wait_for_timeout(300)  # the board finds its size
    shown.one.screenshot(path=FOLDER / "widget.png")
    shown.close()


def report(browser):
    """A small report of `engram truth`."""
    rows = truth("connect_four", ["uct", "uct(backup=softmax(knots=[2]))"], [50, 100, 200, 400], positions=200)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "truth.html")
        command = "engram truth -r 'average,softmax(knots=[2])' -n 50,100,200,400 --positions 200 -o out"
        truth_views.write(truth_views.RULES, "connect_four", rows, file, command=command)
        page = browser.new_page(viewport={"width": 1180, "height": 780}, color_scheme="dark")
        page.goto(f"file://{file}")
        page.locator("engram-curve canvas").nth(2).wait_for()
        page.wait_for_timeout(300)  # the legends find their size
        page.screenshot(path=FOLDER / "report.png")


def main():
    expect.set_options(timeout=PATIENCE_MS)
    FOLDER.mkdir(exist_ok=True)
    server = Served(Path(tempfile.mkdtemp()))
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
            for name, game, moves, prepare, scheme, width, height in PICTURES:
                address = f"{server.address}&game={game}&moves={moves}"
                visit = Visit(browser, address, width=width, height=height, scheme=scheme)
                part = prepare(visit) or visit.page
                visit.page.evaluate("() => scrollTo(0, 0)")
                part.screenshot(path=FOLDER / f"{name}.png")
                visit.close()
                print(name, (FOLDER / f"{name}.png").stat().st_size)
            for take in (notebook, widget, report):
                take(browser)
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
