"""The bounds of a game's returns, up to rounding."""

from __future__ import annotations

from engram.native.jit import compiled

ROUNDING = 1e-6  # a return may exceed its bounds by this share of their distance
SINGLE = 2.0**-23  # and by the rounding of a number in single precision, as networks answer


@compiled(inline=True)
def is_within(value, low, high):
    """Whether a return lies within its bounds, up to rounding."""
    slack = ROUNDING * (high - low) + SINGLE * max(abs(low), abs(high))
    return low - slack <= value <= high + slack
