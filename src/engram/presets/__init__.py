"""Presets: complete searches by name; the one place for constants from papers."""

from engram.presets.entropy import bts, dents, ments, rents, tents
from engram.presets.memory import memory_puct, memory_uct
from engram.presets.rollouts import epsilon_greedy, greedy, history_uct, puct, puct_rave, rave, uct, uct_prior
from engram.presets.values import sarsa_uct, td_uct
from engram.search.extensions import bias_correction as _bias_correction  # noqa: F401 - `backup=bias_correction`
from engram.search.preset import Preset

__all__ = [
    "Preset", "bts", "dents", "epsilon_greedy", "greedy", "history_uct", "memory_puct", "memory_uct", "ments", "puct",
    "puct_rave", "rave", "rents", "sarsa_uct", "td_uct", "tents", "uct", "uct_prior",
]  # fmt: skip
