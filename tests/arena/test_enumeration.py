"""Exact values by enumeration: against plain recursion, the literature, and games that have no such table."""

from __future__ import annotations

import itertools
import math
import signal

import numpy as np
import pytest
from typer.testing import CliRunner

import engram
from engram.arena import enumeration
from engram.arena.enumeration import Enumeration
from engram.arena.exact_values import exact_values
from engram.arena.match import match
from engram.arena.truth.backup_truth import solved_positions, truth
from engram.cli.app import app
from engram.errors import EngramError, InvalidGame, InvalidSpecification, InvalidState, TooLarge
from engram.games.python_game import PythonGame
from engram.games.record import NATURE
from tests.games_for_tests import Heap, WalkPosition, walk


def recursion(game, state, values):
    """The best expected return for player 0, by the definition and without any of the kernel's functions."""
    if game.is_over(state):
        return game.outcome(state)
    key = game.to_play(state), game.render(state), game.hash(state)
    if key not in values:
        after = {}
        for action in game.legal_actions(state):
            child = game.play(state, action)
            chance = not game.is_over(child) and game.to_play(child) == NATURE
            after[action] = game.reward(child) + (1.0 if chance else game.discount) * recursion(game, child, values)
        if game.to_play(state) == NATURE:
            values[key] = math.fsum(
                p * after[a] for p, a in zip(game.probabilities(state), game.legal_actions(state), strict=True)
            )
        else:
            values[key] = max(after.values()) if game.to_play(state) == 0 else min(after.values())
    return values[key]


GAMES = {
    "tic_tac_toe": lambda: engram.game("tic_tac_toe"),
    "hex": lambda: engram.game("hex:3"),
    "dots": lambda: engram.game("dots_and_boxes:rows=2,columns=2"),
    "samegame": lambda: engram.game("same_game:rows=4,columns=4,colours=3,seed=1"),
    "one player": lambda: walk(discount=0.8),
    "two players": lambda: walk(players=2, discount=0.9),
    "no chance": lambda: walk(players=2, chance=False, turns=5),
    "Python, one player": lambda: PythonGame("walk", lambda: WalkPosition(discount=0.8), players=1, num_actions=3,
                                             max_moves=6, bounds=(-12.0, 12.0), discount=0.8),
    "Python, two players": lambda: PythonGame("walk", lambda: WalkPosition(players=2), num_actions=3, max_moves=6,
                                              bounds=(-12.0, 12.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", GAMES)
def test_values_are_those_of_plain_recursion(name):
    game, values = GAMES[name](), {}
    solver = Enumeration(game)
    rng = np.random.default_rng(3)
    for _ in range(12):
        state = game.initial_state()
        while not game.is_over(state):
            assert solver.value(state) == pytest.approx(recursion(game, state, values), abs=1e-6)
            after = solver.action_values(state)
            assert sorted(after) == sorted(game.legal_actions(state))
            if game.to_play(state) != NATURE:
                best = max if game.to_play(state) == 0 else min
                assert best(after.values()) == pytest.approx(solver.value(state), abs=1e-9)
            state = game.play(state, int(rng.choice(game.legal_actions(state))))
        assert solver.value(state) == game.outcome(state)
    assert solver.positions >= len(values)


def test_values_of_the_literature():
    # Tic-tac-toe is a draw and has 5,478 positions, in 958 of which the game is over.
    solver = Enumeration(engram.game("tic_tac_toe"))
    assert solver.value(solver.game.initial_state()) == 0.0
    assert solver.positions == 5478 - 958
    # The second player wins Othello on 4 × 4; the first player wins Hex.
    assert Enumeration(engram.game("othello:4")).value(engram.game("othello:4").initial_state()) == -1.0
    assert Enumeration(engram.game("hex:3")).value(engram.game("hex:3").initial_state()) == 1.0


def test_a_table_is_kept_and_grows():
    game = engram.game("othello:4")
    solver = Enumeration(game)
    solver.value(game.initial_state())
    size = solver.positions
    assert size > 10 * enumeration._FIRST_ENTRIES
    assert solver.value(game.play(game.initial_state(), game.legal_actions(game.initial_state())[0])) in (
        -1.0,
        0.0,
        1.0,
    )
    assert solver.positions == size


class Loop:
    """Two fields; each move goes to the other, or ends the game."""

    def __init__(self):
        self.place, self.over = 0, False

    def legal_actions(self):
        return [] if self.over else [0, 1]

    def play(self, action):
        self.over = action == 1
        self.place = 1 - self.place

    def to_play(self):
        return 0

    def outcome(self):
        return float(self.place)

    def copy(self):
        other = Loop()
        other.place, other.over = self.place, self.over
        return other

    def hash(self):
        return self.place


class Forgetful(Heap):
    """Nim with a hash that leaves out the objects that are left."""

    def hash(self):
        return self.to_play()


def test_games_without_a_table_are_refused():
    for game, words in [
        (PythonGame("loop", Loop, num_actions=2, max_moves=50), "can come again"),
        (engram.game("pig:goal=10"), "can come again"),
        (engram.game("go:2"), "one hash"),
    ]:
        solver = Enumeration(game)
        with pytest.raises(InvalidSpecification, match=words):
            solver.value(game.initial_state())
    with pytest.raises(TooLarge, match="4,096 moves"):
        Enumeration(engram.game("2048")).value(engram.game("2048").initial_state())


def test_a_hash_that_forgets_is_refused():
    game = PythonGame("forgetful", Forgetful, num_actions=3, max_moves=30)
    with pytest.raises(InvalidSpecification, match="one hash"):
        Enumeration(game).value(game.initial_state())


def test_a_refusal_leaves_the_table_right(monkeypatch):
    game = engram.game("hex:4")
    solver = Enumeration(game)
    monkeypatch.setattr(enumeration, "MAX_POSITIONS", 40_000)
    with pytest.raises(TooLarge, match="more than 40,000 positions"):
        solver.value(game.initial_state())
    state = game.play_moves([0, 1, 5, 6, 10, 11, 15])
    assert solver.value(state) == pytest.approx(recursion(game, state, {}))


def test_an_error_of_the_game_passes_and_leaves_the_table_right():
    faulty = True

    class Faulty(WalkPosition):
        def outcome(self):
            if faulty:
                raise ZeroDivisionError("a fault in the rules")
            return super().outcome()

        def copy(self):
            other = Faulty()
            other.__dict__.update(self.__dict__)
            return other

    game = PythonGame("faulty", Faulty, players=1, num_actions=3, max_moves=6, bounds=(-12.0, 12.0))
    solver = Enumeration(game)
    with pytest.raises(ZeroDivisionError):
        solver.value(game.initial_state())
    faulty = False
    assert solver.value(game.initial_state()) == pytest.approx(recursion(game, game.initial_state(), {}))


def test_the_solver_plays_small_games_perfectly():
    game = engram.game("hex:3")
    result = match(game, "solver", "uct", games=20, simulations=50, opening_moves=0, database=":memory:", seed=4)
    assert result.wins >= 10  # the first player wins, in every one of its ten games
    dots = engram.game("dots_and_boxes:rows=2,columns=2")
    exact = exact_values(dots)
    for position in solved_positions(dots, 30, seed=1):
        state = dots.play_moves(position.moves)
        actions, value = exact.best(state)
        assert (tuple(actions), value) == (position.keeping, position.value)


@pytest.mark.parametrize(
    ("name", "moves"), [("tic_tac_toe", [0, 1, 2, 4, 3, 5, 7, 6, 8]), ("dots_and_boxes:1,1", [0, 1, 2, 3])]
)
def test_no_action_is_best_where_the_game_is_over_or_another(name, moves):
    game = engram.game(name)
    exact = exact_values(game)
    with pytest.raises(InvalidState, match="the game is over, so there is no best action"):
        exact.best(game.play_moves(moves))
    with pytest.raises(InvalidState, match=r"this is (not )?a state of"):
        exact.best(engram.game("connect_four").initial_state())


@pytest.mark.parametrize("name", ["dots", "samegame", "two players", "Python, one player"])
def test_truth_of_any_small_game(name):
    game = GAMES[name]()
    positions = solved_positions(game, 8, seed=2)
    values: dict = {}
    for position in positions:
        state = game.play_moves(position.moves)
        assert game.to_play(state) != NATURE
        sign = -1.0 if game.to_play(state) == 1 else 1.0
        assert position.value == pytest.approx(sign * recursion(game, state, values), abs=1e-6)
    few, many = truth(game, ["uct"], [3, 3000], positions=8, seed=2)
    assert many.rmse < few.rmse
    assert many.mistakes <= few.mistakes


def test_positions_are_counted_while_they_are_solved():
    counts: list[int] = []
    solved_positions(engram.game("othello:4"), 3, min_moves=0, solving=counts.append)
    assert counts == sorted(counts)
    assert counts[-1] > 1000


def test_truth_of_a_file(tmp_path):
    file = tmp_path / "sums.py"
    file.write_text(
        "class Sums:\n"
        "    def __init__(self): self.total, self.moves = 0, 0\n"
        "    def legal_actions(self): return [] if self.moves == 6 else [0, 1, 2]\n"
        "    def play(self, action): self.total += action; self.moves += 1\n"
        "    def to_play(self): return self.moves % 2\n"
        "    def outcome(self): return 1.0 if self.total % 3 == 0 else -1.0\n"
        "    def copy(self):\n"
        "        other = Sums(); other.total, other.moves = self.total, self.moves\n"
        "        return other\n"
        "    def hash(self): return self.total * 8 + self.moves\n"
        "import engram\n"
        "sums = engram.PythonGame('sums', Sums, num_actions=3, max_moves=6)\n"
    )
    command = ["truth", "-g", f"{file}:sums", "-r", "average", "-n", "50", "--positions", "10", "--workers", "1"]
    result = CliRunner().invoke(app, [*command, "--min-moves", "1"])
    assert result.exit_code == 0, result.output
    assert "50" in result.output
    refused = CliRunner().invoke(app, [*command, "--min-moves", "9"])
    assert refused.exit_code == 2
    assert isinstance(refused.exception, EngramError | SystemExit)


class Dice:
    """Two wagers of one chance, which a die or a wheel decides; the weights of both round differently."""

    def __init__(self, unit=1.0, rounds=0, pot=0, at=0):
        self.unit, self.rounds, self.pot, self.at = unit, rounds, pot, at

    def legal_actions(self):
        return [] if self.rounds == 4 else [[0, 1], range(6), [0, 1]][self.at]

    def play(self, action):
        if self.at == 0:
            self.at = 1 + action
        else:
            self.pot += action == (5 if self.at == 1 else 0)
            self.at, self.rounds = 0, self.rounds + 1

    def to_play(self):
        return 2 if self.at else 0

    def chance(self):
        return [1] * 6 if self.at == 1 else [1 / 6, 5 / 6]

    def outcome(self):
        return self.unit * self.pot

    def copy(self):
        return Dice(self.unit, self.rounds, self.pot, self.at)

    def __str__(self):
        return f"{self.rounds} {self.pot} {self.at}"


@pytest.mark.parametrize("unit", [1.0, 1e-10])
def test_equal_actions_are_equal_up_to_rounding_in_any_units(unit):
    game = PythonGame("dice", lambda: Dice(unit), num_actions=6, max_moves=8, players=1, bounds=(0, 4 * unit))
    actions, value = exact_values(game).best(game.initial_state())
    assert actions == [0, 1] and value == pytest.approx(4 / 6 * unit, rel=1e-5)
    worse = exact_values(engram.game("same_game:rows=4,columns=4,colours=3,seed=1"))
    state = worse._game.initial_state()
    assert len(worse.best(state)[0]) < len(worse.of_actions(state))


def test_a_full_table_gives_way_to_a_position_that_fits_alone(monkeypatch):
    game = engram.game("hex:4")
    solver = Enumeration(game)
    monkeypatch.setattr(enumeration, "MAX_POSITIONS", 40_000)
    rng, places = np.random.default_rng(1), []
    for _ in range(20):
        moves = rng.permutation(16)[:7].tolist()
        state = game.initial_state()
        for move in moves:
            state = state if game.is_over(state) else game.play(state, move)
        if not game.is_over(state):
            solver.value(state)
            places.append(solver.positions)
    assert any(after < before for before, after in itertools.pairwise(places))  # it was emptied, and went on


class Interrupting(WalkPosition):
    """A walk in whose n-th move Ctrl-C comes."""

    calls, at = 0, 0

    def play(self, action):
        Interrupting.calls += 1
        if Interrupting.calls == Interrupting.at:
            signal.raise_signal(signal.SIGINT)
        super().play(action)

    def copy(self):
        other = Interrupting()
        other.__dict__.update(self.__dict__)
        return other


def test_ctrl_c_ends_a_python_game_and_leaves_no_wrong_value():
    game = PythonGame("walk", Interrupting, players=1, num_actions=3, max_moves=6, bounds=(-12.0, 12.0))
    solver, right = Enumeration(game), {}
    for at in range(1, 90, 8):
        Interrupting.calls, Interrupting.at = 0, at
        with pytest.raises(KeyboardInterrupt):
            solver.value(game.initial_state())
        Interrupting.at = 0
        state = game.initial_state()
        assert solver.value(state) == pytest.approx(recursion(game, state, right), abs=1e-6)
        solver._forget()


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: PythonGame("short", WalkPosition, players=1, num_actions=3, max_moves=3, bounds=(-12.0, 12.0)),
         InvalidGame, "longer than max_moves = 3"),
        (lambda: walk(chance=lambda state, actions, count, weights: 0), InvalidGame, "weights of 0 or more"),
        (lambda: walk(chance=None), InvalidGame, "weights of 0 or more"),
    ],
)  # fmt: skip
def test_a_faulty_game_is_named(make, kind, words):
    game = make()
    if game.has("chance") is False and game.name == "walk":
        game._initial["chance"] = 1  # nature moves, and has no function
    with pytest.raises(kind, match=words):
        Enumeration(game).value(game.initial_state())


def test_games_whose_hash_leaves_out_superko_have_no_table():
    pytest.importorskip("pyspiel")
    with pytest.raises(InvalidSpecification, match="earlier positions"):
        exact_values(engram.game("openspiel:go(board_size=2)"))
