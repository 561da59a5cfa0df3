"""A search as a widget of a notebook: Python keeps the model, the elements of the page draw it."""

from __future__ import annotations

import json
import random
import threading
from typing import Any
from weakref import WeakValueDictionary

import anywidget
import traitlets

from engram.drivers.limit import Limit
from engram.drivers.result import SearchResult
from engram.drivers.search import Search
from engram.errors import EngramError, InvalidLimit, InvalidParameter, InvalidState
from engram.games.record import NATURE
from engram.games.state import State
from engram.pictures.bundle import bundle, file
from engram.pictures.markup import in_letters, notebook
from engram.web.positions import PlayedGame, opened
from engram.web.sessions import SearchSession

_STYLE = """
  :host { display: block; container-type: inline-size; background: none; color: var(--ink); }
  .widget { display: grid; gap: 1rem; grid-template-columns: minmax(0, 1fr); padding: .9rem; border-radius: .9rem;
    background: var(--card); border: 1px solid var(--edge); }
  .widget engram-board { max-width: min(100%, 26rem); }
  .thoughts { display: flex; flex-direction: column; gap: .6rem; min-width: 0; }
  @container (min-width: 720px) { .widget { grid-template-columns: minmax(0, 4fr) minmax(0, 5fr); } }
"""
ENDS_S = 5.0
"""Longest wait for a stopped search, which ends within some 50 ms."""
_sessions: WeakValueDictionary[int, SearchSession] = WeakValueDictionary()
"""The last analysis of each search, by the search's identity."""


def _module() -> str:
    """The front end as one module, with its style inside: a notebook's own rules do not reach into its shadow DOM."""
    style = (file("picture.css") + file("style.css")).replace(":root", ":host").replace("html {", ":host {") + _STYLE
    return f"const STYLE = {json.dumps(style)};\n{bundle('html', 'board', 'moves', 'widget')}"


class LiveSearch(anywidget.AnyWidget):
    """A search on a board; see `engram.widget`.

    Attributes:
      state: the position. result: of the last analysis that ended; None before.
      opened, snapshot, running, search_text: what the front end draws, as the page's server sends it.
    """

    _esm = _module()
    opened = traitlets.Dict().tag(sync=True)
    snapshot: Any = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    running = traitlets.Bool(False).tag(sync=True)
    search_text = traitlets.Unicode().tag(sync=True)

    num_watchers = 1

    def __init__(self, search: Search, state: State | None = None, limit: Limit | None = None):
        if not isinstance(search, Search):
            raise InvalidParameter(f"a widget shows a Search, not {search!r}")
        if limit is not None and not isinstance(limit, Limit):
            raise InvalidLimit(f"a widget takes a Limit, such as Limit(seconds=20), not {limit!r}")
        self.search, game = search, search.game
        self._limit = limit or Limit(seconds=60.0)
        self._first = game.initial_state() if state is None else state
        self._dice = random.Random()
        self._actions = self._drawn([])
        self._session: SearchSession | None = None
        self._showing = threading.RLock()
        super().__init__(opened=opened(self._line()), search_text=search.preset.text)
        self.on_msg(self._on_message)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, and for viewers without widgets its position and result as HTML."""
        data = super()._repr_mimebundle_(**options)
        shown = data[0] if isinstance(data, tuple) else data
        if shown is not None:
            state, result = self.state, self.result
            draw = getattr(state, "_repr_html_", lambda: notebook(in_letters(self.search.game.render(state))))
            shown["text/html"] = draw() + ("" if result is None else result._repr_html_())
        return data

    @property
    def state(self) -> State:
        """The position on the board."""
        return self._line().state

    @property
    def result(self) -> SearchResult | None:
        """The result of the last analysis; None while it runs, or after it failed."""
        return None if self._session is None else self._session.result

    def analyse(self) -> None:
        """Starts a search of the position, on a thread of its own; another widget's analysis with this `Search` ends.

        Raises:
          InvalidState: the game is over, or a search is running.
        """
        if self.running:
            raise InvalidState("this widget's search is still running: stop it, or wait for its end")
        if self.search.game.is_over(self.state):
            raise InvalidState(f"{self.search.game.name}: the game is over, there is nothing to search")
        other = _sessions.get(id(self.search))
        if other is not None and other.search is self.search:  # of another widget, or of this cell's last run
            other.stop()
            other.wait(ENDS_S)
        self._session = SearchSession(self.search, self.state, self._limit, seed=0, audience=self)
        _sessions[id(self.search)] = self._session
        self.running = True
        self._session.start()

    def stop(self) -> None:
        """Ends the search, and waits for its result; without one nothing happens."""
        if self._session is not None:
            self._session.stop()
            self.wait(ENDS_S)

    def wait(self, timeout_s: float = 3600.0) -> SearchResult | None:
        """Waits for the end of the search; returns its result, or None if it has none within `timeout_s`."""
        if self._session is not None:
            self._session.wait(timeout_s)
        return self.result

    def play(self, action: int | str) -> None:
        """Plays a move; a search under way ends.

        Raises:
          IllegalAction: it is not legal.
        """
        game, state = self.search.game, self.state
        number = game.parse_action(action, state) if isinstance(action, str) else action
        game.play(state, number)
        self._go([*self._actions, number])

    def back(self) -> None:
        """Takes the last move of a player back, and what nature drew after it; a search under way ends."""
        for length in reversed(range(len(self._actions))):
            if self._natures(self._actions[:length]) is None:
                self._go(self._actions[:length])
                return

    def publish(self, message: dict[str, Any], *, last: bool = False) -> None:
        """Shows a snapshot of the search, unless its position has left the board; called on its thread."""
        with self._showing:
            if self._session is None or message["id"] != self._session.id:
                return
            self.snapshot = message
            if last:
                self.running = False

    def _go(self, actions: list[int]) -> None:
        self.stop()
        if self.running:  # it compiles, or its evaluator does not return
            with self._showing:
                self._session, self.running = None, False
        self._actions = self._drawn(actions)
        self.snapshot = None
        self.opened = opened(self._line())

    def _drawn(self, actions: list[int]) -> list[int]:
        """A line, with nature's moves after it drawn by their chances."""
        while (state := self._natures(actions)) is not None:
            actions = [*actions, self.search.game.drawn(state, self._dice.random())]
        return actions

    def _natures(self, actions: list[int]) -> State | None:
        """The position after a line, if nature moves there."""
        game = self.search.game
        if not game.has("chance"):
            return None
        state = game.play_moves(actions, self._first)
        return state if not game.is_over(state) and game.to_play(state) == NATURE else None

    def _line(self) -> PlayedGame:
        game, actions = self.search.game, tuple(self._actions)
        return PlayedGame(game.name, game, "", self._first, actions, game.play_moves(actions, self._first))

    def _on_message(self, _: Any, message: Any, __: Any) -> None:
        """Acts on a message from the front end; a refusal appears there as a sentence."""
        order = message.get("do") if isinstance(message, dict) else None
        try:
            if order == "play":
                self.play(int(message["action"]))
            elif order in ("analyse", "stop", "back"):
                getattr(self, order)()
        except (EngramError, KeyError, OverflowError, TypeError, ValueError) as error:
            self.snapshot = {"error": str(error), "stopped": "failed"}
