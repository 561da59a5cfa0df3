"""Go's own prior against a plain reading of the diagram, and rollouts that answer the move before them."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from engram.drivers.search import Search
from engram.errors import InvalidParameter, InvalidSpecification
from engram.games.catalogue import game as game_of
from engram.games.go import prior as go_prior
from engram.games.go.patterns import TABLE
from engram.games.go.rules import stones
from engram.native.intrinsics import call_float
from engram.native.jit import compiled
from engram.presets.catalogue import preset
from engram.rng import new_rng
from engram.search.limit import Limit


def glance(cells, colour, point, last):
    """The weight of a legal move; `cells` holds 0, or 1 or 2 for a stone, by (row, column)."""
    row, column = point

    def beside(at):
        steps = [(at[0] - 1, at[1]), (at[0], at[1] - 1), (at[0], at[1] + 1), (at[0] + 1, at[1])]
        return [one for one in steps if one in cells]

    def chain(at, board):
        found, todo = {at}, [at]
        while todo:
            fresh = {one for one in beside(todo.pop()) if board[one] == board[at]} - found
            found |= fresh
            todo += fresh
        return len(found), {free for stone in found for free in beside(stone) if board[free] == 0}

    around = [cells[one] for one in beside(point)]
    corners = [(row + i, column + j) for i in (-1, 1) for j in (-1, 1)]
    enemies = sum(cells.get(one) == 3 - colour for one in corners)
    if all(kind == colour for kind in around) and enemies + any(one not in cells for one in corners) < 2:
        return go_prior.BAD
    last_liberty = [
        (cells[one], size)
        for one in beside(point)
        if cells[one]
        for size, free in [chain(one, cells)]
        if len(free) == 1
    ]
    takes = any(kind == 3 - colour for kind, _ in last_liberty)
    if not takes and len(chain(point, {**cells, point: colour})[1]) <= 1:
        return go_prior.BAD
    weight = go_prior.EVEN + go_prior.TACTIC * max((min(size, 2) for _, size in last_liberty), default=0)
    square = [cells.get((row + i, column + j), 3) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    weight += go_prior.SHAPE * TABLE[sum(kind << (2 * k) for k, kind in enumerate(square))]
    if last is not None:
        distance = abs(row - last[0]) + abs(column - last[1])
        weight += go_prior.NEAR[distance] if distance < 4 else 0.0
    lonely = len(around) < 4 and not any(around)
    return go_prior.EDGE if lonely and weight == go_prior.EVEN else weight


@pytest.mark.parametrize(("size", "seed"), [(5, 1), (5, 2), (7, 3), (9, 4)])
def test_the_prior_is_what_a_glance_at_the_diagram_says(size, seed):
    game, rng = game_of(f"go:{size}"), random.Random(seed)
    state, last = game.initial_state(), None
    buffer, weights = game.new_buffer(), np.zeros(game.num_actions, np.float32)
    seen = Counter()
    for _ in range(6 * size):
        legal = np.array(game.legal_actions(state), np.int32)
        game.write(buffer, state)
        call = game.callbacks["prior"].from_python
        assert call(buffer.ctypes.data, legal.ctypes.data, len(legal), weights.ctypes.data) == 0
        cells = {divmod(at, size): int(kind) for at, kind in enumerate(stones(state).ravel())}
        for action in legal[:-1].tolist():
            said = glance(cells, 1 + game.to_play(state), divmod(action, size), last)
            assert weights[action] == said, (game.render(state), game.action_name(action))
            seen[said] += 1
        assert weights[legal[-1]] == go_prior.PASS
        action = int(rng.choice(legal[:-1]) if len(legal) > 1 and (last is None or rng.random() < 0.9) else legal[-1])
        state = game.play(state, action)
        last = divmod(action, size) if action < size * size else None
        if game.is_over(state):
            break
    assert len(seen) > 8


@compiled
def play_out(address, state, rng, moves):
    return call_float(address, (state, rng, moves))


def test_a_rollout_answers_the_move_before_it():
    """Black has just put a stone into atari: White runs at once. Where nobody knows what was last, he seldom does."""
    game = game_of("go:9")
    played = game.play_moves("E4 E5 D5 A9 F5")
    shown = game.parse_state(game.render(played))
    runs = game.parse_action("E6")

    def first_moves(state):
        rng, found = new_rng(3), Counter()
        for _ in range(100):
            buffer, moves = game.new_buffer(), np.zeros(2000, np.int32)
            game.write(buffer, state)
            moves[0] = 1999
            play_out(game.address("heavy_rollout_moves"), buffer.ctypes.data, rng.ctypes.data, moves.ctypes.data)
            found[int(moves[1]) >> 1] += 1
        return found

    assert first_moves(played)[runs] > 80 and first_moves(shown)[runs] < 30


def test_a_search_takes_the_game_s_prior_or_refuses():
    game = game_of("go:7")
    root = game.play_moves("D4 D5 C5 A7 E5")  # White's stone on D5 is in atari
    search = Search(game, "rave(rollout=heavy, prior=game)")
    moves = search.run(root, Limit(simulations=200), seed=1).moves
    assert max(moves, key=lambda move: move.prior).name == "D6"
    assert Search(game, "uct_prior(prior=game)").run(root, Limit(simulations=60), seed=1).simulations == 60
    with pytest.raises(InvalidParameter, match="tic_tac_toe has no prior of its own; leave prior='game' out"):
        Search("tic_tac_toe", "rave(prior=game)").run(game_of("tic_tac_toe").initial_state(), Limit(simulations=5))
    with pytest.raises(InvalidSpecification, match="prior is 'game' or a compiled function, not 'gme'"):
        preset("rave(prior=gme)")
