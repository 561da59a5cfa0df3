"""The view of a search's memory in a real browser."""

from tests.web.test_play import expect, serious


def test_the_positions_that_answered_and_the_map(visit):
    page = visit().page
    page.get_by_role("button", name="Memory").click()
    page.get_by_label("Simulations").fill("1500")
    page.get_by_role("button", name="Fill the memory").click()
    verdict = page.locator(".asked .verdict")
    expect(verdict).to_contain_text("The memory says")
    expect(page.locator(".cards .card engram-board svg")).not_to_have_count(0)
    page.get_by_label("Ask about").select_option(label="the position after 4")
    expect(verdict).to_contain_text("for Yellow")
    expect(page.locator(".map-note")).to_contain_text("of the variance")
    page.locator(".map").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".entry-note")).to_contain_text("Entry")
    expect(page.locator(".entry-note")).to_contain_text("return")
    assert serious(page) == []
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    expect(page.locator("#news")).to_be_hidden()


def test_a_search_without_a_memory_is_told_so(visit):
    page = visit(strict=False).page
    page.get_by_role("button", name="Memory").click()
    page.get_by_role("combobox", name="Search with a memory").fill("uct")
    page.get_by_label("Simulations").fill("100")
    page.get_by_role("button", name="Fill the memory").click()
    expect(page.locator("#news")).to_contain_text("use memory_uct")
