"""Commands that set up a GTP game: board, komi, rules, handicap, time, a file."""

from __future__ import annotations

import json
import re
import sys

from engram.errors import EngramError, IllegalAction
from engram.games.go.rules import go
from engram.games.go.sgf import OUR_RULES, read_sgf
from engram.gtp.handicap import fixed_points, free_points
from engram.gtp.position import GoPosition
from engram.gtp.protocol import GtpError, Words, parse_colour, parse_count, single
from engram.gtp.session import Session

RULES = {
    "friendlyPassOk": False, "hasButton": False, "ko": "POSITIONAL", "scoring": "AREA", "suicide": False,
    "tax": "NONE", "whiteHandicapBonus": "0",
}  # fmt: skip
"""Our rules in KataGo's words."""
NAMED_RULES = dict.fromkeys(("chinese-ogs", "chinese-kgs", OUR_RULES.lower()), RULES)
"""Names of the same rules; they differ in White's bonus for handicap stones, which we leave to komi."""


def boardsize(session: Session, words: Words) -> None:
    size, position = parse_count(single(words, "boardsize takes a size")), session.position
    try:
        session.begin(GoPosition(position.game if size == position.size else go(size, float(position.start["komi"]))))
    except EngramError:
        raise GtpError("unacceptable size") from None


def clear_board(session: Session, _: Words) -> None:
    session.position.clear()
    session.forget()
    for clock in session.clocks or ():
        clock.reset()


def komi(session: Session, words: Words) -> None:
    word = single(words, "komi takes a number")
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", word):
        raise GtpError(f"komi is a number, not {word!r}")
    number = float(word)
    if number != float(session.position.start["komi"]):
        session.position.set_komi(number)
        session.search = None


def differing_rules(text: str) -> list[str]:
    """The rules that differ from engram's; `text` is a name or JSON of KataGo; an unknown name itself differs."""
    try:
        rules = json.loads(text) if text.startswith("{") else NAMED_RULES.get(text.lower(), {text: None})
    except (ValueError, RecursionError):
        return [text]
    texts = {name: str(rule) if type(rule) is int else rule for name, rule in rules.items()}
    return [name for name, rule in texts.items() if name != "friendlyPassOk" and RULES.get(name, "") != rule]


def set_rules(_: Session, words: Words) -> None:
    if not words or differing_rules(" ".join(words)):
        raise GtpError(f"unsupported rules; ours are {json.dumps(RULES)}")


def _place(session: Session, actions: list[int]) -> str:
    session.position.place(actions)
    session.forget()
    return " ".join(map(session.position.game.action_name, actions))


def fixed_handicap(session: Session, words: Words) -> str:
    number = parse_count(single(words, "fixed_handicap takes a number of stones"))
    return _place(session, fixed_points(session.position.size, number))


def place_free_handicap(session: Session, words: Words) -> str:
    number = parse_count(single(words, "place_free_handicap takes a number of stones"))
    return _place(session, free_points(session.position.size, number))


def set_free_handicap(session: Session, words: Words) -> None:
    try:
        actions = list(map(session.position.game.parse_action, words))
    except IllegalAction:
        raise GtpError("bad vertex list") from None
    if not 2 <= len(actions) < session.position.size**2:
        raise GtpError("bad vertex list")
    _place(session, actions)


def time_settings(session: Session, words: Words) -> None:
    if len(words) != 3:
        raise GtpError("time_settings takes main time, overtime and its stones")
    session.set_clocks(*map(parse_count, words))
    session.warm_up()


def time_left(session: Session, words: Words) -> None:
    if len(words) != 3:
        raise GtpError("time_left takes a colour, seconds and stones")
    # A referee that grants some grace lets its clock go below 0: then no time is left.
    seconds = 0 if re.fullmatch(r"-[0-9]{1,9}", words[1]) else parse_count(words[1])
    player, stones = parse_colour(words[0]), parse_count(words[2])
    if session.clocks is None:
        session.set_clocks(seconds)
    assert session.clocks is not None
    session.clocks[player].set_left(seconds, stones)


def loadsgf(session: Session, words: Words) -> None:
    if not words:
        raise GtpError("loadsgf takes a file and the number of a move")
    before = parse_count(words[-1]) if len(words) > 1 and words[-1].isdecimal() else None
    path = " ".join(words if before is None else words[:-1])  # names of files may have spaces
    try:
        file = read_sgf(path)
        if file.warning:
            print(f"engram: {file.warning}", file=sys.stderr, flush=True)
        position = GoPosition(file.game)
        position.load(file, len(file.moves) if before is None else min(max(before - 1, 0), len(file.moves)))
        session.begin(position)
    except EngramError as error:
        raise GtpError(f"cannot load file: {error}") from None


COMMANDS = {
    command.__name__: command
    for command in (
        boardsize, clear_board, komi, fixed_handicap, place_free_handicap, set_free_handicap, time_settings, time_left,
        loadsgf,
    )
} | {"kata-get-rules": lambda _, __: json.dumps(RULES), "kata-set-rules": set_rules}  # fmt: skip
"""By name: functions that change a session and return the text of the answer, if any, or raise `GtpError`."""
