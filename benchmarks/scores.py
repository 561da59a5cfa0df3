"""How far the scores and owners of an analysis are from the end of the game: python benchmarks/scores.py 24 --seed 5.

go9 plays against itself after four random moves; every sixth position is judged by `gtp/territory.py`.
"""

from __future__ import annotations

import argparse

import numpy as np

import engram
from engram.games.go.board import MAX_POINTS, add_owners
from engram.games.state import Position
from engram.gtp.territory import territory

SIMULATIONS, EVERY, OPENING, KOMI = 150, 6, 4, 7.5


def final_owners(state: Position) -> np.ndarray:
    """The owners of the points of a board as it stands, (81,)."""
    owners = np.zeros(MAX_POINTS, np.int64)
    add_owners(np.asarray(state).reshape(-1)[0], owners)
    return owners[:100].reshape(10, 10)[1:, 1:].ravel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", type=int)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    game, rng = engram.game(f"go:9,komi={KOMI}"), np.random.default_rng(options.seed)
    player = engram.Search(game, "puct(network='go9',num_leaves=4)")
    rows = []
    for _ in range(options.games):
        state, line = game.initial_state(), []
        for _ in range(OPENING):
            state = game.play(state, int(rng.choice(game.legal_actions(state)[:-1])))
        while not game.is_over(state):
            limit, seed = engram.Limit(simulations=SIMULATIONS), int(rng.integers(1e9))
            line.append((state, player.run(state, limit, seed=seed)))
            state = game.play(state, line[-1][1].action)
        owners = final_owners(state)
        for position, result in line[::EVERY]:
            estimate = territory(game, position, result, 1)
            rows.append((owners.sum() - KOMI, estimate.lead, np.abs(estimate.ownership - owners).mean()))
    final, lead, by_point = np.array(rows).T
    missed = np.abs(lead - final)
    print(f"{len(rows)} positions: the score misses by {missed.mean():.1f} points, in the median by "
          f"{np.median(missed):.1f}; its sign is right in {np.mean(np.sign(lead) == np.sign(final)):.1%}; "
          f"an owner misses by {by_point.mean():.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
