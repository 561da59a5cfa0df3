"""The compiled search grows the oracle's tree, node by node, from the same seed."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep, RootNoise
from engram.drivers.search import Search
from engram.errors import InvalidParameter
from engram.games.line.one_word import line
from engram.presets import puct, puct_rave, uct
from engram.search import backup as backups
from engram.search import selection as selections
from engram.search.columns import Advice, Column, advice_dtype
from engram.search.evaluation import Evaluation
from engram.search.expansion import Expansion
from engram.search.extension import Extension
from engram.search.operators import Parameter, after_backup, mix, on_leaf
from engram.search.preset import Preset
from engram.search.schedules import ExpIntegral, StepsOf
from engram.search.tree import CHANCE, PLAYER_1, TERMINAL, column_of, nodes_of, sign_of
from tests import reference
from tests.games_for_tests import PickPosition, pick
from tests.reference import Backup, LinePosition, Node, ReferenceSearch, Rng

GAMES = {
    "tic_tac_toe": (line(3, 3, 3), lambda: LinePosition(3, 3, 3)),
    "connect_four": (line(6, 7, 4, gravity=True), lambda: LinePosition(6, 7, 4, gravity=True)),
    "pick": (pick(), PickPosition),
}

SELECTIONS = {
    "ucb1": (selections.ucb1(exploration=0.7), reference.ucb1(0.7)),
    "ucb1 with urgency": (
        selections.ucb1(exploration=0.9, first_play_urgency=0.8),
        reference.ucb1(0.9, 0.8),
    ),
    "puct": (selections.puct(exploration=1.25), reference.puct(1.25)),
    "puct with reduction": (selections.puct(exploration=2.0, reduction=0.3), reference.puct(2.0, reduction=0.3)),
    "puct with urgency": (
        selections.puct(exploration=1.0, first_play_urgency=-0.2),
        reference.puct(1.0, -0.2),
    ),
    "epsilon_greedy": (selections.epsilon_greedy(epsilon=0.2), reference.epsilon_greedy(0.2)),
    "epsilon_greedy with urgency": (
        selections.epsilon_greedy(epsilon=0.3, first_play_urgency=0.1),
        reference.epsilon_greedy(0.3, 0.1),
    ),
    "greedy": (selections.greedy(), reference.greedy()),
    "greedy with urgency": (selections.greedy(first_play_urgency=0.25), reference.greedy(0.25)),
}


@mix(weight=Parameter(0.5))
def halfway(tree, node, mean, parameters):
    """Between the node's own mean and the value of its most visited child."""
    nodes = nodes_of(tree)
    first = nodes[node].first_child
    most = 0
    value = mean
    for child in range(first, first + nodes[node].num_visited):
        if nodes[child].visit_count > most:
            most = nodes[child].visit_count
            value = nodes[child].value
    return (1.0 - parameters.weight) * mean + parameters.weight * value


def halfway_reference(node: Node) -> float:
    visited = [child for child in node.visited if child.visit_count > 0]
    value = max(visited, key=lambda child: child.visit_count).value if visited else node.mean
    return 0.75 * node.mean + 0.25 * value


# The tables have tests of their own (test_rules.py); here one rounding in them would decide a tie.
TEMPERATURES = ExpIntegral((0.5,)).table(200).tolist()

BACKUPS = {
    "average": (backups.average(), Backup()),
    "erwa": (backups.erwa(0.1), Backup(steps=[1.0, 0.1])),
    "td": (backups.td(), Backup(trace_decay=0.9, discount=0.9, min_step=0.005)),
    "td best": (
        backups.td(trace_decay=0.5, discount=0.95, min_step=0.05, bootstrap="best"),
        Backup(trace_decay=0.5, discount=0.95, min_step=0.05, bootstrap="best"),
    ),
    "initial value": (
        backups.trace_step_mix(trace_decay=0.6, initial=-0.25),
        Backup(trace_decay=0.6, initial=-0.25),
    ),
    "initial value best": (
        backups.trace_step_mix(trace_decay=0.6, discount=0.9, bootstrap=1, initial=0.1),
        Backup(trace_decay=0.6, discount=0.9, bootstrap="best", initial=0.1),
    ),
    "sarsa": (
        backups.trace_step_mix(trace_decay=0.0, steps=np.array([1.0, 0.3])),
        Backup(trace_decay=0.0, steps=[1.0, 0.3]),
    ),
    "q-learning": (
        backups.trace_step_mix(trace_decay=0.0, bootstrap=1, discount=0.97, steps=np.array([1.0, 0.3])),
        Backup(trace_decay=0.0, bootstrap="best", discount=0.97, steps=[1.0, 0.3]),
    ),
    "table": (
        backups.trace_step_mix(steps=np.array([1.0, 0.7, 0.4, 0.01]), min_step=0.02),
        Backup(steps=[1.0, 0.7, 0.4, 0.01], min_step=0.02),
    ),
    "softmax": (backups.softmax(temperature=3.0), Backup(mix=reference.softmax(lambda n: 3.0))),
    "softmax of the budget": (
        backups.softmax(knots=0.5, budget=200),
        Backup(mix=reference.softmax(lambda n: TEMPERATURES[min(n, 800) - 1])),
    ),
    "coulom": (backups.coulom(0.1, 0.5, 42), Backup(mix=reference.coulom(0.1, 0.5, 42))),
    "monotone": (
        backups.monotone(knots=2.0, budget=300),
        Backup(steps=StepsOf(ExpIntegral((2.0,), base=1.0)).table(300).tolist()),
    ),
    "mix": (
        backups.trace_step_mix(trace_decay=0.8, mix=halfway(weight=0.25)),
        Backup(trace_decay=0.8, mix=halfway_reference),
    ),
}

EXPANSIONS = [(1, False), (0, False), (3, False), (1, True), (0, True), (2, True)]


def position_after(game_name: str, num_moves: int, seed: int):
    """The same random position, unfinished, as a compiled state and as the oracle's."""
    game, twin = GAMES[game_name]
    rng = random.Random(seed)
    while True:
        state, position = game.initial_state(), twin()
        for _ in range(num_moves):
            action = rng.choice(position.legal_actions())
            state = game.play(state, action)
            position.play(action)
            assert game.legal_actions(state) == sorted(position.legal_actions())
            if not position.legal_actions():
                break
        else:
            return game, state, position


def assert_same_tree(tree, oracle: ReferenceSearch) -> None:
    """Every node of both trees, visited or not."""
    assert tree.num_nodes == oracle.num_nodes
    assert tree.full == oracle.full
    count = 0
    waiting = [(0, oracle.root, ())]
    while waiting:
        index, node, line_to = waiting.pop()
        count += 1
        row = tree.nodes[index]
        assert row["visit_count"] == node.visit_count, line_to
        assert row["value"] == pytest.approx(node.value, rel=0, abs=1e-12), line_to
        assert row["num_visited"] == node.num_visited, line_to
        assert row["num_children"] == len(node.children), line_to
        assert row["in_flight"] == 0, line_to
        assert bool(row["flags"] & PLAYER_1) == (node.player == 1), line_to
        assert bool(row["flags"] & CHANCE) == (node.player == 2), line_to
        assert bool(row["flags"] & TERMINAL) == node.terminal, line_to
        if line_to:
            assert row["prior"] == np.float32(node.prior), line_to
        memory = tree.arrays().get("memory")
        if memory is not None and node.memory_count:
            assert memory[index]["value"] == pytest.approx(node.memory_value, rel=0, abs=1e-12), line_to
        if memory is not None:
            assert memory[index]["count"] == pytest.approx(node.memory_count, rel=1e-12), line_to
        children = tree.children(index)
        assert children["action"].tolist() == [child.action for child in node.children], line_to
        first = int(row["first_child"])
        waiting += [(first + k, child, (*line_to, child.action)) for k, child in enumerate(node.children)]
    assert count == tree.num_nodes


def compare(game, state, position, preset: Preset, oracle: ReferenceSearch, simulations: int, seed: int) -> Search:
    search = Search(game, preset)
    result = search.run(state, Limit(simulations=simulations), seed=seed)
    oracle.run(simulations, seed)
    assert_same_tree(search.tree, oracle)
    assert result.simulations == simulations
    assert result.value == (-1 if position.to_play() else 1) * search.tree.nodes[0]["value"]
    return search


# The generator is compared through every draw of every search below; here its first words, too.
def test_generator_is_the_published_one():
    assert [Rng._mixed(0x9E3779B97F4A7C15 * k) for k in (1, 2)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    rng = Rng(0)
    assert (rng.a, rng.b) == (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4)
    assert rng.word() == (0xE220A8397B1DCDAF + 0x6E789E6AA1B965F4) % 2**64


@pytest.mark.parametrize("backup", BACKUPS)
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("game_name", GAMES)
def test_every_selection_and_backup_and_expansion(game_name, selection, backup):
    simulations = {"tic_tac_toe": 150, "connect_four": 60, "pick": 150}[game_name]
    for number, (after, all_children) in enumerate(EXPANSIONS):
        # Of each three expansions one starts in the initial position, the others later, either side to move.
        game, state, position = position_after(game_name, (0, 3, 2)[number % 3], seed=number)
        preset = Preset(
            selection=SELECTIONS[selection][0],
            backup=BACKUPS[backup][0],
            expansion=Expansion(after=after, all_children=all_children),
        )
        oracle = ReferenceSearch(
            position, SELECTIONS[selection][1], BACKUPS[backup][1], expand_after=after, all_children=all_children
        )
        compare(game, state, position, preset, oracle, simulations, seed=100 + number)


@pytest.mark.parametrize("simulations", [1, 2, 3, 8, 9, 10, 1000])
@pytest.mark.parametrize("game_name", GAMES)
@pytest.mark.parametrize("expansion", EXPANSIONS)
def test_every_budget(game_name, simulations, expansion):
    after, all_children = expansion
    game, state, position = position_after(game_name, 1, seed=simulations)
    oracle = ReferenceSearch(position, reference.ucb1(), expand_after=after, all_children=all_children)
    preset = uct(expand_after=after, all_children=all_children)
    compare(game, state, position, preset, oracle, simulations, seed=-simulations)


def test_a_long_search():
    game, state, position = position_after("connect_four", 8, seed=5)
    compare(game, state, position, uct(), ReferenceSearch(position, reference.ucb1()), 8000, seed=2**70 + 5)


@pytest.mark.parametrize("max_nodes", [10, 40, 137])
@pytest.mark.parametrize("game_name", GAMES)
def test_bounded_tree(game_name, max_nodes):
    for after, all_children in EXPANSIONS:
        game, state, position = position_after(game_name, 2, seed=max_nodes)
        search = Search(game, uct(expand_after=after, all_children=all_children), max_nodes=max_nodes)
        oracle = ReferenceSearch(
            position,
            reference.ucb1(),
            expand_after=after,
            all_children=all_children,
            max_nodes=max_nodes,
            num_actions=game.num_actions,
        )
        result = search.run(state, Limit(simulations=300), seed=1)
        oracle.run(300, 1)
        assert_same_tree(search.tree, oracle)
        assert result.tree_full
        assert result.nodes <= max_nodes


@pytest.mark.parametrize("expansion", EXPANSIONS)
@pytest.mark.parametrize("game_name", GAMES)
def test_reuse_from_move_to_move(game_name, expansion):
    after, all_children = expansion
    game, twin = GAMES[game_name]
    preset = uct(expand_after=after, all_children=all_children, backup=backups.td(bootstrap="best"))
    search = Search(game, preset)
    backup = Backup(trace_decay=0.9, discount=0.9, min_step=0.005, bootstrap="best")
    oracle = ReferenceSearch(twin(), reference.ucb1(), backup, expand_after=after, all_children=all_children)
    state, position = game.initial_state(), twin()
    rng = random.Random(3)
    reused = 0
    for move in range(12):
        if not position.legal_actions():
            break
        # Small budgets too, so that moves are played which the tree has never visited.
        simulations = (200, 3, 1, 77)[move % 4]
        reused += oracle.root.visit_count > 0
        search.run(state, Limit(simulations=simulations), seed=move)
        oracle.run(simulations, move)
        assert_same_tree(search.tree, oracle)
        action = rng.choice(position.legal_actions())
        state = game.play(state, action)
        position.play(action)
        search.advance(action)
        oracle.advance(action)
    assert reused >= 2


def test_run_again_without_advance_goes_on():
    game, state, position = position_after("connect_four", 4, seed=9)
    search = Search(game, uct(all_children=True))
    oracle = ReferenceSearch(position, reference.ucb1(), all_children=True)
    for seed, simulations in enumerate((5, 40, 2, 100)):
        search.run(state, Limit(simulations=simulations), seed=seed)
        oracle.run(simulations, seed)
        assert_same_tree(search.tree, oracle)


def heuristic(state, rng):
    return (state.score[0] - state.score[1]) / 72.0


class HeuristicPosition(PickPosition):
    def rollout(self, rng: Rng) -> float:
        return (self.scores[0] - self.scores[1]) / 72


def test_compiled_evaluation_instead_of_rollouts():
    position = HeuristicPosition()
    preset = Preset(selection=selections.puct(), evaluation=heuristic)
    game = GAMES["pick"][0]
    compare(game, game.initial_state(), position, preset, ReferenceSearch(position, reference.puct()), 700, seed=8)


# ------------------------------------------------------------------------------- evaluators by batch
def stub(mine: int, theirs: int, num_actions: int) -> tuple[float, list[float]]:
    """A value and weights that depend on the position alone; weights have ties."""
    word = Rng._mixed(mine ^ Rng._mixed(theirs + 1))
    value = (word % 2001 - 1000) / 1000
    return value, [1.0 + Rng._mixed(word + action) % 4 for action in range(num_actions)]


class StubEvaluator:
    def __init__(self, num_actions: int):
        self.num_actions = num_actions
        self.batches: list[int] = []

    def evaluate(self, states) -> Evaluation:
        answers = [stub(int(state["mine"]), int(state["mine"] ^ state["stones"]), self.num_actions) for state in states]
        self.batches.append(len(answers))
        value, policy = zip(*answers, strict=True)
        return Evaluation(np.array(value, np.float32), np.array(policy, np.float32))


def stub_of(position: LinePosition) -> tuple[float, list[float]]:
    rows = len(position.board) // position.columns
    words = [0, 0]
    for cell, player in enumerate(position.board):
        if player >= 0:
            words[player] |= 1 << (rows - 1 - cell // position.columns + cell % position.columns * (rows + 1))
    player = position.to_play()
    return stub(words[player], words[1 - player], position.columns if position.gravity else len(position.board))


@pytest.mark.parametrize("game_name", ["tic_tac_toe", "connect_four"])
@pytest.mark.parametrize("backup", ["average", "td best"])
@pytest.mark.parametrize("rule", [{}, {"reduction": 0.25}, {"first_play_urgency": 0.1}, {"exploration": 4.0}], ids=str)
def test_evaluator_with_priors(game_name, backup, rule):
    game, state, position = position_after(game_name, 1, seed=4)
    preset = puct(backup=BACKUPS[backup][0], evaluator=StubEvaluator(game.num_actions), **rule)
    oracle = ReferenceSearch(position, reference.puct(**rule), BACKUPS[backup][1], evaluator=stub_of)
    search = compare(game, state, position, preset, oracle, 400, seed=3)
    children = search.tree.children()
    assert (np.diff(children["prior"]) <= 0).all()
    assert children["prior"].sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_values_of_an_evaluator_mixed_with_rollouts(share):
    game, state, position = position_after("connect_four", 1, seed=4)
    preset = puct(evaluator=StubEvaluator(7), rollout_share=share)
    compare(
        game,
        state,
        position,
        preset,
        ReferenceSearch(position, reference.puct(), evaluator=stub_of, rollout_share=share),
        400,
        seed=3,
    )


@pytest.mark.parametrize(("visits", "share"), [(2, 0.5), (5, 0.25), (7, 0.9), (4, 1.0)])
@pytest.mark.parametrize("game_name", ["tic_tac_toe", "connect_four"])
def test_an_evaluator_asked_on_a_later_visit(game_name, visits, share):
    game, state, position = position_after(game_name, 1, seed=4)
    stub = StubEvaluator(game.num_actions)
    preset = puct_rave(evaluator=stub, rollout_share=share, expand_after=visits, num_leaves=1)
    oracle = ReferenceSearch(
        position, reference.puct_rave(), evaluator=stub_of, rollout_share=share, expand_after=visits, amaf=True
    )
    compare(game, state, position, preset, oracle, 400, seed=3)
    assert 0 < sum(stub.batches) <= 400 / visits


def test_a_later_visit_without_rollouts_before_it_is_refused():
    with pytest.raises(InvalidParameter, match="give a rollout_share"):
        puct(evaluator=StubEvaluator(7), expand_after=2)


def test_shares_of_rollouts_that_mean_nothing_are_refused():
    evaluator = StubEvaluator(7)
    for wrong in ({"rollout_share": 1.5}, {"rollout_share": -0.1}, {"rollout": "heavy"}):
        with pytest.raises(InvalidParameter, match="rollout_share"):
            puct(evaluator=evaluator, **wrong)
    with pytest.raises(InvalidParameter, match="rollout_share"):
        puct(rollout_share=0.5)


def test_evaluator_in_a_bounded_tree_and_from_move_to_move():
    game, twin = GAMES["connect_four"]
    search = Search(game, puct(evaluator=StubEvaluator(7)), max_nodes=120)
    oracle = ReferenceSearch(twin(), reference.puct(), evaluator=stub_of, max_nodes=120, num_actions=7)
    state = game.initial_state()
    for move, action in enumerate([3, 3, 0, 6]):
        search.run(state, Limit(simulations=60), seed=move)
        oracle.run(60, move)
        assert_same_tree(search.tree, oracle)
        state = game.play(state, action)
        search.advance(action)
        oracle.advance(action)


@pytest.mark.parametrize("max_nodes", [10, 12, 33, 64])
def test_evaluator_in_a_bounded_tree_at_every_budget(max_nodes):
    for simulations in range(1, 40):
        game, state, position = position_after("tic_tac_toe", 1, seed=4)
        search = Search(game, puct(evaluator=StubEvaluator(9)), max_nodes=max_nodes)
        oracle = ReferenceSearch(position, reference.puct(), evaluator=stub_of, max_nodes=max_nodes, num_actions=9)
        search.run(state, Limit(simulations=simulations), seed=3)
        oracle.run(simulations, 3)
        assert_same_tree(search.tree, oracle)


def test_policy_of_zeros_is_uniform():
    class Silent:
        def evaluate(self, states):
            return Evaluation(np.zeros(len(states)), np.zeros((len(states), 9)))

    game = GAMES["tic_tac_toe"][0]
    search = Search(game, puct(evaluator=Silent()))
    search.run(game.initial_state(), Limit(simulations=20))
    assert search.tree.children()["prior"] == pytest.approx(1 / 9)
    assert search.tree.children()["action"].tolist() == list(range(9))


@pytest.mark.parametrize("max_nodes", [None, 150])
@pytest.mark.parametrize("simulations", [1, 7, 8, 403])
def test_many_leaves_in_flight(simulations, max_nodes):
    game, state, _ = position_after("connect_four", 5, seed=2)
    evaluator = StubEvaluator(7)
    search = Search(game, puct(evaluator=evaluator, num_leaves=8), max_nodes=max_nodes)
    result = search.run(state, Limit(simulations=simulations), seed=0)
    tree = search.tree
    nodes = tree.nodes[: tree.num_nodes]
    assert result.simulations == simulations == nodes[0]["visit_count"]
    assert not nodes["in_flight"].any()
    assert max(evaluator.batches) <= 8
    assert simulations < 400 or max(evaluator.batches) == 8
    assert np.abs(nodes["value"]).max() <= 1
    for index, node in enumerate(nodes):
        children = tree.children(index)
        assert (children["visit_count"][: node["num_visited"]] > 0).all()
        assert not children["visit_count"][node["num_visited"] :].any()
        if len(children):
            # One evaluation of its own, the rest of its children; a full tree may have looked twice at a leaf.
            own = int(node["visit_count"]) - int(children["visit_count"].sum())
            assert own == 1 if max_nodes is None else own >= 1
    assert max_nodes is None or tree.num_nodes <= max_nodes


def test_an_evaluator_that_fails_leaves_no_virtual_loss():
    class Failing(StubEvaluator):
        def evaluate(self, states):
            if len(self.batches) == 5:
                self.batches.append(0)
                raise ConnectionError("the network is away")
            return super().evaluate(states)

    game, state, _ = position_after("connect_four", 0, seed=0)
    search = Search(game, puct(evaluator=Failing(7), num_leaves=8))
    with pytest.raises(ConnectionError, match="away"):
        search.run(state, Limit(simulations=200))
    nodes = search.tree.nodes[: search.tree.num_nodes]
    assert not nodes["in_flight"].any()
    search.run(state, Limit(simulations=200))
    assert search.tree.nodes[0]["visit_count"] == 200  # a tree that an exception cut short is not gone on with
    assert not search.tree.nodes[: search.tree.num_nodes]["in_flight"].any()


# ---------------------------------------------------------------------------------------- lockstep
@pytest.mark.parametrize(
    "preset",
    [
        uct(),
        uct(expand_after=2, all_children=True, backup=backups.td()),
        uct(selection=selections.epsilon_greedy(epsilon=0.3)),
    ],
)
@pytest.mark.parametrize("game_name", GAMES)
def test_lockstep_is_search_bit_for_bit(game_name, preset):
    game = GAMES[game_name][0]
    states = [position_after(game_name, moves, seed=moves)[1] for moves in (0, 1, 2, 3, 1)]
    seeds = [5, 6, 7, 8, 5]
    together = Lockstep(game, preset, len(states) + 1)
    searches = [Search(game, preset) for _ in states]
    for simulations in (2, 700):
        results = together.run(states, Limit(simulations=simulations), seeds)
        trees = together._groups[0].trees
        for search, state, seed, statistics, tree in zip(searches, states, seeds, results, trees, strict=False):
            result = search.run(state, Limit(simulations=simulations), seed=seed)
            count = search.tree.num_nodes
            assert tree.num_nodes == count
            assert tree.nodes[:count].tobytes() == search.tree.nodes[:count].tobytes()
            assert statistics.action == result.action
            assert statistics.simulations == simulations
            assert statistics.root_value == result.value
            by_action = {move.action: (move.visits, move.value) for move in result.moves}
            assert by_action == {
                int(action): (int(visits), float(value))
                for action, visits, value in zip(statistics.actions, statistics.visits, statistics.value, strict=True)
            }


@pytest.mark.parametrize("num_leaves", [1, 4])
def test_lockstep_with_an_evaluator_fills_its_batches(num_leaves):
    game = GAMES["connect_four"][0]
    states = [position_after("connect_four", moves, seed=moves)[1] for moves in range(6)]
    evaluator = StubEvaluator(7)
    together = Lockstep(game, puct(evaluator=evaluator, num_leaves=num_leaves), len(states))
    together.run(states, Limit(simulations=100), [0] * len(states))
    assert max(evaluator.batches) == len(states) * num_leaves
    for state, tree in zip(states, together._groups[0].trees, strict=True):
        search = Search(game, puct(evaluator=StubEvaluator(7), num_leaves=num_leaves))
        search.run(state, Limit(simulations=100))
        count = search.tree.num_nodes
        assert tree.nodes[:count].tobytes() == search.tree.nodes[:count].tobytes()


def test_lockstep_keeps_trees_from_move_to_move_as_search_does():
    game = GAMES["connect_four"][0]
    preset = puct(evaluator=StubEvaluator(7), num_leaves=2)
    together, alone = Lockstep(game, preset, 4), [Search(game, preset) for _ in range(2)]
    states = [game.initial_state(), game.play(game.initial_state(), 3)]
    for move in range(4):
        # Trees 3 and 1, in turns all or one of them: the others must not notice.
        indices = [0, 1] if move % 2 == 0 else [1]
        results = together.run(
            [states[k] for k in indices],
            Limit(simulations=90),
            [move] * len(indices),
            trees=[(3, 1)[k] for k in indices],
        )
        for k, statistics in zip(indices, results, strict=True):
            result = alone[k].run(states[k], Limit(simulations=90), seed=move)
            assert (statistics.action, statistics.root_value) == (result.action, result.value)
            states[k] = game.play(states[k], result.action)
            alone[k].advance(result.action)
            together.advance((3, 1)[k], result.action)
    together.clear(1)
    fresh = Search(game, preset)
    (answer,) = together.run([states[1]], Limit(simulations=50), [1], trees=[1])
    assert answer.root_value == fresh.run(states[1], Limit(simulations=50), seed=1).value


def test_root_noise_mixes_priors_and_repeats():
    game = GAMES["connect_four"][0]
    preset, state = puct(evaluator=StubEvaluator(7)), game.initial_state()
    priors = {}
    for name, noise in (
        ("none", None),
        ("nothing", RootNoise(0.0)),
        ("all", RootNoise(1.0, 2.0)),
        ("half", RootNoise(0.5, 2.0)),
    ):
        together = Lockstep(game, preset, 1)
        (result,) = together.run([state], Limit(simulations=60), [4], noise=noise)
        assert result.simulations == 60 and result.visits.sum() == 59
        root = together._groups[0].roots([0])[0]
        priors[name] = root.prior[np.argsort(root.action)]
        assert priors[name].sum() == pytest.approx(1.0, abs=1e-5)
    assert np.array_equal(priors["none"], priors["nothing"])
    assert np.allclose(priors["half"], (priors["none"] + priors["all"]) / 2, atol=1e-6)
    assert not np.allclose(priors["none"], priors["all"], atol=0.05)
    with pytest.raises(InvalidParameter):
        RootNoise(1.5)


def test_lockstep_of_one_simulation_names_a_move():
    game = GAMES["connect_four"][0]
    (result,) = Lockstep(game, uct(), 1).run([game.initial_state()], Limit(simulations=1), [0])
    assert result.simulations == 1
    assert 0 <= result.action < 7


# ------------------------------------------------------------------------------------------- memory
ADVICE = Column(advice_dtype, "memory")


@on_leaf(advice=ADVICE, value=Parameter(0.4), count=Parameter(8.0))
def by_depth(tree, path, depth, state, embedding, parameters):
    """A leaf and its ancestors learn a value that depends on the leaf's depth and mover."""
    estimate = parameters.value * sign_of(nodes_of(tree)[path[depth]]) / (1.0 + depth)
    column = column_of(tree, parameters.advice, advice_dtype)
    for at in range(depth + 1):
        entry = column[path[at]]
        if entry.count == 0.0:
            entry.value = 0.0
        entry.count += parameters.count
        entry.value += (estimate - entry.value) * parameters.count / entry.count
    return 0


@after_backup()
def nothing(tree, path, depth, value, moves, parameters):
    return 0


def advising(equivalence, bias=None):
    """An extension that advises by depth."""
    return Extension("noted", on_leaf=by_depth(), after_backup=nothing(), advice=Advice(ADVICE, equivalence, bias))


def by_depth_reference(path: list[Node], position) -> None:
    estimate = 0.4 * path[-1].sign / len(path)
    for node in path:
        node.memory_count += 8.0
        node.memory_value += (estimate - node.memory_value) * 8.0 / node.memory_count


@pytest.mark.parametrize("selection", ["ucb1", "puct", "epsilon_greedy", "greedy with urgency"])
@pytest.mark.parametrize(("equivalence", "bias"), [(0.0, None), (5.0, None), (1000.0, None), (0.0, 0.0), (9.0, 0.3)])
def test_memory_is_blended_into_selection(selection, equivalence, bias):
    game, state, position = position_after("tic_tac_toe", 1, seed=1)
    memory = advising(equivalence, bias)
    preset = Preset(selection=SELECTIONS[selection][0], backup=backups.td(), extensions=(memory,))
    oracle = ReferenceSearch(
        position,
        SELECTIONS[selection][1],
        Backup(trace_decay=0.9, discount=0.9, min_step=0.005),
        recall=by_depth_reference,
        equivalence=equivalence,
        bias=bias,
    )
    search = compare(game, state, position, preset, oracle, 400, seed=6)
    plain = Search(game, Preset(selection=SELECTIONS[selection][0], backup=backups.td()))
    plain.run(state, Limit(simulations=400), seed=6)
    same = plain.tree.nodes.tobytes() == search.tree.nodes.tobytes()
    assert same == (equivalence == 0.0 and bias is None)


def test_memory_survives_from_move_to_move():
    game, twin = GAMES["pick"]
    memory = advising(50.0)
    search = Search(game, Preset(selection=selections.ucb1(), extensions=(memory,)))
    oracle = ReferenceSearch(twin(), reference.ucb1(), recall=by_depth_reference, equivalence=50.0)
    state = game.initial_state()
    for move, action in enumerate([3, 1, 5, 2]):
        search.run(state, Limit(simulations=150), seed=move)
        oracle.run(150, move)
        assert_same_tree(search.tree, oracle)
        state = game.play(state, action)
        search.advance(action)
        oracle.advance(action)


# ------------------------------------------------------------------------- terminal nodes and odd steps
def test_a_step_table_that_does_not_begin_with_one_is_refused_or_honoured():
    # α_1 = w_1 / w_1 is 1 in every rule of METHODS §2. With α_1 = 0.5 the value of an end of the game only
    # moves towards its outcome, but what is backed up must be the outcome itself.
    game, state, position = position_after("tic_tac_toe", 4, seed=1)
    try:
        rule = backups.trace_step_mix(steps=np.array([0.5, 0.25]), min_step=0.1)
    except InvalidParameter:
        return
    oracle = ReferenceSearch(position, reference.ucb1(), Backup(steps=[0.5, 0.25], min_step=0.1))
    compare(game, state, position, uct(backup=rule), oracle, 200, seed=0)


def test_values_are_those_of_the_oracle_to_the_last_bit_for_the_mean():
    game, state, position = position_after("connect_four", 2, seed=0)
    search = Search(game, uct(exploration=math.sqrt(2)))
    search.run(state, Limit(simulations=500), seed=0)
    oracle = ReferenceSearch(position, reference.ucb1(math.sqrt(2)))
    oracle.run(500, 0)
    waiting = [(0, oracle.root)]
    while waiting:
        index, node = waiting.pop()
        assert search.tree.nodes[index]["value"] == node.value
        first = int(search.tree.nodes[index]["first_child"])
        waiting += [(first + k, child) for k, child in enumerate(node.children)]
