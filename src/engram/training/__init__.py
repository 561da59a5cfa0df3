"""Everything that trains: networks, on PyTorch, and tables of values (`td`), without it."""

from __future__ import annotations

from importlib.util import find_spec

from engram.errors import MissingPackage


def require(what: str) -> None:
    """Sees that PyTorch is installed.

    Raises:
      MissingPackage: it is not; the sentence says how to get it for `what`.
    """
    if find_spec("torch") is None:
        raise MissingPackage(f"{what} needs PyTorch: pip install 'engram[learn]'")
