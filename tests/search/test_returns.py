"""Searches beyond two players and outcomes in [-1, 1]: nature, rewards, discount, bounds given and learnt."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import engram
from engram.drivers.explanation import explain
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.drivers.search import Search
from engram.errors import InvalidFile, InvalidParameter, InvalidState, OperatorError
from engram.games.record import NATURE
from engram.presets import puct, uct
from engram.search import backup as backups
from engram.search.evaluation import Evaluation
from engram.search.expansion import Expansion
from engram.search.extension import Extension
from engram.search.operators import after_backup, backup, mix
from engram.search.preset import Preset
from engram.trees.saved import SavedTree
from tests.games_for_tests import WalkPosition, walk
from tests.reference import ReferenceSearch, Units, expectimax
from tests.search.test_reference import BACKUPS, SELECTIONS, assert_same_tree

# Returns of the walk lie within ±12. Bounds of a power of two round as the game's own numbers do.
KINDS = {
    "chance": {"chance": True, "rewards": False, "bounds": (-2.0, 2.0)},
    "rewards": {"chance": False, "rewards": True, "bounds": (-16.0, 16.0)},
    "chance, rewards, discount": {"discount": 0.5, "bounds": (-16.0, 16.0)},
    "two players": {"players": 2, "bounds": (-16.0, 16.0)},
    "two players, discount": {"players": 2, "bounds": (-16.0, 16.0), "discount": 0.75, "chance": False},
    "bounds around another middle": {"bounds": (-8.0, 24.0), "discount": 0.5},
    "learnt bounds": {"bounds": None},
    "learnt bounds, discount": {"bounds": None, "discount": 0.75, "turns": 4},
}


def both(kind):
    """A walk of a kind, and its oracle's position and units."""
    options = dict(KINDS[kind])
    game = walk(**options)
    units = Units(options.pop("bounds"), options.get("discount", 1.0))
    return game, WalkPosition(**options), units


def check(kind, selection, backup_name, simulations=200, seed=3, after=1, **parts):
    game, position, units = both(kind)
    ours, theirs = BACKUPS[backup_name]
    bounds = "learnt" if units.bounds is None else "game"
    preset = Preset(
        selection=SELECTIONS[selection][0], backup=ours, expansion=Expansion(after=after), bounds=bounds, **parts
    )
    oracle = ReferenceSearch(position, SELECTIONS[selection][1], replace(theirs, units=units), expand_after=after)
    search = Search(game, preset)
    result = search.run(game.initial_state(), Limit(simulations=simulations), seed=seed)
    oracle.run(simulations, seed)
    assert_same_tree(search.tree, oracle)
    assert result.bounds == pytest.approx(units.bounds)
    assert result.value == pytest.approx(units.of(oracle.root.value))
    return game, search, result, oracle


@pytest.mark.parametrize("backup_name", BACKUPS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_backup_rule_grows_the_oracles_tree(kind, backup_name):
    check(kind, "ucb1", backup_name)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("kind", ["chance, rewards, discount", "two players", "learnt bounds"])
def test_every_selection_rule_grows_the_oracles_tree(kind, selection):
    for after in (0, 3):
        check(kind, selection, "average", after=after)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_is_kept_from_move_to_move(kind):
    """A new root's value is that of its position, without the reward of the move to it."""
    game, search, result, _ = check(kind, "ucb1", "average", simulations=400)
    state = game.play(game.initial_state(), result.action)
    search.advance(result.action)
    if game.has("chance"):
        with pytest.raises(InvalidState, match="nature moves here"):
            search.run(state, Limit(simulations=10))
        action = game.drawn(state, 0.0)
        state = game.play(state, action)
        search.advance(action)
    root = search.tree.nodes[0]
    first, number = int(root["first_child"]), int(root["num_visited"])
    children = search.tree.nodes[first : first + number]
    own = 1.0 * root["visit_count"] - children["visit_count"].sum()
    assert own == 1.0 and root["visit_count"] > 20
    below = float((children["visit_count"] * children["value"]).sum())
    assert abs(root["value"] * root["visit_count"] - below) <= 1.0 + 1e-9  # the rest is one evaluation
    before = search.tree.nodes[0]["visit_count"]
    again = search.run(state, Limit(simulations=50), seed=1)
    assert search.tree.nodes[0]["visit_count"] == before + 50
    assert again.bounds[0] <= again.value <= again.bounds[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["average", "max_mcts(trace_decay=0.5)", "bts", "softmax(temperature=20.0)"])
def test_values_approach_the_truth(kind, rule):
    game, position, units = both(kind)
    preset = f"uct(backup={rule},exploration=0.4{'' if units.bounds else ',bounds=learnt'})"
    result = Search(game, preset).run(game.initial_state(), Limit(simulations=40_000), seed=1)
    best = max(result.moves, key=lambda move: move.visits)
    after = position.copy()
    after.play(best.action)
    truth = after.reward() + (1.0 if game.has("chance") else position.discount) * expectimax(after)
    assert truth == pytest.approx(expectimax(position))
    # The mean also counts what exploration tries; two players explore in opposite directions.
    assert best.value == pytest.approx(truth, abs=0.025 * (result.bounds[1] - result.bounds[0]))


class Chances:
    """Move 0 ends with 0; move 1 leads to ten moves, one of which is worth 1, or to nature's only move before them."""

    def __init__(self, has_nature, moves=()):
        self.has_nature, self.moves = has_nature, moves

    def copy(self):
        return type(self)(self.has_nature, self.moves)

    def is_over(self):
        return self.moves[:1] == (0,) or len(self.moves) == 2 + self.has_nature

    def legal_actions(self):
        if self.is_over():
            return []
        return [0, 1] if not self.moves else [0] if self.to_play() == NATURE else range(10)

    def to_play(self):
        return NATURE if self.has_nature and len(self.moves) == 1 and not self.is_over() else 0

    def chance(self):
        return [1.0]

    def play(self, action):
        self.moves += (action,)

    def outcome(self):
        return 0.0 if self.moves[0] == 0 else 1.0 if self.moves[-1] == 3 else -1.0


@pytest.mark.parametrize(
    "rule",
    ["bts(temperature=0.5)", "ments(temperature=0.5)", "tents(temperature=2)", "uct(backup=power_mean(power=100))"],
)
def test_a_certain_draw_of_nature_changes_no_mixed_value(rule):
    """What a mix says of the moves behind a draw must reach the move before it."""
    values = []
    for has_nature in (False, True):
        game = engram.PythonGame("chances", partial(Chances, has_nature), num_actions=10, max_moves=3, players=1)
        result = engram.Search(game, rule).run(game.initial_state(), engram.Limit(simulations=5000), seed=1)
        values.append(next(move.value for move in result.moves if move.action == 1))
    assert values[0] == pytest.approx(values[1], abs=0.03)


def test_nature_is_drawn_by_its_weights_and_keeps_its_mean():
    game = walk(rewards=False, turns=1, bounds=(-2.0, 2.0))
    search = Search(game, uct())
    search.run(game.initial_state(), Limit(simulations=30_000), seed=5)
    nodes = search.tree.nodes
    for move in nodes[1:3]:
        first = int(move["first_child"])
        children = nodes[first : first + 3]
        by_action = {int(child["action"]): child for child in children}
        assert [float(by_action[action]["prior"]) for action in range(3)] == pytest.approx([1 / 2, 1 / 3, 1 / 6])
        shares = np.array([by_action[action]["visit_count"] for action in range(3)]) / move["visit_count"]
        error = 4 * np.sqrt(0.25 / move["visit_count"])
        assert shares == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=error)


def test_python_games_grow_the_same_tree_as_compiled_ones():
    options = {"num_actions": 3, "max_moves": 6, "players": 1, "bounds": (-16.0, 16.0), "discount": 0.5}
    plain = engram.PythonGame("walk", WalkPosition, **options)
    compiled = walk(bounds=(-16.0, 16.0), discount=0.5)

    class Middle:
        def evaluate(self, states):
            return Evaluation(np.full(len(states), 2.5))

    trees = []
    for game in (plain, compiled):
        search = Search(game, puct(evaluator=Middle()))
        search.run(game.initial_state(), Limit(simulations=300), seed=2)
        trees.append(search.tree.nodes[: search.tree.num_nodes].copy())
    assert (trees[0] == trees[1]).all()
    assert float(trees[0]["value"].max()) <= 1.0


def test_an_evaluator_answers_in_the_games_units():
    game = walk(bounds=(-8.0, 24.0), rewards=False)

    class High:
        def evaluate(self, states):
            return Evaluation(np.full(len(states), 25.0))

    class Known:
        def evaluate(self, states):
            return Evaluation(np.full(len(states), 16.0))

    with pytest.raises(OperatorError, match=r"outside \[-8, 24\]"):
        Search(game, puct(evaluator=High())).run(game.initial_state(), Limit(simulations=2))
    result = Search(game, puct(evaluator=Known())).run(game.initial_state(), Limit(simulations=2))
    assert result.value == pytest.approx(16.0)


def too_dear(state, rng):
    return 30.0


def test_a_return_beyond_the_bounds_is_an_error():
    with pytest.raises(OperatorError, match=r"too_dear gave a number outside \[-12, 12\]"):
        Search(walk(rollout=too_dear), "uct").run(walk().initial_state(), Limit(simulations=50))


def test_learnt_bounds_are_said_and_hold_every_return():
    game = walk(bounds=None)
    result = Search(game, "uct(bounds=learnt)").run(game.initial_state(), Limit(simulations=3000))
    assert result.bounds_learnt and result.to_json()["bounds_learnt"]
    assert "learnt so far" in str(result)
    low, high = result.bounds
    truth = expectimax(WalkPosition())
    assert -12.0 <= low < truth < high <= 12.0
    plain = Search(walk(), "uct").run(game.initial_state(), Limit(simulations=3000))
    assert not plain.bounds_learnt and "learnt" not in str(plain)


def test_one_player_is_called_the_player():
    game = walk()
    explanation = explain(Search(game, "uct"), game.initial_state(), Limit(simulations=200))
    for text in (str(explanation.result), str(explanation)):
        assert "the player plays" in text and "first player" not in text


# ------------------------------------------------------------------------------------- what does not go


@backup()
def own_rule(tree, path, depth, value, parameters):
    """A rule that says nothing of nature or rewards."""
    return 0


@mix(chance=False)
def own_mix(tree, node, mean, parameters):
    """A mix that does not go with nature."""
    return mean


@after_backup()
def own_hook(tree, path, depth, value, moves, parameters):
    """A hook that says nothing of nature or rewards."""
    return 0


def one_plane(state, planes):
    planes[0] = state.place
    return 0


@pytest.mark.parametrize(
    ("kind", "preset", "word"),
    [
        ({}, "uct(solver=true)", "the solver does not go with moves of nature"),
        ({"chance": False}, "uct(solver=true)", "the solver does not go with rewards"),
        (
            {"chance": False, "rewards": False, "discount": 0.5},
            "uct(solver=true)",
            "the solver does not go with rewards",
        ),
        ({}, "rave", "RAVE does not go"),
        ({"chance": False}, "rave", "RAVE does not go with rewards"),
        ({"encode": one_plane, "planes_shape": (1, 1, 1), "bounds": None}, "memory_uct", "asks for known ones"),
        ({}, "history_uct", "does not go with moves of nature"),
        ({}, "dents", "best_child_with_entropy does not go with moves of nature"),
        ({}, "uct(all_children=true)", "all_children"),
        ({"chance": False}, "uct(transpositions=true)", "does not go with rewards"),
        ({"bounds": None}, "uct", "bounds=learnt"),
        ({"players": 2}, "uct(bounds=learnt)", "is for one player"),
        ({"bounds": None}, "uct(bounds=learnt,threads=2)", "does not go with threads"),
        ({"chance": False}, Preset(SELECTIONS["ucb1"][0], own_rule()), "own_rule does not go with rewards"),
        ({"rewards": False}, Preset(SELECTIONS["ucb1"][0], own_rule()), "own_rule does not go with moves of nature"),
        ({}, Preset(SELECTIONS["ucb1"][0], backups.trace_step_mix(mix=own_mix())), "own_mix does not go with moves"),
        ({}, Preset(SELECTIONS["ucb1"][0], extensions=(Extension(after_backup=own_hook()),)), "own_hook does not go"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else value if isinstance(value, str) else "own rule",
)
def test_what_does_not_go_is_refused_in_a_sentence(kind, preset, word):
    with pytest.raises(InvalidParameter, match=word):
        Search(walk(**kind), preset)


def test_learnt_bounds_are_not_for_two_players():
    with pytest.raises(InvalidParameter, match="is for one player"):
        Search("tic_tac_toe", "uct(bounds=learnt)")
    with pytest.raises(InvalidParameter, match="bounds is 'game' or 'learnt'"):
        uct(bounds="wide")


def test_one_player_without_chance_and_rewards_has_every_extension():
    """Bounds alone change no rule: the solver proves, RAVE and transpositions share."""
    game = walk(chance=False, rewards=False, bounds=(-2.0, 2.0), turns=3)
    truth = expectimax(WalkPosition(chance=False, rewards=False, turns=3))
    result = Search(game, "uct(solver=true,transpositions=true)").run(game.initial_state(), Limit(simulations=4000))
    assert result.stopped == "proven"
    assert result.value == pytest.approx(truth)
    result = Search(game, "rave").run(game.initial_state(), Limit(simulations=4000))
    assert max(move.value for move in result.moves) == pytest.approx(truth, abs=0.2)


# --------------------------------------------------------------------------------- files, threads, lockstep


@pytest.mark.parametrize("kind", ["chance, rewards, discount", "two players", "learnt bounds"])
def test_a_saved_search_continues_bit_for_bit(kind, tmp_path):
    game, _, units = both(kind)
    preset = "uct" if units.bounds else "uct(bounds=learnt)"
    first, other, path = Search(game, preset), Search(game, preset), tmp_path / "tree.engram"
    first.run(game.initial_state(), Limit(simulations=300), seed=4)
    first.save(path)
    other.load(path)
    for search in (first, other):
        search.run(search.root, Limit(simulations=500), seed=None)
    assert first.tree.bounds == other.tree.bounds
    for name, rows in first.tree.arrays().items():
        count = first.tree.num_nodes
        assert (rows[:count] == other.tree.arrays()[name][:count]).all()
    saved = SavedTree.read(path)
    assert saved.bounds[0] <= saved.in_units(float(saved.nodes[0]["value"])) <= saved.bounds[1]


def test_a_file_of_other_bounds_is_refused(tmp_path):
    game, path = walk(), tmp_path / "tree.engram"
    search = Search(game, "uct")
    search.run(game.initial_state(), Limit(simulations=50))
    search.save(path)
    with pytest.raises(InvalidFile, match="returns between -12 and 12"):
        Search(walk(bounds=(-13.0, 13.0)), "uct").load(path)


def test_threads_and_lockstep_agree_with_one_search():
    game = walk(bounds=(-16.0, 16.0))
    truth = expectimax(WalkPosition())
    for parallel in ("tree", "root"):
        search = Search(game, uct(exploration=0.4), threads=2, parallel=parallel)
        result = search.run(game.initial_state(), Limit(simulations=40_000))
        assert result.moves[0].value == pytest.approx(truth, abs=0.4)
    alone = Search(game, "uct").run(game.initial_state(), Limit(simulations=500), seed=9)
    both_ = Lockstep(game, "uct", 2).run([game.initial_state()] * 2, Limit(simulations=500), [9, 10])
    assert both_[0].root_value == alone.value
    by_action = {move.action: move.value for move in alone.moves}
    assert both_[0].value.tolist() == [by_action[int(action)] for action in both_[0].actions]


def test_a_value_beyond_the_bounds_names_the_evaluator():
    game = engram.game("same_game")

    class Small:
        def evaluate(self, states):
            return engram.Evaluation(np.full(len(states), -0.5), np.ones((len(states), game.num_actions)))

    search = engram.Search(game, engram.presets.puct(evaluator=Small()))
    with pytest.raises(
        OperatorError, match=r"the evaluator gave a number outside \[0, \d+\], the bounds of same_game's"
    ):
        search.run(game.initial_state(), engram.Limit(simulations=10))
