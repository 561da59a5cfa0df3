"""What GoGui asks for beyond the protocol: positions in one go, an end of thinking, a picture of it on the board.

Source: GoGui's manual, "Interactive Go engines" and "Analyze commands".
"""

from __future__ import annotations

from engram.gtp.protocol import GtpError, Words, only, parse_colour, parse_count
from engram.gtp.session import Session

_SHOWN = 10
"""Moves that are marked on the board."""


def _moves(session: Session, words: Words, name: str) -> list[tuple[int, int]]:
    if len(words) % 2:
        raise GtpError(f"{name} takes pairs of a colour and a vertex")
    parse = session.position.game.parse_action
    return [(parse_colour(colour), parse(vertex)) for colour, vertex in zip(words[::2], words[1::2], strict=True)]


def play_sequence(session: Session, words: Words) -> str:
    """All of these moves, or none where one is not legal."""
    before, resigned = len(session.position.moves), session.position.resigned
    try:
        for player, action in _moves(session, words, "gogui-play_sequence"):
            session.make(player, action)
    except GtpError:
        session.undo(len(session.position.moves) - before)
        session.position.resigned = resigned
        raise
    return ""


def undo(session: Session, words: Words) -> str:
    session.undo(parse_count(only(words, "gg-undo takes a number of moves")) if words else 1)
    return ""


def setup(session: Session, words: Words) -> str:
    """Stones on the empty board that are no moves."""
    placed = _moves(session, words, "gogui-setup")
    session.position.place(*([action for player, action in placed if player == side] for side in (0, 1)), player=0)
    session.forget(all_of_it=False)
    return ""


def setup_player(session: Session, words: Words) -> str:
    session.position.set_player(parse_colour(only(words, "gogui-setup_player takes a colour")))
    return ""


def show_search(session: Session, words: Words) -> str:
    """Thinks as about a move of its own and answers with marks for the board: values, visits, the line expected."""
    game, turn = session.position.game, session.position.game.to_play(session.position.state)
    player = parse_colour(only(words, "engram-show_search takes a colour")) if words else turn
    result = session.look(player)
    shown = [move for move in result.moves if move.visits > 0][:_SHOWN]
    on_board = [move for move in shown if move.name.lower() != "pass"]
    line = [f"{'bw'[(player + ply) % 2]} {name}" for ply, name in enumerate(result.moves[0].principal_variation)]
    visits = sum(move.visits for move in result.moves)
    sign = 1 if player == 0 else -1
    parts = [
        f"VAR {' '.join(line)}",
        "INFLUENCE " + " ".join(f"{move.name} {sign * move.value:.2f}" for move in on_board),
        "LABEL " + " ".join(f"{move.name} {move.visits}" for move in on_board),
        f"TEXT {game.action_name(result.action)}: value {result.value:+.3f}, {visits} visits",
    ]
    return "\n".join(part for part in parts if " " in part.strip())


COMMANDS = {
    "gogui-play_sequence": play_sequence,
    "gg-undo": undo,
    "gogui-setup": setup,
    "gogui-setup_player": setup_player,
    "gogui-interrupt": lambda _, __: "",  # asked for to learn that `# interrupt` is heard
    "gogui-analyze_commands": lambda _, __: "gfx/Search/engram-show_search %c\nstring/Score/final_score",
    "engram-show_search": show_search,
}
"""By name, as in `gtp_setup`."""
