"""Random generators of an environment: where they lie, their states, their seeds."""

from __future__ import annotations

import gc
import pickle
import random
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

GENERATORS = (
    np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence, random.Random
)  # fmt: skip
_MOST_PARTS = 100_000
_NO_PARTS = (type, ModuleType, FunctionType, FrameType)


def generators_of(environment: Any) -> list[Any]:
    """The random generators that an environment refers to, except through classes, modules and functions."""
    parts, addresses = [environment], {id(environment)}
    for part in parts:  # the list grows in the loop
        for child in gc.get_referents(part) if not is_generator(part) else ():
            is_part = is_generator(child) or (gc.is_tracked(child) and not isinstance(child, _NO_PARTS))
            if is_part and id(child) not in addresses and len(parts) < _MOST_PARTS:
                addresses.add(id(child))
                parts.append(child)
    return distinct(parts)


def distinct(parts: list[Any]) -> list[Any]:
    """The random generators among some parts, each once, and the seed sequences of NumPy's generators."""
    owners = [part for part in parts if isinstance(part, (np.random.Generator, np.random.RandomState))]
    cores = {id(_core(owner)) for owner in owners}
    parts = [*parts, *(_core(owner).seed_seq for owner in owners)]
    return list({id(part): part for part in parts if is_generator(part) and id(part) not in cores}.values())


def is_generator(part: Any) -> bool:
    """Whether a part draws random numbers, or seeds something that does."""
    return isinstance(part, GENERATORS) or _is_torch(part)


def state_of(generator: Any) -> Any:
    """A generator's state, for comparison."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.SeedSequence):
        return generator.n_children_spawned
    if _is_torch(generator):
        return generator.get_state().numpy().tobytes()
    if isinstance(generator, np.random.RandomState):
        return pickle.dumps(generator.get_state(legacy=False))  # includes a normal number that it has in store
    return pickle.dumps(_core(generator).state)  # some states hold arrays


def set_seed(generator: Any, seed: int) -> None:
    """Sets a generator by a seed of 64 bits."""
    if isinstance(generator, random.Random):
        generator.seed(seed)
    elif isinstance(generator, np.random.SeedSequence):
        generator.__init__(seed)  # type: ignore[misc]
    elif _is_torch(generator):
        generator.manual_seed(seed >> 1)
    elif isinstance(generator, np.random.RandomState):
        generator.set_state({**type(_core(generator))(seed).state, "has_gauss": 0, "gauss": 0.0})
    else:
        core = _core(generator)
        core.state = type(core)(seed).state


def _is_torch(part: Any) -> bool:
    """Whether a part is a generator of PyTorch, which need not be installed."""
    return type(part).__module__ == "torch._C" and type(part).__name__ == "Generator"


def _core(generator: Any) -> Any:
    """The bit generator of one of NumPy's generators."""
    if isinstance(generator, np.random.BitGenerator):
        return generator
    return generator._bit_generator if isinstance(generator, np.random.RandomState) else generator.bit_generator
