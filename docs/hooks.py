"""The documentation site from the repository as it stands: pages outside `docs/`, links to them, the list of commands.

A link in a page is that of the repository. On the site a link to a page or a picture leads to it, and a link to any
other file leads to a page that shows the file, so that no link needs another host.
"""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FRONT = ROOT / "README.md"
OUTSIDE = (
    "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "experiments/*/RESULTS.md",
    "src/engram/networks/weights/*.md",
)  # fmt: skip
SHOWN_AS_THEY_ARE = {".ipynb", ".json", ".png"}
PICTURE = re.compile(r"^!\[[^\]]*\]\(([^)]+)\)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[#)])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages outside `docs/`, the files that pages link to, and the page of commands."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, _uri(path), abs_src_path=str(path)))
    for page in list(files.documentation_pages()):
        for target in _targets(page):
            if target.is_file() and files.get_file_from_path(_uri(target)) is None:
                files.append(_shown(config, target))
    files.append(File.generated(config, "reference/commands.md", content=_commands()))
    if config.nav is not None:
        config.nav = _expanded(config.nav, files, _named(config.nav))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns the repository's links into the site's; a picture leads to itself, in its full size."""
    here = page.file
    if here.abs_src_path is None:
        return markdown
    folder = Path(here.abs_src_path).parent

    def turned(link: re.Match[str]) -> str:
        path = (folder / link[1]).resolve()
        uri = _uri(path / "README.md" if path.is_dir() else path)
        if files.get_file_from_path(uri) is None:
            return link[1]
        return posixpath.relpath(uri, posixpath.dirname(here.src_uri) or ".")

    return PICTURE.sub(r"[\g<0>](\1)", LINK.sub(turned, markdown))


def _uri(path: Path) -> str:
    """A file's place on the site."""
    if path == FRONT:
        return "overview.md"
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    place = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    shown = path.suffix in SHOWN_AS_THEY_ARE or any(fnmatch(place, pattern) for pattern in OUTSIDE)
    return place if shown else f"source/{place}.md"


def _targets(page: File) -> set[Path]:
    """The files of the repository that a page links to."""
    if page.abs_src_path is None:
        return set()
    source = Path(page.abs_src_path)
    targets = {(source.parent / link).resolve() for link in LINK.findall(source.read_text(encoding="utf-8"))}
    return {target for target in targets if target.is_relative_to(ROOT)}


def _shown(config: MkDocsConfig, path: Path) -> File:
    if path.suffix in SHOWN_AS_THEY_ARE:
        return File.generated(config, _uri(path), abs_src_path=str(path))
    language = {".py": "python", ".sh": "bash"}.get(path.suffix, "text")
    name = path.relative_to(ROOT).as_posix()
    head = f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n# `{name}`\n\n"
    return File.generated(config, _uri(path), content=f"{head}````{language}\n{path.read_text(encoding='utf-8')}````\n")


def _commands() -> str:
    """All commands with their options, as `--help` prints them."""
    import typer
    from typer.cli import get_docs_for_click

    from engram.cli.app import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="engram"), name="engram")
    return "---\ntitle: Commands\n---\n" + text.replace("# `engram`", "# Commands", 1)


def _named(nav: Any) -> set[str]:
    """The pages that have a line of their own."""
    if isinstance(nav, str):
        return {nav}
    return {name for item in (nav.values() if isinstance(nav, dict) else nav) for name in _named(item)}


def _expanded(nav: list[Any], files: Files, named: set[str]) -> list[Any]:
    items: list[Any] = []
    for item in nav:
        if isinstance(item, dict):
            items += [
                {title: _expanded(below, files, named) if isinstance(below, list) else below}
                for title, below in item.items()
            ]
        elif item.endswith("*"):
            pages = sorted((file for file in files.documentation_pages() if _under(file.src_uri, item)), key=_title)
            items += [file.src_uri for file in pages if file.src_uri not in named]
        else:
            items.append(item)
    return items


def _under(uri: str, pattern: str) -> bool:
    folder = posixpath.dirname(pattern)
    return uri.startswith(f"{folder}/") if folder else "/" not in uri


def _title(file: File) -> str:
    heading = re.search(r"^# (.+)", file.content_string, re.MULTILINE)
    return heading[1] if heading else file.src_uri
