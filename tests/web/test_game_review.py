"""The review of a game on the page: the moves that cost most, its marks after a reload, and its stop half-way."""

import re
import time

import pytest

from tests.web.test_play import new_game, serious

expect = pytest.importorskip("playwright.sync_api").expect
MARKED = [re.compile(r"^a1\??$"), "a2??", "c2??", "b1??"]  # the loss of the first move is noise of its two searches


def kept_nodes(page):
    """The nodes of the game as the page keeps them."""
    return page.evaluate("JSON.parse(Object.values(sessionStorage).find((text) => text.includes('nodes'))).nodes")


def test_a_review_marks_the_moves_that_cost_most(visit, served):
    # Each of the three moves after the first turns a draw into a loss, or a win into a draw.
    page = visit(f"{served.address}&game=tic_tac_toe&moves=a1,a2,c2,b1").page
    page.get_by_label("Simulations of each position").select_option("12,000")
    page.get_by_role("button", name="Review the game").click()
    table = page.get_by_role("region", name="The moves that cost most")
    expect(page.get_by_role("button", name="Review the game")).to_be_enabled()
    expect(page.locator(".history button.main")).to_have_text(MARKED)
    assert {"1 … a2??", "2. c2??", "2 … b1??"} <= set(table.locator("tbody th button").all_inner_texts())
    expect(page.locator(".review .sentences p")).to_have_text(
        [re.compile("^Black: 2 moves"), re.compile("^White: 2 moves")]
    )
    assert serious(page) == []
    table.get_by_role("button", name="2. c2??").click()
    expect(page.locator(".turn")).to_have_text("Black to move")
    expect(page.locator(".history .present")).to_have_text("a2??")
    expect(page.locator(".analysis .progress")).to_contain_text("12,000 simulations")  # the search of the review
    better = table.locator("tr", has_text="2. c2??").locator("td").nth(1)
    expect(better).to_have_text(re.compile("^(b1|c1|b2)$"))  # the moves that win
    page.reload()
    expect(page.locator(".history button.main")).to_have_text(MARKED)
    new_game(page, "tic_tac_toe")
    expect(page.locator(".review .sentences p")).to_have_count(0)
    expect(page.get_by_role("button", name="Review the game")).to_be_disabled()
    page.get_by_role("button", name="Undo").click()
    expect(table).to_be_visible()


def test_the_end_of_a_game_has_its_outcome(visit, served):
    page = visit(f"{served.address}&game=tic_tac_toe&moves=a1,b1,a2,b2,a3").page
    page.get_by_role("button", name="Review the game").click()
    expect(page.get_by_role("button", name="Stop the review")).to_have_count(0)
    expect(page.locator(".history button.main").last).to_have_text("a3")
    expect(page.locator(".turn")).to_have_text("Black wins")
    nodes = kept_nodes(page)
    assert nodes[-1]["review"].get("name") is None and nodes[-1]["review"]["value"] == nodes[-1]["value"] == 1
    assert all(node["review"]["name"] for node in nodes[:-1])


def test_the_end_of_a_file_of_go_is_searched_because_dead_stones_stand_on_the_board(visit, served):
    page = visit(f"{served.address}&game=go:5").page
    # Black owns the board but for one dead stone in the corner of White's last try; both pass.
    moves = "B[cc]W[aa]B[bb]W[cb]B[dc]W[db]B[eb]W[bc]B[ab]W[ba]B[ca]W[da]B[bd]W[cd]B[ac]W[]B[]"
    sgf = f"(;GM[1]SZ[5]KM[0.5];{moves.replace(']', '];')[:-1]})"
    page.get_by_label("Open SGF").set_input_files(
        {"name": "dead.sgf", "mimeType": "text/plain", "buffer": sgf.encode()}
    )
    expect(page.locator(".history button.main")).to_have_count(17)
    expect(page.locator(".turn")).to_contain_text("wins")
    page.get_by_role("button", name="Review the game").click()
    expect(page.get_by_role("button", name="Stop the review")).to_have_count(0)
    end = kept_nodes(page)[-1]["review"]
    assert end["name"] != "" and -1.0 < end["value"] < 1.0  # of a search, not the count of the board
    page.reload()
    expect(page.locator(".turn")).to_contain_text("wins")
    expect(page.locator("engram-moves tbody tr")).to_have_count(0)


def test_the_file_of_a_reviewed_game_has_its_marks_and_its_better_moves(visit, served):
    page = visit(f"{served.address}&game=go:5,komi=0.5&moves=C3,C2,pass,D3,pass").page  # Black gives its lead away
    page.get_by_role("button", name="Review the game").click()
    expect(page.get_by_role("button", name="Review the game")).to_be_enabled()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save SGF").click()
    text = saved.value.path().read_text()
    marks = [mark.inner_text().count("?") for mark in page.locator(".history button.main").all()]
    assert text.count("BM[") == sum(mark > 0 for mark in marks) > 0
    assert re.search(r"C\[Reviewed by uct, 2,000 simulations\.\s+Black: 3 moves, ", text)
    assert len(re.findall(r"(Black|White)'s chance\s+to\s+win", text)) == 5
    assert len(re.findall(r"was\s+better", text)) == text.count("BM[") and "(;B[" in text


def test_all_marks_are_by_one_search_and_a_longer_analysis_stays(visit, served):
    page = visit(f"{served.address}&game=connect_four&moves=4,4,4,4,3,2,1,5", strict=False).page
    progress, caption = page.locator(".analysis .progress"), page.locator(".review caption")
    page.get_by_role("button", name="Analyse").click()
    expect(progress).to_contain_text(re.compile(r"\d,\d\d\d simulations"))
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(progress).to_contain_text("stopped")
    analysis = progress.inner_text()
    search = page.get_by_label("Search", exact=True)
    for text in ("uct", "rave"):
        search.fill(text)
        search.press("Enter")
        page.get_by_label("Simulations of each position").select_option("300")
        page.get_by_role("button", name="Review the game").click()
        expect(caption).to_contain_text(f"({text}, 300 simulations)")
        expect(page.get_by_role("button", name="Review the game")).to_be_enabled()
    expect(progress).to_have_text(analysis)
    search.fill("nonsense")
    page.get_by_role("button", name="Analyse").click()
    expect(page.locator("#news")).to_contain_text("nonsense")
    page.get_by_label("Show on the board").select_option(label="Value")
    expect(progress).to_have_text(analysis)  # what was refused takes nothing away


def test_a_review_goes_on_while_the_person_looks_back_and_ends_when_asked(visit, served):
    moves = ",".join(f"{column}{row}" for row in (2, 5, 8) for column in "BEH")
    page = visit(f"{served.address}&game=go:9&moves={moves}", strict=False).page
    waiting = []

    def hold(route):  # the searches begin one at a time, when this test lets them
        waiting.append(route)

    page.route("**/api/searches", hold)
    page.get_by_label("Simulations of each position").select_option("300")
    page.get_by_role("button", name="Review the game").click()
    progress = page.locator(".review .progress")
    for done in range(6):
        expect(progress).to_have_text(f"{done} of 10 positions")
        if done == 2:
            page.get_by_role("button", name="One move back").click()
            expect(page.locator(".history .present")).to_have_text("E8")
        with page.expect_response("**/api/searches"):
            end = time.monotonic() + 120
            while not waiting and time.monotonic() < end:
                page.wait_for_timeout(10)
            waiting.pop().continue_()
    expect(progress).to_have_text("6 of 10 positions")
    page.get_by_role("button", name="Stop the review").click()
    expect(progress).to_have_text("")
    expect(page.locator(".review .sentences p")).to_have_count(2)  # of the moves that it has reached
    assert sum("review" in node for node in kept_nodes(page)) == 6
    page.unroute_all(behavior="ignoreErrors")
    page.get_by_label("Search", exact=True).fill("nonsense")
    page.get_by_role("button", name="Review the game").click()
    expect(page.locator("#news")).to_contain_text("nonsense")
    expect(page.locator(".review .sentences p")).to_have_count(2)  # a refused review replaces nothing


def test_games_with_dice_have_no_review(visit, served):
    page = visit(f"{served.address}&game=backgammon").page
    expect(page.locator(".history button.main")).to_have_count(1)
    expect(page.locator(".review")).to_be_hidden()
