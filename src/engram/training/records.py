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

from engram.errors import InvalidFile, InvalidParameter
from engram.games.game import SLACK, Game, copy_state
from engram.games.go.rules import go
from engram.native.intrinsics import call
from engram.native.jit import compiled
from engram.networks.encoding import Encoder, as_bytes, encode_state, rows_of
from engram.networks.symmetry import symmetry_tables, turned

_RANK = re.compile(r"(\d+)\s*([kdp])", re.IGNORECASE)
_DECIDED = re.compile(r"([BW])\+(\d|R)", re.IGNORECASE)
_FILTER = re.compile(r"(.+):(\d+[kdp])")
_SPLIT = 1 << 32
MIN_KOMI = 3.0


@dataclass(frozen=True)
class RecordedGame:
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


class RecordSampler:
    """Draws positions of records.

    Args:
      records: the games. history: of the network that will see them.
    """

    def __init__(self, records: Records, history: int | None):
        if not records.positions:
            raise InvalidParameter("there is no position to learn from: every game was filtered out")
        self.records = records
        self._encode = Encoder(records.game, history)
        self._starts = words_of(records.game, records.starts)
        self._cells, self._actions = symmetry_tables(records.game)

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
        records = self.records
        games = np.searchsorted(records.offset, chosen, side="right") - 1
        turns = np.zeros(len(chosen), np.int64) if turns is None else turns
        rows = np.stack([records.start[games], records.offset[games], chosen], axis=1)
        planes, sides = replayed(self._encode, self._starts, rows, records.actions)
        action = self._actions[turns, records.actions[chosen]]
        return Positions(turned(planes, turns, self._cells), action, (records.value[games] * sides).astype(np.float32))


def words_of(game: Game, states: np.ndarray) -> np.ndarray:
    """States (K,) as compiled code copies them: (K, 8-byte words)."""
    room = np.zeros((len(states), game.state_bytes), np.uint8)
    room[:, : states.itemsize] = as_bytes(states)
    return room.view(np.uint64)


def replayed(
    encode: Encoder, starts: np.ndarray, rows: np.ndarray, actions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Planes (B, C, H, W) of positions in games, and who is to move there (B,): 1 for player 0, -1 for player 1.

    Args:
      starts: as `words_of` gives them. actions: of all games.
      rows: (B, 3) int64: the start, the first move, and the one behind the last.
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
def _legal_length(games, start, actions, buffer, legal):
    """Moves until the game is over; -1 where one is not legal."""
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
    record, words = game.record(), words_of(game, starts)
    buffer, legal = game.new_buffer(), np.zeros(game.num_actions + SLACK, np.int32)
    for number, one in enumerate(found):
        length = _legal_length(record, words[start[number]], one.actions, buffer, legal)
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


def _games(text: str, size: int) -> Iterator[RecordedGame]:
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


def _from_line(line: str, size: int, least: int | None, where: str) -> Iterator[RecordedGame]:
    try:
        board, komi_text, result, black, white, _, moves = line.rstrip("\n").split("\t")
        if int(board) != size or not _fits((black, white), least):
            return
        komi = np.nan if komi_text == "?" else float(komi_text)
        letters = np.frombuffer(moves.encode("ascii"), np.uint8).reshape(-1, 2).astype(np.int64) - ord("a")
    except ValueError:
        raise InvalidFile(f"{where}: this is not a game (board, komi, result, ranks, source, moves)") from None
    if len(letters):
        yield RecordedGame(_playable(komi), value_of(komi, result), _actions(letters[:, 0], letters[:, 1], size))


def _playable(komi: float) -> float:
    return komi if np.isfinite(komi) and float(2 * komi).is_integer() else np.nan


def _actions(columns: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    inside = (columns < size) & (rows < size)
    return np.where(inside, rows * size + columns, size * size).astype(np.uint16)


def _from_sgf(path: Path, size: int, least: int | None) -> Iterator[RecordedGame]:
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
    yield RecordedGame(_playable(komi), value_of(komi, str(given["RE"])), _actions(columns, rows, size))
