"""A search as a program of the Go Text Protocol, version 2: its commands, and those about moves and scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engram import __version__
from engram.drivers.result import SearchResult
from engram.errors import EngramError
from engram.games.go.rules import chains, render
from engram.games.go.sgf import result_text, write_sgf
from engram.gtp import gogui, setup
from engram.gtp.analysis import choices, kata_line, lz_line, parse_analysis, root_info, stream
from engram.gtp.protocol import COLOURS, Command, GtpError, Words, failure, parse_colour, parse_line, single, success
from engram.gtp.session import Session
from engram.gtp.territory import territory
from engram.storage import write_text


class GtpEngine:
    """A session, and its commands.

    Args:
      session: the game and its search. write: receives the text of answers.
    """

    def __init__(self, session: Session, write: Callable[[str], None]):
        self.quitting, self.session = False, session
        self._write = write
        functions = MOVES | setup.COMMANDS | gogui.COMMANDS
        self._commands: dict[str, Callable[[Words], str | None]] = {
            "list_commands": lambda _: "\n".join(sorted({*self._commands, *self._streams})),
            "known_command": lambda words: str({*words[:1]} & {*self._commands, *self._streams} != set()).lower(),
            "quit": self._quit,
            **{name: partial(function, self.session) for name, function in functions.items()},
        }
        self._streams: dict[str, Callable[[Words, Callable[[str], None]], None]] = {
            "lz-analyze": partial(self._analyse, False, False),
            "kata-analyze": partial(self._analyse, True, False),
            "lz-genmove_analyze": partial(self._analyse, False, True),
            "kata-genmove_analyze": partial(self._analyse, True, True),
        }

    def answer(self, line: str) -> None:
        """Carries out one line and writes its answer; does nothing for an empty line."""
        command = parse_line(line)
        if command is not None:
            self._carry_out(command)
            self.session.settle()

    def _carry_out(self, command: Command) -> None:
        try:
            if command.name in self._streams:
                self._stream(command)
            elif command.name in self._commands:
                self._write(success(command, self._commands[command.name](command.arguments) or ""))
            else:
                self._write(failure(command, "unknown command"))
        except EngramError as error:
            self._write(failure(command, str(error)))

    def _quit(self, _: Words) -> None:
        self.quitting = True

    def _stream(self, command: Command) -> None:
        # The answer starts with the first report, so that an error before it can still be answered by `?`.
        started = False

        def write(line: str) -> None:
            nonlocal started
            self._write(("" if started else f"={command.number}\n") + line + "\n")
            started = True

        self._streams[command.name](command.arguments, write)
        self._write("\n")

    def _analyse(self, kata: bool, plays: bool, words: Words, write: Callable[[str], None]) -> None:
        """Writes lines about a search until an input line waits, or about our own move, which it then plays."""
        session, position = self.session, self.session.position
        analysis = parse_analysis(words, position.turn)
        player, interval_s, state = analysis.player, analysis.interval_s, position.on_move(analysis.player)
        sign, seed = 1 - 2 * player, 0 if plays else session.next_seed()

        def report(result: SearchResult) -> None:
            if not (kata or analysis.ownership or analysis.root):
                return write(lz_line(result, analysis.max_moves))
            estimate = territory(position.game, state, result, seed)
            leads = {action: sign * lead for action, lead in estimate.leads.items()}
            line = kata_line(result, analysis.max_moves, leads) if kata else lz_line(result, analysis.max_moves)
            if analysis.root:
                line += f" {root_info(result, sign * estimate.lead)}"
            if analysis.ownership:
                line += " ownership " + " ".join(f"{sign * share:.4f}" for share in estimate.ownership)
            write(line)

        only = choices(position.game, state, analysis.avoid, analysis.allow)
        if plays:
            return write(f"play {session.make_move(player, report, interval_s, only=only)}")
        stream(
            session.ready(), state, None, seed=seed, interval_s=interval_s, report=report, stop=session.waiting,
            only=only,
        )  # fmt: skip


def play(session: Session, words: Words) -> None:
    if len(words) != 2:
        raise GtpError("play takes a colour and a vertex")
    player = parse_colour(words[0])
    if words[1].lower() == "resign":
        session.position.resigned = player
    else:
        session.play(player, session.position.game.parse_action(words[1]))


def undo(session: Session, _: Words) -> None:
    session.undo()


def genmove(session: Session, words: Words) -> str:
    return session.make_move(parse_colour(single(words, "genmove takes a colour")))


def cleanup(session: Session, words: Words) -> str:
    return session.make_move(parse_colour(single(words, "kgs-genmove_cleanup takes a colour")), takes_dead=True)


def reg_genmove(session: Session, words: Words) -> str:
    return session.look(parse_colour(single(words, "reg_genmove takes a colour"))).name


def final_score(session: Session, _: Words = ()) -> str:
    resigned = session.position.resigned
    return result_text(session.position.state) if resigned is None else f"{COLOURS[1 - resigned]}+R"


def final_status_list(session: Session, words: Words) -> str:
    status = single(words, "final_status_list takes alive, dead or seki")
    if status not in ("alive", "dead", "seki"):
        raise GtpError(f"a status is alive, dead or seki, not {status!r}")
    if status != "alive":
        return ""  # the score counts the board as it is: every stone lives
    name, state = session.position.game.action_name, session.position.state
    return "\n".join(" ".join(map(name, chain)) for chain in chains(state))


def printsgf(session: Session, words: Words) -> str:
    position = session.position
    ended = position.resigned is not None or position.game.is_over(position.state)
    text = write_sgf(
        position.game, position.start, position.moves,
        result=final_score(session) if ended else None, comments=session.comments,
    ).decode("utf-8")  # fmt: skip
    if not words:
        return "\n".join(line for line in text.splitlines() if line)
    write_text(" ".join(words), text)  # names of files may have spaces
    return ""


MOVES = {
    "protocol_version": lambda _, __: "2",
    "name": lambda _, __: "engram",
    "version": lambda _, __: __version__,
    "kgs-genmove_cleanup": cleanup,
    "showboard": lambda session, _: "\n" + render(session.position.state),
    **{
        command.__name__: command
        for command in (play, undo, genmove, reg_genmove, final_score, final_status_list, printsgf)
    },
}
"""Commands by name, as in `engram.gtp.setup`."""
