"""A sampler for noisy scores, complete in this folder: any study of Optuna may use it, with or without engram.

`hub/` makes the folder a package of OptunaHub. So it imports nothing from engram, and its own modules by relative
names.
"""

from .noisy_sampler import (
    ACQUISITIONS,
    GAMES,
    NoisySampler,
    Observation,
    Recommendation,
    SearchSpace,
    best_among,
    best_of,
    coordinates,
    gain_per_game,
    is_too_wide,
    num_coordinates,
    observations,
    observe,
    places_of,
    surrogate_of,
    unit_of,
    units,
    value_at,
    values_at,
)
from .surrogate import Knots, Surrogate

__all__ = [
    "ACQUISITIONS",
    "GAMES",
    "Knots",
    "NoisySampler",
    "Observation",
    "Recommendation",
    "SearchSpace",
    "Surrogate",
    "best_among",
    "best_of",
    "coordinates",
    "gain_per_game",
    "is_too_wide",
    "num_coordinates",
    "observations",
    "observe",
    "places_of",
    "surrogate_of",
    "unit_of",
    "units",
    "value_at",
    "values_at",
]
