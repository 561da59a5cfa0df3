"""Confidence intervals: of shares, and their text."""

from __future__ import annotations

from typing import Any

import numpy as np

NORMAL_95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""


def digits_beside(middle: float, ends: tuple[float, float], digits: int) -> int:
    """Digits after the point, `digits` or up to four more, so that no end prints like a middle that differs from it."""
    for more in range(4):
        if not any(end != middle and round(end, digits + more) == middle for end in ends):
            return digits + more
    return digits + 4


def wilson(share: Any, count: Any) -> tuple[Any, Any]:
    """Wilson's 95 % interval of a share.

    Args:
      share: in [0, 1], a number or an array. count: trials behind it, ≥ 0, of the same shape.

    Returns: the lower and the upper end, in [0, 1]; 0 and 1 without trials.
    """
    count = np.asarray(count, np.float64)
    trials, square = np.maximum(count, 1e-9), NORMAL_95**2
    centre = (share + square / (2 * trials)) / (1 + square / trials)
    half = NORMAL_95 / (1 + square / trials) * np.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    # Without the share as a bound, rounding could leave 0 or 1 outside the interval.
    low, high = np.clip(centre - half, 0.0, share), np.clip(centre + half, share, 1.0)
    return np.where(count > 0, low, 0.0)[()], np.where(count > 0, high, 1.0)[()]
