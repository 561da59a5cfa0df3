"""The page in a real browser: games by click and by keyboard, analysis, files, and a server that goes and comes."""

import json
import os
import re
import signal
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

import engram
from engram.web.players import LEVELS
from tests.web.browser import ARGUMENTS, CHROMIUM, Served, Visit

expect = pytest.importorskip("playwright.sync_api").expect
expect.set_options(timeout=120_000)

ENDED = re.compile("wins|draw")
STATIC = Path(engram.__file__).parent / "web" / "static"
AXE = Path(__file__).parent / "axe.min.js"


def serious(page):
    """Findings of axe-core that keep people out."""
    page.evaluate(AXE.read_text())
    violations = page.evaluate("() => axe.run().then((found) => found.violations)")
    return [
        (violation["id"], [node["html"][:120] for node in violation["nodes"]][:3])
        for violation in violations
        if violation["impact"] in ("serious", "critical")
    ]


def thinks_until_stopped(page):
    """The engine of the highest level thinks until the page stops it, so that no test races with it."""

    def lengthen(route):
        fields = route.request.post_data_json
        if fields["simulations"] == LEVELS[-1]["simulations"]:
            fields["simulations"] = 2**32 - 1
        route.continue_(post_data=json.dumps(fields))

    page.route("**/api/searches", lengthen)


def new_game(page, name, **options):
    page.get_by_role("button", name="New game").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("select").select_option(name)
    for option, value in options.items():
        dialog.get_by_label(option).fill(value)
    dialog.get_by_role("button", name="Start").click()


def copied_link(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#news")).to_contain_text("clipboard")
    return page.evaluate("() => navigator.clipboard.readText()")


def test_a_whole_game_against_the_engine_by_clicks(visit):
    page = visit().page
    page.get_by_label("You play").select_option(label="Red")
    page.get_by_label("Level").select_option(label="Beginner")
    turn = page.locator(".turn")
    moves = 0
    while True:
        expect(turn).not_to_contain_text("is thinking")
        if ENDED.search(turn.inner_text()):
            break
        expect(turn).to_contain_text("Red to move")
        page.locator("engram-board button[aria-disabled=false]").nth(moves % 3).click()
        moves += 1
        expect(page.locator(".history button.main")).not_to_have_count(2 * moves - 2)
    assert 4 <= moves <= 21
    assert page.locator("engram-board button[aria-disabled=false]").count() == 0
    page.get_by_role("button", name="Undo").click()
    expect(turn).to_contain_text("to move")


def test_a_whole_game_by_keyboard_alone(visit):
    page = visit().page
    press = page.keyboard.press
    for _ in range(20):
        if page.evaluate("() => document.activeElement.matches('engram-board button')"):
            break
        press("Tab")
    for key in ["Enter", "ArrowRight", "Enter", "ArrowLeft"] * 3 + ["Enter"]:
        before = page.locator(".history button.main").count()
        press(key)
        if key == "Enter":
            expect(page.locator(".history button.main")).to_have_count(before + 1)
    expect(page.locator(".turn")).to_have_text("Red wins")
    press("PageUp")
    expect(page.locator(".turn")).to_have_text("Red to move")
    press("u")
    expect(page.locator(".turn")).to_have_text("Yellow to move")


def test_a_pawn_moves_in_two_steps(visit, served):
    page = visit(f"{served.address}&game=breakthrough:5").page
    page.get_by_role("button", name="b2, White pawn").click()
    page.get_by_role("button", name="c3, empty").click()
    expect(page.locator(".history")).to_contain_text("b2c3")
    expect(page.get_by_role("button", name="c3, White pawn")).to_be_visible()


def test_a_group_of_tiles_goes_by_a_click_on_any_of_them(visit, served):
    page = visit(f"{served.address}&game=same_game:seed=1,rows=4,columns=4,colours=2").page
    game = engram.game("same_game:seed=1,rows=4,columns=4,colours=2")
    before = game.scene.marks(game.initial_state()).count(".")
    assert page.get_by_label("You play").locator("option").all_inner_texts() == ["yourself", "the engine plays"]
    page.get_by_role("button", name="Analyse").click()
    expect(page.locator(".point")).to_be_visible()
    expect(page.locator(".whisker circle").first).to_be_visible()  # the first snapshot may come before any simulation
    page.get_by_role("button", name="Stop").click()
    points = page.locator(".whisker circle").evaluate_all("(all) => all.map((one) => +one.getAttribute('cx'))")
    assert points and all(0 <= x <= 110 for x in points)  # the scale is that of the game's points
    while page.locator("engram-board button[aria-disabled=false]").count():
        playable = page.locator("engram-board button[aria-disabled=false]")
        moves = page.locator(".history button.main").count()
        assert re.search(r"[a-d][1-4], colour [12]", playable.last.get_attribute("aria-label"))
        playable.last.click()
        expect(page.locator(".history button.main")).to_have_count(moves + 1)
    played = [button.inner_text() for button in page.locator(".history button.main").all()]
    points = game.line_return([game.parse_action(move.split()[-1]) for move in played])
    expect(page.locator(".turn")).to_contain_text(f"The game is over: {points:g}")
    assert before == 0 and moves >= 1
    assert serious(page) == []


def test_dice_fall_by_themselves_and_checkers_move_in_two_steps(visit, served):
    page = visit(f"{served.address}&game=backgammon").page
    turn, history = page.locator(".turn"), page.locator(".history button.main")
    expect(turn).to_contain_text(re.compile("(Red|White) has [1-6] [1-6]"))  # the first roll fell
    expect(history).to_have_count(1)
    assert page.get_by_role("button", name="Point 24, 2 Red checkers").count() == 1
    for moves in (2, 3):
        page.locator("engram-board button[aria-disabled=false]").first.click()
        page.locator("engram-board button[aria-disabled=false]:not([aria-label$=chosen])").first.click()
        if moves == 2:
            expect(history).to_have_count(2)
    expect(turn).to_contain_text(re.compile("(Red|White) has [1-6]"))  # the other side's dice fell
    page.get_by_role("button", name="To the start").click()
    expect(turn).to_contain_text("Nature")
    expect(page.locator(".think")).to_be_disabled()  # there is no move to choose
    assert serious(page) == []


def test_tiles_slide_by_the_arrow_keys_and_undo_passes_nature_by(visit, served):
    page = visit(f"{served.address}&game=2048&moves=2@a1,2@b1").page
    turn, history = page.locator(".turn"), page.locator(".history button.main")
    expect(turn).to_have_text("Player to move · score so far 0")
    page.keyboard.press("ArrowRight")
    expect(history).to_have_count(4)  # nature has put its tile
    expect(turn).to_have_text("Player to move · score so far 4")
    assert page.get_by_role("button", name="d1, 4").count() == 1
    drawn = page.locator(".tile-text").all_text_contents()
    assert sorted(drawn)[-1] == "4" and len(drawn) == 2
    page.get_by_role("button", name="Undo").click()
    expect(history.nth(1)).to_have_attribute("aria-current", "step")
    expect(turn).to_have_text("Player to move · score so far 0")
    page.locator(".others").get_by_role("button", name="right", exact=True).click()
    expect(turn).to_have_text("Player to move · score so far 4")
    assert serious(page) == []
    page.get_by_role("button", name="Undo").click()
    box = page.locator("engram-board").bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 90)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 100)
    page.mouse.up()  # a swipe to the right
    expect(turn).to_have_text("Player to move · score so far 4")


def test_a_move_is_played_that_is_held_while_the_search_goes_on(visit):
    """A press takes a tenth of a second; a search under way draws its table some times a second."""
    page = visit().page
    page.get_by_role("button", name="Analyse").click()
    progress = page.locator(".analysis .progress")
    expect(page.locator("engram-moves td.value b")).to_have_count(7)  # the first snapshot may have no simulation
    page.locator("engram-moves [data-play]").nth(2).hover()
    page.mouse.down()
    name = page.locator("engram-moves tr:active").get_attribute("data-name")
    for _ in range(8):
        before = progress.text_content()
        expect(progress).not_to_have_text(before)
    page.mouse.up()
    expect(page.locator(".history button.main")).to_have_text([name])


def test_a_table_waits_while_a_row_is_pressed_and_keeps_the_focus(visit):
    page = visit().page
    page.evaluate(
        """async () => {
          const { renew } = await import("/static/html.js"), place = document.createElement("div");
          document.body.prepend(place);
          const html = (row) => `<p data-key="${row}"><button>${row}</button></p>`;
          window.draw = (...rows) => renew(place, rows.map(html).join(""));
          window.rows = () => [...place.children].map((row) => row.dataset.key).join("");
          window.clicks = "";
          place.addEventListener("click", (event) => { window.clicks += event.target.textContent; });
          window.empty = () => place.replaceChildren();
          draw("1", "2", "3");
          place.querySelectorAll("button")[1].focus();
        }"""
    )
    page.evaluate("draw(3, 4, 2, 1)")
    assert page.evaluate("[rows(), document.activeElement.textContent]") == ["3421", "2"]
    page.locator("p[data-key='4'] button").hover()
    page.mouse.down()
    page.evaluate("draw(5, 1)")
    page.evaluate("draw(6, 4)")
    assert page.evaluate("rows()") == "3421"
    page.mouse.up()
    expect(page.locator("p[data-key]")).to_have_text(["6", "4"])
    assert page.evaluate("clicks") == "4"
    page.mouse.down()
    page.evaluate("draw(7, 8)")
    page.evaluate("empty()")
    page.mouse.up()
    page.evaluate("new Promise((done) => setTimeout(done, 200))")
    assert page.evaluate("rows()") == ""


def test_analysis_streams_stops_and_shows_its_line(visit):
    page = visit().page
    page.get_by_label("Search", exact=True).fill("rave")
    page.get_by_role("button", name="Analyse").click()
    progress = page.locator(".analysis .progress")
    expect(progress).to_contain_text("thinking")
    first = progress.inner_text()
    expect(progress).not_to_have_text(first)
    expect(page.locator("engram-board .heat")).not_to_have_count(0)
    page.get_by_role("button", name="Stop").click()
    expect(progress).to_contain_text("stopped")
    expect(page.get_by_role("columnheader", name="AMAF")).to_be_visible()
    page.locator("engram-moves tbody tr").first.hover()
    expect(page.locator("engram-board .ghost")).not_to_have_count(0)
    for heat in ("Value", "AMAF", "Prior"):
        page.get_by_label("Show on the board").select_option(label=heat)
        expect(page.locator("engram-board .heat")).not_to_have_count(0)
    page.get_by_label("Show on the board").select_option(label="Nothing")
    expect(page.locator("engram-board .heat")).to_have_count(0)
    page.locator("engram-moves tbody button").first.click()
    expect(page.locator(".history button.main")).to_have_count(1)


def test_variations_and_the_link_to_a_position(visit):
    session = visit()
    page = session.page
    for column in (4, 3):
        page.get_by_role("button", name=f"Column {column}").click()
        expect(page.locator(".history")).to_contain_text(str(column))
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Column 5").click()
    expect(page.locator(".history .variation")).to_have_text("3")
    page.locator(".history .variation").click()
    expect(page.locator(".history .present")).to_have_text("3")
    other = session.context.new_page()
    address = copied_link(page)
    other.goto(address)
    expect(other.locator(".history button.main")).to_have_text(["4", "3"])
    other.close()


def test_a_link_on_another_site_opens_after_a_question(visit, served):
    page = visit().page
    link = f"http://127.0.0.1:{served.port}/#game=tic_tac_toe&moves=b2"
    page.goto("data:text/html," + quote(f'<a href="{link}">a position</a>'))
    page.get_by_role("link", name="a position").click()
    expect(page.locator("main")).to_contain_text("Another site links to tic_tac_toe here.")
    page.get_by_role("link", name="Open it").click()
    expect(page.locator(".history button.main")).to_have_text(["b2"])
    assert urlsplit(page.url).query == "", "a reload asks nothing again"


def test_a_link_holds_moves_whose_names_have_commas(visit, served):
    pytest.importorskip("pyspiel")
    page = visit(f"{served.address}&game=openspiel:tic_tac_toe").page
    for name in ("x(1,1)", "o(0,2)"):
        page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator(".history button.main")).to_have_text(["x(1,1)", "o(0,2)"])
    other = page.context.new_page()
    other.goto(copied_link(page))
    expect(other.locator(".history button.main")).to_have_text(["x(1,1)", "o(0,2)"])
    other.get_by_role("button", name="Tree", exact=True).click()
    other.get_by_role("button", name="Grow a tree").click()
    expect(other.locator("#tree-node")).to_contain_text("wide enough to be seen")  # keys act on a tree that is drawn
    other.locator(".icicle").press("ArrowDown")
    other.locator(".icicle").press("ArrowDown")
    expect(other.locator("#tree-node")).to_contain_text(re.compile(r"^x\(\d,\d\): "))


def test_a_double_click_plays_one_move_and_a_reload_keeps_the_game(visit, served):
    page = visit(f"{served.address}&game=go:9").page
    page.get_by_role("button", name="E5, empty").dblclick()
    expect(page.get_by_role("button", name="E5, Black stone")).to_be_visible()
    page.get_by_role("button", name="C3, empty").click()
    expect(page.locator(".history button.main")).to_have_text(["E5", "C3"])
    page.reload()  # the address began another game
    expect(page.locator(".history button.main")).to_have_text(["E5", "C3"])


def test_each_tab_keeps_its_own_game(visit):
    page = visit().page
    page.get_by_role("button", name="Column 4").click()
    expect(page.locator(".history button.main")).to_have_text(["4"])
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator(".history button.main")).to_have_text(["4"])  # a new tab begins with the last game
    page.get_by_label("Show on the board").select_option(label="Value")
    other.get_by_label("Show on the board").select_option(label="Prior")
    other.get_by_role("button", name="New game").click()
    other.get_by_role("dialog").locator("select").select_option("hex")
    other.get_by_role("dialog").get_by_label("size").press("Enter")
    expect(other.locator(".name-of-game")).to_contain_text("hex")
    page.reload()
    expect(page.locator(".history button.main")).to_have_text(["4"])
    expect(page.get_by_label("Show on the board")).to_have_value("value")
    other.close()


def test_options_that_are_typed_win_over_what_was_kept_before_the_start(visit, tmp_path):
    server = Served(tmp_path)
    try:
        page = visit(server.address, strict=False).page
        name, search = page.locator(".name-of-game"), page.get_by_label("Search", exact=True)
        page.get_by_role("button", name="Column 4").click()
        expect(page.locator(".history button.main")).to_have_text(["4"])
        search.fill("puct")
        search.press("Enter")
        server.kill()
        server.options = ("--game", "go:9", "--search", "rave")
        server.start()
        page.reload()
        expect(name).to_have_text("go:9")
        expect(search).to_have_value("rave")
        page.get_by_label("Show on the board").select_option(label="Value")  # stores no search
        server.kill()
        server.options = ()
        server.start()
        page.reload()
        expect(name).to_have_text("connect_four")  # it was kept meanwhile
        expect(page.locator(".history button.main")).to_have_text(["4"])
        expect(search).to_have_value("uct")
        server.kill()
        server.options = ("--game", "go:9", "--search", "rave")
        server.start()
        page.reload()
        expect(name).to_have_text("go:9")
        search.fill("puct")
        search.press("Enter")
        new_game(page, "tic_tac_toe")
        expect(name).to_contain_text("tic_tac_toe")
        page.reload()  # what the person chose since the start stays
        expect(name).to_contain_text("tic_tac_toe")
        expect(search).to_have_value("puct")
        server.kill()
        expect(page.locator("#news")).to_contain_text("does not answer")
        server.start()
        expect(page.locator("#news")).to_contain_text("is back")
        search.fill("uct")
        search.press("Enter")
        page.reload()  # also after a start that the page has outlived
        expect(search).to_have_value("uct")
    finally:
        server.close()


def test_a_link_that_is_opened_ends_the_analysis_before_it(visit):
    page = visit().page
    page.get_by_role("button", name="Analyse").click()
    expect(page.locator(".analysis .progress")).to_contain_text("thinking")
    page.evaluate("() => { location.hash = 'game=go:9&moves=E5'; }")
    expect(page.locator(".name-of-game")).to_contain_text("go:9")
    expect(page.locator(".think")).to_have_text("Analyse")
    expect(page.locator(".analysis tbody tr")).to_have_count(0)


def test_the_engine_waits_for_a_place_and_stops_when_the_sides_change(visit, tmp_path):
    server = Served(tmp_path, "--max-searches", "1", "--game", "go:19")
    try:
        watching, playing = (visit(server.address, strict=False).page for _ in range(2))
        watching.get_by_role("button", name="Analyse").click()
        expect(watching.locator(".analysis .progress")).to_contain_text("thinking")
        thinks_until_stopped(playing)
        history, turn = playing.locator(".history button.main"), playing.locator(".turn")
        playing.get_by_label("You play").select_option(label="Black")
        playing.get_by_label("Level").select_option(label="Beginner")
        playing.get_by_role("button", name="Q16, empty").click()
        expect(playing.locator("#news")).to_contain_text("As many searches run as this server allows")
        expect(turn).to_contain_text("is thinking")
        assert playing.locator("engram-board button[aria-disabled=false]").count() == 0
        watching.get_by_role("button", name="Stop").click()
        expect(history).to_have_count(2)
        playing.get_by_label("Level").select_option(label="Master")
        playing.locator("engram-board button[aria-label$=empty]").first.click()
        expect(turn).to_contain_text("is thinking")
        playing.get_by_label("You play").select_option(label="both sides")
        expect(turn).to_have_text("White to move")
        playing.locator("engram-board button[aria-label$=empty]").last.click()
        expect(turn).to_have_text("Black to move")
        expect(history).to_have_count(4)
        playing.get_by_role("button", name="One move back").click()
        expect(turn).to_have_text("White to move")
        playing.get_by_label("You play").select_option(label="Black")  # now White is the engine's
        expect(turn).to_contain_text("is thinking")
        for view in ("Tree", "Play"):
            playing.get_by_role("button", name=view, exact=True).click()
        expect(turn).to_have_text("White to move")  # who looks back only looks
        assert playing.locator(".history .variation").count() == 0
    finally:
        server.close()


def test_an_engine_that_thinks_is_hurried_and_takes_another_level(visit, served):
    page = visit(f"{served.address}&game=go:19").page
    thinks_until_stopped(page)
    history, turn = page.locator(".history button.main"), page.locator(".turn")
    page.get_by_label("You play").select_option(label="Black")
    for moves in (2, 4):
        page.get_by_label("Level").select_option(label="Master")
        page.locator("engram-board button[aria-label$=empty]").first.click()
        expect(turn).to_contain_text("is thinking")
        expect(history).to_have_count(moves - 1)
        if moves == 2:
            page.get_by_role("button", name="Move now").click()
        else:
            with page.expect_request("**/api/searches"):
                page.get_by_label("Level").select_option(label="Beginner")
        expect(turn).to_have_text("Black to move")
        expect(history).to_have_count(moves)
        expect(page.get_by_role("button", name="Analyse")).to_be_enabled()


def test_the_engine_goes_on_after_a_look_back_and_its_move_is_said(visit, served):
    page = visit(f"{served.address}&game=go:9", strict=False).page  # the browser reports the answer 400 to a wrong game
    thinks_until_stopped(page)
    history, turn = page.locator(".history button.main"), page.locator(".turn")
    page.get_by_label("You play").select_option(label="Black")
    page.get_by_label("Level").select_option(label="Master")
    page.get_by_role("button", name="E5, empty").click()
    expect(turn).to_contain_text("is thinking")
    page.get_by_role("button", name="New game").click()
    page.get_by_role("dialog").locator("select").select_option("")
    page.get_by_role("dialog").locator("[name=text]").fill("nonsense:3")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("#news")).to_contain_text("nonsense")  # and the engine thinks on
    for look in (("PageDown",), ("PageUp", "PageDown")):  # nothing changes; back, and again to the end
        expect(turn).to_contain_text("is thinking")
        for key in look:
            page.keyboard.press(key)
            expect(history).to_have_count(1)
    expect(turn).to_contain_text("is thinking")
    page.get_by_role("button", name="E5, Black stone").click(force=True)
    expect(page.locator("#news")).to_have_text("The engine is thinking about its move.")
    page.get_by_role("button", name="Move now").click()
    expect(history).to_have_count(2)
    expect(page.locator(".said")).to_have_text(f"Move 2: {history.nth(1).inner_text()}")
    expect(page.locator("engram-board button[tabindex='0']")).to_be_focused()  # the pressed button has gone
    page.get_by_role("button", name="E5, Black stone").click(force=True)
    expect(page.locator("#news")).to_have_text("E5 is not a legal move now.")


def test_the_focus_stays_where_its_button_goes(visit, served):
    page = visit(f"{served.address}&game=p_game:branching=2,depth=4").page
    page.get_by_label("You play").select_option(index=1)
    page.get_by_label("Level").select_option(label="Beginner")
    page.locator(".others button").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("pre")).to_contain_text("move 2 of 4")
    expect(page.locator(".others button").first).to_be_focused()
    page.get_by_role("button", name="Undo").focus()
    page.keyboard.press("Enter")
    expect(page.locator("pre")).to_contain_text("move 0 of 4")
    expect(page.locator(".others button").first).to_be_focused()


def test_keys_of_the_browser_play_no_move(visit, served):
    page = visit(f"{served.address}&game=2048&moves=2@a1,2@b1").page
    expect(page.locator("engram-board")).to_have_attribute("aria-label", "Board: arrow keys play")
    for key in ("Alt+ArrowRight", "Control+ArrowRight", "Meta+ArrowRight", "Control+u"):
        page.keyboard.press(key)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".turn")).to_have_text("Player to move · score so far 4")
    expect(page.locator(".history button.main")).to_have_count(4)


def test_no_engine_plays_into_a_record_and_a_new_game_is_undone(visit, served):
    page = visit().page
    history = page.locator(".history button.main")
    page.get_by_label("You play").select_option(label="Yellow")
    expect(history).to_have_count(1)
    page.goto(f"{served.address}&game=connect_four&moves=4,4,3,3")
    expect(history).to_have_text(["4", "4", "3", "3"])
    expect(page.get_by_label("You play")).to_have_value("both")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Column 5").click()
    new_game(page, "hex")
    expect(page.locator(".name-of-game")).to_contain_text("hex")
    page.get_by_role("button", name="Undo").click()
    expect(history).to_have_text(["4", "4", "3", "5"])
    expect(page.locator(".history .variation")).to_have_text("3")


def test_a_browser_without_storage_plays(visit, browser, served):
    context = browser.new_context()
    context.add_init_script("""for (const name of ["localStorage", "sessionStorage"])
        Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });""")
    page = context.new_page()
    page.goto(served.address)
    page.get_by_role("button", name="Column 4").click()
    expect(page.locator(".history button.main")).to_have_text(["4"])
    context.close()


def test_zoom_and_the_size_of_text_enlarge_the_board(visit, browser, served):
    page = visit(f"{served.address}&game=go:19", width=640, height=400).page  # a window of 1280 by 800 at 200 %
    assert page.locator("engram-board").bounding_box()["width"] > 500
    args = [*ARGUMENTS, "--blink-settings=defaultFontSize=32"]
    other = browser.browser_type.launch(executable_path=CHROMIUM, args=args)
    page = other.new_page()
    page.goto(served.address)
    assert page.evaluate("() => getComputedStyle(document.documentElement).fontSize") == "32px"
    other.close()


def test_two_undos_at_once_take_back_two_moves(visit):
    page = visit().page
    for number, column in enumerate("4433", start=1):
        page.get_by_role("button", name=f"Column {column}").click()
        expect(page.locator(".history button.main")).to_have_count(number)
    page.evaluate("() => { for (const _ of [1, 2]) document.querySelector('.undo').click(); }")
    expect(page.locator(".turn")).to_have_text("Red to move")
    expect(page.locator(".history button.main").nth(1)).to_have_attribute("aria-current", "step")


def test_go_on_19_lines_with_sgf(visit, tmp_path):
    page = visit(strict=False).page  # the browser reports the answer 400 to a wrong file
    new_game(page, "go", size="19")
    expect(page.locator("engram-board .cells button")).to_have_count(361)
    page.get_by_role("button", name="Q16, empty").click()
    expect(page.get_by_role("button", name="Q16, Black stone")).to_be_visible()
    page.get_by_role("button", name="pass", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save SGF").click()
    text = Path(download.value.path()).read_text()
    assert "SZ[19]" in text and "B[pd]" in text
    file = tmp_path / "other.sgf"
    file.write_text("(;GM[1]CA[Shift_JIS]SZ[13]KM[6.5]PB[ソ];B[dd]C[ソ];W[jj](;B[jd])(;B[dj]))", "shift_jis")
    page.get_by_role("button", name="Undo").click()  # so that White is to move, and not yet the engine's
    page.get_by_label("You play").select_option(label="White")
    page.locator("input[type=file]").set_input_files(file)
    expect(page.locator("engram-board .cells button")).to_have_count(169)
    expect(page.locator("#news")).to_contain_text("3 moves; its variations, names, and comments are left out")
    expect(page.get_by_label("You play")).to_have_value("both")  # no engine plays into it
    expect(page.locator(".history button.main")).to_have_text(["D10", "K4", "K10"])
    page.get_by_role("button", name="To the start").click()
    expect(page.locator(".turn")).to_have_text("Black to move")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save SGF").click()
    assert re.findall("[BW]\\[(..)]", Path(download.value.path()).read_text()) == ["dd", "jj", "jd"]
    file.write_text("no game")
    page.locator("input[type=file]").set_input_files(file)
    expect(page.locator("#news")).to_contain_text("SGF")


def test_a_game_without_a_picture_is_played_by_its_text(visit, served):
    page = visit(f"{served.address}&game=p_game:branching=2,depth=4").page
    expect(page.locator("pre")).to_contain_text("move 0 of 4")
    page.locator(".others button").first.click()
    expect(page.locator("pre")).to_contain_text("move 1 of 4")


def test_the_server_is_killed_and_comes_back(visit, browser, tmp_path):
    server = Served(tmp_path)
    try:
        page = visit(server.address, strict=False).page
        page.get_by_role("button", name="Column 4").click()
        expect(page.locator(".history")).to_contain_text("4")
        page.get_by_role("button", name="Analyse").click()
        expect(page.locator(".analysis .progress")).to_contain_text("thinking")
        server.process.send_signal(signal.SIGSTOP)  # it hangs
        expect(page.locator("#news")).to_contain_text("does not answer")
        server.process.send_signal(signal.SIGCONT)
        expect(page.locator("#news")).to_contain_text("is back")
        server.kill()
        expect(page.locator("#news")).to_contain_text("does not answer")
        server.start()
        expect(page.locator("body.alone")).to_have_count(0)
        expect(page.locator("#news")).to_contain_text(re.compile("is back|starts again"))
        expect(page.locator(".analysis .progress")).to_contain_text("thinking")
        page.get_by_role("button", name="Column 3").click()
        expect(page.locator(".history button.main")).to_have_text(["4", "3"])
        page.reload()
        expect(page.locator(".history button.main")).to_have_text(["4", "3"])
    finally:
        server.close()


def test_an_analysis_that_is_stopped_without_a_network_ends_with_the_next(visit):
    session = visit(strict=False)
    page = session.page
    page.get_by_role("button", name="Analyse").click()
    expect(page.locator(".analysis .progress")).to_contain_text("thinking")
    session.context.set_offline(True)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#news")).to_contain_text("does not answer")
    session.context.set_offline(False)
    expect(page.get_by_role("button", name="Analyse")).to_be_visible()
    expect(page.locator(".analysis .progress")).to_contain_text("stopped")


def test_the_engine_moves_although_its_server_was_away_when_it_was_hurried(visit, tmp_path):
    server = Served(tmp_path, "--game", "go:9")
    try:
        page = visit(server.address, strict=False).page
        thinks_until_stopped(page)
        page.get_by_label("You play").select_option(label="Black")
        page.get_by_label("Level").select_option(label="Master")
        page.get_by_label("You play").select_option(label="White")
        expect(page.locator(".analysis .progress")).to_contain_text("thinking")
        server.kill()
        expect(page.locator("#news")).to_contain_text("does not answer")
        page.get_by_role("button", name="Move now").click()
        server.start()
        expect(page.locator(".history button.main")).to_have_count(1)
    finally:
        server.close()


def test_a_tree_that_was_lost_with_the_server_grows_again(visit, tmp_path):
    server = Served(tmp_path)
    try:
        page = visit(server.address, strict=False).page
        page.get_by_role("button", name="Tree", exact=True).click()
        page.locator(".runner .simulations:visible").fill("30000000")
        page.get_by_role("button", name="Grow a tree").click()
        expect(page.locator(".runner .progress:visible")).to_contain_text("thinking")
        server.kill()
        expect(page.locator("#news")).to_contain_text("does not answer")
        server.start()
        expect(page.locator("#news")).to_contain_text(re.compile("starts again|no longer there"))
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        progress = page.locator(".runner .progress:visible")
        expect(progress).not_to_have_text(progress.inner_text())  # it counts on
    finally:
        server.close()


def test_two_pages_on_one_server(visit):
    pages = [visit().page for _ in range(2)]
    for page, column in zip(pages, (1, 7), strict=True):
        page.get_by_role("button", name=f"Column {column}").click()
        page.get_by_role("button", name="Analyse").click()
    for page, column in zip(pages, ("1", "7"), strict=True):
        expect(page.locator(".analysis .progress")).to_contain_text("thinking")
        expect(page.locator(".history button.main")).to_have_text([column])
        page.get_by_role("button", name="Stop").click()


@pytest.mark.skipif(os.name == "nt", reason="the browser of this test is a shell script")
def test_the_browser_that_is_opened_gets_the_token_by_a_code_for_one_use(browser, tmp_path):
    opened, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n')
    script.chmod(0o755)
    server = Served(tmp_path, environment={"BROWSER": f"{script} %s"})
    try:
        end = time.monotonic() + 120
        while not opened.exists():
            assert server.process.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        address, token = opened.read_text(), server.address.partition("token=")[2]
        assert "#code=" in address and token not in address
        first = Visit(browser, address)
        assert "code" not in first.page.url
        first.page.reload()
        expect(first.page.locator("body.ready")).to_have_count(1)
        again = first.context.new_page()  # it has the token
        again.goto(address)
        expect(again.locator("body")).to_contain_text("Another program has used the code")
        second = browser.new_context().new_page()
        second.goto(address)
        expect(second.locator("main")).to_contain_text("The token is missing or wrong")
        first.close()
        second.context.close()
    finally:
        server.close()


def test_without_the_token_the_page_says_so(browser, served):
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.address.split("#")[0])
    expect(page.locator("main")).to_contain_text("The token is missing or wrong")
    page.goto(served.address)  # in the same tab, as the sentence says
    expect(page.locator("body.ready")).to_have_count(1)
    other = context.new_page()
    other.goto(served.address.split("=")[0] + "=wrong")
    expect(other.locator("main")).to_contain_text("The token is missing or wrong")  # and replaces no good one
    for damage in ("x", "7", '{"heat":"zz","level":99,"human":[],"search":0}'):
        page.evaluate(
            "(damage) => { for (const kept of [localStorage, sessionStorage]) kept.setItem('engram.play', damage); }",
            damage,
        )
        page.reload()
        expect(page.locator("body.ready")).to_have_count(1)
        expect(page.locator(".turn")).to_have_text("Red to move")
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_is_cut_off_and_all_can_use_it(visit, served, scheme, width):
    page = visit(f"{served.address}&game=go:9&moves=D4,F6", width=width, scheme=scheme).page
    page.get_by_role("button", name="Analyse").click()
    expect(page.locator("engram-moves tbody tr")).not_to_have_count(0)
    page.get_by_role("button", name="Stop").click()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    background = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    assert (int(re.search(r"\d+", background)[0]) < 128) == (scheme == "dark")
    assert serious(page) == []


def test_the_tree_is_walked_by_click_and_by_keyboard(visit):
    page = visit().page
    page.get_by_role("button", name="Tree").click()
    page.get_by_label("Simulations").fill("20000")
    page.get_by_role("button", name="Grow a tree").click()
    node = page.locator("#tree-node")
    expect(page.locator(".tree-view .runner .progress")).to_contain_text("done")
    expect(node).to_contain_text("wide enough to be seen")
    page.locator(".icicle").click(position={"x": 30, "y": 40})
    expect(page.locator("#node-title")).to_have_text(re.compile(r"^After \d$"))
    expect(page.get_by_label("Figures of the node")).to_contain_text("visited children")
    page.locator(".icicle").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#node-title")).to_have_text(re.compile(r"^After \d \d$"))
    page.keyboard.press("Enter")
    expect(page.locator(".crumbs button")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.locator(".crumbs button")).to_have_count(2)
    assert serious(page) == []
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375


def test_two_searches_side_by_side(visit):
    page = visit().page
    page.get_by_role("button", name="Compare").click()
    for box in page.get_by_label("Simulations").all():
        box.fill("5000")
    page.get_by_role("button", name="Run both").click()
    expect(page.locator(".verdict")).to_have_text(re.compile("A (values|plays).*B"))
    expect(page.locator(".why h3")).to_have_count(4)
    expect(page.locator(".levels table")).not_to_have_count(0)
    expect(page.locator(".compare .heat").first).to_be_attached()
    assert serious(page) == []
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375


# Labels of a board that leave it, or lie on each other.
LABELS = """() => {
  const svg = document.querySelector("engram-board svg"), box = svg.getBoundingClientRect(), bad = [];
  const texts = [...svg.querySelectorAll("text")].map((one) => [one.textContent, one.getBoundingClientRect(), one]);
  const inside = (one) => one.left > box.left - 1 && one.right < box.right + 1 && one.bottom < box.bottom + 1;
  const meet = (one, other) => one.left < other.right - 1 && other.left < one.right - 1
    && one.top < other.bottom - 2 && other.top < one.bottom - 2;
  texts.forEach(([text, place, one], number) => {
    if (!inside(place)) bad.push(`${text} is cut off`);
    for (const [next, other] of texts.slice(number + 1)) if (meet(place, other)) bad.push(`${text} on ${next}`);
    const size = parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
    if (size < 6.5) bad.push(`${text} has ${size} pixels`);
  });
  return bad;
}"""


@pytest.mark.parametrize(
    "game", ["go:19", "go:9", "hex:11", "othello", "connect_four", "breakthrough", "backgammon", "dots_and_boxes"]
)
def test_labels_of_a_board_can_be_read_on_a_phone(visit, served, game):
    page = visit(f"{served.address}&game={game}", width=360).page
    expect(page.locator("engram-board button[aria-disabled=false]")).not_to_have_count(0)
    assert page.evaluate(LABELS) == []
    page.evaluate(
        """() => {
          const board = document.querySelector("engram-board"), actions = board.board.places.map((_, action) => action);
          board.heat = new Map(actions.map((action) => [action, { strength: 1 - action / 1e6, text: "−38" }]));
        }"""
    )
    texts = page.locator("engram-board .heat-text")
    assert texts.count() > 0
    assert [bad for bad in page.evaluate(LABELS) if "−38 on −38" in bad] == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


def test_the_assets_are_small():
    assert sum(file.stat().st_size for file in STATIC.rglob("*") if file.is_file()) <= 300_000


@pytest.mark.parametrize(("game", "size"), [("go:5", "5"), ("go:size=7,komi=5.5", "7"), ("othello", "8")])
def test_the_dialog_of_a_new_game_shows_the_size_of_the_present_one(visit, served, game, size):
    page = visit(f"{served.address}&game={game}&moves=").page
    page.get_by_role("button", name="New game").click()
    expect(page.get_by_role("dialog").get_by_label("size")).to_have_value(size)


OWN_GAME = """
from engram.games.line.one_word import line

def mine():
    return line(3, 3, 3, name="mine")
"""


def test_a_game_that_cannot_be_opened_stays_kept(visit, browser, tmp_path):
    file = tmp_path / "kept.py"
    file.write_text(OWN_GAME)
    server = Served(tmp_path, "--allow-files")
    try:
        page = visit(f"{server.address}&game={file}:mine&moves=a1,b2", strict=False).page
        expect(page.locator(".history button.main")).to_have_text(["a1", "b2"])
        file.write_text("def mine(:")
        for served in (False, True):
            server.kill()
            server.start()
            page.reload()
            if not served:
                expect(page.locator("#news")).to_contain_text("The kept game cannot be opened")
                expect(page.locator(".name-of-game")).to_have_text("connect_four")
                file.write_text(OWN_GAME)
        expect(page.locator(".history button.main")).to_have_text(["a1", "b2"])
    finally:
        server.close()


def test_a_damaged_link_is_refused_in_a_sentence_and_leaves_the_address(visit):
    page = visit().page
    expect(page.locator(".turn")).to_have_text("Red to move")
    page.evaluate("location.hash = 'game=hex:5&moves=%25zz'")
    expect(page.locator("#news")).to_contain_text("The link cannot be opened")
    assert page.evaluate("location.hash") == ""


def test_a_refused_search_of_the_engine_leaves_the_board_to_the_person(visit, served):
    page = visit(f"{served.address}&game=othello:6&moves=", strict=False).page
    expect(page.locator(".turn")).to_contain_text("Black 2")  # a note beside the turn
    page.locator(".search").fill("nonsense")
    page.locator(".search").dispatch_event("change")
    page.locator(".human").select_option("1")
    expect(page.locator("#news")).to_contain_text("nonsense")
    expect(page.locator(".turn")).not_to_contain_text("is thinking")


def test_long_names_of_moves_fit_a_phone_and_are_played(visit, served):
    name = "p" * 300
    file = served.folder / "long.py"
    file.write_text(LONG.format(name=name))
    server = Served(served.folder, "--allow-files")
    try:
        page = visit(f"{server.address}&game={file}:long&moves=", width=360).page
        page.locator(".others button").first.click()
        expect(page.locator(".history button.main")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.context.close()  # it would complain of a server that has gone
    finally:
        server.close()


def test_a_place_of_several_actions_asks_for_one_of_them(visit, served):
    file = served.folder / "crosses.py"
    file.write_text(CROSSES)
    server = Served(served.folder, "--allow-files")
    try:
        page = visit(f"{server.address}&game={file}:crosses&moves=").page
        moves, others = page.locator(".history button.main"), page.locator(".others button")
        page.get_by_role("button", name="b1, empty").click()  # light or heavy
        expect(page.locator("#news")).to_contain_text("2 moves share this place")
        expect(others).to_have_text(["b1 light", "b1 heavy"])
        expect(others.first).to_be_focused()
        others.nth(1).click()
        expect(moves).to_have_text(["b1 heavy"])
        expect(others).to_have_count(0)
        page.get_by_role("button", name="b1, Black stone").click()  # a piece, which goes to a1 or c1
        expect(page.locator("svg .reach")).to_have_count(2)
        page.get_by_role("button", name="c1, empty").click()  # not one of the two that put a piece there
        expect(moves).to_have_text(["b1 heavy", "b1-c1"])
        page.get_by_role("button", name="Analyse").click()
        expect(page.locator(".whisker circle").first).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        page.locator("engram-moves tbody tr").first.hover()
        expect(page.locator("svg .ghost.white")).to_have_count(0)  # one player has pieces of one colour
        page.context.close()  # it would complain of a server that has gone
    finally:
        server.close()


CROSSES = """
import numpy as np
from engram import Game
from engram.games.scene import Scene

CELLS, MOVES = 3, 4

def legal_actions(state, actions):
    count = 0
    if state.moves == MOVES or state.cell.sum() == CELLS:
        return 0
    for action in range(2 * CELLS):
        if state.cell[action % CELLS] == 0:
            actions[count] = action
            count += 1
    for pair in range(CELLS * CELLS):
        if state.cell[pair // CELLS] == 1 and state.cell[pair % CELLS] == 0:
            actions[count] = 2 * CELLS + pair
            count += 1
    return count

def play(state, action):
    if action < 2 * CELLS:
        state.cell[action % CELLS] = 1
    else:
        pair = action - 2 * CELLS
        state.cell[pair // CELLS], state.cell[pair % CELLS] = 0, 1
    state.moves += 1
    return np.int64(state.moves == MOVES or state.cell.sum() == CELLS)

def outcome(state):
    return state.cell[0] / 1.0

def position_hash(state):
    return np.uint64(state.moves * 8 + state.cell[0] * 4 + state.cell[1] * 2 + state.cell[2])

def crosses():
    names = [f"{cell}1 {weight}" for weight in ("light", "heavy") for cell in "abc"]
    names += [f"{one}1-{other}1" for one in "abc" for other in "abc"]
    places = [[cell] for _ in range(2) for cell in range(CELLS)] + [[a, b] for a in range(CELLS) for b in range(CELLS)]
    state = np.zeros(1, np.dtype([("cell", np.int64, (CELLS,)), ("moves", np.int64)]))
    marks = lambda state: "".join(".X"[int(mark)] for mark in state["cell"])
    return Game("crosses", state=state, num_actions=15, max_moves=MOVES, legal_actions=legal_actions, play=play,
                outcome=outcome, to_play=lambda state: 0, hash=position_hash, players=1, action_names=names,
                scene=Scene("squares", 1, CELLS, marks, places, "abc", "1"))
"""
LONG = """
from engram import PythonGame

class Position:
    def __init__(self, moves=()): self.moves = list(moves)
    def legal_actions(self): return [0, 1] if len(self.moves) < 3 else []
    def play(self, action): self.moves.append(action)
    def to_play(self): return len(self.moves) % 2
    def outcome(self): return 0.0
    def copy(self): return Position(self.moves)
    def __str__(self): return str(self.moves)

def long():
    return PythonGame("long", Position, num_actions=2, max_moves=3, action_name=lambda action: "{name}" + "Aa"[action])
"""
