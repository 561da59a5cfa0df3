"""Which of many players is strongest? A league: matches between them, in rounds, and where their order is uncertain.

A league is a set of ordinary matches, each under its own configuration in the results database. The seed of a match
follows from the league's seed and its two players alone. So no recorded game is played again after a change to a longer
list of players, more games, more rounds or another order of the list. Several processes with the same league share each
match. They go on to the next match of a round, and only at the end of the round wait for the others' last games.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from engram.arena.configuration import configure
from engram.arena.match import MatchInterrupted, play_match
from engram.arena.ratings import Ratings, rate
from engram.arena.report import MatchResult
from engram.arena.results import DEFAULT_DATABASE, MEMORY
from engram.arena.roster import player
from engram.arena.statistics import normalised_elo
from engram.errors import InvalidParameter, InvalidSpecification, check_options, check_whole
from engram.games.catalogue import game as named_game
from engram.intervals import NORMAL_95
from engram.pictures.markup import notebook, table, whisker
from engram.printable import on_one_line
from engram.rng import derive_seed

MAX_PLAYERS = 256
FOCUS_ERRORS = 3.0
"""Standard errors of a lead that end its focus, and bound it afterwards: in many looks chance reaches 1.96."""
_LOG = logging.getLogger(__name__)
_ENDS = (("elo_low", "least"), ("elo_high", "most"))
_OPTIONS = (
    "simulations", "seconds", "seed", "opening_moves", "opening_judge", "opening_balance", "max_moves", "resign",
)  # fmt: skip


@dataclass(frozen=True)
class LeagueResult:
    """A league so far, or at its end.

    Attributes:
      game: its specification. players: their specifications, in the order of these texts.
      matches: results by the numbers of their players; A is the player of the smaller number.
      ratings: of the players. complete: whether all games are played.
      focused: whether results decided which pairs played more; leads then have wider bounds.
      left_out: matches that do not count, since a longer one of the same two players, or one with newer files, does.
    """

    game: str
    players: tuple[str, ...]
    matches: dict[tuple[int, int], MatchResult]
    ratings: Ratings
    complete: bool
    focused: bool = False
    left_out: int = 0

    @property
    def games(self) -> int:
        """Number of games."""
        return sum(match.games for match in self.matches.values())

    @property
    def num_groups(self) -> int:
        """Number of sets of players that no match connects; 1 once all ratings can be compared."""
        return len(set(self.ratings.groups.tolist()))

    def scores(self) -> list[list[float | None]]:
        """Each player's share of the points against each other player, strongest first; None before any game."""
        shares = {at: match.score for at, match in self.matches.items() if match.games}
        shares |= {(j, i): 1.0 - share for (i, j), share in shares.items()}
        return [[shares.get((i, j)) for j in self.ratings.order] for i in self.ratings.order]

    def rows(self) -> list[dict[str, Any]]:
        """Figures of each player against all others, strongest first; numbers that are not finite become None."""
        ratings, order, rows = self.ratings, self.ratings.order, []
        for rank, i in enumerate(order, 1):
            sums = np.zeros(8, np.int64)  # wins, draws, losses, and the five kinds of pairs
            for (a, b), match in self.matches.items():
                if i in (a, b):
                    step = 1 if i == a else -1
                    sums += [*(match.wins, match.draws, match.losses)[::step], *match.pentanomial[::step]]
            wins, draws, losses, *pairs = sums.tolist()
            figures = {
                "elo": ratings.elo[i], "elo_low": ratings.low[i], "elo_high": ratings.high[i],
                "nelo": normalised_elo(pairs), **self._lead(i, order[rank] if rank < len(order) else None),
            }  # fmt: skip
            rows.append({
                "rank": rank, "player": self.players[i], "games": wins + draws + losses, "points": wins + draws / 2,
                "wins": wins, "draws": draws, "losses": losses, "pentanomial": pairs, "group": int(ratings.groups[i]),
                **{name: float(number) if math.isfinite(number) else None for name, number in figures.items()},
            })  # fmt: skip
        return rows

    def _lead(self, player: int, other: int | None) -> dict[str, float]:
        """A player's lead over the next one, with its standard error; only a bound where one side won all games."""
        if other is None:
            return dict.fromkeys(("lead", "lead_error", "lead_low"), math.nan)
        lead, error = self.ratings.difference(player, other)
        low, high = self.ratings.bounds(player, other, FOCUS_ERRORS if self.focused else NORMAL_95)
        if not (math.isfinite(low) and math.isfinite(high)):
            lead = error = math.nan
        return {"lead": lead, "lead_error": error, "lead_low": low}

    def _repr_html_(self) -> str:
        """The output of a notebook: the players by rating, each with its interval."""
        players = self.rows()
        ends = [row[name] for row in players for name in ("elo", "elo_low", "elo_high") if row[name] is not None]
        scale = {"least": min([0.0, *ends]), "most": max([1.0, *ends]), "middle": 0.0}

        def interval(row: dict[str, Any]) -> object:
            low, high = (row[name] if row[name] is not None else scale[end] for name, end in _ENDS)
            return "–" if row["elo"] is None else whisker(row["elo"], low, high, **scale)

        rows = [
            [row["rank"], row["player"], elo_text(row), interval(row), row["games"], f"{row['points']:g}"]
            for row in players
        ]
        heads = ["rank", "player", "Elo [95 %]", "", "games", "points"]
        return notebook(self.title, table(heads, rows), *self.notes())

    def __str__(self) -> str:
        """The players by rating, one a line."""
        rows = [(row, elo_text(row)) for row in self.rows()]
        width = max((len(elo) for _, elo in rows), default=0)
        lines = [f"{row['rank']:3}  {elo:{width}}  {on_one_line(row['player'])}" for row, elo in rows]
        return "\n".join([self.title, *lines, *self.notes()])

    @property
    def title(self) -> str:
        """The game, and how many players and games."""
        so_far = "" if self.complete else " so far"
        return f"{self.game}: {len(self.players)} players, {self.games:,} games{so_far}"

    def notes(self) -> list[str]:
        """The limits of these ratings, in sentences."""
        left_out = f"matches that do not count, because the same players met in a longer or newer one: {self.left_out}"
        focus = "results chose which pairs played on, so leads have three standard errors instead of 1.96"
        alone = "each plays alone: ratings count the pairs that it won, whatever the returns; `match` compares means"
        is_alone = any(getattr(match, "means", None) for match in self.matches.values())
        texts = (left_out, self.left_out), (focus, self.focused), (alone, is_alone)
        notes = [text for text, holds in texts if holds]
        if self.num_groups > 1:
            only = "only ratings of the same group compare; play more"
            return [*notes, f"no games connect {self.num_groups} groups of players: {only}"]
        if any(None in (row["elo_low"], row["elo_high"]) for row in self.rows()):
            assumption = "the matches between both sides together count one drawn pair more"
            notes.append(f"∞: no points from the players whose mean is 0, or none lost to them; {assumption}")
        return notes

    def to_json(self) -> dict[str, Any]:
        """Plain data for programs; `players`, `scores`, `covariance` and `above` are in the order of ratings."""
        order = self.ratings.order
        return {
            "game": self.game, "games": self.games, "complete": self.complete, "groups": self.num_groups,
            "players": self.rows(), "scores": self.scores(),
            "covariance": self.ratings.covariance[np.ix_(order, order)].tolist(),
            "above": self.ratings.above[np.ix_(order, order)].tolist(),
            "matches": [
                match.to_json() if isinstance(match, MatchResult)
                else {"a": self.players[i], "b": self.players[j], **vars(match)}
                for (i, j), match in self.matches.items()
            ],
        }  # fmt: skip


def elo_text(row: dict[str, Any]) -> str:
    """The rating of a row with its interval: `+191 [+9, ∞]`."""
    if row["elo"] is None:
        return "–"
    low, high = ("∞" if (end := row[f"elo_{side}"]) is None else f"{end:+.0f}" for side in ("low", "high"))
    return f"{row['elo']:+.0f} [{'-' * (low == '∞')}{low}, {high}]"


class LeagueInterrupted(KeyboardInterrupt):
    """Ctrl-C came during a league; `.result` holds it so far, and its games are recorded."""

    def __init__(self, result: LeagueResult):
        self.result = result
        super().__init__(f"interrupted: {result.games} games are recorded; the same league started again continues")


def league(
    game: str, players: Sequence[str], *, games: int = 20, swiss: int | None = None, focus: int = 0,
    workers: int | None = None, database: str | Path = DEFAULT_DATABASE,
    progress: Callable[[int, int, MatchResult], None] | None = None, **options: Any,
) -> LeagueResult:  # fmt: skip
    """Plays matches between all players, and rates them.

    Args:
      game: a specification. players: specifications, 2 to 256, all different.
      games: per match, even. swiss: number of rounds, ≥ 1, instead of all against all: in each, a player meets the one
        with the nearest score among those met least; one player pauses if their number is odd.
      focus: number of further games, even, played in steps of at most `games`: each between the two neighbours in the
        order whose lead, less three standard errors, is smallest; ends early when all these are above 0.
      workers, database: as for `engram.match`; a league is not kept in memory.
      progress: called with the numbers of finished and of all games, and the match that is played now.
      options: of all matches, as for `engram.match`: simulations, seconds, seed, opening_moves, opening_judge,
        opening_balance, max_moves, resign.

    Raises:
      EngramError: invalid arguments, or as `engram.match`; recorded games are kept.
      LeagueInterrupted: Ctrl-C; all finished games are recorded.
    """
    check_options("a league", options, _OPTIONS)
    if str(database) == MEMORY:
        raise InvalidParameter("a league is a set of recorded matches: it needs a database in a file or at a URL")
    for name, number, least in (("games", games, 2), ("focus", focus, 0), ("swiss", swiss or 0, swiss is not None)):
        check_whole(name, number, int(least))
        if number % 2 and name != "swiss":
            raise InvalidParameter(f"{name} of a league must be even (each opening is played twice), not {number}")
    texts, seed = _texts(game, players), check_whole("seed", options.get("seed", 0))
    game_name = getattr(game, "name", game)  # of a `Game`, which a match takes, too
    total = games * (math.comb(len(texts), 2) if swiss is None else swiss * (len(texts) // 2)) + focus
    _LOG.info("league of %d players of %s, at most %d games", len(texts), game_name, total)
    matches: dict[tuple[int, int], MatchResult] = {}
    quotas: Counter[tuple[int, int]] = Counter()

    def result(complete: bool) -> LeagueResult:
        focused = sum(quotas.values()) > total - focus
        return LeagueResult(game_name, texts, matches, rate(len(texts), matches), complete, focused)

    try:
        for pairings, extra in schedule(len(texts), games, swiss, focus, matches):
            quotas.update(dict.fromkeys(pairings, extra))
            for pairing, wait in [(pairing, wait) for wait in (False, True) for pairing in pairings]:
                if wait and matches[pairing].complete:
                    continue
                a, b = (texts[at] for at in pairing)
                match_options = {**options, "games": quotas[pairing], "seed": derive_seed(seed, "league", a, b)}
                done = sum(match.games for at, match in matches.items() if at != pairing)
                tell = None if progress is None else lambda now, done=done: progress(done + now.games, total, now)
                setup = configure(game, a, b, **match_options)
                matches[pairing] = play_match(setup, workers=workers, database=database, progress=tell, wait=wait)
    except KeyboardInterrupt as interrupt:
        if isinstance(interrupt, MatchInterrupted):
            matches[pairing] = interrupt.result
        raise LeagueInterrupted(result(False)) from None
    return result(True)


def rated_players(matches: Iterable[MatchResult]) -> list[tuple[str, LeagueResult]]:
    """Ratings of all players who met in matches of one two-player game, with the same budget and judge of openings.

    Fewer than three players have no ratings.

    Of several matches between the same two players, the one with most games counts, among those with the newest files.

    Returns pairs of the budget per move, in words, and the league.
    """
    groups: dict[tuple[str, str], list[MatchResult]] = defaultdict(list)
    for match in matches:
        setup = match.configuration
        if match.games and match.means is None and setup.limits["A"] == setup.limits["B"] and setup.a != setup.b:
            openings = f"openings {setup.openings_text}, " if setup.opening_judge is not None else ""
            groups[setup.game, openings + setup.limits["A"].text].append(match)
    leagues = []
    for (game, budget), group in groups.items():
        group.sort(key=lambda match: match.match_id or 0)
        setups = [match.configuration for match in group]
        newest = {frozenset((setup.a, setup.b)): setup.sources for setup in setups}
        players = tuple(sorted(set().union(*newest)))
        meetings: dict[tuple[int, int], Any] = {}
        for match in sorted(group, key=lambda match: match.games):
            setup = match.configuration
            if setup.sources == newest[frozenset((setup.a, setup.b))]:
                a, b = players.index(setup.a), players.index(setup.b)
                meetings[min(a, b), max(a, b)] = match if a < b else match.standing.reversed
        if len(players) > 2:
            left_out = len(group) - len(meetings)
            ratings = rate(len(players), meetings)
            leagues.append((budget, LeagueResult(game, players, meetings, ratings, True, left_out=left_out)))
    return leagues


def schedule(
    count: int, games: int, swiss: int | None, focus: int, matches: Mapping[tuple[int, int], MatchResult]
) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Rounds of pairings, with the further games of each; they depend on the earlier results, held in `matches`."""
    if swiss is None:
        yield list(combinations(range(count), 2)), games
    for _ in range(swiss or 0):
        yield _swiss_round(count, matches), games
    while focus and (uncertain := _most_uncertain(rate(count, matches))):
        yield [uncertain], min(games, focus)
        focus -= min(games, focus)


def _swiss_round(count: int, matches: Mapping[tuple[int, int], MatchResult]) -> list[tuple[int, int]]:
    num_games, points = np.zeros((count, count)), np.zeros(count)
    for (i, j), match in matches.items():
        num_games[i, j] = num_games[j, i] = match.games
        points[[i, j]] += match.games * match.score, match.games * (1.0 - match.score)
    played = num_games.sum(axis=1)
    order = sorted(range(count), key=lambda i: -points[i] / played[i] if played[i] else -0.5)
    if count % 2:
        order.remove(max(reversed(order), key=lambda i: played[i]))
    pairings = []
    while order:
        first = order.pop(0)
        order.remove(other := min(order, key=lambda i: num_games[first, i]))
        pairings.append((min(first, other), max(first, other)))
    return pairings


def _most_uncertain(ratings: Ratings) -> tuple[int, int] | None:
    """Neighbours in the order whose lead, less `FOCUS_ERRORS` standard errors, is smallest; None if all are above 0."""
    reach = {}
    for i, j in pairwise(ratings.order):
        lead, error = ratings.difference(i, j)
        reach[min(i, j), max(i, j)] = FOCUS_ERRORS * error - lead
    pairing = max(reach, key=lambda at: reach[at])
    return pairing if reach[pairing] > 0.0 else None


def _texts(game: str, players: Sequence[str]) -> tuple[str, ...]:
    """The players' canonical specifications in order, so that the order of the list decides nothing."""
    if not 2 <= len(players) <= MAX_PLAYERS:
        raise InvalidParameter(f"a league has 2 to {MAX_PLAYERS} players, not {len(players)}")
    rules, texts = named_game(game), list[str]()
    for text in players:
        if not isinstance(text, str):
            raise InvalidSpecification(f"a player of a league is a specification, not {text!r}")
        entrant = player(rules, text)
        entrant.close()
        if entrant.text in texts:
            raise InvalidParameter(f"the player {entrant.text} is in the league twice")
        texts.append(entrant.text)
    return tuple(sorted(texts))
