"""An environment as a game by copies of itself: each simulation begins with a deep copy, and steps it.

A game's copies share everything that no step changes: spaces, specifications, a table P. They also share random
generators, which are copies of those in the environment and its parts; the generators' states reveal a step that draws
a random number. Such a step is refused: each copy would draw the same number, and the search would foresee it. With
`draws`, nature draws one of that many seeds for the generators before each step.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from engram.errors import InvalidGame
from engram.games.gymnasium.generators import distinct, generators_of, is_generator, set_seed, state_of
from engram.games.python_game import PythonGame
from engram.games.record import NATURE
from engram.rng import GOLDEN, derive_seed

_TRIAL_STEPS = 50
_ODD = int(GOLDEN)
_MASK = 0xFFFFFFFFFFFFFFFF


class CopyState:
    """A position: an environment, the results of its last step, and an action that awaits nature's draw, or -1."""

    __slots__ = ("environment", "gain", "game", "intent", "line", "observation", "over", "steps")

    def __init__(self, game: CopyGame, environment: Any, observation: Any = None):
        self.game, self.environment, self.observation = game, environment, observation
        self.steps, self.intent, self.line, self.gain, self.over = 0, -1, game.salt, 0.0, False

    def legal_actions(self) -> range:
        return range(0 if self.over else self.game.draws if self.intent >= 0 else self.game.num_choices)

    def play(self, action: int) -> None:
        game = self.game
        self.line = (self.line * _ODD + action + 1) & _MASK
        if game.draws and self.intent < 0:
            self.intent, self.gain = action, 0.0
            return
        if game.draws:
            game.reseed(derive_seed(self.line))
            action, self.intent = self.intent, -1
        before = game.generator_states()
        observation, gain, over = game.results(self.environment.step(game.first_action + action))
        game.check_draws(before)
        self.observation = _kept(observation)
        self.gain, self.steps = gain, self.steps + 1
        self.over = over or self.steps >= game.max_steps

    def is_over(self) -> bool:
        return self.over

    def to_play(self) -> int:
        return NATURE if self.intent >= 0 else 0

    def reward(self) -> float:
        return self.gain

    def outcome(self) -> float:
        return 0.0

    def rollout(self, seed: int) -> float:
        """The return of uniformly random actions to the end; the steps draw freely, from the seed."""
        game, step, first = self.game, self.environment.step, self.game.first_action
        draw = random.Random(seed).random
        total, factor, over, intent = 0.0, 1.0, self.over, self.intent
        if game.draws:
            game.reseed(seed)
        before = game.generator_states()
        for _ in range(game.max_steps - self.steps):
            if over:
                break
            action = intent if intent >= 0 else int(draw() * game.num_choices)
            _, gain, over = game.results(step(first + action))
            total += factor * gain
            intent, factor = -1, factor * game.discount
        game.check_draws(before)
        return total

    def copy(self) -> CopyState:
        twin = self.__class__(self.game, self.game.copied(self.environment), self.observation)
        twin.steps, twin.intent, twin.line = self.steps, self.intent, self.line
        twin.gain, twin.over = self.gain, self.over
        return twin

    def hash(self) -> int:
        # The hash is of the moves so far, because an observation need not show the whole position.
        return derive_seed(self.line)

    def __str__(self) -> str:
        pending = f", and nature answers {self.intent}" if self.intent >= 0 else ""
        return f"{shown(self.observation)}\nstep {self.steps} of {self.game.max_steps}{pending}"


class _DrawnState(CopyState):
    """A position of an environment whose steps nature seeds."""

    __slots__ = ()

    def chance(self) -> list[float]:
        return [1.0] * self.game.draws


class CopyGame(PythonGame):
    """A game by copies of an environment; arguments as in `adapter.environment_game`.

    Attributes:
      draws, max_steps: the arguments. first_action: the environment's number of action 0.
      salt: for nature's seeds, taken from the start, so that two starts have different draws.

    Bounds are unknown unless the caller gives them, so a search needs `bounds=learnt`. The hash is that of the moves:
    two lines of moves never count as one position.

    Cost: for each simulation a deep copy of the environment, and its own steps.
    """

    def __init__(
        self, name: str, environment: Any, max_steps: int, observation: Any = None, *, discount: float = 1.0,
        bounds: tuple[float, float] | None = None, draws: int = 0, seed: int | None = None,
    ):  # fmt: skip
        self.draws, self.max_steps = draws, max_steps
        self.num_choices, self.first_action = int(environment.action_space.n), int(environment.action_space.start)
        self.name = name
        constants = _constants(environment).items()
        self._shared = {key: part for key, part in constants if not (is_generator(part) or _spaces_in(part))}
        start = self.copied(environment)  # with its own generators: the caller's stay as they are
        if {*map(id, layers_of(start))} & {*map(id, layers_of(environment))}:
            raise InvalidGame(f"{name}: __deepcopy__ must return a copy, not the environment itself")
        _own_parts(start, environment)
        inner, self._shared = start.unwrapped, _constants(start)
        spaces = {id(space): space for part in self._shared.values() for space in _spaces_in(part)}.values()
        # Owners without a generator make one at their first draw. An environment does so in a copy, unseen. All copies
        # share a space, so its new generator reveals the draw.
        unseeded = [owner for owner in (inner, *spaces) if getattr(owner, "_np_random", self) is None]
        self._silent_spaces = [] if draws else [owner for owner in unseeded if owner is not inner]
        for owner in unseeded:
            if draws or owner is inner:
                with suppress(AttributeError):
                    owner._np_random = np.random.default_rng(0)
        memo = dict(self._shared)
        self.copied(start, memo)
        parts = [*self._shared.values(), *memo.get(id(memo), [])]  # a memo lists all copies under its own address
        self._generators = distinct(parts)
        self._shared |= {id(part): part for part in self._generators}
        states = [shown(observation), *map(repr, self.generator_states())]
        self.salt = derive_seed(*(states if seed is None else ["start", seed]))
        self._generators = distinct([*self._generators, *(getattr(space, "_np_random", None) for space in spaces)])
        self._check_copies(start)
        observation = _kept(observation)
        kind = _DrawnState if draws else CopyState
        super().__init__(
            name,
            lambda: kind(self, self.copied(start), observation),
            num_actions=max(self.num_choices, draws),
            max_moves=max_steps * (2 if draws else 1) + 1,
            is_over=CopyState.is_over,
            rollout=CopyState.rollout,
            players=1,
            bounds=bounds,
            discount=discount,
        )

    def copied(self, environment: Any, memo: dict[int, Any] | None = None) -> Any:
        """A deep copy of an environment, which shares everything that no step changes; `memo` as in `copy.deepcopy`.

        Raises:
          InvalidGame: it cannot be copied.
        """
        try:
            return copy.deepcopy(environment, dict(self._shared) if memo is None else memo)
        except Exception as error:
            raise InvalidGame(
                f"{self.name} cannot be copied ({' '.join(str(error).split())}): give the environment a method "
                "__deepcopy__ that copies all that its steps read and change"
            ) from None

    def _check_copies(self, start: Any) -> None:
        """Refuses copies that draw from generators which the game does not hold, in one random game of some steps.

        Raises:
          InvalidGame: they do.
        """
        twin, draw = self.copied(start), random.Random(0).random
        generators = [part for part in generators_of(twin) if not any(part is own for own in self._generators)]
        before = [state_of(generator) for generator in generators]
        for _ in range(min(self.max_steps, _TRIAL_STEPS) if generators else 0):
            if self.results(twin.step(self.first_action + int(draw() * self.num_choices)))[2]:
                break
        if before != [state_of(generator) for generator in generators]:
            raise InvalidGame(
                f"{self.name}: copies draw from random generators out of the game's sight, and a search would foresee "
                "them: __deepcopy__ must copy them with its `memo`, as in copy.deepcopy(part, memo)"
            )

    def results(self, answer: Any) -> tuple[Any, float, bool]:
        """The observation, the reward and the end in what `step` returned.

        Raises:
          InvalidGame: it does not follow Gymnasium's interface.
        """
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise InvalidGame(
                f"{self.name}: step must return (observation, reward, terminated, truncated, info), not {answer!r}"
            )
        observation, reward, terminated, truncated, _ = answer
        try:
            is_over = bool(terminated) or bool(truncated)
        except ValueError:
            raise InvalidGame(f"{self.name}: terminated and truncated must each be true or false") from None
        return observation, self._number("the reward of step", reward), is_over

    def generator_states(self) -> list[Any]:
        """The states of the environment's random generators."""
        return [state_of(generator) for generator in self._generators]

    def check_draws(self, before: list[Any]) -> None:
        """Refuses steps that have drawn random numbers since the generators were in the states `before`.

        Raises:
          InvalidGame: they have, and the game has no `draws`.
        """
        has_drawn = any(space._np_random is not None for space in self._silent_spaces)
        if not self.draws and (has_drawn or self.generator_states() != before):
            raise InvalidGame(
                f"{self.name} draws random numbers in its steps, which a search must not foresee: add draws=8, and "
                "nature draws one of 8 seeds for each step; or add a table P to the environment"
            )

    def reseed(self, seed: int) -> None:
        """Sets each of the environment's random generators by a seed of its own, derived from `seed`."""
        for number, generator in enumerate(self._generators):
            set_seed(generator, derive_seed(seed, number))

    def action_name(self, action: int, state: Any = None) -> str:
        return f"draw{action}" if state is not None and state.intent >= 0 else str(action)

    def parse_action(self, text: str, state: Any = None) -> int:
        return super().parse_action(text.strip().lower().removeprefix("draw"))

    def move_names(self, actions: Any, state: Any = None) -> list[str]:
        is_chance_node = self.draws > 0 and state is not None and state.intent >= 0
        return [
            f"draw{action}" if self.draws and number % 2 != is_chance_node else str(action)
            for number, action in enumerate(actions)
        ]


def _spaces_in(part: Any) -> list[Any]:
    """A space and all spaces of which it is made; empty for anything else."""
    from gymnasium import spaces

    if not isinstance(part, spaces.Space):
        return []
    inner = getattr(part, "spaces", ())
    inner = [*(inner.values() if isinstance(inner, Mapping) else inner)]
    inner += [getattr(part, f"{name}_space", None) for name in ("feature", "node", "edge")]
    return [part, *(space for child in inner for space in _spaces_in(child))]


def layers_of(environment: Any) -> list[Any]:
    """An environment's wrappers, from the outermost inwards, and the environment itself."""
    layers = [environment]
    while layers[-1] is not layers[-1].unwrapped:
        layers.append(layers[-1].env)
    return layers


def _own_parts(environment: Any, original: Any) -> None:
    """Gives a copy its own spaces and generators, where it shares those of its class or of the original."""
    from gymnasium import spaces

    memo: dict[int, Any] = {}
    parts_of_original = {id(part) for layer in layers_of(original) for part in vars(layer).values()}
    for layer in layers_of(environment):
        of_class = {name: getattr(type(layer), name, None) for name in ("action_space", "observation_space")}
        for name, part in (of_class | vars(layer)).items():
            is_shared = name not in vars(layer) or id(part) in parts_of_original
            if is_shared and (isinstance(part, spaces.Space) or is_generator(part)):
                setattr(layer, name, copy.deepcopy(part, memo))


def _constants(environment: Any) -> dict[int, Any]:
    """The objects that no step changes, by their address."""
    from gymnasium import spaces
    from gymnasium.envs.registration import EnvSpec

    return {
        id(part): part
        for layer in layers_of(environment)
        for name, part in vars(layer).items()
        if isinstance(part, (spaces.Space, EnvSpec))
        or is_generator(part)
        or (name == "P" and isinstance(part, dict))  # Gymnasium's table
    }


def _kept(observation: Any) -> Any:
    """A copy, because the environment may write into its observation; what cannot be copied is kept itself."""
    try:
        return copy.deepcopy(observation)
    except Exception:  # such as a tensor with a gradient raises, or a generator
        return observation


def shown(observation: Any) -> str:
    """An observation as text: up to 100 numbers in full, else their shape and a digest."""
    if isinstance(observation, np.ndarray) and observation.size > 100:
        digest = derive_seed(observation.tobytes().hex()) & 0xFFFFFFFF
        return f"observation of {'×'.join(map(str, observation.shape))} numbers, digest {digest:08x}"
    if isinstance(observation, np.ndarray):
        return " ".join(str(observation).split())
    return "start" if observation is None else str(observation)
