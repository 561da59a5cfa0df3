"""Simultaneous games of a network against itself: positions with targets, and reasons why it may not learn from them.

Source: Silver et al., "Mastering the game of Go without human knowledge", 2017; playout caps: Wu, "Accelerating
self-play learning in Go", 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from engram import storage
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep, RootNoise, RootStatistics
from engram.errors import InvalidGame, InvalidParameter, InvalidSpecification, check_fields
from engram.games.game import Game
from engram.networks.encoding import Encoder
from engram.presets.catalogue import preset as preset_of
from engram.rng import derive_seed
from engram.search.evaluation import Evaluator
from engram.search.preset import Preset
from engram.training.replay import Examples

RECENT = 400
MOST_PLANE = 2048
"""The largest number in a plane: half precision, in which positions wait, rounds whole numbers above it."""
NO_STEP = np.iinfo(np.int64).max


@dataclass(frozen=True)
class SelfPlayOptions:
    """The settings of self-play games.

    Attributes:
      num_games: simultaneous games, ≥ 1.
      simulations: of a full search, whose policy (`RootStatistics`) is learnt; with noise at the root.
      fast_simulations: of the other searches, which only choose moves; without noise.
      full_share: share of rounds with a full search, in (0, 1].
      search: specification of a preset that takes an `evaluator`, here the network, such as `puct_rave(rollout=heavy)`.
      noise_share, noise_concentration: see `RootNoise`; without effect in a search that asks the network late.
      temperature_moves: number of first moves drawn from the search's policy; its decision makes the later ones; None:
        a quarter of the longest game.
      target_temperature: T in (0, 10]. The policy target holds shares in proportion to policy^(1/T). A T below 1
        sharpens the visits of a search that explores widely.
      root_value_share: share of the search's value in the value target, the rest being the result, in [0, 1].
      at_once: number of games searched together, which is then the network's batch; None: all. Processes share the
        games in such parts, so that games do not depend on the number of processes.
    """

    num_games: int = 64
    simulations: int = 128
    fast_simulations: int = 32
    full_share: float = 0.25
    search: str = "puct(exploration=1.5)"
    noise_share: float = 0.25
    noise_concentration: float = 10.83
    temperature_moves: int | None = None
    target_temperature: float = 1.0
    root_value_share: float = 0.0
    at_once: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, num_games=1, simulations=1, fast_simulations=1, temperature_moves=0, at_once=1)
        if not 0.0 < self.full_share <= 1.0 or not 0.0 <= self.root_value_share <= 1.0:
            raise InvalidParameter("full_share is in (0, 1], root_value_share in [0, 1]")
        if not 0.0 < self.target_temperature <= 10.0:
            raise InvalidParameter(f"target_temperature is above 0 and at most 10, not {self.target_temperature}")
        if self.batch > self.num_games:
            raise InvalidParameter(f"at_once is 1 to the {self.num_games} games, not {self.at_once}")
        RootNoise(self.noise_share, self.noise_concentration)

    def preset(self, game: Game, evaluator: Evaluator) -> Preset:
        """The preset that searches this game with this evaluator; raises InvalidSpecification: it takes none."""
        search = preset_of(self.search, game=game, evaluator=evaluator, reuse_tree=False)
        if search.evaluator is not evaluator:
            raise InvalidSpecification(f"{self.search} takes no evaluator, so no network can search with it")
        return search

    @property
    def batch(self) -> int:
        """Games that are searched together."""
        return self.at_once or self.num_games


@dataclass(frozen=True, eq=False)
class SearchTask:
    """One search of each game of a part.

    Attributes:
      part: its number. states, seeds: of its games. simulations: of each search. noise: at the roots, or None.
      owner: among several `SelfPlay`, the one whose games these are. network, step: the network that searches, as a
        token of a fleet, and the number of learning steps behind it.
    """

    part: int
    states: np.ndarray
    seeds: list[int]
    simulations: int
    noise: RootNoise | None
    owner: int = 0
    network: Any = None
    step: int = 0


class Searcher:
    """Searches parts of the games with one evaluator.

    Args:
      game, evaluator, options: as for `SelfPlay`.
    """

    def __init__(self, game: Game, evaluator: Evaluator, options: SelfPlayOptions):
        self._search = Lockstep(game, options.preset(game, evaluator), options.batch)

    def search(self, task: SearchTask) -> list[RootStatistics]:
        """The results of a task, one for each state."""
        for number in range(len(task.states)):
            self._search.clear(number)
        return self._search.run(list(task.states), Limit(simulations=task.simulations), task.seeds, noise=task.noise)


class SelfPlay:
    """Ongoing games.

    Args:
      game: compiled, with `encode`. evaluator: of positions; `use` replaces it between rounds.
      history: of the network in training, as in its configuration.
      options: see there. seed: of every random number.

    Attributes:
      rounds, finished: moves of each game, and finished games. outcomes: wins of player 1, draws, wins of player 0.
      ended_steps: of games that ended in the last round, the steps of learning behind their oldest network.

    The games depend only on the seed and the evaluators.
    """

    def __init__(self, game: Game, evaluator: Evaluator, history: int | None, options: SelfPlayOptions, seed: int):
        self.game = game
        self.options = options
        self.rounds = 0
        self.finished = 0
        self.outcomes = np.zeros(3, np.int64)  # wins of player 1, draws, wins of player 0
        self.lengths = 0
        # Hashes of the moves of the newest games, and (mean search value, result) of each, for `why_not_learning`.
        self._ends = np.zeros(RECENT, np.uint64)
        self._agreement = np.zeros((RECENT, 2))
        self._seed = seed
        self._encode = Encoder(game, history)
        self._noise = RootNoise(options.noise_share, options.noise_concentration)
        count = options.num_games
        self._states = np.array([game.initial_state() for _ in range(count)])
        self._moves = np.zeros(count, np.int64)
        self._lines = np.zeros(count, np.int64)  # hashes of the moves so far
        self._oldest = np.full(count, NO_STEP)  # steps of learning behind the oldest network that searched each game
        self.ended_steps: list[int] = []
        self._pending: list[list[tuple[np.ndarray, np.ndarray, float, int]]] = [[] for _ in range(count)]
        self._searcher: Searcher | None = None
        self.use(evaluator)

    def use(self, evaluator: Evaluator) -> None:
        """Replaces the evaluator."""
        self._evaluator, self._searcher = evaluator, None

    def play_round(self, step: int = 0) -> Examples:
        """Plays one move in every game; returns the positions of games that ended with it. Arguments: `end_round`."""
        self._searcher = self._searcher or Searcher(self.game, self._evaluator, self.options)
        return self.end_round([self._searcher.search(task) for task in self.tasks()], step)

    def tasks(self) -> list[SearchTask]:
        """The searches of the next round, by parts of the games."""
        options, (_, full) = self.options, self._draw()
        seeds = [derive_seed(self._seed, self.rounds, number) for number in range(options.num_games)]
        simulations = options.simulations if full else options.fast_simulations
        starts = range(0, options.num_games, options.batch)
        return [
            SearchTask(part, self._states[start : start + options.batch], seeds[start : start + options.batch],
                       simulations, self._noise if full else None)
            for part, start in enumerate(starts)
        ]  # fmt: skip

    def _draw(self) -> tuple[np.random.Generator, bool]:
        """The round's random numbers after the first, which says whether its searches are full."""
        rng = np.random.default_rng(derive_seed(self._seed, "round", self.rounds))
        return rng, bool(rng.random() < self.options.full_share)

    def end_round(self, parts: Sequence[list[RootStatistics]], step: int = 0) -> Examples:
        """Plays the moves that the searches of all parts choose; `step`: learning steps of the searching network."""
        results = list(chain.from_iterable(parts))
        rng, full = self._draw()
        self._oldest = np.minimum(self._oldest, step)
        self.ended_steps = []
        if full:
            self._note(results)
        ended = []
        for number, statistics in enumerate(results):
            action = self._choose(number, statistics, rng)
            after = self.game.play(self._states[number], action)
            self._moves[number] += 1
            self._lines[number] = hash((int(self._lines[number]), action))  # of integers: the same in all processes
            if self.game.is_over(after):
                ended += self._end(number, self.game.outcome(after))
                after = self.game.initial_state()
            self._states[number] = after
        self.rounds += 1
        return self._examples(ended)

    def _choose(self, number: int, root: RootStatistics, rng: np.random.Generator) -> int:
        warm = self.options.temperature_moves
        if self._moves[number] >= (self.game.max_moves // 4 if warm is None else warm) or not root.visits.any():
            return root.action
        return int(rng.choice(root.actions, p=root.policy))

    def _note(self, results: list[RootStatistics]) -> None:
        """Keeps the results of full searches for the current positions."""
        planes = self._encode(self._states)  # not turned: `Replay.draw` applies symmetries
        if not (np.abs(planes) <= MOST_PLANE).all():
            raise InvalidGame(
                f"{self.game.name}: encode gives {np.abs(planes).max():g}, and self-play keeps planes in half "
                f"precision: they are finite, and at most {MOST_PLANE:,}"
            )
        for number, statistics in enumerate(results):
            policy = np.zeros(self.game.num_actions, np.float32)
            # Relative to the largest, so that powers cannot overflow.
            shares = (statistics.policy / statistics.policy.max()) ** (1.0 / self.options.target_temperature)
            policy[statistics.actions] = shares / shares.sum()
            mover = self.game.to_play(self._states[number])
            self._pending[number].append((planes[number].astype(np.float16), policy, statistics.root_value, mover))

    def _end(self, number: int, outcome: float) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """Ends a game; returns its positions with the result."""
        share = self.options.root_value_share
        examples = [
            (planes, policy, share * value + (1.0 - share) * (outcome if mover == 0 else -outcome))
            for planes, policy, value, mover in self._pending[number]
        ]
        values = [value if mover == 0 else -value for _, _, value, mover in self._pending[number]]
        slot = self.finished % RECENT
        self._ends[slot] = self._lines[number].view(np.uint64)
        self._agreement[slot] = float(np.mean(values)) if values else 0.0, outcome
        self.outcomes[int(np.sign(outcome)) + 1] += 1
        self.lengths += int(self._moves[number])
        self.finished += 1
        self._pending[number] = []
        self._moves[number] = self._lines[number] = 0
        self.ended_steps.append(int(self._oldest[number]))
        self._oldest[number] = NO_STEP
        return examples

    def _examples(self, ended: list[tuple[np.ndarray, np.ndarray, float]]) -> Examples:
        planes, policy, value = zip(*ended, strict=True) if ended else ((), (), ())
        return Examples(
            np.array(planes, np.float16).reshape(-1, *self._encode.shape),
            np.array(policy, np.float32).reshape(-1, self.game.num_actions),
            np.array(value, np.float32),
        )

    def why_not_learning(self) -> list[str]:
        """Reasons, from the newest games, why a network may not learn from them."""
        count = min(self.finished, RECENT)
        if count < RECENT // 4:
            return []
        reasons = []
        distinct = len(np.unique(self._ends[:count]))
        if distinct < count // 20:
            reasons.append(
                f"the same games again and again: {distinct} different ones among {count}; raise temperature_moves, "
                "noise or exploration"
            )
        value, result = self._agreement[:count].T
        if np.abs(result.mean()) > 0.98:
            reasons.append(f"nearly every game ends alike (mean result {result.mean():+.2f}): values stay constant")
        elif value.std() > 0.05 and np.corrcoef(value, result)[0, 1] < -0.2:
            reasons.append("searches expect the opposite of the results: the value has the wrong sign")
        elif value.std() < 0.002:
            reasons.append("the network gives every position the same value")
        return reasons

    def checkpoint(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The complete state of the games, as plain data and arrays for `restore`."""
        flat = [(number, *example) for number, game in enumerate(self._pending) for example in game]
        numbers, planes, policy, value, mover = zip(*flat, strict=True) if flat else ((), (), (), (), ())
        about = {"rounds": self.rounds, "finished": self.finished, "lengths": self.lengths}
        return about, {
            "states": self._states,
            "moves": self._moves,
            "lines": self._lines,
            "oldest": self._oldest,
            "outcomes": self.outcomes,
            "ends": self._ends,
            "agreement": self._agreement,
            "pending_game": np.array(numbers, np.int64),
            "pending_planes": np.array(planes, np.float16).reshape(len(flat), *self._encode.shape),
            "pending_policy": np.array(policy, np.float32).reshape(len(flat), self.game.num_actions),
            "pending_value": np.array(value, np.float64),
            "pending_mover": np.array(mover, np.int64),
        }

    def restore(self, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Resumes a fresh object from a checkpoint of the same game and options.

        Raises:
          LookupError, TypeError, ValueError: it has another form, or a position against the rules.
        """
        # Older checkpoints lack these.
        arrays = {"oldest": np.zeros_like(self._moves), "lines": np.zeros_like(self._lines), **arrays}
        arrays["states"] = arrays["states"].astype(self.game.state_dtype)
        storage.check_form(arrays, self.checkpoint()[1])
        if not all(self.game.is_sound(state) and not self.game.is_over(state) for state in arrays["states"]):
            raise ValueError(f"it holds an invalid position of {self.game.name}")
        counts = [int(about[name]) for name in ("rounds", "finished", "lengths")]
        if min(*counts, *arrays["moves"], *arrays["outcomes"], *arrays["pending_game"]) < 0:
            raise ValueError("a number of its games is negative")
        self.rounds, self.finished, self.lengths = counts
        self._states = arrays["states"]
        self._moves, self.outcomes = arrays["moves"].copy(), arrays["outcomes"].copy()
        self._ends, self._agreement = arrays["ends"].copy(), arrays["agreement"].copy()
        self._oldest, self._lines = arrays["oldest"].copy(), arrays["lines"].copy()
        self._pending = [[] for _ in range(self.options.num_games)]
        columns = (arrays[f"pending_{name}"] for name in ("game", "planes", "policy", "value", "mover"))
        for number, planes, policy, value, mover in zip(*columns, strict=True):
            self._pending[int(number)].append((planes, policy, float(value), int(mover)))
