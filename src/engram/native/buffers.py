"""Buffers that user code gets as pointers. A pointer has no length, so guarded runs look it up here by its address.

Noting a buffer takes some microseconds, so only the child of `guard.py` notes all buffers; nothing else looks them up.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
from numba import carray, int64

from engram.native.intrinsics import pointer_at
from engram.native.jit import Callback

UNKNOWN = 1 << 17
"""The length of a pointer to no noted buffer, above that of every buffer."""
_MOST = 64
_table = np.zeros((_MOST, 4), np.int64)
"""For each: its first address, the one after its end, the bytes from buffer to buffer, and how many are spare."""
_notes = False
_lock = threading.Lock()


def buffers(shape: int | tuple[int, int], dtype: Any, *, spare: int = 0, lasts: bool = False) -> np.ndarray:
    """Zeros for user code: a buffer of `shape` entries, or an array (buffers, entries) of many.

    Args:
      lasts: note them in any process, because they exist before a guarded run begins.
      spare: further entries after those of each buffer, which the caller examines; a guarded run refuses to use them.
    """
    *many, entries = shape if isinstance(shape, tuple) else (shape,)
    array = np.zeros((*many, entries + spare), dtype)
    if (_notes or lasts) and array.size:
        _note(array, spare)
    return array


def note_buffers() -> None:
    """Makes this process note its buffers from now on."""
    global _notes
    _notes = True


def _note(array: np.ndarray, spare: int) -> None:
    begin, end = array.ctypes.data, array.ctypes.data + array.nbytes
    with _lock:
        row = int(np.argmin(_table[:, 1]))
        if _table[row, 1] == 0:  # otherwise all rows belong to buffers in use, and this buffer stays unknown
            _table[row] = begin, end, array.shape[-1] * array.itemsize, spare * array.itemsize
            weakref.finalize(array, _table.__setitem__, row, 0)


def _entries(address: int, size: int, table: int) -> int:
    """Entries of `size` bytes from an address to the end of its buffer."""
    rows = carray(pointer_at(table, int64), (_MOST, 4))
    for row in range(_MOST):
        begin, end, pitch, spare = rows[row, 0], rows[row, 1], rows[row, 2], rows[row, 3]
        if begin <= address < end:
            return (pitch - spare - (address - begin) % pitch) // size
    return UNKNOWN


def lookup() -> tuple[int, int]:
    """Addresses of the compiled `_entries` and of its table, which are constants in checked code."""
    return Callback(_entries, int64, (int64, int64, int64)).address, _table.ctypes.data
