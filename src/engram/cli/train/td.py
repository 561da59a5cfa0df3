"""`engram train td`: a table of values learned by temporal differences, with a live curve."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli.options import DatabaseOption, GameOption, JsonOption, SeedOption, guarded, print_json


@guarded
def td(
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write; each seed's stands beside it.")],
    game: GameOption = "connect_four",
    simulations: Annotated[int, typer.Option("--simulations", "-n", min=1, help="Simulations of each search.")] = 1000,
    episodes: Annotated[int, typer.Option(min=0, help="Games of each seed, in all.")] = 2000,
    evaluate: Annotated[
        str, typer.Option(help="Opponents with commas between; 'uct(simulations=100)' gives both sides 100.")
    ] = "",
    every: Annotated[int, typer.Option(min=1, help="Episodes between measurements.")] = 100,
    games: Annotated[int, typer.Option(min=2, help="Games of each measurement, even.")] = 100,
    evaluation_openings: Annotated[
        Optional[int], typer.Option(min=0, help="Random moves that begin its pairs of games; 0: the fixed start.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings from as many seeds, joined at the end.")] = 1,
    seed: SeedOption = 0,
    against: Annotated[
        Optional[str],
        typer.Option(help="Play against this player, who may have a budget of its own; default self-play."),
    ] = None,
    exploration: Annotated[float, typer.Option(min=0.0, help="c of UCB1.")] = 1.0,
    trace_decay: Annotated[float, typer.Option(min=0.0, max=1.0, help="λ.")] = 0.9,
    discount: Annotated[float, typer.Option(min=0.0, max=1.0, help="γ a ply.")] = 0.9,
    min_step: Annotated[float, typer.Option(min=0.0, max=1.0, help="Floor of the step size α.")] = 0.005,
    bootstrap: Annotated[str, typer.Option(help="taken (Sarsa) or best (Q-learning).")] = "taken",
    epsilon: Annotated[float, typer.Option(help="Share of moves drawn at random.")] = 0.0,
    replay: Annotated[float, typer.Option(help="Share of episodes from a position of an earlier game.")] = 0.0,
    opening_moves: Annotated[int, typer.Option(min=0, help="Others begin with 0 to so many random moves.")] = 0,
    symmetric: Annotated[bool, typer.Option(help="Mirror images share an entry.")] = True,
    capacity: Annotated[Optional[int], typer.Option(min=1, help="Entries, 16 bytes each; default 2,000,000.")] = None,
    rollout: Annotated[str, typer.Option(help="uniform or heavy.")] = "uniform",
    curve: Annotated[Optional[Path], typer.Option(help="Draw curves here: a .png or a .html.")] = None,
    workers: Annotated[Optional[int], typer.Option(min=1, help="Processes, a seed each; default one a core.")] = None,
    database: DatabaseOption = "engram.sqlite",
    as_json: JsonOption = False,
) -> None:
    """Learn a table of values by play, for td_uct(table=...); the same command again goes on."""
    from dataclasses import asdict

    from engram.fleet import default_workers
    from engram.memory.values.table import DEFAULT_CAPACITY
    from engram.training.td.curves import draw
    from engram.training.td.settings import EvaluationPlan, TdConfiguration, parse_opponents
    from engram.training.td.training import train

    configuration = TdConfiguration(
        game, simulations=simulations, trace_decay=trace_decay, discount=discount, min_step=min_step,
        exploration=exploration, bootstrap=bootstrap, epsilon=epsilon, replay=replay, opening_moves=opening_moves,
        opponent=against, symmetric=symmetric, capacity=capacity or DEFAULT_CAPACITY, rollout=rollout,
    )  # fmt: skip
    plan = EvaluationPlan(
        parse_opponents(evaluate, configuration.made_game), every=every, games=games, opening_moves=evaluation_openings
    )
    wanted = range(seed, seed + seeds)
    with _Live(len(wanted) * episodes, as_json) as live:
        points = train(
            configuration, output, episodes=episodes, seeds=wanted, plan=plan, workers=workers or default_workers(),
            database=database, progress=live.tell,
        )  # fmt: skip
    if curve is not None:
        draw(curve, f"{game}, {simulations} simulations", points)
    if as_json:
        return print_json(
            {"file": str(output), "points": [{**asdict(point), "score": point.score} for point in points]}
        )
    _table(points)
    typer.echo(f"{output}: play with it by td_uct(table='{output}')")


class _Live:
    """Bars and curves on a terminal while training; a line for each measurement elsewhere."""

    def __init__(self, total: int, quiet: bool):
        self._quiet = quiet
        self._seen: dict[int, int] = {}
        self._curves: dict[str, dict[int, list[float]]] = {}
        self._findings: set[str] = set()
        self._live: Any = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self._bar = Bar(*columns)
            self._task = self._bar.add_task("episodes", total=total)
            self._live = Live(self._bar, console=Console(stderr=True), refresh_per_second=4)

    def __enter__(self) -> _Live:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, now: Any) -> None:
        """Hears of an episode or a measurement."""
        self._seen[now.seed] = now.episode
        point = now.point
        if point is not None:
            if point.games:
                self._curves.setdefault(point.opponent, {}).setdefault(point.episode, []).append(point.score)
            if self._live is None and not self._quiet:
                score = f"{100 * point.score:5.1f} %" if point.games else str(point.measured)
                print(
                    f"seed {point.seed}  episode {point.episode:>6}  {point.opponent}  {score}  "
                    f"({point.distinct_games} different games; states {point.played_states:,} | "
                    f"{point.searched_states:,})",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
            for finding in point.findings:
                if finding not in self._findings and not self._quiet:
                    self._findings.add(finding)
                    print(f"seed {point.seed}, episode {point.episode}: {finding}", file=sys.stderr, flush=True)
        if self._live is not None:
            self._show()

    def _show(self) -> None:
        from rich.console import Group
        from rich.table import Table

        from engram.training.td.curves import sparkline

        self._bar.update(self._task, completed=sum(self._seen.values()))
        curves = Table("opponent", "score by episode", "now", box=None)
        for opponent, points in self._curves.items():
            means = [sum(scores) / len(scores) for _, scores in sorted(points.items())]
            curves.add_row(opponent, sparkline(means[-60:]), f"{100 * means[-1]:.1f} %")
        self._live.update(Group(curves, self._bar))


def _table(points: Any) -> None:
    from rich.table import Table

    from engram.cli.console import console
    from engram.training.td.curves import band

    table = Table(
        "opponent", "episodes", "score [95 % over seeds]", "seeds", "different games", "played | searched states"
    )
    for opponent in sorted({point.opponent for point in points if point.games}):
        own = [point for point in points if point.opponent == opponent]
        found = band(own)
        for at, episode in enumerate(found.episodes.tolist()):
            there = [point for point in own if point.episode == episode]
            table.add_row(
                opponent, str(episode),
                f"{100 * found.mean[at]:.1f} % [{100 * found.low[at]:.1f}, {100 * found.high[at]:.1f}]",
                str(len(there)), str(sum(point.distinct_games for point in there)),
                f"{sum(p.played_states for p in there) // len(there):,} | "
                f"{sum(p.searched_states for p in there) // len(there):,}",
            )  # fmt: skip
    if table.row_count:
        console().print(table)
