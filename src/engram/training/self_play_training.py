"""Training by self-play: a folder that grows, and a command that goes on where it was killed.

Rounds of self-play fill a window of positions; as many batches are learnt from it as the positions are worth; now
and then the network that plays is replaced by the one that has learnt, if a match allows it.
"""

from __future__ import annotations

import copy
import json
import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engram import storage as durable
from engram.arena.match import match
from engram.arena.statistics import Sprt
from engram.errors import InvalidFile, InvalidParameter
from engram.games.catalogue import game as game_of
from engram.networks.architectures import Network, load_network, save_network
from engram.networks.by_name import starting_network
from engram.networks.evaluator import NetworkEvaluator
from engram.presets.rollouts import puct
from engram.rng import derive_seed
from engram.training.learner import Learner, Losses
from engram.training.replay import Replay
from engram.training.run import changed_plan
from engram.training.self_play import SelfPlay, SelfPlayOptions

NETWORK = "network.safetensors"
LOG = "log.jsonl"
_CHECKPOINT = "checkpoint-"
_GAMES = "games"
CACHE = 1 << 17


@dataclass(frozen=True)
class SelfPlayPlan:
    """All that a training depends on; the same plan gives the same network on the same machine.

    Attributes:
      game, network: specifications; or a known network by name or file, to go on from.
      steps: batches, ≥ 1. batch: positions in each, ≥ 1.
      reuse: how often a position is learnt from on average, > 0.
      window: newest positions learnt from. first: positions before learning begins.
      refresh: steps after which the network that has learnt plays.
      gate_pairs: most pairs of games in which it must first not show itself weaker; 0: it need not.
      gate_simulations: a move in those.
      learning_rate, weight_decay, value_weight: as in `Learner`.
      seed: of weights, games and batches.
      options: of the games.
    """

    game: str
    network: str
    steps: int
    batch: int = 256
    reuse: float = 4.0
    window: int = 200_000
    first: int = 4_000
    refresh: int = 250
    gate_pairs: int = 0
    gate_simulations: int = 64
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    value_weight: float = 1.0
    seed: int = 0
    options: SelfPlayOptions = field(default_factory=SelfPlayOptions)

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.window, self.first, self.refresh, self.gate_simulations) < 1:
            raise InvalidParameter("steps, batch, window, first, refresh and gate_simulations are 1 or more")
        if self.gate_pairs < 0 or not 0.0 < self.reuse < math.inf:
            raise InvalidParameter("gate_pairs is 0 or more, reuse above 0")
        if not (self.learning_rate > 0.0 and self.weight_decay >= 0.0 and self.value_weight >= 0.0):
            raise InvalidParameter("the learning rate is above 0, weight decay and value weight 0 or more")

    @property
    def gate(self) -> Sprt:
        """The test that a new network must not fail."""
        return Sprt(elo0=-20.0, elo1=20.0)


@dataclass(frozen=True)
class Progress:
    """Where a training stands.

    Attributes:
      done: steps. losses: means of the last 200 batches, None before the first.
      positions: learnt from so far. games: finished. mean_moves: of a game.
      first_wins, draws, second_wins: shares of the games.
      networks: that have played. refused: candidates that the gate held back.
      seconds: in all. warnings: why it may not be learning.
    """

    done: int
    losses: Losses | None
    positions: int
    games: int
    mean_moves: float
    first_wins: float
    draws: float
    second_wins: float
    networks: int
    refused: int
    seconds: float
    warnings: tuple[str, ...]


def train_self_play(
    plan: SelfPlayPlan,
    folder: str | Path,
    *,
    checkpoint_s: float = 120.0,
    stop_at: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Trains a network by games against itself, or goes on with a training that was stopped.

    In the folder: `network.safetensors` (the network that plays), `checkpoint-N/` (everything, the newest whole one
    counts), `log.jsonl` (a line a checkpoint), and logs for TensorBoard.

    Args:
      checkpoint_s: seconds between checkpoints; at most these are lost when killed.
      stop_at: end after so many steps of the plan, for now.
      progress: called some times a second.

    Raises:
      InvalidFile: the folder holds the training of another plan. InvalidParameter: see `SelfPlayPlan`, `network`.
    """
    return _Training(plan, Path(folder)).run(checkpoint_s, stop_at, progress)


def _snapshot(net: Network) -> Network:
    return copy.deepcopy(net).eval()


class _Training:
    def __init__(self, plan: SelfPlayPlan, folder: Path):
        torch.set_num_threads(1)
        torch.manual_seed(plan.seed)
        self.plan, self.folder, self.game = plan, folder, game_of(plan.game)
        self.learner = Learner(
            starting_network(plan.network, self.game), plan.steps, learning_rate=plan.learning_rate,
            weight_decay=plan.weight_decay, value_weight=plan.value_weight,
        )  # fmt: skip
        shape = self.learner.net.configuration
        planes_shape = (shape.planes, shape.height, shape.width)
        self.playing = _snapshot(self.learner.net)
        self.replay = Replay(self.game, planes_shape, plan.window)
        self.games = SelfPlay(
            self.game, self._evaluator(self.playing), shape.history, planes_shape, plan.options, plan.seed
        )
        self.counts = {"networks": 1, "refused": 0}
        self.before, self.number = 0.0, 0
        self.losses: list[Losses] = []
        self._resume()
        self.begun = time.monotonic() - self.before

    def run(self, checkpoint_s: float, stop_at: int | None, progress: Callable[[Progress], None] | None) -> Progress:
        from torch.utils.tensorboard import SummaryWriter

        plan, learner = self.plan, self.learner
        last = plan.steps if stop_at is None else min(plan.steps, stop_at)
        kept, told = time.monotonic(), 0.0
        with SummaryWriter(str(self.folder / "tensorboard"), purge_step=learner.done) as board:
            while learner.done < last:
                self._round(last)
                now = time.monotonic()
                if progress and now - told >= 0.25:
                    told = now
                    progress(self._standing())
                if now - kept >= checkpoint_s or learner.done == last:
                    self._write(board)
                    kept = time.monotonic()
        return self._standing()

    def _round(self, last: int) -> None:
        """A move in every game, and the batches that the positions so far are worth."""
        plan, learner = self.plan, self.learner
        self.replay.add(self.games.play_round())
        if self.replay.added < plan.first:
            return
        due = min(last, int(self.replay.added * plan.reuse / plan.batch))
        while learner.done < due:
            drawn = self.replay.draw(plan.batch, np.random.default_rng(derive_seed(plan.seed, "batch", learner.done)))
            self.losses = [*self.losses[-199:], learner.step(*drawn)]
            if learner.done % plan.refresh == 0:
                self._refresh()

    def _refresh(self) -> None:
        """Lets the network that has learnt play, unless a match says that it is weaker."""
        plan = self.plan
        candidate = _snapshot(self.learner.net)
        if plan.gate_pairs:
            sides = [
                puct(exploration=plan.options.exploration, evaluator=self._evaluator(net), reuse_tree=False)
                for net in (candidate, self.playing)
            ]
            found = match(
                self.game, *sides, simulations=plan.gate_simulations, games=2 * plan.gate_pairs, sprt=plan.gate,
                seed=derive_seed(plan.seed, "gate", self.learner.done), workers=1,
            )  # fmt: skip
            if found.score < 0.5:
                self.counts["refused"] += 1
                return
        self.playing = candidate
        self.counts["networks"] += 1
        self.games.use(self._evaluator(candidate))

    def _evaluator(self, net: Network) -> NetworkEvaluator:
        return NetworkEvaluator(net, self.game, batch=self.plan.options.num_games, cache=CACHE)

    def _standing(self) -> Progress:
        games, recent = self.games, self.losses
        shares = games.outcomes / max(games.finished, 1)
        mean = None
        if recent:
            values = [one.value for one in recent if math.isfinite(one.value)]
            mean = Losses(
                float(np.mean([one.policy for one in recent])),
                float(np.mean(values)) if values else math.nan,
                float(np.mean([one.accuracy for one in recent])),
            )
        return Progress(
            done=self.learner.done,
            losses=mean,
            positions=self.replay.added,
            games=games.finished,
            mean_moves=games.lengths / max(games.finished, 1),
            first_wins=float(shares[2]),
            draws=float(shares[1]),
            second_wins=float(shares[0]),
            networks=self.counts["networks"],
            refused=self.counts["refused"],
            seconds=time.monotonic() - self.begun,
            warnings=tuple(games.why_not_learning()),
        )

    def _resume(self) -> None:
        """Takes up the newest whole checkpoint of the folder."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidFile(f"{self.folder} cannot be made: {error}") from None
        numbers = [
            int(path.name.removeprefix(_CHECKPOINT))
            for path in self.folder.glob(f"{_CHECKPOINT}*")
            if path.name.removeprefix(_CHECKPOINT).isdigit()
        ]
        if not numbers:
            return
        place = self.folder / f"{_CHECKPOINT}{max(numbers)}"
        about, arrays = durable.load(place / _GAMES, _GAMES)
        changed_plan(self.folder, asdict(self.plan), about["plan"])
        self.learner.load(place / "learner")
        self.playing = load_network(place / "playing")
        self.replay.restore({name[7:]: array for name, array in arrays.items() if name.startswith("replay_")},
                            about["added"])  # fmt: skip
        self.games.use(self._evaluator(self.playing))
        self.games.restore(about["games"], arrays)
        self.counts, self.before, self.number = about["counts"], float(about["seconds"]), max(numbers)
        self.losses = [Losses(**one) for one in about["losses"]]

    def _write(self, board: Any) -> None:
        """Writes everything beside the last checkpoint, then lets it take that one's place."""
        state = self._standing()
        games, arrays = self.games.checkpoint()
        about = {
            "plan": asdict(self.plan),
            "added": self.replay.added,
            "games": games,
            "counts": self.counts,
            "seconds": state.seconds,
            "losses": [asdict(one) for one in self.losses],
        }
        part = self.folder / "checkpoint.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        arrays |= {f"replay_{name}": array for name, array in self.replay.arrays().items()}
        durable.save(part / _GAMES, _GAMES, about, arrays)
        self.learner.save(part / "learner", {"plan": asdict(self.plan)})
        trained = {"plan": asdict(self.plan), "steps": self.learner.done, "positions": self.replay.added}
        save_network(part / "playing", self.playing, about=trained)
        self.number += 1
        os.rename(part, self.folder / f"{_CHECKPOINT}{self.number}")
        shutil.rmtree(self.folder / f"{_CHECKPOINT}{self.number - 1}", ignore_errors=True)
        save_network(self.folder / NETWORK, self.learner.net, about=trained)
        for name in ("positions", "games", "mean_moves", "first_wins", "draws"):
            board.add_scalar(f"games/{name}", getattr(state, name), state.done)
        if state.losses is not None:
            board.add_scalars("loss", {"policy": state.losses.policy, "value": state.losses.value}, state.done)
        with open(self.folder / LOG, "a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(state)) + "\n")
            log.flush()
            os.fsync(log.fileno())
