"""`engram train td`: a table of values learned by temporal differences, with a live curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli.console import Live, command, print_json, print_table
from engram.cli.options import DatabaseOption, GameOption, JsonOption, SeedOption
from engram.cli.train.training import train_app

if TYPE_CHECKING:
    from engram.training.td.history import Point
    from engram.training.td.training import TdProgress


@command(train_app)
def td(
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write; each seed's own is next to it.")],
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
    seeds: Annotated[int, typer.Option(min=1, help="Trainings, a seed each, joined at the end.")] = 1,
    seed: SeedOption = 0,
    against: Annotated[
        Optional[str],
        typer.Option(help="Play against this player, who may have another budget; default self-play."),
    ] = None,
    exploration: Annotated[float, typer.Option(min=0.0, help="c of UCB1.")] = 1.0,
    trace_decay: Annotated[float, typer.Option(min=0.0, max=1.0, help="λ.")] = 0.9,
    discount: Annotated[float, typer.Option(min=0.0, max=1.0, help="γ a ply.")] = 0.9,
    min_step: Annotated[float, typer.Option(min=0.0, max=1.0, help="Floor of the step size α.")] = 0.005,
    bootstrap: Annotated[str, typer.Option(help="taken (Sarsa) or best (Q-learning).")] = "taken",
    epsilon: Annotated[float, typer.Option(help="Share of moves drawn at random.")] = 0.0,
    replay: Annotated[float, typer.Option(help="Share of episodes that start in a position of an earlier game.")] = 0.0,
    opening_moves: Annotated[int, typer.Option(min=0, help="Most random moves that begin the other episodes.")] = 0,
    symmetric: Annotated[bool, typer.Option(help="Mirror images share an entry.")] = True,
    capacity: Annotated[Optional[int], typer.Option(min=1, help="Entries, 16 bytes each; default 2,000,000.")] = None,
    rollout: Annotated[str, typer.Option(help="uniform or heavy.")] = "uniform",
    curve: Annotated[Optional[Path], typer.Option(help="Draw curves here: a .png or a .html.")] = None,
    workers: Annotated[Optional[int], typer.Option(min=1, help="Processes, a seed each; default one a core.")] = None,
    database: DatabaseOption = "engram.sqlite",
    as_json: JsonOption = False,
) -> None:
    """Learn a table of values by play, for td_uct(table=...); the same command again continues."""
    from dataclasses import asdict

    from engram.fleet import default_workers
    from engram.memory.values.table import DEFAULT_CAPACITY
    from engram.training.td.curves import draw
    from engram.training.td.settings import EvaluationPlan, TdConfiguration, parse_opponents
    from engram.training.td.training import train

    configuration = TdConfiguration(
        game,
        simulations=simulations,
        trace_decay=trace_decay,
        discount=discount,
        min_step=min_step,
        exploration=exploration,
        bootstrap=bootstrap,
        epsilon=epsilon,
        replay=replay,
        opening_moves=opening_moves,
        opponent=against,
        symmetric=symmetric,
        capacity=capacity or DEFAULT_CAPACITY,
        rollout=rollout,
    )
    opponents = parse_opponents(evaluate, configuration.made_game)
    with Live("episodes", seeds * episodes, quiet=as_json) as live:
        points = train(
            configuration,
            output,
            episodes=episodes,
            seeds=range(seed, seed + seeds),
            plan=EvaluationPlan(opponents, every=every, games=games, opening_moves=evaluation_openings),
            workers=workers or default_workers(),
            database=database,
            progress=_View(live).update,
        )
    if curve is not None:
        draw(curve, f"{game}, {simulations} simulations", points)
    if as_json:
        rows = [{**asdict(point), "score": point.score} for point in points]
        return print_json({"file": str(output), "points": rows})
    _print(points)
    typer.echo(f"{output}: play with it by td_uct(table='{output}')")


class _View:
    """The episodes of all seeds, and the scores so far by opponent and episode."""

    def __init__(self, live: Live):
        self._live = live
        self._episodes: dict[int, int] = {}
        self._scores: dict[str, dict[int, list[float]]] = {}

    def update(self, progress: TdProgress) -> None:
        """Shows an episode or a measurement."""
        self._episodes[progress.seed] = progress.episode
        point = progress.point
        if point is not None and point.games:
            self._scores.setdefault(point.opponent, {}).setdefault(point.episode, []).append(point.score)
        episodes = sum(self._episodes.values())
        self._live.update(episodes, f"{episodes:,} episodes", self._curves())
        if point is None:
            return
        score = f"{100 * point.score:5.1f} %" if point.games else str(point.measured)
        self._live.line(
            f"seed {point.seed}  episode {point.episode:>6}  {point.opponent}  {score}  ({point.distinct_games} "
            f"different games; states {point.played_states:,} | {point.searched_states:,})"
        )
        for finding in point.findings:
            self._live.warn(f"seed {point.seed}: {finding}")

    def _curves(self) -> Any:
        from rich.table import Table

        from engram.training.td.curves import sparkline

        table = Table("opponent", "score by episode", "now", box=None)
        for opponent, scores in self._scores.items():
            means = [sum(values) / len(values) for _, values in sorted(scores.items())]
            table.add_row(opponent, sparkline(means[-60:]), f"{100 * means[-1]:.1f} %")
        return table


def _print(points: list[Point]) -> None:
    from rich.table import Table

    from engram.training.td.curves import band

    table = Table(
        "opponent", "episodes", "score [95 % over seeds]", "seeds", "different games", "played | searched states"
    )
    for opponent in sorted({point.opponent for point in points if point.games}):
        series = [point for point in points if point.opponent == opponent]
        curve = band(series)
        for index, episode in enumerate(curve.episodes.tolist()):
            seeds = [point for point in series if point.episode == episode]
            states, searched = (
                sum(getattr(point, kind) for point in seeds) // len(seeds)
                for kind in ("played_states", "searched_states")
            )
            table.add_row(
                opponent,
                str(episode),
                f"{100 * curve.mean[index]:.1f} % [{100 * curve.low[index]:.1f}, {100 * curve.high[index]:.1f}]",
                str(len(seeds)),
                str(sum(point.distinct_games for point in seeds)),
                f"{states:,} | {searched:,}",
            )
    if table.row_count:
        print_table(table)
