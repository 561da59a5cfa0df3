"""Uniform and heavy Go rollouts a second from the empty board, in turns in one process."""

from __future__ import annotations

import time

from engram.games.registry import game as game_of
from engram.interfaces.bench import _many_rollouts
from engram.rng import new_rng

for size, count in ((9, 4000), (19, 500)):
    game, rng = game_of(f"go:{size}"), new_rng(1)
    target, source = game.new_buffer(), game.new_buffer()
    game.write(source, game.initial_state())
    for what in ("rollout", "heavy_rollout") * 2:
        arguments = (game.address(what), game.address("copy"), target, source, len(source), rng)
        _many_rollouts(*arguments, 50)
        begun = time.perf_counter()
        _many_rollouts(*arguments, count)
        print(f"go:{size} {what:14} {count / (time.perf_counter() - begun):10,.0f}/s")
