"""The page's own modules and styles as texts, for places that cannot ask a server: reports and notebooks."""

from __future__ import annotations

import re
from pathlib import Path

STATIC = Path(__file__).parents[1] / "web" / "static"
"""The page's own files."""
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


def bundle(*names: str) -> str:
    """Modules of the page as one module, in their order: they share their names, and import nothing.

    Args:
      names: of files; a file comes before those that import it.
    """
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", file(f"{name}.js"))) for name in names)


def file(name: str) -> str:
    """The text of a file of the page."""
    return (STATIC / name).read_text(encoding="utf-8")
