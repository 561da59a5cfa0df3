"""Why this move and not the next: a search's two best moves, compared over its course."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from engram.drivers.limit import Limit, check_limit
from engram.drivers.result import MoveStatistics, SearchResult, player_name, shown
from engram.drivers.search import Search
from engram.errors import IllegalAction, check_whole
from engram.games.game import Game
from engram.games.state import State

LOOKS = 20
"""The largest number of moments that an explanation shows."""


@dataclass(frozen=True)
class Look:
    """The two moves at a moment of the search.

    Attributes:
      simulations, seconds: since the search began.
      visits, value: of the best move and of the second; values for the player to move, in the game's units.
      leader: the name of the most visited move at that moment.
    """

    simulations: int
    seconds: float
    visits: tuple[int, int]
    value: tuple[float, float]
    leader: str


@dataclass(frozen=True)
class Line:
    """A move, the most visited line from it, and the position at the end of the line.

    Attributes:
      move: its statistics. moves: names of the line's moves, this one first. diagram: of the position.
    """

    move: MoveStatistics
    moves: tuple[str, ...]
    diagram: str


@dataclass(frozen=True)
class Explanation:
    """The reasons of a search for its move; `print(explanation)` shows them.

    Attributes:
      result: of the search.
      best: the move it plays. next: its second choice; None if there is only one move.
      looks: the two moves over time; the last look is at the end of the search.
      reasons: sentences.
    """

    result: SearchResult
    best: Line
    next: Line | None
    looks: tuple[Look, ...]
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data for programs: the result's, with the further key `explanation`."""
        lines = {"best": self.best, "next": self.next}
        return {
            **self.result.to_json(),
            "explanation": {
                "reasons": list(self.reasons),
                "looks": [asdict(look) for look in self.looks],
                **{
                    name: line and {"action": line.move.name, "line": list(line.moves), "diagram": line.diagram}
                    for name, line in lines.items()
                },
            },
        }

    def __str__(self) -> str:
        parts = [*self.reasons]
        if self.next is None:
            return "\n".join(parts)
        names = (self.best.move.name, self.next.move.name)
        parts += ["", f"{'':>12}  {names[0]:^18}  {names[1]:^18}"]
        parts.append(f"{'simulations':>12}  {'visits':>10} {'value':>7}  {'visits':>10} {'value':>7}  most visited")
        for look in self.looks:
            numbers = zip(look.visits, look.value, strict=True)
            pairs = "  ".join(f"{n:>10,} {shown(v, self.result.bounds):>7}" for n, v in numbers)
            parts.append(f"{look.simulations:>12,}  {pairs}  {look.leader}")
        boards = [[" ".join(line.moves), *line.diagram.splitlines()] for line in (self.best, self.next)]
        width = max(map(len, boards[0]))
        rows = zip_longest(*boards, fillvalue="")
        parts += ["", *(f"{row:<{width}}    {other}".rstrip() for row, other in rows)]
        return "\n".join(parts)


def explain(
    search: Search, state: State, limit: Limit, *, seed: int | None = 0, length: int = 6,
    stop: Callable[[], bool] | None = None, only: str | Sequence[int | str] | None = None,
) -> Explanation:  # fmt: skip
    """Runs a search as `Search.run` does and explains its move.

    Args:
      search, state, limit, seed, stop, only: as in `Search.run`; the tree is the same.
      length: the largest number of moves in a line, ≥ 1.

    Raises:
      EngramError: as `Search.run` does.

    Cost: a readout of the root's moves at about `LOOKS` moments.
    """
    check_limit(limit)
    check_whole("length", length, 1)
    moments: list[tuple[int, float, dict[int, tuple[int, float]]]] = []

    def look(simulations: int, seconds: float) -> None:
        moves = search.moves()
        statistics = zip(moves.action.tolist(), moves.visits.tolist(), moves.value.tolist(), strict=True)
        moments.append((simulations, seconds, {action: (visits, value) for action, visits, value in statistics}))

    every = max(1, limit.simulations // LOOKS) if limit.simulations else None
    result = search.run(state, limit, seed=seed, progress=look, every=every, stop=stop, only=only)
    if not moments or moments[-1][0] != result.simulations:
        look(result.simulations, result.seconds)
    best = result.move(result.action)
    others = [move for move in result.moves if move.action != result.action]
    second = others[0] if others else None
    game = search.game
    names = {move.action: move.name for move in result.moves}
    looks = []
    places = np.unique(np.linspace(0, len(moments) - 1, min(LOOKS, len(moments))).astype(int))  # the last included
    for simulations, seconds, table in (moments[place] for place in places):
        visits, values = zip(table[best.action], table[second.action] if second else (0, 0.0), strict=True)
        leader = names[max(table, key=table.__getitem__)]
        looks.append(Look(simulations, seconds, visits, values, leader))
    return Explanation(
        result, _line(game, state, best, length), _line(game, state, second, length) if second else None, tuple(looks),
        tuple(_reasons(result, best, second, looks)),
    )  # fmt: skip


def _line(game: Game, state: State, move: MoveStatistics, length: int) -> Line:
    moves: list[str] = []
    for name in move.principal_variation[:length]:
        try:
            state = game.play(state, game.parse_action(name, state))
        except IllegalAction:  # the tree merged two positions that share a hash
            break
        moves.append(name)
    return Line(move, tuple(moves), game.render(state))


def _reasons(result: SearchResult, best: MoveStatistics, second: MoveStatistics | None, looks: list[Look]) -> list[str]:
    mover, bounds = player_name(result.player, result.players), result.bounds
    total = max(1, sum(move.visits for move in result.moves))
    if second is None:
        return [f"{best.name} is the only legal move."]
    reasons = [
        f"{mover} plays {best.name} (value {shown(best.value, bounds)}, {best.visits / total:.0%} of the visits) and "
        f"not {second.name} ({shown(second.value, bounds)}, {second.visits / total:.0%})."
    ]
    if second.visits == 0:
        reasons.append(f"The search did not visit {second.name}.")
    elif best.proven and second.proven and best.value == second.value:
        reasons.append("The proven values are equal.")
    elif best.proven and best.value >= second.value:
        reasons.append(f"The proof of {best.name} decides.")
    elif best.low > second.high:
        reasons.append(f"The intervals do not overlap: {best.name} is clearly better by this search.")
    elif best.value >= second.value:
        reasons.append("The intervals overlap: by their values alone either move could be the better.")
    else:
        reasons.append(
            f"{second.name} has the higher value after fewer visits: the visits decide, and more search may change it."
        )
    for move in (best, second):
        if move.proven:
            value = shown(move.value, bounds) if result.bounds != (-1.0, 1.0) else f"{move.value:+.0f}"
            reasons.append(f"The value of {move.name}, {value}, is proven and not an estimate.")
    others = [k for k, look in enumerate(looks) if look.leader != best.name]
    if others and others[-1] + 1 < len(looks):
        before, after = looks[others[-1]], looks[others[-1] + 1]
        reasons.append(
            f"{before.leader} was the most visited at {before.simulations:,} simulations, "
            f"{best.name} from {after.simulations:,} on."
        )
    elif not others:
        reasons.append(f"{best.name} was the most visited at every look.")
    priors = [move.prior for move in result.moves]
    if max(priors) - min(priors) > 1e-6:
        share = best.visits / total
        rank = sorted(priors, reverse=True).index(best.prior) + 1
        pull = "raised" if share > best.prior else "lowered"
        reasons.append(
            f"The prior gave {best.name} {best.prior:.1%} (rank {rank}) and {second.name} {second.prior:.1%}; "
            f"the search {pull} {best.name} to {share:.1%}."
        )
    return reasons
