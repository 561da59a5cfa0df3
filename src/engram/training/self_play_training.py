"""Training by self-play, in a folder with checkpoints to resume from.

Rounds of self-play fill a window of positions, and the number of batches follows the number of positions. At
intervals the trained network replaces the one that plays, after a match if the plan has a gate.
"""

from __future__ import annotations

import copy
import math
import os
import shutil
import time
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from engram import storage
from engram.arena.match import match
from engram.arena.sources import files_named
from engram.arena.statistics import Sprt
from engram.errors import InvalidParameter, check_fields
from engram.fleet import AnyFleet, Link, check_workers, fleet, on_cluster
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.networks.backend import FixedBatches, open_backend
from engram.networks.evaluation_cache import EvaluationCache
from engram.networks.evaluator import NetworkEvaluator
from engram.networks.network import Network, load_network, save_network
from engram.rng import derive_seed
from engram.training.learner import Learner, Losses
from engram.training.replay import Examples, Replay
from engram.training.run import CHECKPOINT_FOLDER, Course, TrainingPlan, TrainingProgress, TrainingRun, held
from engram.training.self_play import Searcher, SearchTask, SelfPlay, SelfPlayOptions

_AT_A_TIME_S = 0.25
_GATE = Sprt(elo0=-20.0, elo1=20.0)
_GAMES = "games"
CACHE = 1 << 17


@dataclass(frozen=True, kw_only=True)
class SelfPlayPlan(TrainingPlan):
    """The settings of a training.

    Attributes:
      game, network: specifications; or a trained network by name or file, to start from.
      reuse: average number of draws of a position, > 0.
      window: newest positions to draw from. first: positions before learning begins.
      refresh: steps between replacements of the playing network.
      gate_pairs: upper bound on the pairs of games in the gate, which refuses weaker networks; 0: no gate.
      gate_simulations: per move of the gate. options: of the games.
      asynchronous: parts of the games wait neither for each other nor for the learner, in other processes; the training
        is then not repeatable.
    """

    game: str
    network: str
    reuse: float = 4.0
    window: int = 200_000
    first: int = 4_000
    refresh: int = 250
    gate_pairs: int = 0
    gate_simulations: int = 64
    options: SelfPlayOptions = field(default_factory=SelfPlayOptions)
    asynchronous: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, window=1, first=1, refresh=1, gate_simulations=1, gate_pairs=0)
        if not 0.0 < self.reuse < math.inf:
            raise InvalidParameter(f"reuse must be above 0, and finite, not {self.reuse}")


@dataclass(frozen=True, kw_only=True)
class SelfPlayProgress(TrainingProgress):
    """The state of such a training.

    Attributes:
      positions: played so far. games: finished. mean_moves: of a game.
      first_wins, draws, second_wins: shares of the games.
      networks: number that have played. refused: number of candidates that the gate refused.
      mean_age, max_age: of the games that ended since the last checkpoint, steps of learning since the oldest network
        that searched them.
    """

    positions: int
    games: int
    mean_moves: float
    first_wins: float
    draws: float
    second_wins: float
    networks: int
    refused: int
    mean_age: float
    max_age: int


def train_self_play(
    plan: SelfPlayPlan, folder: str | Path, *, workers: int = 1, **course: Unpack[Course]
) -> SelfPlayProgress:
    """Trains a network by games against itself, or resumes a stopped training.

    The folder is that of `TrainingRun`, except that `checkpoint-N/` holds the complete state; the highest N counts.

    Args:
      workers: processes that search, at most as many as there are parts of the games (`SelfPlayOptions.at_once`); this
        process learns. With 1, and without a cluster, it searches, too. The training does not depend on their number.
      course: as in `TrainingRun.run`.

    Raises:
      InvalidFile: the folder holds the training of another plan. InvalidParameter: see `SelfPlayPlan`, `network`.
    """
    check_workers(workers)
    options = plan.options
    workers = min(workers, -(-options.num_games // options.batch))
    alone = workers == 1 and not on_cluster() and not plan.asynchronous
    files = files_named([plan.game, options.search])
    with held(folder):
        run = _SelfPlayRun(plan, folder)
        if alone:
            return run.run(**course)
        with fleet(search_parts, plan.game, options, count=workers, files=files) as searchers:
            run.search_by(searchers)
            return run.run(**course)


def search_parts(link: Link, game: str, options: SelfPlayOptions) -> None:
    """The work of a process of self-play: searches parts of the games with the networks that they name."""
    torch.set_num_threads(1)
    rules, network, searcher = game_of(game), None, None
    for task in link.tasks():
        if searcher is None or task.network != network:
            network = task.network
            searcher = Searcher(rules, _evaluator(link.shared(network), rules, options), options)
        link.send((task.owner, task.part, task.step, searcher.search(task)), ends=task)


def _evaluator(network: Network, game: Game, options: SelfPlayOptions) -> NetworkEvaluator:
    backend = open_backend(network, batch=options.batch)
    return NetworkEvaluator(EvaluationCache(FixedBatches(backend, options.batch), CACHE), game)


class _SelfPlayRun(TrainingRun):
    plan: SelfPlayPlan

    def __init__(self, plan: SelfPlayPlan, folder: str | Path):
        super().__init__(plan, folder, plan.game)
        self.learner = Learner(self.starting_network(plan.network), plan.steps, **plan.rates)
        shape = self.learner.net.configuration
        self._playing = self._snapshot()
        self._replay = Replay(self.game, (shape.planes, shape.height, shape.width), plan.window)
        # Games that wait for each other are one round; asynchronous parts are games of their own.
        parts = -(-plan.options.num_games // plan.options.batch) if plan.asynchronous else 1
        options = replace(plan.options, num_games=plan.options.batch) if plan.asynchronous else plan.options
        evaluator = self._evaluator(self._playing)
        is_valued = "value" in self.learner.net.architecture.heads
        if not is_valued and plan.options.preset(self.game, evaluator).leaf_value == "evaluator":
            raise InvalidParameter(
                f"{plan.network} gives no values to search by: add --search uct_prior, or train a residual network"
            )
        self._games = [
            SelfPlay(self.game, evaluator, shape.history, options, derive_seed(plan.seed, part) if part else plan.seed)
            for part in range(parts)
        ]
        self._searchers: AnyFleet | None = None
        self._queue: deque[SearchTask] = deque()
        self._ages: list[int] = []
        self._playing_step = 0
        self._counts: dict[str, Any] = {"networks": 1, "refused": 0}
        self._number = 0
        self._restore()

    def search_by(self, searchers: AnyFleet) -> None:
        """Leaves the searches to the workers of a fleet."""
        self._searchers, self._token = searchers, searchers.share(self._playing)
        if self.plan.asynchronous:
            for owner in range(len(self._games)):
                self._ask(owner)
            self._answers = searchers.stream(self._queue)

    def _ask(self, owner: int) -> None:
        """Leaves the next searches of some games to the fleet."""
        named = {"owner": owner, "network": self._token, "step": self._playing_step}
        self._queue.extend(replace(task, **named) for task in self._games[owner].tasks())

    def _round(self) -> Examples:
        """Plays a move in every game; in asynchronous play in the games of the next part that is ready."""
        owner, step = 0, self._playing_step
        if self.plan.asynchronous:
            owner, _, step, results = next(self._answers)
            examples = self._games[owner].end_round([results], step)
            self._ask(owner)
        elif self._searchers is not None:
            self._ask(owner)
            parts = {part: results for _, part, _, results in self._searchers.stream(self._queue)}
            examples = self._games[owner].end_round([parts[part] for part in sorted(parts)], step)
        else:
            examples = self._games[owner].play_round(step)
        self._ages += [self.learner.done - oldest for oldest in self._games[owner].ended_steps]
        return examples

    def _num_due(self) -> int:
        """The number of batches that the positions so far allow."""
        added = self._replay.added
        return 0 if added < self.plan.first else int(added * self.plan.reuse / self.plan.batch)

    def advance(self, last: int) -> None:
        """Plays a move in every game, and learns the batches that are due, for a quarter of a second.

        If batches of the previous round are still due, as after a stop, a call learns them before it plays on.
        """
        plan, learner, playing = self.plan, self.learner, self._playing
        if learner.done >= self._num_due():
            self._replay.add(self._round())
        end = time.monotonic() + _AT_A_TIME_S
        while learner.done < min(last, self._num_due()):
            batch = self._replay.draw(plan.batch, np.random.default_rng(derive_seed(plan.seed, "batch", learner.done)))
            self.note_losses(learner.step(*batch))
            if learner.done % plan.refresh == 0:
                self._refresh()
            if time.monotonic() >= end:
                break
        if self._playing is not playing:
            self._hand_over()

    def _refresh(self) -> None:
        """Lets the trained network play, unless it loses the match of the gate."""
        plan = self.plan
        candidate = self._snapshot()
        if plan.gate_pairs:
            sides = [plan.options.preset(self.game, self._evaluator(network)) for network in (candidate, self._playing)]
            result = match(
                self.game, *sides, simulations=plan.gate_simulations, games=2 * plan.gate_pairs, sprt=_GATE,
                seed=derive_seed(plan.seed, "gate", self.learner.done), workers=1,
            )  # fmt: skip
            if result.score < 0.5:
                self._counts["refused"] += 1
                return
        self._playing, self._playing_step = candidate, self.learner.done
        self._counts["networks"] += 1

    def _hand_over(self) -> None:
        """Gives all searches, even those still waiting, the network that plays: a fleet keeps few networks."""
        if self._searchers is None:
            self._games[0].use(self._evaluator(self._playing))
            return
        self._token = self._searchers.share(self._playing)
        for place, task in enumerate(self._queue):
            self._queue[place] = replace(task, network=self._token, step=self._playing_step)

    def _snapshot(self) -> Network:
        return copy.deepcopy(self.learner.result_net.network)

    def _evaluator(self, network: Network) -> NetworkEvaluator:
        return _evaluator(network, self.game, self.plan.options)

    def standing(self) -> SelfPlayProgress:
        games = self._games
        finished, lengths = sum(part.finished for part in games), sum(part.lengths for part in games)
        shares = np.sum([part.outcomes for part in games], axis=0) / max(finished, 1)
        second_wins, draws, first_wins = map(float, shares)
        warnings = dict.fromkeys(chain.from_iterable(part.why_not_learning() for part in games))
        return SelfPlayProgress(
            **{**self.course, "warnings": tuple(warnings)}, **self._counts,
            positions=self._replay.added, games=finished, mean_moves=lengths / max(finished, 1),
            first_wins=first_wins, draws=draws, second_wins=second_wins,
            mean_age=float(np.mean(self._ages or [0])), max_age=max(self._ages, default=0),
        )  # fmt: skip

    def _restore(self) -> None:
        """Resumes from the newest complete checkpoint."""
        checkpoint = self.checkpoint
        if checkpoint is None:
            return
        about, arrays = storage.load(checkpoint / _GAMES, _GAMES)
        with storage.reading(checkpoint / _GAMES):
            self._take_up(about, arrays, checkpoint)
        self._number = int(checkpoint.name.removeprefix(CHECKPOINT_FOLDER))

    @property
    def checkpoint(self) -> Path | None:
        """A folder; the newest has the largest number."""
        names = (path.name.removeprefix(CHECKPOINT_FOLDER) for path in self.folder.glob(f"{CHECKPOINT_FOLDER}*"))
        newest = max((int(name) for name in names if name.isdigit()), default=None)
        return None if newest is None else self.folder / f"{CHECKPOINT_FOLDER}{newest}"

    def _take_up(self, about: dict[str, Any], arrays: dict[str, np.ndarray], checkpoint: Path) -> None:
        about["plan"] = {"asynchronous": False, **about["plan"]}  # older checkpoints lack these fields
        options = {"at_once": None, "target_temperature": 1.0, **about["plan"]["options"]}
        if "exploration" in options:
            options["search"] = f"puct(exploration={options.pop('exploration')})"
        about["plan"]["options"] = options
        self.resume(about)
        self.learner.load(checkpoint / "learner")
        self._playing = load_network(checkpoint / "playing")
        self._replay.restore({name[7:]: array for name, array in arrays.items() if name.startswith("replay_")},
                             about["added"])  # fmt: skip
        self._playing_step = int(about.get("playing_step", 0))
        if not 0 <= self._playing_step <= self.learner.done:
            raise ValueError("the network that plays is newer than the training")
        parts = about["games"] if self.plan.asynchronous else [about["games"]]
        for number, (ongoing, part) in enumerate(zip(self._games, parts, strict=True)):
            ongoing.use(self._evaluator(self._playing))
            ongoing.restore(part, {name.removeprefix(f"part{number}_"): array for name, array in arrays.items()})
        self._counts = {name: int(about["counts"][name]) for name in self._counts}
        self.losses = [Losses(**{name: float(loss) for name, loss in losses.items()}) for losses in about["losses"]]

    def about(self, state: SelfPlayProgress) -> dict[str, Any]:
        return {"plan": asdict(self.plan), "steps": self.learner.done, "positions": self._replay.added}

    def write(self, state: SelfPlayProgress) -> None:
        """Writes a new checkpoint, then removes the previous one."""
        parts, arrays = [], dict[str, np.ndarray]()
        for number, ongoing in enumerate(self._games):
            part, more = ongoing.checkpoint()
            parts.append(part)
            arrays |= {f"part{number}_{name}" if self.plan.asynchronous else name: more[name] for name in more}
        about = {
            "plan": asdict(self.plan), "sources": self.sources, "added": self._replay.added, "counts": self._counts,
            "games": parts if self.plan.asynchronous else parts[0], "playing_step": self._playing_step,
            "seconds": state.seconds, "losses": [asdict(losses) for losses in self.losses],
        }  # fmt: skip
        place = self.folder / "checkpoint.part"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        arrays |= {f"replay_{name}": array for name, array in self._replay.arrays().items()}
        storage.save(place / _GAMES, _GAMES, about, arrays)
        self.learner.save(place / "learner", {"plan": asdict(self.plan)})
        save_network(place / "playing", self._playing, about=self.about(state))
        # Before the checkpoint: a training killed after its last one has nothing more to write.
        self.write_network(state)
        self._number += 1
        os.rename(place, self.folder / f"{CHECKPOINT_FOLDER}{self._number}")
        for old in self.folder.glob(f"{CHECKPOINT_FOLDER}*"):
            rest = old.name.removeprefix(CHECKPOINT_FOLDER)
            if rest.isdecimal() and int(rest) < self._number:
                shutil.rmtree(old, ignore_errors=True)
        for name in ("positions", "games", "mean_moves", "first_wins", "draws", "mean_age", "max_age"):
            self.board.add_scalar(f"games/{name}", getattr(state, name), state.done)
        if state.losses is not None:
            self.board.add_scalars("loss", {"policy": state.losses.policy, "value": state.losses.value}, state.done)
        self.log(asdict(state))
        self._ages.clear()
