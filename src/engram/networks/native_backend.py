"""Networks computed by engram's own machine code, on one thread of the processor: no package is needed.

An architecture becomes a list of steps between buffers, which one compiled call follows for a whole batch. Up to
`TOGETHER` positions share a step's weights while they are in the cache.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numba import carray

from engram.errors import InvalidParameter
from engram.native.intrinsics import pointer_at
from engram.native.jit import compiled
from engram.native.lanes import LANES, load, multiply_block, plus, positive_part, store
from engram.networks.architectures import FEATURES, Architecture, Convolution, Head, Linear, ResidualBlock
from engram.networks.encoding import rows_of
from engram.networks.network import Network
from engram.networks.winograd import POINTS, TILE, block_rows, board_dtype, convolve, filters_at_points, multiply
from engram.search.evaluation import Evaluation

TOGETHER = 4
_EPSILON = 1e-5
"""Of batch normalisation, as PyTorch trains with it."""
_PLANES, _POLICY, _VALUE, _EMBEDDING = range(4)
"""Buffers of the caller; a network's own come after them."""
_SPREAD, _CONVOLVE, _PROJECT, _FLATTEN, _LINEAR, _COPY, _SOFTMAX, _TANH = range(8)
step_dtype = np.dtype(
    [
        ("kind", np.int64),
        ("source", np.int64),  # a buffer
        ("rest", np.int64),  # a buffer that is added before the ReLU, or -1
        ("target", np.int64),  # a buffer
        ("weights", np.int64),  # addresses
        ("bias", np.int64),
        ("inputs", np.int64),  # planes or numbers of the source
        ("source_width", np.int64),  # the same with its padding
        ("outputs", np.int64),
        ("target_width", np.int64),
        ("first", np.int64),  # plane of the source that is taken
        ("relu", np.int64),
    ]
)


def computes(architecture: Architecture) -> bool:
    """Whether an architecture's convolutions are of 3×3 in the trunk and of 1×1 in the heads."""
    trunk = all(part.kernel == 3 for part in architecture.trunk.values() if isinstance(part, Convolution))
    heads = (part for head in architecture.heads.values() for part in head if isinstance(part, Convolution))
    return trunk and all(part.kernel == 1 for part in heads)


class NativeBackend:
    """Computes a network in float32 by machine code made here.

    Args:
      layer: as in `open_backend`. precision: `auto` or `float32`.

    The answer to a position does not depend on the rest of the batch, to the last bit (`independent`).

    Raises:
      InvalidParameter: no such layer, another precision, or a convolution of another size.
    """

    precision = "float32"
    independent = True

    def __init__(self, network: Network, *, layer: str | None = None, precision: str = "auto"):
        if precision not in ("auto", self.precision):
            raise InvalidParameter(f"the backend native computes in float32, not in {precision!r}")
        if not computes(network.architecture):
            raise InvalidParameter("the backend native computes convolutions of 3×3, and 1×1 in heads")
        self.architecture = network.architecture
        self.layer = layer
        self._size = 0 if layer is None else network.architecture.size_of(layer)
        plan = _Plan(network, layer)
        self._steps, self._widths, self._board = plan.steps(), plan.widths(), plan.board
        self._places = np.zeros(len(self._widths), np.int64)
        self._places[_EMBEDDING + 1 :] = [buffer.ctypes.data for buffer in plan.buffers]
        self._kept = plan.arrays + plan.buffers  # compiled code has their addresses
        self._has_value = "value" in network.architecture.heads
        self._lock = threading.Lock()

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`."""
        count = len(planes)
        planes = np.ascontiguousarray(planes, np.float32)
        policy = np.empty((count, self.architecture.configuration.num_actions), np.float32)
        value = np.empty((count if self._has_value else 0, 1), np.float32)
        embedding = np.empty((count, self._size), np.float32)
        with self._lock:
            _forward(
                self._steps, self._board, self._widths, self._places, rows_of(planes), policy, value, embedding
            )  # fmt: skip
        return Evaluation(value.ravel() if self._has_value else None, policy, embedding if self._size else None)


class _Plan:
    """Writes a network as steps; a buffer is its number, and has room for `TOGETHER` positions."""

    def __init__(self, network: Network, layer: str | None):
        shape, self._weights = network.configuration, network.weights
        self.arrays: list[np.ndarray] = []
        self.buffers: list[np.ndarray] = []
        self._steps: list[dict[str, Any]] = []
        self._cells = shape.height * shape.width
        self.board = self._made_board(shape.height, shape.width, network.architecture)
        widest = _padded(shape.planes, LANES)
        boards = {"planes": self._buffer(int(self.board["cells"][0]) * widest)}
        self._step(_SPREAD, _PLANES, boards["planes"], inputs=shape.planes, target_width=widest)
        current, planes, width = boards["planes"], shape.planes, widest
        for name, part in network.architecture.trunk.items():
            place = f"trunk.{name}"
            if isinstance(part, ResidualBlock):
                inner = self._convolution(f"{place}.first", current, planes, width)
                current = self._convolution(f"{place}.second", inner, planes, width, rest=current)
            else:
                current = self._convolution(place, current, planes, width)
                planes, width = part.filters, _padded(part.filters, 2 * LANES)
            if layer == name:
                self._flatten(current, _EMBEDDING, planes, width, np.zeros(planes, np.float32))
        heads = {name: head for name, head in network.architecture.heads.items() if name != FEATURES or layer == name}
        projections = {name: self._folded(f"{name}.0") for name, head in heads.items() if _projects(head)}
        if projections:  # of all heads at once
            matrix = np.concatenate([weight[:, :, 0, 0] for weight, _ in projections.values()])
            projected_width = _padded(len(matrix), 2 * LANES)
            projected = self._buffer(int(self.board["cells"][0]) * projected_width)
            self._step(
                _PROJECT, current, projected, weights=self._constant(_widened(matrix.T, projected_width)),
                inputs=planes, source_width=width, target_width=projected_width,
            )  # fmt: skip
        first = 0
        for name, head in heads.items():
            size = (len(projections[name][1]) if name in projections else planes) * self._cells
            row = self._buffer(size)
            if name in projections:
                bias = projections[name][1]
                self._flatten(projected, row, len(bias), projected_width, bias, first)
                first += len(bias)
            else:
                self._flatten(current, row, planes, width, np.zeros(planes, np.float32))
            self._head(name, head, row, size, layer)

    def steps(self) -> np.ndarray:
        """The steps as compiled code takes them."""
        return np.array([tuple(step[name] for name in step_dtype.names or ()) for step in self._steps], step_dtype)

    def widths(self) -> np.ndarray:
        """Bytes a position of each buffer, the caller's first; those are known from its arrays."""
        return np.array([0] * (_EMBEDDING + 1) + [4 * buffer.shape[1] for buffer in self.buffers])

    def _made_board(self, height: int, width: int, architecture: Architecture) -> np.ndarray:
        board = np.zeros(1, board_dtype)
        down, across = -(-height // TILE), -(-width // TILE)
        rows = block_rows(down * across)
        line = TILE * across + 2
        channels = max(part.filters for part in architecture.trunk.values())
        channels = _padded(max(channels, architecture.configuration.planes), 2 * LANES)
        taken, given = (np.zeros((POINTS, max(down * across, rows), channels), np.float32) for _ in range(2))
        self.arrays += [taken, given]
        cells = (TILE * down + 2) * line
        board[0] = (height, width, down, across, line, cells, rows, taken.ctypes.data, given.ctypes.data)
        return board

    def _buffer(self, size: int) -> int:
        # A projection reads and writes whole blocks of rows.
        self.buffers.append(np.zeros((TOGETHER, size), np.float32))
        return _EMBEDDING + len(self.buffers)

    def _constant(self, array: np.ndarray) -> int:
        self.arrays.append(np.ascontiguousarray(array, np.float32))
        return int(self.arrays[-1].ctypes.data)

    def _step(self, kind: int, source: int, target: int, **fields: int) -> None:
        self._steps.append(dict.fromkeys(step_dtype.names or (), 0) | {"rest": -1} | fields)
        self._steps[-1] |= {"kind": kind, "source": source, "target": target}

    def _folded(self, place: str) -> tuple[np.ndarray, np.ndarray]:
        """Weights (F, C, k, k) and bias (F,) of a convolution, its normalisation taken in."""
        names = ("weight", "bias", "running_mean", "running_var")
        factor, shift, mean, variance = (self._weights[f"{place}.norm.{name}"] for name in names)
        scale = factor / np.sqrt(variance + _EPSILON)
        return self._weights[f"{place}.conv.weight"] * scale[:, None, None, None], shift - mean * scale

    def _convolution(self, place: str, source: int, planes: int, width: int, rest: int = -1) -> int:
        weight, bias = self._folded(place)
        filters = _padded(len(weight), 2 * LANES)
        target = self._buffer(int(self.board["cells"][0]) * filters)
        points = _widened(filters_at_points(weight), filters)
        self._step(
            _CONVOLVE, source, target, rest=rest, weights=self._constant(points),
            bias=self._constant(_widened(bias, filters)), inputs=planes, source_width=width, target_width=filters,
        )  # fmt: skip
        return target

    def _flatten(
        self, source: int, target: int, planes: int, width: int, bias: np.ndarray, first: int = 0
    ) -> None:  # fmt: skip
        self._step(_FLATTEN, source, target, bias=self._constant(bias), inputs=planes, source_width=width, first=first)

    def _head(self, name: str, head: Head, current: int, size: int, layer: str | None) -> None:
        linear = [(place, part) for place, part in enumerate(head) if isinstance(part, Linear)]
        for place, part in linear:
            is_last = place == len(head) - 1
            if is_last and layer == f"{name}_head":
                self._step(_COPY, current, _EMBEDDING, inputs=size)
            target = self._buffer(_padded(part.size, 2 * LANES))
            matrix = _widened(self._weights[f"{name}.{place}.weight"].T, _padded(part.size, 2 * LANES))
            shift = _widened(self._weights[f"{name}.{place}.bias"], _padded(part.size, 2 * LANES))
            self._step(
                _LINEAR, current, target, weights=self._constant(matrix), bias=self._constant(shift), inputs=size,
                target_width=matrix.shape[1], relu=not is_last,
            )  # fmt: skip
            current, size = target, part.size
        kind, target = {"policy": (_SOFTMAX, _POLICY), "value": (_TANH, _VALUE)}.get(name, (_COPY, _EMBEDDING))
        self._step(kind, current, target, inputs=size)


def _projects(head: Head) -> bool:
    return isinstance(head[0], Convolution)


def _padded(count: int, unit: int) -> int:
    return -(-count // unit) * unit


def _widened(array: np.ndarray, width: int) -> np.ndarray:
    """An array with zeros behind its last axis, up to a width."""
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, width - array.shape[-1])])


# ------------------------------------------------------------------------------------ compiled


@compiled(inline=True)
def _numbers(address, count):
    return carray(pointer_at(address, np.float32), (count,))


@compiled
def _forward(steps, boards, widths, places, planes, policy, value, embedding):
    board = boards[0]
    widths[_PLANES], widths[_POLICY] = planes.shape[1] * 4, policy.shape[1] * 4
    widths[_VALUE], widths[_EMBEDDING] = 4, embedding.shape[1] * 4
    for first in range(0, len(planes), TOGETHER):
        count = min(TOGETHER, len(planes) - first)
        places[_PLANES] = planes.ctypes.data + first * widths[_PLANES]
        places[_POLICY] = policy.ctypes.data + first * widths[_POLICY]
        places[_VALUE] = value.ctypes.data + first * widths[_VALUE]
        places[_EMBEDDING] = embedding.ctypes.data + first * widths[_EMBEDDING]
        for step in steps:
            if step.kind == _LINEAR:
                _linear(step, places[step.source], places[step.target], widths, count)
            else:
                for row in range(count):
                    _one_position(step, board, places, widths, row)


@compiled
def _one_position(step, board, places, widths, row):
    source = places[step.source] + row * widths[step.source]
    target = places[step.target] + row * widths[step.target]
    if step.kind == _CONVOLVE:
        rest = places[step.rest] + row * widths[step.rest] if step.rest >= 0 else 0
        inputs = (step.source_width * 4, step.target_width * 4, step.inputs)
        convolve(board, (source, rest, target), inputs, step.weights, step.bias)
    elif step.kind == _PROJECT:
        strides = (step.source_width * 4, step.target_width * 4, step.target_width * 4)
        columns = step.target_width * 4
        multiply(board.rows, source, step.weights, target, strides, step.inputs, columns, board.cells)
    elif step.kind == _SPREAD:
        _spread(step, board, source, target)
    elif step.kind == _FLATTEN:
        _flatten(step, board, source, target)
    else:
        _answer(step, _numbers(source, step.inputs), _numbers(target, step.inputs))


@compiled
def _spread(step, board, source, target):
    """Planes side by side in the cells of a padded board."""
    area = board.height * board.width
    planes = _numbers(source, step.inputs * area)
    cells = _numbers(target, board.cells * step.target_width)
    for plane in range(step.inputs):
        for y in range(board.height):
            at = ((y + 1) * board.line + 1) * step.target_width + plane
            for x in range(board.width):
                cells[at + x * step.target_width] = planes[plane * area + y * board.width + x]


@compiled
def _flatten(step, board, source, target):
    """A padded board as planes, with a bias and ReLU."""
    area = board.height * board.width
    planes = _numbers(target, step.inputs * area)
    cells = _numbers(source, board.cells * step.source_width)
    bias = _numbers(step.bias, step.inputs)
    for plane in range(step.inputs):
        for y in range(board.height):
            at = ((y + 1) * board.line + 1) * step.source_width + step.first + plane
            for x in range(board.width):
                number = cells[at + x * step.source_width] + bias[plane]
                planes[plane * area + y * board.width + x] = np.float32(0.0) if number <= 0.0 else number


@compiled
def _linear(step, source, target, widths, count):
    """A linear map of all rows, with bias and perhaps ReLU."""
    strides = (widths[step.source], step.target_width * 4, widths[step.target])
    for column in range(0, step.target_width * 4, 8 * LANES):
        if count == TOGETHER:
            multiply_block(TOGETHER, source, step.weights + column, target + column, strides, step.inputs)
        else:
            for row in range(count):
                at = (source + row * strides[0], target + row * strides[2] + column)
                multiply_block(1, at[0], step.weights + column, at[1], strides, step.inputs)
    for row in range(count):
        for column in range(0, step.target_width * 4, 4 * LANES):
            at = target + row * strides[2] + column
            vector = plus(load(at), load(step.bias + column))
            store(at, positive_part(vector) if step.relu != 0 else vector)


@compiled
def _answer(step, numbers, answer):
    """Logits as a policy, a number as a value, or a copy."""
    if step.kind == _TANH:
        answer[0] = np.float32(math.tanh(numbers[0]))
        return
    if step.kind == _COPY:
        answer[:] = numbers
        return
    highest = numbers[0]
    for number in numbers:
        highest = max(highest, number)
    total = np.float32(0.0)
    for place in range(len(numbers)):
        answer[place] = math.exp(numbers[place] - highest)
        total += answer[place]
    for place in range(len(numbers)):
        answer[place] /= total
