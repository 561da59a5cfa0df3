"""Objects that compiled code reads by address: they refuse to be copied."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from engram.errors import InvalidState


class Addressed:
    """Base of an object whose arrays compiled code reaches by their addresses.

    A copy's record would still point to the original's arrays, or, in another process, to memory that is not there.

    Attributes:
      title: names the object in the error message. instead: says how to get a second object.
    """

    title: ClassVar[str]
    instead: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        raise InvalidState(f"{self.title} cannot be copied or pickled: {self.instead}")
