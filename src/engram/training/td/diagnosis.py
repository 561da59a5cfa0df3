"""Checks of the last episodes that name causes of failed learning, in one sentence each."""

from __future__ import annotations

import random
from functools import cache

import numpy as np

from engram.games.game import Game, random_line
from engram.native.intrinsics import call_float
from engram.native.jit import compiled
from engram.rng import derive_seed, new_rng
from engram.training.td.settings import TdConfiguration

WINDOW = 100
FEWEST = 20
_SAMPLES = 100
_BEFORE_THE_END = 3


def diagnose(configuration: TdConfiguration, game: Game, history: np.ndarray) -> list[str]:
    """Suspicious findings in the last episodes of a training, from one record per episode (`episode_dtype`).

    Fewer than 20 episodes have no findings. The bounds are rules of thumb: a finding is a place to look at.
    """
    recent = history[-WINDOW:]
    if len(recent) < FEWEST:
        return []
    findings = []
    agreement = rollout_agreement(game, "rollout" if configuration.rollout == "uniform" else "heavy_rollout")
    if agreement < -0.1:
        findings.append(
            f"sign of view: the game's rollout answers against the outcomes that play reaches (mean of their product "
            f"{agreement:+.2f}, which should not be below 0): both must be for player 0"
        )
    if not recent["outcome"].any() and not recent["largest"].any():
        findings.append(
            f"reward never reached: none of the last {len(recent)} games was decided, and every position on the board "
            "is worth exactly 0: neither games nor rollouts reach a win"
        )
    visits = float(recent["visits"][-FEWEST:].mean())
    if configuration.min_step < 1e-3 and visits > 1000:
        step = max(configuration.min_step, 1.0 / visits)
        findings.append(
            f"step size vanished: positions on the board have {visits:,.0f} visits, so a return moves them by "
            f"{step:.5f}; raise min_step (the thesis has 0.005)"
        )
    concentration = float(recent["concentration"].mean())
    if concentration > 0.98:
        share = f"{100 * concentration:.1f} % of all visits of its position"
        findings.append(f"exploration collapsed: one move has {share}; raise exploration")
    distinct = len(np.unique(recent["game"]))
    if distinct < 0.2 * len(recent):
        findings.append(
            f"the same game again and again: only {distinct} different games among the last {len(recent)}; raise "
            "epsilon, replay or opening_moves"
        )
    replaced = int(history[-1]["searched_states"]) - configuration.capacity
    if replaced > 0:
        findings.append(f"the table is full: at least {replaced:,} entries were replaced by others; raise capacity")
    played, plain = int(history[-1]["played_states"]), int(history[-1]["plain_states"])
    images = len(game.symmetries)
    if not configuration.symmetric and images > 1:
        findings.append(f"symmetric positions not shared: {images} images of a position are learned one by one")
    elif configuration.symmetric and images > 1 and played == plain and plain > 1000:
        findings.append(
            f"symmetric positions not shared: {game.name} names {images} symmetries, but its canonical_hash joined "
            f"none of {plain:,} positions"
        )
    return findings


@compiled
def _roll_out(address, state, rng):
    return call_float(address, (state, rng))


@cache
def rollout_agreement(game: Game, policy: str = "rollout") -> float:
    """Mean product of a random game's outcome and of a rollout from 3 moves before its end.

    The mean product of two independent returns of one position is the square of its value. It is clearly below 0 only
    if one of them is for the wrong player. The result is The result is 0 if the game has no such rollout.
    """
    if not game.compiled or not game.address(policy):
        return 0.0
    draws, rng = random.Random(derive_seed("rollout", game.name)), new_rng(1)
    buffer, products = game.new_buffer(), []
    for _ in range(_SAMPLES):
        moves, end = random_line(game, draws)
        game.write(buffer, game.play_moves(moves[:-_BEFORE_THE_END]))
        products.append(_roll_out(game.address(policy), buffer.ctypes.data, rng.ctypes.data) * game.outcome(end))
    return float(np.mean(products))
