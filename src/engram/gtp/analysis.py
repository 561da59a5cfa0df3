"""What an analysing program shows while we think: `lz-analyze` and `kata-analyze`.

Both write a line of `info move … visits … winrate … order … pv …` for every interval, best move first,
from the view of the player to move. Leela Zero writes shares of 10,000, KataGo of 1.
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
"""Between two tellings, whatever is asked for."""
_ENDLESS_S = 1e9

_NUMERIC = ("minmoves", "maxmoves")
_SWITCHES = ("ownership", "ownershipstdev", "movesownership", "pvvisits", "pvedgevisits", "rootinfo", "noresultvalue")


@dataclass(frozen=True)
class Analysis:
    """What an analysing command asks for.

    Attributes:
      player: to move; None: whose turn it is.
      interval_s: between two lines.
      max_moves: in a line; None: all that were visited.
    """

    player: int | None = None
    interval_s: float = 1.0
    max_moves: int | None = None


def parse_analysis(arguments: Sequence[str]) -> Analysis:
    """`[colour] [centiseconds] [interval C] [maxmoves N] …`; switches for what a search doesn't know are passed over.

    Raises:
      GtpError: a word that means nothing here, `avoid` and `allow` among them.
    """
    words = [word.lower() for word in arguments]
    player = parse_colour(words.pop(0)) if words and words[0] in ("b", "w", "black", "white") else None
    if words and re.fullmatch(r"[0-9.]+", words[0]):
        words.insert(0, "interval")
    if len(words) % 2:
        raise GtpError(f"{words[-1]!r} lacks its value")
    interval, most = 1.0, None
    for key, value in zip(words[::2], words[1::2], strict=True):
        if key == "interval" and re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", value):
            interval = float(value) / 100
        elif key in _NUMERIC and re.fullmatch(r"[0-9]{1,9}", value):
            most = max(1, int(value)) if key == "maxmoves" else most
        elif key not in _SWITCHES or value not in ("true", "false"):
            raise GtpError(f"{key} {value} is not supported")
    return Analysis(player, max(interval, SHORTEST_S), most)


def lz_line(result: SearchResult, max_moves: int | None) -> str:
    """The moves as Leela Zero writes them."""
    return _line(result, max_moves, lambda share: f"{round(10_000 * share)}", utility=False)


def kata_line(result: SearchResult, max_moves: int | None) -> str:
    """The moves as KataGo writes them, without the score that a search for wins doesn't know."""
    return _line(result, max_moves, lambda share: f"{share:.6f}", utility=True)


def stream(
    search: Search,
    state: State,
    limit: Limit | None,
    *,
    seed: int,
    interval_s: float,
    tell: Callable[[SearchResult], None],
    stop: Callable[[], bool],
) -> SearchResult:
    """Searches, telling what was found every interval, once at least; returns the whole.

    Args:
      limit: None: it goes on until `stop`.
      interval_s: between two tellings.
      stop: asked every 10 ms or so; whether to end.
    """
    told = time.perf_counter()

    def ended(found: SearchResult | None = None) -> bool:
        nonlocal told
        over = stop()
        if not over and time.perf_counter() - told >= interval_s:
            told = time.perf_counter()
            tell(found or search.so_far())
        return over

    result = search.run(state, limit or Limit(seconds=_ENDLESS_S), seed=seed, stop=ended)
    # What is proven leaves nothing to search, only lines to give.
    while limit is None and result.stopped == "proven" and not ended(result):
        time.sleep(SHORTEST_S)
    tell(result)
    return result


def _line(result: SearchResult, max_moves: int | None, share: Callable[[float], str], *, utility: bool) -> str:
    shown = [move for move in result.moves if move.visits > 0] or list(result.moves[:1])
    return " ".join(_move(move, order, share, utility=utility) for order, move in enumerate(shown[:max_moves]))


def _move(move: MoveStatistics, order: int, share: Callable[[float], str], *, utility: bool) -> str:
    won, least = (1 + move.value) / 2, (1 + move.low) / 2
    extra = f" utility {move.value:.6f}" if utility else ""
    return (
        f"info move {move.name} visits {move.visits}{extra} winrate {share(won)} prior {share(move.prior)} "
        f"lcb {share(least)} order {order} pv {' '.join(move.principal_variation)}"
    )
