"""OpenSpiel's games by name: `game("openspiel:breakthrough")`, `game("openspiel:hex(board_size=7)")`.

A position is a state of OpenSpiel behind the protocol of `python_game.py`, so rules, names of moves and diagrams are
OpenSpiel's. The search stays compiled, and a rollout is one call of OpenSpiel's C++.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from engram.errors import EngramError, IllegalAction, InvalidGame, InvalidSpecification, InvalidState, nearest
from engram.games.contract import UNIT_BOUNDS
from engram.games.open_spiel.kinds import PREFIX, package, parameters_of, quiet, refusal, sentence
from engram.games.python_game import PythonGame
from engram.games.record import NATURE
from engram.rng import derive_seed
from engram.specification import Specification

_SEPARATORS = " ,\t\r\n"
FREED_CLONES = ("morpion_solitaire",)
"""Games of OpenSpiel whose clones read memory that their originals have freed."""
SMALLER_OUTCOMES = {"maedn": 1.0}
"""The largest outcome with two players, where OpenSpiel declares the one with four."""
TRIAL_MOVES = 200
"""The number of random moves that a new game must survive: in a search, a failing rule would end the process."""


class OpenSpielState:
    """A position: OpenSpiel's `state` of a game. Player 0 is the first to move, however OpenSpiel numbers them."""

    __slots__ = ("game", "state")

    def __init__(self, game: OpenSpielGame, state: Any):
        self.game = game
        self.state = state

    def legal_actions(self) -> list[int]:
        return self.state.legal_actions()

    def play(self, action: int) -> None:
        self.state.apply_action(action)

    def is_over(self) -> bool:
        return self.state.is_terminal()

    def to_play(self) -> int:
        # At the end of a game OpenSpiel has no player to move.
        return 0 if self.state.current_player() == self.game.first else self.game.players - 1

    def outcome(self) -> float:
        return self.state.returns()[self.game.first] / self.game.scale

    def copy(self) -> OpenSpielState:
        return self.__class__(self.game, self.game.clone(self.state))

    def rollout(self, seed: int) -> float:
        # OpenSpiel's only rollout in C++: a search of one simulation is a rollout from its root.
        game = self.game
        evaluator = game.new_evaluator(1, seed & 0x7FFFFFFF)
        root = game.new_bot(game.spiel, evaluator, 1.0, 1, 1, False, 0, False).mcts_search(self.state)
        return (root.total_reward if root.player == game.first else -root.total_reward) / game.scale

    def played_out(self, seed: int) -> float:
        """A rollout in Python, for games with rewards on the way, which OpenSpiel's search refuses."""
        draws = random.Random(seed)
        while not self.state.is_terminal():
            self.state.apply_action(random_move(self.state, draws))
        return self.outcome()

    def encode(self) -> np.ndarray:
        # Many of OpenSpiel's tensors do not show the player to move, so one more plane does.
        assert self.game.planes_shape is not None
        _, height, width = self.game.planes_shape
        values = self.state.observation_tensor(self.state.current_player())
        return np.concatenate([values, np.full(height * width, self.to_play(), np.float32)])

    def hash(self) -> int:
        gained = self.state.returns()[0] if self.game.pays_on_the_way else 0
        return derive_seed(str(self.state), self.state.current_player(), gained)

    def __str__(self) -> str:
        return str(self.state)


class ChanceState(OpenSpielState):
    """A position of a game with chance."""

    __slots__ = ()

    def to_play(self) -> int:
        return NATURE if self.state.is_chance_node() else super().to_play()

    def chance(self) -> list[float]:
        weights = dict(self.state.chance_outcomes())
        return [weights[action] for action in self.legal_actions()]

    def rollout(self, seed: int) -> float:
        # OpenSpiel's search accepts only a root where a player moves.
        draws = random.Random(seed)
        while self.state.is_chance_node():
            self.state.apply_action(random_move(self.state, draws))
        return self.outcome() if self.is_over() else super().rollout(seed)


def random_move(state: Any, draws: random.Random) -> int:
    """A move in a state of OpenSpiel: nature's by its weights, a player's uniformly."""
    if state.is_chance_node():
        actions, weights = zip(*state.chance_outcomes(), strict=True)
        return int(draws.choices(actions, weights)[0])
    return int(draws.choice(state.legal_actions()))


class OpenSpielGame(PythonGame):
    """A game of OpenSpiel.

    Args:
      spiel: the game from `pyspiel.load_game`.
      name: `engram.game(name)` makes the game again.

    Attributes:
      spiel: the argument.
      first: OpenSpiel's number of the first player, here player 0; where nature moves first, OpenSpiel's player 0.
      scale: the largest outcome with two players, by which outcomes are divided; 1 for one player, whose outcomes are
        OpenSpiel's own.
      pays_on_the_way: whether the game has rewards before its end.

    The outcome is OpenSpiel's return of the whole game, which includes rewards on the way. With such rewards, one
    player's bounds are unknown, because returns of 2048 exceed the bounds that OpenSpiel declares.

    Positions with the same text and player to move have the same `hash`; a tree is reused only if their histories are
    equal too. The names of moves are OpenSpiel's, which depend on the position, or else the numbers of the actions.

    Raises:
      InvalidSpecification: it is not a game of perfect information for one player, or for two who take turns, with
        opposite aims.
      InvalidGame: there are too many actions, the initial state is over, the board is too large to draw, there is
        chance that OpenSpiel does not declare, or a position has no move but is not over.

    Cost: about ten calls into Python per simulation, 1 µs each, besides OpenSpiel's own time.
    """

    names_need_state = True

    def __init__(self, spiel: Any, name: str):
        reason = refusal(spiel)
        if reason:
            raise InvalidSpecification(
                f"{name} {reason}; engram plays games of perfect information for one player, "
                "or for two in turn whose outcomes add up to 0"
            )
        self.spiel = spiel
        low, high = spiel.min_utility(), spiel.max_utility()
        is_alone = spiel.num_players() == 1
        kind = spiel.get_type()
        self.scale = 1.0 if is_alone else SMALLER_OUTCOMES.get(kind.short_name, max(abs(low), abs(high)))
        if not 0.0 < self.scale < math.inf:
            raise InvalidSpecification(f"{name} has no finite largest outcome")
        has_chance = kind.chance_mode != kind.ChanceMode.DETERMINISTIC
        self.pays_on_the_way = kind.reward_model == kind.RewardModel.REWARDS
        state = ChanceState if has_chance else OpenSpielState
        module = package(name)
        self.new_evaluator, self.new_bot = module.RandomRolloutEvaluator, module.MCTSBot
        self.first = 0
        planes = None if has_chance else _planes_shape(spiel)
        self._replays = kind.short_name in FREED_CLONES
        super().__init__(
            name,
            lambda: state(self, spiel.new_initial_state()),
            num_actions=max(spiel.num_distinct_actions(), spiel.max_chance_outcomes()),
            # Hex with a swap has one more move than OpenSpiel declares.
            max_moves=spiel.max_game_length() + (spiel.max_chance_nodes_in_history() if has_chance else 0) + 1,
            is_over=OpenSpielState.is_over,
            rollout=state.played_out if self.pays_on_the_way else state.rollout,
            encode=None if planes is None else OpenSpielState.encode,
            planes_shape=planes,
            players=spiel.num_players(),
            bounds=UNIT_BOUNDS if not is_alone else None if self.pays_on_the_way else (low, high),
        )
        start = spiel.new_initial_state()
        if start.is_terminal():
            raise InvalidGame(f"{name}: its initial state is already over")
        self._try_out(has_chance)
        self.first = 0 if start.is_chance_node() else start.current_player()
        try:
            str(start)
        except UnicodeDecodeError:  # columns beyond the letter z
            raise InvalidGame(f"{name}: OpenSpiel cannot draw a board so large") from None

    def state(self, spiel_state: Any) -> OpenSpielState:
        """A position made from a copy of a `pyspiel.State` of this game.

        Raises:
          InvalidState: a state of another game.
        """
        if not hasattr(spiel_state, "get_game"):
            raise InvalidState(f"a position of {self.name} is a pyspiel.State, not {spiel_state!r}")
        if str(spiel_state.get_game()) != str(self.spiel):
            raise InvalidState(f"this is not a state of {self.name}, but of {spiel_state.get_game()}")
        return self._kind(self, self.clone(spiel_state))

    def clone(self, spiel_state: Any) -> Any:
        """A copy of a `pyspiel.State` of this game."""
        if not self._replays:
            return spiel_state.clone()
        copy = self.spiel.new_initial_state()
        for action in spiel_state.history():
            copy.apply_action(action)
        return copy

    def same(self, state: Any, other: Any) -> bool:
        return bool(state.state.serialize() == other.state.serialize())

    def action_name(self, action: int, state: Any = None) -> str:
        if state is None or action not in state.legal_actions():
            return str(action)
        return _name(state, action)

    def move_names(self, actions: Sequence[int], state: Any = None) -> list[str]:
        current = self.initial_state() if state is None else state.copy()
        names: list[str] = []
        for number, action in enumerate(actions):
            if action not in current.legal_actions():  # recorded by a version of OpenSpiel with other rules or numbers
                return names + [str(later) for later in actions[number:]]
            names.append(_name(current, action))
            current.play(action)
        return names

    def parse_action(self, text: str, state: Any = None) -> int:
        if state is None:
            return super().parse_action(text)
        name = text.strip()
        action, length = self._first_move(name, state)
        if length < len(name):
            raise IllegalAction(f"{self.name}: no legal move is written {name!r}")
        return action

    def parse_moves(self, text: str, state: Any = None, *, alternatives: bool = False) -> list[int]:
        current = self.initial_state() if state is None else state
        rest = text
        moves: list[int] = []
        while rest := rest.strip(_SEPARATORS):
            try:
                action, length = self._first_move(rest, current)
            except IllegalAction as error:
                raise IllegalAction(f"{error} (move {len(moves) + 1})") from None
            moves.append(action)
            current = current if alternatives else self.play(current, action)
            rest = rest[length:]
        return moves

    def parse_state(self, diagram: str) -> OpenSpielState:
        """The position that a text describes, such as a FEN in chess, for games that have such texts.

        Raises:
          InvalidState: OpenSpiel cannot read the text, or reads a different position from it.
        """
        # The command line turns '/' into line breaks.
        for text in (diagram.strip(), "/".join(diagram.split("\n")).strip()):
            try:
                with quiet():
                    state = self.spiel.new_initial_state(text)
            except (RuntimeError, ValueError):
                continue
            # Some games read any text as their usual start.
            if str(state).strip() == text:
                return self._kind(self, state)
        raise InvalidState(f"{self.name}: OpenSpiel reads no position in this text; give the moves instead")

    def _try_out(self, has_chance: bool) -> None:
        """Plays random games in Python, where an error is an exception."""
        state, draws = self.spiel.new_initial_state(), random.Random(0)
        for _ in range(TRIAL_MOVES):
            if state.is_chance_node() and not has_chance:
                raise InvalidGame(f"{self.name}: it has chance, and OpenSpiel declares none")
            if not state.legal_actions():
                raise InvalidGame(f"{self.name}: in OpenSpiel a position without a legal move is not over")
            state.apply_action(random_move(state, draws))
            if state.is_terminal():
                state = self.spiel.new_initial_state()

    def _first_move(self, text: str, state: OpenSpielState) -> tuple[int, int]:
        """The legal move at the start of a text, and the length of its name, which may contain spaces and commas."""
        legal = state.legal_actions()
        names = {_name(state, action): action for action in legal}
        counts = Counter(map(str.lower, names))  # bxc5 is a pawn's move, Bxc5 a bishop's
        lowered = {name.lower(): action for name, action in names.items() if counts[name.lower()] == 1}
        numbers = {str(action): action for action in legal}
        for actions, line in ((names, text), (lowered, text.lower()), (numbers, text)):
            fits = [name for name in actions if line.startswith(name) and line[len(name) :][:1] in ("", *_SEPARATORS)]
            if fits:
                longest = max(fits, key=len)
                return actions[longest], len(longest)
        if state.is_over():
            raise IllegalAction(f"{self.name}: the game is over")
        word = text.partition(" ")[0].strip(_SEPARATORS)
        raise IllegalAction(f"{self.name}: no legal move is written {word!r}{nearest(word, names)}")

    def _checked_object(self, state: Any) -> Any:
        if super()._checked_object(state).game is not self:
            raise InvalidState(f"this is not a state of {self.name}, but of {state.game.name}")
        return state


def open_spiel(game: Specification | str | int | None = None) -> OpenSpielGame:
    """A game of OpenSpiel, such as `hex(board_size=7)`.

    Raises:
      MissingPackage: OpenSpiel is not installed.
      InvalidSpecification: there is no such game or parameter, or engram does not play this game.
    """
    # OpenSpiel has a game called 2048, which reads as a number.
    specification = Specification(str(game)) if isinstance(game, str | int) else game
    if not isinstance(specification, Specification):
        raise InvalidSpecification(f"{PREFIX} needs the name of a game, such as {PREFIX}:hex(board_size=7)")
    name = f"{PREFIX}:{specification.text}"
    spiel = package(name)
    short_name, parameters = parameters_of(specification)
    try:
        with quiet():
            return OpenSpielGame(spiel.load_game(short_name, parameters), name)
    except EngramError:
        raise
    except (RuntimeError, IndexError, ValueError) as error:  # a SpielError is a RuntimeError
        raise InvalidSpecification(f"OpenSpiel cannot play {specification.text}: {sentence(error)}") from None


# ------------------------------------------------------------------------------------- inner parts


def _name(state: OpenSpielState, action: int) -> str:
    try:
        return state.state.action_to_string(state.state.current_player(), action).strip()
    except UnicodeDecodeError:  # columns beyond the letter z
        return str(action)


def _planes_shape(spiel: Any) -> tuple[int, int, int] | None:
    """The shape of the observation tensor as planes, plus one for the player to move; None without such a tensor."""
    if not spiel.get_type().provides_observation_tensor:
        return None
    shape = list(spiel.observation_tensor_shape())
    channels, height, width = {1: [1, 1, *shape], 2: [shape[0], 1, shape[-1]]}.get(len(shape), shape[:3])
    return (channels + 1, height, width) if channels * height * width == math.prod(shape) else None
