"""Networks and their training; the one package that imports PyTorch."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from engram.errors import MissingPackage


def require(what: str) -> None:
    """Sees that PyTorch is installed.

    Raises:
      MissingPackage: it is not; the sentence says how to get it for `what`.
    """
    if find_spec("torch") is None:
        raise MissingPackage(f"{what} needs PyTorch: pip install 'engram[learn]'")


def named_network(name: str, **options: Any) -> Any:
    """The network that a preset names (see `engram.networks.by_name.NamedNetwork`).

    Raises:
      MissingPackage: PyTorch is not installed. InvalidFile: there is no such network.
    """
    require("a network")
    from engram.networks.by_name import NamedNetwork

    return NamedNetwork(name, **options)
