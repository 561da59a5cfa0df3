"""Records of Go games: read from files, kept as moves, and drawn as positions to learn from.

Only the moves are held, two bytes each (60 MB for 30 million positions). A position is made when it is drawn, by
replaying its game: some microseconds, far less than a network takes to learn from it. So drawing is uniform over
all positions of all games, and a batch is a function of the seed and its number alone.
"""

from __future__ import annotations

import hashlib
import lzma
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numba import carray

from engram.errors import InvalidFile, InvalidParameter
from engram.games.game import SLACK, Game
from engram.games.go.rules import go
from engram.native.intrinsics import call, pointer_at
from engram.native.jit import compiled
from engram.networks.encoding import encode_turned, encoder, symmetry_tables

_RANK = re.compile(r"(\d+)\s*([kdp])", re.IGNORECASE)
_DECIDED = re.compile(r"([BW])\+(\d|R)", re.IGNORECASE)
_FILTER = re.compile(r"(.+):(\d+[kdp])")
_SPLIT = 1 << 32
MIN_KOMI = 3.0


@dataclass(frozen=True)
class GameRecord:
    """One game as a file has it: komi (nan: unknown), value for Black (nan: not to be learnt from), actions."""

    komi: float
    value: float
    actions: np.ndarray


@dataclass(frozen=True)
class Records:
    """Games of one board.

    Attributes:
      game: whose positions they are. starts: (K,) initial states, one a komi.
      start: (G,) which of them. offset: (G + 1,) where each game's moves begin. actions: (moves,) uint16.
      value: (G,) result for player 0, nan where it is not to be learnt from.
      held_out: (G,) in [0, 1), drawn by the hash of its moves: games below a share are kept for validation.
      left_out: games with a move that is not legal here.
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

    def part(self, wanted: np.ndarray) -> Records:
        """The games that a mask of booleans keeps."""
        lengths = np.diff(self.offset)
        return replace(
            self,
            start=self.start[wanted],
            offset=np.concatenate([[0], np.cumsum(lengths[wanted])]),
            actions=self.actions[np.repeat(wanted, lengths)],
            value=self.value[wanted],
            held_out=self.held_out[wanted],
        )

    def split(self, share: float) -> tuple[Records, Records]:
        """(games to learn from, games held out): by game, the same whatever other games there are."""
        return self.part(self.held_out >= share), self.part(self.held_out < share)


@dataclass(frozen=True)
class Positions:
    """A batch: planes (B, C, H, W) for the player to move, the action played (or (B, num_actions) shares), the result
    for the player to move (nan where it is not to be learnt from)."""

    planes: np.ndarray
    action: np.ndarray
    value: np.ndarray


class Drawing:
    """Draws positions of records.

    Args:
      records: the games. history: of the network that will see them.
    """

    def __init__(self, records: Records, history: int | None):
        if not records.positions:
            raise InvalidParameter("there is no position to learn from: every game was filtered out")
        self.records = records
        self._encode, self._history = encoder(records.game, history)
        self._cells, self._turned = symmetry_tables(records.game)
        from engram.networks.architectures import num_planes

        assert records.game.planes_shape is not None
        self._shape = (num_planes(records.game, history), *records.game.planes_shape[1:])
        self._scratch = np.zeros(int(np.prod(self._shape)), np.float32)

    @property
    def positions(self) -> int:
        """How many there are to draw."""
        return self.records.positions

    def draw(self, count: int, seed: int, number: int) -> Positions:
        """Batch `number` of a seed: positions uniform over all games' moves, each turned at random."""
        rng = np.random.default_rng((seed, number))
        chosen = rng.integers(0, self.records.positions, count)
        return self.at(chosen, rng.integers(0, len(self._cells), count))

    def at(self, chosen: np.ndarray, turns: np.ndarray | None = None) -> Positions:
        """The positions before the moves `chosen` (numbers of all games' moves), as they are or turned."""
        records, game = self.records, self.records.game
        of = np.searchsorted(records.offset, chosen, side="right") - 1
        turns = np.zeros(len(chosen), np.int64) if turns is None else turns
        planes = np.zeros((len(chosen), *self._shape), np.float32)
        sides = np.zeros(len(chosen))
        buffer = game.new_buffer()
        replay(
            game.address("copy"), game.address("play"), game.address("to_play"), self._encode, self._history,
            records.starts.ctypes.data, records.starts.itemsize, records.start[of], records.offset[of], chosen,
            records.actions, turns, self._cells, buffer, self._scratch, planes.reshape(len(chosen), -1), sides,
        )  # fmt: skip
        action = self._turned[turns, records.actions[chosen]]
        return Positions(planes, action, (records.value[of] * sides).astype(np.float32))


@compiled
def replay(
    copy, play, to_play, encode, history, starts, stride, start, first, chosen, actions, turns, cells, buffer,
    scratch, planes, sides,
):  # fmt: skip
    """Plays the moves `first` to `chosen` from a start, for each row, and writes planes and sides (±1 to move)."""
    state = buffer.ctypes.data
    for row in range(len(chosen)):
        begin = starts + start[row] * stride
        if copy != 0:
            call(copy, (state, begin))
        else:
            carray(pointer_at(state, np.uint8), (stride,))[:] = carray(pointer_at(begin, np.uint8), (stride,))
        for move in range(first[row], chosen[row]):
            call(play, (state, np.int64(actions[move])))
        sides[row] = 1.0 - 2.0 * call(to_play, (state,))
        encode_turned(encode, history, state, turns[row], cells, scratch, planes[row])


@compiled
def _legal_length(copy, play, legal_actions, start, buffer, legal, actions):
    """Moves until the game is over; -1 where one is not legal."""
    state = buffer.ctypes.data
    call(copy, (state, start))
    for move in range(len(actions)):
        count = call(legal_actions, (state, legal.ctypes.data))
        if count == 0:
            return move
        found = False
        for k in range(count):
            found = found or legal[k] == actions[move]
        if not found:
            return -1
        call(play, (state, np.int64(actions[move])))
    return len(actions)


def read(game: Game, files: Iterable[str | Path]) -> Records:
    """The games of files, those of the game's board.

    Args:
      game: Go of any size; komi is each game's own (the game's where it is unknown).
      files: `.tsv` or `.tsv.xz` (board, komi, result, ranks, source, moves), `.sgf`, or folders of SGF; with `:5k`
        after the name only games whose weaker player is known to be at least that.

    Results teach values where komi is known and 3 or more and the game was counted or resigned.

    Raises:
      InvalidFile: a file is missing or not what its name says. InvalidParameter: not Go.
    """
    if "komi" not in (game.state_dtype.names or ()):
        raise InvalidParameter(f"records are of Go, not of {game.name}")
    size = int(game.initial_state()["width"])
    found = [one for file in files for one in _games(str(file), size)]
    if not found:
        raise InvalidParameter(f"there is no game of {game.name} in these files that fits")
    own = float(game.initial_state()["komi"])
    komis = [own if np.isnan(one.komi) else one.komi for one in found]
    kinds = sorted(set(komis))
    limit = int(game.initial_state()["move_limit"])
    starts = np.array([go(size, komi=komi, move_limit=limit).initial_state() for komi in kinds])
    start = np.searchsorted(kinds, komis)
    keep, lengths = np.ones(len(found), np.bool_), np.zeros(len(found), np.int64)
    buffer, legal = game.new_buffer(), np.zeros(game.num_actions + SLACK, np.int32)
    copy, play, legal_actions = (game.address(name) for name in ("copy", "play", "legal_actions"))
    for number, one in enumerate(found):
        at = starts[start[number] : start[number] + 1].ctypes.data
        length = _legal_length(copy, play, legal_actions, at, buffer, legal, one.actions)
        keep[number], lengths[number] = length > 0, max(length, 0)
    return Records(
        game=game,
        starts=starts,
        start=start,
        offset=np.concatenate([[0], np.cumsum(lengths)]),
        actions=np.concatenate([one.actions[:length] for one, length in zip(found, lengths, strict=True)]),
        value=np.array([one.value for one in found]),
        held_out=np.array([_drawn(one.actions) for one in found]),
        left_out=int((~keep).sum()),
    ).part(keep)


def _drawn(actions: np.ndarray) -> float:
    return int.from_bytes(hashlib.blake2b(actions.tobytes(), digest_size=4).digest(), "little") / _SPLIT


def _games(text: str, size: int) -> Iterator[GameRecord]:
    limited = _FILTER.fullmatch(text)
    path, least = (Path(limited[1]), strength(limited[2])) if limited else (Path(text), None)
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*.sgf")):
                yield from _from_sgf(file, size, least)
        elif path.suffix == ".sgf":
            yield from _from_sgf(path, size, least)
        else:
            with lzma.open(path, "rt") if path.suffix == ".xz" else open(path, encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    yield from _from_line(line, size, least, f"{path}, line {number}")
    except (OSError, lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path} cannot be read: {error}") from None


def strength(rank: str) -> int | None:
    """A rank as a number, stronger ones higher (1k is 0, 1d is 1, a professional 10 and more); None: not known."""
    found = _RANK.fullmatch(rank.strip())
    if found is None:
        return None
    number = int(found[1])
    return {"k": 1 - number, "d": number, "p": 9 + number}[found[2].lower()]


def _fits(ranks: tuple[str, str], least: int | None) -> bool:
    known = [strength(rank) for rank in ranks]
    return least is None or all(rank is not None and rank >= least for rank in known)


def value_of(komi: float, result: str) -> float:
    """Result for Black to learn from, in [-1, 1]; nan where komi or the way it ended says nothing."""
    if not komi >= MIN_KOMI:
        return np.nan
    if result in ("0", "Draw"):
        return 0.0
    decided = _DECIDED.match(result)
    return np.nan if decided is None else 1.0 if decided[1].upper() == "B" else -1.0


def _from_line(line: str, size: int, least: int | None, where: str) -> Iterator[GameRecord]:
    try:
        board, komi_text, result, black, white, _, moves = line.rstrip("\n").split("\t")
        if int(board) != size or not _fits((black, white), least):
            return
        komi = np.nan if komi_text == "?" else float(komi_text)
        letters = np.frombuffer(moves.encode("ascii"), np.uint8).reshape(-1, 2).astype(np.int64) - ord("a")
    except ValueError:
        raise InvalidFile(f"{where}: this is not a game (board, komi, result, ranks, source, moves)") from None
    if len(letters):
        yield GameRecord(_playable(komi), value_of(komi, result), _actions(letters[:, 0], letters[:, 1], size))


def _playable(komi: float) -> float:
    return komi if np.isfinite(komi) and float(2 * komi).is_integer() else np.nan


def _actions(columns: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    inside = (columns < size) & (rows < size)
    return np.where(inside, rows * size + columns, size * size).astype(np.uint16)


def _from_sgf(path: Path, size: int, least: int | None) -> Iterator[GameRecord]:
    """A game of an SGF file; none where it is of another board, has handicap, or is not alternating from Black."""
    from sgfmill import sgf

    try:
        tree = sgf.Sgf_game.from_bytes(path.read_bytes())
        root = tree.get_root()
        given = {key: root.get(key) if root.has_property(key) else "" for key in ("RE", "BR", "WR")}
        komi = float(root.get("KM")) if root.has_property("KM") else np.nan
        moves = [node.get_move() for node in tree.get_main_sequence()[1:]]
    except ValueError as error:
        raise InvalidFile(f"{path} is not SGF: {error}") from None
    moves = [(colour, point) for colour, point in moves if colour is not None]
    alternate = all(colour == "bw"[number % 2] for number, (colour, _) in enumerate(moves))
    placed = any(root.has_property(key) for key in ("AB", "AW"))
    if tree.get_size() != size or not moves or not alternate or placed or not _fits((given["BR"], given["WR"]), least):
        return
    rows = np.array([size if point is None else size - 1 - point[0] for _, point in moves])
    columns = np.array([size if point is None else point[1] for _, point in moves])
    yield GameRecord(_playable(komi), value_of(komi, str(given["RE"])), _actions(columns, rows, size))
