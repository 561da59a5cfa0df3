"""Presets whose selection and backup share an entropy: each joins the two halves at one temperature."""

from __future__ import annotations

from typing import Unpack

from engram.presets.catalogue import register
from engram.search.entropy import policies, values
from engram.search.operators import Operator
from engram.search.preset import Preset, SearchOptions


def _joined(selection: Operator, backup: Operator, search: SearchOptions) -> Preset:
    """The preset of the two halves; it plays the move of highest value, because visits are random draws."""
    return Preset.assemble(selection, {"backup": backup, "decision": "max", **search})


@register
def ments(*, temperature: float = 0.1, epsilon: float = 0.1, **search: Unpack[SearchOptions]) -> Preset:
    """MENTS, maximum-entropy tree search: draws children by e^{Q/τ} and backs up their soft maximum.

    Args:
      temperature: τ in [1e-6, 1e6], in units of values in [-1, 1]. epsilon: ε ≥ 0, which sets the share of uniform
        draws.
      search: as in `SearchOptions`; decision: default `max`.

    Source and deviations: `search/entropy/values.py` and `policies.py` (docs/methods/entropy.md).
    """
    selection = policies.boltzmann(temperature=temperature, epsilon=epsilon)
    return _joined(selection, values.ments(temperature), search)


@register
def rents(*, temperature: float = 0.1, epsilon: float = 0.1, **search: Unpack[SearchOptions]) -> Preset:
    """RENTS, relative-entropy tree search: draws children by n·e^{Q/τ} and backs up their visit-weighted soft maximum.

    Args and sources: as in `ments`.
    """
    selection = policies.boltzmann(temperature=temperature, epsilon=epsilon, by_visits=1)
    return _joined(selection, values.rents(temperature), search)


@register
def tents(*, temperature: float = 0.1, epsilon: float = 0.1, **search: Unpack[SearchOptions]) -> Preset:
    """TENTS, Tsallis-entropy tree search: draws children by a sparse policy and backs up their sparse soft maximum.

    Args and sources: as in `ments`.
    """
    return _joined(policies.sparse(temperature=temperature, epsilon=epsilon), values.tents(temperature), search)


@register
def bts(*, temperature: float = 0.1, epsilon: float = 0.1, **search: Unpack[SearchOptions]) -> Preset:
    """BTS, Boltzmann tree search: draws children by e^{Q/τ} and backs up the best child's value.

    Args and sources: as in `ments`.
    """
    return _joined(policies.boltzmann(temperature=temperature, epsilon=epsilon), values.bts(), search)


@register
def dents(
    *, temperature: float = 0.1, weight: float = 0.1, epsilon: float = 0.1, **search: Unpack[SearchOptions]
) -> Preset:
    """DENTS, decaying-entropy tree search: BTS whose draws also favour entropy, less and less as visits grow.

    Args and sources: as in `ments`. weight: b ≥ 0 in the entropy's weight b/ln(e + N); 0 is `bts`.
    """
    selection = policies.decaying(temperature=temperature, weight=weight, epsilon=epsilon)
    return _joined(selection, values.dents(temperature, weight), search)
