"""Training by self-play, in a folder with checkpoints to resume from.

Rounds of self-play fill a window of positions, and the number of batches follows the number of positions. At
intervals the trained network replaces the one that plays, after a match if the plan has a gate.
"""

from __future__ import annotations

import copy
import math
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from engram import storage
from engram.arena.match import match
from engram.arena.statistics import Sprt
from engram.errors import InvalidParameter
from engram.networks.backend import FixedBatches
from engram.networks.evaluation_cache import EvaluationCache
from engram.networks.evaluator import NetworkEvaluator
from engram.networks.network import load_network, save_network
from engram.networks.torch_backend import NetworkModule, TorchBackend
from engram.presets.rollouts import puct
from engram.rng import derive_seed
from engram.training.learner import Learner, Losses
from engram.training.replay import Replay
from engram.training.run import NETWORK, Course, TrainingPlan, TrainingProgress, TrainingRun, starting_network
from engram.training.self_play import SelfPlay, SelfPlayOptions

_CHECKPOINT = "checkpoint-"
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
      gate_pairs: upper bound of the pairs of games in the gate, which refuses weaker networks; 0: no gate.
      gate_simulations: per move of the gate. options: of the games.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("window", "first", "refresh", "gate_simulations")
        if self.gate_pairs < 0 or not 0.0 < self.reuse < math.inf:
            raise InvalidParameter("gate_pairs is 0 or more, reuse above 0")

    @property
    def gate(self) -> Sprt:
        """The test of the gate."""
        return Sprt(elo0=-20.0, elo1=20.0)


@dataclass(frozen=True, kw_only=True)
class SelfPlayProgress(TrainingProgress):
    """The state of such a training.

    Attributes:
      positions: played so far. games: finished. mean_moves: of a game.
      first_wins, draws, second_wins: shares of the games.
      networks: number that have played. refused: number of candidates that the gate refused.
    """

    positions: int
    games: int
    mean_moves: float
    first_wins: float
    draws: float
    second_wins: float
    networks: int
    refused: int


def train_self_play(plan: SelfPlayPlan, folder: str | Path, **course: Unpack[Course]) -> SelfPlayProgress:
    """Trains a network by games against itself, or resumes a stopped training.

    The folder is that of `TrainingRun`, but for `checkpoint-N/`: the complete state; the highest N counts.

    Args:
      course: as in `TrainingRun.run`.

    Raises:
      InvalidFile: the folder holds the training of another plan. InvalidParameter: see `SelfPlayPlan`, `network`.
    """
    state: SelfPlayProgress = _SelfPlayRun(plan, folder).run(**course)
    return state


class _SelfPlayRun(TrainingRun):
    plan: SelfPlayPlan

    def __init__(self, plan: SelfPlayPlan, folder: str | Path):
        super().__init__(plan, folder, plan.game)
        self.learner = Learner(starting_network(plan.network, self.game), plan.steps, **plan.rates)
        shape = self.learner.net.configuration
        self._playing = self._snapshot()
        self._replay = Replay(self.game, (shape.planes, shape.height, shape.width), plan.window)
        self._games = SelfPlay(self.game, self._evaluator(self._playing), shape.history, plan.options, plan.seed)
        self._counts: dict[str, Any] = {"networks": 1, "refused": 0}
        self._number = 0
        self._restore()

    def advance(self, last: int) -> None:
        """Plays a move in every game, and learns the batches that are due."""
        plan, learner = self.plan, self.learner
        self._replay.add(self._games.play_round())
        if self._replay.added < plan.first:
            return
        due = min(last, int(self._replay.added * plan.reuse / plan.batch))
        while learner.done < due:
            batch = self._replay.draw(plan.batch, np.random.default_rng(derive_seed(plan.seed, "batch", learner.done)))
            self.learnt(learner.step(*batch))
            if learner.done % plan.refresh == 0:
                self._refresh()

    def _refresh(self) -> None:
        """Lets the trained network play, unless it loses the match of the gate."""
        plan = self.plan
        candidate = self._snapshot()
        if plan.gate_pairs:
            sides = [
                puct(exploration=plan.options.exploration, evaluator=self._evaluator(net), reuse_tree=False)
                for net in (candidate, self._playing)
            ]
            result = match(
                self.game, *sides, simulations=plan.gate_simulations, games=2 * plan.gate_pairs, sprt=plan.gate,
                seed=derive_seed(plan.seed, "gate", self.learner.done), workers=1,
            )  # fmt: skip
            if result.score < 0.5:
                self._counts["refused"] += 1
                return
        self._playing = candidate
        self._counts["networks"] += 1
        self._games.use(self._evaluator(candidate))

    def _snapshot(self) -> NetworkModule:
        return copy.deepcopy(self.learner.net).eval()

    def _evaluator(self, net: NetworkModule) -> NetworkEvaluator:
        batches = FixedBatches(TorchBackend(net), self.plan.options.num_games)
        return NetworkEvaluator(EvaluationCache(batches, CACHE), self.game)

    def standing(self) -> SelfPlayProgress:
        """See `TrainingRun`."""
        games = self._games
        shares = games.outcomes / max(games.finished, 1)
        second_wins, draws, first_wins = map(float, shares)
        return SelfPlayProgress(
            **{**self.course, "warnings": tuple(games.why_not_learning())}, **self._counts,
            positions=self._replay.added, games=games.finished, mean_moves=games.lengths / max(games.finished, 1),
            first_wins=first_wins, draws=draws, second_wins=second_wins,
        )  # fmt: skip

    def _restore(self) -> None:
        """Resumes from the newest complete checkpoint."""
        names = (path.name.removeprefix(_CHECKPOINT) for path in self.folder.glob(f"{_CHECKPOINT}*"))
        numbers = [int(name) for name in names if name.isdigit()]
        if not numbers:
            return
        checkpoint = self.folder / f"{_CHECKPOINT}{max(numbers)}"
        about, arrays = storage.load(checkpoint / _GAMES, _GAMES)
        self.resume(about)
        self.learner.load(checkpoint / "learner")
        self._playing = NetworkModule.of(load_network(checkpoint / "playing"))
        self._replay.restore({name[7:]: array for name, array in arrays.items() if name.startswith("replay_")},
                             about["added"])  # fmt: skip
        self._games.use(self._evaluator(self._playing))
        self._games.restore(about["games"], arrays)
        self._counts, self._number = about["counts"], max(numbers)
        self.losses = [Losses(**losses) for losses in about["losses"]]

    def write(self, state: SelfPlayProgress) -> None:
        """Writes a new checkpoint, then removes the previous one."""
        games, arrays = self._games.checkpoint()
        about = {
            "plan": asdict(self.plan), "added": self._replay.added, "games": games, "counts": self._counts,
            "seconds": state.seconds, "losses": [asdict(losses) for losses in self.losses],
        }  # fmt: skip
        part = self.folder / "checkpoint.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        arrays |= {f"replay_{name}": array for name, array in self._replay.arrays().items()}
        storage.save(part / _GAMES, _GAMES, about, arrays)
        self.learner.save(part / "learner", {"plan": asdict(self.plan)})
        trained = {"plan": asdict(self.plan), "steps": self.learner.done, "positions": self._replay.added}
        save_network(part / "playing", self._playing.network, about=trained)
        self._number += 1
        os.rename(part, self.folder / f"{_CHECKPOINT}{self._number}")
        shutil.rmtree(self.folder / f"{_CHECKPOINT}{self._number - 1}", ignore_errors=True)
        save_network(self.folder / NETWORK, self.learner.net.network, about=trained)
        for name in ("positions", "games", "mean_moves", "first_wins", "draws"):
            self.board.add_scalar(f"games/{name}", getattr(state, name), state.done)
        if state.losses is not None:
            self.board.add_scalars("loss", {"policy": state.losses.policy, "value": state.losses.value}, state.done)
        self.log(asdict(state))
