"""The result of a match, as data and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from engram.arena.configuration import MatchConfiguration
from engram.arena.game_record import GameRecord
from engram.arena.results import Results
from engram.arena.statistics import SprtState, Standing, sprt_state, standing


@dataclass(frozen=True)
class SideFigures:
    """Figures of one side.

    Attributes:
      player: its specification.
      moves: number of its moves, without those of the opening.
      simulations: mean a move; positions visited for a search by depth.
      seconds: mean a move.
    """

    player: str
    moves: int
    simulations: float
    seconds: float


@dataclass(frozen=True)
class MatchResult(Standing):
    """A match so far, or at its end: its `Standing` and more; `print(result)` shows a table. All figures are for A.

    Attributes:
      configuration: of the match.
      distinct_games: number of different move sequences.
      first_wins, first_draws, first_losses: games of the side that moved first.
      a, b: figures of the sides.
      sprt: state of the sequential test, or None.
      complete: whether all games are played, or the test has ended the match.
      forfeits: number of games that a side lost by resigning or failing.
      disputed: numbers of the games that a judge decided, because the board and a program's own count named different
        winners.
      match_id: in the database; None if nothing is recorded.
      database: its file or URL; None if nothing is recorded.
    """

    configuration: MatchConfiguration
    distinct_games: int
    first_wins: int
    first_draws: int
    first_losses: int
    a: SideFigures
    b: SideFigures
    sprt: SprtState | None
    complete: bool
    forfeits: int
    disputed: tuple[int, ...]
    match_id: int | None
    database: str | None

    @property
    def standing(self) -> Standing:
        """Wins, draws, losses, score and Elo alone."""
        return Standing(**{one.name: getattr(self, one.name) for one in fields(Standing)})

    @property
    def verdict(self) -> str:
        """One sentence: which side is stronger, or that no difference was seen."""
        if self.games == 0:
            return "no games were played yet"
        if not self.decided:
            return "no difference seen: the 95 % interval contains 50 %"
        return f"{'A' if self.score > 0.5 else 'B'} is stronger (95 % interval)"

    def to_json(self) -> dict[str, Any]:
        """Plain data for programs; numbers that are not finite become None."""
        return {
            **{name: _finite(number) for name, number in asdict(self.standing).items()},
            "games": self.games,
            "distinct_games": self.distinct_games,
            "verdict": self.verdict,
            "complete": self.complete,
            "forfeits": self.forfeits,
            "disputed": list(self.disputed),
            "first_player": {"wins": self.first_wins, "draws": self.first_draws, "losses": self.first_losses},
            "a": asdict(self.a),
            "b": asdict(self.b),
            "sprt": asdict(self.sprt) if self.sprt is not None else None,
            "match_id": self.match_id,
            "database": self.database,
            "configuration": self.configuration.to_json(),
        }

    def __str__(self) -> str:
        configuration = self.configuration
        budgets = set(map(_budget, configuration.limits.values()))
        budget = budgets.pop() if len(budgets) == 1 else " / ".join(map(_budget, configuration.limits.values()))
        ended = f", resigned at {configuration.resign:g}" if configuration.resign is not None else ""
        heading = (
            f"{configuration.game}: {self.games} games, {budget} a move{ended}, {self.distinct_games} different games"
        )
        lines = [heading if self.complete else f"{heading} (of {configuration.games} asked for)"]
        rows: list[tuple[str, ...]] = [
            ("", "player", "wins", "draws", "losses", "score", "simulations/move", "ms/move")
        ]
        for side, spent, wins, losses, score in (
            ("A", self.a, self.wins, self.losses, self.score),
            ("B", self.b, self.losses, self.wins, 1.0 - self.score),
        ):
            rows.append(
                (
                    side, spent.player, str(wins), str(self.draws), str(losses), f"{100 * score:.1f} %",
                    f"{spent.simulations:,.0f}", f"{1000 * spent.seconds:,.2f}",
                )
            )  # fmt: skip
        lines += _aligned(rows)
        lines.append(
            f"score of A {100 * self.score:.1f} % [{100 * self.score_low:.1f}, {100 * self.score_high:.1f}], "
            f"Elo {self.elo:+.0f} [{self.elo_low:+.0f}, {self.elo_high:+.0f}] (95 %, by pairs)"
        )
        lines.append(f"first movers: {self.first_wins} won, {self.first_draws} drawn, {self.first_losses} lost")
        if self.forfeits:
            lines.append(f"{self.forfeits} games were lost by resigning or failing: `engram results --games` says why")
        if self.disputed:
            lines.append(f"a judge settled the disputed games {', '.join(map(str, self.disputed))}")
        if self.sprt is not None:
            lines.append(self._sprt_line())
        if 2 * self.distinct_games < self.games:
            lines.append("most games repeat others: equal games say nothing new, so the interval is too narrow")
        lines.append(self.verdict)
        return "\n".join(lines)

    def _sprt_line(self) -> str:
        assert self.sprt is not None and self.configuration.sprt is not None
        test, state = self.configuration.sprt, self.sprt
        asked = f"SPRT Elo {test.elo0:g} or {test.elo1:g} (alpha {test.alpha:g}, beta {test.beta:g})"
        where = f"LLR {state.llr:+.2f} in [{state.lower:.2f}, {state.upper:.2f}] after {state.pairs} pairs"
        if state.decision is None:
            return f"{asked}: undecided, {where}"
        accepted = test.elo1 if state.decision == "elo1" else test.elo0
        return f"{asked}: accepts Elo {accepted:g}, {where}; stopped early, so the Elo above leans away from 0"


def report(
    configuration: MatchConfiguration,
    records: Iterable[GameRecord],
    *,
    match_id: int | None = None,
    database: str | None = None,
) -> MatchResult:
    """The result of the recorded games of a match.

    Games from `configuration.games` on, and those after the pair that ended a sequential test, do not count. So the
    result does not depend on the order in which games end, or on further games in the database.
    """
    games, state = counted_games(configuration, records)
    first = [one.outcome if one.first == "A" else -one.outcome for one in games]
    return MatchResult(
        **vars(standing(_pairs(games))),
        configuration=configuration,
        distinct_games=len({one.moves for one in games}),
        first_wins=sum(outcome > 0 for outcome in first),
        first_draws=sum(outcome == 0 for outcome in first),
        first_losses=sum(outcome < 0 for outcome in first),
        a=_side(configuration.a, [one.spent("A") for one in games]),
        b=_side(configuration.b, [one.spent("B") for one in games]),
        sprt=state,
        complete=len(games) == configuration.games or (state is not None and state.decision is not None),
        forfeits=sum(one.reason[:2] in ("A:", "B:") for one in games),
        disputed=tuple(one.number for one in games if one.disputed),
        match_id=match_id,
        database=database,
    )


def counted_games(
    configuration: MatchConfiguration, records: Iterable[GameRecord]
) -> tuple[list[GameRecord], SprtState | None]:
    """The games that count, in order, and the state of the sequential test over them; see `report`."""
    games = sorted((one for one in records if one.number < configuration.games), key=lambda one: one.number)
    if configuration.sprt is None:
        return games, None
    state = sprt_state(configuration.sprt, _pairs_in_order(games))
    return [one for one in games if state.decision is None or one.pair < state.pairs], state


def recorded_result(results: Results, match_id: int) -> MatchResult:
    """The result of a recorded match, by its number in the database.

    Raises:
      DatabaseError: there is no such match.
    """
    record = results.match(match_id)
    configuration = MatchConfiguration.from_json({**record.configuration, "games": record.games})
    return report(configuration, results.games(match_id), match_id=match_id, database=results.where)


def _pairs(games: Sequence[GameRecord]) -> list[list[float]]:
    """Outcomes for A by pair, in the order of pairs."""
    pairs: dict[int, list[float]] = {}
    for one in games:
        pairs.setdefault(one.pair, []).append(one.outcome)
    return list(pairs.values())


def _pairs_in_order(games: Sequence[GameRecord]) -> list[list[float]]:
    """The pairs before the first one without a recorded game: a test must not skip it."""
    numbers = list(dict.fromkeys(one.pair for one in games))
    count = next((index for index, pair in enumerate(numbers) if pair != index), len(numbers))
    return _pairs(games)[:count]


def _side(text: str, spent: list[tuple[int, int, float]]) -> SideFigures:
    moves = sum(one[0] for one in spent)
    return SideFigures(
        player=text,
        moves=moves,
        simulations=sum(one[1] for one in spent) / max(moves, 1),
        seconds=sum(one[2] for one in spent) / max(moves, 1),
    )


def _budget(limit: Any) -> str:
    parts = [] if limit.simulations is None else [f"{limit.simulations:,} simulations"]
    return " or ".join(parts if limit.seconds is None else [*parts, f"{limit.seconds:g} s"])


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
