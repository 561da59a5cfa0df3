"""The analysis commands `lz-analyze` and `kata-analyze`.

Both write a line of `info move … visits … winrate … order … pv …` at every interval, best move first. Values are for
the player to move. Leela Zero writes a share as 0 to 10,000, KataGo as 0 to 1.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engram.drivers.search import Search
from engram.games.game import State
from engram.gtp.protocol import GtpError, parse_colour
from engram.search.limit import Limit
from engram.search.result import MoveStatistics, SearchResult

SHORTEST_S = 0.05
"""Shortest time between two reports."""
_ENDLESS_S = 1e9

_NUMERIC = ("minmoves", "maxmoves")
_SWITCHES = ("ownership", "ownershipstdev", "movesownership", "pvvisits", "pvedgevisits", "rootinfo", "noresultvalue")


@dataclass(frozen=True)
class Analysis:
    """The arguments of an analysis command.

    Attributes:
      player: to move; None: the player whose turn it is.
      interval_s: seconds between two lines.
      max_moves: most moves of a line; None: all visited moves.
    """

    player: int | None = None
    interval_s: float = 1.0
    max_moves: int | None = None


def parse_analysis(arguments: Sequence[str]) -> Analysis:
    """`[colour] [centiseconds] [interval C] [maxmoves N] …`; switches for data that a search lacks are ignored.

    Raises:
      GtpError: an unknown word, `avoid` and `allow` included.
    """
    words = [word.lower() for word in arguments]
    player = parse_colour(words.pop(0)) if words and words[0] in ("b", "w", "black", "white") else None
    if words and re.fullmatch(r"[0-9.]+", words[0]):
        words.insert(0, "interval")
    if len(words) % 2:
        raise GtpError(f"{words[-1]!r} has no value")
    interval, max_moves = 1.0, None
    for key, value in zip(words[::2], words[1::2], strict=True):
        if key == "interval" and re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", value):
            interval = float(value) / 100
        elif key in _NUMERIC and re.fullmatch(r"[0-9]{1,9}", value):
            max_moves = max(1, int(value)) if key == "maxmoves" else max_moves
        elif key not in _SWITCHES or value not in ("true", "false"):
            raise GtpError(f"{key} {value} is not supported")
    return Analysis(player, max(interval, SHORTEST_S), max_moves)


def lz_line(result: SearchResult, max_moves: int | None) -> str:
    """The moves as Leela Zero writes them."""
    return _line(result, max_moves, lambda share: f"{round(10_000 * share)}", utility=False)


def kata_line(result: SearchResult, max_moves: int | None) -> str:
    """The moves as KataGo writes them, without scores: our searches maximise wins alone."""
    return _line(result, max_moves, lambda share: f"{share:.6f}", utility=True)


def stream(
    search: Search,
    state: State,
    limit: Limit | None,
    *,
    seed: int,
    interval_s: float,
    report: Callable[[SearchResult], None],
    stop: Callable[[], bool],
) -> SearchResult:
    """Searches and reports the result so far at every interval, and at the end; returns the final result.

    Args:
      limit: None: search until `stop`.
      interval_s: seconds between two reports.
      stop: whether to end; called about every 10 ms.
    """
    last_report = time.perf_counter()

    def ended(result: SearchResult | None = None) -> bool:
        nonlocal last_report
        over = stop()
        if not over and time.perf_counter() - last_report >= interval_s:
            last_report = time.perf_counter()
            report(result or search.so_far())
        return over

    result = search.run(state, limit or Limit(seconds=_ENDLESS_S), seed=seed, stop=ended)
    # A proven position leaves nothing to search, but the reports go on until `stop`.
    while limit is None and result.stopped == "proven" and not ended(result):
        time.sleep(SHORTEST_S)
    report(result)
    return result


def _line(result: SearchResult, max_moves: int | None, share: Callable[[float], str], *, utility: bool) -> str:
    moves = [move for move in result.moves if move.visits > 0] or list(result.moves[:1])
    return " ".join(_move(move, order, share, utility=utility) for order, move in enumerate(moves[:max_moves]))


def _move(move: MoveStatistics, order: int, share: Callable[[float], str], *, utility: bool) -> str:
    win_rate, lower_bound = (1 + move.value) / 2, (1 + move.low) / 2
    extra = f" utility {move.value:.6f}" if utility else ""
    return (
        f"info move {move.name} visits {move.visits}{extra} winrate {share(win_rate)} prior {share(move.prior)} "
        f"lcb {share(lower_bound)} order {order} pv {' '.join(move.principal_variation)}"
    )
