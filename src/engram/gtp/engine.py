"""A search as a program of the Go Text Protocol, version 2: which commands there are, and what playing ones do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engram import __version__
from engram.errors import EngramError
from engram.games.game import Game
from engram.games.go.rules import chains, render
from engram.games.go.sgf import result_text, write_sgf
from engram.gtp import gogui as gtp_gogui
from engram.gtp import setup as gtp_setup
from engram.gtp.analysis import Analysis, kata_line, lz_line, parse_analysis, stream
from engram.gtp.protocol import Command, GtpError, Words, failure, only, parse_colour, parse_line, success
from engram.gtp.session import Session
from engram.search.preset import Preset
from engram.search.result import SearchResult
from engram.storage import whole


class GtpEngine:
    """A session, and its commands.

    Args:
      game: of Go. preset: the search.
      simulations, seconds: of a move; where there is a clock too, whichever ends first. None and no clock:
        10,000 simulations.
      seed: of all random numbers.
      write: takes the text of answers.
      waiting: whether a line has come that was not answered yet; it ends an analysis.
      interrupted: whether one of them is `# interrupt`; it ends the thinking about a move too.

    Raises:
      InvalidSpecification: a game that is not Go.
    """

    def __init__(
        self,
        game: Game,
        preset: Preset | str = "uct",
        *,
        simulations: int | None = None,
        seconds: float | None = None,
        seed: int = 0,
        write: Callable[[str], None],
        waiting: Callable[[], bool],
        interrupted: Callable[[], bool] = lambda: False,
    ):
        self.quitting = False
        self.session = Session(
            game, preset, simulations=simulations, seconds=seconds, seed=seed, waiting=waiting, interrupted=interrupted
        )
        self._write = write
        self._commands: dict[str, Callable[[Words], str]] = {
            "protocol_version": lambda _: "2",
            "name": lambda _: "engram",
            "version": lambda _: __version__,
            "known_command": self._known_command,
            "list_commands": lambda _: "\n".join(sorted({*self._commands, *self._streams})),
            "quit": self._quit,
            "play": self._play,
            "genmove": self._genmove,
            "reg_genmove": self._reg_genmove,
            "undo": self._undo,
            "showboard": lambda _: "\n" + render(self.session.position.state),
            "final_score": self._final_score,
            "final_status_list": self._final_status_list,
            "printsgf": self._printsgf,
        }
        more = gtp_setup.COMMANDS | gtp_gogui.COMMANDS
        self._commands |= {name: partial(command, self.session) for name, command in more.items()}
        self._streams: dict[str, Callable[[Words], None]] = {
            "lz-analyze": lambda words: self._analyse(words, lz_line),
            "kata-analyze": lambda words: self._analyse(words, kata_line),
            "lz-genmove_analyze": self._genmove_analyse,
        }

    def warm_up(self) -> None:
        """Compiles and loads all that a move needs, so that it never counts against a clock."""
        self.session.warm_up()

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

    # ------------------------------------------------------------------------------ about moves

    def _play(self, words: Words) -> str:
        if len(words) != 2:
            raise GtpError("play takes a colour and a vertex")
        player = parse_colour(words[0])
        if words[1].lower() == "resign":
            self.session.position.resigned = player
        else:
            self.session.make(player, self.session.position.game.parse_action(words[1]))
        return ""

    def _undo(self, _: Words) -> str:
        self.session.undo()
        return ""

    def _genmove(self, words: Words) -> str:
        player = parse_colour(only(words, "genmove takes a colour"))
        action = self.session.think(player)
        self.session.make_own(player, action)
        return self.session.position.game.action_name(action)

    def _reg_genmove(self, words: Words) -> str:
        action = self.session.think(parse_colour(only(words, "reg_genmove takes a colour")))
        return self.session.position.game.action_name(action)

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
        state = self.session.position.on_move(self._player(wanted))
        stream(
            self.session.ready(), state, None, seed=self.session.next_seed(), interval_s=wanted.interval_s,
            tell=lambda result: self._tell(line(result, wanted.max_moves)), stop=self.session.waiting,
        )  # fmt: skip

    def _player(self, wanted: Analysis) -> int:
        position = self.session.position
        return position.game.to_play(position.state) if wanted.player is None else wanted.player

    def _genmove_analyse(self, words: Words) -> None:
        wanted = parse_analysis(words)
        player = self._player(wanted)
        action = self.session.think(
            player, lambda result: self._tell(lz_line(result, wanted.max_moves)), wanted.interval_s
        )
        self.session.make_own(player, action)
        self._tell(f"play {self.session.position.game.action_name(action)}")

    # ------------------------------------------------------------------- scores, and games in files

    def _result(self) -> str:
        resigned = self.session.position.resigned
        return result_text(self.session.position.state) if resigned is None else f"{'WB'[resigned]}+R"

    def _final_score(self, _: Words) -> str:
        return self._result()

    def _final_status_list(self, words: Words) -> str:
        status = only(words, "final_status_list takes alive, dead or seki")
        if status not in ("alive", "dead", "seki"):
            raise GtpError(f"a status is alive, dead or seki, not {status!r}")
        if status != "alive":
            return ""  # scored as the stones lie, every stone on the board lives
        name = self.session.position.game.action_name
        return "\n".join(" ".join(map(name, chain)) for chain in chains(self.session.position.state))

    def _printsgf(self, words: Words) -> str:
        position = self.session.position
        known = position.resigned is not None or position.game.is_over(position.state)
        text = write_sgf(
            position.game, position.start, position.moves,
            result=self._result() if known else None, comments=self.session.comments,
        ).decode("utf-8")  # fmt: skip
        if not words:
            return "\n".join(line for line in text.splitlines() if line)
        try:
            with whole(words[0]) as part:
                part.write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:
            raise GtpError(f"{words[0]} cannot be written: {error}") from None
        return ""
