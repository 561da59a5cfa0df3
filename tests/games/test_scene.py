"""Pictures of a user's own games: a slip in a `Scene` is one sentence, before anything is drawn."""

from __future__ import annotations

import pytest

import engram
from engram.conformance.game_contract import check_game
from engram.errors import InvalidGame
from engram.games.scene import Scene, cell_places
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


def test_every_built_in_scene_draws_its_games():
    for name in (
        "connect_four",
        "go:5",
        "hex:4",
        "othello:4",
        "breakthrough:4",
        "dots_and_boxes",
        "backgammon",
        "2048",
    ):
        game = engram.game(name)
        marks, _ = game.scene.drawn(game.initial_state())
        assert len(marks) == game.scene.num_cells
