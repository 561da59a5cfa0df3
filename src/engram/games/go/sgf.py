"""Games of Go as SGF files: the main line of a file as moves, a game as a file, and notes on its moves.

A file may contain moves that our rules forbid, so `read_sgf` checks all moves. It refuses stones without a liberty,
moves onto stones, suicide and repetitions.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sgfmill import sgf as sgfmill_sgf
from sgfmill.sgf_grammar import escape_text, main_sequence_iter, parse_sgf_game
from sgfmill.sgf_properties import Presenter

from engram import __version__
from engram.errors import IllegalAction, InvalidFile, InvalidSpecification, InvalidState
from engram.games.game import Game
from engram.games.go.board import MAX_SIZE, board_dtype
from engram.games.go.rules import area, go, stones, turn_to
from engram.games.state import State
from engram.storage import contents

_STONES = {2.75, 3.25, 3.75}
_HUNDREDTHS = {275, 325, 375, 550, 650, 750}
OUR_RULES = "Tromp-Taylor without suicide"
_COLOURS = ("b", "w")
_PROPERTIES = set(Presenter(MAX_SIZE, "UTF-8").property_types_by_ident)
"""Names of the properties of SGF, FF[4] and older."""
_CHARSET = re.compile(rb"CA\s*\[([^\[\]]{0,40})\]")
_MOST_SET_UPS = 400
_DOUBLE_BYTE = {
    "shift_jis", "shift_jis_2004", "shift_jisx0213", "cp932", "big5", "big5hkscs", "cp950", "gbk", "gb18030", "johab",
}  # fmt: skip
_JUDGEMENTS = ("BM", "DO", "IT", "TE")
_OF_POINTS = {"B", "W", "AB", "AW", "AE"}
MOST_NAMES = 10
"""The most unknown properties that a warning names."""

Move = tuple[int, int]
"""The player (0 is Black) and the action."""

Points = Collection[tuple[int, int]]


class Note(NamedTuple):
    """A note on a move, or on a game.

    Attributes:
      text: its comment. badness: 0; 1 for a bad move, 2 for a very bad one.
      better: the action that a variation shows in place of the move; None: no variation.
    """

    text: str
    badness: int = 0
    better: int | None = None


class _Setup(NamedTuple):
    """The points that gain or lose a stone in a node, in sgfmill's coordinates, and the player to move."""

    black: Points = ()
    white: Points = ()
    empty: Points = ()
    turn: int | None = None


@dataclass(frozen=True)
class GameFile:
    """The main line of an SGF file.

    Attributes:
      game: of the file's size and komi.
      setups: positions that the file sets up, each with the number of moves before it; the first is the start.
      moves: each with its player; a player may move twice in a row.
      unknown: names of properties in the main line that SGF does not define, sorted; `read_sgf` skips them.
      other_komi: the file's komi if the game that was asked for has a different one, else None.
      extras: which of variations, names and comments the file contains.
    """

    game: Game
    setups: tuple[tuple[int, State], ...]
    moves: tuple[Move, ...]
    unknown: tuple[str, ...] = ()
    other_komi: float | None = None
    extras: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """A sentence about unknown properties and a different komi; empty if there are none."""
        parts = []
        if self.other_komi is not None:
            parts.append(f"the file's komi is {self.other_komi:g}, and the game is {self.game.name}")
        if self.unknown:
            names = ", ".join(self.unknown[:MOST_NAMES]) + (", …" if len(self.unknown) > MOST_NAMES else "")
            parts.append(f"the file has properties that SGF does not define, which are passed over: {names}")
        return "; ".join(parts)

    def since_setup(self, number: int | None = None) -> tuple[State, tuple[Move, ...]]:
        """The last position that is set up before move `number` + 1, and the moves from there to move `number`.

        Args:
          number: of moves; default: all.

        Raises:
          InvalidState: the file has fewer moves.
        """
        number = len(self.moves) if number is None else number
        if not 0 <= number <= len(self.moves):
            raise InvalidState(f"the file has {len(self.moves)} moves, so there is no position after {number}")
        first, state = [setup for setup in self.setups if setup[0] <= number][-1]
        return state, self.moves[first:number]

    def position(self, number: int | None = None) -> State:
        """The position after `number` moves (default: all). Boards from before a set-up do not count for ko.

        Raises:
          InvalidState: the file has fewer moves.
        """
        state, moves = self.since_setup(number)
        for player, action in moves:
            state = play_as(self.game, state, player, action)
        return state


def is_go(game: Game) -> bool:
    """Whether `go` made this game."""
    return game.compiled and game.state_dtype == board_dtype


def play_as(game: Game, state: State, player: int, action: int) -> State:
    """The state after a move by `player`, even out of turn or after two passes: people correct and resume games.

    Raises:
      IllegalAction: the move is not legal for that player, or the game's move limit is reached.
    """
    return game.play(on_move(game, state, player), action)


def on_move(game: Game, state: State, player: int) -> State:
    """The state with `player` to move; the argument itself if `player` is to move and the game is not over."""
    is_turn = game.to_play(state) == player and not game.is_over(state)
    return state if is_turn else turn_to(state, player)


def read_sgf(source: str | bytes | Path, game: Game | None = None) -> GameFile:
    """The main line of an SGF file: set-up stones, moves and passes.

    Args:
      source: a path, or the file's bytes.
      game: a game of Go of the file's size; its komi replaces the file's. Default: the size and komi of the file, or
        komi 0. Some servers write `KM[650]` for 6.5 points, or count in stones: `KM[3.75]` and `KM[375]` are 7.5
        points.

    Raises:
      InvalidFile: the file cannot be read, is damaged, or is not an SGF file of Go. Or it has a different size from the
        game, a chain without liberties in a set-up, or an illegal move; the message says which.
    """
    name = "the SGF" if isinstance(source, bytes) else str(source)
    raw = source if isinstance(source, bytes) else contents(source)
    try:
        file = _parsed(raw)
        root = file.get_root()
        if (kind := _number(root, "GM", 1)) != 1:
            raise ValueError(f"it holds another game, GM[{kind:g}]")
        size, komi = file.get_size(), _number(root, "KM", 0.0)
        if not (root.has_property("AP") and root.get("AP")[0] == "engram"):
            komi = _points(komi)
        nodes = file.get_main_sequence()
        steps = [_step(node, size) for node in nodes]
        handicap = _number(root, "HA", 0) > 1
    except ValueError as error:
        raise InvalidFile(f"{name} is no SGF of a game of Go that can be read: {_sentence(error)}") from None
    if game is None:
        try:
            game = go(size, komi)
        except InvalidSpecification as error:
            raise InvalidFile(f"{name}: {error}") from None
    elif not is_go(game):
        raise InvalidFile(f"{name} is a game of Go, not of {game.name}")
    elif (width := len(stones(game.initial_state()))) != size:
        raise InvalidFile(f"{name} is on a board of {size}×{size}, not {width}×{width}")
    moves = tuple(move for _, move in steps if move is not None)
    setups: list[tuple[int, State]] = []
    number = 0
    state = turn_to(game.initial_state(), 1 if handicap else 0)
    try:
        for setup, move in steps:
            if setup is not None or not setups:
                if len(setups) == _MOST_SET_UPS:
                    raise InvalidFile(f"{name} sets up more than {_MOST_SET_UPS} positions")
                state = _set_up(game, state, setup or _Setup(), moves[number:])
                setups.append((number, state))
            if move is not None:
                number += 1
                state = play_as(game, state, *move)
    except InvalidState as error:
        raise InvalidFile(f"{name}: {error}") from None
    except IllegalAction as error:
        raise InvalidFile(f"{name}: move {number} cannot be played: {error}") from None
    names = {name for node in nodes for name in node.properties()}
    extras = {
        "variations": any(len(node) > 1 for node in nodes),
        "names": names & {"PB", "PW"},
        "comments": "C" in names,
    }
    has_other = root.has_property("KM") and komi != float(game.initial_state()["komi"])
    return GameFile(
        game, tuple(setups), moves, tuple(sorted(names - _PROPERTIES)), komi if has_other else None,
        tuple(name for name, there in extras.items() if there),
    )  # fmt: skip


def write_sgf(
    game: Game,
    start: State,
    moves: Sequence[Move],
    *,
    result: str | None = None,
    players: tuple[str, str] | None = None,
    comments: dict[int, str] | None = None,
) -> bytes:
    """A game of Go as an SGF file.

    Args:
      game: of Go. start: the position before the first move.
      moves: each with its player.
      result: such as "B+3.5", "W+R" or "0"; None: unknown.
      players: names of Black and White.
      comments: texts by number of the move, from 1; 0 is the start.
    """
    marks = stones(start)
    size = len(marks)
    file = sgfmill_sgf.Sgf_game(size=size, encoding="UTF-8")
    root = file.get_root()
    root.set("AP", ("engram", __version__))
    root.set("KM", float(start["komi"]))
    root.set("RU", OUR_RULES)
    black, white = ([_point(int(action), size) for action in np.flatnonzero(marks == 1 + k)] for k in (0, 1))
    if black or white:
        root.set_setup_stones(black, white)
    if game.to_play(start) != 0:
        root.set("PL", "w")
        if len(black) > 1 and not white:
            root.set("HA", len(black))
    if result is not None:
        root.set("RE", result)
    if players is not None:
        root.set("PB", players[0])
        root.set("PW", players[1])
    for number in range(len(moves) + 1):
        node = root
        if number:
            player, action = moves[number - 1]
            node = file.extend_main_sequence()
            node.set_move(_COLOURS[player], _point(action, size))
        if comments and number in comments:
            node.set("C", comments[number])
    return bytes(file.serialise())


def annotated(raw: bytes, notes: Mapping[int, Note]) -> bytes:
    """An SGF file of Go with notes on moves of its main line; its other properties and its variations stay.

    Args:
      raw: a file that `read_sgf` reads. notes: by number of the move, from 1; 0 is the game.
    """
    file = _parsed(raw)
    size, root = file.get_size(), file.get_root()
    nodes = [root, *(node for node in file.get_main_sequence() if node.get_move()[0] is not None)]
    for number, note in notes.items():
        node = nodes[number]
        text = escape_text(note.text.encode("ascii", "replace"))  # in any encoding that the file may mix
        node.set_raw("C", node.get_raw("C") + b"\n\n" + text if node.has_property("C") else text)
        if note.badness and not any(map(node.has_property, _JUDGEMENTS)):  # SGF allows one of them
            node.set("BM", note.badness)
        if note.better is not None and node is not root:
            others, variation = list(node.parent), node.parent.new_child()
            variation.set_move(node.get_move()[0], _point(note.better, size))
            if any(other.get_raw_move() == variation.get_raw_move() for other in others):
                variation.delete()
    return bytes(file.serialise())


def result_text(state: State) -> str:
    """The score of the board as SGF and GTP write it: "B+3.5", "W+0.5", "0"."""
    lead = area(state) - float(state["komi"])
    return f"{'B' if lead > 0 else 'W'}+{abs(lead):g}" if lead else "0"


def _step(node: Any, size: int) -> tuple[_Setup | None, Move | None]:
    """The set-up of a node and its move, each None if the node has none.

    Raises:
      ValueError: a value is malformed, or the node holds both or two moves, which SGF forbids.
    """
    if sum(len(node.get_raw_list(name)) for name in "BW" if node.has_property(name)) > 1:
        raise ValueError("a node holds two moves")
    colour, point = node.get_move()
    move = None if colour is None else (_COLOURS.index(colour), _action(point, size))
    turn = _COLOURS.index(node.get("PL")) if node.has_property("PL") else None
    if not node.has_setup_stones() and turn is None:
        return None, move
    black, white, empty = node.get_setup_stones()
    if move is not None and (black or white or empty):
        raise ValueError("a node holds both a move and set-up stones")
    return _Setup(black, white, empty, turn), move


def _set_up(game: Game, state: State, setup: _Setup, moves: Sequence[Move]) -> State:
    """The state after a set-up; if the file names no player to move, the player of the next move is to move."""
    following = moves[0][0] if moves else game.to_play(state)
    player = following if setup.turn is None else setup.turn
    if setup.black or setup.white or setup.empty:
        marks = stones(state)
        for mark, points in ((1, setup.black), (2, setup.white), (0, setup.empty)):
            for row, column in points:
                marks[len(marks) - 1 - row, column] = mark
        state = game.parse_state("\n".join("".join(".XO"[mark] for mark in row) for row in marks))
    return turn_to(state, player)


def _tidy(tree: Any) -> None:
    """Corrects, in the main line of a file, forms that other programs write but SGF does not define.

    Raises:
      ValueError: the board is not square, or property names have only lower-case letters.
    """
    root = tree.sequence[0]
    height, colon, width = b"".join(root.get("SZ", [b""])[:1]).strip().partition(b":")
    if colon and height != width:
        raise ValueError(f"SZ is {height.decode('ascii', 'replace')}:{width.decode('ascii', 'replace')}, not square")
    root["SZ"] = [height]
    if not height:
        del root["SZ"]
    charset = b"".join(root.get("CA", [b""])[:1]).decode("ascii", "replace").strip()
    if re.fullmatch(r"[\w.:-]*", charset, re.ASCII) and not _is_encoding(charset):
        root.pop("CA", None)
    nodes = list(main_sequence_iter(tree))
    small = [node.pop("", None) for node in nodes]  # names without a capital letter, such as a program's own
    if any(small) and not any(nodes):
        raise ValueError("its properties have names without a capital letter")
    for node in nodes:
        for name in _OF_POINTS & node.keys():
            node[name] = [b"".join(value.split()) for value in node[name]]
        if "PL" in node:
            node["PL"] = [value.strip()[:1] for value in node["PL"]]


def _is_encoding(charset: str) -> bool:
    try:
        b"a".decode(charset)
    except UnicodeDecodeError:  # a character that needs more bytes
        return True
    except (LookupError, ValueError):  # also from a codec that does not produce text, such as rot13
        return False
    return True


def _parsed(raw: bytes) -> Any:
    """The file as sgfmill reads it.

    Raises:
      ValueError: it cannot be read.
    """
    tree = _tree(raw)
    _tidy(tree)
    return sgfmill_sgf.Sgf_game.from_coarse_game_tree(tree)


def _tree(raw: bytes) -> Any:
    """The tree of a file: converted to UTF-8 if its encoding requires it, but unchanged if the file mixes encodings.

    It mixes them if its bytes hold more properties than its text, and each of their values is text by itself.

    Raises:
      ValueError: the file has no tree.
    """
    text = in_utf_8(raw)
    if text is not raw and _size(raw) > _size(text):
        tree, charset = parse_sgf_game(raw), _CHARSET.findall(raw)[0].decode("latin-1")
        values = [value for node in main_sequence_iter(tree) for values in node.values() for value in values]
        if all(any(_decoded(value, name) is not None for name in ("utf-8", charset)) for value in values):
            return tree
    return parse_sgf_game(text)


def _size(file: bytes) -> int:
    """The number of properties in a file's main line; 0 if it cannot be read."""
    try:
        return sum(map(len, main_sequence_iter(parse_sgf_game(file))))
    except ValueError:
        return 0


def in_utf_8(raw: bytes) -> bytes:
    """A file in an East Asian encoding as UTF-8: some characters there end in the byte of a backslash or of `]`.

    Programs that escape bytes, not characters, double such a byte. Their files stay as they are, because the parser
    reads bytes too. So do files in UTF-8 that name another encoding.
    """
    charsets = {name.strip().lower() for name in _CHARSET.findall(raw)}
    charset = charsets.pop().decode("latin-1") if len(charsets) == 1 else ""
    if not _is_encoding(charset) or codecs.lookup(charset).name not in _DOUBLE_BYTE:
        return raw
    if _decoded(raw, "utf-8") is not None or (text := _decoded(raw, charset)) is None:
        return raw
    endings = (b"\\", b"]")
    ending = "".join(mark for mark in set(text) - set("\\]") if mark.encode(charset, "ignore").endswith(endings))
    bare = ending and re.search(rf"[{ending}](?!\\)", text)
    return _CHARSET.sub(b"CA[UTF-8]", text.encode()) if bare else raw


def _decoded(raw: bytes, charset: str) -> str | None:
    try:
        return raw.decode(charset)
    except UnicodeDecodeError:
        return None


def _number(root: Any, name: str, default: float) -> float:
    """A number in the root; the default if its value is empty, as some programs write it."""
    text = root.get_raw(name).decode("ascii", "backslashreplace").strip() if root.has_property(name) else ""
    if not text:
        return default
    with suppress(ValueError):
        if isfinite(number := float(text.replace(",", "."))):
            return number
    raise ValueError(f"{name} is not a number, but {text[:20]!r}")


def _points(komi: float) -> float:
    """A komi in points, which the file may give in hundredths, or in stones of two points each."""
    stones = komi / 100.0 if komi in _HUNDREDTHS else komi
    return 2.0 * stones if stones in _STONES else stones


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    if not text or "unpack" in text:  # a point of one letter, or of three
        text = "a value is malformed"
    # An error can quote bytes of a damaged file, which must not reach a terminal.
    return "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in text)


def _action(point: tuple[int, int] | None, size: int) -> int:
    return size * size if point is None else (size - 1 - point[0]) * size + point[1]


def _point(action: int, size: int) -> tuple[int, int] | None:
    return None if action == size * size else (size - 1 - action // size, action % size)
