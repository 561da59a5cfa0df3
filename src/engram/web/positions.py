"""Games and positions as data for the page: the board once, and for each position its marks and legal moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engram.errors import IllegalAction, InvalidGame, InvalidParameter
from engram.games.catalogue import GAMES
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.go.sgf import Note, annotated, is_go, on_move, read_sgf, result_text, write_sgf
from engram.games.record import NATURE
from engram.games.state import State
from engram.registry import about, defaults_of
from engram.web.fields import Fields
from engram.web.trust import typed

MOST_NAMES = 10_000


@dataclass(frozen=True)
class PlayedGame:
    """A game so far.

    Attributes:
      text: that names the game. game: its rules. start: the diagram of the first position; empty: the game's own start.
      first: the state before the moves. actions: the moves. state: the position after them.
    """

    text: str
    game: Game
    start: str
    first: State
    actions: tuple[int, ...]
    state: State

    @classmethod
    def read(cls, fields: Fields, *, allow_files: bool) -> PlayedGame:
        """The game and the moves that a request names.

        Raises:
          EngramError: there is no such game, position or move.
        """
        name, start = fields.text("game"), fields.text("start", "")
        with typed(name, allow_files=allow_files):
            game = game_of(name)
        first = game.parse_state(start) if start else game.initial_state()
        state, actions = first, []
        for number, word in enumerate(fields.texts("moves"), 1):
            try:
                action = game.parse_action(word, state)
                state = game.play(state, action)
            except IllegalAction as error:
                raise IllegalAction(f"{error} (move {number})") from None
            actions.append(action)
        return cls(name, game, start, first, tuple(actions), state)


def position(game: Game, state: State) -> dict[str, Any]:
    """A position: the data that change from move to move.

    `marks` is None without a scene, and the diagram replaces it. `outcome` is for player 0, without the rewards on
    the way, which a position does not know (`opened` does). Where nature moves, `chances` are the probabilities of its
    `legal` moves.
    """
    legal, scene = game.legal_actions(state), game.scene
    is_chance_node = bool(legal) and game.to_play(state) == NATURE
    marks, counts = scene.drawn(state) if scene else (None, None)
    names = [game.action_name(action, state) for action in legal]
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise InvalidGame(
            f"{game.name}: two moves of this position are written {name!r}, which cannot choose between them"
        )
    return {
        "marks": marks,
        "counts": counts,
        "chances": game.probabilities(state) if is_chance_node else None,
        "note": scene.note(state) if scene and scene.note else "",
        "diagram": game.render(state),
        "legal": [[action, name] for action, name in zip(legal, names, strict=True)],
        "to_play": game.to_play(state),
        "outcome": None if legal else game.outcome(state),
        "result": result_text(state) if is_go(game) and not legal else "",
    }


def opened(line: PlayedGame) -> dict[str, Any]:
    """A game with its board, and the position after its moves, with the outcome of the whole line.

    A game of Go that is over also has `resumed`, the diagram of its end without the passes.
    """
    game, end = line.game, position(line.game, line.state)
    if end["outcome"] is not None:
        if is_go(game):
            end["resumed"] = game.render(on_move(game, line.state, game.to_play(line.state)))
        end["outcome"] = game.line_return(line.actions, line.first)
    elif game.players == 1 and game.has("reward"):
        end["note"] = " · ".join(
            filter(None, [f"score so far {game.rewards_of(line.actions, line.first)[0]:,.10g}", end["note"]])
        )
    return {
        "game": line.text, "name": game.name, "start": line.start, "moves": game.move_names(line.actions, line.first),
        "actions": list(line.actions), "board": game.scene.board() if game.scene else None,
        "action_names": [game.action_name(action) for action in range(min(game.num_actions, MOST_NAMES))],
        "encodes": game.has("encode") and game.planes_shape is not None, "is_go": is_go(game), "players": game.players,
        "reviewable": not game.general_features, "first_player": game.to_play(line.first), "position": end,
    }  # fmt: skip


def catalogue() -> list[dict[str, Any]]:
    """The games that have a name, with their options and defaults."""
    return [
        {"name": name, "about": about(entry), "options": {key: value for key, value in defaults_of(entry).items()
                                                          if isinstance(value, bool | int | float)}}
        for name, entry in GAMES.items() if name not in ("openspiel", "gymnasium")
    ]  # fmt: skip


def from_sgf(raw: bytes) -> dict[str, Any]:
    """The game of an SGF file: `game`, `start` and `moves` as the page keeps them, and names of what is `left_out`.

    If a player moves twice in a row, a pass of the other player is put in between. Moves before a file's last set-up
    are left out; so are those before play resumed after two passes, and further passes at the end.

    Raises:
      InvalidFile: as `read_sgf`.
    """
    file = read_sgf(raw)
    first, played = file.since_setup()
    game, state, moves = file.game, first, list[str]()
    is_late = len(played) < len(file.moves)
    for number, (player, action) in enumerate(played):
        if game.to_play(state) != player and not game.is_over(state):
            state = game.play(state, "pass")
            moves.append("pass")
        if game.is_over(state):
            if all(game.action_name(later) == "pass" for _, later in played[number:]):
                break
            first = state = on_move(game, state, player)
            moves.clear()
            is_late = True
        state = game.play(state, action)
        moves.append(game.action_name(action))
    start = "" if game.same(first, game.initial_state()) else game.render(first)
    left_out = [*file.extras, *["earlier moves"] * is_late]
    return {"game": game.name, "start": start, "moves": moves, "left_out": left_out}


def notes_of(fields: Fields, line: PlayedGame) -> dict[int, Note]:
    """The notes on moves of a game that a request holds as four lists of one length; a bad move has a better one.

    Raises:
      InvalidParameter: they do not belong to this game.
    """
    numbers, texts = fields.wholes("numbers"), fields.texts("notes")
    badness, better = fields.wholes("badness"), fields.wholes("better")
    belongs = len(numbers) == len(texts) == len(badness) == len(better) and all(
        number <= len(line.actions) and bad <= min(2, 2 * number) and action < line.game.num_actions
        for number, bad, action in zip(numbers, badness, better, strict=True)
    )
    if not belongs:
        raise InvalidParameter("each note needs the number of a move, a text, a badness from 0 to 2, and a better move")
    rows = zip(numbers, texts, badness, better, strict=True)
    return {number: Note(text, bad, action if bad else None) for number, text, bad, action in rows}


def to_sgf(line: PlayedGame, notes: dict[int, Note]) -> str:
    """A game of Go as an SGF file, with notes by number of the move.

    Raises:
      InvalidParameter: another game.
    """
    game, first, state = line.game, line.first, line.state
    if not is_go(game):
        raise InvalidParameter(f"SGF files hold games of Go, not of {game.name}")
    moves = [((game.to_play(first) + number) % 2, action) for number, action in enumerate(line.actions)]
    result = result_text(state) if game.is_over(state) else None
    return annotated(write_sgf(game, first, moves, result=result), notes).decode()
