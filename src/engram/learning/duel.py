"""Is one network stronger than another? Pairs of games side by side, until a test is sure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engram.arena.play import opening
from engram.arena.statistics import Sprt, SprtRun, Standing, standing
from engram.games.game import Game, State
from engram.rng import derive_seed
from engram.search.limit import Limit
from engram.search.lockstep import Lockstep
from engram.search.presets import Preset


def duel(
    game: Game,
    a: Preset,
    b: Preset,
    *,
    simulations: int,
    pairs: int,
    side_by_side: int = 64,
    opening_moves: int = 4,
    sprt: Sprt | None = None,
    seed: int = 0,
    progress: Callable[[Standing], None] | None = None,
) -> Standing:
    """Plays up to `pairs` pairs of games from random openings, each from both sides; the standing of A.

    Args:
      a, b: with evaluators, which see the leaves of all games as one batch.
      side_by_side: games at once, even, ≥ 2. opening_moves: random moves at the start.
      sprt: ends the duel when it is decided; pairs count in their order.
    """
    players = {"A": Lockstep(game, a, side_by_side), "B": Lockstep(game, b, side_by_side)}
    test = SprtRun(sprt) if sprt is not None else None
    outcomes: list[list[float]] = []
    for first in range(0, pairs, side_by_side // 2):
        chosen = range(first, min(pairs, first + side_by_side // 2))
        for pair in _play(game, players, chosen, simulations, opening_moves, seed):
            outcomes.append(pair)
            if test is not None and test.add(pair):
                return standing(outcomes)
        if progress is not None:
            progress(standing(outcomes))
    return standing(outcomes)


def _play(
    game: Game, players: dict[str, Lockstep], pairs: Sequence[int], simulations: int, opening_moves: int, seed: int
) -> list[list[float]]:
    """Outcomes for A of both games of each pair."""
    numbers = [(pair, second) for pair in pairs for second in (0, 1)]
    states: list[State] = [opening(game, seed, pair, opening_moves)[1] for pair, _ in numbers]
    for searcher in players.values():
        for tree in range(len(numbers)):
            searcher.clear(tree)
    limit = Limit(simulations=simulations)
    for move in range(game.max_moves):
        running = [at for at, state in enumerate(states) if not game.is_over(state)]
        if not running:
            break
        chosen: dict[int, int] = {}
        for side, searcher in players.items():
            turn = [at for at in running if ("AB" if numbers[at][1] == 0 else "BA")[game.to_play(states[at])] == side]
            seeds = [derive_seed(seed, "duel", *numbers[at], move) for at in turn]
            if turn:
                found = searcher.run([states[at] for at in turn], limit, seeds, trees=turn)
                chosen |= {at: one.action for at, one in zip(turn, found, strict=True)}
        for at, action in chosen.items():
            states[at] = game.play(states[at], action)
            for searcher in players.values():
                searcher.advance(at, action)
    results = [game.outcome(state) if game.is_over(state) else 0.0 for state in states]
    for_a = [value if second == 0 else -value for (_, second), value in zip(numbers, results, strict=True)]
    return [for_a[at : at + 2] for at in range(0, len(for_a), 2)]
