"""The monotonic clock for compiled code, so that threads end at a time without Python.

Read through C's `clock_gettime`, about 25 ns a reading. Windows has no such function: `ADDRESS` is 0 there.
"""

from __future__ import annotations

import ctypes
import time

import numpy as np

from engram.native.intrinsics import call
from engram.native.jit import compiled

_MONOTONIC = getattr(time, "CLOCK_MONOTONIC", 0)
_FUNCTION = getattr(ctypes.pythonapi, "clock_gettime", None)
ADDRESS = ctypes.cast(_FUNCTION, ctypes.c_void_p).value or 0 if _FUNCTION else 0
"""Of the C function, for `nanoseconds`: machine code on disk must not hold it."""


def deadline(until: float) -> int:
    """A time of `time.perf_counter`, in seconds, as `nanoseconds` counts."""
    return time.clock_gettime_ns(_MONOTONIC) + int(1e9 * (until - time.perf_counter()))


@compiled(inline=True)
def nanoseconds(address, room):
    """The time now. `room`: (2,) int64, for C's seconds and nanoseconds."""
    call(address, (np.int64(_MONOTONIC), room.ctypes.data))
    return room[0] * 1_000_000_000 + room[1]
