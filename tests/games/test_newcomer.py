"""A newcomer's puzzle from docs/adding_a_game.md: checked, searched, matched, shown; errors say what to mend."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import engram
from engram.cli.app import app
from engram.errors import IllegalAction, InvalidGame, InvalidSpecification
from tests.games_for_tests import Heap

PAGE = Path(__file__).parents[2] / "docs/adding_a_game.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
PUZZLE = next(text for text in BLOCKS if "class Lights" in text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "lights.py").write_text(PUZZLE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, **options):
    return CliRunner().invoke(app, list(arguments), **options)


def test_the_puzzle_has_about_30_lines():
    assert len(PUZZLE.splitlines()) <= 32


def test_the_puzzle_is_checked_searched_matched_and_shown(folder):
    game = "lights.py:lights"
    assert "contract kept" in run("check", game).output
    best = engram.Search(game, "uct").run(engram.game(game).initial_state(), engram.Limit(simulations=20_000))
    assert (best.action, best.moves[0].value > 5.0) == (4, True)  # the middle and two corners, in any order, is best
    moved = run("move", "-g", game, "-n", "20000")
    assert "#..\n.#.\n#.#\n0 presses" in moved.output and "the player plays 4" in moved.output
    common = ["-g", game, "-n", "400", "-d", "results.sqlite"]
    matched = run("match", *common, "--a", "uct", "--b", "random", "--games", "10", "--workers", "1")
    assert matched.exit_code == 0 and "A reaches more" in matched.output
    assert "game 9" in run("results", "1", "--games", "-d", "results.sqlite", "--allow-files").output
    played = run("play", "-g", game, "-n", "50", input="4\nhint\nundo\n11\nquit\n")
    assert played.exit_code == 0
    for words in ("##.\n#.#\n###\n1 presses", "the player plays", "no action is written '11'"):
        assert words in played.output


def test_a_league_of_one_player(folder):
    Path("players.txt").write_text("uct\nrandom\n")
    common = ["-g", "lights.py:lights", "-n", "40", "--workers", "1", "-d", "results.sqlite"]
    ranked = run("league", *common, "--players", "players.txt", "--games", "8")
    assert ranked.exit_code == 0 and ranked.output.index("uct") < ranked.output.index("random")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["train", "td", "-o", "out"], "needs a game of two players"),
        (["train", "selfplay", "-o", "out"], "lights is a plain Python game"),
        (["memory", "build", "-o", "out"], "lights has no encode"),
        (["match", "--a", "minimax(depth=2)", "--b", "uct", "-d", ":memory:"], "needs a game of two players"),
        (["match", "--a", "uct", "--b", "random", "--resign", "0.9", "-d", ":memory:"], "resign"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_what_does_not_go_with_one_player_is_refused_in_a_sentence(folder, command, words):
    refused = run(*command, "-g", "lights.py:lights")
    assert refused.exit_code == 2
    assert words in " ".join(refused.output.split())


def test_a_puzzle_speaks_no_go(folder):
    command = [sys.executable, "-m", "engram", "gtp", "-g", "lights.py:lights"]
    refused = subprocess.run(command, input="", capture_output=True, text=True)
    assert (refused.returncode, refused.stderr) == (2, "engram: the Go Text Protocol is for Go, not for lights\n")


class Puzzle:
    """Three moves of two actions; each one adds its number."""

    def __init__(self):
        self.moves = []

    def legal_actions(self):
        return [0, 1] if len(self.moves) < 3 else []

    def play(self, action):
        self.moves.append(action)

    def to_play(self):
        return 0

    def outcome(self):
        return sum(self.moves)

    def copy(self):
        other = self.__class__()
        other.moves = list(self.moves)
        return other

    def __str__(self):
        return str(self.moves)


class Wordy(Puzzle):
    def legal_actions(self):
        return ["left", "right"] if len(self.moves) < 3 else []


class Returning(Puzzle):
    def play(self, action):
        after = self.copy()
        after.moves.append(action)
        return after


class Mute(Puzzle):
    """Its text is the address of an object."""

    __str__ = object.__str__

    def __init__(self):
        super().__init__()
        self.board = object()


class Nature(Puzzle):
    def to_play(self):
        return 2


class Colours(Puzzle):
    def to_play(self):
        return "white"


class Halves(Puzzle):
    def legal_actions(self):
        return [0.5, 1.5] if len(self.moves) < 3 else []


class Lists(Puzzle):
    def legal_actions(self):
        return [[0], [1]] if len(self.moves) < 3 else []


class Unordered(Puzzle):
    def legal_actions(self):
        return {0, 1} if len(self.moves) < 3 else set()


class Itself(Puzzle):
    def copy(self):
        return self


class Uncopied(Puzzle):
    def copy(self):
        return None


class Hashless(Puzzle):
    def hash(self):
        return None


class Drawn(Puzzle):
    """Nature makes the second move."""

    def to_play(self):
        return 2 if len(self.moves) == 1 else 0


class DrawnByName(Drawn):
    def chance(self):
        return {0: 0.5, 1: 0.5}


class Weightless(Drawn):
    def chance(self):
        return None


class Sharing(Puzzle):
    def copy(self):
        other = self.__class__()
        other.moves = self.moves
        return other


class Priceless(Puzzle):
    def reward(self):
        return None


class Masked(Puzzle):
    def legal_actions(self):
        return [False, True] if len(self.moves) < 3 else []


class Purse(Puzzle):
    """Its reward reads a list that copies share."""

    def __init__(self):
        super().__init__()
        self.coins = [0.0]

    def play(self, action):
        super().play(action)
        self.coins[0] += action + 0.5

    def reward(self):
        return self.coins[0]

    def outcome(self):
        return 0.0

    def copy(self):
        other = super().copy()
        other.coins = self.coins
        return other


class Forgetful(Puzzle):
    def outcome(self):
        return None


class Falling(Puzzle):
    """It falls off its end when the game is over."""

    def legal_actions(self):
        if len(self.moves) < 3:
            return [0, 1]


class FallingWithNature(Falling, DrawnByName):
    def chance(self):
        return [0.5, 0.5]


class Keyed(Puzzle):
    def legal_actions(self):
        return {0: 1, 1: 0} if len(self.moves) < 3 else {}


class Textless(Puzzle):
    def __str__(self):  # noqa: PLE0307 - the mistake
        print(self.moves)


class Huge(Puzzle):
    def outcome(self):
        return 10**400


class Boundless(Puzzle):
    def outcome(self):
        return 10**5000


class HugeChance(Drawn):
    def chance(self):
        return [10**400, 1]


class Endless(Puzzle):
    """The fault is three moves away from where it shows."""

    def outcome(self):
        return float("nan")


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (Puzzle, {"bounds": (-1.0, 1.0)}, r"outcome \d is not in \[-1, 1\]; bounds=\(least, greatest\) sets others"),
        (Puzzle, {"max_moves": 2}, "longer than max_moves = 2"),
        (Puzzle, {"num_actions": 1}, "2 legal actions, but num_actions is 1"),
        (Wordy, {}, "legal_actions must return whole numbers from 0 to 1, not 'left'; action_name= gives"),
        (Halves, {}, "legal_actions must return whole numbers from 0 to 1, not 0.5"),
        (Lists, {}, r"legal_actions must return whole numbers from 0 to 1, not \[0\]"),
        (Puzzle, {"encode": str, "planes_shape": (1, 1, 2)}, "encode gave .*, not an array of numbers"),
        (Unordered, {}, "legal_actions must return a list, not a set"),
        (Nature, {}, r"to_play is 2, not 0; the method chance\(\) makes 2 nature"),
        (Colours, {}, "to_play is 'white', not 0"),
        (Itself, {}, "copy must return another, independent state, not the state itself"),
        (Uncopied, {}, "copy must return another, independent state, not None"),
        (DrawnByName, {}, "chance must return a list of weights of legal actions, not {0: 0.5, 1: 0.5}"),
        (Weightless, {}, "chance must return a list of weights of legal actions, not None"),
        (Returning, {}, "play must change the state in place"),
        (Mute, {}, "write hash\\(\\), or a __str__ that differs between positions"),
        (Sharing, {}, "a copy shares something with its original"),
        (Hashless, {}, "hash gave None, not a whole number"),
        (Priceless, {}, "reward gave None, not a finite number; before any move it is 0"),
        (Forgetful, {}, "outcome gave None, not a finite number"),
        (Falling, {}, "legal_actions must return a list, not a NoneType"),
        (FallingWithNature, {}, "legal_actions must return a list, not a NoneType"),
        (Keyed, {}, "legal_actions must return a list, not a dict"),
        (Textless, {}, "__str__ of Textless must return a text, not None"),
        (Huge, {}, "outcome gave 10000.*…, not a finite number"),
        (Boundless, {}, "outcome gave a value with numbers of thousands of digits, not a finite number"),
        (HugeChance, {}, "chance must return a list of weights"),
        (Endless, {}, r"outcome gave nan, not a finite number \(after no moves, in a random game from there\)"),
        (Masked, {}, "must return actions, not a mask of True and False"),
        (Purse, {"bounds": (0.0, 9.0)}, "a copy shares something with its original"),
    ],
)
def test_mistakes_are_named_with_their_remedy(kind, options, words):
    options = {"num_actions": 2, "max_moves": 3, "players": 1, "bounds": (0.0, 3.0), **options}
    with pytest.raises(InvalidGame, match=words):
        engram.check_game(engram.PythonGame(kind.__name__, kind, **options))


@pytest.mark.parametrize(
    "kind", [Nature, Colours, Halves, Unordered, Itself, Uncopied, DrawnByName, Weightless, Falling, FallingWithNature]
)
def test_a_search_refuses_mistakes_too(kind):
    game = engram.PythonGame(kind.__name__, kind, num_actions=2, max_moves=3, players=1, bounds=(0.0, 3.0))
    with pytest.raises(InvalidGame):
        engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=50))


def test_a_search_too_says_that_play_returned_another_state():
    game = engram.PythonGame("returning", Returning, num_actions=2, max_moves=3, players=1, bounds=(0.0, 3.0))
    with pytest.raises(InvalidGame, match="play must change the state in place"):
        engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=50))


@pytest.mark.parametrize("scale", [1e-310, 1e-60, 1.0, 1e60, 1e307])
def test_weights_of_nature_have_any_scale(scale):
    class Scaled(Drawn):
        def chance(self):
            return [scale, 3.0 * scale]

    game = engram.PythonGame("scaled", Scaled, num_actions=2, max_moves=3, players=1, bounds=(0.0, 3.0))
    engram.check_game(game)
    engram.Search(game, "uct").run(game.initial_state(), engram.Limit(simulations=50))


EXITING = """
import sys
import engram

class Exits(Puzzle):
    def legal_actions(self):
        return [0, 1] if len(self.moves) < 2 else sys.exit(3)

def exits():
    return engram.PythonGame("exits", Exits, num_actions=2, max_moves=3, players=1, bounds=(0.0, 3.0))
"""


def test_a_game_that_ends_python_is_named(folder):
    (folder / "exiting.py").write_text(inspect.getsource(Puzzle) + EXITING)
    for command in (("check", "exiting.py:exits"), ("move", "-g", "exiting.py:exits", "-n", "20")):
        ended = run(*command)
        assert ended.exit_code == 2 and "legal_actions raised SystemExit: 3" in ended.stderr, ended.output


HANGING = """
import signal
import engram

class Hangs(Puzzle):
    def play(self, action):
        print("ready", flush=True)
        while True:
            pass

game = engram.PythonGame("hangs", Hangs, num_actions=2, max_moves=3, players=1, bounds=(0.0, 3.0))
signal.signal(signal.SIGINT, signal.default_int_handler)
search = engram.Search(game, "uct")
try:
    search.run(game.initial_state(), engram.Limit(simulations=50))
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a slow machine gets one more
    print("ended", flush=True)
"""


def test_a_second_ctrl_c_ends_a_python_game_that_never_returns(folder):
    (folder / "hanging.py").write_text(inspect.getsource(Puzzle) + HANGING)
    program = subprocess.Popen(
        [sys.executable, "hanging.py"], cwd=folder, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        assert program.stdout.readline() == "ready\n"
        for _ in range(20):
            program.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                program.wait(1.2)
                break
        assert program.poll() == 0 and program.stdout.read() == "ended\n"
    finally:
        program.kill()
        program.communicate()


def test_a_state_without_text_shows_its_attributes():
    class Silent(Puzzle):
        __str__ = object.__str__

    game = engram.PythonGame("silent", Silent, num_actions=2, max_moves=3, players=1, bounds=(0.0, 3.0))
    engram.check_game(game)
    assert game.render(game.play(game.initial_state(), 1)) == "moves=[1]"


class Slotted:
    __slots__ = ("board",)

    def __init__(self, board=(0.1, 0.2)):
        self.board = board

    def legal_actions(self):
        return [0]

    def play(self, action):
        self.board = None

    def to_play(self):
        return 0

    def outcome(self):
        return 0.0

    def copy(self):
        return copy.deepcopy(self)


class Wide(Slotted):
    """A board that NumPy writes in short, with numbers that it rounds."""

    def __init__(self, changed=-1, by=1e-12):
        super().__init__(np.full(2000, 1 / 3))
        if changed >= 0:
            self.board[changed] += by


def test_states_without_text_are_told_apart_by_all_attributes():
    @dataclasses.dataclass
    class Full(Slotted):
        board: object = None

        def __init__(self, changed=-1):
            self.board = Wide(changed).board

    for kind in (Wide, Full):
        game = engram.PythonGame("wide", kind, num_actions=1, max_moves=3)
        assert game.same(kind(), kind()) and not game.same(kind(), kind(1000))
    game = engram.PythonGame("slotted", Slotted, num_actions=1, max_moves=3)
    assert game.same(Slotted(), Slotted()) and not game.same(Slotted(), Slotted((0.1, 0.3)))
    assert game.render(Slotted()) == "board=(0.1, 0.2)"


def test_where_nature_moves_its_moves_are_named(folder):
    refused = run("move", "-g", "pig", "-m", "roll", "-n", "9")
    assert refused.exit_code == 2
    assert "add what it drew to the moves (1, 2, 3, ...)" in " ".join(refused.output.split())


def test_an_object_instead_of_a_class_is_named():
    with pytest.raises(InvalidGame, match="initial must be the class of its states"):
        engram.PythonGame("puzzle", Puzzle(), num_actions=2, max_moves=3)


def test_a_class_of_positions_is_no_game_yet(folder):
    with pytest.raises(InvalidSpecification, match="not a Game; PythonGame makes one from a class of positions"):
        engram.game("lights.py:Lights")


def test_names_that_differ_in_case_or_space_are_told_apart():
    names = ["Bb", "bb", " lead"]
    game = engram.PythonGame("names", Puzzle, num_actions=3, max_moves=3, action_name=names.__getitem__)
    assert [game.parse_action(name) for name in names] == [0, 1, 2]
    assert [game.parse_action(text) for text in ("BB", "lead", " bb ")] == [0, 2, 0]


class Nim(Heap):
    start, most = 8, 3


def nim(kind=Nim, **options):
    return engram.PythonGame("nim", kind, **{"num_actions": 3, "max_moves": 8} | options)


def test_a_start_that_differs_each_time_is_refused_before_games_are_paired():
    heaps = iter(range(4, 100))
    game = nim(lambda: Nim(next(heaps)), max_moves=100)
    with pytest.raises(InvalidGame, match="two initial states differ"):
        engram.check_game(game)
    with pytest.raises(InvalidGame, match="starts the same each time"):
        engram.match(game, "random", "random", games=2, simulations=1, workers=1, database=":memory:")


class Rules:
    """An object of which a state's text shows the address."""


class Deep(Nim):
    def __init__(self, left=4, player=0):
        super().__init__(left, player)
        self.rules = Rules()

    __str__ = object.__str__


class Shallow(Deep):
    def copy(self):
        return copy.copy(self)


@pytest.mark.parametrize("kind", [Deep, Shallow])
def test_states_whose_text_holds_an_address_still_play_matches(kind):
    played = engram.match(nim(kind), "random", "random", games=2, simulations=1, workers=1, database=":memory:")
    assert played.games == 2


def test_names_with_spaces_are_separated_by_commas():
    game = nim(action_name=lambda action: f"take {action + 1}")
    assert game.parse_moves("take 1, Take 3,take 2") == [0, 2, 1]
    assert nim(action_name=lambda action: f"t{action + 1}").parse_moves("t1 t3,t2") == [0, 2, 1]
    mixed = nim(action_name=lambda action: ["t1", "t2", "take three"][action])
    assert mixed.parse_moves("t1 t2") == [0, 1] and mixed.parse_moves("take three, t1") == [2, 0]
    with pytest.raises(IllegalAction, match="'t9'"):
        mixed.parse_moves("t1, t9")
    named = {0: "x"}
    assert nim(action_name=named.__getitem__, parse_action=lambda text: 0).parse_moves("x x") == [0, 0]


@pytest.mark.parametrize(
    ("legal", "words"),
    [
        (lambda left: np.argwhere(np.arange(3) < min(3, left)).squeeze(), "a list, not a 0-dimensional array"),
        (lambda left: bytearray(range(min(3, left))), "a list, not a bytearray"),
    ],
)
def test_actions_that_are_no_list_are_refused(legal, words):
    class Odd(Nim):
        def legal_actions(self):
            return legal(self.left)

    with pytest.raises(InvalidGame, match=words):
        engram.check_game(nim(lambda: Odd(7)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"players": 1.0}, "players must be 1 or 2, not 1.0"),
        ({"max_moves": 10**12}, "max_moves must be a whole number"),
        ({"planes_shape": (1, 0, 2)}, "each number of planes_shape must be a whole number, 1 or more, not 0"),
        ({"planes_shape": 4}, r"must be \(channels, height, width\), not 4"),
    ],
)
def test_impossible_sizes_are_refused(options, words):
    with pytest.raises(InvalidGame, match=words):
        nim(**options)
