"""The fields of a request, each checked as it is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from engram.errors import InvalidParameter, check_options

MOST_TEXT = 2_000
MOST_MOVES = 50_000
MOST_LETTERS = 1_000
"""Letters of a move at most."""


class Fields:
    """The JSON object of a request.

    Raises:
      InvalidParameter: the request is not a JSON object; and, in every method, a field that is missing or out of range.
    """

    def __init__(self, body: bytes):
        try:
            data = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            raise InvalidParameter("the request is not JSON") from None
        if not isinstance(data, dict):
            raise InvalidParameter("the request is not a JSON object")
        self._data: dict[str, Any] = data

    def check_names(self, *names: str) -> None:
        """Refuses fields of other names, which would have no effect."""
        check_options("the request", (name[:100] for name in self._data), names)

    def text(self, name: str, default: str | None = None) -> str:
        """A text of at most `MOST_TEXT` characters, without control characters."""
        value = self._data.get(name, default)
        if not isinstance(value, str) or len(value) > MOST_TEXT or not _is_plain(value):
            raise InvalidParameter(f"{name} must be a text of at most {MOST_TEXT:,} characters")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of short texts; empty where it is left out."""
        return self._list(
            name,
            f"texts of at most {MOST_LETTERS:,} characters",
            lambda value: isinstance(value, str) and _is_plain(value) and len(value) <= MOST_LETTERS,
        )

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number from `low` to `high`."""
        value = self.maybe_whole(name, low, high)
        value = default if value is None else value
        if value is None:
            raise InvalidParameter(f"{name} must be a whole number, {low:,} to {high:,}")
        return value

    def maybe_whole(self, name: str, low: int, high: int) -> int | None:
        """A whole number from `low` to `high`, or None where it is left out."""
        value = self._data.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high):
            raise InvalidParameter(f"{name} must be a whole number, {low:,} to {high:,}")
        return value

    def maybe_real(self, name: str, low: float, high: float) -> float | None:
        """A number above `low` and at most `high`, or None where it is left out."""
        value = self._data.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low < value <= high:
            raise InvalidParameter(f"{name} must be a number above {low:g} and at most {high:g}")
        return float(value)

    def wholes(self, name: str) -> list[int]:
        """A list of whole numbers ≥ 0; empty where it is left out."""
        return self._list(name, "whole numbers from 0", lambda value: type(value) is int and 0 <= value < 2**31)

    def _list(self, name: str, content: str, fits: Callable[[Any], bool]) -> list[Any]:
        values = self._data.get(name, [])
        if not isinstance(values, list) or len(values) > MOST_MOVES or not all(map(fits, values)):
            raise InvalidParameter(f"{name} must be a list of at most {MOST_MOVES:,} {content}")
        return values

    def flag(self, name: str) -> bool:
        """True or false; false where it is left out."""
        value = self._data.get(name, False)
        if not isinstance(value, bool):
            raise InvalidParameter(f"{name} must be true or false")
        return value


def _is_plain(text: str) -> bool:
    """Whether a text has no lone surrogates, which UTF-8 cannot encode, and no control characters."""
    return not any((mark < " " and mark not in "\n\r\t") or "\ud800" <= mark <= "\udfff" for mark in text)
