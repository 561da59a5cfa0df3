"""Scenes: the same stones as the diagrams, a place on the board for each move, and a sentence for each slip."""

from __future__ import annotations

import json

import numpy as np
import pytest

import engram
from engram.conformance.game_contract import check_game
from engram.errors import InvalidGame
from engram.games.scene import COLOURS, DRAWN, EMPTY, FIRST, SECOND, SHAPES, Scene, cell_places
from engram.web.positions import position
from tests.games_for_tests import pick

ROOM = {"shape": "squares", "rows": 3, "columns": 3, "marks": lambda state: "." * 9, "places": cell_places(9)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shape": "square"}, "did you mean 'squares'"),
        ({"pieces": "stone"}, "did you mean 'stones'"),
        ({"rows": 0}, "rows of a scene must be a whole number, 1 or more"),
        ({"columns": 3.0}, "columns of a scene"),
        ({"players": ("Me",)}, "two players"),
        ({"places": range(9)}, "lists of cells"),
        ({"places": [[0.5], *cell_places(8)]}, "lists of cells"),
        ({"places": [[9], *cell_places(8)]}, "action 0 has up to two places from 0 to 8"),
        ({"places": [[0, 1, 2], *cell_places(8)]}, "up to two places"),
    ],
)
def test_a_scene_that_cannot_be_drawn_is_refused(changes, words):
    with pytest.raises(InvalidGame, match=words):
        Scene(**(ROOM | changes))


def test_a_scene_has_places_for_all_actions():
    with pytest.raises(InvalidGame, match="places for 8 actions of 9"):
        pick(scene=Scene(**(ROOM | {"places": cell_places(8)})))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"marks": lambda state: None}, "marks of a scene are 9 of"),
        ({"marks": lambda state: "." * 8}, "marks of a scene are 9 of"),
        ({"marks": lambda state: "x" + "." * 8}, "marks of a scene are 9 of"),
        ({"counts": lambda state: [1]}, "counts of a scene are 9 whole numbers"),
        ({"counts": lambda state: [float("nan")] * 9}, "counts of a scene are 9 whole numbers"),
        ({"counts": lambda state: [1.5] * 9}, "counts of a scene are 9 whole numbers"),
    ],
)
def test_marks_that_are_none_are_one_sentence_wherever_they_are_drawn(changes, words):
    game = pick(scene=Scene(**(ROOM | changes)))
    state = game.initial_state()
    for draw in (lambda: game.initial_state().picture(), lambda: position(game, state), lambda: check_game(game, 5)):
        with pytest.raises(InvalidGame, match=words):
            draw()


def test_two_moves_of_one_name_are_refused_where_a_name_chooses():
    game = pick(action_names=[*"abcdefgh", "A"])
    assert game.parse_action("A") == 8  # a name as it is written comes before one of another case
    assert game.parse_action("a") == 0
    with pytest.raises(InvalidGame, match="two moves of this position are written 'a'"):
        position(pick(action_names=["a", "a", *"cdefghi"]), game.initial_state())


# ------------------------------------------------------------------------------------ scenes of our games
GAMES = [
    "connect_four", "tic_tac_toe", "gomoku:9", "line:rows=9,columns=10,run=5,gravity=true", "go:5", "hex:5",
    "othello:6", "breakthrough:5", "dots_and_boxes:rows=2,columns=3",
    "same_game:seed=1,rows=5,columns=7,colours=4", "backgammon", "2048",
]  # fmt: skip


def played(game, seed):
    """Positions of a random game."""
    rng, state = np.random.default_rng(seed), game.initial_state()
    while True:
        yield state
        legal = game.legal_actions(state)
        if not legal:
            return
        state = game.play(state, int(rng.choice(legal)))


@pytest.mark.parametrize("name", GAMES)
def test_marks_and_places_follow_the_game(name):
    game = engram.game(name)
    scene = game.scene
    board = json.loads(json.dumps(scene.board()))
    cells = scene.rows * scene.columns
    assert board["shape"] in SHAPES and len(board["places"]) == game.num_actions
    assert len(scene.column_names) in (0, scene.columns) and len(scene.row_names) in (0, scene.rows)
    for state in played(game, 3):
        marks = scene.marks(state)
        assert len(marks) == cells and set(marks) <= {EMPTY, FIRST, SECOND, DRAWN, *COLOURS}
        for action in game.legal_actions(state):
            places = scene.places[action]
            assert all(0 <= place < cells for place in places)
            if len(places) == 2 and scene.counts is None:
                assert marks[places[0]] == (FIRST, SECOND)[game.to_play(state)] and marks[places[0]] != marks[places[1]]
            elif len(places) == 2:  # checkers stand on one another
                assert marks[places[0]] == (FIRST, SECOND)[game.to_play(state)] and places[0] != places[1]
            elif scene.pieces == "tiles":
                assert all(marks[place] in COLOURS for place in places)
            else:
                assert all(marks[place] == EMPTY for place in places)


@pytest.mark.parametrize("name", GAMES[:7])
def test_marks_are_those_of_the_diagram(name):
    game = engram.game(name)
    for state in played(game, 4):
        rows = [line.split()[-game.scene.columns :] for line in game.render(state).splitlines()]
        if name == "go:5":
            rows = [line.split()[1:-1] for line in game.render(state).splitlines()]
        drawn = "".join("".join(row) for row in rows if len(row) == game.scene.columns and set(row) <= set(".XO"))
        assert drawn == game.scene.marks(state)


def test_a_box_is_marked_with_its_four_edges():
    game = engram.game("dots_and_boxes:rows=1,columns=2")
    before = game.play_moves("a1b1 a1a2 a2b2")
    after = game.play(before, "b1b2")
    place = game.scene.columns + 1
    assert game.scene.marks(before)[place] == EMPTY and game.scene.marks(after)[place] == DRAWN
    assert game.scene.note(before) == "Boxes are even" and game.scene.note(after) == "Red leads by 1"


def test_checkers_are_counted_and_land_where_a_move_points():
    game = engram.game("backgammon")
    scene, state = game.scene, game.play_moves("6-5")
    assert scene.cell_names[0] == "13" and scene.cell_names[27] == "off" and len(set(scene.cell_names)) == 26
    for action in game.legal_actions(state):
        before, after = scene.counts(state), scene.counts(game.play(state, action))
        source, target = scene.places[action]
        assert after[source] == before[source] - 1 and after[target] == before[target] + 1
        assert game.action_name(action) == f"{scene.cell_names[source]}/{scene.cell_names[target]}"
    for state in played(game, 1):
        marks, counts = scene.marks(state), scene.counts(state)
        assert sum(counts) == 30 and all(
            (mark == EMPTY) == (count == 0) for mark, count in zip(marks, counts, strict=True)
        )


def test_a_game_without_a_scene_has_none():
    assert engram.game("p_game").scene is None
