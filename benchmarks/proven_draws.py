"""Proofs, mistakes and errors of `uct(solver=true)` on random positions of small games with draws.

python benchmarks/proven_draws.py [positions]

A mistake is a move of a lower exact value than the best one. Errors are those of the root's value for the mover.
"""

from __future__ import annotations

import math
import random
import sys

import engram

GAMES = (  # name, random moves before a position, simulations
    ("dots_and_boxes:rows=2,columns=2", (5, 6, 7), (1000, 4000, 16_000)),
    ("tic_tac_toe", (0, 1, 2, 3), (400, 1600)),
)


def exact(game, state, values: dict[int, float]) -> float:
    """The game's value for player 0, kept in `values` by the position's hash."""
    key = int(game.hash(state))
    if key not in values:
        sign = 1 - 2 * game.to_play(state)
        replies = [sign * exact(game, game.play(state, action), values) for action in game.legal_actions(state)]
        values[key] = sign * max(replies) if replies else game.outcome(state)
    return values[key]


def main(positions: int) -> None:
    for name, lengths, budgets in GAMES:
        game, rng, values = engram.game(name), random.Random(11), {}
        states = []
        while len(states) < positions:
            state = game.initial_state()
            for _ in range(rng.choice(lengths)):
                state = game.play(state, rng.choice(list(game.legal_actions(state))))
            states.append(state)
        for simulations in budgets:
            proofs = mistakes = squares = 0
            for seed, state in enumerate(states):
                value = exact(game, state, values)
                search, limit = engram.Search(game, "uct(solver=true)"), engram.Limit(simulations=simulations)
                result = search.run(state, limit, seed=seed)
                proofs += result.stopped == "proven"
                mistakes += exact(game, game.play(state, result.action), values) != value
                squares += (result.value - (1 - 2 * game.to_play(state)) * value) ** 2
            error = math.sqrt(squares / positions)
            print(f"{name}, {simulations} simulations: {proofs} proofs, {mistakes} mistakes, error {error:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
