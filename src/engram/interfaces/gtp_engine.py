"""A search as a program of the Go Text Protocol, version 2: what each command does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from engram import __version__
from engram.errors import EngramError, InvalidSpecification
from engram.games.game import Game
from engram.games.go import chains, go, render
from engram.games.sgf import is_go, read_sgf, result_text, write_sgf
from engram.interfaces.gtp_analysis import Analysis, kata_line, lz_line, parse_analysis, stream
from engram.interfaces.gtp_clock import Clock
from engram.interfaces.gtp_position import Position
from engram.interfaces.gtp_protocol import (
    Command,
    GtpError,
    failure,
    parse_colour,
    parse_count,
    parse_line,
    success,
)
from engram.rng import derive_seed
from engram.search.limit import Limit
from engram.search.presets import Preset, preset
from engram.search.result import SearchResult
from engram.search.search import Search

Words = tuple[str, ...]
MOVES_A_POINT = 0.7
"""A game is taken to last about so many moves for each point of the board; it sets how the clock is shared out."""


class GtpEngine:
    """The state of a session, and its commands.

    Args:
      game: of Go. preset_: the search.
      simulations, seconds: of a move; where there is a clock too, whichever ends first. None and no clock:
        10,000 simulations.
      seed: of all random numbers.
      write: takes the text of answers.
      waiting: whether a line has come that was not answered yet; it ends an analysis.

    Raises:
      InvalidSpecification: a game that is not Go.
    """

    def __init__(
        self,
        game: Game,
        preset_: Preset | str = "uct",
        *,
        simulations: int | None = None,
        seconds: float | None = None,
        seed: int = 0,
        write: Callable[[str], None],
        waiting: Callable[[], bool],
    ):
        if not is_go(game):
            raise InvalidSpecification(f"the Go Text Protocol is for Go, not for {game.name}")
        if simulations is not None or seconds is not None:
            Limit(simulations=simulations, seconds=seconds)  # refuses what is out of range before a game begins
        self.quitting = False
        self._preset = preset(preset_)
        self._simulations, self._seconds = simulations, seconds
        self._seed, self._searches = seed, 0
        self._write, self._waiting = write, waiting
        self._position = Position(game)
        self._search: Search | None = None
        self._clocks: tuple[Clock, Clock] | None = None
        self._comments: dict[int, str] = {}
        self._thought = ""
        self._commands: dict[str, Callable[[Words], str]] = {
            "protocol_version": lambda _: "2",
            "name": lambda _: "engram",
            "version": lambda _: __version__,
            "known_command": self._known_command,
            "list_commands": lambda _: "\n".join(sorted({*self._commands, *self._streams})),
            "quit": self._quit,
            "boardsize": self._boardsize,
            "clear_board": self._clear_board,
            "komi": self._komi,
            "play": self._play,
            "genmove": self._genmove,
            "reg_genmove": self._reg_genmove,
            "undo": self._undo,
            "showboard": lambda _: "\n" + render(self._position.state),
            "time_settings": self._time_settings,
            "time_left": self._time_left,
            "final_score": self._final_score,
            "final_status_list": self._final_status_list,
            "loadsgf": self._loadsgf,
            "printsgf": self._printsgf,
        }
        self._streams: dict[str, Callable[[Words], None]] = {
            "lz-analyze": lambda words: self._analyse(words, lz_line),
            "kata-analyze": lambda words: self._analyse(words, kata_line),
            "lz-genmove_analyze": self._genmove_analyse,
        }

    def warm_up(self) -> None:
        """Compiles and loads all that a move needs, so that it never counts against a clock."""
        self._ready().warm_up()

    def answer(self, line: str) -> None:
        """Carries out one line and writes its answer; nothing for an empty line."""
        command = parse_line(line)
        if command is None:
            return
        try:
            if command.name in self._streams:
                self._stream(command)
            elif command.name in self._commands:
                self._write(success(command, self._commands[command.name](command.arguments)))
            else:
                self._write(failure(command, "unknown command"))
        except EngramError as error:
            self._write(failure(command, str(error)))

    # -------------------------------------------------------------------------- about the program

    def _known_command(self, words: Words) -> str:
        return "true" if words and (words[0] in self._commands or words[0] in self._streams) else "false"

    def _quit(self, _: Words) -> str:
        self.quitting = True
        return ""

    # ------------------------------------------------------------------------ about the position

    def _boardsize(self, words: Words) -> str:
        size = parse_count(_only(words, "boardsize takes a size"))
        komi = float(self._position.start["komi"])
        try:
            game = self._position.game if size == self._position.size else go(size, komi)
        except InvalidSpecification:
            raise GtpError("unacceptable size") from None
        self._position = Position(game)
        self._forget(all_of_it=True)
        return ""

    def _clear_board(self, _: Words) -> str:
        self._position.clear()
        self._forget(all_of_it=False)
        if self._clocks:
            for clock in self._clocks:
                clock.reset()
        return ""

    def _komi(self, words: Words) -> str:
        word = _only(words, "komi takes a number")
        try:
            komi = float(word)
        except ValueError:
            raise GtpError(f"komi is a number, not {word!r}") from None
        if komi != float(self._position.start["komi"]):
            self._position.set_komi(komi)
            self._search = None
        return ""

    def _play(self, words: Words) -> str:
        if len(words) != 2:
            raise GtpError("play takes a colour and a vertex")
        player = parse_colour(words[0])
        if words[1].lower() == "resign":
            self._position.resigned = player
        else:
            self._make(player, self._position.game.parse_action(words[1]))
        return ""

    def _undo(self, _: Words) -> str:
        self._position.undo()
        self._comments.pop(len(self._position.moves) + 1, None)
        return ""

    def _make(self, player: int, action: int) -> None:
        # The tree may stand elsewhere, after an `undo` say: then the next search begins a new one.
        root = self._search.root if self._search else None
        follows = root is not None and self._position.game.same(root, self._position.on_move(player))
        self._position.play(player, action)
        if self._search and follows:
            self._search.advance(action)

    def _make_own(self, player: int, action: int) -> None:
        self._make(player, action)
        self._comments[len(self._position.moves)] = self._thought

    def _forget(self, *, all_of_it: bool) -> None:
        self._comments = {}
        if all_of_it:
            self._search = None
        elif self._search is not None:
            self._search.clear()

    # --------------------------------------------------------------------------- about the search

    def _ready(self) -> Search:
        if self._search is None:
            self._search = Search(self._position.game, self._preset)
        return self._search

    def _next_seed(self) -> int:
        self._searches += 1
        return derive_seed(self._seed, "gtp", self._searches)

    def _limit(self, player: int) -> Limit:
        share = math.inf
        if self._clocks is not None:
            to_come = MOVES_A_POINT * self._position.size**2 - len(self._position.moves)
            share = self._clocks[player].share(int(to_come / 2))
        seconds = min(share, self._seconds or math.inf)
        bounded = self._simulations is not None or math.isfinite(seconds)
        return Limit(
            simulations=self._simulations if bounded else 10_000, seconds=seconds if math.isfinite(seconds) else None
        )

    def _think(self, player: int, tell: Callable[[SearchResult], None] | None = None, interval_s: float = 1.0) -> int:
        state = self._position.on_move(player)
        begun = time.perf_counter()
        limit, seed = self._limit(player), self._next_seed()
        if tell is None:
            result = self._ready().run(state, limit, seed=seed)
        else:
            result = stream(
                self._ready(), state, limit, seed=seed, interval_s=interval_s, tell=tell, stop=self._waiting
            )
        if self._clocks is not None:
            self._clocks[player].spend(time.perf_counter() - begun)
        visits = sum(move.visits for move in result.moves)
        self._thought = f"value {result.value:+.3f}, {visits} visits, {' '.join(result.moves[0].principal_variation)}"
        return result.action

    def _genmove(self, words: Words) -> str:
        player = parse_colour(_only(words, "genmove takes a colour"))
        action = self._think(player)
        self._make_own(player, action)
        return self._position.game.action_name(action)

    def _reg_genmove(self, words: Words) -> str:
        action = self._think(parse_colour(_only(words, "reg_genmove takes a colour")))
        return self._position.game.action_name(action)

    # ------------------------------------------------------------------------- answers in a stream

    def _stream(self, command: Command) -> None:
        # The first line of the answer is written when the first news are, so that errors can still be told.
        begun = False

        def write(line: str) -> None:
            nonlocal begun
            self._write(("" if begun else f"={command.number}\n") + line + "\n")
            begun = True

        self._tell = write
        self._streams[command.name](command.arguments)
        self._write("\n")

    def _analyse(self, words: Words, line: Callable[[SearchResult, int | None], str]) -> None:
        wanted = parse_analysis(words)
        state = self._position.on_move(self._player(wanted))
        stream(
            self._ready(), state, None, seed=self._next_seed(), interval_s=wanted.interval_s,
            tell=lambda result: self._tell(line(result, wanted.max_moves)), stop=self._waiting,
        )  # fmt: skip

    def _player(self, wanted: Analysis) -> int:
        position = self._position
        return position.game.to_play(position.state) if wanted.player is None else wanted.player

    def _genmove_analyse(self, words: Words) -> None:
        wanted = parse_analysis(words)
        player = self._player(wanted)
        action = self._think(player, lambda result: self._tell(lz_line(result, wanted.max_moves)), wanted.interval_s)
        self._make_own(player, action)
        self._tell(f"play {self._position.game.action_name(action)}")

    # ---------------------------------------------------------------------------- about the clock

    def _time_settings(self, words: Words) -> str:
        if len(words) != 3:
            raise GtpError("time_settings takes main time, overtime and its stones")
        main_s, overtime_s, stones = map(parse_count, words)
        self._clocks = (Clock(main_s, overtime_s, stones), Clock(main_s, overtime_s, stones))
        for clock in self._clocks:
            clock.reset()
        self.warm_up()
        return ""

    def _time_left(self, words: Words) -> str:
        if len(words) != 3:
            raise GtpError("time_left takes a colour, seconds and stones")
        player, seconds, stones = parse_colour(words[0]), parse_count(words[1]), parse_count(words[2])
        if self._clocks is None:
            self._clocks = (Clock(seconds), Clock(seconds))
        self._clocks[player].set_left(seconds, stones)
        return ""

    # ------------------------------------------------------------------- scores, and games in files

    def _result(self) -> str:
        resigned = self._position.resigned
        return result_text(self._position.state) if resigned is None else f"{'WB'[resigned]}+R"

    def _final_score(self, _: Words) -> str:
        return self._result()

    def _final_status_list(self, words: Words) -> str:
        status = _only(words, "final_status_list takes alive, dead or seki")
        if status not in ("alive", "dead", "seki"):
            raise GtpError(f"a status is alive, dead or seki, not {status!r}")
        if status != "alive":
            return ""  # scored as the stones lie, every stone on the board lives
        name = self._position.game.action_name
        return "\n".join(" ".join(map(name, chain)) for chain in chains(self._position.state))

    def _loadsgf(self, words: Words) -> str:
        if not 1 <= len(words) <= 2:
            raise GtpError("loadsgf takes a file and the number of a move")
        before = parse_count(words[1]) if len(words) == 2 else None
        try:
            file = read_sgf(Path(words[0]))
        except EngramError as error:
            raise GtpError(f"cannot load file: {error}") from None
        moves = len(file.moves) if before is None else min(max(before - 1, 0), len(file.moves))
        self._position.load(file, moves)
        self._forget(all_of_it=True)
        return ""

    def _printsgf(self, words: Words) -> str:
        position = self._position
        known = position.resigned is not None or position.game.is_over(position.state)
        text = write_sgf(
            position.game, position.start, position.moves,
            result=self._result() if known else None, comments=self._comments,
        ).decode("utf-8")  # fmt: skip
        if not words:
            return "\n".join(line for line in text.splitlines() if line)
        try:
            Path(words[0]).write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:
            raise GtpError(f"{words[0]} cannot be written: {error}") from None
        return ""


def _only(words: Words, wanted: str) -> str:
    if len(words) != 1:
        raise GtpError(wanted)
    return words[0]
