"""The view of matches in a real browser: started, watched, stopped, continued, and stepped through."""

import re

import pytest

import engram
from tests.web.browser import Served
from tests.web.test_play import expect, serious


@pytest.fixture(scope="module")
def results(tmp_path_factory, browser):
    folder = tmp_path_factory.mktemp("results")
    options = {"workers": 1, "simulations": 20, "database": str(folder / "engram.sqlite")}
    engram.match("tic_tac_toe", "uct", "random", games=20, sprt="elo0=0,elo1=200", **options)
    engram.match("tic_tac_toe", "uct", "rave", games=20, **options)
    server = Served(folder, "-g", "tic_tac_toe")
    yield server
    server.close()


def test_a_match_is_shown_and_its_games_stepped_through(visit, results):
    page = visit(results.address).page
    page.get_by_role("button", name="Matches").click()
    page.get_by_role("button", name="Show match 1").click()
    expect(page.locator("#one-title")).to_have_text("Match 1: uct against random")
    expect(page.locator(".elo canvas")).to_be_visible()
    expect(page.locator(".llr canvas")).to_be_visible()
    page.get_by_role("button", name="Show game 0").click()
    turn = page.locator(".viewer .turn")
    expect(turn).to_contain_text("moves first")
    page.get_by_role("button", name="To the start").last.click()
    expect(turn).to_contain_text("After 0 of")
    page.get_by_role("button", name="One move on").last.click()
    expect(page.locator(".viewer .piece")).to_have_count(1)
    expect(page.get_by_label("Ratings", exact=True).locator("tbody tr")).to_have_count(3)
    assert serious(page) == []
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    page.get_by_role("button", name="Take to Play").click()
    expect(page.locator(".history button.main")).to_have_count(1)


def test_a_match_survives_its_page_and_goes_on_after_a_stop(visit, results):
    page = visit(results.address).page

    def games():
        return int(page.locator(".all tbody tr").first.locator("td").nth(2).inner_text().split()[0].replace(",", ""))

    page.get_by_role("button", name="Matches").click()
    expect(page.locator(".all tbody tr")).to_have_count(2)
    page.get_by_text("Start a match").click()
    for label, value in (("Games, an", "20000"), ("Simulations a move", "30"), ("Player B", "random")):
        page.get_by_label(re.compile(f"^{label}")).fill(value)
    start = page.get_by_role("button", name="Start the match")
    start.click()
    expect(page.locator(".all tbody tr")).to_have_count(3)
    page.close()
    page = visit(results.address).page
    page.get_by_role("button", name="Matches").click()
    expect(page.locator(".run b").first).to_have_text("playing")
    seen = page.locator(".all tbody tr").first.locator("td").nth(2)
    before = seen.inner_text()
    expect(seen).not_to_have_text(before)  # new games show by themselves
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".run b").first).to_have_text("ended")
    stopped = games()
    page.get_by_text("Start a match").click()
    for label, value in (("Games, an", "20000"), ("Simulations a move", "30"), ("Player B", "random")):
        page.get_by_label(re.compile(f"^{label}")).fill(value)
    page.get_by_role("button", name="Start the match").click()
    expect(page.locator(".run b").first).to_have_text("playing")
    expect(seen).not_to_have_text(re.compile(f"^{stopped:,}of"))
    expect(page.locator(".all tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".run b").first).to_have_text("ended")
    assert games() > stopped
