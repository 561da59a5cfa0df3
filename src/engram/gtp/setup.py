"""Commands that set up a GTP game: board, komi, handicap, time, a file."""

from __future__ import annotations

import re
from pathlib import Path

from engram.errors import EngramError, IllegalAction, InvalidSpecification
from engram.games.go.rules import go
from engram.games.go.sgf import read_sgf
from engram.gtp.clock import Clock
from engram.gtp.handicap import fixed_points, free_points
from engram.gtp.position import Position
from engram.gtp.protocol import GtpError, Words, parse_colour, parse_count, parse_vertex, single, vertex
from engram.gtp.session import Session


def boardsize(session: Session, words: Words) -> str:
    size = parse_count(single(words, "boardsize takes a size"))
    position = session.position
    try:
        game = position.game if size == position.size else go(size, float(position.start["komi"]))
    except InvalidSpecification:
        raise GtpError("unacceptable size") from None
    session.position = Position(game)
    session.forget(new_board=True)
    return ""


def clear_board(session: Session, _: Words) -> str:
    session.position.clear()
    session.forget()
    if session.clocks:
        for clock in session.clocks:
            clock.reset()
    return ""


def komi(session: Session, words: Words) -> str:
    word = single(words, "komi takes a number")
    try:
        number = float(word)
    except ValueError:
        raise GtpError(f"komi is a number, not {word!r}") from None
    if number != float(session.position.start["komi"]):
        session.position.set_komi(number)
        session.search = None
    return ""


def fixed_handicap(session: Session, words: Words) -> str:
    number = parse_count(single(words, "fixed_handicap takes a number of stones"))
    return _place(session, fixed_points(session.position.size, number))


def place_free_handicap(session: Session, words: Words) -> str:
    number = parse_count(single(words, "place_free_handicap takes a number of stones"))
    return _place(session, free_points(session.position.size, number))


def set_free_handicap(session: Session, words: Words) -> str:
    game, area = session.position.game, session.position.size**2
    try:
        actions = [parse_vertex(game, word) for word in words]
    except IllegalAction:
        raise GtpError("bad vertex list") from None
    if not 2 <= len(actions) < area:
        raise GtpError("bad vertex list")
    _place(session, actions)
    return ""


def _place(session: Session, actions: list[int]) -> str:
    session.position.place(actions)
    session.forget()
    return " ".join(vertex(session.position.game, action) for action in actions)


def time_settings(session: Session, words: Words) -> str:
    if len(words) != 3:
        raise GtpError("time_settings takes main time, overtime and its stones")
    main_s, overtime_s, stones = map(parse_count, words)
    session.clocks = (Clock(main_s, overtime_s, stones), Clock(main_s, overtime_s, stones))
    for clock in session.clocks:
        clock.reset()
    session.warm_up()
    return ""


def time_left(session: Session, words: Words) -> str:
    if len(words) != 3:
        raise GtpError("time_left takes a colour, seconds and stones")
    # A referee that grants some grace lets its clock go below 0: then no time is left.
    seconds = 0 if re.fullmatch(r"-[0-9]{1,9}", words[1]) else parse_count(words[1])
    player, stones = parse_colour(words[0]), parse_count(words[2])
    if session.clocks is None:
        session.clocks = (Clock(seconds), Clock(seconds))
    session.clocks[player].set_left(seconds, stones)
    return ""


def loadsgf(session: Session, words: Words) -> str:
    if not 1 <= len(words) <= 2:
        raise GtpError("loadsgf takes a file and the number of a move")
    before = parse_count(words[1]) if len(words) == 2 else None
    try:
        file = read_sgf(Path(words[0]))
    except EngramError as error:
        raise GtpError(f"cannot load file: {error}") from None
    moves = len(file.moves) if before is None else min(max(before - 1, 0), len(file.moves))
    session.position.load(file, moves)
    session.forget(new_board=True)
    return ""


COMMANDS = {
    command.__name__: command
    for command in (
        boardsize, clear_board, komi, fixed_handicap, place_free_handicap, set_free_handicap, time_settings, time_left,
        loadsgf,
    )
}  # fmt: skip
"""By name: functions that change a session and return the text of the answer, or raise `GtpError`."""
