"""`engram tune`: a study, its confirmation and its report; repeat the command to continue or to join."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli import options
from engram.cli.console import Live, app, say, show
from engram.cli.match import line
from engram.cli.options import option, whole
from engram.cli.typed import typed, without_folders

if TYPE_CHECKING:
    from engram.arena.report import MatchResult
    from engram.tuning.study import Study, StudyProgress


@app.command()
def tune(
    context: typer.Context,
    search: Annotated[str, option("Search to tune, such as 'uct(backup=softmax)'.", "--search", "-s")],
    game: options.Game = "connect_four",
    against: Annotated[str, option("Player to score against.")] = "uct",
    knots: Annotated[Optional[int], whole("Knots of the backup rule's function h.", high=32)] = None,
    knot_range: Annotated[str, option("Range of each knot.")] = "-4:6",
    values: Annotated[
        Optional[list[str]],
        option("Numbers, exploration=0.2:3:log, expand_after=1:8:int; or words, decision=robust|lcb.", "--tune"),
    ] = None,
    max_games: Annotated[int, whole("Games of all trials and the confirmation.")] = 5000,
    confirm_games: Annotated[
        Optional[int], whole("Fresh games with the best point; default a fifth of --max-games.", low=2)
    ] = None,
    trial_games: Annotated[int, whole("Most games of one trial; a tenth is played at once.", low=20)] = 400,
    acquisition: Annotated[str, option("gain (the largest expected improvement for each game), ei or ucb.")] = "gain",
    simulations: options.Simulations = None,
    seconds: options.Seconds = None,
    opening_moves: options.OpeningMoves = None,
    resign: options.Resign = None,
    seed: options.Seed = 0,
    workers: Annotated[
        Optional[int],
        whole("Processes with a trial each; default 1. On a cluster, workers on each trial; default all.", high=512),
    ] = None,
    cluster: options.Cluster = None,
    gpu_share: options.GpuShare = 0.0,
    allow_unequal: options.AllowUnequal = False,
    storage: Annotated[str, option("SQLite file, or postgresql+psycopg://…")] = "engram-tune.sqlite",
    report: Annotated[Optional[Path], option("Folder for index.html, tuning.png and tuning.json.")] = None,
    as_json: options.Json = False,
) -> None:
    """Tune a backup function, other numbers and words by noisy matches, then confirm on fresh games."""
    from engram.plotting import new_figure
    from engram.storage import make_folder
    from engram.tuning import require

    require()
    from engram.tuning.objective import MatchObjective
    from engram.tuning.space import space
    from engram.tuning.study import Study

    if simulations is None and seconds is None:
        simulations = 1000
    objective = MatchObjective(
        game=game, space=space(search, knots=knots, knot_range=_range(knot_range), tune=values or []), against=against,
        simulations=simulations, seconds=seconds, opening_moves=opening_moves, resign=resign, seed=seed,
        database=storage,
    )  # fmt: skip
    budget: dict[str, Any] = {
        "max_games": max_games, "confirm_games": confirm_games, "trial_games": trial_games, "acquisition": acquisition,
    }  # fmt: skip
    if report is not None:  # before long work
        make_folder(report)
        new_figure("a report")
    study = Study(objective, **budget)
    try:
        with options.place(cluster, gpu_share, allow_unequal=allow_unequal):
            best, confirmation = _search_and_confirm(study, budget, workers)
    except KeyboardInterrupt:
        sentence = "interrupted; all games are recorded, and the same command continues from here"
        raise KeyboardInterrupt(sentence) from None
    _show(study, best, confirmation, as_json)
    if report is not None:
        _write_report(report, study, confirmation, typed(context))


def _search_and_confirm(study: Study, budget: dict[str, Any], workers: int | None) -> tuple[StudyProgress, MatchResult]:
    from engram.fleet import Fleet, default_workers, on_cluster
    from engram.tuning.study import join

    # On a cluster the head alone writes: it makes trials one by one, and all workers play each.
    workers = workers or (default_workers() if on_cluster() else 1)
    helpers, players = (0, workers) if on_cluster() else (workers - 1, 1)
    with (
        Fleet(join, study.objective, budget, count=helpers) as fleet,
        Live("games of trials", study.search_games) as live,
    ):

        def search() -> None:
            study.search(lambda progress: live.update(progress.games, _line(progress)), workers=players)

        search()
        for failure in fleet.join():
            live.line(f"engram: a worker stopped: {failure}")
        search()  # a worker that was killed leaves its trial to the others
        for sentence in study.faults():
            live.line(f"engram: {sentence}")
    best = study.standing(study.recommendation())
    say(f"best: {best.best}; confirming in {study.confirm_games} fresh games")
    with Live("games of the confirmation", study.confirm_games) as live:
        return best, study.confirm(workers=workers, progress=lambda now: live.update(now.games, line(now)))


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


def _write_report(folder: Path, study: Study, confirmation: MatchResult, how: dict[str, Any]) -> None:
    from engram.tuning.charts import write_report
    from engram.tuning.findings import findings

    objective = study.objective
    budget = confirmation.configuration.limits["A"].text
    game, search, against = map(without_folders, (objective.game, study.space.search, objective.against))
    title = f"{game}: {search} against {against}, {budget} a move"
    results = findings(study.space, study.observations(), objective.seed, study.recommendation())
    write_report(folder, title, study.space, results, confirmation, **how)


def _show(study: Study, best: StudyProgress, confirmation: MatchResult, as_json: bool) -> None:
    data = {
        "best": best.best, "posterior_mean": best.mean, "posterior_deviation": best.deviation, "games": best.games,
        "trials": best.trials, "study": study.optuna.study_name, "confirmation": confirmation.to_json(),
    }  # fmt: skip
    text = (
        f"{best.trials} trials, {best.games:,} games; by the posterior {100 * best.mean:.1f} % "
        f"± {196 * best.deviation:.1f} (95 %; a maximum, so it is biased upwards)\n"
        f"best: {best.best}\n\nConfirmation, fresh games\n{confirmation}"
    )
    show(data, text, as_json)
