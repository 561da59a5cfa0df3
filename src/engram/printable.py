"""Texts made safe to print: a stored text could send commands to the terminal, or forge a line of a table."""

from __future__ import annotations

# Those characters of Unicode that end a line, change the direction of writing, or are halves of a character.
_TURNING = (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_MARKS = (*range(32), *range(127, 160), *_TURNING, *range(0xD800, 0xE000))
_ON_ONE_LINE = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _MARKS}
_ON_ONE_LINE |= {ord("\t"): "\\t", ord("\n"): "\\n"}
_PRINTABLE = {code: text for code, text in _ON_ONE_LINE.items() if chr(code) not in "\t\n"}


def printable(text: object) -> str:
    """A text with its control characters spelt out, except for the ends of its lines."""
    return str(text).translate(_PRINTABLE)


def on_one_line(text: object) -> str:
    """A text with all its control characters spelt out, including the ends of lines."""
    return str(text).translate(_ON_ONE_LINE)
