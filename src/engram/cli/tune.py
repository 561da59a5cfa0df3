"""`engram tune`: a study, its confirmation and its report; the same command again continues, or joins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli.console import Live, command, print_json
from engram.cli.options import (
    GameOption,
    JsonOption,
    OpeningOption,
    ResignOption,
    SecondsOption,
    SeedOption,
    SimulationsOption,
)

if TYPE_CHECKING:
    from engram.arena.report import MatchResult
    from engram.tuning.study import Study, StudyProgress


@command()
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
    opening_moves: OpeningOption = None,
    resign: ResignOption = None,
    seed: SeedOption = 0,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes of this machine; others join by the same command.")
    ] = 1,
    storage: Annotated[str, typer.Option(help="SQLite file, or the URL of any database.")] = "engram-tune.sqlite",
    report: Annotated[Optional[Path], typer.Option(help="Folder for index.html, tuning.png and tuning.json.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Tune a backup function and other numbers by noisy matches, then confirm on fresh games."""
    _require_tuning()
    from engram.fleet import Fleet
    from engram.tuning.objective import MatchObjective
    from engram.tuning.space import space
    from engram.tuning.study import Study, join

    if simulations is None and seconds is None:
        simulations = 1000
    objective = MatchObjective(
        game=game,
        space=space(search, knots=knots, knot_range=_range(knot_range), tune=number or []),
        against=against,
        simulations=simulations,
        seconds=seconds,
        opening_moves=opening_moves,
        resign=resign,
        seed=seed,
        database=storage,
    )
    budget: dict[str, Any] = {"max_games": max_games, "confirm_games": confirm_games, "trial_games": trial_games}
    study = Study(objective, **budget)
    try:
        with Fleet(join, objective, budget, count=workers - 1) as fleet, Live("games", study.search_games) as live:
            study.search(lambda progress: live.update(progress.games, _line(progress)))
            for failure in fleet.join():
                live.line(f"engram: a worker stopped: {failure}")
        best = study.standing(study.recommended())
        print(f"best: {best.best}; confirming in {study.confirm_games} fresh games", file=sys.stderr, flush=True)
        confirmation = study.confirm(workers=workers)
    except KeyboardInterrupt:
        print("engram: interrupted; all games are recorded, and the same command continues from here", file=sys.stderr)
        raise typer.Exit(130) from None
    if report is not None:
        _write_report(report, study, game, confirmation)
    _show(study, best, confirmation, as_json)


def _require_tuning() -> None:
    from engram.errors import MissingPackage

    try:
        import botorch  # noqa: F401
        import optuna  # noqa: F401
    except ImportError as error:
        raise MissingPackage(f"tuning needs Optuna and BoTorch ({error}): pip install 'engram[tune]'") from None


def _range(text: str) -> tuple[float, float]:
    from engram.errors import InvalidSpecification

    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InvalidSpecification(f"a range of knots is low:high, such as -4:6, not {text!r}") from None
    return low, high


def _line(progress: StudyProgress) -> str:
    return (
        f"{progress.games:,} of {progress.budget:,} games, {progress.trials} trials; best "
        f"{100 * progress.mean:.1f} % ± {196 * progress.deviation:.1f}: {progress.best}"
    )


def _write_report(folder: Path, study: Study, game: str, confirmation: MatchResult) -> None:
    from engram.tuning.charts import write_report
    from engram.tuning.findings import findings

    objective = study.objective
    budget = next(iter(confirmation.configuration.limits.values()))
    cost = f"{budget.simulations:,} simulations" if budget.simulations else f"{budget.seconds:g} s"
    title = f"{game}: {study.space.search} against {objective.against}, {cost} a move"
    results = findings(study.space, study.observations(), objective.seed, study.recommended())
    write_report(folder, title, study.space, results, confirmation)


def _show(study: Study, best: StudyProgress, confirmation: MatchResult, as_json: bool) -> None:
    if as_json:
        return print_json(
            {
                "best": best.best,
                "posterior_mean": best.mean,
                "posterior_deviation": best.deviation,
                "games": best.games,
                "trials": best.trials,
                "study": study.optuna.study_name,
                "confirmation": confirmation.to_json(),
            }
        )
    typer.echo(
        f"{best.trials} trials, {best.games:,} games; by the posterior {100 * best.mean:.1f} % "
        f"± {196 * best.deviation:.1f} (95 %; a maximum, so it leans upwards)"
    )
    typer.echo(f"best: {best.best}\n\nConfirmation, fresh games\n{confirmation}")
