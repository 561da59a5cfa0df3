"""Gumbel search: its halving against the published sequence, numbers worked by hand, and a slow oracle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import engram
from engram.presets import puct, uct
from engram.presets.catalogue import preset
from engram.search.decision import RootMoves, final_move, merged
from engram.search.evaluation import Evaluation
from engram.search.extensions.gumbel import CANDIDATES, considered_visits, gumbel
from engram.search.preset import Preset
from engram.search.tree import entering
from tests.reference import Node, ReferenceSearch
from tests.search.test_reference import BACKUPS, GAMES, assert_same_tree, compare, position_after
from tests.search.test_returns import KINDS, both
from tests.search.test_selection import bandit, choose


def halving(budget: int, candidates: int) -> list[int]:
    """Visits of the candidate of each simulation, phase by phase."""
    if candidates <= 1:
        return list(range(budget))
    sequence: list[int] = []
    visits, phases = [0] * candidates, math.ceil(math.log2(candidates))
    remaining = candidates
    while len(sequence) < budget:
        for _ in range(max(1, int(budget / (phases * remaining)))):
            sequence += visits[:remaining]
            visits = [n + 1 if place < remaining else n for place, n in enumerate(visits)]
        remaining = max(2, remaining // 2)
    return sequence[:budget]


@pytest.mark.parametrize("candidates", [1, 2, 3, 4, 7, 16, 41])
def test_the_sequence_of_halving(candidates):
    for budget in (1, 2, 16, 50, 200, 801):
        visits = [considered_visits(number, budget, candidates) for number in range(budget)]
        assert visits == halving(budget, candidates)


def test_sixteen_simulations_of_four_candidates_by_hand():
    # Two phases of 8: four candidates twice, then the best two four times.
    assert halving(16, 4) == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


class Gumbel:
    """The oracle's rule without noise; it knows the root and the budget."""

    search: ReferenceSearch

    def __init__(self, budget: int, considered: int = 16, offset: float = 50.0, scale: float = 1.0):
        self.sequence = lambda count: halving(budget, min(considered, count))
        self.budget, self.offset, self.scale = budget, offset, scale

    def scores(self, node: Node, q) -> list[float]:
        quality = [0.5 + 0.5 * q(node, child) for child in node.visited]
        counts = [child.visit_count for child in node.visited]
        value = 0.5 + 0.5 * node.sign * node.own_returns[0]
        if counts:
            shares = sum(child.prior for child in node.visited)
            mean = sum(child.prior * own for child, own in zip(node.visited, quality, strict=True)) / shares
            value = (value + sum(counts) * mean) / (1 + sum(counts))
        quality += [value] * (len(node.children) - len(quality))
        factor = (self.offset + max(counts, default=0)) * self.scale
        return [math.log(child.prior) + factor * own for child, own in zip(node.children, quality, strict=True)]

    def __call__(self, node: Node, rng, q) -> int:
        scores = self.scores(node, q)
        total = sum(child.visit_count for child in node.visited)
        counts = [child.visit_count for child in node.children]
        if node is self.search.root and total < self.budget:
            wanted = self.sequence(len(node.children))[total]
            bounds = [score if n == wanted else -math.inf for score, n in zip(scores, counts, strict=True)]
        else:
            weights = [math.exp(score - max(scores)) for score in scores]
            bounds = [w / sum(weights) - n / (1 + total) for w, n in zip(weights, counts, strict=True)]
        return bounds.index(max(bounds))


@pytest.mark.parametrize("considered", [2, 5, 16])
@pytest.mark.parametrize("game_name", ["tic_tac_toe", "connect_four", "pick"])
def test_the_oracles_tree(game_name, considered):
    for moves, simulations in ((0, 200), (3, 77)):
        game, state, position = position_after(game_name, moves, seed=moves)
        rule = Gumbel(simulations, considered, offset=3.0)
        rule.search = ReferenceSearch(position, rule)
        for child in rule.search.root.children:
            child.prior = 1 / len(rule.search.root.children)
        searched = uct(selection=gumbel(considered=considered, visits_offset=3.0))
        compare(game, state, position, searched, rule.search, simulations, seed=2)
        root = rule.search.root
        weights = np.exp(rule.scores(root, rule.search.q))
        expected = {child.action: w / weights.sum() for child, w in zip(root.children, weights, strict=True)}
        (learned,) = engram.Lockstep(game, searched, 1).run([state], engram.Limit(simulations=simulations), [2])
        assert learned.policy == pytest.approx([expected[action] for action in learned.actions.tolist()], abs=1e-9)


@pytest.mark.parametrize("kind", [name for name in KINDS if "learnt" not in name])
def test_the_oracles_tree_with_nature_and_rewards(kind):
    game, position, units = both(kind)
    ours, theirs = BACKUPS["average"]
    rule = Gumbel(200, 4, offset=3.0)
    rule.search = ReferenceSearch(position, rule, replace(theirs, units=units))
    searched = Preset(selection=gumbel(considered=4, visits_offset=3.0), backup=ours)
    search = engram.Search(game, searched)
    search.run(game.initial_state(), engram.Limit(simulations=200), seed=3)
    rule.search.run(200, 3)
    assert_same_tree(search.tree, rule.search)
    weights = np.exp(rule.scores(rule.search.root, rule.search.q))
    expected = {child.action: w / weights.sum() for child, w in zip(rule.search.root.children, weights, strict=True)}
    (learned,) = engram.Lockstep(game, searched, 1).run([game.initial_state()], engram.Limit(simulations=200), [3])
    assert learned.policy == pytest.approx([expected[action] for action in learned.actions.tolist()], abs=1e-9)


class LikesTheCentre:
    """Gives the centre half of the prior, and each position a value of its own near 0."""

    def evaluate(self, states):
        policy = np.ones((len(states), 9))
        policy[:, 4] = 8.0
        values = np.array([0.001 * (GAMES["tic_tac_toe"][0].hash(state) % 7 - 3) for state in states])
        return Evaluation(values, policy)


def test_equal_visits_go_to_the_improved_policy_and_not_to_the_value():
    """Nine candidates have a visit each; by their values alone any of them could be played."""
    game = GAMES["tic_tac_toe"][0]
    search = puct(evaluator=LikesTheCentre(), selection=gumbel(visits_offset=1.0))
    state, limit = game.initial_state(), engram.Limit(simulations=10)
    (root,) = engram.Lockstep(game, search, 1).run([state], limit, [0])
    assert root.visits.tolist() == [1] * 9 and root.actions[np.argmax(root.value)] != 4
    assert root.action == root.actions[np.argmax(root.policy)] == 4
    assert engram.Search(game, search).run(state, limit, seed=0).action == 4


def test_trees_apart_have_the_mean_of_their_policies():
    zeros, orders = np.zeros(3), ([2, 0, 1], [0, 1, 2])
    roots = [
        RootMoves(np.array(order), np.ones(3, np.uint32), zeros, zeros, zeros > 0, policy=np.array(policy))
        for order, policy in zip(orders, ([0.2, 0.5, 0.3], [0.1, 0.6, 0.3]), strict=True)
    ]
    both_trees = merged(roots)
    assert both_trees.policy == pytest.approx([0.3, 0.45, 0.25])
    assert both_trees.action[final_move("robust", zeros, both_trees.visits, zeros > 0, both_trees.policy)] == 1
    assert merged([roots[0], replace(roots[1], policy=None)]).policy is None


def test_learnt_bounds_move_values_that_it_keeps():
    with pytest.raises(engram.EngramError, match="bounds=learnt does not go with Gumbel search"):
        engram.Search("same_game", "uct(selection=gumbel,bounds=learnt)")


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(
    ("visits", "scale", "expected"),
    [
        # Q = (0.2, -0.4), so q = (0.6, 0.3); P = (0.5, 0.3, 0.2); the node's own evaluation is 0.1, so q = 0.55.
        # n = (2, 1): the unvisited q is (0.55 + 3·(0.5·0.6 + 0.3·0.3)/0.8)/4 = 0.503125; σ(q) = (1 + 2)·2·q.
        # ln P + σ = 2.907, 0.596, 1.409; π = 0.756, 0.075, 0.169; π - n/4 = 0.256, -0.175, 0.169.
        ((2, 1), 2.0, 1),
        # n = (3, 1): 0.5; σ(q) = (1 + 3)·0.5·q; ln P + σ = 0.507, -0.604, -0.609; π - n/5 = 0.004, -0.001, 0.198.
        ((3, 1), 0.5, entering(3)),
    ],
)
def test_scores_by_hand(player, visits, scale, expected):
    tree = bandit(visits, (0.2, -0.4), unvisited=1, player=player, priors=(0.5, 0.3, 0.2), columns=(CANDIDATES,))
    tree.rows(CANDIDATES)["evaluation"][0] = -0.1 if player else 0.1
    tree.rows(CANDIDATES)["before"][0] = 1
    operator = gumbel(visits_offset=1.0, scale=scale)
    operator.values["budget"] = np.zeros(1)  # the budget is spent: the rule of inner nodes
    assert choose(operator, tree) == expected


def root_visits(text: str, simulations: int, seed: int = 0) -> list[int]:
    game = GAMES["connect_four"][0]
    result = engram.Search(game, text).run(game.initial_state(), engram.Limit(simulations=simulations), seed=seed)
    return sorted((move.visits for move in result.moves), reverse=True)


def test_the_root_halves_its_candidates():
    # 129 simulations, the first of the root itself; 4 of 7 moves share 128: 16 each, then two 32 more.
    assert root_visits("uct(selection=gumbel(considered=4))", 129)[:5] == [48, 48, 16, 16, 0]


def test_noise_draws_other_candidates():
    game = GAMES["connect_four"][0]
    candidates = set()
    for seed in range(8):
        search = engram.Search(game, "uct(selection=gumbel(considered=2, noise=1))")
        result = search.run(game.initial_state(), engram.Limit(simulations=40), seed=seed)
        candidates.add(frozenset(move.action for move in result.moves if move.visits))
    assert len(candidates) > 3 and all(len(pair) == 2 for pair in candidates)


def test_a_kept_tree_halves_again_after_a_move():
    game = GAMES["connect_four"][0]
    search = engram.Search(game, "uct(selection=gumbel(considered=4))")
    state, before = game.initial_state(), {}
    for seed in range(3):
        result = search.run(state, engram.Limit(simulations=64), seed=seed)
        gained = sorted((move.visits - before.get(move.action, 0) for move in result.moves), reverse=True)
        assert gained[0] >= 20 and gained[4:] == [0] * (len(gained) - 4)
        state = game.play(state, result.action)
        search.advance(result.action)
        root = search.tree.nodes[0]
        children = search.tree.nodes[root["first_child"] :][: root["num_children"]]
        before = dict(zip(children["action"].tolist(), children["visit_count"].tolist(), strict=True))
        assert sum(before.values()) > 0


def test_what_it_needs_and_takes():
    game = GAMES["connect_four"][0]
    assert puct(selection=gumbel()).selection.definition.name == "gumbel_halving"
    with pytest.raises(engram.EngramError, match="limit the search by simulations"):
        engram.Search(game, "uct(selection=gumbel)").run(game.initial_state(), engram.Limit(seconds=0.01), seed=0)
    for wrong in ("considered=0", "noise=nan", "scale=-1"):
        with pytest.raises(engram.EngramError, match=wrong.split("=")[0]):
            preset(f"uct(selection=gumbel({wrong}))")
    with pytest.raises(engram.EngramError, match="exploration belongs to PUCT"):
        preset("puct(selection=gumbel, exploration=2.0)")


@pytest.mark.parametrize("after_a_move", [False, True])
def test_a_saved_tree_goes_on_bit_for_bit(after_a_move, tmp_path):
    game = GAMES["connect_four"][0]
    first, second = (engram.Search(game, "uct(selection=gumbel(noise=1))") for _ in range(2))
    state = game.initial_state()
    if after_a_move:
        first.advance(first.run(state, engram.Limit(simulations=1000), seed=1).action)
        state = first.root
    first.run(state, engram.Limit(simulations=200), seed=1)
    assert (first.tree.rows(CANDIDATES)["before"].max() > 50) == after_a_move  # visits that the tree kept
    first.save(tmp_path / "tree")
    second.load(tmp_path / "tree")
    more = [search.run(search.root, engram.Limit(simulations=300), seed=None).moves for search in (first, second)]
    assert more[0] == more[1]
