"""`engram train td`: a table of values learned by temporal differences, with a live curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from engram.cli import options
from engram.cli.console import Live, print_json
from engram.cli.options import option, real, whole
from engram.cli.tables import print_table
from engram.cli.train.training import plan_of, train_app
from engram.cli.typed import typed, without_folders

if TYPE_CHECKING:
    from engram.training.history import Point
    from engram.training.td.training import TdProgress


@train_app.command()
def td(
    context: typer.Context,
    output: Annotated[Path, option("The table to write; each seed's own is next to it.", "--output", "-o")],
    game: options.Game = "connect_four",
    simulations: Annotated[int, whole("Simulations of each search.", "--simulations", "-n")] = 1000,
    episodes: Annotated[int, whole("Games of each seed, in all.", low=0)] = 2000,
    evaluate: Annotated[str, option("Opponents, with commas; 'uct(simulations=100)': 100 for both sides.")] = "",
    every: Annotated[int, whole("Episodes between measurements.")] = 100,
    games: Annotated[int, whole("Games in each measurement, an even number.", low=2)] = 100,
    evaluation_openings: Annotated[Optional[int], whole("Random moves that begin its pairs of games.", low=0)] = None,
    seeds: Annotated[int, whole("Trainings, one for each seed, merged at the end.", high=10_000)] = 1,
    seed: options.Seed = 0,
    against: Annotated[Optional[str], option("Play against this player; default self-play.")] = None,
    earlier: Annotated[float, real("Share of episodes against an earlier state of itself.")] = 0.0,
    snapshot_every: Annotated[int, whole("Episodes between those states.")] = 100,
    learn_from: Annotated[str, option("search: all its states; positions: those on the board.")] = "search",
    exploration: Annotated[float, real("c of UCB1.", high=1e6)] = 1.0,
    trace_decay: Annotated[Optional[float], real("λ; default 0.9, with sarsa_uct 0.99.")] = None,
    discount: Annotated[Optional[float], real("γ a ply; default 0.9, with sarsa_uct 1.")] = None,
    min_step: Annotated[Optional[float], real("Floor of the step size α; default 0.005, with sarsa_uct 0.")] = None,
    bootstrap: Annotated[str, option("taken (Sarsa) or best (Q-learning).")] = "taken",
    epsilon: Annotated[float, real("Share of moves drawn at random.")] = 0.0,
    replay: Annotated[float, real("Share of episodes that start in a position of an earlier game.")] = 0.0,
    opening_moves: Annotated[int, whole("Most random moves that begin the other episodes.", low=0)] = 0,
    symmetric: Annotated[bool, option("Mirror images share an entry.", "--symmetric/--no-symmetric")] = True,
    capacity: Annotated[Optional[int], whole("Entries, 16 bytes each; default 1,999,968.", high=2**36)] = None,
    rollout: Annotated[str, option("uniform or heavy.")] = "uniform",
    search: Annotated[str, option("td_uct or sarsa_uct.")] = "td_uct",
    curve: Annotated[Optional[Path], option("Draw curves here: .png, .pdf or .svg, or .html for a report.")] = None,
    workers: options.Workers = None,
    cluster: options.Cluster = None,
    database: options.Database = "engram.sqlite",
    as_json: options.Json = False,
) -> None:
    """Learn a table of values by play, for td_uct(table=...) or sarsa_uct; repeat the command to continue."""
    from dataclasses import asdict

    from engram.fleet import default_workers
    from engram.memory.values.table import DEFAULT_CAPACITY
    from engram.plotting import check_picture
    from engram.storage import check_place
    from engram.training.td.curves import draw
    from engram.training.td.settings import EvaluationPlan, TdConfiguration, parse_opponents
    from engram.training.td.training import train

    configuration = plan_of(TdConfiguration, context, opponent=against, capacity=capacity or DEFAULT_CAPACITY)
    numbers = ("trace_decay", "discount", "min_step")
    context.params.update({name: getattr(configuration, name) for name in numbers})  # for the report
    opponents = parse_opponents(evaluate, configuration.made_game)
    if curve is not None:  # before long work
        if curve.suffix.lower() == ".html":
            check_place(curve)
        else:
            check_picture(curve, "a picture")
    with options.place(cluster), Live("episodes", seeds * episodes, quiet=as_json) as live:
        points = train(
            configuration, output, episodes=episodes, seeds=range(seed, seed + seeds),
            plan=EvaluationPlan(opponents, every=every, games=games, opening_moves=evaluation_openings),
            workers=workers or default_workers(), database=database, progress=_View(live).update,
        )  # fmt: skip
    if as_json:
        rows = [{**asdict(point), "score": point.score} for point in points]
        print_json({"file": str(output), "points": rows})
    else:
        _print(points)
        typer.echo(f"{output}: play with it by {configuration.player_text(output)}")
    if curve is not None:
        draw(curve, f"{without_folders(game)}, {simulations} simulations", points, **typed(context))


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
        self._live.update(episodes, f"{episodes:,} episodes", table=self._curves())
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
    from engram.training.history import by_episode, by_opponent
    from engram.training.td.curves import band

    rows = []
    for opponent, series in by_opponent(points).items():
        curve, groups = band(series), by_episode(series)
        for (episode, seeds), mean, low, high in zip(groups.items(), curve.mean, curve.low, curve.high, strict=True):
            played = sum(point.played_states for point in seeds) // len(seeds)
            searched = sum(point.searched_states for point in seeds) // len(seeds)
            rows.append({
                "opponent": opponent, "episodes": episode, "seeds": len(seeds),
                "score [95 % over seeds]": f"{100 * mean:.1f} % [{100 * low:.1f}, {100 * high:.1f}]",
                "different games": sum(point.distinct_games for point in seeds),
                "played | searched states": f"{played:,} | {searched:,}",
            })  # fmt: skip
    if rows:
        print_table(rows)
