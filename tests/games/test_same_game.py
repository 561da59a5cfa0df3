"""SameGame against rules in plain Python, best scores by complete search, and the literature's boards."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import engram
from engram.errors import InvalidSpecification, InvalidState


def columns_of(game, state):
    """The columns of a position from the left, each from the bottom, without empty ones."""
    lines = game.render(state).splitlines()
    table = [line.split()[1:] for line in lines[:-1]][::-1]
    columns = [[row[x] for row in table if row[x] != "."] for x in range(len(table[0]))]
    return tuple(tuple(map(int, column)) for column in columns if column)


def groups(columns):
    """The groups of two or more tiles, as sets of (column, height)."""
    cells = {(x, y): colour for x, column in enumerate(columns) for y, colour in enumerate(column)}
    left, result = set(cells), []
    while left:
        group, edge = set(), {left.pop()}
        while edge:
            x, y = edge.pop()
            group.add((x, y))
            around = {(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)}
            edge |= {cell for cell in around - group if cells.get(cell) == cells[x, y]}
        left -= group
        if len(group) > 1:
            result.append(group)
    return result


def without(columns, group):
    """The columns after a group has gone, and the points for it."""
    after = [[colour for y, colour in enumerate(column) if (x, y) not in group] for x, column in enumerate(columns)]
    after = tuple(tuple(column) for column in after if column)
    return after, (len(group) - 2) ** 2 + (0 if after else 1000)


@cache
def best(columns):
    """The highest score from a position."""
    return max(
        (points + best(after) for after, points in (without(columns, group) for group in groups(columns))), default=0
    )


def name(cell):
    return f"{'abcdefghijklmnopqrst'[cell[0]]}{cell[1] + 1}"


BOARDS = ["same_game", "same_game:position=20", "same_game:seed=3,rows=20,columns=20,colours=2"]
BOARDS += ["same_game:seed=7,rows=6,columns=4,colours=3", "same_game:seed=2,rows=2,columns=9,colours=1"]


@pytest.mark.parametrize("text", BOARDS)
def test_moves_falls_and_points_are_those_of_plain_python(text):
    game, rng = engram.game(text), np.random.default_rng(5)
    for _ in range(4):
        state, total = game.initial_state(), 0.0
        while True:
            columns = columns_of(game, state)
            moves = {name(min(group)): group for group in groups(columns)}
            legal = game.legal_actions(state)
            assert sorted(game.action_name(action) for action in legal) == sorted(moves)
            assert int(state["left"]) == sum(map(len, columns))
            if not legal:
                break
            action = int(rng.choice(legal))
            after, points = without(columns, moves[game.action_name(action)])
            state = game.play(state, action)
            assert columns_of(game, state) == after and game.reward(state) == points
            assert game.is_sound(state)
            total += points
        assert game.outcome(state) == 0.0 and total <= game.bounds[1]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_search_finds_the_best_score_of_a_small_board(seed):
    """And a complete search by the game's own moves agrees with that in plain Python."""
    game = engram.game(f"same_game:seed={seed},rows=4,columns=4,colours=3")
    state, truth = game.initial_state(), best(columns_of(game, game.initial_state()))

    def highest(state):
        after = (game.play(state, action) for action in game.legal_actions(state))
        return max((game.reward(child) + highest(child) for child in after), default=0.0)

    assert highest(state) == truth
    search, total = engram.Search(game, "uct(bounds=learnt,backup=max_mcts)"), 0.0
    while not game.is_over(state):
        result = search.run(state, engram.Limit(simulations=3000))
        state = game.play(state, result.action)
        search.advance(result.action)
        total += game.reward(state)
    assert total == truth


def test_the_standard_boards():
    """First and last rows as published; 20 boards of 225 tiles in five colours, all different."""
    rows = {
        1: ("311410404411023", "101011221001432"),
        10: ("013343432440321", "031101414111042"),
        20: ("301330010024001", "341440000102100"),
    }
    boards = set()
    for position in range(1, 21):
        game = engram.game(f"same_game:position={position}")
        marks = game.scene.marks(game.initial_state())
        assert len(marks) == 225 and set(marks) == set("12345")
        boards.add(marks)
        if position in rows:
            published = ["".join(str(1 + int(colour)) for colour in row) for row in rows[position]]
            assert [marks[:15], marks[-15:]] == published
    assert len(boards) == 20


def test_a_published_line_on_the_first_board():
    """57 moves as (column, height), in groups named by any of their tiles."""
    line = """13,0 9,0 10,8 0,3 11,3 6,5 1,0 4,3 3,1 4,4 0,2 0,2 5,1 8,1 9,2 8,3 7,6 5,4 6,0 6,5 3,4 5,4 12,3 12,8 2,6
        2,3 8,6 12,6 11,4 11,8 10,2 11,8 0,9 2,4 2,3 1,5 4,4 11,7 12,3 12,2 13,1 0,4 1,1 1,0 2,3 3,4 8,2 12,1 13,0
        12,0 11,0 0,0 3,1 9,0 5,1 5,1 0,0"""
    game = engram.game("same_game")
    state, total = game.initial_state(), 0.0
    for word in line.split():
        cell = tuple(map(int, word.split(",")))
        (group,) = [group for group in groups(columns_of(game, state)) if cell in group]
        state = game.play(state, name(min(group)))
        total += game.reward(state)
    assert game.is_over(state) and total == 1836.0 and state["left"] == 25


def test_the_last_group_brings_the_bonus():
    game = engram.game("same_game:seed=5,rows=3,columns=3,colours=2")
    state = game.parse_state(". . .\n1 . .\n1 2 2")
    after = game.play_moves("a1 a1", state)
    assert game.reward(game.play(state, "a1")) == 0.0 and game.reward(after) == 1000.0 and game.is_over(after)
    assert game.same(game.parse_state(game.render(state)), state)
    for diagram in ("1 . .\n. . .\n1 2 2", ". . .\n. . .\n1 . 2", "1 2", ". . .\n. . .\n1 2 3", "1 1 1\n1 1 1\n1 1 1"):
        with pytest.raises(InvalidState, match="same_game"):
            game.parse_state(diagram)


def test_games_keep_the_contract_and_wrong_ones_are_refused():
    for text in BOARDS:
        report = engram.check_game(engram.game(text), games=3)
        assert report.general_features == ("one player", "rewards on the way", "bounds of its own")
    for text in ("position=0", "position=21", "rows=10", "seed=1,rows=1", "seed=1,colours=10", "seed=-1"):
        with pytest.raises(InvalidSpecification, match="same_game"):
            engram.game(f"same_game:{text}")


def test_tabu_colours_raise_the_score_of_rollouts(tmp_path):
    """As Schadd et al. report; and a saved search goes on after a move, whose score stands in the state."""
    game = engram.game("same_game")
    values = {}
    for rollout in ("uniform", "heavy"):
        search = engram.Search(game, f"uct(rollout={rollout},exploration=1000.0,bounds=learnt)")
        values[rollout] = search.run(game.initial_state(), engram.Limit(simulations=300)).value
    assert values["heavy"] > 1.5 * values["uniform"] > 0.0
    result = search.run(game.initial_state(), engram.Limit(simulations=300))
    search.advance(result.action)
    search.run(search.root, engram.Limit(simulations=10))
    search.save(tmp_path / "tree")
    other = engram.Search(game, "uct(rollout=heavy,exploration=1000.0,bounds=learnt)")
    other.load(tmp_path / "tree")
    assert game.same(other.root, search.root)
