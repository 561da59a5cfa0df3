"""Why isn't it learning? Checks on the last episodes that name the cause in one sentence each."""

from __future__ import annotations

import numpy as np

from engram.games.game import Game
from engram.learning.td_configuration import TdConfiguration

WINDOW = 100
FEWEST = 20


def diagnose(configuration: TdConfiguration, game: Game, history: np.ndarray) -> list[str]:
    """What looks wrong in the last episodes of a training; empty where nothing does.

    Args:
      configuration: of the training. game: its game.
      history: one record an episode (`td.episode_dtype`), oldest first.

    Nothing is said of fewer than 20 episodes. The bounds are rules of thumb: a sentence here is a place to look at.
    """
    recent = history[-WINDOW:]
    if len(recent) < FEWEST:
        return []
    found = []
    decided = recent[recent["outcome"] != 0]
    if len(decided) >= FEWEST // 2 and decided["agreement"].mean() < -0.05:
        found.append(
            f"sign of view: values near the end of the last {len(decided)} decided games are against their outcomes "
            f"(mean value·outcome {decided['agreement'].mean():+.2f}): does the game's rollout answer for player 0, as "
            "outcome does?"
        )
    if not len(decided) and not recent["largest"].any():
        found.append(
            f"reward never reached: none of the last {len(recent)} games was decided, and every position on the board "
            "is worth exactly 0: neither games nor rollouts reach a win"
        )
    visits = float(recent["visits"][-FEWEST:].mean())
    if configuration.min_step < 1e-3 and visits > 1000:
        step = max(configuration.min_step, 1.0 / visits)
        found.append(
            f"step size vanished: positions on the board have {visits:,.0f} visits, so a return moves them by "
            f"{step:.5f}; raise min_step (the thesis has 0.005)"
        )
    concentration = float(recent["concentration"].mean())
    if concentration > 0.98:
        found.append(
            f"exploration collapsed: one move has {100 * concentration:.1f} % of all visits of its position; raise "
            "exploration"
        )
    distinct = len(np.unique(recent["game"]))
    if distinct < 0.2 * len(recent):
        found.append(
            f"the same game again and again: only {distinct} different games among the last {len(recent)}; raise "
            "epsilon, replay or opening_moves"
        )
    played, plain = int(history[-1]["played_states"]), int(history[-1]["plain_states"])
    images = len(game.symmetries)
    if not configuration.symmetric and images > 1:
        found.append(f"symmetric positions not shared: {images} images of a position are learned one by one")
    elif configuration.symmetric and images > 1 and played == plain and plain > 1000:
        found.append(
            f"symmetric positions not shared: {game.name} names {images} symmetries, but its canonical_hash joined "
            f"none of {plain:,} positions"
        )
    return found
