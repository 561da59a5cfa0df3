"""`engram tune`: a study, its confirmation and its report; the same command again goes on, or joins."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli.options import (
    GameOption,
    JsonOption,
    ResignOption,
    SecondsOption,
    SeedOption,
    SimulationsOption,
    guarded,
    print_json,
)
from engram.errors import EngramError, InvalidSpecification

if TYPE_CHECKING:
    from engram.arena.report import MatchResult
    from engram.tuning.study import Study, StudyProgress

_TELL_S = 10.0


@guarded
def tune(
    search: Annotated[str, typer.Option("--search", "-s", help="Search to tune, such as 'uct(backup=softmax)'.")],
    game: GameOption = "connect_four",
    against: Annotated[str, typer.Option("--against", help="Player to score against.")] = "uct",
    knots: Annotated[Optional[int], typer.Option(help="Knots of the backup rule's function h.")] = None,
    knot_range: Annotated[str, typer.Option(help="Range of each knot.")] = "-4:6",
    number: Annotated[
        Optional[list[str]],
        typer.Option("--tune", help="A number to tune: exploration=0.2:3:log, expand_after=1:8:int. Repeatable."),
    ] = None,
    max_games: Annotated[int, typer.Option(min=1, help="Games of all trials and the confirmation.")] = 5000,
    confirm_games: Annotated[
        Optional[int], typer.Option(help="Fresh games of the best at the end; default a fifth of --max-games.")
    ] = None,
    trial_games: Annotated[int, typer.Option(help="Most games of one trial; a tenth is played at once.")] = 400,
    simulations: SimulationsOption = None,
    seconds: SecondsOption = None,
    opening_moves: Annotated[Optional[int], typer.Option(help="Random moves that begin each pair.")] = None,
    resign: ResignOption = None,
    seed: SeedOption = 0,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes of this machine; others join by the same command.")
    ] = 1,
    storage: Annotated[str, typer.Option(help="SQLite file, or any database by URL.")] = "engram-tune.sqlite",
    report: Annotated[Optional[str], typer.Option(help="Folder for index.html, tuning.png and tuning.json.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Tune a backup function and other numbers by noisy matches, then confirm on fresh games."""
    try:
        import botorch  # noqa: F401
        import optuna  # noqa: F401
    except ImportError as error:
        raise EngramError(f"tuning needs Optuna and BoTorch ({error}): pip install 'engram[tune]'") from None
    from engram.fleet import Fleet
    from engram.tuning.objective import MatchObjective
    from engram.tuning.space import space
    from engram.tuning.study import Study, join

    if simulations is None and seconds is None:
        simulations = 1000
    where = space(search, knots=knots, knot_range=_range(knot_range), tune=number or [])
    objective = MatchObjective(
        game=game, space=where, against=against, simulations=simulations, seconds=seconds,
        opening_moves=opening_moves, resign=resign, seed=seed, database=storage,
    )  # fmt: skip
    budget: dict[str, Any] = {"max_games": max_games, "confirm_games": confirm_games, "trial_games": trial_games}
    study = Study(objective, **budget)
    try:
        with Fleet(join, objective, budget, count=workers - 1) as fleet:
            study.search(_teller())
            for failure in fleet.join():
                print(f"engram: a worker stopped: {failure}", file=sys.stderr)
        best = study.standing(study.recommended())
        print(f"best: {best.best}; confirming in {study.confirm_games} fresh games", file=sys.stderr, flush=True)
        confirmation = study.confirm(workers=workers)
    except KeyboardInterrupt:
        print("engram: interrupted; all games are recorded, and the same command goes on from here", file=sys.stderr)
        raise SystemExit(130) from None
    if report is not None:
        _report(Path(report), study, game, confirmation)
    _show(study, best, confirmation, as_json)


def _range(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InvalidSpecification(f"a range of knots is low:high, such as -4:6, not {text!r}") from None
    return low, high


def _teller() -> Callable[[StudyProgress], None]:
    """One line on stderr at most every ten seconds, and none for a study that is complete already."""
    told = time.monotonic()

    def tell(progress: StudyProgress) -> None:
        nonlocal told
        if time.monotonic() - told >= _TELL_S or progress.games >= progress.budget:
            told = time.monotonic()
            print(
                f"{progress.games:,} of {progress.budget:,} games, {progress.trials} trials; best "
                f"{100 * progress.mean:.1f} % ± {196 * progress.deviation:.1f}: {progress.best}",
                file=sys.stderr,
                flush=True,
            )

    return tell


def _report(folder: Path, study: Study, game: str, confirmation: MatchResult) -> None:
    from engram.tuning.charts import write_report
    from engram.tuning.findings import findings

    objective = study.objective
    found = findings(study.space, study.observations(), objective.seed, study.recommended())
    budget = next(iter(confirmation.configuration.limits.values()))
    cost = f"{budget.simulations:,} simulations" if budget.simulations else f"{budget.seconds:g} s"
    title = f"{game}: {study.space.search} against {objective.against}, {cost} a move"
    write_report(folder, title, study.space, found, confirmation)


def _show(study: Study, best: StudyProgress, confirmation: MatchResult, as_json: bool) -> None:
    if as_json:
        data: dict[str, Any] = {
            "best": best.best,
            "posterior_mean": best.mean,
            "posterior_deviation": best.deviation,
            "games": best.games,
            "trials": best.trials,
            "study": study.optuna.study_name,
            "confirmation": confirmation.to_json(),
        }
        return print_json(data)
    print(f"{best.trials} trials, {best.games:,} games; by the posterior {100 * best.mean:.1f} % "
          f"± {196 * best.deviation:.1f} (95 %; a maximum, so it leans upwards)")  # fmt: skip
    print(f"best: {best.best}\n\nConfirmation, fresh games")
    print(confirmation)
