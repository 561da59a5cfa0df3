"""A Gaussian process over the unit cube: the posterior of all points from noisy matches.

The kernel is Matérn-5/2 with a length scale for each dimension. The noise of every observation (binomial, by pairs) is
an input and is not fitted. If knots are tuned, a second Matérn-5/2 over their function is added: a search depends
on f(u) = ∫₀ᵘ e^h and not on h, so a knot much lower than the others cannot matter. The fit weighs the two
kernels. BoTorch does the work on one thread.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.acquisition.analytic import PosteriorMean
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.monte_carlo import qUpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior, LogNormalPrior
from torch.quasirandom import SobolEngine

_LEAST_VARIANCE = 1e-6  # as a share of the variance of all scores
_FINE = 8  # parts of the grid between two knots
_STARTS = 4  # starting points of a maximisation
_BOUND = 4.0  # β of UCB: the mean and two deviations


@dataclass(frozen=True)
class Knots:
    """The dimensions that are knots of h, and their range.

    Attributes:
      count: number of knots, the first dimensions. low, high: values of h at 0 and 1.
    """

    count: int
    low: float
    high: float


class Surrogate:
    """The posterior over the unit cube, given scores with known variances.

    Args:
      points: (n, d), in the unit cube; they may repeat. scores, variances: (n,), such as win rates; variances ≥ 0.
      knots: the dimensions that form a function, or None. seed: of all random numbers.

    Raises:
      ValueError: the scores' variance is no finite number.

    Cost: O(n³), some tenths of a second for a hundred points.
    """

    def __init__(
        self, points: np.ndarray, scores: Sequence[float], variances: Sequence[float], *, knots: Knots | None = None,
        seed: int = 0,
    ):  # fmt: skip
        self._points = torch.as_tensor(np.asarray(points, np.float64))
        self._seed = seed % (1 << 31)
        num_points, num_dimensions = self._points.shape
        self._num_dimensions = num_dimensions
        values = np.asarray(scores, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.var(values))
        if not math.isfinite(spread):
            raise ValueError("scores spread too far to compute with: give them in another unit")
        y = torch.as_tensor(values).unsqueeze(-1)
        least = _LEAST_VARIANCE * (spread or 1.0)
        noise = torch.as_tensor(np.maximum(np.asarray(variances, np.float64), least)).unsqueeze(-1)
        kernel = _matern(num_dimensions)
        if knots is not None and knots.count > 1:
            kernel = kernel + _OfFunction(_matern(num_dimensions), knots)
        with _quiet_and_single(self._seed):
            # A single observation has no spread to standardise by, and equal ones have only that of rounding.
            rounding = 1e-12 * float(np.abs(values).max(initial=0.0)) or 1e-12
            scaled = Standardize(m=1, min_stdv=rounding) if num_points > 1 else None
            self._model = SingleTaskGP(self._points, y, noise, covar_module=kernel, outcome_transform=scaled)
            fit_gpytorch_mll(ExactMarginalLogLikelihood(self._model.likelihood, self._model))
        self._model.eval()

    @property
    def points(self) -> np.ndarray:
        """(n, d) the points of the observations."""
        return self._points.numpy()

    def joint(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m,) and covariance (m, m) of the true scores at points (m, d)."""
        with torch.no_grad(), _quiet_and_single(self._seed):
            posterior = self._model.posterior(torch.as_tensor(np.asarray(points, np.float64)))
            return posterior.mean.squeeze(-1).numpy(), posterior.covariance_matrix.numpy()

    def mean(self, points: np.ndarray) -> np.ndarray:
        """Mean (m,) of the true scores at points (m, d)."""
        return self.joint(points)[0]

    def draws(self, points: np.ndarray, count: int) -> np.ndarray:
        """Values (count, m) of functions drawn from the posterior, at points (m, d)."""
        mean, covariance = self.joint(points)
        root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(mean)))
        return mean + np.random.default_rng(self._seed).standard_normal((count, len(mean))) @ root.T

    def propose(self, pending: Sequence[Sequence[float]] = (), *, by_bound: bool = False) -> np.ndarray:
        """The point of the greatest noisy expected improvement, or upper confidence bound μ + 2σ.

        Args:
          pending: (k, d), points of trials that other processes play; their scores are fantasised.
          by_bound: by the bound (UCB).

        Source: Ament et al., "Unexpected improvements to expected improvement", 2023 (qLogNEI).
        """
        waiting = torch.as_tensor(np.asarray(pending, np.float64)) if len(pending) else None
        with _quiet_and_single(self._seed):
            sampler = SobolQMCNormalSampler(torch.Size([64]), seed=self._seed)
            if by_bound:
                return self._greatest(qUpperConfidenceBound(self._model, _BOUND, sampler, X_pending=waiting))
            acquisition = qLogNoisyExpectedImprovement(self._model, self._points, sampler, X_pending=waiting)
            return self._greatest(acquisition)

    def summit(self) -> np.ndarray:
        """The point of the highest posterior mean, by ascent from the best points of trials and of a Sobol sequence."""
        with _quiet_and_single(self._seed):
            others = SobolEngine(self._num_dimensions, scramble=True, seed=self._seed).draw(256, dtype=torch.float64)
            points = torch.cat([self._points, others])
            with torch.no_grad():
                hopeful = self._model.posterior(points).mean.squeeze(-1).argsort(descending=True)[:_STARTS]
            return self._greatest(PosteriorMean(self._model), points[hopeful].unsqueeze(1))

    def _greatest(self, acquisition: Any, begin: Any = None) -> np.ndarray:
        cube = torch.stack([torch.zeros(self._num_dimensions), torch.ones(self._num_dimensions)]).double()
        best, _ = optimize_acqf(
            acquisition, cube, q=1, num_restarts=_STARTS, raw_samples=64, batch_initial_conditions=begin,
            options={"batch_limit": _STARTS, "maxiter": 40, "seed": self._seed},
        )  # fmt: skip
        return best.detach().numpy()[0]


class _OfFunction(Kernel):
    """A kernel over ln f at equally spaced u instead of the knots of f; other dimensions are unchanged."""

    def __init__(self, base: Kernel, knots: Knots):
        super().__init__()
        self.base = base
        self._knots = knots
        # h on a fine grid as a matrix times the knots.
        grid = np.linspace(0.0, knots.count - 1.0, (knots.count - 1) * _FINE + 1)
        hats = np.maximum(1.0 - np.abs(grid[:, None] - np.arange(knots.count)), 0.0)
        self._hats = torch.as_tensor(hats)
        # One value of f for each knot, in the middle of equal parts: at u = 0 it is always 0.
        middles = (np.arange(knots.count) + 0.5) / knots.count * (len(grid) - 1)
        self._places = torch.as_tensor(np.maximum(np.round(middles), 1).astype(np.int64) - 1)

    def forward(self, x1: Any, x2: Any, diag: bool = False, **options: Any) -> Any:
        return self.base.forward(self._features(x1), self._features(x2), diag=diag, **options)

    def _features(self, x: Any) -> Any:
        count, low, high = self._knots.count, self._knots.low, self._knots.high
        slopes = torch.exp((low + (high - low) * x[..., :count]) @ self._hats.T)
        parts = 0.5 * (slopes[..., 1:] + slopes[..., :-1]) / (self._hats.shape[0] - 1)
        function = torch.cumsum(parts, dim=-1)[..., self._places]
        # Below 0.01 a temperature or a rise of weights has no effect.
        return torch.cat([torch.log(function + 0.01) / (high - low), x[..., count:]], dim=-1)


def _matern(num_dimensions: int) -> Kernel:
    # Length scales grow with the dimension, so that the prior does not get rougher (Hvarfner 2024).
    scales = LogNormalPrior(math.sqrt(2.0) + 0.5 * math.log(num_dimensions), math.sqrt(3.0))
    bound = GreaterThan(0.025, initial_value=math.sqrt(num_dimensions) / 2)
    matern = MaternKernel(2.5, ard_num_dims=num_dimensions, lengthscale_prior=scales, lengthscale_constraint=bound)
    return ScaleKernel(matern, outputscale_prior=GammaPrior(2.0, 1.0))


@contextmanager
def _quiet_and_single(seed: int) -> Iterator[None]:
    """Uses one thread, because games need the others; restores random generators; silences warnings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
