"""Objects that compiled code reads by address: they refuse to be copied."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from engram.errors import InvalidState


class Addressed:
    """Base of an object whose arrays compiled code reaches by their addresses.

    A copy's record would still name the original's arrays, or, in another process, memory that is not there.

    Attributes:
      title: the object in the sentence that refuses. instead: the way to a second one.
    """

    title: ClassVar[str]
    instead: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        raise InvalidState(f"{self.title} cannot be copied or pickled: {self.instead}")
