"""The bounds of a game's returns, and sums of rewards, up to rounding."""

from __future__ import annotations

import math

from engram.native.jit import compiled

ROUNDING = 1e-6  # a return may exceed its bounds by this share of the distance between them
SINGLE = 2.0**-23  # and by the rounding of a number in single precision, in which networks answer


@compiled(inline=True)
def is_within(value, low, high):
    """Whether a return lies within its bounds, up to rounding."""
    slack = ROUNDING * (high - low) + SINGLE * max(abs(low), abs(high))
    return low - slack <= value <= high + slack


def rounded(total: float, largest: float) -> float:
    """A sum without its rounding errors, so that 0.1 + 0.2 - 0.3 is 0 and equal sums are equal.

    Args:
      largest: the largest sum there could be, in absolute value. The answer has 13 of its digits.
    """
    return total if total.is_integer() else round(total, 13 - math.frexp(largest)[1] * 3 // 10)
