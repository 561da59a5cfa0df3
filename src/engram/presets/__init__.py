"""Presets: complete searches by name; the one place for constants from papers."""

from engram.presets.history import history_uct
from engram.presets.memory import memory_puct, memory_uct
from engram.presets.rollouts import epsilon_greedy, greedy, puct, rave, uct, uct_prior
from engram.presets.values import td_uct
from engram.search.preset import Preset

__all__ = [
    "Preset",
    "epsilon_greedy",
    "greedy",
    "history_uct",
    "memory_puct",
    "memory_uct",
    "puct",
    "rave",
    "td_uct",
    "uct",
    "uct_prior",
]
