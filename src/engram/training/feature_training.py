"""Training features for a memory, in a folder with checkpoints to resume from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from engram.errors import InvalidParameter, check_fields
from engram.networks.architectures import FEATURES, architecture
from engram.networks.encoding import Encoder
from engram.networks.torch_backend import NetworkModule
from engram.specification import Specification, parse
from engram.training.feature_learner import FeatureLearner, FeatureLosses, FeatureValidation
from engram.training.position_groups import MEMBERS, GroupSampler, PositionGroups, Sampling
from engram.training.run import EARLY, Course, HeldOutPlan, TrainingProgress, TrainingRun, held, names_architecture

POSITIONS = "positions.safetensors"


@dataclass(frozen=True)
class FeaturePlan(HeldOutPlan):
    """The settings of a training.

    Args:
      sampling: of positions. positions: lower bound on their number, ≥ 1.
      network: `features(…)`, a new one, trained except for its policy; or a residual network by name or file,
        whose trunk, policy and value stay fixed under a new features head.
      batch: groups in each. validation: share of games held out.
    """

    sampling: Sampling
    positions: int = 60_000
    network: str = "features"
    steps: int = field(default=6_000, kw_only=True)
    batch: int = field(default=16, kw_only=True)
    validation: float = field(default=0.1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, positions=1)


@dataclass(frozen=True, kw_only=True)
class FeatureProgress(TrainingProgress):
    """The state of such a training.

    Attributes:
      games, positions: numbers drawn. exact: whether the values are exact. validation: the latest; None before the
        first.
    """

    games: int
    positions: int
    exact: bool
    validation: FeatureValidation | None


def train_features(plan: FeaturePlan, folder: str | Path, **course: Unpack[Course]) -> FeatureProgress:
    """Draws positions, values them, and trains features on them, or resumes a stopped training.

    The folder is that of `TrainingRun`, with `positions.safetensors`.

    Args:
      course: as in `TrainingRun.run`.

    Raises:
      InvalidFile: the folder holds the training of another plan. InvalidParameter: see `FeaturePlan`, `GroupSampler`.
    """
    with held(folder):
        return _FeatureRun(plan, folder).run(**course)


class _FeatureRun(TrainingRun):
    plan: FeaturePlan
    learner: FeatureLearner

    def __init__(self, plan: FeaturePlan, folder: str | Path):
        super().__init__(plan, folder, plan.sampling.game)
        net, head_alone = self._network(plan.network)
        self.learner = FeatureLearner(net, plan.steps, head_alone=head_alone, **plan.rates)
        self._sampler = GroupSampler(plan.sampling)
        self._encode = Encoder(self.game, net.configuration.history)
        if (self.folder / POSITIONS).exists():
            self._sampler.load(self.folder / POSITIONS)
        self.restore_figures(self.restore(), FeatureLosses, FeatureValidation)

    def _network(self, text: str) -> tuple[NetworkModule, bool]:
        """A network with a features head, and whether to train only that head."""
        if names_architecture(text):
            if parse(text).name != FEATURES:
                raise InvalidParameter(
                    f"a new network for features is features(…), not {text}; or name a trained network"
                )
            return NetworkModule(architecture(text, self.game)), False
        base = self.trained_network(text)
        kind = parse(base.configuration.network)
        if kind.name not in ("residual", FEATURES):
            raise InvalidParameter(f"features are built on a residual network, and {text} is a {kind.name}")
        options = {
            key: value for key, value in kind.options.items() if key in ("blocks", "filters", "hidden", "history")
        }
        net = NetworkModule(architecture(Specification(FEATURES, (), options).text, self.game))
        weights = {name: array for name, array in base.weights.items() if not name.startswith(f"{FEATURES}.")}
        net.load_state_dict({name: torch.tensor(array) for name, array in weights.items()}, strict=False)
        return net, True

    def run(
        self, checkpoint_s: float = 60.0, stop_at: int | None = None, progress: Callable[[Any], None] | None = None,
        database: str | None = None,
    ) -> FeatureProgress:  # fmt: skip
        """Draws missing positions, then trains."""
        self._groups = groups = self._draw_all(checkpoint_s, progress)
        self._learnt, self._held_out = groups.split(self.plan.validation)
        if not len(self._learnt) or not len(self._held_out):
            raise InvalidParameter(f"{len(groups)} groups are too few to hold some out: ask for more positions")
        if groups.value.std(axis=1).mean() < 0.05:
            self.warnings = ("nearly all positions of a group have the same value: there is nothing to learn",)
        return super().run(checkpoint_s, stop_at, progress, database)

    def _draw_all(self, checkpoint_s: float, progress: Callable[[FeatureProgress], None] | None) -> PositionGroups:
        sampler, path, written = self._sampler, self.folder / POSITIONS, time.monotonic()
        drawn = sampler.positions
        while sampler.positions < self.plan.positions:
            sampler.play()
            if sampler.games >= 1000 and not sampler.positions:
                raise InvalidParameter(f"1000 games of {self.game.name} gave no group of {MEMBERS} positions")
            if time.monotonic() - written >= checkpoint_s:
                self.check_folder()
                sampler.save(path)
                written = time.monotonic()
            self.tell(progress)
        if sampler.positions > drawn:
            self.check_folder()
            sampler.save(path)
        return sampler.groups()

    def advance(self, last: int) -> None:
        """Learns from one batch of groups, each position turned at random."""
        rng = np.random.default_rng((self.plan.seed % 2**64, self.learner.done))
        rows = rng.choice(self._learnt, self.plan.batch)
        turns = rng.integers(0, len(self.game.symmetries), self.plan.batch * MEMBERS)
        planes, side = self._groups.planes(rows, self._encode, turns)
        self.note_losses(self.learner.learn(planes, self._groups.value[rows], side))

    def validate(self) -> None:
        """Measures the network on the games held out."""
        self.validation = self.learner.validate(self._groups, self._held_out)
        correlation = self.validation.correlation
        if correlation < 0.1 and self.learner.done >= EARLY:
            warning = f"cosines hardly predict values (correlation {correlation:.2f})"
            self.warnings = tuple(dict.fromkeys([*self.warnings, warning]))

    def standing(self) -> FeatureProgress:
        sampler = self._sampler
        return FeatureProgress(
            **self.course, games=sampler.games, positions=sampler.positions, exact=sampler.exact,
            validation=self.validation,
        )  # fmt: skip
