"""Heavy Go rollouts: tactics on boards whose answer is known, and each move of whole games against plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sgfmill.boards import Board

from engram.games.catalogue import game as game_of
from engram.games.go import answers as go_answers
from engram.games.go import eyes as go_eyes
from engram.games.go import heavy_board
from engram.games.go import tactics as go_tactics
from engram.games.go.heavy import Probabilities, heavy
from engram.games.go.patterns import PATTERNS, TABLE, code_of, images
from engram.native.intrinsics import call_float
from engram.native.jit import compiled
from engram.rng import new_rng
from tests.games.plain_go import TACTICS, PlainGo, fits

GO = game_of("go:7")
LETTERS = "ABCDEFGHJ"


def state_of(*rows):
    return np.atleast_1d(GO.parse_state("\n".join(rows)))[0]


def heavy_of(state):
    """The board of a heavy rollout at a state."""
    board = np.zeros(1, heavy_board.heavy_dtype)[0]
    heavy_board.set_up(board, state)
    return board


def board_of(*rows):
    return heavy_of(state_of(*rows))


def point(name):
    row, column = 7 - int(name[1]), LETTERS.index(name[0])
    return np.uint64((row + 1) * 8 + column + 1)


def name_of(place):
    return None if place == 0 else f"{LETTERS[int(place) % 8 - 1]}{7 - (int(place) // 8 - 1)}"


def ask(tactic, board, last, colour, ko=0):
    return name_of(tactic(board, point(last), np.uint64(colour), np.uint64(8), np.uint64(ko)))


EMPTY = "......."


def test_the_last_stone_in_atari_is_taken():
    board = board_of(EMPTY, EMPTY, "..X....", ".XO....", "..X....", EMPTY, EMPTY)
    assert name_of(go_answers.capture(board, point("C4"), np.uint64(0))) == "D4"
    assert name_of(go_answers.capture(board, point("C4"), point("D4"))) is None
    assert name_of(go_answers.capture(board, point("B4"), np.uint64(0))) is None


def test_a_chain_in_atari_runs_takes_or_is_given_up():
    runs = board_of(EMPTY, EMPTY, "..O....", ".OX....", "..O....", EMPTY, EMPTY)
    assert ask(go_answers.escape, runs, "B4", 0) == "D4"
    # A ladder: with two liberties only it is put in atari again.
    ladder = board_of(EMPTY, EMPTY, "..OO...", ".OX....", "..O....", EMPTY, EMPTY)
    assert ask(go_answers.escape, ladder, "B4", 0) is None
    # Running along the first line into the corner leaves one liberty: no escape.
    lost = board_of(EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, "OO.....", ".XO....")
    assert ask(go_answers.escape, lost, "C1", 0) is None
    # The stone that gives atari can be taken: better than running where there is nowhere to run.
    corner = board_of(EMPTY, EMPTY, EMPTY, EMPTY, "XX.....", "OOX....", "X.O....")
    assert ask(go_answers.escape, corner, "A2", 0) == "B1"


@pytest.mark.parametrize(
    ("rows", "where", "bad"),
    [
        ((EMPTY, EMPTY, EMPTY, EMPTY, "O......", ".O.....", "X......"), "A2", True),
        ((EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, "O......", "......."), "A1", True),
        ((EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, ".......", "......."), "A1", False),
        ((EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, "OX.....", ".OX...."), "A1", False),  # it takes B1
    ],
)
def test_self_atari(rows, where, bad):
    assert go_tactics.is_self_atari(state_of(*rows), point(where), np.uint64(0), np.uint64(8)) == bad
    assert go_answers.is_sound(board_of(*rows), point(where), np.uint64(0), np.uint64(8), np.uint64(0)) != bad


def test_vital_points_of_eyes():
    three = board_of(EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, "OOOO...", "...O...")
    assert ask(go_eyes.nakade, three, "D1", 0) == "B1"
    # A square of four has no vital point; a bulky five has one.
    square = board_of(EMPTY, EMPTY, EMPTY, EMPTY, "OOO....", "..O....", "..O....")
    assert ask(go_eyes.nakade, square, "C1", 0) is None
    bulky = board_of(EMPTY, EMPTY, EMPTY, "OO.....", ".OO....", "..O....", "..O....")
    assert ask(go_eyes.nakade, bulky, "C1", 0) == "A2"
    open_ = board_of(EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, "OOO....", "...O...")
    assert ask(go_eyes.nakade, open_, "D1", 0) == "B1"
    assert ask(go_eyes.nakade, board_of(*[EMPTY] * 6, "X......"), "A1", 0) is None


def race_of(board, last, colour, ko=0):
    answers = {
        name_of(go_answers.race(board, point(last), np.uint64(colour), np.uint64(8), np.uint64(ko), new_rng(seed)[0]))
        for seed in range(40)
    }
    return answers


def test_chains_of_two_liberties_are_attacked_or_given_a_third():
    # C4 has the liberties C5 and D4; Black puts it in atari on either.
    attack = board_of(EMPTY, EMPTY, EMPTY, ".XO....", "..X....", EMPTY, EMPTY)
    assert race_of(attack, "C4", 0) == {"C5", "D4"}
    # The last stone, B3, has three liberties; C3 beside it two, C4 of which is a third and more for it, and D3.
    save = board_of(EMPTY, EMPTY, EMPTY, EMPTY, ".OX....", "..O....", EMPTY)
    assert race_of(save, "B3", 0) == {"C4", "D3"}
    assert race_of(save, "B3", 0, ko=int(point("D3"))) == {"C4"}
    # In the corner nothing gains, and there is nothing to attack.
    corner = board_of(EMPTY, EMPTY, EMPTY, EMPTY, "O......", ".......", "X.O....")
    assert race_of(corner, "C1", 0) == {None}


def anywhere(board, colour, ko=0):
    return {
        name_of(go_answers.capture_anywhere(board, np.uint64(colour), np.uint64(ko), new_rng(seed)[0]))
        for seed in range(40)
    }


def test_captures_are_found_anywhere():
    board = board_of(EMPTY, EMPTY, "..X....", ".XO....", "..X....", "O......", "X......")
    assert anywhere(board, 0) == {"D4"}
    assert anywhere(board, 0, ko=int(point("D4"))) == {None}
    assert anywhere(board, 1) == {"B1"}
    two = board_of("XO.....", ".......", "..X....", ".XO....", "..X....", EMPTY, EMPTY)
    assert anywhere(two, 0) == {"D4"}
    assert anywhere(two, 1) == {"A6"}
    assert anywhere(board_of(*[EMPTY] * 7), 0) == {None}


SHAPES = {
    "one": (["#"], True),
    "two": (["##"], True),
    "three in a row": (["###"], True),
    "three bent": (["##", "#."], True),
    "four in a row": (["####"], False),
    "a T": (["###", ".#."], True),
    "an S": (["##.", ".##"], False),
    "a square": (["##", "##"], True),
    "a cross": ([".#.", "###", ".#."], True),
    "bulky five": (["##", "##", "#."], True),
    "a T of five": (["###", ".#.", ".#."], False),
    "a Y of five": (["####", ".#.."], False),
    "rabbity six": ([".#.", "###", ".##"], True),
    "a cross with a long arm": ([".#..", "####", ".#.."], False),
    "seven": (["####", "###."], False),
}


@pytest.mark.parametrize("name", SHAPES)
def test_stones_given_up_kill_where_they_leave_one_eye(name):
    """The shape is Black's in a White wall, but for one cell, which he plays; once taken he leaves the shape."""
    drawing, kills = SHAPES[name]
    cells = {(r + 1, c + 1) for r, row in enumerate(drawing) for c, mark in enumerate(row) if mark == "#"}
    last = max(cells)
    rows = [
        "".join("." if (r, c) in {last, (6, 6)} else "X" if (r, c) in cells else "O" for c in range(7))
        for r in range(7)
    ]
    where = np.uint64((last[0] + 1) * 8 + last[1] + 1)
    board = board_of(*rows)
    assert go_eyes.kills_when_taken(board, board["cells"], where, np.uint64(0), np.uint64(8)) == kills


@pytest.mark.parametrize("name", [name for name, (drawing, _) in SHAPES.items() if sum(map(len, drawing)) > 2])
def test_eyes_of_those_shapes_have_their_vital_point(name):
    drawing, kills = SHAPES[name]
    cells = {(r + 1, c + 1) for r, row in enumerate(drawing) for c, mark in enumerate(row) if mark == "#"}
    if name == "a square":
        kills = False  # it needs none
    rows = ["".join("." if (r, c) in cells | {(6, 6)} else "O" for c in range(7)) for r in range(7)]
    beside = next((r, c) for r, c in sorted(cells))
    last = f"{LETTERS[beside[1]]}{7 - beside[0] + 1}"  # the stone above the first cell
    assert (ask(go_eyes.nakade, board_of(*rows), last, 0) is not None) == kills


def test_races_and_escapes_fill_no_own_eye():
    """B5 gives the chain at the left border a third liberty, and so does A6: but that is its eye."""
    board = board_of("XXO....", ".XO....", "X......", "X......", EMPTY, EMPTY, EMPTY)
    assert race_of(board, "C6", 0) == {"B5"}


@compiled
def count_of(board, head, but, most, count, first):
    return go_tactics.walk_liberties(board, head, np.uint64(8), but, most, count, first, np.uint64(0))[0]


def test_liberties_are_those_of_a_plain_count():
    rng = np.random.default_rng(8)
    for _ in range(60):
        state = GO.initial_state()
        for _ in range(int(rng.integers(5, 60))):
            state = GO.play(state, int(rng.choice(GO.legal_actions(state))))
            if GO.is_over(state):
                break
        board = np.atleast_1d(state)[0]
        for head in {int(word) >> 2 for word in board["chain"] if word not in (0, 3)}:
            chain = {p for p in range(8, 64) if board["chain"][p] >> 2 == head and board["chain"][p] not in (0, 3)}
            free = {p + d for p in chain for d in (-8, -1, 1, 8) if board["chain"][p + d] == 0}
            for most in (1, 2, 3):
                assert count_of(board, np.uint64(head), np.uint64(0), most, 0, np.uint64(0)) == min(len(free), most)
                for but in sorted(free)[:2]:
                    count = count_of(board, np.uint64(head), np.uint64(but), most, 0, np.uint64(0))
                    assert count == min(len(free) - 1, most)
                    if most > 1:
                        count = count_of(board, np.uint64(head), np.uint64(0), most, 1, np.uint64(but))
                        assert count == min(len(free), most)


def checked(board, plain):
    """Compares all that a heavy board knows with plain counts."""
    stride = plain.size + 1
    points = {cell: (cell[0] + 1) * stride + cell[1] + 1 for cell in plain.cells}
    words = int(board["words"])
    ataris = {1: set(), 2: set()}
    for cell, where in points.items():
        kind = ".XO".index(plain.at(cell))
        assert int(board["chain"][where]) & 3 == kind
        assert int(board["code"][where]) == sum(
            ".XO ".index(plain.at(other)) << (2 * k) for k, other in enumerate(plain.around(cell))
        )
        if kind == 0:
            traits = int(heavy_board.TRAITS[board["code"][where]])
            assert bool(traits & 1) == plain.fits(cell)
            assert [bool(traits & 2), bool(traits & 4)] == [plain.is_eye(cell, colour) for colour in "XO"]
            assert [bool(traits & 8), bool(traits & 16)] == [
                any(plain.at(other) == colour for other in plain.beside(cell)) for colour in "XO"
            ]
            assert traits >> 7 == sum(plain.at(other) == "." for other in plain.beside(cell))
            continue
        head = int(board["chain"][where]) >> 2
        region, liberties = plain.region(cell), plain.liberties(cell)
        assert {
            other for other in plain.cells if int(board["chain"][points[other]]) == int(board["chain"][where])
        } == region
        bits = sum(
            int(word) << (64 * k) for k, word in enumerate(board["liberties"][head * words : (head + 1) * words])
        )
        assert bits == sum(1 << points[other] for other in liberties)
        assert (int(board["count"][head]), int(board["size"][head])) == (len(liberties), len(region))
        if len(liberties) == 1:
            ataris[kind].add(head)
    for kind, heads in ataris.items():
        assert sum(int(word) << (64 * k) for k, word in enumerate(board["atari"][kind][:words])) == sum(
            1 << h for h in heads
        )
    empty = [where for cell, where in points.items() if plain.at(cell) == "."]
    assert sorted(board["listed"][: len(empty)]) == empty
    assert [int(board["listed"][board["place"][where]]) for where in empty] == empty
    assert not board["liberties"][:words].any()
    assert int(board["balance"]) == sum(1 if stone == "X" else -1 for stone in plain.stones.values())


@settings(max_examples=25, deadline=None)
@given(size=st.sampled_from([2, 3, 5, 9, 13]), seed=st.integers(0, 10**6), start=st.integers(0, 40))
def test_a_heavy_board_knows_what_plain_python_counts(size, seed, start):
    """Random legal stones, part of them played before the board is set up and part of them on it."""
    game, rng = game_of(f"go:{size}"), np.random.default_rng(seed)
    state, plain = game.initial_state(), PlainGo(size)
    stride = np.uint64(size + 1)
    for _ in range(start):
        cell = plain.cells[rng.integers(len(plain.cells))]
        action, colour = cell[0] * size + cell[1], "XO"[game.to_play(state)]
        if game.is_over(state) or action not in game.legal_actions(state) or plain.is_eye(cell, colour):
            continue
        state = game.play(state, action)
        plain.play(cell, colour)
    board = heavy_of(np.atleast_1d(state)[0])
    checked(board, plain)
    num_empty = np.uint64(size * size - len(plain.stones))
    for number in range(30):
        colour = number % 2
        cells = [cell for cell in plain.cells if plain.at(cell) == "." and plain.is_playable(cell, "XO"[colour])]
        if not cells:
            break
        cell = cells[rng.integers(len(cells))]
        where = np.uint64((cell[0] + 1) * (size + 1) + cell[1] + 1)
        assert heavy_board.liberties_of_move(board, where, np.uint64(colour), stride) == len(
            plain.reach(cell, "XO"[colour])
        )
        assert heavy_board.is_capture(board, where, np.uint64(colour), stride) == plain.takes(cell, "XO"[colour])
        num_empty, ko = heavy_board.put(board, where, np.uint64(colour), stride, np.uint64(num_empty))
        plain.play(cell, "XO"[colour])
        assert int(num_empty) == size * size - len(plain.stones)
        assert int(ko) == (0 if plain.ko is None else (plain.ko[0] + 1) * (size + 1) + plain.ko[1] + 1)
        if number % 5 == 4:
            checked(board, plain)
    checked(board, plain)


def test_patterns_are_those_of_a_plain_matcher():
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(4000):
        kinds = rng.choice(list(".XO"), 9, p=[0.4, 0.3, 0.3])
        rows = ["".join(kinds[3 * r : 3 * r + 3]) for r in range(3)]
        if rng.random() < 0.4:
            rows[2] = "   "
        expected = fits("".join(rows)[:4] + "".join(rows)[5:])
        hits += expected
        assert TABLE[code_of(tuple(rows))] == expected, rows
    assert 300 < hits < 3000


def test_the_table_knows_no_side_and_no_direction():
    for pattern in PATTERNS[:3]:
        assert len(set(images(pattern))) >= 8
    swap = str.maketrans("XO", "OX")
    rng = np.random.default_rng(5)
    for _ in range(500):
        rows = tuple("".join(rng.choice(list(".XO"), 3)) for _ in range(3))
        turned = tuple(row[::-1].translate(swap) for row in reversed(rows))
        assert TABLE[code_of(rows)] == TABLE[code_of(turned)]


def moves_of(state, seed, probabilities):
    """The moves of a heavy rollout with these probabilities, as (action, player)."""
    buffer, moves = np.array([state]), np.zeros(1000, np.int32)
    moves[0] = 999
    heavy(buffer[0], new_rng(seed)[0], moves, True, probabilities)
    return [(entry >> 1, entry & 1) for entry in moves[1 : moves[0] + 1].tolist()]


@pytest.mark.parametrize("size", [3, 6, 9])
def test_each_move_is_an_answer_of_the_first_tactic_that_has_one(size):
    """With all probabilities 1 nothing is left to chance but the choice within a tactic."""
    game, uses = game_of(f"go:{size}"), Counter()
    for seed in range(20 if size < 9 else 10):
        plain, last, turn = PlainGo(size), None, 0
        moves = moves_of(game.initial_state(), seed, Probabilities(*[1.0] * 7))
        for action, player in moves:
            if player != turn:
                assert plain.answers(last, "XO"[turn]) == ("drawn", set()), "a pass too early"
                turn, last, plain.ko = player, None, None
            name, cells = plain.answers(last, "XO"[player])
            last = divmod(action, size)
            assert last in cells, (seed, name)
            plain.play(last, "XO"[player])
            uses[name] += 1
            turn = 1 - player
    assert size < 9 or min(uses[name] for name in (*TACTICS, "anywhere", "drawn")) > 3, uses


def test_choices_within_a_tactic_are_even():
    """The first move of many rollouts, for a pattern with several points and for a draw."""
    for rows, probabilities in ((("..XO...", "..OX...", *[EMPTY] * 5), [0, 0, 0, 0, 0, 0, 1]),):
        state = state_of(*rows)
        counts = Counter(moves_of(state, seed, Probabilities(*map(float, probabilities)))[0][0] for seed in range(3000))
        plain = PlainGo(7)
        plain.stones = {(r, c): mark for r, row in enumerate(rows) for c, mark in enumerate(row) if mark != "."}
        assert set(counts) == {row * 7 + column for row, column in plain.draws("X")}
        mean = 3000 / len(counts)
        assert sum((count - mean) ** 2 / mean for count in counts.values()) < len(counts) + 5 * (2 * len(counts)) ** 0.5


@compiled
def play_out(address, state, rng, moves):
    return call_float(address, (state, rng, moves))


@pytest.mark.parametrize("size", [2, 5, 7, 9, 13])
def test_whole_rollouts_replay_on_an_independent_board(size):
    game = game_of(f"go:{size}")
    rng = new_rng(size)
    captures = 0
    for number in range(30 if size < 13 else 8):
        buffer, moves = game.new_buffer(), np.zeros(2000, np.int32)
        game.write(buffer, game.initial_state())
        moves[0] = 1999
        value = play_out(game.address("heavy_rollout_moves"), buffer.ctypes.data, rng.ctypes.data, moves.ctypes.data)
        assert value in (-1.0, 1.0)
        board, stones = Board(size), 0
        for entry in moves[1 : moves[0] + 1].tolist():
            action, player = entry >> 1, entry & 1
            row, column = divmod(action, size)
            board.play(size - 1 - row, column, "bw"[player])  # raises where a stone lies already
            stones += 1
            assert board.get(size - 1 - row, column) == "bw"[player], "a suicide"
        left = len(board.list_occupied_points())
        captures += stones - left
        assert value == (1.0 if board.area_score() > 7.5 else -1.0), number
    assert captures > 20 or size == 2
