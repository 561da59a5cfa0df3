"""Does a game keep its contract? Random play through every function, compiled and as methods."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from engram.errors import InvalidGame
from engram.games.game import SLACK, Game, State
from engram.games.symmetry import Symmetry
from engram.native.intrinsics import call, call_float
from engram.native.jit import compiled
from engram.rng import derive_seed, new_rng


@dataclass(frozen=True)
class CheckReport:
    """What `check_game` saw: games played, moves in them, and the share won by each player."""

    game: str
    games: int
    moves: int
    longest: int
    first_wins: int
    second_wins: int
    draws: int

    def __str__(self) -> str:
        return (
            f"{self.game}: {self.games} random games of {self.moves / self.games:.1f} moves (longest {self.longest}), "
            f"first player {self.first_wins} won, second {self.second_wins}, {self.draws} drawn; contract kept"
        )


@compiled
def _call_1(address, first):
    return call(address, (first,))


@compiled
def _call_2(address, first, second):
    return call(address, (first, second))


@compiled
def _value_1(address, first):
    return call_float(address, (first,))


@compiled
def _value_2(address, first, second):
    return call_float(address, (first, second))


@compiled
def _value_3(address, first, second, third):
    return call_float(address, (first, second, third))


@compiled
def _call_4(address, first, second, third, fourth):
    return call(address, (first, second, third, fourth))


def check_game(game: Game, games: int = 50, seed: int = 0) -> CheckReport:
    """Plays random games through every function of a game and checks what a search relies on.

    Args:
      game: compiled or plain Python. games: how many, ≥ 1. seed: of the random moves.

    Returns: a report of what was played.

    Raises:
      InvalidGame: the contract is broken; the sentence says what, and after which moves.

    Cost: some milliseconds a game, beside compiling.
    """
    chosen = random.Random(derive_seed("check", game.name, seed))
    rng = new_rng(seed)
    moves = longest = 0
    results = {1: 0, -1: 0, 0: 0}
    seen: set[str] = set()
    hashes: dict[int, int] = {}
    canonical: dict[int, tuple[int, float | None]] = {}
    for _ in range(games):
        played, outcome = _one_game(game, chosen, rng, seen, hashes, canonical)
        moves += played
        longest = max(longest, played)
        results[int(np.sign(outcome))] += 1
    return CheckReport(game.name, games, moves, longest, results[1], results[-1], results[0])


def _one_game(
    game: Game,
    chosen: random.Random,
    rng: np.ndarray,
    seen: set[str],
    hashes: dict[int, int],
    canonical: dict[int, tuple[int, float | None]],
) -> tuple[int, float]:
    state = game.initial_state()
    buffer, copied = game.new_buffer(), game.new_buffer()
    actions = np.full(game.num_actions + SLACK, -7, np.int32)
    history: list[int] = []

    def must(holds: bool, what: str) -> None:
        game.raise_pending()
        if not holds:
            line = " ".join(game.move_names(history)) or "no moves"
            raise InvalidGame(f"{game.name}: {what} (after {line})")

    def copy_again() -> None:
        if game.address("copy"):
            must(_call_2(game.address("copy"), copied.ctypes.data, buffer.ctypes.data) >= 0, "copy failed")
        else:
            copied[:] = buffer

    game.write(buffer, state)
    while True:
        count = _call_2(game.address("legal_actions"), buffer.ctypes.data, actions.ctypes.data)
        must(0 <= count <= game.num_actions, f"legal_actions gave {count} actions of {game.num_actions}")
        legal = actions[:count].tolist()
        must((actions[game.num_actions :] == -7).all(), "legal_actions wrote behind its buffer")
        must(len(set(legal)) == count, "legal_actions names an action twice")
        must(all(0 <= action < game.num_actions for action in legal), "legal_actions names an action out of range")
        must(sorted(legal) == game.legal_actions(state), "legal_actions depends on more than the state")
        player = _call_1(game.address("to_play"), buffer.ctypes.data)
        must(player in (0, 1), f"to_play is {player}, not 0 or 1")
        must(game.hash(state) == game.hash(game.read(buffer)), "equal positions have different hashes")
        copy_again()
        must(game.hash(game.read(copied)) == game.hash(state), "a copy has another hash than its original")
        key = game.canonical_hash(game.read(copied))
        must(hashes.setdefault(game.hash(state), key) == key, "canonical_hash differs between positions of equal hash")
        ended = game.outcome(state) if count == 0 else None
        known_player, known_outcome = canonical.get(key, (player, ended))
        must(known_player == player, "canonical_hash is the same for positions with different players to move")
        must(
            None in (ended, known_outcome) or ended == known_outcome,
            "canonical_hash is the same for positions with different outcomes",
        )
        canonical[key] = player, known_outcome if ended is None else ended
        if count == 0:
            break
        legal_before = game.legal_actions(state)
        _call_2(game.address("play"), copied.ctypes.data, legal[0])
        must(
            game.legal_actions(state) == legal_before,
            "a copy shares something with its original: playing on it changed both",
        )
        if game.address("local_pattern"):
            after = game.hash(game.read(copied))
            around = {_call_2(game.address("local_pattern"), copied.ctypes.data, legal[0]) for _ in range(2)}
            must(len(around) == 1, "local_pattern differs from call to call")
            must(game.hash(game.read(copied)) == after, "local_pattern changes the state")
        seen.add(game.render(state))
        must(
            len(hashes) * 10 >= len(seen),
            f"hash tells only {len(hashes)} of {len(seen)} different positions apart (memories and tree reuse need it)",
        )
        must(
            len(canonical) * max(16, 4 * len(game.symmetries)) >= len(hashes),
            f"canonical_hash tells only {len(canonical)} of {len(hashes)} positions apart",
        )
        must(len(history) < game.max_moves, f"the game is longer than max_moves = {game.max_moves}")
        for policy in ("rollout", "heavy_rollout"):
            if game.address(policy):
                copy_again()
                before_rng = np.array(rng)
                value = _value_2(game.address(policy), copied.ctypes.data, rng.ctypes.data)
                must(-1.0 <= value <= 1.0, f"{policy} gave {value}, not a value in [-1, 1]")
                must(game.hash(game.read(buffer)) == game.hash(state), f"a {policy} on a copy changed the original")
            if game.address(policy + "_moves"):
                copy_again()
                twin, moves = before_rng, np.full(game.max_moves + SLACK, -7, np.int32)
                moves[0] = game.max_moves
                again = _value_3(
                    game.address(policy + "_moves"), copied.ctypes.data, twin.ctypes.data, moves.ctypes.data
                )
                written = moves[1 : 1 + max(0, min(int(moves[0]), game.max_moves))]
                must(again == value and (twin == rng).all(), f"{policy}_moves plays another game than {policy}")
                must((moves[1 + game.max_moves :] == -7).all(), f"{policy}_moves wrote behind its buffer")
                must(
                    bool(((written >= 0) & (written < 2 * game.num_actions)).all()),
                    f"{policy}_moves wrote what is no move",
                )
        if game.address("prior"):
            copy_again()
            weights, those = np.zeros(game.num_actions, np.float32), np.array(legal, np.int32)
            where = (copied.ctypes.data, those.ctypes.data, len(legal), weights.ctypes.data)
            answer = _call_4(game.address("prior"), *where)
            must(answer == 0 and bool((weights >= 0).all() and np.isfinite(weights).all()), "prior gave no weights ≥ 0")
        action = chosen.choice(legal)
        name = game.action_name(action, state)
        must(game.parse_action(name, state) == action, f"the action written {name!r} is read as another one")
        before = game.hash(state)
        after = game.play(state, action)
        must(game.hash(state) == before, "play as a method changed the state it was given")
        over = _call_2(game.address("play"), buffer.ctypes.data, action)
        history.append(action)
        must(over in (0, 1), f"play returned {over}, not 0 or 1")
        state = after
        must((over == 1) == game.is_over(state), "play and legal_actions disagree on whether the game is over")
    must(bool(history), "the initial state is already over")
    outcome = _value_1(game.address("outcome"), buffer.ctypes.data)
    must(-1.0 <= outcome <= 1.0, f"outcome is {outcome}, not in [-1, 1]")
    must(game.outcome(state) == outcome, "outcome differs between two equal states")
    must(game.outcome(state, 1) == -outcome, "outcome for player 1 is not the opposite of that for player 0")
    if len(game.symmetries) > 1:
        symmetry = chosen.choice(game.symmetries[1:])
        must(_is_symmetric(game, symmetry, history), "a symmetry changes the game: legal moves, planes or end")
    return len(history), outcome


def _is_symmetric(game: Game, symmetry: Symmetry, history: list[int]) -> bool:
    """Whether a turned game goes on as the game did."""
    state = turned = game.initial_state()
    for action in history:
        if sorted(symmetry.actions[game.legal_actions(state)].tolist()) != game.legal_actions(turned):
            return False
        state, turned = game.play(state, action), game.play(turned, int(symmetry.actions[action]))
        seen = [_planes(game, one) for one in (state, turned)]
        if not np.array_equal(seen[0], seen[1][:, symmetry.cells]):
            return False
    return game.outcome(state) == game.outcome(turned)


def _planes(game: Game, state: State) -> np.ndarray:
    assert game.planes_shape is not None
    channels, height, width = game.planes_shape
    planes = np.zeros((channels, height * width), np.float32)
    if game.address("encode"):
        buffer = game.new_buffer()
        game.write(buffer, state)
        _call_2(game.address("encode"), buffer.ctypes.data, planes.ctypes.data)
    return planes
