"""GoGui's commands beyond the protocol: whole positions, a stop of the search, and marks on the board.

Source: GoGui's manual, "Interactive Go engines" and "Analyze commands".
"""

from __future__ import annotations

from engram.gtp.protocol import COLOURS, GtpError, Words, parse_colour, parse_count, single
from engram.gtp.session import Session
from engram.gtp.territory import territory

MARKED = 10
"""Moves that are marked on the board."""


def _moves(session: Session, words: Words, name: str) -> list[tuple[int, int]]:
    if len(words) % 2:
        raise GtpError(f"{name} takes pairs of a colour and a vertex")
    pairs = zip(words[::2], words[1::2], strict=True)
    return [(parse_colour(colour), session.position.game.parse_action(word)) for colour, word in pairs]


def play_sequence(session: Session, words: Words) -> None:
    """Plays all of these moves, or none if one of them is illegal."""
    before, resigned = len(session.position.moves), session.position.resigned
    try:
        for player, action in _moves(session, words, "gogui-play_sequence"):
            session.play(player, action)
    except GtpError:
        session.undo(len(session.position.moves) - before)
        session.position.resigned = resigned
        raise


def undo(session: Session, words: Words) -> None:
    session.undo(parse_count(single(words, "gg-undo takes a number of moves")) if words else 1)


def setup(session: Session, words: Words) -> None:
    """Puts stones on the empty board without moves."""
    stones = _moves(session, words, "gogui-setup")
    session.position.place(*([action for player, action in stones if player == side] for side in (0, 1)), player=0)
    session.forget()


def setup_player(session: Session, words: Words) -> None:
    session.position.set_player(parse_colour(single(words, "gogui-setup_player takes a colour")))


def show_search(session: Session, words: Words) -> str:
    """Thinks as it does about its own move, and answers with marks for the board: values, visits, the expected line."""
    player = parse_colour(single(words, "engram-show_search takes a colour")) if words else session.position.turn
    result = session.look(player)
    visited = [move for move in result.moves if move.visits > 0][:MARKED]
    on_board = [move for move in visited if move.name.lower() != "pass"]
    line = [
        f"{COLOURS[(player + ply) % 2].lower()} {name}"
        for ply, name in enumerate(result.move(result.action).principal_variation)
    ]
    visits = sum(move.visits for move in result.moves)
    sign = 1 if player == 0 else -1
    parts = [
        f"VAR {' '.join(line)}",
        "INFLUENCE " + " ".join(f"{move.name} {sign * move.value:.2f}" for move in on_board),
        "LABEL " + " ".join(f"{move.name} {move.visits}" for move in on_board),
        f"TEXT {result.name}: value {result.value:+.3f}, {visits} visits",
    ]
    return "\n".join(part for part in parts if " " in part.strip())


def ownership(session: Session, _: Words) -> str:
    """The expected owner of each point after a search, as a board of colours from -1 (White) to 1 (Black)."""
    position = session.position
    result = session.look(position.turn)
    estimate = territory(position.game, position.on_move(position.turn), result, session.next_seed())
    rows = estimate.ownership.reshape(position.size, position.size)
    return "\n".join(" ".join(f"{share:.2f}" for share in row) for row in rows)


COMMANDS = {
    "gogui-play_sequence": play_sequence,
    "gg-undo": undo,
    "gogui-setup": setup,
    "gogui-setup_player": setup_player,
    "gogui-interrupt": lambda _, __: "",  # GoGui looks for this command to learn that `# interrupt` works
    "gogui-analyze_commands": lambda _, __: (
        "gfx/Search/engram-show_search %c\ndboard/Ownership/engram-ownership\nstring/Score/final_score"
    ),
    "engram-show_search": show_search,
    "engram-ownership": ownership,
}
"""Commands by name, as in `engram.gtp.setup`."""
