"""`engram.widget`: a search in a notebook, live, by the elements of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import MissingPackage
from engram.games.state import State

if TYPE_CHECKING:
    from engram.web.live import LiveSearch


def widget(search: Search, state: State | None = None, *, limit: Limit | None = None) -> LiveSearch:
    """A search in a notebook: its board, its moves with intervals, and an analysis that streams while it thinks.

    Show it as the last line of a cell. *Analyse* starts the search, *Stop* ends it; a click on the board or on a move
    plays it. From Python `analyse`, `stop`, `wait` and `result` do the same. The search belongs to the widget: while an
    analysis goes on, do not run it elsewhere.

    Args:
      search: from `engram.Search(...)`. state: the position; default the start of the game.
      limit: of one analysis; default 60 s.

    Raises:
      MissingPackage: anywidget is not installed.
    """
    try:
        from engram.web.live import LiveSearch
    except ImportError as error:
        raise MissingPackage(f"a widget needs anywidget ({error}): pip install 'engram[notebook]'") from None
    return LiveSearch(search, state, limit)
