"""The analysis commands `lz-analyze` and `kata-analyze`; `lz-genmove_analyze` and its like play the move, too.

Both write a line of `info move … visits … winrate … order … pv …` at every interval, best move first. Values are for
the player to move. Leela Zero writes a share as 0 to 10,000, KataGo as 0 to 1.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engram.drivers.limit import Limit
from engram.drivers.result import MoveStatistics, SearchResult
from engram.drivers.search import Search
from engram.games.game import Game
from engram.games.state import State
from engram.gtp.protocol import GtpError, parse_colour

SHORTEST_S = 0.05
"""Shortest time between two reports."""
_ENDLESS_S = 1e9

_NUMERIC = ("minmoves", "maxmoves")
_SWITCHES = ("ownership", "ownershipstdev", "movesownership", "pvvisits", "pvedgevisits", "rootinfo", "noresultvalue")


@dataclass(frozen=True)
class Analysis:
    """The arguments of an analysis command.

    Attributes:
      player: to move.
      interval_s: seconds between two lines.
      max_moves: most moves on a line; None: all visited moves.
      ownership: whether a line ends with the expected owner of each point.
      root: whether a line gives the visits and the value of the position itself.
      avoid, allow: as in `choices`.
    """

    player: int
    interval_s: float = 1.0
    max_moves: int | None = None
    ownership: bool = False
    root: bool = False
    avoid: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


def parse_analysis(arguments: Sequence[str], turn: int) -> Analysis:
    """`[colour] [centiseconds] [interval C] [maxmoves N] [avoid COLOUR MOVE,… DEPTH] …`.

    Switches for data that a search lacks are ignored. Moves to avoid or to allow are those of the position itself,
    whatever their depth; the opponent's are ignored.

    Args:
      turn: the player to move where no colour is given.

    Raises:
      GtpError: an unknown word.
    """
    words = [word.lower() for word in arguments]
    player = parse_colour(words.pop(0)) if words and words[0] in ("b", "w", "black", "white") else turn
    if words and re.fullmatch(r"[0-9.]+", words[0]):
        words.insert(0, "interval")
    interval, max_moves = 1.0, None
    parts = {"ownership": False, "rootinfo": False}
    names: dict[str, tuple[str, ...]] = {"avoid": (), "allow": ()}
    while words:
        key, value, words = words[0], words[1] if len(words) > 1 else None, words[2:]
        if value is None:
            raise GtpError(f"{key!r} has no value")
        if key in names:
            if len(words) < 2 or not re.fullmatch(r"[0-9]{1,9}", words[1]):
                raise GtpError(f"{key} takes a colour, moves with commas between them, and a depth")
            if parse_colour(value) == player:
                names[key] += tuple(words[0].split(","))
            words = words[2:]
        elif key == "interval" and re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", value):
            interval = float(value) / 100
        elif key in _NUMERIC and re.fullmatch(r"[0-9]{1,9}", value):
            max_moves = max(1, int(value)) if key == "maxmoves" else max_moves
        elif key not in _SWITCHES or value not in ("true", "false"):
            raise GtpError(f"{key} {value} is not supported")
        elif key in parts:
            parts[key] = value == "true"
    return Analysis(player, max(interval, SHORTEST_S), max_moves, parts["ownership"], parts["rootinfo"], **names)


def choices(game: Game, state: State, avoid: Sequence[str], allow: Sequence[str]) -> list[int] | None:
    """The legal moves to choose from, as `only` of `Search.run`.

    Args:
      avoid: names of moves not to choose. allow: names of the only ones to choose from; none: all.

    Raises:
      IllegalAction: a name is not that of a move. GtpError: no move is left.
    """
    if not (avoid or allow):
        return None
    legal = set(game.legal_actions(state))
    barred, wanted = ({game.parse_action(name) for name in names} for names in (avoid, allow))
    if not (kept := (legal & wanted if wanted else legal) - barred):
        raise GtpError("no legal move is left to choose from")
    return sorted(kept)


def lz_line(result: SearchResult, max_moves: int | None) -> str:
    """The moves as Leela Zero writes them."""
    return _line(result, max_moves, lambda share: f"{round(10_000 * share)}", lambda move: "")


def kata_line(result: SearchResult, max_moves: int | None, leads: Mapping[int, float]) -> str:
    """The moves as KataGo writes them; `leads`: of the player to move after each move, in points."""
    return _line(
        result,
        max_moves,
        lambda share: f"{share:.6f}",
        lambda move: f" utility {move.value:.6f}{_score(leads[move.action])}",
    )


def root_info(result: SearchResult, lead: float) -> str:
    """The position itself, as KataGo writes it; `lead`: of the player to move, in points."""
    visits = sum(move.visits for move in result.moves)
    return f"rootInfo visits {visits} utility {result.value:.6f} winrate {(1 + result.value) / 2:.6f}{_score(lead)}"


def _score(lead: float) -> str:
    return f" scoreMean {lead:.3f} scoreStdev 0 scoreLead {lead:.3f}"


def stream(
    search: Search, state: State, limit: Limit | None, *, seed: int, interval_s: float,
    report: Callable[[SearchResult], None], stop: Callable[[], bool], only: Sequence[int] | None = None,
) -> SearchResult:  # fmt: skip
    """Searches and reports the result so far at every interval, and at the end; returns the final result.

    Args:
      limit: None: search until `stop`.
      interval_s: seconds between two reports.
      stop, only: as in `Search.run`.

    Raises:
      KeyboardInterrupt: Ctrl-C; an interrupted search answers nothing.
    """
    last_report, over = time.perf_counter(), False

    def ended(result: SearchResult | None = None) -> bool:
        nonlocal last_report, over
        over = stop()
        if not over and time.perf_counter() - last_report >= interval_s:
            report(result or search.so_far())
            last_report = time.perf_counter()  # a report may take longer than the interval
        return over

    result = search.run(state, limit or Limit(seconds=_ENDLESS_S), seed=seed, stop=ended, only=only)
    # In a proven position there is nothing to search, but the reports go on until `stop`.
    while limit is None and result.stopped == "proven" and not ended(result):
        time.sleep(SHORTEST_S)
    if result.stopped == "interrupted" and not over:
        raise KeyboardInterrupt
    report(result)
    return result


def visited(result: SearchResult) -> list[MoveStatistics]:
    """The move that the search would play, then the others with visits, most visited first."""
    return sorted(
        (move for move in result.moves if move.visits > 0 or move.action == result.action),
        key=lambda move: move.action != result.action,
    )


def _line(
    result: SearchResult, max_moves: int | None, share: Callable[[float], str], more: Callable[[MoveStatistics], str]
) -> str:
    return " ".join(
        f"info move {move.name} visits {move.visits}{more(move)} "
        f"winrate {share((1 + move.value) / 2)} prior {share(move.prior)} lcb {share((1 + move.low) / 2)} "
        f"order {order} pv {' '.join(move.principal_variation)}"
        for order, move in enumerate(visited(result)[:max_moves])
    )
