"""Options that several commands share; every number has a range, and the command refuses others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli.tables import Form

if TYPE_CHECKING:
    from engram.drivers.limit import Limit

MOST = 2**32 - 1
"""Bound on the simulations of a search, and on all numbers without another bound."""


def whole(about: str, *names: str, low: int = 1, high: int = MOST) -> Any:
    """An option of a whole number from `low` to `high`."""
    return _number(about, names, int, f"a whole number, {low:,} to {high:,}", lambda number: low <= number <= high)


def real(about: str, *names: str, low: float = 0.0, high: float = 1.0, above: bool = False) -> Any:
    """An option of a number from `low` to `high`; with `above`, `low` itself is refused."""
    kind = f"a number {'above' if above else 'from'} {low:,g} {'and up ' if above else ''}to {high:,g}"
    return _number(about, names, float, kind, lambda number: low <= number <= high and not (above and number == low))


def _number(about: str, names: tuple[str, ...], of: type, kind: str, allowed: Callable[[Any], bool]) -> Any:
    def parse(text: Any) -> Any:
        try:
            number = of(text)
        except (ValueError, OverflowError):
            number = math.nan
        if not allowed(number):
            raise typer.BadParameter(f"it must be {kind}, not {text}")
        return number

    return typer.Option(*names, help=about, parser=parse, metavar=f"<{of.__name__}>")


def _form(text: str) -> Form:
    if text not in list(Form):
        raise typer.BadParameter(f"it must be {', '.join(list(Form)[:-1])} or {list(Form)[-1]}, not {text}")
    return Form(text)


def option(about: str, *names: str) -> Any:
    """An option of any other kind."""
    return typer.Option(*names, help=about)


Game = Annotated[str, option("Game, such as connect_four, go:9 or my_game.py:hex.", "--game", "-g")]
Search = Annotated[str, option("Search, such as 'uct(exploration=1.0)'.", "--search", "-s")]
Json = Annotated[bool, option("Print plain JSON for programs.", "--json")]
Format = Annotated[
    Form,
    typer.Option(
        "--format",
        help="How tables are written; LaTeX needs the package booktabs.",
        parser=_form,
        metavar="|".join(Form),
    ),
]
Simulations = Annotated[Optional[int], whole("Simulations a move.", "--simulations", "-n")]
Seconds = Annotated[Optional[float], real("Seconds a move.", "--seconds", above=True, high=1e7)]
SideSimulations = Annotated[Optional[int], whole("Simulations a move, for this side only.")]
SideSeconds = Annotated[Optional[float], real("Seconds a move, for this side only.", above=True, high=1e7)]
Seed = Annotated[int, whole("Seed of all random numbers.", "--seed", low=-(2**63), high=2**64 - 1)]
Workers = Annotated[Optional[int], whole("Processes; default $ENGRAM_WORKERS, or one per core.", "--workers", high=512)]
OpeningMoves = Annotated[Optional[int], whole("Random moves that begin each pair.", "--opening-moves", low=0)]
OpeningJudge = Annotated[
    Optional[str], option("Player that values openings, so that only even ones are played: \"puct(network='go9')\".")
]
OpeningBalance = Annotated[
    Optional[float], real("With a judge: largest value of an opening for either side; default 0.25.", above=True)
]
Resign = Annotated[Optional[float], real("End a game when both sides give the same side this value: 0.9.", above=True)]
Cluster = Annotated[
    Optional[str], option("Work on a Ray cluster: auto (join one, or start one here), HOST:6379, ray://HOST:10001.")
]
GpuShare = Annotated[float, real("On a cluster, the share of a GPU for each worker.")]
AllowUnequal = Annotated[
    bool, option("On a cluster, allow budgets in seconds on machines with different processors.", "--allow-unequal")
]
Moves = Annotated[str, option("Moves played so far, such as '4 4 3' or 443.", "--moves", "-m")]
AllowFiles = Annotated[
    bool, option("Trust a record that names Python files, and run them if unchanged.", "--allow-files")
]
Database = Annotated[str, option("SQLite file, or postgresql+psycopg://…", "--database", "-d")]

# Those of trainings
Folder = Annotated[Path, option("The folder of the training.", "--output", "-o")]
Network = Annotated[
    str, option("A new one, residual(blocks=4,filters=32) or predictor; or one to continue: go9, a file.")
]
Steps = Annotated[int, whole("Batches in all.")]
Batch = Annotated[int, whole("Positions in a batch.")]
LearningRate = Annotated[float, real("Highest learning rate.", above=True)]
ValueWeight = Annotated[float, real("Weight of the value's loss.", high=1e6)]
AveragedShare = Annotated[
    float, real("Keep a mean of the weights, mostly over this share of the last steps; 0: none.", high=1.0)
]
Validation = Annotated[float, real("Share of games or positions held out.", above=True)]
CheckpointS = Annotated[float, real("Seconds between checkpoints.", high=1e7)]
StopAt = Annotated[Optional[int], whole("Stop after this many steps, for now.")]


@contextmanager
def place(cluster: str | None, gpu_share: float = 0.0, *, allow_unequal: bool = False) -> Iterator[None]:
    """A block whose fleets work on a cluster, or on this machine if there is none.

    Raises:
      EngramError: as `RayCluster`.
    """
    if cluster is None:
        yield
        return
    from engram.cli.console import say
    from engram.cluster.ray_cluster import RayCluster
    from engram.fleet import working_on

    with RayCluster(cluster, gpu_share=gpu_share, allow_unequal=allow_unequal, tell=say) as ray, working_on(ray):
        yield


def move_limit(simulations: int | None, seconds: float | None, usual: int = 10_000) -> Limit:
    """The budget of a move, or of a plan; `usual` simulations where both options are missing.

    Raises:
      InvalidLimit: a number is out of range.
    """
    from engram.drivers.limit import Limit

    return Limit(simulations=usual if simulations is None and seconds is None else simulations, seconds=seconds)
