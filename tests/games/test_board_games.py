"""Othello, Hex, Breakthrough, Dots and Boxes: published counts, proven values, and OpenSpiel's rules move by move."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

import engram
from engram.errors import InvalidSpecification
from engram.games.breakthrough import breakthrough
from engram.games.dots_and_boxes import dots_and_boxes
from engram.games.go.rules import go
from engram.games.hex import hex as hex_game
from engram.games.line.one_word import line
from engram.games.othello import othello
from engram.games.p_game import p_game
from engram.games.pig import pig
from engram.games.same_game import same_game


def count(game, state, depth):
    """Lines of `depth` moves."""
    actions = game.legal_actions(state)
    return len(actions) if depth == 1 else sum(count(game, game.play(state, action), depth - 1) for action in actions)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("othello:8", [4, 12, 56, 244, 1396, 8200]),  # the published perft of Othello
        ("breakthrough:8", [22, 484, 11132]),
        ("hex:11", [121, 121 * 120]),
        ("dots_and_boxes:rows=2,columns=2", [12, 12 * 11, 12 * 11 * 10]),
    ],
)
def test_the_numbers_of_lines_are_the_published_ones(text, counts):
    game = engram.game(text)
    assert [count(game, game.initial_state(), depth) for depth in range(1, len(counts) + 1)] == counts


OPEN_SPIEL = {
    "othello:8": "othello",
    "hex:5": "hex(board_size=5)",
    "breakthrough:6": "breakthrough(rows=6,columns=6)",
    "dots_and_boxes:rows=3,columns=2": "dots_and_boxes(num_rows=3,num_cols=2)",
}


def theirs(game, text, action):
    """OpenSpiel's name of a move: in Breakthrough its first player moves down, in Dots and Boxes edges have numbers."""
    name = game.action_name(action)
    if text == "breakthrough:6":
        return "".join(str(7 - int(sign)) if sign.isdecimal() else sign for sign in name)
    if not text.startswith("dots"):
        return name
    across, row, column = name[0] != name[2], int(name[1]) - 1, ord(name[0]) - ord("a")
    return f"({'h' if across else 'v'},{row},{column})"


@pytest.mark.parametrize("text", OPEN_SPIEL)
def test_every_move_and_end_is_that_of_open_spiel(text):
    pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed")
    game, draw = engram.game(text), random.Random(11)
    for _ in range(30):
        state, peer = game.initial_state(), pyspiel.load_game(OPEN_SPIEL[text]).new_initial_state()
        while not peer.is_terminal():
            names = {theirs(game, text, action): action for action in game.legal_actions(state)}
            mover = peer.current_player()
            texts = {action: peer.action_to_string(mover, action) for action in peer.legal_actions()}
            peers = {name.rstrip("*").removeprefix(f"P{mover + 1}"): action for action, name in texts.items()}
            assert sorted(names) == sorted(peers)
            assert game.to_play(state) == mover
            name = draw.choice(sorted(names))
            state = game.play(state, names[name])
            peer.apply_action(peers[name])
        assert game.is_over(state)
        assert game.outcome(state) == peer.returns()[0]


def proven(game):
    """Value of the start for player 0, by plain negamax with a table."""

    @cache
    def value(key):
        state = states[key]
        actions = game.legal_actions(state)
        if not actions:
            return game.outcome(state)
        best = []
        for action in actions:
            after = game.play(state, action)
            states[game.hash(after)] = after
            best.append(value(game.hash(after)))
        return max(best) if game.to_play(state) == 0 else min(best)

    states = {game.hash(game.initial_state()): game.initial_state()}
    return value(game.hash(game.initial_state()))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("othello:4", -1.0),  # White wins 11 to 3
        ("hex:3", 1.0),  # no draws, and a stolen strategy: the first player wins
        ("dots_and_boxes:rows=1,columns=1", -1.0),  # the fourth edge is the second player's
    ],
)
def test_small_boards_have_their_known_values(text, value):
    game = engram.game(text)
    assert proven(game) == value
    searched = engram.Search(game, "uct(solver=true)").run(game.initial_state(), engram.Limit(simulations=300_000))
    assert searched.value == value


@pytest.mark.parametrize(
    ("text", "opening", "value"), [("hex:3", "b2", 1.0), ("hex:3", "a1", -1.0), ("hex:2", "a1", -1.0)]
)
def test_hex_openings_have_their_known_values(text, opening, value):
    game = engram.game(text)
    state = game.play_moves(opening)
    result = engram.Search(game, "uct(solver=true)").run(state, engram.Limit(simulations=100_000))
    assert -result.value == value


@pytest.mark.parametrize("text", ["othello:5", "hex:1", "hex:20", "breakthrough:9", "dots_and_boxes:rows=6,columns=5"])
def test_a_size_that_the_game_has_not_is_refused(text):
    with pytest.raises(InvalidSpecification):
        engram.game(text)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (othello, (8.0,)), (hex_game, (5.0,)), (breakthrough, (5.5,)), (dots_and_boxes, (2.0, 2)), (line, (3.0, 3, 3)),
        (dots_and_boxes, (True, True)), (same_game, (1, 1.5)), (same_game, ("a",)), (pig, (20.5,)), (go, (9.0,)),
        (p_game, (2.5,)),
    ],
)  # fmt: skip
def test_sizes_are_whole_numbers(make, arguments):
    with pytest.raises(InvalidSpecification, match="must be a whole number"):
        make(*arguments)


def test_small_integers_of_numpy_do_not_overflow():
    small = np.uint8
    games = go(small(25)), hex_game(small(19)), line(small(24), small(24), small(5)), go(np.int8(19)), line(3, 3, 3, 2)
    assert [game.num_actions for game in games] == [626, 361, 576, 362, 3]
    assert all(engram.game(game.name).state_bytes == game.state_bytes for game in games)


def test_rollouts_of_dots_and_boxes_play_as_random_play_does():
    """Two boxes side by side after an edge: the mean outcome over all 6! orders of the rest."""
    game = engram.game("dots_and_boxes:rows=1,columns=2")
    state = game.play_moves("a1b1")

    def mean(state):
        actions = game.legal_actions(state)
        means = [mean(game.play(state, action)) for action in actions] or [game.outcome(state)]
        return sum(means) / len(means)

    rollout, rng, buffer, values = game.callbacks["rollout"].from_python, engram.rng.new_rng(1), game.new_buffer(), []
    for _ in range(8000):
        game.write(buffer, state)
        values.append(rollout(buffer.ctypes.data, rng.ctypes.data))
    assert sum(values) / len(values) == pytest.approx(mean(state), abs=0.05)
