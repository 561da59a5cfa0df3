"""Does a game keep its contract? Random play calls every function, compiled and as a method, also on turned boards."""

from __future__ import annotations

import ctypes
import math
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from engram.errors import InvalidGame, check_whole
from engram.games.bounds import is_within, rounded
from engram.games.catalogue import game as game_of
from engram.games.contract import most_planes
from engram.games.game import Game
from engram.games.python_game import PythonGame
from engram.games.record import NATURE, SLACK
from engram.games.state import State
from engram.games.symmetry import Symmetry
from engram.native.buffers import buffers
from engram.native.guard import begin_step, guarded
from engram.rng import derive_seed, new_rng

GUARD_S = 10.0
"""Seconds for games in the child process, where a slow game gets through fewer of them than outside."""
EVERY_ROLLOUT = 50
"""Rollouts start at each of the first so many positions, at every second one of as many more, and so on."""
LAST_MOVES = 10
"""The number of moves before a fault that an error lists."""
MAX_CONFLICT_SHARE = 0.4
"""Share of the positions met again that may have other legal moves, because superko depends on earlier boards."""
MIN_CONFLICTS = 20
"""Fewer such positions are not a fault: on a tiny board, chance may bring them close together."""
_UNWRITTEN = -7
"""Fills buffers, so that a write beyond their end is noticed."""


@dataclass(frozen=True)
class CheckReport:
    """The result of `check_game`: games and moves played, the longest game, and how many each player won.

    Attributes:
      players: 1 or 2. general_features: `Game.general_features`, in words.
      lowest, mean, highest: of the games' returns for player 0, in the game's units.
      return_bounds: the least and the greatest return from any state of these games.
    """

    game: str
    games: int
    moves: int
    longest: int
    first_wins: int
    second_wins: int
    draws: int
    players: int
    general_features: tuple[str, ...]
    lowest: float
    mean: float
    highest: float
    return_bounds: tuple[float, float]

    def __str__(self) -> str:
        played = f"{self.game}: {self.games} random games of {self.moves / self.games:.1f} moves"
        parts = [f"{played} (longest {self.longest})", *self.general_features]
        if self.players == 2:
            parts.append(f"first player {self.first_wins} won, second {self.second_wins}, {self.draws} drawn")
        if self.general_features:
            parts.append(f"return {self.mean:g} on average ({self.lowest:g} to {self.highest:g})")
            parts.append("from any state {:g} to {:g}".format(*self.return_bounds))
        return f"{', '.join(parts)}; contract kept"


def check_game(game: Game | str, games: int = 50, seed: int = 0) -> CheckReport:
    """Plays random games through every function of a game and checks all that a search relies on.

    Args:
      game: compiled or plain Python, or its name. games: number of games, ≥ 1. seed: of the random moves.

    Raises:
      InvalidGame: the contract is broken; the message says where, and after which moves. InvalidParameter: `games` < 1.

    Cost: some milliseconds per game, and the time to compile once.
    """
    game = game_of(game)
    check_whole("games", games, 1)
    seed = check_whole("seed", seed)

    def play(seconds: float) -> list[tuple[int, list[float]]]:
        check, began = _Check(game, seed), time.perf_counter()
        plays: list[tuple[int, list[float]]] = []
        while len(plays) < games and (not plays or time.perf_counter() < began + seconds):
            plays.append(_Play(check).run())
        return plays

    functions = [callback.function for callback in getattr(game, "callbacks", {}).values()]
    guarded(functions, f"random play of {game.name}", lambda: play(GUARD_S), always=True)
    plays = play(math.inf)
    lengths = [length for length, _ in plays]
    totals = [returns[0] for _, returns in plays]
    signs = [int(np.sign(rounded(returns[0], max(map(abs, returns))))) for _, returns in plays]
    all_returns = [number for _, returns in plays for number in returns]
    return CheckReport(
        game.name, len(plays), sum(lengths), max(lengths), signs.count(1), signs.count(-1), signs.count(0),
        game.players, tuple(game.general_features), min(totals), math.fsum(totals) / len(plays), max(totals),
        (min(all_returns), max(all_returns)),
    )  # fmt: skip


def try_game(game: Game, games: int, seconds: float) -> None:
    """Plays random games as `check_game` does, but breaks off the game under way when the time is over.

    Raises:
      InvalidGame: as `check_game`.
    """
    check, deadline = _Check(game, seed=0), time.perf_counter() + seconds
    for _ in range(games):
        _Play(check, deadline).run()


class _Check:
    """The data of some random games of one game."""

    def __init__(self, game: Game, seed: int):
        game.require_start()
        self.game = game
        self.random = random.Random(derive_seed("check", game.name, seed))
        self.rng = new_rng(seed)
        self.diagrams: set[str] = set()
        self.canonical_keys: dict[int, int] = {}
        """Canonical hash by hash."""
        self.by_canonical: dict[int, tuple[int, float | None]] = {}
        """Player to move and outcome (None: not over) by canonical hash."""
        self.moves_by_hash: dict[tuple[str, int], int] = {}
        """A digest of the legal actions by `hash`, and their number by `canonical_hash`."""
        self.num_met, self.num_conflicts = Counter[str](), Counter[str]()
        """The number of positions whose hash was met before, and of those among them with other legal actions."""
        self.num_planes: dict[int, int] = {}
        """Planes of `encode_history` by the number of earlier positions."""


class _Play:
    """One random game, in a buffer as a search holds it and by the methods of the game side by side."""

    def __init__(self, check: _Check, deadline: float = math.inf):
        self._check, self._game, self._deadline = check, check.game, deadline
        self._state = self._first = self._game.initial_state()
        self._buffer, self._copied = self._game.new_buffer(), self._game.new_buffer()
        self._actions = buffers(self._game.num_actions, np.int32, spare=SLACK)
        self._actions[:] = _UNWRITTEN
        self._history: list[int] = []
        self._rolls_out = False
        self._steps: list[tuple[float, float]] = []
        """For each move, the factor on the return that follows it, and its reward."""
        self._bounds = low, high = self._game.bounds or (-math.inf, math.inf)
        self._span = "any numbers" if self._game.bounds is None else f"[{low:.15g}, {high:.15g}]"

    def run(self) -> tuple[int, list[float]]:
        """Plays the game; returns the number of its moves, and the return from each of its states but the last.

        A game that the deadline breaks off has no returns.
        """
        try:
            return self._run()
        except InvalidGame as error:
            names = self._game.move_names(self._history)
            line = " ".join(names[-LAST_MOVES:]) or "no moves"
            if len(names) > LAST_MOVES:
                line = f"{len(names)} moves, the last {LAST_MOVES}: {line}"
            line += ", in a random game from there" if self._rolls_out else ""
            raise InvalidGame(f"{error} (after {line})") from error

    def _run(self) -> tuple[int, list[float]]:
        game = self._game
        game.write(self._buffer, self._state)
        reward = game.reward(self._state)
        self._must(reward == 0.0, f"reward is {reward:g}, and before any move it is 0")
        while True:
            begin_step()
            legal = self._legal_actions()
            same = game.is_over(self._state) == (not legal)
            self._must(same, "is_over and legal_actions disagree on whether the game is over")
            self._hashes(is_over=not legal)
            if not legal:
                break
            if time.perf_counter() > self._deadline:
                return len(self._history), []
            self._same_moves(legal)
            self._copies(legal)
            self._distinct_hashes()
            self._must(len(self._history) < game.max_moves, f"the game is longer than max_moves = {game.max_moves}")
            # In a long game rollouts start at fewer and fewer positions: each takes the rest of a game.
            if len(self._history) % (1 + len(self._history) // EVERY_ROLLOUT) == 0:
                for policy in ("rollout", "heavy_rollout"):
                    self._rollouts(policy)
            if game.to_play(self._state) == NATURE:
                self._chance(legal)
                self._move(game.drawn(self._state, self._check.random.random()))
                continue
            if game.address("prior"):
                self._prior(legal)
            if game.address("rollout_actions"):
                self._rollout_actions(legal)
            for corrector in ("endings", "tactics"):
                if game.address(corrector):
                    self._corrected(corrector)
            if game.planes_shape is not None:
                channels, *board = game.planes_shape
                if game.address("encode"):
                    self._encoded("encode", channels * math.prod(board))
                for steps in {0, game.max_history} if game.address("encode_history") else ():
                    most = most_planes(steps)
                    planes = self._encoded("encode_history", most * math.prod(board), steps)
                    self._must(0 < planes <= most, f"encode_history gave {planes} planes, not 1 to {most}")
                    before = self._check.num_planes.setdefault(steps, planes)
                    self._must(planes == before, f"encode_history gave {planes} planes, and before {before}")
            self._move(self._check.random.choice(legal))
        self._must(bool(self._history), "the initial state is already over")
        returns = self._returns(self._outcome())
        if len(game.symmetries) > 1:
            symmetry = self._check.random.choice(game.symmetries[1:])
            self._must(self._is_symmetric(symmetry), "a symmetry changes the game: legal moves, planes or end")
        return len(self._history), returns

    def _returns(self, outcome: float) -> list[float]:
        """The return from each state but the last, within the bounds."""
        returns = [outcome]
        for factor, reward in reversed(self._steps):
            returns.append(reward + factor * returns[-1])
        for moves, value in enumerate(reversed(returns)):
            within = is_within.py_func(value, *self._bounds)
            self._must(within, f"the return is {value:.15g} after {moves} moves, not in {self._span}")
        return returns[:0:-1]

    def _must(self, holds: bool, sentence: str) -> None:
        self._game.raise_pending()
        if not holds:
            raise InvalidGame(f"{self._game.name}: {sentence}")

    def _call(self, function: str, *arguments: int, returns: Any = ctypes.c_int64) -> Any:
        """Calls a function of the game as a search does."""
        kind = ctypes.CFUNCTYPE(returns, *[ctypes.c_int64] * len(arguments))
        return kind(self._game.address(function))(*arguments)

    def _call_float(self, function: str, *arguments: int) -> float:
        return float(self._call(function, *arguments, returns=ctypes.c_double))

    def _copy(self) -> int:
        """Copies the state; returns the address of the copy."""
        if not self._game.address("copy"):
            self._copied[:] = self._buffer
        else:
            if self._game.compiled:  # a field that `copy` forgets would otherwise keep its value from the previous copy
                self._game.write(self._copied, self._first)
            status = self._call("copy", self._copied.ctypes.data, self._buffer.ctypes.data)
            self._must(status >= 0, "copy failed")
        return self._copied.ctypes.data

    def _legal_actions(self) -> list[int]:
        game, actions = self._game, self._actions
        count = self._call("legal_actions", self._buffer.ctypes.data, actions.ctypes.data)
        self._must(0 <= count <= game.num_actions, f"legal_actions gave {count} actions of {game.num_actions}")
        legal = actions[:count].tolist()
        self._must((actions[game.num_actions :] == _UNWRITTEN).all(), "legal_actions wrote beyond its buffer")
        self._must(len(set(legal)) == count, "legal_actions names an action twice")
        for action in legal:
            in_range = 0 <= action < game.num_actions
            self._must(in_range, f"legal_actions names action {action}, not in 0 to {game.num_actions - 1}")
        same = sorted(legal) == game.legal_actions(self._state)
        self._must(same, "legal_actions depends on more than the state")
        return legal

    def _hashes(self, *, is_over: bool) -> None:
        """Checks that equal positions have equal hashes, and one canonical hash has one player and one outcome."""
        game, state = self._game, self._state
        player = self._call("to_play", self._buffer.ctypes.data)
        movers = " or ".join(map(str, game.movers))
        remedy = "; 2 is nature in a game with chance" if player == NATURE else ""
        self._must(player in game.movers, f"to_play is {player}, not {movers}{remedy}")
        self._must(not is_over or player != NATURE, "nature is to move at the end of the game")
        same = game.hash(state) == game.hash(game.read(self._buffer))
        remedy = "" if game.compiled else ": write hash(), or a __str__ that differs between positions"
        self._must(same, f"equal positions have different hashes{remedy}")
        self._copy()
        copied = game.read(self._copied)
        self._must(game.hash(copied) == game.hash(state), "a copy has another hash than its original")
        same = game.to_play(copied) == player and game.legal_actions(copied) == game.legal_actions(state)
        same = same and (not game.compiled or game.render(copied) == game.render(state))
        self._must(same, "a copy differs from its original")
        key = game.canonical_hash(copied)
        same = self._check.canonical_keys.setdefault(game.hash(state), key) == key
        self._must(same, "canonical_hash differs between positions of equal hash")
        if game.scene is not None:
            try:
                game.scene.drawn(state)
            except InvalidGame as error:
                self._must(False, str(error))
        outcome = game.outcome(state) if is_over else None
        self._must(outcome is None or math.isfinite(outcome), f"outcome is {outcome}, not a finite number")
        which = "canonical_hash" if key != game.hash(state) else "hash"
        other_player, other_outcome = self._check.by_canonical.get(key, (player, outcome))
        same = other_player == player
        self._must(same, f"{which} is the same for positions with different players to move")
        same = None in (outcome, other_outcome) or outcome == other_outcome
        self._must(
            same, f"{which} is the same for positions with different outcomes, or outcome reads more than the state"
        )
        self._check.by_canonical[key] = player, other_outcome if outcome is None else outcome

    def _same_moves(self, legal: list[int]) -> None:
        """Checks that positions of one hash have the same legal moves, and those of one canonical hash equally many."""
        check, game = self._check, self._game
        answers = {
            "hash": (game.hash(self._state), derive_seed(*sorted(legal))),
            "canonical_hash": (game.canonical_hash(self._state), len(legal)),
        }
        for which, (key, moves) in answers.items():
            check.num_met[which] += (which, key) in check.moves_by_hash
            check.num_conflicts[which] += check.moves_by_hash.setdefault((which, key), moves) != moves
            most = max(MIN_CONFLICTS, MAX_CONFLICT_SHARE * check.num_met[which])
            self._must(
                check.num_conflicts[which] < most, f"{which} is the same for positions with different legal moves"
            )

    def _copies(self, legal: list[int]) -> None:
        """Checks that a move on the copy changes only the copy, and that `local_pattern` changes nothing."""
        game, copied = self._game, self._copied.ctypes.data
        before = game.legal_actions(self._state), game.hash(self._state), game.reward(self._state)
        self._call("play", copied, legal[0])
        same = (game.legal_actions(self._state), game.hash(self._state), game.reward(self._state)) == before
        self._must(same, "a copy shares something with its original: playing on it changed both")
        if game.address("local_pattern"):
            after = game.hash(game.read(self._copied))
            patterns = {self._call("local_pattern", copied, legal[0]) for _ in range(2)}
            self._must(len(patterns) == 1, "local_pattern differs from call to call")
            self._must(game.hash(game.read(self._copied)) == after, "local_pattern changes the state")

    def _distinct_hashes(self) -> None:
        """Checks that most positions with different diagrams have different hashes."""
        diagrams, hashes = self._check.diagrams, self._check.canonical_keys
        diagrams.add(self._game.render(self._state))
        self._must(
            len(hashes) * 10 >= len(diagrams),
            f"hash tells only {len(hashes)} of {len(diagrams)} different positions apart "
            "(memories and tree reuse need it)",
        )

    def _rollouts(self, policy: str) -> None:
        """Checks that a rollout has a value, keeps the original, and plays the same game when it writes its moves."""
        game, rng = self._game, self._check.rng
        if not game.address(policy):
            return
        begin_step()
        self._rolls_out = True
        twin = np.array(rng)
        value = self._call_float(policy, self._copy(), rng.ctypes.data)
        self._must(is_within.py_func(value, *self._bounds), f"{policy} gave {value}, not a value in {self._span}")
        same = game.hash(game.read(self._buffer)) == game.hash(self._state)
        self._must(same, f"a {policy} on a copy changed the original")
        if game.compiled or (type(game) is PythonGame and game.user_rollout is not None):
            numbers = np.array(twin)
            again = self._call_float(policy, self._copy(), numbers.ctypes.data)
            source = "`rng`" if game.compiled else "`seed`"
            self._must(again == value, f"{policy} draws by other random numbers than {source}, so no seed repeats")
        self._rolls_out = False
        if not game.address(policy + "_moves"):
            return
        moves = buffers(1 + game.max_moves, np.int32, spare=SLACK)
        moves[:] = _UNWRITTEN
        moves[0] = game.max_moves
        again = self._call_float(policy + "_moves", self._copy(), twin.ctypes.data, moves.ctypes.data)
        written = moves[1 : 1 + max(0, min(int(moves[0]), game.max_moves))]
        self._must(again == value and (twin == rng).all(), f"{policy}_moves plays another game than {policy}")
        self._must((moves[1 + game.max_moves :] == _UNWRITTEN).all(), f"{policy}_moves wrote beyond its buffer")
        valid = bool(((written >= 0) & (written < 2 * game.num_actions)).all())
        self._must(valid, f"{policy}_moves wrote a number that is not a move")

    def _rollout_actions(self, legal: list[int]) -> None:
        actions = buffers(self._game.num_actions, np.int32, spare=SLACK)
        count = self._call("rollout_actions", self._copy(), actions.ctypes.data)
        named = actions[: max(0, min(count, len(legal)))].tolist()
        valid = count == len(set(named)) > 0 and set(named) <= set(legal)
        self._must(valid, "rollout_actions names no action, one twice, or one that is not legal")
        self._keeps_copy("rollout_actions")

    def _prior(self, legal: list[int]) -> None:
        weights, actions = buffers(self._game.num_actions, np.float32), np.array(legal, np.int32)
        status = self._call("prior", self._copy(), actions.ctypes.data, len(legal), weights.ctypes.data)
        valid = status == 0 and bool((weights >= 0).all() and np.isfinite(weights).all())
        self._must(valid, "prior gave no weights ≥ 0")
        self._keeps_copy("prior")

    def _encoded(self, function: str, size: int, *history: int) -> int:
        """Checks that planes are finite and stay within their `size` numbers; returns the function's result."""
        planes = buffers(size, np.float32, spare=SLACK)
        planes[-SLACK:] = _UNWRITTEN
        status: int = self._call(function, self._copy(), planes.ctypes.data, *history)
        self._must(status >= 0, f"{function} failed")
        self._must(bool((planes[-SLACK:] == _UNWRITTEN).all()), f"{function} wrote beyond its buffer")
        self._must(bool(np.isfinite(planes).all()), f"{function} wrote a number that is not finite")
        self._keeps_copy(function)
        return status

    def _chance(self, legal: list[int]) -> None:
        """Checks that nature's weights of legal actions are ≥ 0, one of them above 0, and leave the state unchanged."""
        weights = buffers(self._game.num_actions, np.float32, spare=SLACK)
        actions = np.array(legal, np.int32)
        weights[self._game.num_actions :] = _UNWRITTEN
        status = self._call("chance", self._copy(), actions.ctypes.data, len(legal), weights.ctypes.data)
        slack, shares = weights[self._game.num_actions :], weights[: self._game.num_actions]
        valid = status == 0 and bool((shares >= 0).all() and np.isfinite(shares).all() and shares[legal].sum() > 0)
        self._must(valid, f"chance gave the weights {shares[legal].tolist()}; each is 0 or more, and one above 0")
        self._must(not np.delete(shares, legal).any(), "chance gave a weight to an action that is not legal")
        self._must((slack == _UNWRITTEN).all(), "chance wrote beyond its buffer")
        self._keeps_copy("chance")

    def _corrected(self, corrector: str) -> None:
        """Checks that `endings` and `tactics` turn a policy into a policy, and leave the state unchanged.

        The policy given to `endings` puts all weight on the last action, in Go the pass; that given to `tactics` is
        even over all other actions.
        """
        weights = np.zeros(self._game.num_actions, np.float32)
        weights[slice(-1, None) if corrector == "endings" else slice(-1)] = 1.0
        value = self._call_float(corrector, self._copy(), weights.ctypes.data)
        valid = (np.isnan(value) or -1.0 <= value <= 1.0) and bool((weights >= 0).all() and np.isfinite(weights).all())
        self._must(valid, f"{corrector} gave a value outside [-1, 1], or weights that are not ≥ 0")
        self._keeps_copy(corrector)

    def _keeps_copy(self, function: str) -> None:
        same = self._game.hash(self._game.read(self._copied)) == self._game.hash(self._state)
        self._must(same, f"{function} changes the state")

    def _move(self, action: int) -> None:
        """Checks that the name of an action leads back to it, and that both ways of playing it agree."""
        game, state = self._game, self._state
        name = game.action_name(action, state)
        self._must(game.parse_action(name, state) == action, f"the action written {name!r} is read as another one")
        before = game.hash(state)
        after = game.play(state, action)
        self._must(game.hash(state) == before, "play as a method changed its argument")
        over = self._call("play", self._buffer.ctypes.data, action)
        self._history.append(action)
        self._must(
            game.render(game.read(self._buffer)) == game.render(after),
            "the same moves led to two positions: a copy must share nothing that a move reads or changes, and only "
            "nature's moves may be random",
        )
        self._must(over in (0, 1), f"play returned {over}, not 0 or 1")
        self._must((over == 1) == game.is_over(after), "play and legal_actions disagree on whether the game is over")
        reward = 0.0
        if game.has("reward"):
            reward = self._call_float("reward", self._buffer.ctypes.data)
            self._must(math.isfinite(reward), f"reward is {reward}")
            self._must(game.reward(after) == reward, "reward differs between two equal states")
        is_chance_node = over == 0 and game.to_play(after) == NATURE
        self._steps.append((1.0 if is_chance_node else game.discount, reward))
        self._state = after

    def _outcome(self) -> float:
        game, state = self._game, self._state
        outcome = self._call_float("outcome", self._buffer.ctypes.data)
        within = math.isfinite(outcome) and is_within.py_func(outcome, *self._bounds)
        self._must(within, f"outcome is {outcome}, not in {self._span}")
        self._must(game.outcome(state) == outcome, "outcome differs between two equal states")
        opposite = game.outcome(state, 1) == -outcome
        self._must(opposite, "outcome for player 1 is not the opposite of that for player 0")
        return outcome

    def _is_symmetric(self, symmetry: Symmetry) -> bool:
        """Whether the image of the game continues as the game did."""
        game = self._game
        state = mirrored = game.initial_state()
        for action in self._history:
            if sorted(symmetry.actions[game.legal_actions(state)].tolist()) != game.legal_actions(mirrored):
                return False
            state, mirrored = game.play(state, action), game.play(mirrored, int(symmetry.actions[action]))
            if game.planes_shape and game.address("encode"):
                if not np.array_equal(self._planes(state), self._planes(mirrored)[:, symmetry.cells]):
                    return False
        return game.is_over(mirrored) and game.outcome(state) == game.outcome(mirrored)

    def _planes(self, state: State) -> np.ndarray:
        assert self._game.planes_shape is not None
        channels, height, width = self._game.planes_shape
        planes, buffer = buffers(channels * height * width, np.float32), self._game.new_buffer()
        self._game.write(buffer, state)
        self._call("encode", buffer.ctypes.data, planes.ctypes.data)
        return planes.reshape(channels, height * width)
