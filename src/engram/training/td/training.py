"""A complete training: several seeds in parallel, with evaluation, resumption, and a merged table at the end."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engram import storage
from engram.arena.match import match
from engram.arena.results import MEMORY
from engram.arena.sources import files_named
from engram.errors import InvalidFile, InvalidParameter, check_whole
from engram.fleet import Link, fleet, on_cluster
from engram.memory.values import table_files
from engram.rng import derive_seed
from engram.storage import whole
from engram.training.history import MEASURED, Point, TrainingResults, of_seeds
from engram.training.td.diagnosis import diagnose
from engram.training.td.episodes import TdLearner, files_of_seed
from engram.training.td.settings import EvaluationPlan, TdConfiguration

_LOG = logging.getLogger(__name__)
SAVE_EVERY_S = 20.0
_SAVING_SHARE = 0.05  # of the time, at most: a large table takes seconds
_GRACE_S = 30.0  # for a worker to end its episode and save


@dataclass(frozen=True)
class TdProgress:
    """The state of one seed.

    Attributes:
      seed, episode: the seed, and its episodes so far. point: a new measurement, or None.
    """

    seed: int
    episode: int
    point: Point | None = None


def seed_file(output: str | Path, seed: int) -> Path:
    """The path of one seed's table, in the folder of the merged one."""
    output = Path(output)
    return output.with_name(f"{output.stem}.seed{seed}{output.suffix}")


def train(
    configuration: TdConfiguration, output: str | Path, *, episodes: int, seeds: Sequence[int] = (0,),
    plan: EvaluationPlan | None = None, workers: int = 1, database: str | Path = MEMORY,
    progress: Callable[[TdProgress], None] | None = None,
) -> list[Point]:  # fmt: skip
    """Trains a table for each seed, measures them, and merges them in one file.

    The same call resumes from the files and the database, with the result of an uninterrupted training; with more
    episodes it continues the training.

    Args:
      configuration: of the training. plan: of the evaluation; default none.
      output: the merged table; each seed's table is in `seed_file`, saved every 20 seconds, or less often if saving
        takes a second or more.
      episodes: of each seed, in all. seeds: at least one. workers: processes, one seed each at a time, ≥ 1.
      database: file or URL for the points; default none. progress: called after every episode and point.

    Returns: all points, by episode, seed and opponent.

    Raises:
      EngramError: a file of another training or of more episodes, a database that cannot be used, a player that fails.
      KeyboardInterrupt: Ctrl-C; the same call resumes from the last save.
    """
    check_whole("the episodes of a training", episodes, 0)
    check_whole("the workers of a training", workers, 1)
    seeds = [check_whole("a seed", seed) for seed in seeds] if isinstance(seeds, Iterable) else []
    if not seeds:
        raise InvalidParameter("seeds of a training are a list of whole numbers, at least one")
    if len({seed % 2**64 for seed in seeds}) < len(seeds):
        raise InvalidParameter("the seeds of a training must differ, also modulo 2⁶⁴")
    output = Path(output)
    tell, begun = progress or (lambda now: None), list[TdProgress]()
    for path, seed in ((seed_file(output, seed), seed) for seed in seeds):
        number = table_files.about(path).get("episodes", 0) if path.exists() else 0
        number = check_whole(f"the episodes of {path}", number, 0, None, InvalidFile)
        if number > episodes:
            raise InvalidParameter(f"{path} has {number} episodes already: ask for as many, or more")
        if number:
            begun.append(TdProgress(seed, number))
    if output.exists():
        about = table_files.about(output, configuration.identity)
        name = re.compile(rf"{re.escape(output.stem)}\.seed(-?\d+){re.escape(output.suffix)}")
        parts = {int(part[1]) for path in output.parent.iterdir() if (part := name.fullmatch(path.name))}
        joined = set(about.get("joined", parts))  # without it the file is of an older version
        if not isinstance(about.get("seeds"), int) or len(parts) < about["seeds"] or not joined <= parts:
            raise InvalidFile(
                f"{output} is a table without the files of its seeds, so it cannot go on: name another file"
            )
        if joined - set(seeds):
            others = ", ".join(map(str, sorted(joined)))
            raise InvalidFile(f"{output} joins the seeds {others}: ask for all of them, or name another file")
    plan = plan or EvaluationPlan()
    if workers > 1 and len(seeds) > 1 and str(database) == MEMORY and plan.opponents and not on_cluster():
        raise InvalidParameter("workers need a database that outlives them: give a file, or one worker")
    storage.make_folder(output.parent)
    refusal = f"another training writes {output}: wait for it, or name another output"
    with storage.hold(output.with_name(f".{output.name}.lock"), refusal), TrainingResults(database) as results:
        for now in begun:
            tell(now)
        if on_cluster():
            _train_afar(configuration, output, episodes, seeds, plan, results, tell, workers)
        elif workers == 1 or len(seeds) == 1:
            for seed in seeds:
                train_seed(configuration, output, episodes, seed, plan, results, tell)
        else:
            setting = configuration, output, episodes, plan, database
            with fleet(_train_seeds, *setting, count=min(workers, len(seeds)), grace_s=_GRACE_S) as learners:
                for now in learners.run(seeds):
                    tell(now)
        tables = [table_files.load(seed_file(output, seed))[0] for seed in seeds]
        merged = table_files.merge(tables, configuration.capacity)
        table_files.save(output, merged, {
            **configuration.metadata, "seeds": len(seeds), "joined": seeds, "episodes": episodes,
        })  # fmt: skip
        opponents = {opponent.name for opponent in plan.opponents} | {MEASURED}
        return [point for point in of_seeds(results.points(plan.key(configuration)), seeds)
                if point.episode <= episodes and point.opponent in opponents]  # fmt: skip


def train_seed(
    configuration: TdConfiguration, output: str | Path, episodes: int, seed: int, plan: EvaluationPlan,
    results: TrainingResults, tell: Callable[[TdProgress], None], stopped: Callable[[], bool] = lambda: False,
    saved: Callable[[Path], None] = lambda path: None,
) -> None:  # fmt: skip
    """Trains one seed from its last save; calls `stopped` before every episode, and `saved` after every save."""
    path = seed_file(output, seed)
    learner = TdLearner(configuration, seed)
    if path.exists():
        learner.load(path)
    learner.warm_up()
    _LOG.info("%s: training from episode %d to %d", path, learner.num_episodes, episodes)
    saved_at, due = learner.num_episodes if path.exists() else -1, time.monotonic() + SAVE_EVERY_S
    while True:
        number = learner.num_episodes
        if number <= episodes and (number % plan.every == 0 or number == episodes):
            # Saved first, so that a resumed training measures the same table.
            if saved_at != number:
                saved_at, due = number, _save(learner, path, saved)
            for point in _evaluate(learner, plan, results):
                results.add_point(plan.key(configuration), configuration.identity, point)
                tell(TdProgress(seed, number, point))
        if number >= episodes or stopped():
            break
        if time.monotonic() > due:
            saved_at, due = number, _save(learner, path, saved)
        learner.episode()
        tell(TdProgress(seed, learner.num_episodes))
    if saved_at != learner.num_episodes:
        _save(learner, path, saved)
    _LOG.info("%s: training ends at episode %d", path, learner.num_episodes)


def _save(learner: TdLearner, path: Path, saved: Callable[[Path], None]) -> float:
    """Saves, and returns the time of the next save."""
    start = time.monotonic()
    learner.save(path)
    saved(path)
    return time.monotonic() + max(SAVE_EVERY_S, (time.monotonic() - start) / _SAVING_SHARE)


def _evaluate(learner: TdLearner, plan: EvaluationPlan, results: TrainingResults) -> Iterator[Point]:
    """Measures a table by the plan, except for points that the database holds."""
    configuration, history = learner.configuration, learner.history
    stored = {point.opponent for point in of_seeds(results.points(plan.key(configuration)), [learner.seed])
              if point.episode == learner.num_episodes}  # fmt: skip
    states: dict[str, Any] = {
        "seed": learner.seed, "episode": learner.num_episodes,
        "findings": tuple(diagnose(configuration, learner.game, history)),
        **{name: int(history[-1][name]) if len(history) else 0 for name in ("played_states", "searched_states")},
    }  # fmt: skip
    for opponent in plan.opponents:
        if opponent.name in stored:
            continue
        played = match(
            learner.game, configuration.preset(learner.table, learn=False), opponent.text, games=plan.games,
            simulations=opponent.simulations or configuration.simulations, seed=derive_seed(learner.seed, "evaluation"),
            opening_moves=plan.opening_moves if opponent.opening_moves is None else opponent.opening_moves,
            database=MEMORY,
        )  # fmt: skip
        counts = {name: getattr(played, name) for name in ("games", "wins", "draws", "losses", "distinct_games")}
        yield Point(opponent=opponent.name, **counts, **states)
    if plan.measure is not None and MEASURED not in stored:
        measured = plan.measure(configuration, learner.table)
        try:
            numbers = {str(name): float(number) for name, number in measured.items()}
        except (AttributeError, TypeError, ValueError):
            raise InvalidParameter(f"measure of an EvaluationPlan returns numbers by name, not {measured!r}") from None
        yield Point(measured=numbers, **states)


def _train_seeds(
    link: Link, configuration: TdConfiguration, output: str | Path, episodes: int, plan: EvaluationPlan,
    database: str | Path,
) -> None:  # fmt: skip
    """The work of a process: one seed after another."""
    with TrainingResults(database) as results:
        for seed in link.tasks():
            train_seed(configuration, output, episodes, seed, plan, results, link.send, lambda: link.closing)
            link.send(TdProgress(seed, episodes), ends=seed)


def _train_afar(
    configuration: TdConfiguration, output: Path, episodes: int, seeds: Sequence[int], plan: EvaluationPlan,
    results: TrainingResults, tell: Callable[[TdProgress], None], workers: int,
) -> None:  # fmt: skip
    """Trains seeds on a cluster: files and points come back as they are saved, and this process alone writes them.

    A seed's task has its saved files and its points. What comes back updates it, so that a worker that replaces a dead
    one begins at the last save.
    """
    recorded = results.points(plan.key(configuration))
    points = {seed: of_seeds(recorded, [seed]) for seed in seeds}
    saved = {seed: {path.name: path.read_bytes() for path in files_of_seed(seed_file(output, seed))} for seed in seeds}
    tasks = [(seed, saved[seed], points[seed]) for seed in seeds]
    texts = [configuration.game, configuration.opponent, *(opponent.text for opponent in plan.opponents)]
    files = files_named([text for text in texts if text is not None])
    setting = configuration, output.name, episodes, plan
    with fleet(_train_sent, *setting, count=min(workers, len(seeds)), files=files) as learners:
        for now in learners.run(tasks):
            if isinstance(now, TdProgress):
                if now.point is not None:
                    results.add_point(plan.key(configuration), configuration.identity, now.point)
                    points[now.seed].append(now.point)
                tell(now)
                continue
            seed, changed = now
            saved[seed].update(changed)
            for name, contents in changed.items():
                with whole(output.with_name(name)) as part:
                    part.write_bytes(contents)


def _train_sent(link: Link, configuration: TdConfiguration, name: str, episodes: int, plan: EvaluationPlan) -> None:
    """The work of a machine of a cluster: one seed after another, as the head sends them."""
    for task in link.tasks():
        seed, saved, points = task
        with TemporaryDirectory(prefix="engram-") as folder, TrainingResults(MEMORY) as results:
            output, sent = Path(folder, name), set(saved)
            for file, contents in saved.items():
                output.with_name(file).write_bytes(contents)
            for point in points:
                results.add_point(plan.key(configuration), configuration.identity, point)

            def send(path: Path, seed: int = seed, sent: set[str] = sent) -> None:
                """Sends a seed's new snapshots and then its table, because the table names them."""
                files = [file for file in files_of_seed(path) if file == path or file.name not in sent]
                sent.update(file.name for file in files)
                link.send((seed, {file.name: file.read_bytes() for file in files}))

            train_seed(configuration, output, episodes, seed, plan, results, link.send, lambda: link.closing, send)
            link.send(TdProgress(seed, episodes), ends=task)
