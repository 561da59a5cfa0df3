"""KataGo's JSON analysis protocol: queries about positions of games in lines, answers in lines, in any order.

Source: KataGo's documentation, "Analysis_Engine.md". Numbers are Black's unless a query says otherwise.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from engram import __version__
from engram.drivers.limit import Limit
from engram.drivers.result import SearchResult
from engram.drivers.search import Search
from engram.errors import EngramError
from engram.games.game import Game
from engram.games.go.rules import go
from engram.gtp.analysis import SHORTEST_S, choices, stream, visited
from engram.gtp.position import GoPosition
from engram.gtp.protocol import GtpError, Lines, parse_colour
from engram.gtp.setup import differing_rules
from engram.gtp.territory import territory
from engram.presets.catalogue import preset as preset_of
from engram.rng import derive_seed
from engram.search.preset import Preset

Query = dict[str, Any]

_KINDS: dict[str, type | tuple[type, ...]] = {
    "moves": list, "initialStones": list, "analyzeTurns": list, "priorities": list, "initialPlayer": str,
    "boardXSize": int, "boardYSize": int, "maxVisits": int, "priority": int, "komi": (int, float),
    "reportDuringSearchEvery": (int, float), "includeOwnership": bool, "includePolicy": bool, "overrideSettings": dict,
    "includeMovesOwnership": bool, "avoidMoves": list, "allowMoves": list,
}  # fmt: skip
_COORDINATES = re.compile(r"\(([0-9]{1,2}),([0-9]{1,2})\)")
_REQUIRED = ("moves", "rules", "boardXSize", "boardYSize")
_PERSPECTIVES = ("BLACK", "WHITE", "SIDETOMOVE")


class QueryError(EngramError):
    """A query that cannot be answered, with the name of the field at fault."""

    def __init__(self, field: str, sentence: str):
        super().__init__(sentence)
        self.field = field


@dataclass
class Task:
    """One position of a query.

    Attributes:
      query: its fields that are not null. turn: number of moves before the position. priority: higher ones come first.
      position: the game up to there. limit: of its search. perspective: the side for which the numbers are given.
      only: the moves to choose from; None: all. terminated: whether to stop at once.
    """

    query: Query
    turn: int
    priority: int
    position: GoPosition
    limit: Limit
    perspective: str
    only: list[int] | None = None
    terminated: bool = False


class AnalysisEngine:
    """Answers queries, one position after another.

    Args:
      preset: the search. simulations: of a position whose query has no `maxVisits`.
      seed: of all random numbers. write: receives each line. lines: of the input.
    """

    def __init__(
        self, preset: Preset | str, *, simulations: int, seed: int = 0, write: Callable[[str], None], lines: Lines
    ):
        self._preset, self._seed = preset_of(preset), seed
        self._simulations = Limit(simulations=simulations).simulations
        self._write, self._lines = write, lines
        self._tasks: list[Task] = []
        self._running: Task | None = None
        self._search: Search | None = None
        self._ended = False

    def run(self) -> None:
        """Works until the input has ended and all its queries are answered."""
        while self._tasks or not self._ended:
            self._take(wait=not self._tasks)
            if self._tasks:
                # The first of the highest priority; `max` keeps the order of equals.
                self._running = max(self._tasks, key=lambda task: task.priority)
                self._tasks.remove(self._running)
                self._analyse(self._running)
                self._running = None

    def _take(self, *, wait: bool = False) -> None:
        """Accepts the lines that have arrived, or waits for one."""
        while not self._ended and (wait or self._lines.waiting()):
            line, wait = self._lines.next(), False
            self._ended = line is None
            if line is not None and line.strip():
                try:
                    self._accept(line)
                except RecursionError:
                    self._answer({"error": "the line nests too deeply"})

    def _accept(self, line: str) -> None:
        try:
            query = json.loads(line, parse_constant=_finite, parse_float=_finite)
            if not isinstance(query, dict):
                raise ValueError("it is not a JSON object")
        except ValueError as error:
            return self._answer({"error": f"the line cannot be read: {error}"})
        identity = {"id": query["id"]} if isinstance(query.get("id"), str) else {}
        try:
            if not identity:
                raise QueryError("id", "a query has an id, a text")
            if "action" in query:
                return self._act(query)
            tasks = self._tasks_of(query)
            rules = query["rules"] if isinstance(query["rules"], str) else json.dumps(query["rules"])
            if other := differing_rules(rules):
                sentence = f"unsupported: {', '.join(other)}; engram plays area scoring, positional superko, no suicide"
                self._answer({"warning": sentence[:400], "field": "rules", **identity})
            for field in ("avoidMoves", "allowMoves"):
                if any(part.get("untilDepth", 1) != 1 for part in query.get(field) or []):
                    self._answer({"warning": f"{field} bind the next move alone", "field": field, **identity})
            self._tasks += tasks
        except QueryError as error:
            self._answer({"error": str(error), "field": error.field, **identity})

    def _act(self, query: Query) -> None:
        action = query["action"]
        more: dict[str, Any] = {}
        if action == "query_version":
            more = {"version": __version__, "git_hash": "<omitted>"}
        elif action == "query_models":
            more = {"models": []}
        elif action == "clear_cache":
            self._search = None if self._running is None else self._search
        elif action in ("terminate", "terminate_all"):
            turns = query.get("turnNumbers")
            if turns is not None and not isinstance(turns, list):
                raise QueryError("turnNumbers", "turnNumbers is a list")
            for task in [*self._tasks, *([self._running] if self._running else [])]:
                meant = action == "terminate_all" or task.query["id"] == query.get("terminateId")
                task.terminated |= meant and (turns is None or task.turn in turns)
        else:
            raise QueryError("action", f"there is no action {action!r}")
        self._answer({**query, **more})

    def _tasks_of(self, query: Query) -> list[Task]:
        """The positions of a query; the first field that cannot be used is a `QueryError`."""
        query = {field: value for field, value in query.items() if value is not None}
        for field in _REQUIRED:
            if field not in query:
                raise QueryError(field, f"a query has {field}")
        for field, kind in _KINDS.items():
            value = query.get(field)
            if field in query and (not isinstance(value, kind) or (kind is not bool and isinstance(value, bool))):
                raise QueryError(field, f"{field} cannot be {json.dumps(value)[:80]}")
        settings, moves = query.get("overrideSettings", {}), query["moves"]
        perspective = settings.get("reportAnalysisWinratesAs", "BLACK")
        if perspective not in _PERSPECTIVES:
            raise QueryError("overrideSettings", f"reportAnalysisWinratesAs is one of {', '.join(_PERSPECTIVES)}")
        visits = query.get("maxVisits", self._simulations)
        _checked("maxVisits", Limit, visits)
        limit = _checked("overrideSettings", Limit, visits, settings.get("maxTime"))
        if query["boardXSize"] != query["boardYSize"]:
            raise QueryError("boardYSize", "a board is square")
        _checked("boardXSize", go, query["boardXSize"])
        game = _checked("komi", go, query["boardXSize"], query.get("komi", 7.5))
        turns = query.get("analyzeTurns", [len(moves)])
        if not turns:
            raise QueryError("analyzeTurns", "analyzeTurns has no turn")
        if query.get("reportDuringSearchEvery", 1.0) <= 0:
            raise QueryError("reportDuringSearchEvery", "reportDuringSearchEvery is a number of seconds above 0")
        priorities = query.get("priorities") or [query.get("priority", 0)] * len(turns)
        if len(priorities) != len(turns) or not all(type(number) is int for number in priorities):
            raise QueryError("priorities", "priorities has a whole number for each of analyzeTurns")
        stones = [_checked("initialStones", self._move, game, stone) for stone in query.get("initialStones", [])]
        plays = [_checked("moves", self._move, game, move) for move in moves]
        player = _checked(
            "initialPlayer", parse_colour, query.get("initialPlayer") or "BW"[plays[0][0] if plays else 0]
        )
        for turn in turns:
            if type(turn) is not int or not 0 <= turn <= len(plays):
                raise QueryError("analyzeTurns", f"a turn is 0 to {len(plays)}, not {turn!r}")
        position = GoPosition(game)
        sides = ([action for side, action in stones if side == colour] for colour in (0, 1))
        _checked("initialStones", partial(position.place, player=player), *sides)
        positions, wanted = {0: position.copy()}, set(turns)
        for number, (side, action) in enumerate(plays[: max(turns)], start=1):
            _checked("moves", position.play, side, action)
            if number in wanted:
                positions[number] = position.copy()
        tasks = []
        for turn, priority in zip(turns, priorities, strict=True):
            position = positions[turn]
            avoid, allow = (self._names(query, field, game, position.turn) for field in ("avoidMoves", "allowMoves"))
            state = position.on_move(position.turn)
            only = _checked("avoidMoves" if avoid else "allowMoves", choices, game, state, avoid, allow)
            tasks.append(Task(query, turn, priority, position, limit, perspective, only))
        return tasks

    def _names(self, query: Query, field: str, game: Game, player: int) -> tuple[str, ...]:
        """The names of a player's moves in a field of `avoidMoves` or `allowMoves`."""
        names: list[str] = []
        for part in query.get(field, []):
            if not isinstance(part, dict) or not isinstance(moves := part.get("moves"), list):
                raise QueryError(field, f"{field} is a list of objects with player, moves and untilDepth")
            for vertex in moves:
                side, action = _checked(field, self._move, game, [part.get("player"), vertex])
                names += [game.action_name(action)] * (side == player)
        return tuple(names)

    @staticmethod
    def _move(game: Any, move: Any) -> tuple[int, int]:
        if not isinstance(move, list) or len(move) != 2 or not all(isinstance(word, str) for word in move):
            raise GtpError("a move is a list of a player and a vertex")
        vertex, size = move[1], game.planes_shape[1]
        if numbers := _COORDINATES.fullmatch(vertex):  # from the upper left, counted from 0
            column, row = map(int, numbers.groups())
            if not max(column, row) < size:
                raise GtpError(f"{vertex} is not on the board")
            return parse_colour(move[0]), row * size + column
        return parse_colour(move[0]), game.parse_action(vertex)

    def _analyse(self, task: Task) -> None:
        about = {"id": task.query["id"], "turnNumber": task.turn}
        if task.terminated:
            return self._answer({**about, "isDuringSearch": False, "noResults": True})
        try:
            game, state = task.position.game, task.position.on_move(task.position.turn)
            if self._search is None or self._search.game.name != game.name:
                self._search = Search(game, self._preset)
            self._search.clear()
            seed = derive_seed(self._seed, json.dumps(task.query["moves"][: task.turn]))
            interval_s = task.query.get("reportDuringSearchEvery")

            def report(result: SearchResult) -> None:
                if interval_s is not None and result.stopped == "running":
                    self._answer({**about, "isDuringSearch": True, **self._answer_to(task, result, seed)})

            def stop() -> bool:
                self._take()
                return task.terminated

            result = stream(
                self._search, state, task.limit, seed=seed, report=report, stop=stop, only=task.only,
                interval_s=1e9 if interval_s is None else max(interval_s, SHORTEST_S),
            )  # fmt: skip
            self._answer({**about, "isDuringSearch": False, **self._answer_to(task, result, seed)})
        except EngramError as error:
            self._answer({"error": str(error), **about})

    def _answer_to(self, task: Task, result: SearchResult, seed: int) -> dict[str, Any]:
        game, player = task.position.game, task.position.turn
        black = 1 - 2 * player
        sign = {"BLACK": black, "WHITE": -black, "SIDETOMOVE": 1}[task.perspective]  # from the mover's numbers
        estimate = territory(game, task.position.on_move(player), result, seed)

        def owners(shares: np.ndarray) -> list[float]:
            return [round(sign * black * share, 4) for share in shares.tolist()]

        def figures(value: float, bound: float, lead: float, visits: int) -> dict[str, Any]:
            scores = dict.fromkeys(("scoreLead", "scoreMean", "scoreSelfplay"), sign * black * lead)
            share, lcb = (1 + sign * value) / 2, (1 + sign * bound) / 2
            return {
                "visits": visits, "winrate": share, "lcb": lcb, "utility": sign * value, "scoreStdev": 0.0, **scores,
            }  # fmt: skip

        moves = visited(result)
        answer: dict[str, Any] = {
            "moveInfos": [
                {
                    "move": move.name, "order": order, "prior": move.prior, "pv": list(move.principal_variation),
                    **figures(move.value, move.low, estimate.leads[move.action], move.visits),
                }
                for order, move in enumerate(moves)
            ],
            "rootInfo": {
                "currentPlayer": "BW"[player], "thisHash": f"{game.hash(task.position.state):016X}",
                "symHash": f"{game.canonical_hash(task.position.state):016X}",
                **figures(result.value, moves[0].low, estimate.lead, sum(move.visits for move in result.moves)),
            },
        }  # fmt: skip
        if task.query.get("includeOwnership"):
            answer["ownership"] = owners(estimate.ownership)
        if task.query.get("includeMovesOwnership"):
            for move, row in zip(moves, answer["moveInfos"], strict=True):
                row["ownership"] = owners(estimate.ownerships[move.action])
        if task.query.get("includePolicy"):
            priors = {move.action: move.prior for move in result.moves}
            answer["policy"] = [priors.get(action, -1.0) for action in range(game.num_actions)]
        return answer

    def _answer(self, answer: dict[str, Any]) -> None:
        self._write(json.dumps(answer, sort_keys=True) + "\n")


def _finite(text: str) -> float:
    """A number on a line. Raises ValueError if it is not finite: JSON cannot write it, and an answer may repeat it."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not a JSON number")
    return number


def _checked(field: str, make: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function of a field's value, whose refusal is a `QueryError`."""
    try:
        return make(*arguments)
    except EngramError as error:
        raise QueryError(field, str(error)) from None
