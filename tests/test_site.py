"""The documentation site: it builds without a warning, asks no other host, and shows what a repository's page shows."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import engram

pytest.importorskip("mkdocs", reason="the site needs the extra docs: pip install '.[docs]'")
pytest.importorskip("mkdocstrings_handlers.python", reason="the site needs the extra docs: pip install '.[docs]'")

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WEIGHTS = ROOT / "src/engram/networks/weights"
ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
SOURCES = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "use": "href"}
"""Elements that a browser loads by itself, and the attribute that says from where."""
COUNTED = ("pre", "li", "tr", "img", "blockquote")
NEVER_ASKED = (
    "https://unpkg.com/mermaid@",  # only for diagrams in Mermaid's language
    "https://unpkg.com/resize-observer-polyfill",  # only in browsers of before 2020
    "https://api.github.com/",  # these two only with `repo_url`
    "https://${e}/api/v4/projects/",
)
"""Addresses in the theme's own scripts, each for a case that this site does not have."""


class Elements(HTMLParser):
    """The elements of a page: all with their attributes; those of its article counted, with the lists around each."""

    def __init__(self, html: str):
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.article: Counter[tuple[str, ...]] = Counter()
        self._lists: list[str] = []
        self._inside = "<article" not in html
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))
        self._inside |= tag == "article"
        if self._inside and tag in COUNTED:
            self.article[*self._lists, tag] += 1
        if tag in ("ul", "ol"):
            self._lists.append(tag)

    def handle_endtag(self, tag):
        self._inside &= tag != "article"
        if tag in ("ul", "ol"):
            self._lists.pop()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_no_page_loads_anything_from_another_host(site):
    for page in site.rglob("*.html"):
        for tag, attributes in Elements(page.read_text()).all:
            place = attributes.get(SOURCES.get(tag, ""))
            assert place is None or not ELSEWHERE.match(place), f"{page.name}: <{tag}> {place}"
    for style in site.rglob("*.css"):
        for place in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", style.read_text()):
            assert not ELSEWHERE.match("".join(place)), f"{style.name}: {place}"
    for script in site.rglob("*.js"):
        if script.name != "search_index.js":
            addresses = re.findall(r"""["'`](https?://[^"'` ]*)""", script.read_text())
            assert all(place.startswith(NEVER_ASKED) for place in addresses), f"{script.name}: {addresses}"


def test_the_cases_of_the_themes_own_addresses_do_not_arise(site):
    configuration = (ROOT / "mkdocs.yml").read_text()
    assert "repo_url" not in configuration
    for page in site.rglob("*.html"):
        assert not any("mermaid" in (node.get("class") or "") for _, node in Elements(page.read_text()).all), page


def test_the_site_shows_the_same_as_a_repositorys_page(site):
    """Readers of Markdown differ about lists and code in them: both must find the same blocks, items and rows."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    for path in [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("experiments/*/*.md"), *WEIGHTS.glob("*.md")]:
        text = path.read_text()
        if ":::" not in text:
            uri = path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT)
            name = "overview" if path == ROOT / "README.md" else uri.stem.replace("README", "index")
            page = site / uri.with_name(f"{name}.html")
            assert Elements(page.read_text()).article == Elements(markdown.render(text)).article, path


def test_the_reference_has_every_public_name(site):
    anchors = {node.get("id") for page in site.glob("reference/*.html") for _, node in Elements(page.read_text()).all}
    names = [getattr(engram, name) for name in engram.__all__ if name != "presets"]
    for module in ("engram.presets", "engram.search.operators"):
        members = vars(importlib.import_module(module))
        names += [members[name] for name in members["__all__"] if members[name].__doc__ and callable(members[name])]
    missing = {f"{name.__module__}.{name.__name__}" for name in names} - anchors
    assert not missing


def test_every_study_and_every_picture_of_it_is_there(site):
    for study in ROOT.glob("experiments/*/RESULTS.md"):
        page = site / study.relative_to(ROOT).with_suffix(".html")
        pictures = [node["src"] for tag, node in Elements(page.read_text()).all if tag == "img"]
        assert len(pictures) == study.read_text().count("![")
        assert all((page.parent / picture).is_file() for picture in pictures)


def test_every_link_of_a_page_leads_to_a_file_of_the_site(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its links are those of a server
            continue
        for tag, attributes in Elements(page.read_text()).all:
            place = unquote((attributes.get("href") or "").partition("#")[0])
            if tag == "a" and place and not re.match(r"[a-z]+:", place):
                assert (page.parent / place).exists(), f"{page.relative_to(site)}: {place}"


def test_a_browser_reads_and_searches_the_site_from_the_disk(site):
    """Opened as a file, without a server: every request is for a file, and the search answers."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    # Playwright wants a thread of its own: in this one, tests of the page may have left a browser open.
    with ThreadPoolExecutor(1) as thread:
        addresses = thread.submit(_read_and_searched, playwright, chromium, site).result()
    assert addresses
    assert all(place.startswith(("file:", "data:", "blob:", "about:")) for place in addresses), addresses


def _read_and_searched(playwright, chromium, site):
    """The addresses that a browser asks for, while it reads pages and searches."""
    with playwright.sync_playwright() as player:
        options = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
        browser = player.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page(viewport={"width": 390, "height": 844})
        addresses: list[str] = []
        page.on("request", lambda request: addresses.append(request.url))
        for name in ("claims.html", "reference/engram.html", "experiments/backup_truth/RESULTS.html", "index.html"):
            page.goto(f"file://{site}/{name}")
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} is cut off"
        page.click("label[for=__search]:visible")
        page.wait_for_function("document.querySelector('.md-search-result__meta').textContent.startsWith('Type')")
        page.locator("input.md-search__input").press_sequentially("transpositions")
        page.wait_for_selector(".md-search-result__item a[href*='methods/transpositions']")
        browser.close()
    return addresses
