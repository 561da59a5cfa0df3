"""Training: networks, with PyTorch, and tables of values (`td`), without it."""

from __future__ import annotations

from importlib.util import find_spec

from engram.errors import MissingPackage


def require_torch() -> None:
    """Checks that PyTorch is installed.

    Raises:
      MissingPackage: it is not; the error names the extra that installs it.
    """
    if find_spec("torch") is None:
        raise MissingPackage("training needs PyTorch: pip install 'engram[learn]'")
