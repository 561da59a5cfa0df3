"""The browser of the page's tests; without Debian's chromium they are skipped, and say so."""

import pytest

from tests.web.browser import ARGUMENTS, CHROMIUM, Served, Visit


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright")
    for name in ("starlette", "uvicorn"):
        pytest.importorskip(name, reason="the page needs engram[web]")
    if CHROMIUM is None:
        pytest.skip("the page's tests need a browser: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory, browser):
    server = Served(tmp_path_factory.mktemp("served"))
    yield server
    server.close()


@pytest.fixture
def visit(browser, served):
    """Opens pages; at the end none of them has asked another machine, or complained."""
    visits = []

    def open_page(address=None, *, strict=True, **options):
        visits.append((Visit(browser, address or served.address, **options), strict))
        return visits[-1][0]

    yield open_page
    for session, strict in visits:
        session.close()
        assert session.hosts - {None} == {"127.0.0.1"}  # a file that is saved has an address without a host
        assert not strict or not session.complaints, session.complaints
