"""Environments of Gymnasium by name: `game("gymnasium:FrozenLake-v1,is_slippery=true")`, as games of one player.

An environment whose steps follow a table of its own, `env.unwrapped.P`, is played by that table (`model.py`): nature
moves with exact probabilities. Any other environment is played by copies of itself (`copies.py`).
"""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import Any

from engram.errors import InvalidSpecification, MissingPackage, check_whole, optional_package
from engram.games.gymnasium.copies import CopyGame
from engram.games.gymnasium.model import ModelGame, steps_left, transitions
from engram.games.python_game import PythonGame
from engram.specification import Specification, Value, typed
from engram.user_files import check_data

PREFIX = "gymnasium"
HIDDEN = {"Blackjack": "the dealer's second card"}
"""What environments hide from the player, by their names without a version; a copy would reveal it."""
_FILE = re.compile(r"[/\\.]|file|path|dir", re.IGNORECASE)
"""Parts of an option or its text that may name a file: an environment may open it, as MuJoCo's open `xml_file`."""
package = partial(optional_package, "gymnasium", "Gymnasium", "gymnasium")
"""The module of Gymnasium; the argument is the purpose, for the error message."""


def environment_game(
    environment: Any, name: str, *, max_steps: int, seed: int | None = 0, discount: float = 1.0,
    bounds: tuple[float, float] | None = None, draws: int = 0,
) -> PythonGame:  # fmt: skip
    """A game from a `gymnasium.Env`, a user's own included.

    Args:
      environment: one with discrete actions; it is copied, generators included, and never stepped itself.
      name: in results.
      max_steps: number of steps after which the game ends, ≥ 1; the environment may end it earlier.
      seed: `environment.reset(seed=seed)` gives the start; None: the start is the environment's present state.
      discount: γ in (0, 1].
      bounds: of all returns; None: computed from the table `P`, else unknown.
      draws: number of seeds, 0 to 1,000, of which nature draws one for each step, if an environment has no table and
        its steps draw random numbers. 0: such an environment is refused.

    Raises:
      InvalidSpecification: the actions are not discrete, or there is no limit on steps.
      InvalidGame: the environment cannot be copied, or its steps draw random numbers.

    If only last steps in the table have a reward, and γ is 1, that reward is the game's outcome. All other games have
    rewards on the way.
    """
    spaces = package(name).spaces
    if isinstance(environment, type) or not all(hasattr(environment, part) for part in ("action_space", "unwrapped")):
        raise InvalidSpecification(
            f"{name}: an environment is an object such as gymnasium.make('FrozenLake-v1'), or of a class that derives "
            f"from gymnasium.Env, not {environment!r}"
        )
    if not isinstance(environment.action_space, spaces.Discrete):
        raise InvalidSpecification(f"{name} has actions in {environment.action_space}; engram plays Discrete ones")
    if max_steps is None:
        raise InvalidSpecification(
            f"{name} has no limit of steps: add one, such as max_episode_steps=100 to its name, or max_steps=100 here"
        )
    max_steps = check_whole(f"{name}: max_steps", max_steps, 1, None, InvalidSpecification)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise InvalidSpecification(f"{name}: seed must be a whole number, 0 or more, or None, not {seed!r}")
    draws = check_whole(f"{name}: draws", draws, 0, 1000, InvalidSpecification)
    observation = None if seed is None else _observation(environment, name, seed)
    table = transitions(environment)
    if table is None:
        return CopyGame(
            name, environment, max_steps, observation, discount=discount, bounds=bounds, draws=draws, seed=seed
        )
    return ModelGame(name, environment, table, steps_left(environment, max_steps), discount=discount, bounds=bounds)


def _observation(environment: Any, name: str, seed: int) -> Any:
    """The first observation after a reset."""
    try:
        observation, _ = environment.reset(seed=seed)
    except (TypeError, ValueError) as error:
        raise InvalidSpecification(
            f"{name}: reset(seed={seed}) must give an observation and a dictionary ({_sentence(error)})"
        ) from None
    return observation


def gymnasium(
    environment: str | None = None, *, seed: int = 0, discount: float = 1.0,
    bounds: tuple[float, float] | None = None, draws: int = 0, max_episode_steps: int | None = None, **options: Any,
) -> PythonGame:  # fmt: skip
    """Environments with discrete actions, such as FrozenLake-v1, for one player.

    Args:
      environment: its name in Gymnasium's registry.
      seed, discount, bounds, draws: as in `environment_game`.
      max_episode_steps: instead of the environment's own limit.
      options: of the environment, such as is_slippery=true.

    Raises:
      MissingPackage: Gymnasium, or a package of the environment, is not installed.
      InvalidSpecification: there is no such environment or option, or engram does not play this environment.
    """
    if environment is None:
        raise InvalidSpecification(f"{PREFIX} needs the name of an environment, such as {PREFIX}:FrozenLake-v1")
    settings = {"seed": (seed, 0), "discount": (discount, 1.0), "bounds": (bounds, None), "draws": (draws, 0)}
    changes: dict[str, Value] = {key: value for key, (value, usual) in settings.items() if value != usual}
    limit = {} if max_episode_steps is None else {"max_episode_steps": max_episode_steps}
    is_word = environment.replace("-", "_").replace("/", "_").isidentifier()
    words = Specification(PREFIX, (Specification(environment) if is_word else environment,), options | changes | limit)
    name = words.colon_text
    instance, steps = _make(environment, name, options)
    steps = steps if max_episode_steps is None else max_episode_steps
    return environment_game(instance, name, max_steps=steps, seed=seed, discount=discount, bounds=bounds, draws=draws)


def _make(environment: str, name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """The environment without a limit on steps, and the limit with which it is registered."""
    module = package(name)
    hidden = HIDDEN.get(re.sub(r"-v\d+$", "", environment))
    if hidden:
        raise InvalidSpecification(f"{name} hides {hidden}, which a search of its copies would see")
    if ":" in environment:
        raise InvalidSpecification(
            f"{name} would import a module: write a file with `import` and engram.games.gymnasium.adapter's "
            "environment_game, and name that"
        )
    if "render_mode" in options:
        raise InvalidSpecification(f"{name}: engram sets render_mode itself; leave it out")
    for key, value in options.items():
        if isinstance(value, str) and _FILE.search(f"{key}={value}"):
            check_data(value)
    try:
        registered = module.spec(environment)
        limit, options = registered.max_episode_steps, _typed(environment, registered, options)
        options = {"disable_env_checker": True, "max_episode_steps": -1, **options}
        instance = module.make(environment, **options)
        if "ansi" in instance.metadata.get("render_modes", []):
            instance = module.make(environment, render_mode="ansi", **options)
        return instance, limit
    except module.error.DependencyNotInstalled as error:
        raise MissingPackage(f"{name}: {_sentence(error)}") from None
    except InvalidSpecification:
        raise
    except Exception as error:  # the environment's own code may raise anything
        kind = f"{type(error).__name__}: " if isinstance(error, LookupError) else ""
        raise InvalidSpecification(f"Gymnasium cannot make {name}: {kind}{_sentence(error)}") from None


def _typed(environment: str, registered: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options of an environment, each with the type of its default there, because its classes accept any value."""
    from gymnasium.envs.registration import load_env_creator

    entry = registered.entry_point
    parameters = inspect.signature(load_env_creator(entry) if isinstance(entry, str) else entry).parameters
    usual = {name: type(parameter.default) for name, parameter in parameters.items()}
    plain = {name for name in options if usual.get(name) in (bool, int, float, str)}
    return options | {name: typed(f"{environment}: {name}", options[name], usual[name]) for name in plain}


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())
