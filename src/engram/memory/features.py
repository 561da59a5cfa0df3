"""Features of positions, whose cosine is the similarity of two positions.

φ(s) = h(ζ(s)) / |h(ζ(s))|. ζ is an evaluator's embedding, hand-made numbers from the game's `encode`, or a user's
function; h is signed feature hashing to D numbers, which keeps inner products unbiased:

    h(ζ)_j = Σ_{i: slot(i) = j} sign(i)·ζ_i,      E ⟨h(ζ), h(ξ)⟩ = ⟨ζ, ξ⟩ over the hash functions

Source: Weinberger et al., "Feature hashing for large scale multitask learning", 2009.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import carray, int64, types

from engram.errors import InvalidParameter, check_whole
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.games.state import State
from engram.memory.arithmetic import normalise
from engram.memory.layout import MAX_DIMENSION
from engram.native.addressed import Addressed
from engram.native.buffers import buffers
from engram.native.intrinsics import call, floats_at, pointer_at
from engram.native.jit import Callback, compiled
from engram.rng import GOLDEN, mix
from engram.user_files import digest_of, users_sources

_BORDER = np.uint64(0xB0A7D)  # code of a cell beyond the edge
_MOVER = np.uint64(0x30FE2)
_PATTERN = np.uint64(0x9A77E24)  # keeps pattern features apart from the planes'

MAX_WEIGHT = 1e6
DIMENSION = 512
"""Default D; the paper has 4096."""

features_dtype = np.dtype(
    [
        ("own", np.int64),  # address of a user's function (state, numbers) -> 0; 0: none
        ("raw", np.int64),  # address of num_raw float32: the user's numbers, or the planes
        ("num_raw", np.int64),
        ("encode", np.int64),  # the game's functions
        ("to_play", np.int64),
        ("channels", np.int64),
        ("height", np.int64),
        ("width", np.int64),
        ("codes", np.int64),  # address of height·width uint64: hashed content of each cell
        ("embedding_size", np.int64),  # length of the evaluator's embedding, or 0
        ("seed", np.uint64),  # of the hash functions
        ("plane_weight", np.float64),
        ("pattern_weight", np.float64),
    ]
)


@compiled(inline=True)
def _put(out, name, amount):
    """Adds a feature, whose 64-bit name is hashed to its slot and sign."""
    word = mix(name)
    # The high half is multiplied, in place of a remainder: this serves any D without a division.
    slot = ((word >> np.uint64(32)) * np.uint64(len(out))) >> np.uint64(32)
    out[slot] += amount if word & np.uint64(1) else -amount


@compiled
def hash_dense(values, seed, out):
    """Adds the hashed numbers to `out` (D float32); feature i is named by i and the seed."""
    for i in range(len(values)):
        if values[i] != np.float32(0.0):
            _put(out, seed + np.uint64(i) * GOLDEN, values[i])


@compiled
def hash_sparse(names, values, seed, out):
    """Adds features of uint64 names to `out`, hashed; `hash_dense` is the case names = 0, 1, 2, …"""
    for i in range(len(names)):
        _put(out, seed + names[i] * GOLDEN, values[i])


@compiled
def _patterns(features, planes, seed, out):
    """Adds each cell's 3×3 neighbourhood as one feature, unless it is all zero."""
    height = features.height
    width = features.width
    cells = height * width
    bits = planes.view(np.uint32)
    codes = carray(pointer_at(features.codes, np.uint64), (cells,))
    for cell in range(cells):
        code = np.uint64(0)
        for channel in range(features.channels):
            # The code is the bits of a float: equal numbers have equal codes, and zero has code 0.
            code += np.uint64(bits[channel * cells + cell]) * mix(np.uint64(channel + 1))
        codes[cell] = code
    amount = np.float32(features.pattern_weight)
    for row in range(height):
        for column in range(width):
            empty = True
            code = np.uint64(0)
            for down in range(-1, 2):
                for right in range(-1, 2):
                    inside = 0 <= row + down < height and 0 <= column + right < width
                    here = codes[(row + down) * width + column + right] if inside else _BORDER
                    empty = empty and (not inside or here == np.uint64(0))
                    code = (code ^ here) * GOLDEN + np.uint64(1)
                    code ^= code >> np.uint64(29)
            if not empty:
                _put(out, (seed ^ _PATTERN) + mix(code ^ mix(np.uint64(row * width + column))), amount)


@compiled(inline=True)
def _clear_whole_planes(features, planes):
    """Clears constant planes, such as the side to move, which the features' names already encode.

    Otherwise they would make all cells of all positions similar, for one player only. Planes of one cell are plain
    numbers, and stay.
    """
    cells = features.height * features.width
    if cells == 1:
        return
    for channel in range(features.channels):
        first = channel * cells
        same = planes[first] != np.float32(0.0)
        for cell in range(first, first + cells):
            same = same and planes[cell] == planes[first]
        if same:
            for cell in range(first, first + cells):
                planes[cell] = np.float32(0.0)


@compiled
def write_features(features, state, embedding, out):
    """Writes normalised features of a state (address), or of its embedding (address, or 0), to `out`.

    Returns 0, or a negative number if the embedding is missing, a function fails, or a number is not finite.
    """
    for i in range(len(out)):
        out[i] = np.float32(0.0)
    # Planes and embeddings show the mover's view, stored values player 0's. Positions that look alike to different
    # movers are opposites, so the name of every feature includes the mover.
    seed = mix(features.seed + np.uint64(1 + call(features.to_play, (state,))))
    if features.embedding_size > 0:
        if embedding == 0:
            return -1
        hash_dense(floats_at(embedding, features.embedding_size), seed, out)
        return 0 if normalise(out) < np.inf else -1
    raw = floats_at(features.raw, features.num_raw)
    for i in range(features.num_raw):
        raw[i] = np.float32(0.0)
    if features.own != 0:
        if call(features.own, (state, features.raw)) < 0:
            return -1
        if features.num_raw == len(out):
            for i in range(len(out)):
                out[i] = raw[i]
        else:
            hash_dense(raw, features.seed, out)
        return 0 if normalise(out) < np.inf else -1
    if features.encode == 0 or call(features.encode, (state, features.raw)) < 0:
        return -1
    _clear_whole_planes(features, raw)
    # The mover is a feature, so that even an empty board has one.
    _put(out, seed ^ _MOVER, np.float32(1.0))
    if features.plane_weight != 0.0:
        scale = np.float32(features.plane_weight)
        for i in range(features.num_raw):
            if raw[i] != np.float32(0.0):
                _put(out, seed + np.uint64(i) * GOLDEN, scale * raw[i])
    if features.pattern_weight != 0.0:
        _patterns(features, raw, seed, out)
    return 0 if normalise(out) < np.inf else -1


class Features(Addressed):
    """Maps a game's positions to φ.

    Args:
      game: the game.
      dimension: D ≥ 1.
      own: a function `(state, numbers) -> 0` of the game's record that writes `num_own` float32. It is compiled here,
        and defined at module level, like a game's functions. For a plain Python game, a function from a state to
        `num_own` numbers. If `num_own` = D, the numbers are used as they are, else hashed. The function chooses its
        point of view; stored values are player 0's.
      num_own: how many numbers `own` writes.
      embedding_size: numbers in the evaluator's embedding, which then replaces all other features; 0: no embedding.
      embedding_name: identifies the embedding in files, so that no memory is read with a different embedding.
      plane_weight, pattern_weight: weight of the raw planes and of the 3×3 patterns in hand-made features.
      seed: of the hash functions.

    Attributes:
      text: a description, which differs between different features.
      functions: the user's compiled function, for the guard.

    Raises:
      InvalidParameter: a number is out of range; or the game has no `encode`, and there is neither `own` nor an
        embedding.

    Hand-made features depend on the cell and the mover; constant planes are left out.
    Cost: O(channels·cells + 9·cells + D).
    """

    title, instead = "the features of a game", "make them again from their game"

    def __init__(
        self, game: Game, dimension: int = DIMENSION, *, own: Callable[..., Any] | None = None, num_own: int = 0,
        embedding_size: int = 0, embedding_name: str = "", plane_weight: float = 1.0, pattern_weight: float = 1.0,
        seed: int = 0,
    ):  # fmt: skip
        dimension = check_whole("dimension", dimension, 1, MAX_DIMENSION)
        embedding_size, seed = check_whole("embedding_size", embedding_size, 0), check_whole("seed", seed)
        for name, weight in (("plane_weight", plane_weight), ("pattern_weight", pattern_weight)):
            if not abs(weight) <= MAX_WEIGHT:
                raise InvalidParameter(f"{name} must be {-MAX_WEIGHT:g} to {MAX_WEIGHT:g}, not {weight}")
        self.game = game
        self.dimension = dimension
        self.embedding_size = embedding_size
        self.header = np.zeros(1, features_dtype)
        self.functions: dict[str, Callback] = {}
        shape = game.planes_shape if game.address("encode") else None
        if own is not None:
            num_own = check_whole("num_own", num_own, 1, MAX_DIMENSION)
            if isinstance(game, PythonGame):
                self._own: Any = game.writer(own.__qualname__, own, num_own)
                self.header["own"] = ctypes.cast(self._own, ctypes.c_void_p).value
            else:
                record = numba.from_dtype(game.state_dtype)
                self.functions["own"] = Callback(own, int64, (record, types.CPointer(types.float32)))
                self.header["own"] = self.functions["own"].address
        elif shape is None and embedding_size == 0:
            raise InvalidParameter(
                f"{game.name} has no encode with planes_shape: a memory of it needs features of your own"
            )
        channels, height, width = shape or (0, 0, 0)
        extent = "of one cell" if height * width == 1 else "no whole planes"
        source = f"planes={plane_weight:g}, patterns={pattern_weight:g}, {extent}"
        if own is not None:
            source = f"own={_named(own)}, num_own={num_own}"
        if embedding_size:
            source = f"embedding={embedding_name or 'unnamed'} of the mover, size={embedding_size}"
        self.text = f"{source}, seed={seed}"
        num_raw = num_own if own is not None else channels * height * width
        self._raw = buffers(max(num_raw, 1), np.float32, lasts=True)
        self._codes = np.zeros(max(height * width, 1), np.uint64)
        numbers = {
            "raw": self._raw.ctypes.data, "num_raw": num_raw, "encode": game.address("encode"),
            "to_play": game.address("to_play"), "channels": channels, "height": height, "width": width,
            "codes": self._codes.ctypes.data, "embedding_size": embedding_size,
            "seed": mix(np.uint64((seed + 1) & 0xFFFFFFFFFFFFFFFF)), "plane_weight": plane_weight,
            "pattern_weight": pattern_weight,
        }  # fmt: skip
        for name, number in numbers.items():
            self.header[name] = number

    def __call__(self, state: State, embedding: np.ndarray | None = None) -> np.ndarray:
        """φ of a state: (D,) float32, of norm 1; features of an evaluator's embedding need that embedding.

        Raises:
          InvalidParameter: a feature function failed, or gave a number that is not finite.
        """
        numbers = np.zeros(0, np.float32) if embedding is None else np.ascontiguousarray(embedding, np.float32)
        if numbers.shape != ((self.embedding_size,) if self.embedding_size else (0,)):
            raise InvalidParameter(f"these features take an embedding of {self.embedding_size} numbers")
        buffer = self.game.new_buffer()
        self.game.write(buffer, state)
        out = np.zeros(self.dimension, np.float32)
        address = numbers.ctypes.data if self.embedding_size else 0
        if write_features(self.header[0], buffer.ctypes.data, address, out) < 0:
            self.game.raise_pending()
            raise InvalidParameter(f"the features of this position of {self.game.name} failed or are not finite")
        return out


def _named(own: Callable[..., Any]) -> str:
    """A user's function as its name and a digest of its file and imports, the same wherever these files are."""
    code = getattr(inspect.unwrap(own), "__code__", None)
    file = Path(code.co_filename) if code is not None else None
    if file is None or not file.is_file():
        return f"{own.__module__}.{own.__qualname__}"
    return f"{file.stem}.{own.__qualname__} {digest_of(users_sources(file))}"


def hashed(
    values: np.ndarray, dimension: int, *, names: np.ndarray | None = None, seed: int = 0, normalised: bool = True
) -> np.ndarray:
    """A vector hashed to D numbers.

    Args:
      values: (n,) numbers. names: (n,) uint64, their names (a sparse vector); default 0 … n-1.
      dimension: D. seed: of the hash functions.
      normalised: scale to length 1; inner products are unbiased only without scaling.

    Raises:
      InvalidParameter: `values` is not one row of finite numbers, `names` are not as many whole numbers, or the
        dimension is out of range.
    """
    numbers = np.ascontiguousarray(values, np.float32)
    names = np.arange(len(numbers)) if names is None else np.asarray(names)
    if numbers.ndim != 1 or not np.isfinite(numbers).all() or names.shape != numbers.shape:
        raise InvalidParameter(
            f"values of shape {numbers.shape} are not one row of finite numbers, or not as many as names"
        )
    if names.size and names.dtype.kind not in "iu":
        raise InvalidParameter(f"names must be whole numbers, not {names.dtype}")
    check_whole("dimension", dimension, 1, MAX_DIMENSION)
    out = np.zeros(dimension, np.float32)
    mixed = np.uint64(mix(np.uint64((seed + 1) & 0xFFFFFFFFFFFFFFFF)))
    hash_sparse(np.ascontiguousarray(names, np.uint64), numbers, mixed, out)
    if not np.isfinite(out).all():
        raise InvalidParameter("these values are so large that their sums are not finite")
    if normalised:
        normalise(out)
    return out
