"""Training features for a memory: a folder that grows, and a command that goes on where it was killed."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engram.errors import InvalidFile, InvalidParameter
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.networks.architectures import FEATURES, NETWORKS, Network, fit, load_network, network, save_network
from engram.networks.by_name import find
from engram.networks.encoding import symmetry_tables
from engram.specification import Specification, parse
from engram.training.feature_learner import FeatureLearner, FeatureLosses, FeatureValidation
from engram.training.position_groups import MEMBERS, Families, Sampler, Sampling
from engram.training.run import CHECKPOINT, LOG, NETWORK, changed_plan, check_rates, without_nan

POSITIONS = "positions.safetensors"


@dataclass(frozen=True)
class FeaturePlan:
    """All that a training depends on; the same plan gives the same network on the same machine.

    Args:
      sampling: how positions are drawn. positions: of them, at least, ≥ 1.
      network: `features(…)`, a new one, all of which is learnt but its policy; or a residual network by name or file,
        whose trunk, policy and value stay as they are under a new features head.
      steps: batches, ≥ 1. batch: families in each, ≥ 1.
      learning_rate, weight_decay, value_weight: as in `Learner`.
      validation: share of games held out, in (0, 1).
      seed: of weights and batches.
    """

    sampling: Sampling
    positions: int = 60_000
    network: str = "features"
    steps: int = 6_000
    batch: int = 16
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    value_weight: float = 1.0
    validation: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.positions) < 1:
            raise InvalidParameter("steps, batch and positions are 1 or more")
        check_rates(self.validation, self.learning_rate, self.weight_decay, self.value_weight)


@dataclass(frozen=True)
class FeatureProgress:
    """Where a training stands.

    Attributes:
      games, positions: drawn. exact: whether their values are.
      done: steps. losses: means of the last 200 batches; validation: the newest; None before the first.
      seconds: in all. warnings: why it may not be learning.
    """

    games: int
    positions: int
    exact: bool
    done: int
    losses: FeatureLosses | None
    validation: FeatureValidation | None
    seconds: float
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data; numbers that there are none of are null."""
        found: dict[str, Any] = without_nan(asdict(self))
        return found


def train_features(
    plan: FeaturePlan,
    folder: str | Path,
    *,
    checkpoint_s: float = 60.0,
    stop_at: int | None = None,
    progress: Callable[[FeatureProgress], None] | None = None,
) -> FeatureProgress:
    """Draws positions, values them, and trains features on them; or goes on with a training that was stopped.

    In the folder: `positions.safetensors`, `network.safetensors` (the network as it stands), `checkpoint.safetensors`
    (that and the optimiser), `log.jsonl` (a line a validation).

    Args:
      checkpoint_s: seconds between checkpoints; at most these are lost when killed.
      stop_at: end after so many steps of the plan, for now.
      progress: called some times a second.

    Raises:
      InvalidFile: the folder holds the training of another plan. InvalidParameter: see `FeaturePlan`, `Sampler`.
    """
    return _Training(plan, Path(folder), checkpoint_s, progress).run(stop_at)


class _Training:
    def __init__(
        self, plan: FeaturePlan, folder: Path, checkpoint_s: float, progress: Callable[[FeatureProgress], None] | None
    ):
        torch.set_num_threads(1)
        torch.manual_seed(plan.seed)
        self.plan, self.folder, self.checkpoint_s, self.progress = plan, folder, checkpoint_s, progress
        self.game = game_of(plan.sampling.game)
        net, head_alone = _network(plan.network, self.game)
        self.learner = FeatureLearner(
            net, plan.steps, learning_rate=plan.learning_rate, weight_decay=plan.weight_decay,
            value_weight=plan.value_weight, head_alone=head_alone,
        )  # fmt: skip
        self.sampler = Sampler(plan.sampling)
        self.losses: list[FeatureLosses] = []
        self.validation: FeatureValidation | None = None
        self.warnings: tuple[str, ...] = ()
        self.told = 0.0
        before = self._resume()
        self.begun = time.monotonic() - before

    def run(self, stop_at: int | None) -> FeatureProgress:
        families = self._draw_all()
        learnt, held_out = families.split(self.plan.validation)
        if not len(learnt) or not len(held_out):
            raise InvalidParameter(f"{len(families)} families are too few to hold some out: ask for more positions")
        self.warnings = _why_families_cannot_teach(families)
        last = self.plan.steps if stop_at is None else min(self.plan.steps, stop_at)
        kept = time.monotonic()
        while self.learner.done < last:
            self.losses = [*self.losses[-199:], self._step(families, learnt)]
            if time.monotonic() - kept >= self.checkpoint_s or self.learner.done == last:
                self.validation = self.learner.validate(families, held_out)
                self._write()
                kept = time.monotonic()
            self._tell()
        return self._standing()

    def _draw_all(self) -> Families:
        kept, path = time.monotonic(), self.folder / POSITIONS
        drawn = self.sampler.positions
        while self.sampler.positions < self.plan.positions:
            self.sampler.play()
            if self.sampler.games >= 1000 and not self.sampler.positions:
                raise InvalidParameter(f"1000 games of {self.game.name} gave no family of {MEMBERS} positions")
            if time.monotonic() - kept >= self.checkpoint_s:
                self.sampler.save(path)
                kept = time.monotonic()
            self._tell()
        if self.sampler.positions > drawn:
            self.sampler.save(path)
        return self.sampler.families()

    def _step(self, families: Families, learnt: np.ndarray) -> FeatureLosses:
        plan, shape = self.plan, self.learner.net.configuration
        rng = np.random.default_rng((plan.seed, self.learner.done))
        rows = rng.choice(learnt, plan.batch)
        turns = rng.integers(0, len(symmetry_tables(self.game)[0]), plan.batch * MEMBERS)
        planes, side = families.planes(rows, (shape.planes, shape.height, shape.width), shape.history, turns)
        return self.learner.learn(planes, families.value[rows], side)

    def _standing(self) -> FeatureProgress:
        means = None
        if self.losses:
            values = [one.value for one in self.losses if math.isfinite(one.value)]
            cosine = float(np.mean([one.cosine for one in self.losses]))
            means = FeatureLosses(cosine, float(np.mean(values)) if values else math.nan)
        return FeatureProgress(
            games=self.sampler.games, positions=self.sampler.positions, exact=self.sampler.exact,
            done=self.learner.done, losses=means, validation=self.validation,
            seconds=time.monotonic() - self.begun, warnings=self.warnings,
        )  # fmt: skip

    def _tell(self) -> None:
        if self.progress and time.monotonic() - self.told >= 0.25:
            self.told = time.monotonic()
            self.progress(self._standing())

    def _resume(self) -> float:
        """Takes up what the folder holds; the seconds that it has taken so far."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidFile(f"{self.folder} cannot be made: {error}") from None
        if (self.folder / POSITIONS).exists():
            self.sampler.load(self.folder / POSITIONS)
        path = self.folder / CHECKPOINT
        if not path.exists():
            return 0.0
        about = self.learner.load(path)
        changed_plan(self.folder, asdict(self.plan), about["plan"])
        if about["validation"] is not None:
            told: dict[str, Any] = {key: math.nan if n is None else n for key, n in about["validation"].items()}
            self.validation = FeatureValidation(**told)
        return float(about["seconds"])

    def _write(self) -> None:
        state = self._standing()
        if state.validation is not None and state.validation.correlation < 0.1 and state.done >= 1000:
            said = f"cosines say next to nothing of values (correlation {state.validation.correlation:.2f})"
            self.warnings = tuple(dict.fromkeys([*self.warnings, said]))
        told = state.to_json()
        about = {"plan": asdict(self.plan), "seconds": state.seconds, "validation": told["validation"]}
        with open(self.folder / LOG, "a", encoding="utf-8") as log:
            log.write(json.dumps(told) + "\n")
            log.flush()
            os.fsync(log.fileno())
        save_network(self.folder / NETWORK, self.learner.net, about={"step": state.done, **about})
        self.learner.save(self.folder / CHECKPOINT, about)


def _network(text: str, game: Game) -> tuple[Network, bool]:
    """A network with a features head, and whether that head is all that is to be learnt."""
    if text.split("(", maxsplit=1)[0].strip() in NETWORKS:
        if parse(text).name != FEATURES:
            raise InvalidParameter(f"a new network for features is features(…), not {text}; or name a trained network")
        return network(text, game), False
    known = load_network(find(text))
    fit(known.configuration, game, text)
    made = parse(known.configuration.network)
    if made.name not in ("residual", FEATURES):
        raise InvalidParameter(f"features are built on a residual network, and {text} is a {made.name}")
    options = {key: value for key, value in made.options.items() if key in ("blocks", "filters", "hidden", "history")}
    net = network(Specification(FEATURES, (), options).text, game)
    theirs = {name: tensor for name, tensor in known.state_dict().items() if not name.startswith(f"{FEATURES}.")}
    net.load_state_dict(theirs, strict=False)
    return net, True


def _why_families_cannot_teach(families: Families) -> tuple[str, ...]:
    if families.value.std(axis=1).mean() < 0.05:
        return ("nearly all positions of a family are worth the same: there is nothing to tell apart",)
    return ()
