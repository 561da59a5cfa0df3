"""The result of a match, as data and as a table."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from engram.arena.configuration import MatchConfiguration
from engram.arena.results import MatchRecord, Results
from engram.arena.statistics import Means, SprtState, Standing, means, pair_winners, standing
from engram.arena.tally import Tally
from engram.intervals import digits_beside
from engram.pictures.markup import Markup, notebook, safe, table, whisker
from engram.printable import on_one_line
from engram.storage import without_nan

OVERRUN = 1.25
"""Factor by which a side may exceed its budget of seconds on average before a result says so."""


@dataclass(frozen=True)
class SideFigures:
    """Figures of one side.

    Attributes:
      player: its specification.
      moves: number of its moves, without those of the opening.
      simulations: mean per move; for a depth-limited search, positions visited.
      seconds: mean per move, including the time to move its root, except where games are played side by side.
    """

    player: str
    moves: int
    simulations: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class MatchResult(Standing):
    """A match so far, or at its end: its `Standing` and more; `print(result)` shows a table. All figures are for A.

    Attributes:
      configuration: of the match.
      distinct_games: number of different move sequences.
      first_wins, first_draws, first_losses: games of the side that moved first.
      a, b: figures of the sides.
      sprt: state of the sequential test, with its log-likelihood ratio; or None.
      complete: whether all games are played, or the test has ended the match.
      forfeits: number of games that a side lost by resigning or failing.
      disputed: numbers of the games that a judge decided, because the board and a program's own count named different
        winners.
      match_id: its number in the database; None in a curve over several matches.
      database: its file or URL; `":memory:"` where nothing is kept, None in a curve.
      superseded: number of games with the same specifications but other versions of their files; they do not count.
      means: with one player, mean returns and their difference. A pair is then won by the side with the larger return
        on the same opening and draws of nature, and it counts as two won games.
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
    means: Means | None = None
    superseded: int = 0

    @property
    def standing(self) -> Standing:
        """Wins, draws, losses, pairs and score alone."""
        return Standing(**{field.name: getattr(self, field.name) for field in fields(Standing)})

    @property
    def accepted(self) -> float | None:
        """The difference of Elo that the sequential test accepted; None: there is no test, or it has not decided."""
        test, state = self.configuration.sprt, self.sprt
        if test is None or state is None or state.decision is None:
            return None
        return test.elo1 if state.decision == "elo1" else test.elo0

    @property
    def decided(self) -> bool:
        """Whether a difference was seen: by the 95 % interval, or by a sequential test that has ruled out 0."""
        if (test := self.configuration.sprt) is not None and self.accepted is not None:
            return test.elo0 >= 0.0 if self.accepted == test.elo1 else test.elo1 <= 0.0
        return self.means.decided if self.means is not None else super().decided

    @property
    def verdict(self) -> str:
        """One sentence: which side is stronger, what the sequential test accepts, or that no difference was seen."""
        if self.games == 0:
            return "no games were played yet"
        if self.accepted is not None:  # an interval after a stop by the test decides too often
            return f"the sequential test accepts Elo {self.accepted:g}"
        if self.means is not None:
            if not self.means.decided:
                return "no difference seen: the 95 % interval contains 0"
            return f"{'A' if self.means.difference > 0.0 else 'B'} reaches more (95 % interval)"
        if not self.decided:
            return "no difference seen: the 95 % interval contains 50 %"
        return f"{'A' if self.score > 0.5 else 'B'} is stronger (95 % interval)"

    def to_json(self) -> dict[str, Any]:
        """Plain data for programs; numbers that are not finite become None."""
        elo = {name: getattr(self, name) for name in ("elo", "elo_low", "elo_high", "nelo")}
        derived = ("games", "distinct_games", "verdict", "complete", "forfeits", "superseded", "match_id", "database")
        return {
            **asdict(self.standing),
            **without_nan(elo),
            **{name: getattr(self, name) for name in derived},
            "disputed": list(self.disputed),
            "first_player": {"wins": self.first_wins, "draws": self.first_draws, "losses": self.first_losses},
            "a": asdict(self.a),
            "b": asdict(self.b),
            "sprt": asdict(self.sprt) if self.sprt is not None else None,
            "means": None if self.means is None else without_nan(asdict(self.means)),
            "configuration": self.configuration.to_json(),
        }  # fmt: skip

    def _repr_html_(self) -> str:
        """The output of a notebook: the verdict, the two sides, and the score of A with its interval."""
        return notebook(Markup(f"<h4>{safe(self.verdict)}</h4>"), self.tables())

    def tables(self) -> Markup:
        """The two sides with their figures, and the other lines of the text, as HTML."""
        heads, *rows = self._cells()
        bar = ""
        if self.games and self.means is None:
            score = whisker(self.score, self.score_low, self.score_high, least=0.0, most=1.0, middle=0.5)
            bar = f'<p class="value">score of A from 0 to 1, 95 %: {score}</p>'
        paragraphs = "".join(f"<p>{safe(note)}</p>" for note in self._notes())
        return Markup(f"<p>{safe(self._heading())}</p>{table(['side', *heads[1:]], rows)}{bar}{paragraphs}")

    def __str__(self) -> str:
        return "\n".join([self._heading(), *self._table(), *self._notes(), self.verdict])

    def _heading(self) -> str:
        configuration = self.configuration
        ended = f", resigned at {configuration.resign:g}" if configuration.resign is not None else ""
        ended += f", openings {configuration.openings_text}" if configuration.opening_judge is not None else ""
        target = "" if self.complete else f" (of {configuration.games} asked for)"
        return (
            f"{on_one_line(configuration.game)}: {self.games} games, {configuration.budget_text} a move{ended}, "
            f"{self.distinct_games} different games{target}"
        )

    def _notes(self) -> list[str]:
        """The lines between the table and the verdict."""
        lines = self._figures()
        for spent, limit in zip((self.a, self.b), self.configuration.limits.values(), strict=True):
            if limit.seconds is not None and spent.seconds > OVERRUN * limit.seconds:
                ratio = f"{spent.seconds / limit.seconds:.1f}"
                lines.append(f"{on_one_line(spent.player)} took {ratio} times its {limit.seconds:g} s a move")
        if self.superseded:
            lines.append(f"{self.superseded} games with these files in another state are recorded, and do not count")
        if self.forfeits:
            lines.append(f"{self.forfeits} games were lost by resigning or failing: `engram results --games` says why")
        if self.disputed:
            lines.append(f"a judge settled the disputed games {', '.join(map(str, self.disputed))}")
        if self.sprt is not None:
            lines.append(self._sprt_line(self.sprt))
        if self.distinct_pairs < self.pairs:
            lines.append(
                f"{self.distinct_pairs} of {self.pairs} pairs differ: equal games add no evidence, and the "
                "interval counts them once"
            )
        return lines

    @property
    def lead(self) -> str:
        """Elo of A over B with its interval; with one player, the difference of the outcomes."""
        if self.means is None:
            return self.elo_text
        means = self.means
        shift, low, high = (_in_units(number, means, "+") for number in (means.difference, means.low, means.high))
        return f"{shift} [{low}, {high}]"

    def _figures(self) -> list[str]:
        """Strength in lines: score and Elo; with one player, the difference of the outcomes."""
        if self.means is not None:
            wins, draws, losses = self.wins // 2, self.draws // 2, self.losses // 2
            return [
                f"difference of A and B {self.lead} (95 %, by pairs)",
                f"of {self.pairs} pairs with the same opening and draws A reached more in {wins}, as much in {draws}, "
                f"less in {losses}",
            ]
        low, high = 100.0 * self.score_low, 100.0 * self.score_high
        digits = digits_beside(50.0, (low, high), 1)
        return [
            f"score of A {100 * self.score:.{digits}f} % [{low:.{digits}f}, {high:.{digits}f}], "
            f"Elo {self.lead} (95 %, by pairs)",
            f"first movers: {self.first_wins} won, {self.first_draws} drawn, {self.first_losses} lost",
        ]

    def _table(self) -> list[str]:
        rows = self._cells()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        places = [f"{{:<{width}}}" if at < 2 else f"{{:>{width}}}" for at, width in enumerate(widths)]
        return ["  ".join(places).format(*row).rstrip() for row in rows]

    def _cells(self) -> list[tuple[str, ...]]:
        """The heads of the columns, and the two sides."""
        heads = ("mean return",) if self.means is not None else ("wins", "draws", "losses", "score")
        rows: list[tuple[str, ...]] = [("", "player", *heads, "simulations/move", "ms/move")]
        sides = (("A", self.a, self.wins, self.losses), ("B", self.b, self.losses, self.wins))
        for side, spent, wins, losses in sides:
            score = 100 * (self.score if side == "A" else 1.0 - self.score)
            counts: tuple[str, ...] = str(wins), str(self.draws), str(losses), f"{score:.1f} %"
            if self.means is not None:
                counts = (_in_units(self.means.a if side == "A" else self.means.b, self.means),)
            spending = f"{spent.simulations:,.0f}", f"{1000 * spent.seconds:,.2f}"
            rows.append((side, on_one_line(spent.player), *counts, *spending))
        return rows

    def _sprt_line(self, state: SprtState) -> str:
        test = self.configuration.sprt
        assert test is not None
        unit = "" if self.means is None else " of pairs won, whatever the returns"
        hypotheses = f"SPRT Elo {test.elo0:g} or {test.elo1:g}{unit} (alpha {test.alpha:g}, beta {test.beta:g})"
        where = f"LLR {state.llr:+.2f} in [{state.lower:.2f}, {state.upper:.2f}] after {state.pairs} pairs"
        if self.accepted is None:
            return f"{hypotheses}: undecided, {where}"
        biased = "the Elo above" if self.means is None else "the difference above"
        return f"{hypotheses}: accepts Elo {self.accepted:g}, {where}; stopped early, so {biased} is biased away from 0"


def report(tally: Tally, match_id: int | None = None, database: str | None = None, superseded: int = 0) -> MatchResult:
    """The result of the recorded games of a match."""
    configuration, games = tally.configuration, tally.games
    moves = games["moves"].reshape(-1, 2)
    # Odd, so that no bit of a hash is lost; a pair's key repeats by chance in one of 2⁶⁴ cases.
    move_ids = None if configuration.chance else moves[:, 0] * np.int64(0x5851F42D4C957F2D) + moves[:, 1]
    outcomes = games["outcome"].reshape(-1, 2)
    is_alone = configuration.players == 1
    counts = standing(pair_winners(outcomes) if is_alone else outcomes, move_ids)
    played = games[~np.isnan(games["outcome"])]
    # One player's returns are no wins.
    first = np.where(played["a_first"], played["outcome"], -played["outcome"])[: 0 if is_alone else None]
    return MatchResult(
        **vars(counts), configuration=configuration, distinct_games=len(np.unique(played["moves"])),
        first_wins=int((first > 0).sum()), first_draws=int((first == 0).sum()), first_losses=int((first < 0).sum()),
        a=_side("a", configuration.a, played), b=_side("b", configuration.b, played), sprt=tally.sprt,
        complete=tally.complete, forfeits=int(played["forfeit"].sum()),
        disputed=tuple(played["number"][played["disputed"]].tolist()), match_id=match_id, database=database,
        superseded=superseded, means=means(outcomes, move_ids) if is_alone else None,
    )  # fmt: skip


def configuration_of(record: MatchRecord) -> MatchConfiguration:
    """The configuration of a recorded match.

    Raises:
      InvalidParameter: another version of engram recorded it.
    """
    return MatchConfiguration.from_json({**record.configuration, "games": record.games})


def recorded_result(results: Results, match_id: int) -> MatchResult:
    """The result of a recorded match, by its number in the database.

    Raises:
      DatabaseError: there is no such match, or a row of it is damaged.
    """
    return result_of(results, results.match(match_id))


def result_of(results: Results, record: MatchRecord) -> MatchResult:
    """The result of a match that has been read."""
    tally = Tally(configuration_of(record))
    tally.add(results.counted_games(record.id))
    return report(tally, record.id, results.where)


def _in_units(number: float, means: Means, sign: str = "") -> str:
    """An outcome in a game's units, with the digits that its match's means need; sign `+`: a difference of outcomes."""
    size = max(abs(means.a), abs(means.b))
    if abs(number) >= 100.0:
        return f"{number:{sign},.1f}"
    if 0.0 < size < 1e-6:
        return f"{number:{sign}.4g}"
    return f"{number:{sign}.{max(3, 3 - math.floor(math.log10(size))) if size > 0.0 else 3}f}"


def _side(side: str, text: str, played: np.ndarray) -> SideFigures:
    moves, simulations, seconds = (
        played[f"{side}_{name}"].sum().item() for name in ("moves", "simulations", "seconds")
    )
    return SideFigures(text, moves, simulations / max(moves, 1), seconds / max(moves, 1))
