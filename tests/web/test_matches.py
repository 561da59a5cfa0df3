"""The view of matches in a real browser: started, watched, stopped, continued, and stepped through."""

import json
import re
import sqlite3
from contextlib import closing
from functools import partial

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
    expect(page.locator("#match-title")).to_have_text("Match 1: uct against random")
    expect(page.locator(".elo canvas")).to_be_visible()
    expect(page.locator(".llr canvas")).to_be_visible()
    page.get_by_role("button", name="Show game 0").click()
    turn = page.locator(".viewer .turn")
    expect(turn).to_contain_text("moves first")
    page.get_by_role("button", name="To the start").last.click()
    expect(turn).to_contain_text("After 0 of")
    page.get_by_role("button", name="One move on").last.click()
    expect(page.locator(".viewer .piece")).to_have_count(1)
    expect(page.get_by_label(re.compile("^Ratings, tic_tac_toe")).locator("tbody tr")).to_have_count(3)
    assert serious(page) == []
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    moves = int(re.search(r"of (\d+) moves", turn.inner_text())[1])
    page.get_by_role("button", name="Take to Play").click()
    expect(page.locator(".history button.main")).to_have_count(moves)
    expect(page.locator(".history button.main").first).to_have_attribute("aria-current", "step")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_focused()


def test_a_match_of_one_player_shows_its_means(visit, tmp_path, browser):
    database = tmp_path / "alone.sqlite"
    options = {"games": 20, "simulations": 50, "workers": 1, "database": database}
    assert engram.match("pig", "uct", "uct(exploration=0.5)", **options).means is None
    result = engram.match("same_game:rows=6,columns=6,colours=3,seed=1", "uct", "random", **options)
    server = Served(tmp_path, "-d", str(database))
    try:
        page = visit(server.address).page
        page.get_by_role("button", name="Matches").click()
        row = page.get_by_role("row").filter(has_text="same_game")
        expect(row).to_contain_text(f"against {result.means.b:g}")
        expect(row).to_contain_text(f"{result.means.difference:+.0f} [")
        row.get_by_role("button").click()
        expect(page.locator(".verdict")).to_contain_text(f"more in {result.wins // 2} pairs")
        expect(page.locator(".strength")).to_be_hidden()
        page.get_by_role("row").filter(has_text="pig").get_by_role("button").click()
        expect(page.locator(".strength")).to_be_visible()
        page.context.close()
    finally:
        server.close()


def test_texts_of_a_database_are_no_html(visit, tmp_path, browser):
    """One that somebody sends may say anything in names of players."""
    database = tmp_path / "engram.sqlite"
    engram.match("tic_tac_toe", "uct", "random", games=4, workers=1, simulations=20, database=str(database))
    with closing(sqlite3.connect(database)) as connection:
        (plain,) = connection.execute("SELECT configuration FROM match").fetchone()
        evil = plain.replace('"random"', json.dumps("<img src=x onerror=alert(1)>"))
        assert evil != plain
        connection.execute("UPDATE match SET configuration = ?", [evil])
        connection.execute("UPDATE game SET reason = '<img src=x>'")
        connection.commit()
    server = Served(tmp_path, "-g", "tic_tac_toe")
    try:
        page = visit(server.address).page
        page.get_by_role("button", name="Matches").click()
        expect(page.locator(".all tbody")).to_contain_text("<img src=x onerror=alert(1)>")
        page.get_by_role("button", name="Show match 1").click()
        expect(page.locator(".games tbody")).to_contain_text("<img src=x>")
        expect(page.locator("#match-title")).to_contain_text("<img")
        assert page.locator("main img").count() == 0
        page.close()
    finally:
        server.close()


def test_a_match_survives_its_page_and_goes_on_after_a_stop(visit, results):
    page = visit(results.address).page

    def games():
        return int(page.locator(".all tbody tr").first.locator("td").nth(1).inner_text().split()[0].replace(",", ""))

    def start():
        page.get_by_text("Start a match").click()
        for label, value in (("Games, an", "200000"), ("Simulations a move", "30"), ("Player B", "random")):
            page.get_by_label(re.compile(f"^{label}")).fill(value)
        page.get_by_role("button", name="Start the match").click()

    page.get_by_role("button", name="Matches").click()
    expect(page.locator(".all tbody tr")).to_have_count(2)
    start()
    expect(page.locator(".all tbody tr")).to_have_count(3)
    page.close()
    page = visit(results.address).page
    page.get_by_role("button", name="Matches").click()
    expect(page.locator(".run b").first).to_have_text("playing")
    cell = page.locator(".all tbody tr").first.locator("td").nth(1)
    before = cell.text_content()
    expect(cell).not_to_have_text(before)  # new games show by themselves
    page.locator(".all tbody tr").first.get_by_role("button").click()
    expect(page.locator(".games tbody tr")).to_have_count(40)
    page.get_by_role("button", name="More games").dblclick()
    expect(page.locator(".games tbody tr")).to_have_count(120)
    assert page.locator(".games tbody button").all_inner_texts() == [str(number) for number in range(120)]
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".run b").first).to_have_text("stopped")
    stopped = games()
    start()
    expect(page.locator(".run b").first).to_have_text("playing")
    expect(cell).not_to_have_text(re.compile(f"^{stopped:,}of"))
    expect(page.locator(".all tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Stop").hover()
    page.mouse.down()
    before = cell.text_content()
    expect(cell).not_to_have_text(before)  # the page is drawn anew while the button is held
    page.mouse.up()
    expect(page.locator(".run b").first).to_have_text("stopped")
    assert games() > stopped


def test_a_study_shows_what_it_has_learned(visit, tmp_path_factory, browser):
    pytest.importorskip("botorch")
    from engram.tuning.objective import MatchObjective
    from engram.tuning.space import space
    from engram.tuning.study import Study

    folder = tmp_path_factory.mktemp("study")
    objective = MatchObjective(
        game="tic_tac_toe", against="random",
        space=space("uct(backup=softmax)", tune=["exploration=0.1:2", "decision=robust|max"], knots=2),
        simulations=10, seconds=None, opening_moves=None, resign=None, seed=1, database=str(folder / "engram.sqlite"),
    )  # fmt: skip
    Study(objective, max_games=46, confirm_games=6, trial_games=20).search()
    play = partial(engram.match, "tic_tac_toe", "random", "uct", simulations=10, workers=1, database=objective.database)
    play(games=2)
    served = Served(folder, "-g", "tic_tac_toe")
    try:
        page = visit(served.address).page
        page.get_by_role("button", name="Matches").click()
        panel = page.get_by_label(re.compile("^Tuning"))
        expect(panel.locator("h2")).to_have_text(
            "Tuning uct in tic_tac_toe against random: backup.knots[0], backup.knots[1], exploration, decision"
        )
        expect(panel.get_by_role("table").first).to_contain_text(re.compile("robust|max"))
        panel.get_by_role("button", name="Show what was learned").hover()
        page.mouse.down()
        for games in (22, 24):  # the figures would be drawn anew; no trial has so many
            play(games=games)
            expect(page.get_by_text(f"of {games}", exact=True)).to_have_count(1)
        page.mouse.up()
        expect(panel.get_by_role("heading", name="Learned function of softmax")).to_be_visible(timeout=120_000)
        expect(panel.get_by_role("img", name="Score along exploration")).to_be_visible()
        words = panel.get_by_role("table").filter(has_text="decision, the rest as recommended")
        expect(words).to_contain_text("robust")
        expect(words).to_contain_text("max")
        expect(panel.locator(".learned canvas").first).to_be_visible()
        expect(panel.get_by_role("button", name="Learn from all trials again")).to_be_enabled()
        assert serious(page) == []
        page.set_viewport_size({"width": 375, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
        page.close()  # before its server, which it asks every few seconds
    finally:
        served.close()
