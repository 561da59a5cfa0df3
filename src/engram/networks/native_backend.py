"""Networks computed by engram's own machine code, on one thread of the processor: no package is needed.

An architecture becomes a list of steps between buffers, and one compiled call carries out the list for a whole batch. A
step's weights stay in the cache for up to `GROUP_SIZE` positions. Convolutions are computed by Winograd's filtering in
float32, or in bfloat16 by the processor's matrix unit.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Container
from typing import Any

import numpy as np
from numba import carray, int64

from engram.errors import InvalidParameter
from engram.native.intrinsics import floats_at, pointer_at, record_at
from engram.native.jit import Callback, compiled
from engram.native.lanes import LANE_BYTES, LANES, load, multiply_block, plus, positive_part, store
from engram.native.tiles import has_matrix_unit
from engram.networks import direct, winograd
from engram.networks.architectures import (
    FEATURES,
    Architecture,
    Convolution,
    Flatten,
    Head,
    Linear,
    Relu,
    ResidualBlock,
)
from engram.networks.network import Network
from engram.networks.winograd import POINTS, TILE, block_rows, filters_at_points, multiply, tiling_dtype
from engram.search.evaluation import Evaluation

GROUP_SIZE = 4
LINE_BYTES = 64
"""Bytes of a line of the cache: a vector or a row of a tile that crosses two lines takes twice as long."""
_PLANES, _POLICY, _VALUE, _EMBEDDING = range(4)
"""Buffers of the caller. The network's own buffers come after them."""
_INTERLEAVE, _NARROW, _WINOGRAD, _DIRECT, _PROJECT, _FLATTEN, _LINEAR, _COPY, _SOFTMAX, _TANH = range(10)
step_dtype = np.dtype(
    [
        ("kind", np.int64),
        ("source", np.int64),  # a buffer
        ("residual", np.int64),  # a buffer that is added before the ReLU, or -1
        ("target", np.int64),  # a buffer
        ("weights", np.int64),  # addresses
        ("bias", np.int64),
        ("inputs", np.int64),  # planes or numbers of the source; shifts of a direct convolution
        ("source_width", np.int64),  # the same, with padding
        ("target_width", np.int64),
        ("first", np.int64),  # the first plane of the source
        ("relu", np.int64),
    ]
)
_STEP_BYTES = step_dtype.itemsize
plan_dtype = np.dtype(
    [
        ("steps", np.int64),  # addresses: of steps, and of each buffer's bytes per position and its address
        ("widths", np.int64),
        ("addresses", np.int64),
        ("num_steps", np.int64),
        ("num_buffers", np.int64),
        ("tiling", np.int64),
    ]
)


FORM = (
    "the backend native computes 3×3 convolutions, the first one outside a block; heads may have a 1×1 convolution, "
    "then linear maps with a ReLU between them"
)


def supports(architecture: Architecture) -> bool:
    """Whether an architecture has the `FORM` that the steps of `_Plan` compute."""
    parts = list(architecture.trunk.values())
    trunk = all(isinstance(part, ResidualBlock) or part.kernel == 3 for part in parts)
    return isinstance(parts[0], Convolution) and trunk and all(map(_computes_head, architecture.heads.values()))


def _computes_head(head: Head) -> bool:
    first = head[0]
    rest = head[isinstance(first, Convolution) and first.kernel == 1 :]
    kinds = [type(part) for part in rest]
    return len(kinds) % 2 == 0 and kinds == [Flatten, *([Linear, Relu] * len(kinds))][: len(kinds)]


def precisions_here() -> tuple[str, ...]:
    """The precisions in which this processor computes, the fastest first."""
    return ("bfloat16", "float32") if has_matrix_unit() else ("float32",)


class NativeBackend:
    """Computes a network by engram's own machine code.

    Args:
      layer: as in `open_backend`.
      precision: `float32`; on a processor with a matrix unit (Intel AMX, under Linux) also `bfloat16`; or `auto`,
        the faster one.

    Attributes:
      address, argument: of the C function (argument, planes, count, policy, value, embedding) that computes a batch.
      lock: to be held during a call, because calls share buffers.
      has_value: whether it has a value head. embedding_size: length of an embedding; 0 without one.

    The answer for a position does not depend, to the last bit, on the rest of the batch (`independent`).

    Raises:
      InvalidParameter: there is no such layer, another precision is asked for, or the architecture has another `FORM`.
    """

    independent = True

    def __init__(self, network: Network, *, layer: str | None = None, precision: str = "auto"):
        precisions = precisions_here()
        if precision not in ("auto", *precisions):
            here = " or ".join(precisions)
            raise InvalidParameter(f"the backend native computes in {here} on this processor, not in {precision!r}")
        if not supports(network.architecture):
            raise InvalidParameter(FORM)
        self.architecture = network.architecture
        self.precision = precisions[0] if precision == "auto" else precision
        self.layer = layer
        self.embedding_size = 0 if layer is None else network.architecture.size_of(layer)
        self._plan = _Plan(network, layer, self.embedding_size, in_tiles=self.precision == "bfloat16")
        self._record = self._plan.record()
        self.address, self.argument = _FORWARD.address, int(self._record.ctypes.data)
        self.has_value = "value" in network.architecture.heads
        self.lock = threading.Lock()

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`."""
        planes = np.ascontiguousarray(planes, np.float32)
        shape, count = self.architecture.configuration, len(planes)
        if planes.shape[1:] != (shape.planes, shape.height, shape.width):  # compiled code trusts the sizes
            raise InvalidParameter(
                f"this network takes planes (B, {shape.planes}, {shape.height}, {shape.width}), not {planes.shape}"
            )
        policy = np.empty((count, shape.num_actions), np.float32)
        value = np.empty(count if self.has_value else 0, np.float32)
        embedding = np.empty((count, self.embedding_size), np.float32)
        answers = (array.ctypes.data for array in (policy, value, embedding))
        with self.lock:
            _FORWARD.from_python(self.argument, planes.ctypes.data, count, *answers)
        return Evaluation(value if self.has_value else None, policy, embedding if self.embedding_size else None)


class _Plan:
    """Writes a network as steps between numbered buffers, each for `GROUP_SIZE` positions."""

    def __init__(self, network: Network, layer: str | None, embedding_size: int, in_tiles: bool):
        shape, self._network, self._in_tiles = network.configuration, network, in_tiles
        self.arrays: list[np.ndarray] = []
        sizes = (shape.planes * shape.height * shape.width, shape.num_actions, 1, embedding_size)
        self._widths = [4 * size for size in sizes]
        self._addresses = [0] * len(self._widths)  # those of the caller are 0 until a call
        self._boards: list[tuple[int, int]] = []  # (buffer, width)
        self._steps: list[dict[str, Any]] = []
        self._cells = shape.height * shape.width
        self.tiling = self._make_tiling(shape.height, shape.width, network.architecture)
        widest = _padded(shape.planes, LANES)
        current, planes, width = self._board(widest), shape.planes, widest
        self._step(_INTERLEAVE, _PLANES, current, inputs=planes, target_width=width)
        if in_tiles:
            self._step(_NARROW, current, current, source_width=width)
        for name, part in network.architecture.trunk.items():
            place = f"trunk.{name}"
            if isinstance(part, ResidualBlock):
                inner = self._convolution(*network.folded(f"{place}.first"), current, planes, width)
                self._convolution(*network.folded(f"{place}.second"), inner, planes, width, residual=current)
            else:
                current = self._convolution(*network.folded(place), current, planes, width)
                planes, width = part.filters, _padded(part.filters, 2 * LANES)
            if layer == name:
                self._flatten(current, _EMBEDDING, planes, width)
        heads = {name: head for name, head in network.architecture.heads.items() if name != FEATURES or layer == name}
        projections = {
            name: network.folded(f"{name}.0") for name, head in heads.items() if isinstance(head[0], Convolution)
        }
        if projections:  # the projections of all heads at once
            weight, bias = (np.concatenate(parts) for parts in zip(*projections.values(), strict=True))
            projected_width = _padded(len(weight), 2 * LANES)
            projected = self._convolution(weight, bias, current, planes, width)
        first = 0
        for name, head in heads.items():
            size = (len(projections[name][1]) if name in projections else planes) * self._cells
            row = self._buffer(size)
            if name in projections:
                count = len(projections[name][1])
                self._flatten(projected, row, count, projected_width, first)
                first += count
            else:
                self._flatten(current, row, planes, width)
            self._head(name, head, row, size, layer)

    def record(self) -> np.ndarray:
        """The plan as compiled code takes it, (1,) of `plan_dtype`; it is valid as long as the plan."""
        steps = np.array([tuple(step[name] for name in step_dtype.names or ()) for step in self._steps], step_dtype)
        arrays = (steps, np.array(self._widths, np.int64), np.array(self._addresses, np.int64))
        numbers = (*map(self._kept, arrays), len(steps), len(self._widths), self.tiling.ctypes.data)
        return np.array([numbers], plan_dtype)

    def _make_tiling(self, height: int, width: int, architecture: Architecture) -> np.ndarray:
        tiling = np.zeros(1, tiling_dtype)
        down, across = -(-height // TILE), -(-width // TILE)
        rows = block_rows(down * across)
        line = TILE * across + 2
        channels = max(part.filters for part in architecture.trunk.values())
        channels = _padded(max(channels, architecture.configuration.planes), 2 * LANES)
        sizes = [4 * POINTS * max(down * across, rows) * channels] * 2
        if self._in_tiles:
            sizes = [0, direct.scratch_bytes(channels)]
        inputs, products = (self._kept(np.zeros(size, np.uint8)) for size in sizes)
        cells = (TILE * down + 2) * line
        tiling[0] = (height, width, down, across, line, cells, rows, inputs, products)
        return tiling

    def _buffer(self, size: int) -> int:
        self._widths.append(4 * size)
        self._addresses.append(self._kept(np.zeros((GROUP_SIZE, size), np.float32)))
        return len(self._widths) - 1

    def _constant(self, array: np.ndarray) -> int:
        return self._kept(array.astype(np.float32))

    def _kept(self, array: np.ndarray) -> int:
        """The address of a copy that is aligned to a line of the cache, and lives as long as the plan."""
        room = np.empty(array.nbytes + LINE_BYTES, np.uint8)
        first = -room.ctypes.data % LINE_BYTES
        copy = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        self.arrays.append(copy)
        return int(copy.ctypes.data)

    def _step(self, kind: int, source: int, target: int, **fields: int) -> None:
        self._steps.append(dict.fromkeys(step_dtype.names or (), 0) | {"residual": -1} | fields)
        self._steps[-1] |= {"kind": kind, "source": source, "target": target}

    def _board(self, width: int, unlike: Container[int] = ()) -> int:
        """A padded board outside `unlike`: an earlier one of this width, or else a new one."""
        for buffer, board_width in self._boards:
            if board_width == width and buffer not in unlike:
                return buffer
        size = int(self.tiling["cells"][0]) * width
        if self._in_tiles:
            shape = self._network.configuration
            size += direct.narrow_bytes(shape.height, shape.width, width) // 4
        self._boards.append((self._buffer(size), width))
        return self._boards[-1][0]

    def _convolution(
        self, weight: np.ndarray, bias: np.ndarray, source: int, planes: int, width: int, residual: int = -1
    ) -> int:
        """A convolution with bias and ReLU; it writes over the residual."""
        filters, shifts = _padded(len(weight), 2 * LANES), weight.shape[2] * weight.shape[3]
        taken = [source] if shifts > 1 else [buffer for buffer, _ in self._boards]  # 1×1 also writes into the padding
        target = residual if residual >= 0 else self._board(filters, unlike=taken)
        if self._in_tiles:
            kind, weights = _DIRECT, self._kept(direct.filters_in_tiles(weight, filters))
        elif shifts == 1:
            kind, weights = _PROJECT, self._constant(_widened(weight[:, :, 0, 0].T, filters))
        else:
            kind, weights = _WINOGRAD, self._constant(_widened(filters_at_points(weight), filters))
        self._step(
            kind, source, target, residual=residual, weights=weights, bias=self._constant(_widened(bias, filters)),
            inputs=shifts if self._in_tiles else planes, source_width=width, target_width=filters,
        )  # fmt: skip
        return target

    def _flatten(self, source: int, target: int, planes: int, width: int, first: int = 0) -> None:
        self._step(_FLATTEN, source, target, inputs=planes, source_width=width, first=first)

    def _head(self, name: str, head: Head, current: int, size: int, layer: str | None) -> None:
        linear = [(place, part) for place, part in enumerate(head) if isinstance(part, Linear)]
        for place, part in linear:
            is_last = place == len(head) - 1
            if is_last and layer == f"{name}_head":
                self._step(_COPY, current, _EMBEDDING, inputs=size)
            target = self._buffer(_padded(part.size, 2 * LANES))
            matrix = _widened(self._network.weights[f"{name}.{place}.weight"].T, _padded(part.size, 2 * LANES))
            shift = _widened(self._network.weights[f"{name}.{place}.bias"], _padded(part.size, 2 * LANES))
            self._step(
                _LINEAR, current, target, weights=self._constant(matrix), bias=self._constant(shift), inputs=size,
                target_width=matrix.shape[1], relu=not is_last,
            )  # fmt: skip
            current, size = target, part.size
        kind, target = {"policy": (_SOFTMAX, _POLICY), "value": (_TANH, _VALUE)}.get(name, (_COPY, _EMBEDDING))
        self._step(kind, current, target, inputs=size)


def _padded(count: int, unit: int) -> int:
    return -(-count // unit) * unit


def _widened(array: np.ndarray, width: int) -> np.ndarray:
    """An array with zeros at the end of its last axis, up to a width."""
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, width - array.shape[-1])])


# ------------------------------------------------------------------------------------ compiled


def _forward(argument, planes, count, policy, value, embedding):  # type: ignore[no-untyped-def]
    plan = record_at(argument, plan_dtype)
    tiling = record_at(plan.tiling, tiling_dtype)
    widths = carray(pointer_at(plan.widths, np.int64), (plan.num_buffers,))
    addresses = carray(pointer_at(plan.addresses, np.int64), (plan.num_buffers,))
    for first in range(0, count, GROUP_SIZE):
        size = min(GROUP_SIZE, count - first)
        addresses[_PLANES] = planes + first * widths[_PLANES]
        addresses[_POLICY] = policy + first * widths[_POLICY]
        addresses[_VALUE] = value + first * widths[_VALUE]
        addresses[_EMBEDDING] = embedding + first * widths[_EMBEDDING]
        for number in range(plan.num_steps):
            step = record_at(plan.steps + number * _STEP_BYTES, step_dtype)
            if step.kind == _LINEAR:
                _linear(step, addresses[step.source], addresses[step.target], widths, size)
            else:
                for row in range(size):
                    _one_position(step, tiling, addresses, widths, row)
    return 0


_FORWARD = Callback(_forward, int64, (int64,) * 6)


@compiled
def _one_position(step, tiling, addresses, widths, row):
    source = addresses[step.source] + row * widths[step.source]
    target = addresses[step.target] + row * widths[step.target]
    if step.kind == _WINOGRAD or step.kind == _DIRECT:
        residual = addresses[step.residual] + row * widths[step.residual] if step.residual >= 0 else 0
        sizes = (step.source_width * 4, step.target_width * 4, step.inputs)
        if step.kind == _DIRECT:
            direct.convolve(tiling, (source, residual, target), sizes, step.weights, step.bias)
        else:
            winograd.convolve(tiling, (source, residual, target), sizes, step.weights, step.bias)
    elif step.kind == _PROJECT:
        strides = (step.source_width * 4, step.target_width * 4, step.target_width * 4)
        columns = step.target_width * 4
        multiply(tiling.rows, source, step.weights, target, strides, step.inputs, columns, tiling.cells)
        _activate(target, strides[2], tiling.cells, step.bias, True)
    elif step.kind == _NARROW:
        direct.narrow(tiling, source, step.source_width * 4)
    elif step.kind == _INTERLEAVE:
        _interleave(step, tiling, source, target)
    elif step.kind == _FLATTEN:
        _flatten(step, tiling, source, target)
    else:
        _write_answer(step, floats_at(source, step.inputs), floats_at(target, step.inputs))


@compiled
def _interleave(step, tiling, source, target):
    """Copies planes into the cells of a padded board, where the numbers of a cell are side by side."""
    area = tiling.height * tiling.width
    planes = floats_at(source, step.inputs * area)
    cells = floats_at(target, tiling.cells * step.target_width)
    for plane in range(step.inputs):
        for y in range(tiling.height):
            cell = ((y + 1) * tiling.line + 1) * step.target_width + plane
            for x in range(tiling.width):
                cells[cell + x * step.target_width] = planes[plane * area + y * tiling.width + x]


@compiled
def _flatten(step, tiling, source, target):
    """Copies a padded board into planes."""
    area = tiling.height * tiling.width
    planes = floats_at(target, step.inputs * area)
    cells = floats_at(source, tiling.cells * step.source_width)
    for plane in range(step.inputs):
        for y in range(tiling.height):
            cell = ((y + 1) * tiling.line + 1) * step.source_width + step.first + plane
            for x in range(tiling.width):
                planes[plane * area + y * tiling.width + x] = cells[cell + x * step.source_width]


@compiled
def _linear(step, source, target, widths, count):
    """A linear map of all rows, with bias, and with ReLU if the step has it."""
    strides = (widths[step.source], step.target_width * 4, widths[step.target])
    for column in range(0, step.target_width * 4, 8 * LANES):
        if count == GROUP_SIZE:
            multiply_block(GROUP_SIZE, source, step.weights + column, target + column, strides, step.inputs)
        else:
            for row in range(count):
                numbers, result = source + row * strides[0], target + row * strides[2] + column
                multiply_block(1, numbers, step.weights + column, result, strides, step.inputs)
    for row in range(count):
        _activate(target + row * strides[2], strides[1], 1, step.bias, step.relu != 0)


@compiled
def _activate(address, width, rows, bias, has_relu):
    """Adds the bias to rows of `width` bytes, then applies ReLU if asked for."""
    for _ in range(rows):
        for column in range(0, width, LANE_BYTES):
            vector = plus(load(address + column), load(bias + column))
            store(address + column, positive_part(vector) if has_relu else vector)
        address += width


@compiled
def _write_answer(step, numbers, answer):
    """Writes the policy from logits, the value from a number, or a copy."""
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
