"""Every game keeps the contract, and `check_game` finds those that do not."""

from __future__ import annotations

import functools
import math
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import engram
from engram.conformance.game_contract import try_game
from engram.errors import (
    IllegalAction,
    InvalidGame,
    InvalidParameter,
    InvalidSpecification,
    InvalidState,
    OperatorError,
)
from engram.games.catalogue import GAMES
from tests import games_for_tests

EXAMPLES = Path(__file__).parents[2] / "examples"
BOARD_GAMES = {"othello", "hex", "breakthrough", "dots_and_boxes", "p_game", "pig", "2048", "same_game", "backgammon"}
TEXTS = [
    "tic_tac_toe",
    "connect_four",
    "gomoku:9",
    "gomoku:19",
    "line:rows=4,columns=5,run=3,gravity=true",
    "line:rows=5,columns=14,run=4,gravity=true",
    "go:2",
    "go:5",
    "go:9,komi=5",
    "go:25",
    "othello:4",
    "othello:8",
    "hex:11",
    "breakthrough:5",
    "dots_and_boxes:rows=2,columns=3",
    "p_game:branching=3,depth=6",
    f"{EXAMPLES}/hex.py:hex(size=4)",
    f"{EXAMPLES}/hex.py:hex(size=11)",
    f"{EXAMPLES}/nim.py:nim",
]


@pytest.mark.parametrize("text", TEXTS)
def test_games_keep_the_contract(text):
    games = {"go:25": 1, "gomoku:19": 8}.get(text, 20)  # a game of go:25 has 900 moves
    report = engram.check_game(engram.game(text), games=games, seed=3)
    assert report.games == games
    assert report.first_wins + report.second_wins + report.draws == games
    assert 0 < report.longest <= engram.game(text).max_moves


def one_heap(**changes):
    """Nim with one heap of 10, one part of it replaced."""
    state = np.zeros(1, np.dtype([("left", np.int64), ("player", np.int64)]))
    state["left"] = 10

    def legal_actions(state, actions):
        count = min(state.left, 3)
        for action in range(count):
            actions[action] = action
        return count

    def play(state, action):
        state.left -= action + 1
        state.player = 1 - state.player
        return np.int64(state.left == 0)

    def outcome(state):
        return 1.0 if state.player == 1 else -1.0

    def to_play(state):
        return state.player

    def position_hash(state):
        return np.uint64(state.left * 2 + state.player)

    parts = {
        "state": state,
        "num_actions": 3,
        "max_moves": 10,
        "legal_actions": legal_actions,
        "play": play,
        "outcome": outcome,
        "to_play": to_play,
        "hash": position_hash,
    }
    return engram.Game("nim", **(parts | changes))


def test_a_game_of_functions_inside_a_function_works():
    assert "contract kept" in str(engram.check_game(one_heap()))
    result = engram.Search(one_heap(), "uct").run(one_heap().initial_state(), engram.Limit(simulations=2000))
    assert result.action == 1  # leaves 8, a multiple of 4


def never_over(state, action):
    state.left -= action + 1
    state.player = 1 - state.player
    return np.int64(0)


def test_the_error_of_a_long_game_names_its_last_moves():
    def waiting(state, action):
        state.player = 1 - state.player
        return np.int64(0)

    with pytest.raises(InvalidGame, match=r"longer than max_moves = 25 \(after 25 moves, the last 10:(?: \d){10}\)$"):
        engram.check_game(one_heap(play=waiting, max_moves=25))


def too_good(state):
    return 3.0


def twice(state, actions):
    count = min(state.left, 2)
    for action in range(count):
        actions[action] = 0
    return count


def third_player(state):
    return np.int64(2)


def endless(state):
    return np.nan


def paid_at_once(state):
    return 1.0


def blind(state):
    return np.uint64(7)


def forgetful_rollout(state, rng):
    return 5.0


def numpys_rollout(state, rng):
    return np.random.random()


def turning_prior(state, actions, count, weights):
    state.player = 1 - state.player
    return 0


def copy_without_player(target, source):
    target.left = source.left
    return 0


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"play": never_over}, "disagree"),
        ({"outcome": too_good}, "not in"),
        ({"legal_actions": twice}, "twice"),
        ({"to_play": third_player}, "to_play"),
        ({"rollout": forgetful_rollout}, "rollout"),
        ({"rollout": numpys_rollout}, "rollout draws by other random numbers than `rng`"),
        ({"heavy_rollout": numpys_rollout}, "heavy_rollout draws by other random numbers"),
        ({"prior": turning_prior}, "prior changes the state"),
        ({"max_moves": 3}, "max_moves"),
        ({"num_actions": 2}, "actions"),
        ({"outcome": endless}, "outcome is nan, not a finite number"),
        ({"reward": paid_at_once}, "reward is 1, and before any move it is 0"),
        ({"hash": blind}, "hash is the same for positions with different"),
        ({"copy": copy_without_player}, "a copy has another hash than its original"),
    ],
)
def test_broken_games_are_found(changes, word):
    with pytest.raises(InvalidGame, match=word):
        engram.check_game(one_heap(**changes))


class Heaps:
    """Nim of several heaps: the last to take wins."""

    def __init__(self, heaps=(1, 3, 4), player=0):
        self.heaps, self.player = list(heaps), player

    def legal_actions(self):
        return [5 * heap + count for heap, left in enumerate(self.heaps) for count in range(1, left + 1)]

    def play(self, action):
        self.heaps[action // 5] -= action % 5
        self.player = 1 - self.player

    def to_play(self):
        return self.player

    def outcome(self):
        return 1.0 if self.player else -1.0

    def copy(self):
        return type(self)(self.heaps, self.player)


class Heap(Heaps):
    """Its hash takes the heaps for one."""

    def hash(self):
        return 2 * sum(self.heaps) + self.player


class Ones(Heaps):
    """Eight heaps of one; which ones are left is of no account."""

    def __init__(self, heaps=(1,) * 8, player=0):
        super().__init__(heaps, player)

    def canonical_hash(self):
        return 2 * sum(self.heaps) + self.player


def heaps(state, **options):
    return engram.PythonGame("heaps", state, num_actions=40, max_moves=20, **options)


def test_a_diagram_may_change_its_record_and_is_a_text():
    def render(state):
        state["left"] = -1
        return str(state["left"])

    game = one_heap(render=render)
    state = game.initial_state()
    assert game.render(state) == str(state) == "-1" and state["left"] == 10
    with pytest.raises(InvalidGame, match="nim: render must return a text, not 10"):
        engram.check_game(one_heap(render=lambda state: int(state["left"])))


def test_a_plain_game_whose_rollout_ignores_its_seed_is_found():
    with pytest.raises(InvalidGame, match="rollout draws by other random numbers than `seed`"):
        engram.check_game(heaps(Heaps, rollout=lambda state, seed: random.random()))


def test_a_hash_tells_positions_of_different_moves_apart():
    engram.check_game(heaps(Heaps))
    with pytest.raises(InvalidGame, match="hash is the same for positions with different legal moves"):
        engram.check_game(heaps(Heap))


def test_a_canonical_hash_may_stand_for_many_images():
    engram.check_game(heaps(Ones))


def test_an_end_of_its_own_must_agree_with_the_legal_moves():
    engram.check_game(heaps(Heaps, is_over=lambda state: sum(state.heaps) == 0))
    with pytest.raises(InvalidGame, match=r"is_over and legal_actions disagree on .* \(after .*\d"):
        engram.check_game(heaps(Heaps, is_over=lambda state: sum(state.heaps) <= 1))


def test_an_error_of_the_game_itself_says_after_which_moves():
    state = type("Rich", (Heaps,), {"outcome": lambda self: 3.0})
    with pytest.raises(InvalidGame, match=r"outcome 3.0 is not in .* \(after no moves, in a random game from there\)$"):
        engram.check_game(heaps(state))


def encoder_of_pasts(count, number, places, later=0):
    """Writes `number` to `places` - 2·(2 - steps) places; returns `count` - 2·(2 - steps), and `later` more in time."""

    def encode_history(state, planes, steps):
        fewer = 2 * (2 - steps)
        for place in range(places - fewer):
            planes[place] = number
        return np.int64(count - fewer + (later if state.left < 6 else 0))

    return encode_history


@pytest.mark.parametrize(
    ("encoder", "word"),
    [
        ((14, 1.0, 14), None),
        ((15, 1.0, 14), "encode_history gave 1[15] planes, not 1 to 1[04]"),
        ((4, 1.0, 14), "encode_history gave 0 planes"),
        ((3, 1.0, 14), "encode_history failed"),
        ((14, 1.0, 15), "encode_history wrote beyond its buffer"),
        ((14, np.nan, 6), "encode_history wrote a number that is not finite"),
        ((12, 1.0, 14, 1), "encode_history gave (9|13) planes, and before (8|12)"),
    ],
)
def test_planes_of_earlier_positions_are_checked(encoder, word):
    # With two earlier positions there is room for 2·3 + 8 planes, with none for 10.
    encode_history = encoder_of_pasts(*encoder)
    game = one_heap(encode_history=encode_history, max_history=2, planes_shape=(1, 1, 1))
    if word is None:
        engram.check_game(game)
    else:
        with pytest.raises(InvalidGame, match=word):
            engram.check_game(game)


def raising(state, action):
    if state.left < 8:
        raise ValueError("nothing left")
    state.left -= action + 1
    state.player = 1 - state.player
    return np.int64(state.left == 0)


def test_an_exception_of_a_compiled_game_reaches_the_caller_with_its_line():
    game = one_heap(play=raising)
    line = raising.__code__.co_firstlineno + 2
    sentence = rf"test_contract.py:{line} raising raised ValueError: nothing left"
    with pytest.raises(OperatorError, match=sentence):
        engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=2000))
    with pytest.raises(OperatorError, match=sentence):
        game.play_moves([2, 2])


@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"threads": 2, "parallel": "root"}])
def test_an_exception_of_a_compiled_game_is_its_own_searchs_alone(options):
    """Others that search in other threads must not get it."""
    sound, limit = one_heap(), engram.Limit(simulations=300)
    failing = engram.Search(one_heap(play=raising), "uct", **options)
    searches = [engram.Search(sound, "uct") for _ in range(100)]
    with ThreadPoolExecutor(1) as pool:
        others = [pool.submit(search.run, sound.initial_state(), limit) for search in searches]
        while not others[-1].done():
            with pytest.raises(OperatorError, match="raising raised ValueError: nothing left"):
                failing.run(failing.game.initial_state(), engram.Limit(simulations=2000))
        assert all(other.result().simulations == 300 for other in others)


def seven(state):
    return np.int64(7)


def test_a_search_names_the_function_of_a_game_that_fails():
    for changes, sentence in (
        ({"to_play": seven}, r"test_contract.py:\d+ seven gave a number that is not 0 or 1"),
        ({"to_play": third_player}, r"test_contract.py:\d+ third_player gave a number that is not 0 or 1"),
        ({"outcome": too_good}, r"a random game by legal_actions, play and outcome failed, or gave a number outside"),
        ({"rollout": forgetful_rollout}, r"test_contract.py:\d+ forgetful_rollout gave a number outside \[-1, 1\]"),
    ):
        game = one_heap(**changes)
        with pytest.raises(OperatorError, match=sentence):
            engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=200))


class Twins:
    """A Python game with three faults, one at a time."""

    def __init__(self, player=0, actions=(0, 1), moves=9):
        self.player, self.actions, self.moves = player, actions, moves

    def legal_actions(self):
        return list(self.actions) if self.moves else []

    def play(self, action):
        self.moves -= 1

    def to_play(self):
        return self.player

    def outcome(self):
        return 0.0

    def copy(self):
        return Twins(self.player, self.actions, self.moves)


@pytest.mark.parametrize(
    ("state", "word"),
    [(Twins(player=7), "to_play is 7"), (Twins(actions=(1, 1)), "twice"), (Twins(moves=-1), "longer than max_moves")],
)
def test_a_search_refuses_a_python_game_as_check_game_does(state, word):
    game = engram.PythonGame("twins", state.copy, num_actions=2, max_moves=9)
    with pytest.raises(InvalidGame, match=word):
        engram.Search(game, "uct").run(state, engram.Limit(simulations=50))


def test_a_move_is_played_by_its_name_and_a_state_prints_as_its_board():
    game = engram.game("connect_four")
    state = game.play(game.initial_state(), "4")
    assert game.same(state, game.play(game.initial_state(), 3))
    assert str(state) == f"{state}" == game.render(state) == str(state.copy())
    assert type(state["stones"]) is np.ndarray
    for move in ("9", 2.5, None, True, 7):
        with pytest.raises(IllegalAction, match="connect_four: "):
            game.play(state, move)
    python_game = engram.PythonGame("twins", Twins, num_actions=2, max_moves=9)
    assert python_game.play(Twins(), "1").player == 0
    with pytest.raises(IllegalAction, match="no action is written"):
        python_game.play(Twins(), "7")


def test_a_game_of_impossible_size_is_refused():
    with pytest.raises(InvalidGame, match="num_actions"):
        one_heap(num_actions=70_000)
    with pytest.raises(InvalidGame, match="record"):
        one_heap(state=np.zeros(3))
    with pytest.raises(InvalidGame, match=r"max_moves must be a whole number, 1 to 100,000,000, not 12.5"):
        one_heap(max_moves=12.5)
    with pytest.raises(InvalidGame, match=r"chance must be a function, not \[1, 2, 1\]"):
        one_heap(chance=[1, 2, 1])
    with pytest.raises(InvalidGame, match="is_over must be a function, not 5"):
        engram.PythonGame("twins", Twins, num_actions=2, max_moves=9, is_over=5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"legal_actions": None}, "the function legal_actions is missing"),
        ({"constants": "taken"}, None), ({"constants": "taek"}, "names of the state's fields, not 'taek'"),
        ({"constants": ["taken"], "sizes": ["width"]}, "names of the state's fields, not 'width'"),
        ({"scene": 3}, "scene must be a Scene, not 3"), ({"action_names": list(range(9))}, "are texts"),
        ({"render": "x"}, "render must be a function"), ({"sound": 3}, "sound must be a function"),
        ({"planes_shape": (1, 3, 3)}, "planes_shape and encode"), ({"discount": np.float32(0.5)}, None),
        ({"discount": "0.5"}, "discount must be above 0"),
        ({"state": np.zeros((), [("taken", np.float16), ("player", np.int64)])}, "make the state's field float32"),
    ],
)  # fmt: skip
def test_what_describes_a_game_is_checked_when_it_is_made(changes, sentence):
    if sentence is None:
        assert games_for_tests.pick(**changes).num_actions == 9
    else:
        with pytest.raises(InvalidGame, match=sentence):
            games_for_tests.pick(**changes)


def test_planes_of_a_python_game_need_their_encoder():
    for options in ({"planes_shape": (1, 1, 1)}, {"encode": lambda state: [0.0]}):
        with pytest.raises(InvalidGame, match="planes_shape and encode"):
            engram.PythonGame("twins", Twins, num_actions=2, max_moves=9, **options)


def test_an_outcome_is_that_of_player_0_or_1():
    compiled, python = (
        engram.game("tic_tac_toe"),
        engram.PythonGame("heap", games_for_tests.Heap, num_actions=2, max_moves=9),
    )
    for game, moves in ((compiled, [0, 3, 1, 4, 2]), (python, [1, 1, 1, 0])):
        end = game.play_moves(moves)
        assert game.outcome(end, np.int64(1)) == -game.outcome(end) != 0
        for player in (2, -1, None, "0", True):
            with pytest.raises(InvalidParameter, match="player must be a whole number, 0 to 1"):
                game.outcome(end, player)


def test_a_state_of_another_kind_is_not_sound():
    python = engram.PythonGame("heap", games_for_tests.Heap, num_actions=2, max_moves=9)
    for game in (one_heap(), python):
        assert game.is_sound(game.initial_state()) and not game.is_sound(3)
        with pytest.raises(InvalidState):
            game.render(3)


def test_nature_draws_by_a_share():
    game = engram.game("pig")
    state = game.play_moves(game.legal_actions(game.initial_state())[:1])
    for number in (math.nan, -0.1, 1.0):
        with pytest.raises(InvalidParameter, match="a number in"):
            game.drawn(state, number)


def test_what_is_no_diagram_or_no_number_of_games_is_refused():
    with pytest.raises(InvalidState, match="a diagram is a text, not 5"):
        engram.game("connect_four").parse_state(5)
    with pytest.raises(InvalidParameter, match="games must be a whole number, 1 or more"):
        engram.check_game("tic_tac_toe", games=0)
    with pytest.raises(InvalidParameter, match="seed must be a whole number"):
        engram.check_game("tic_tac_toe", seed=None)
    assert engram.check_game("tic_tac_toe", 3, np.int64(3)) == engram.check_game("tic_tac_toe", 3, 3)


def test_states_of_another_game_are_refused():
    game = engram.game("connect_four")
    with pytest.raises(InvalidState, match="connect_four"):
        game.legal_actions(one_heap().initial_state())
    with pytest.raises(InvalidState, match="not over"):
        game.outcome(game.initial_state())


def test_names_and_their_typos():
    assert engram.game("connect_four") is engram.game(" connect_four ")
    assert engram.game("go:9") is engram.game("go(size=9)")
    with pytest.raises(InvalidSpecification, match="connect_four"):
        engram.game("conect_four")
    with pytest.raises(InvalidSpecification, match="komi"):
        engram.game("go:9,comi=7")
    with pytest.raises(InvalidSpecification, match="no file"):
        engram.game("nowhere.py:game")
    with pytest.raises(InvalidSpecification, match="hex"):
        engram.game(f"{EXAMPLES}/hex.py:hax")
    assert set(GAMES) == {"tic_tac_toe", "connect_four", "gomoku", "line", "go", "openspiel", "gymnasium", *BOARD_GAMES}


class Broken:
    """A Python game whose play fails at the third move."""

    def __init__(self):
        self.moves = 0

    def legal_actions(self):
        return [0, 1]

    def play(self, action):
        self.moves += 1
        if self.moves > 2:
            raise RuntimeError("the third move")

    def to_play(self):
        return self.moves % 2

    def outcome(self):
        return 0.0

    def copy(self):
        other = Broken()
        other.moves = self.moves
        return other


def test_an_exception_in_a_python_game_reaches_the_caller():
    game = engram.PythonGame("broken", Broken, num_actions=2, max_moves=9)
    with pytest.raises(RuntimeError, match="the third move"):
        engram.Search(game, "uct").run(Broken(), engram.Limit(simulations=50))
    with pytest.raises(InvalidGame, match="copy"):
        engram.PythonGame("nothing", object, num_actions=2, max_moves=9)


def test_a_python_game_searches_like_the_compiled_one_would():
    game = engram.game(f"{EXAMPLES}/nim.py:nim(heaps=[1, 3, 4])")
    result = engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=5_000), seed=1)
    assert result.name == "2from3"  # the only winning move leaves 1, 3, 2, whose exclusive or is 0
    again = engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=5_000), seed=1)
    assert [move.visits for move in again.moves] == [move.visits for move in result.moves]
    with pytest.raises(IllegalAction):
        game.play(game.initial_state(), 7)


def test_threads_that_search_a_python_game_repeat_with_their_seeds():
    def game():
        return engram.PythonGame("pick", games_for_tests.PickPosition, num_actions=9, max_moves=9)

    def visits(game, seed):
        result = engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=400), seed=seed)
        return [(move.action, move.visits, move.value) for move in result.moves]

    shared, alone = game(), [visits(game(), seed) for seed in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda seed: visits(shared, seed), range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert together == alone


class _Callable:
    def __call__(self, state):
        return 0.0


@pytest.mark.parametrize("outcome", [_Callable(), functools.partial(games_for_tests.pick_outcome), abs])
def test_what_is_no_plain_function_is_refused(outcome):
    with pytest.raises(InvalidGame, match="pick: outcome must be a function that `def` makes, not "):
        games_for_tests.pick(outcome=outcome)


@pytest.mark.parametrize("kind", ["O", ">i8"])
def test_a_state_that_compiled_code_cannot_read_is_refused(kind):
    state = np.zeros((), np.dtype([("taken", kind), ("score", np.int64, (2,)), ("player", np.int64)]))
    with pytest.raises(InvalidGame, match="pick: a state has numbers of this machine, not ") as refused:
        games_for_tests.pick(state=state)
    assert "\n" not in str(refused.value) and "\x1b" not in str(refused.value)


def test_the_trial_of_a_long_game_ends_with_its_time():
    class Walk:
        plays = 0

        def __init__(self, steps=0):
            self.steps = steps

        def legal_actions(self):
            return [0, 1] if self.steps < 10_000 else []

        def play(self, action):
            Walk.plays += 1
            self.steps += 1

        def to_play(self):
            return self.steps % 2

        def outcome(self):
            return 0.0

        def rollout(self, seed):
            return 0.0

        def copy(self):
            return Walk(self.steps)

    walk = engram.PythonGame("walk", Walk, num_actions=2, max_moves=10_000)
    try_game(walk, games=4, seconds=0.0)
    assert Walk.plays < 100
