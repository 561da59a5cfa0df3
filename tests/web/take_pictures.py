"""Takes the pictures of docs/serve.md: `python -m tests.web.take_pictures`, with chromium and playwright."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from tests.web.browser import ARGUMENTS, CHROMIUM, PATIENCE_MS, Served, Visit

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


PICTURES = [
    ("serve_play", "go:9", "D4,F6,C6,F4", play, "light", 1040, 760),
    ("serve_tree", "connect_four", "4,4,3", tree, "dark", 1280, 760),
    ("serve_phone", "othello", "c4", play, "light", 375, 760),
]


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
                prepare(visit)
                visit.page.evaluate("() => scrollTo(0, 0)")
                visit.page.screenshot(path=FOLDER / f"{name}.png")
                visit.close()
                print(name, (FOLDER / f"{name}.png").stat().st_size)
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
