"""The review of a game on the page: the moves that cost most, its marks after a reload, and its stop half-way."""

import re

import pytest

from tests.web.test_play import new_game, serious

expect = pytest.importorskip("playwright.sync_api").expect
MARKED = [re.compile(r"^a1\??$"), "a2??", "c2??", "b1??"]  # the loss of the first move is noise of its two searches


def test_a_review_marks_the_moves_that_cost_most(visit, served):
    # Each of the three moves after the first turns a draw into a loss, or a win into a draw.
    page = visit(f"{served.address}&game=tic_tac_toe&moves=a1,a2,c2,b1").page
    page.get_by_label("Simulations of each position").select_option("12,000")
    page.get_by_role("button", name="Review the game").click()
    table = page.get_by_role("region", name="The moves that cost most")
    expect(page.get_by_role("button", name="Review the game")).to_be_enabled()
    expect(page.locator(".history button.main")).to_have_text(MARKED)
    assert {"2. a2??", "3. c2??", "4. b1??"} <= set(table.locator("tbody th button").all_inner_texts())
    expect(page.locator(".review .summary p")).to_have_text(
        [re.compile("^Black: 2 moves"), re.compile("^White: 2 moves")]
    )
    assert serious(page) == []
    table.get_by_role("button", name="3. c2??").click()
    expect(page.locator(".turn")).to_have_text("Black to move")
    expect(page.locator(".history .present")).to_have_text("a2??")
    expect(page.locator(".analysis .progress")).to_contain_text("12,000 simulations")  # the search of the review
    better = table.locator("tr", has_text="3. c2??").locator("td").nth(1)
    expect(better).to_have_text(re.compile("^(b1|c1|b2)$"))  # the moves that win
    page.reload()
    expect(page.locator(".history button.main")).to_have_text(MARKED)
    new_game(page, "tic_tac_toe")
    expect(page.locator(".review .summary p")).to_have_count(0)
    expect(page.get_by_role("button", name="Review the game")).to_be_disabled()
    page.get_by_role("button", name="Undo").click()
    expect(table).to_be_visible()


def test_the_end_of_a_game_has_its_outcome(visit, served):
    page = visit(f"{served.address}&game=tic_tac_toe&moves=a1,b1,a2,b2,a3").page
    page.get_by_role("button", name="Review the game").click()
    rows = page.get_by_role("region", name="The moves that cost most").locator("tbody tr")
    expect(rows.filter(has_text="4. b2").locator("td.number").nth(1)).to_have_text(re.compile(r"^(0|[0-9.]+) %$"))
    expect(page.locator(".history button.main").last).to_have_text("a3")
    expect(page.locator(".turn")).to_have_text("Black wins")


def test_a_review_goes_on_while_the_person_looks_back_and_ends_when_asked(visit, served):
    page = visit(
        f"{served.address}&game=go:19&moves={','.join(f'{column}{row}' for row in (4, 10, 16) for column in 'DKQ')}"
    ).page
    page.get_by_label("Search", exact=True).fill("uct(rollout=heavy)")
    page.get_by_label("Simulations of each position").select_option("12,000")
    page.get_by_role("button", name="Review the game").click()
    progress = page.locator(".review .progress")
    expect(progress).to_have_text("1 of 10 positions")
    page.get_by_role("button", name="One move back").click()
    expect(page.locator(".history .present")).to_have_text("K16")
    expect(progress).to_have_text("3 of 10 positions")
    page.get_by_role("button", name="Stop the review").click()
    expect(progress).to_have_text("")
    expect(page.locator(".review .summary p")).to_have_count(2)  # of the two moves that it has reached
    expect(page.get_by_role("button", name="Review the game")).to_be_enabled()


def test_games_with_dice_have_no_review(visit, served):
    page = visit(f"{served.address}&game=backgammon").page
    expect(page.locator(".history button.main")).to_have_count(1)
    expect(page.locator(".review")).to_be_hidden()
