"""Records of Go games: read from files, kept as moves, and drawn as positions to learn from.

Memory holds only moves, two bytes each (60 MB for 30 million positions). Drawing a position replays its game, which
takes microseconds, far less than learning from it. Draws are uniform over all positions of all games, and a batch
depends only on the seed and its number.
"""

from __future__ import annotations

import hashlib
import lzma
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engram.errors import InvalidFile, InvalidParameter
from engram.games.game import Game
from engram.games.go.board import MAX_POINTS, area_balance, board_dtype
from engram.games.go.endings import ROLLOUTS, is_premature, survivors
from engram.games.go.rules import go
from engram.games.record import SLACK, copy_state
from engram.native.intrinsics import call, record_at
from engram.native.jit import compiled
from engram.networks.encoding import Encoder, as_bytes, encode_state, rows_of
from engram.networks.symmetry import symmetry_tables, turned
from engram.storage import check_regular, contents
from engram.training.replay import Examples

LONGEST_LINE = 1 << 20
_RANK = re.compile(r"(\d+)\s*([kdp])", re.IGNORECASE)
_DECIDED = re.compile(r"([BW])\+(\d|R)", re.IGNORECASE)
_FILTER = re.compile(r"(.+):(\d+[kdp])", re.IGNORECASE)
_SPLIT = 1 << 32
_PASS, _OLD_PASS = ord("z") - ord("a"), ord("t") - ord("a")  # both letters; the second as in SGF, up to 19×19
MIN_KOMI = 3.0


@dataclass(frozen=True)
class RecordedGame:
    """A game of a file: komi (nan: unknown), value for Black (nan: not to be learnt), actions."""

    komi: float
    value: float
    actions: np.ndarray


@dataclass(frozen=True)
class Records:
    """Games of one board.

    Attributes:
      game: the game. starts: (K,) initial states, one per komi.
      start: (G,) index into `starts`. offset: (G + 1,) start of each game's moves in `actions`. actions: uint16.
      value: (G,) result for player 0; nan: not to be learnt.
      held_out: (G,) in [0, 1), from the hash of a game's moves: games below the given share are kept for validation.
      left_out: number of games with an illegal move.
    """

    game: Game
    starts: np.ndarray
    start: np.ndarray
    offset: np.ndarray
    actions: np.ndarray
    value: np.ndarray
    held_out: np.ndarray
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.value)

    @property
    def positions(self) -> int:
        """Positions with a move to learn."""
        return int(self.offset[-1])

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The arrays that decide what is learnt."""
        return self.starts, self.start, self.offset, self.actions, self.value

    def part(self, mask: np.ndarray) -> Records:
        """The games that a mask of booleans selects."""
        lengths = np.diff(self.offset)
        return replace(
            self, start=self.start[mask], offset=np.concatenate([[0], np.cumsum(lengths[mask])]),
            actions=self.actions[np.repeat(mask, lengths)], value=self.value[mask], held_out=self.held_out[mask],
        )  # fmt: skip

    def split(self, share: float) -> tuple[Records, Records]:
        """(games to learn from, games held out): by game, independent of other games."""
        return self.part(self.held_out >= share), self.part(self.held_out < share)


class PositionSource(ABC):
    """Positions to learn from, or held out; a subclass sets their number and the tables of the board's symmetries."""

    positions: int
    _cells: np.ndarray
    _actions: np.ndarray

    @abstractmethod
    def at(self, rows: np.ndarray, turns: np.ndarray | None = None) -> Examples:
        """The positions of these rows, turned if `turns` are given."""

    def draw(self, count: int, seed: int, number: int) -> Examples:
        """Batch `number` of a seed: positions drawn uniformly, each turned at random."""
        rng = np.random.default_rng((seed % 2**64, number))
        return self.at(rng.integers(0, self.positions, count), rng.integers(0, len(self._cells), count))


class RecordSampler(PositionSource):
    """The positions of records, all games' moves one after another.

    Args:
      records: the games. history: of the network.
    """

    def __init__(self, records: Records, history: int | None):
        if not records.positions:
            fault = f"; {records.left_out:,} have an illegal move" if records.left_out else ""
            raise InvalidParameter(
                f"no game is left to learn from, or to hold out{fault}: give more, or other files first"
            )
        self.records, self.positions = records, records.positions
        self._encode = Encoder(records.game, history)
        self._starts = words_of(records.game, records.starts)
        self._cells, self._actions = symmetry_tables(records.game)

    def at(self, rows: np.ndarray, turns: np.ndarray | None = None) -> Examples:
        """The positions before the moves at these indices of `records.actions`, turned if `turns` are given."""
        records, moves = self.records, rows
        games = np.searchsorted(records.offset, moves, side="right") - 1
        turns = np.zeros(len(moves), np.int64) if turns is None else turns
        spans = np.stack([records.start[games], records.offset[games], moves], axis=1)
        planes, sides = replayed(self._encode, self._starts, spans, records.actions)
        action = self._actions[turns, records.actions[moves]]
        value = (records.value[games] * sides).astype(np.float32)
        return Examples(turned(planes, turns, self._cells), action, value)


def words_of(game: Game, states: np.ndarray) -> np.ndarray:
    """States (K,) in the form that compiled code copies: (K, 8-byte words)."""
    padded = np.zeros((len(states), game.state_bytes), np.uint8)
    padded[:, : states.itemsize] = as_bytes(states)
    return padded.view(np.uint64)


def replayed(
    encode: Encoder, starts: np.ndarray, rows: np.ndarray, actions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Planes (B, C, H, W) of positions in games, and the side to move (B,): 1 for player 0, -1 for player 1.

    Args:
      starts: from `words_of`. actions: of all games.
      rows: (B, 3) int64: index of the start, first move, and end of the moves (exclusive).
    """
    planes, sides = np.zeros((len(rows), *encode.shape), np.float32), np.zeros(len(rows))
    _replay(encode.record, encode.steps, starts, rows, actions, encode.game.new_buffer(), rows_of(planes), sides)
    return planes, sides


@compiled
def _replay(games, history, starts, rows, actions, buffer, planes, sides):
    game, state = games[0], buffer.ctypes.data
    for row in range(len(rows)):
        copy_state(game, state, starts[rows[row, 0]].ctypes.data)
        for move in range(rows[row, 1], rows[row, 2]):
            call(game.play, (state, np.int64(actions[move])))
        sides[row] = 1.0 - 2.0 * call(game.to_play, (state,))
        encode_state(game, history, state, planes[row].ctypes.data)


@compiled
def legal_length(games, start, actions, buffer, legal):
    """The number of moves until the game is over; -1 if one is illegal."""
    game, state = games[0], buffer.ctypes.data
    copy_state(game, state, start.ctypes.data)
    for move in range(len(actions)):
        count = call(game.legal_actions, (state, legal.ctypes.data))
        if count == 0:
            return move
        if not (legal[:count] == actions[move]).any():
            return -1
        call(game.play, (state, np.int64(actions[move])))
    return len(actions)


@compiled
def _ending(games, start, actions, buffer):
    """Corrects a game's last two moves, passes: how many of them to leave out, and the result for Black or nan.

    A pass that comes too early is left out, with those after it. If all rollouts from the last stones agree, their
    result counts: that of the board once dead stones are taken.
    """
    game, state = games[0], buffer.ctypes.data
    copy_state(game, state, start.ctypes.data)
    for move in range(len(actions) - 2):
        call(game.play, (state, np.int64(actions[move])))
    board = record_at(state, board_dtype)
    total, alive = 0.0, np.zeros(MAX_POINTS, np.int64)
    for seed in range(ROLLOUTS):
        total += survivors(board, seed, alive)
    result = total / ROLLOUTS if abs(total) == ROLLOUTS else np.nan
    for kept in range(2):
        if is_premature(board, area_balance(board), ROLLOUTS):
            return 2 - kept, result
        call(game.play, (state, np.int64(actions[len(actions) - 2 + kept])))
    return 0, result


def read(game: Game, files: Iterable[str | Path]) -> Records:
    """Reads the games of files on the game's board.

    Args:
      game: Go of any size; its komi replaces an unknown one.
      files: `.tsv` or `.tsv.xz` (board, komi, result, ranks, source, moves), `.sgf`, or folders of SGF; with `:5k`
        after the name only games whose players have at least that rank.

    Results become values if komi is 3 or more and the game ended by counting or resignation. People pass while dead
    stones are on the board, and the count here takes these for alive: such passes are left out, and rollouts take the
    stones off.

    Raises:
      InvalidFile: a file is missing, or its content does not fit its name. InvalidParameter: not Go.
    """
    if "komi" not in (game.state_dtype.names or ()):
        raise InvalidParameter(f"records are of Go, not of {game.name}")
    state = game.initial_state()
    size, limit = int(state["width"]), int(state["move_limit"])
    games = [entry for file in files for entry in _games(str(file), size)]
    if not games:
        raise InvalidParameter(f"there is no game of {game.name} in these files that fits")
    komis = [float(state["komi"]) if np.isnan(entry.komi) else entry.komi for entry in games]
    distinct = sorted(set(komis))
    starts = np.array([go(size, komi=komi, move_limit=limit).initial_state() for komi in distinct])
    start = np.searchsorted(distinct, komis)
    lengths, values = np.zeros(len(games), np.int64), np.array([entry.value for entry in games])
    record, words = game.record(), words_of(game, starts)
    buffer, legal = game.new_buffer(), np.zeros(game.num_actions + SLACK, np.int32)
    for number, entry in enumerate(games):
        length = legal_length(record, words[start[number]], entry.actions, buffer, legal)
        lengths[number] = max(length, 0)
        if length > 1 and (entry.actions[length - 2 : length] == size * size).all():
            early, result = _ending(record, words[start[number]], entry.actions[:length], buffer)
            lengths[number] -= early
            if not np.isnan(values[number]) and not np.isnan(result):
                values[number] = result
    return Records(
        game=game,
        starts=starts,
        start=start,
        offset=np.concatenate([[0], np.cumsum(lengths)]),
        actions=np.concatenate([entry.actions[:length] for entry, length in zip(games, lengths, strict=True)]),
        value=values,
        held_out=np.array([_hashed(entry.actions) for entry in games]),
        left_out=int((lengths == 0).sum()),
    ).part(lengths > 0)


def _hashed(actions: np.ndarray) -> float:
    return int.from_bytes(hashlib.blake2b(actions.tobytes(), digest_size=4).digest(), "little") / _SPLIT


def _games(text: str, size: int) -> Iterator[RecordedGame]:
    match = _FILTER.fullmatch(text)
    path, least = (Path(match[1]), strength(match[2])) if match else (Path(text), None)
    try:
        if path.is_dir():
            for file in sorted(file for file in path.rglob("*") if file.suffix.lower() == ".sgf"):
                yield from _from_sgf(file, size, least)
        elif path.suffix.lower() == ".sgf":
            yield from _from_sgf(path, size, least)
        else:
            check_regular(path)
            with lzma.open(path, "rt") if path.suffix == ".xz" else open(path, encoding="utf-8") as lines:
                for number, line in enumerate(iter(lambda: lines.readline(LONGEST_LINE), ""), 1):
                    if len(line) == LONGEST_LINE:
                        raise InvalidFile(
                            f"{path}, line {number}: it has {LONGEST_LINE:,} characters or more, not a game"
                        )
                    yield from _from_line(line, size, least, f"{path}, line {number}")
    except (OSError, lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path} cannot be read: {error}") from None


def strength(rank: str) -> int | None:
    """A rank as a number, stronger ones higher (1k: 0, 1d: 1, a professional: 10 or more); None: unknown."""
    match = _RANK.fullmatch(rank.strip())
    if match is None:
        return None
    number = int(match[1])
    return {"k": 1 - number, "d": number, "p": 9 + number}[match[2].lower()]


def _fits(ranks: tuple[str, str], least: int | None) -> bool:
    strengths = [strength(rank) for rank in ranks]
    return least is None or all(number is not None and number >= least for number in strengths)


def value_of(komi: float, result: str) -> float:
    """The result for Black in [-1, 1]; nan if komi or the kind of ending makes it useless."""
    if not komi >= MIN_KOMI:
        return np.nan
    if result in ("0", "Draw"):
        return 0.0
    decided = _DECIDED.match(result)
    return np.nan if decided is None else 1.0 if decided[1].upper() == "B" else -1.0


def _from_line(line: str, size: int, least: int | None, where: str) -> Iterator[RecordedGame]:
    try:
        board, komi_text, result, black, white, _, moves = line.rstrip("\n").split("\t")
        if int(board) != size or not _fits((black, white), least):
            return
        komi = np.nan if komi_text == "?" else float(komi_text)
        letters = np.frombuffer(moves.encode("ascii"), np.uint8).reshape(-1, 2).astype(np.int64) - ord("a")
        outside = ((letters < 0) | (letters >= size)).any(axis=1)
        passes = (letters == _PASS).all(axis=1) | ((letters == _OLD_PASS).all(axis=1) & (size <= 19))
        if (outside & ~passes).any():
            raise ValueError
    except ValueError:
        raise InvalidFile(f"{where}: this is not a game (board, komi, result, ranks, source, moves)") from None
    if len(letters):
        komi = _playable(komi, size)
        yield RecordedGame(komi, value_of(komi, result), _actions(letters[:, 0], letters[:, 1], size))


def _playable(komi: float, size: int) -> float:
    """The komi, or nan for one that Go does not have, or that is larger than the board: some servers write 375."""
    return komi if abs(komi) <= size * size and float(2 * komi).is_integer() else np.nan


def _actions(columns: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    inside = (columns < size) & (rows < size)
    return np.where(inside, rows * size + columns, size * size).astype(np.uint16)


def _from_sgf(path: Path, size: int, least: int | None) -> Iterator[RecordedGame]:
    """The games of an SGF file, except any of another game or board, with stones set up, or with moves out of turn.

    Later games that cannot be read are left out, too; if the first cannot be read, the file is not SGF.
    """
    from sgfmill import sgf, sgf_grammar

    text = contents(path)
    try:
        try:
            trees = sgf_grammar.parse_sgf_collection(text)
        except ValueError:
            trees = [sgf_grammar.parse_sgf_game(text)]  # the text after the first game is not SGF
        for number, tree in enumerate(trees):
            try:
                yield from _from_tree(sgf.Sgf_game.from_coarse_game_tree(tree), size, least)
            except ValueError:
                if number == 0:
                    raise
    except ValueError as error:
        raise InvalidFile(f"{path} is not SGF: {str(error) or 'a move off the board'}") from None


def _from_tree(tree: Any, size: int, least: int | None) -> Iterator[RecordedGame]:
    root = tree.get_root()
    texts = {key: root.get(key) if root.has_property(key) else "" for key in ("RE", "BR", "WR")}
    nodes = tree.get_main_sequence()
    moves = [node.get_move() for node in nodes[1:]]
    moves = [(colour, point) for colour, point in moves if colour is not None]
    try:
        komi = float(root.get("KM")) if root.has_property("KM") else np.nan
    except ValueError:
        komi = np.nan  # such as KM[] or KM[6,5]
    alternate = all(colour == "bw"[number % 2] for number, (colour, _) in enumerate(moves))
    game, handicap = (root.get_raw(key).strip() if root.has_property(key) else b"" for key in ("GM", "HA"))
    placed = handicap not in (b"", b"0", b"1") or any(
        node.has_property(key) for node in nodes for key in ("AB", "AW", "AE")
    )
    fits = game in (b"", b"1") and tree.get_size() == size and _fits((texts["BR"], texts["WR"]), least)
    if not moves or not alternate or placed or not fits:
        return
    rows = np.array([size if point is None else size - 1 - point[0] for _, point in moves])
    columns = np.array([size if point is None else point[1] for _, point in moves])
    komi = _playable(komi, size)
    yield RecordedGame(komi, value_of(komi, str(texts["RE"])), _actions(columns, rows, size))
