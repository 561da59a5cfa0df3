"""engram: Monte-Carlo tree search that remembers.

import engram

game = engram.game("connect_four")
search = engram.Search(game, engram.presets.uct(exploration=1.0))
result = search.run(game.initial_state(), engram.Limit(simulations=10_000), seed=0)
print(result)
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engram import presets as presets
    from engram.arena.match import match as match
    from engram.arena.statistics import Sprt as Sprt
    from engram.conformance.game_contract import check_game as check_game
    from engram.drivers.limit import Limit as Limit
    from engram.drivers.lockstep import Lockstep as Lockstep
    from engram.drivers.planning import plan as plan
    from engram.drivers.search import Search as Search
    from engram.errors import EngramError as EngramError
    from engram.games.catalogue import game as game
    from engram.games.game import Game as Game
    from engram.games.python_game import PythonGame as PythonGame
    from engram.search.evaluation import Evaluation as Evaluation
    from engram.search.extension import Extension as Extension
    from engram.web.widget import widget as widget

__version__ = "0.2.0"
logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent until someone listens

# Names are looked up on first use, so that `engram --help` does not wait for the compiler to load.
_HOMES = {
    "EngramError": "engram.errors",
    "Evaluation": "engram.search.evaluation",
    "Extension": "engram.search.extension",
    "Game": "engram.games.game",
    "Limit": "engram.drivers.limit",
    "Lockstep": "engram.drivers.lockstep",
    "PythonGame": "engram.games.python_game",
    "Search": "engram.drivers.search",
    "Sprt": "engram.arena.statistics",
    "check_game": "engram.conformance.game_contract",
    "game": "engram.games.catalogue",
    "match": "engram.arena.match",
    "plan": "engram.drivers.planning",
    "widget": "engram.web.widget",
}
__all__ = [*sorted(_HOMES), "presets"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "presets":
        return import_module("engram.presets")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'engram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
