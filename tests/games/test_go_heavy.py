"""Heavy Go rollouts: each tactic on boards whose answer is known, patterns against a plain matcher, whole games."""

from __future__ import annotations

import numpy as np
import pytest
from sgfmill.boards import Board

from engram.games.catalogue import game as game_of
from engram.games.go import eyes as go_eyes
from engram.games.go import tactics as go_tactics
from engram.games.go.patterns import PATTERNS, TABLE, code_of, images
from engram.native.intrinsics import call_float
from engram.native.jit import compiled
from engram.rng import new_rng

GO = game_of("go:7")
LETTERS = "ABCDEFGHJ"


def board_of(*rows, colour=0):
    state = GO.parse_state("\n".join(rows))
    state["colour"] = colour
    return np.atleast_1d(state)[0]


def point(name):
    row, column = 7 - int(name[1]), LETTERS.index(name[0])
    return np.uint64((row + 1) * 8 + column + 1)


def name_of(found):
    return None if found == 0 else f"{LETTERS[int(found) % 8 - 1]}{7 - (int(found) // 8 - 1)}"


def ask(tactic, board, last, colour, ko=0):
    return name_of(tactic(board, point(last), np.uint64(colour), np.uint64(8), np.uint64(ko)))


EMPTY = "......."


def test_the_last_stone_in_atari_is_taken():
    board = board_of(EMPTY, EMPTY, "..X....", ".XO....", "..X....", EMPTY, EMPTY)
    assert ask(go_tactics.capture, board, "C4", 0) == "D4"
    assert ask(go_tactics.capture, board, "C4", 0, ko=int(point("D4"))) is None
    assert ask(go_tactics.capture, board, "B4", 1) is None


def test_a_chain_in_atari_runs_takes_or_is_given_up():
    runs = board_of(EMPTY, EMPTY, "..O....", ".OX....", "..O....", EMPTY, EMPTY)
    assert ask(go_tactics.escape, runs, "B4", 0) == "D4"
    # A ladder: with two liberties only it is put in atari again.
    ladder = board_of(EMPTY, EMPTY, "..OO...", ".OX....", "..O....", EMPTY, EMPTY)
    assert ask(go_tactics.escape, ladder, "B4", 0) is None
    # Running along the first line into the corner leaves one liberty: no escape.
    lost = board_of(EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, "OO.....", ".XO....")
    assert ask(go_tactics.escape, lost, "C1", 0) is None
    # The stone that gives atari can be taken: better than running where there is nowhere to run.
    corner = board_of(EMPTY, EMPTY, EMPTY, EMPTY, "XX.....", "OOX....", "X.O....")
    assert ask(go_tactics.escape, corner, "A2", 0) == "B1"


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
    assert go_tactics.is_self_atari(board_of(*rows), point(where), np.uint64(0), np.uint64(8)) == bad


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
        name_of(go_tactics.race(board, point(last), np.uint64(colour), np.uint64(8), np.uint64(ko), new_rng(seed)[0]))
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
    board["listed"][:3] = [point(name) for name in ("A7", "D4", "B1")]
    return {
        name_of(
            go_tactics.capture_anywhere(
                board, np.uint64(colour), np.uint64(3), np.uint64(8), np.uint64(ko), new_rng(seed)[0]
            )
        )
        for seed in range(40)
    }


def test_captures_are_found_anywhere():
    board = board_of(EMPTY, EMPTY, "..X....", ".XO....", "..X....", "O......", "X......")
    assert anywhere(board, 0) == {"D4"}
    assert anywhere(board, 0, ko=int(point("D4"))) == {None}
    assert anywhere(board, 1) == {"B1"}
    assert (
        go_tactics.capture_anywhere(board, np.uint64(0), np.uint64(0), np.uint64(8), np.uint64(0), new_rng(1)[0]) == 0
    )


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
    assert go_eyes.kills_when_taken(board_of(*rows), where, np.uint64(0), np.uint64(8)) == kills


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
def count_of(board, head, but, most, count, one):
    return go_tactics.walk_liberties(board, head, np.uint64(8), but, most, count, one, np.uint64(0))[0]


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
                    found = count_of(board, np.uint64(head), np.uint64(but), most, 0, np.uint64(0))
                    assert found == min(len(free) - 1, most)
                    if most > 1:
                        found = count_of(board, np.uint64(head), np.uint64(0), most, 1, np.uint64(but))
                        assert found == min(len(free), most)


def fits(surroundings, pattern):
    means = {"x": ".O ", "o": ".X ", "?": ".XO "}
    pairs = [(surroundings[r][c], pattern[r][c]) for r in range(3) for c in range(3) if (r, c) != (1, 1)]
    return all(kind in means.get(wanted, wanted) for kind, wanted in pairs)


def test_patterns_are_those_of_a_plain_matcher():
    rng = np.random.default_rng(4)
    every = [image for pattern in PATTERNS for image in images(pattern)]
    hits = 0
    for _ in range(4000):
        kinds = rng.choice(list(".XO"), 9, p=[0.4, 0.3, 0.3])
        rows = ["".join(kinds[3 * r : 3 * r + 3]) for r in range(3)]
        if rng.random() < 0.4:
            rows[2] = "   "
        rows[1] = rows[1][0] + "." + rows[1][2]
        expected = any(fits(rows, image) for image in every)
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
