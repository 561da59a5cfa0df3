"""`engram gtp`: a search as a program that boards and referees of Go can talk to."""

from __future__ import annotations

import sys

from engram.games.catalogue import game as game_of
from engram.gtp.engine import GtpEngine
from engram.gtp.protocol import Lines


def run_gtp(game: str, search: str, *, simulations: int | None, seconds: float | None, seed: int) -> None:
    """Answers standard input on standard output until `quit` or the end of the input.

    Raises:
      InvalidSpecification: a game that is not Go, or no such search. InvalidLimit: a bound out of range.
    """

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    lines = Lines(sys.stdin.fileno())
    engine = GtpEngine(
        game_of(game), search, simulations=simulations, seconds=seconds, seed=seed, write=write, waiting=lines.waiting,
        interrupted=lines.interrupted,
    )  # fmt: skip
    engine.warm_up()
    while not engine.quitting and (line := lines.next()) is not None:
        engine.answer(line)
