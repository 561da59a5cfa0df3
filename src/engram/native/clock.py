"""The monotonic clock for compiled code, so that threads can stop at a set time without calling Python.

It is read through C's `clock_gettime`, in about 25 ns. Windows has no such function: `ADDRESS` is 0 there.
"""

from __future__ import annotations

import ctypes
import time

import numpy as np

from engram.native.intrinsics import call
from engram.native.jit import compiled

_MONOTONIC = getattr(time, "CLOCK_MONOTONIC", 0)
_FUNCTION = getattr(ctypes.pythonapi, "clock_gettime", None) if hasattr(time, "clock_gettime_ns") else None
ADDRESS = ctypes.cast(_FUNCTION, ctypes.c_void_p).value or 0 if _FUNCTION else 0
"""The address of the C function, which `nanoseconds` takes as an argument: machine code on disk must not hold it."""


def nanoseconds_at(moment: float) -> int:
    """Converts a time of `time.perf_counter` (s) to the scale of `nanoseconds`."""
    return time.clock_gettime_ns(_MONOTONIC) + int(1e9 * (moment - time.perf_counter()))


@compiled(inline=True)
def nanoseconds(address, room):
    """The time now. `room`: (2,) int64, for C's seconds and nanoseconds."""
    call(address, (np.int64(_MONOTONIC), room.ctypes.data))
    return room[0] * 1_000_000_000 + room[1]
