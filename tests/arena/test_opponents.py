"""Random, minimax, alpha-beta and the solver as players: against plain Python, each other, and the truth."""

from __future__ import annotations

import random
import signal
from functools import cache

import numpy as np
import pytest

from engram.arena.depth_search import DepthSearch
from engram.arena.exact_values import line_parameters
from engram.arena.opponents import DepthPlayer
from engram.arena.roster import player
from engram.drivers.limit import Limit
from engram.drivers.result import Choice
from engram.errors import InvalidParameter, InvalidSpecification, InvalidState
from engram.games.catalogue import game as named_game
from engram.games.line.heuristics import heuristic_callback, line_heuristic
from engram.games.line.one_word import line
from engram.games.python_game import PythonGame
from tests.games_for_tests import pick

LIMIT = Limit(simulations=1)


def random_state(game, num_moves, seed):
    rng = random.Random(seed)
    state = game.initial_state()
    for _ in range(num_moves):
        if game.is_over(state):
            break
        state = game.play(state, rng.choice(game.legal_actions(state)))
    return state


# ------------------------------------------------------------------------------------------ heuristics


def grid(game, state):
    """Owners of all cells, row 0 on top: read off the diagram, not off the bits."""
    rows, columns, _, _ = line_parameters(game)
    lines = game.render(state).splitlines()[:rows]
    cells = [text.split()[-columns:] for text in lines]
    return [["XO".find(mark) for mark in row] for row in cells]


def counted(game, state, name):
    cells = grid(game, state)
    rows, columns, run, _ = line_parameters(game)
    difference = 0
    for row in range(rows):
        for column in range(columns):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                for length in range(2, run) if name == "naive" else (run,):
                    places = [(row + k * down, column + k * right) for k in range(length)]
                    if not all(0 <= r < rows and 0 <= c < columns for r, c in places):
                        continue
                    owners = [cells[r][c] for r, c in places]
                    for side, sign in ((0, 1), (1, -1)):
                        if name == "naive":
                            difference += sign * (owners == [side] * length)
                        elif side in owners and 1 - side not in owners:
                            difference += sign * 4 ** (owners.count(side) - 1)
    scale = 8 if name == "naive" else 4 ** (run - 1)
    return 0.99 * difference / (scale + abs(difference))


@pytest.mark.parametrize("name", ["naive", "potential"])
@pytest.mark.parametrize(
    "board",
    [(6, 7, 4, True), (3, 3, 3, False), (5, 9, 5, False), (2, 16, 9, False), (8, 9, 4, True), (11, 10, 5, False)],
)
def test_heuristics_count_what_they_say(board, name):
    game = line(*board)
    callback = heuristic_callback(game, line_heuristic(game, name))
    values = set()
    for seed in range(25):
        state = random_state(game, seed * 3 % (board[0] * board[1]), seed)
        if game.is_over(state):
            continue  # a finished game is never a leaf of the heuristic
        value = callback.from_python(state.ctypes.data)
        assert value == pytest.approx(counted(game, state, name), abs=1e-12)
        assert -1 < value < 1
        values.add(value)
    assert len(values) >= 4


def test_heuristics_count_long_rows():
    game = line(2, 20, 19)
    # X fills 17 cells of the upper row, O as many of the lower one: windows hold more than 15 stones.
    state = game.play_moves([move for column in range(1, 18) for move in (column, 20 + column)])
    state = game.play(state, 20 + 18)
    for name in ("naive", "potential"):
        callback = heuristic_callback(game, line_heuristic(game, name))
        assert callback.from_python(state.ctypes.data) == pytest.approx(counted(game, state, name), abs=1e-12)
        assert counted(game, state, name) != 0


# ------------------------------------------------------------------------------------ search by depth


def plain_minimax(game, state, depth, leaf, ply=0):
    """Value for player 0, and of each action at the root; the definition, in plain Python."""
    if game.is_over(state):
        return game.outcome(state) * (1 - ply * 2.0**-20), {}
    if depth == 0:
        return leaf(state), {}
    values = {
        action: plain_minimax(game, game.play(state, action), depth - 1, leaf, ply + 1)[0]
        for action in game.legal_actions(state)
    }
    return (max if game.to_play(state) == 0 else min)(values.values()), values


def searches(game, depth, heuristic):
    callback = heuristic_callback(game, line_heuristic(game, heuristic)) if heuristic else None
    address = (lambda: callback.address) if callback else (lambda: 0)
    both = [DepthSearch(game, depth, prune=prune, heuristic=address) for prune in (False, True)]
    leaf = (lambda state: callback.from_python(state.ctypes.data)) if callback else (lambda state: 0.0)
    return both, leaf


@pytest.mark.parametrize(
    ("game", "depth", "heuristic", "played"),
    [
        (line(6, 7, 4, True), 3, "naive", 12),
        (line(6, 7, 4, True), 3, "potential", 12),
        (line(8, 9, 4, True), 2, "potential", 10),
        (line(3, 3, 3), 9, "naive", 4),
        (line(4, 4, 3), 3, "naive", 4),
        (pick(), 9, None, 4),
        (named_game("go:3"), 3, None, 4),
    ],
    ids=str,
)
def test_minimax_and_alpha_beta_agree_with_plain_python(game, depth, heuristic, played):
    (minimax, alpha_beta), leaf = searches(game, depth, heuristic)
    fewer = 0
    for seed in range(8):
        state = random_state(game, played, seed)
        if game.is_over(state):
            continue
        value, values = plain_minimax(game, state, depth, leaf)
        sign = 1 if game.to_play(state) == 0 else -1
        best = tuple(action for action, worth in values.items() if worth == value)
        for result in (minimax.run(state), alpha_beta.run(state)):
            assert result.value == sign * value
            assert result.actions == best
        fewer += alpha_beta.run(state).nodes < minimax.run(state).nodes
    assert fewer > 0


def test_alpha_beta_gives_minimax_values_deeper_down():
    game = line(6, 7, 4, True)
    for heuristic in ("naive", "potential"):
        (minimax, alpha_beta), _ = searches(game, 7, heuristic)
        for seed in range(4):
            state = random_state(game, 6 + 4 * seed, seed)
            first, other = minimax.run(state), alpha_beta.run(state)
            assert (first.value, first.actions) == (other.value, other.actions)
            assert other.nodes * 4 < first.nodes


def test_depth_9_plays_tic_tac_toe_perfectly():
    game = line(3, 3, 3)
    search = DepthSearch(game, 9, prune=True)
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]

    @cache
    def solved(board):  # board of "XO.", value for the mover
        mover = "XO"[board.count(".") % 2 == 0]
        if any(board[a] == board[b] == board[c] != "." for a, b, c in lines):
            return -1
        if "." not in board:
            return 0
        return max(-solved(board[:k] + mover + board[k + 1 :]) for k in range(9) if board[k] == ".")

    states, boards = [(game.initial_state(), "." * 9)], {"." * 9}
    for state, board in states:
        if game.is_over(state):
            continue
        result = search.run(state)
        assert np.sign(result.value) == solved(board)
        mover = "XO"[board.count(".") % 2 == 0]
        for action in game.legal_actions(state):
            after = board[:action] + mover + board[action + 1 :]
            assert action not in result.actions or -solved(after) == solved(board)
            if after not in boards:
                boards.add(after)
                states.append((game.play(state, action), after))
    assert len(boards) == 5478


def test_a_win_is_taken_at_once_and_a_loss_put_off():
    game = line(6, 7, 4, True)
    near = game.play_moves("4 1 4 1 4 2")
    assert player(game, "alpha_beta(depth=7)").choose(near, LIMIT, 0).action == 3
    threatened = game.play_moves("1 4 1 4 7 4")
    assert player(game, "minimax(depth=4)").choose(threatened, LIMIT, 0).action == 3


def test_the_seed_decides_between_equals_and_nothing_else():
    game = named_game("connect_four")
    opponent = player(game, "minimax(depth=2)")
    state = game.initial_state()
    best = opponent.search.run(state).actions
    actions = [opponent.choose(state, LIMIT, seed).action for seed in range(60)]
    assert set(actions) == set(best)
    assert len(best) > 1
    assert actions == [opponent.choose(state, LIMIT, seed).action for seed in range(60)]


def test_random_is_uniform():
    game = named_game("connect_four")
    opponent = player(game, "random")
    state = game.play_moves("1 1 1 1 1 1")
    counts = np.bincount([opponent.choose(state, LIMIT, seed).action for seed in range(3000)], minlength=7)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 500).max() < 5 * np.sqrt(500)


def test_the_solver_plays_only_best_moves():
    game = line(4, 4, 3, True)
    solver, reader = player(game, "solver"), DepthSearch(game, 16, prune=True)
    for seed in range(6):
        state = random_state(game, 4, seed)
        if game.is_over(state):
            continue
        choice = solver.choose(state, LIMIT, seed)
        assert choice.action in reader.run(state).actions  # the quickest win or the slowest loss, by both
        assert choice.value == np.sign(reader.run(state).value)
    pig = named_game("pig:goal=10")
    with pytest.raises(InvalidSpecification, match="can come again"):
        player(pig, "solver").choose(pig.initial_state(), LIMIT, 0)


# ---------------------------------------------------------------------------------- Python games


class Nim:
    """One heap, take 1 to 3, who takes the last wins; lost for the mover exactly at multiples of 4."""

    def __init__(self, heap=7):
        self.heap, self.player = heap, 0

    def legal_actions(self):
        return list(range(min(3, self.heap)))

    def play(self, action):
        self.heap -= action + 1
        self.player ^= 1

    def to_play(self):
        return self.player

    def outcome(self):
        return 1.0 if self.player == 1 else -1.0

    def copy(self):
        twin = Nim(self.heap)
        twin.player = self.player
        return twin

    def __str__(self):
        return f"{self.heap} {self.player}"


def nim():
    return PythonGame("nim", Nim, num_actions=3, max_moves=30)


def test_a_python_game_is_searched_by_the_same_code():
    for prune in (False, True):
        for heap in range(1, 12):
            result = DepthSearch(nim(), 12, prune=prune).run(Nim(heap))
            assert (result.value > 0) == (heap % 4 != 0)
            if heap % 4:
                assert result.actions == (heap % 4 - 1,)


def test_a_python_heuristic_is_asked_at_the_leaves_and_its_error_comes_through():
    heaps = []

    def seen(state):
        heaps.append(state.heap)
        return 0.1 * state.heap / 30

    result = DepthPlayer(nim(), depth=1, prune=True, heuristic=seen).choose(Nim(20), LIMIT, 0)
    assert sorted(heaps) == [17, 18, 19]
    assert result.action == 0  # player 0 maximises, and 19 stones are worth most to it

    def broken(state):
        raise ZeroDivisionError("a heuristic of the test")

    opponent = DepthPlayer(nim(), depth=2, prune=True, heuristic=broken)
    with pytest.raises(ZeroDivisionError, match="of the test"):
        opponent.choose(Nim(20), LIMIT, 0)


def test_a_python_game_that_fails_in_the_search_says_its_own_error():
    class Broken(Nim):
        def play(self, action):
            raise LookupError("a game of the test")

        def copy(self):
            return Broken(self.heap)

    game = PythonGame("broken", Broken, num_actions=3, max_moves=30)
    with pytest.raises(LookupError, match="of the test"):
        DepthSearch(game, 3, prune=True).run(Broken(5))


# --------------------------------------------------------------------------------- limits and names


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer signal")
def test_a_deep_search_can_be_interrupted():
    search = DepthSearch(named_game("gomoku:9"), 20, prune=False)
    search.warm_up()

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):  # to its end it would take years
            search.run(search.game.initial_state())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # The search is whole again afterwards.
    assert DepthSearch(search.game, 1, prune=True).run(search.game.initial_state()).nodes == 81


def test_ties_fall_to_the_seed_or_to_the_first():
    game = named_game("connect_four")
    state = game.play_moves("2 2 3 3 4")  # an open three: every answer loses within two plies: all are equal
    by_seed = {player(game, "minimax(depth=2)").choose(state, LIMIT, seed).action for seed in range(40)}
    first = {player(game, "minimax(depth=2, ties=first)").choose(state, LIMIT, seed).action for seed in range(5)}
    assert len(by_seed) > 1 and first == {min(by_seed)}
    with pytest.raises(InvalidSpecification, match="ties must be random or first"):
        player(game, "minimax(ties=last)")


def test_names_and_options():
    game = named_game("connect_four")
    assert player(game, "minimax(3)").text == "minimax(depth=3, heuristic=naive)"
    assert player(game, "alpha_beta(heuristic=potential)").text == "alpha_beta(depth=6, heuristic=potential)"
    assert player(named_game("go:5"), "minimax").text == "minimax(depth=4, heuristic=zero)"
    assert player(game, player(game, "alpha_beta").text).text == player(game, "alpha_beta").text
    for text, says in (
        ("alphabeta", "did you mean 'alpha_beta'"),
        ("minmax(depth=4)", "did you mean 'minimax'"),
        ("uctt", "did you mean 'uct'"),
        ("solvr", "did you mean 'solver'"),
        ("minimax(dept=4)", "did you mean 'depth'"),
        ("minimax(depth=four)", "whole number"),
        ("alpha_beta(heuristic=potentia)", "did you mean 'potential'"),
        ("nowhere.py:x", "no file"),
    ):
        with pytest.raises(InvalidSpecification, match=says):
            player(game, text)
    with pytest.raises(InvalidSpecification, match="heuristic 'naive'"):
        player(named_game("go:5"), "minimax(heuristic=naive)")
    for depth in (0, 101, -3):
        with pytest.raises(InvalidParameter, match="1 to 100"):
            player(game, f"minimax(depth={depth})")


def test_a_finished_game_is_refused():
    game = named_game("connect_four")
    over = game.play_moves("1 2 1 2 1 2 1")
    with pytest.raises(InvalidState, match="over"):
        player(game, "minimax").choose(over, LIMIT, 0)


def test_players_from_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from engram.presets import uct\n"
        "def narrow(*, exploration: float = 0.2):\n    return uct(exploration=exploration)\n"
        "class First:\n"
        "    def __init__(self, game, bonus=0):\n        self.game, self.bonus = game, bonus\n"
        "    def choose(self, state, limit, seed):\n"
        "        return self.game.legal_actions(state)[self.bonus]\n"
        "ready = uct(exploration=0.7)\n"
        "number = 3\n"
    )
    game = named_game("connect_four")
    state = game.initial_state()
    assert player(game, f"{file}:First(bonus=2)").choose(state, LIMIT, 0).action == 2
    assert isinstance(player(game, f"{file}:First").choose(state, LIMIT, 0), Choice)
    for text in (f"{file}:narrow(exploration=0.3)", f"{file}:narrow", f"{file}:ready"):
        opponent = player(game, text)
        assert opponent.text == text
        assert opponent.choose(state, Limit(simulations=20), 0).simulations == 20
    for text, says in (
        (f"{file}:Firs", "did you mean 'First'"),
        (f"{file}:First(bonu=1)", "did you mean 'bonus'"),
        (f"{file}:narrow(exploratio=1)", "did you mean 'exploration'"),
        (f"{file}:number", "neither a preset nor a player"),
    ):
        with pytest.raises(InvalidSpecification, match=says):
            player(game, text)
