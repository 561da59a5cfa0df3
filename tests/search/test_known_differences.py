"""KVDA-UCT: differences that are true, sums that add up, numbers worked by hand, and trees of a slow oracle."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import engram
from engram.errors import InvalidParameter
from engram.presets import uct
from engram.search.extensions.known_differences import GROUPS, find, kvda
from engram.search.tree import TERMINAL
from tests import reference
from tests.games.test_contract import one_heap
from tests.games_for_tests import WalkPosition, walk
from tests.reference import Backup, LinePosition, Node, ReferenceSearch, Units, expectimax
from tests.search.test_reference import GAMES, assert_same_tree, compare, position_after
from tests.search.test_selection import bandit, choose

WALKS = {
    "one player": {"turns": 5, "bounds": (-16.0, 16.0)},
    "discount": {"turns": 5, "bounds": (-16.0, 16.0), "discount": 0.5},
    "two players": {"turns": 5, "bounds": (-16.0, 16.0), "players": 2},
    "another middle": {"turns": 4, "bounds": (-12.0, 25.0), "discount": 0.75},
}


def kept(tree) -> list[int]:
    """The nodes that are in a group."""
    return np.flatnonzero(tree.rows(GROUPS)["home"][: tree.num_nodes]).tolist()


def positions(tree, root) -> dict[int, object]:
    """The position of each node."""
    places, waiting = {}, [(0, root)]
    while waiting:
        index, position = waiting.pop()
        places[index] = position
        for k, child in enumerate(tree.children(index)):
            after = position.copy()
            after.play(int(child["action"]))
            waiting.append((int(tree.nodes[index]["first_child"]) + k, after))
    return places


def check_sums(tree) -> dict[int, list[int]]:
    """The groups by their homes, whose sums are those of their nodes."""
    rows, groups = tree.rows(GROUPS), {}
    for node in kept(tree):
        home, _ = find(rows, node)
        groups.setdefault(int(home), []).append(node)
    for home, nodes in groups.items():
        visits = [float(tree.nodes[node]["visit_count"]) for node in nodes]
        assert rows[home]["count"] == sum(visits)
        parts = [rows[node]["sum"] - n * find(rows, node)[1] for node, n in zip(nodes, visits, strict=True)]
        assert rows[home]["total"] == pytest.approx(sum(parts), abs=1e-9)
    return groups


def walked(kind: str):
    options = dict(WALKS[kind])
    game = walk(chance=False, **options)
    units = Units(options.pop("bounds"), options.get("discount", 1.0))
    return game, WalkPosition(chance=False, **options), units


@pytest.mark.parametrize("kind", WALKS)
def test_every_difference_is_true(kind):
    game, position, units = walked(kind)
    search = engram.Search(game, uct(selection=kvda(exploration=0.3)))
    search.run(game.initial_state(), engram.Limit(simulations=1500), seed=1)
    rows, places = search.tree.rows(GROUPS), positions(search.tree, position)
    groups = check_sums(search.tree)
    scale = (units.bounds[1] - units.bounds[0]) / 2.0
    for home, nodes in groups.items():
        for node in nodes:
            truth = expectimax(places[node]) - expectimax(places[home])
            assert scale * find(rows, node)[1] == pytest.approx(truth, abs=1e-9)
    unequal = [node for node in kept(search.tree) if rows[node]["difference"] != 0.0]
    inner = [node for node in unequal if not search.tree.nodes[node]["flags"] & TERMINAL]
    assert len(groups) < len(kept(search.tree)) / 2 and inner


@cache
def solved(board: tuple[int, ...], moves: int) -> float:
    position = LinePosition(3, 3, 3)
    position.board, position.moves = list(board), moves
    full = outcome_of(position)
    if full is not None:
        return full
    values = []
    for action in (cell for cell in range(9) if board[cell] < 0):
        after = list(board)
        after[action] = moves % 2
        values.append(solved(tuple(after), moves + 1))
    return min(values) if moves % 2 else max(values)


def outcome_of(position: LinePosition) -> float | None:
    for runs in position.runs:
        for cells in runs:
            owners = {position.board[cell] for cell in cells}
            if owners in ({0}, {1}):
                return 1.0 - 2.0 * owners.pop()
    return 0.0 if min(position.board) >= 0 else None


def test_differences_of_two_players_are_true_through_growth_and_moves():
    game, state, position = position_after("tic_tac_toe", 2, seed=4)
    search = engram.Search(game, uct(selection=kvda()))
    for seed in range(3):
        result = search.run(state, engram.Limit(simulations=3000), seed=seed)
        rows, places = search.tree.rows(GROUPS), positions(search.tree, position)
        for home, nodes in check_sums(search.tree).items():
            for node in nodes:
                value, base = (solved(tuple(places[k].board), places[k].moves) for k in (node, home))
                assert find(rows, node)[1] == value - base
        assert search.tree.num_nodes > 1024 or seed
        state = game.play(state, result.action)
        position.play(result.action)
        search.advance(result.action)


class KvdaReference(ReferenceSearch):
    """The oracle's groups: lists of [node, V here less V at the first], which merge."""

    def __init__(self, position, exploration: float, units: Units | None = None):
        self.exploration, self.units = exploration, units
        self.groups: dict[int, list] = {}  # of each node in a group, by its identity
        self.seen: dict = {}
        super().__init__(position, self.select, Backup(units=units), remember=self.regroup)

    def enter(self, node: Node, position, rng, choice: int) -> Node:
        child = super().enter(node, position, rng, choice)
        child.index = node.first + node.num_visited - 1
        child.identity = "end" if child.terminal else (str(position) if self.units else position.key(), child.player)
        return child

    def expand(self, node: Node, position, weights=None) -> bool:
        node.first = self.num_nodes
        return super().expand(node, position, weights)

    def line(self, child: Node) -> tuple[float, float]:
        if self.units is None:
            return 0.0, 1.0
        low, high = self.units.bounds
        factor = self.units.factor(child)
        return (2.0 * child.reward - (1.0 - factor) * (low + high)) / (high - low), factor

    def known(self, node: Node) -> tuple[list, float]:
        """A node's group, and V here less V at its first node."""
        group = self.groups[id(node)]
        return group, next(difference for member, difference in group if member is node)

    def select(self, node: Node, rng, q) -> int:
        if node.num_visited < len(node.children):
            return reference.EXPAND
        pairs = [self.known(child) for child in node.children]
        counts = [sum(member.visit_count for member, _ in group) for group, _ in pairs]
        scale = self.exploration * math.sqrt(math.log(sum(counts)))
        bounds = []
        for child, (group, difference), count in zip(node.children, pairs, counts, strict=True):
            total = sum(member.visit_count * (member.here - apart) for member, apart in group)
            constant, factor = self.line(child)
            value = node.sign * (constant + factor * (total / count + difference))
            bounds.append(round(value + scale / math.sqrt(count), 12))
        return bounds.index(max(bounds))

    def meet(self, node: Node, key, level: float) -> None:
        other, its_level = self.seen.setdefault(key, (node, level))
        (group, here), (its_group, there) = self.known(node), self.known(other)
        if group is its_group:
            return
        gap = level - its_level + there - here  # between the first nodes
        if group[0][0].index < its_group[0][0].index:
            group, its_group, gap = its_group, group, -gap
        its_group += [[member, difference + gap] for member, difference in group]
        self.groups |= {id(member): its_group for member, _ in group}

    def regroup(self, path: list[Node], value: float) -> None:
        for node in reversed(path[1:]):
            if id(node) not in self.groups:
                self.groups[id(node)] = [[node, 0.0]]
                self.meet(node, node.identity, node.here if node.terminal else 0.0)
            if node.num_visited == len(node.children) > 0 and node.visit_count % 3 == 0:
                best: dict[int, float] = {}
                for child in node.children:
                    group, difference = self.known(child)
                    constant, factor = self.line(child)
                    worth = node.sign * (constant + factor * difference)
                    best[group[0][0].index] = max(worth, best.get(group[0][0].index, -math.inf))
                level = best[min(best)]
                worths = frozenset((index, round((worth - level) * 2**30)) for index, worth in best.items())
                self.meet(node, (node.player, worths), node.sign * level)


@pytest.mark.parametrize("kind", WALKS)
def test_kvda_grows_the_oracles_tree_in_games_with_rewards(kind):
    game, position, units = walked(kind)
    search = engram.Search(game, uct(selection=kvda(exploration=0.3)))
    search.run(game.initial_state(), engram.Limit(simulations=150), seed=5)
    oracle = KvdaReference(position, 0.3, units)
    oracle.run(150, 5)
    assert_same_tree(search.tree, oracle)


@pytest.mark.parametrize("game_name", ["tic_tac_toe", "connect_four", "pick"])
def test_kvda_grows_the_oracles_tree(game_name):
    for moves in (0, 3):
        game, state, position = position_after(game_name, moves, seed=moves)
        compare(game, state, position, uct(selection=kvda(exploration=0.7)), KvdaReference(position, 0.7), 250, seed=2)


@pytest.mark.parametrize("player", [0, 1])
def test_kvda_worked_by_hand(player):
    # Children of 3, 1 and 2 visits with Q = (0.2, 0.6, 0); V of the second is 0.5 more than that of the first.
    # Their group: n = 4, mean at the first (3·0.2 + 0.1)/4 = 0.175, so Q = (0.175, 0.675, 0).
    # Σn = 4 + 4 + 2 = 10; sqrt(ln 10/n) = 0.75870, 0.75870, 1.07298. At c = 1: 0.93370, 1.43370, 1.07298.
    # At c = 3: 2.45110, 2.95110, 3.21894.
    tree = bandit((3, 1, 2), (0.2, 0.6, 0.0), player=player, columns=(GROUPS,))
    sign, rows = (-1.0 if player else 1.0), tree.rows(GROUPS)
    rows["home"][1:4] = 1, 1, 3
    rows["difference"][2] = sign * 0.5
    rows["total"][1], rows["count"][1] = sign * 0.7, 4
    rows["total"][3], rows["count"][3] = 0.0, 2
    assert choose(kvda(exploration=1.0), tree) == 2
    assert choose(kvda(exploration=3.0), tree) == 3


def test_chance_and_evaluators_are_refused_and_a_saved_tree_goes_on(tmp_path):
    with pytest.raises(InvalidParameter, match="moves of nature"):
        engram.Search(walk(), uct(selection=kvda()))
    game = GAMES["connect_four"][0]
    first, second = (engram.Search(game, "uct(selection=kvda)") for _ in range(2))
    first.run(game.initial_state(), engram.Limit(simulations=500), seed=1)
    first.save(tmp_path / "tree")
    second.load(tmp_path / "tree")
    check_sums(second.tree)
    more = [search.run(search.root, engram.Limit(simulations=300), seed=None).moves for search in (first, second)]
    assert [move.action for move in more[0]] == [move.action for move in more[1]]


def test_a_memory_s_advice_counts_between_groups():
    game = engram.game("connect_four")
    rows = []
    for text in ("uct(selection=kvda)", "memory_uct(selection=kvda)", "uct(selection=kvda,transpositions=true)"):
        search = engram.Search(game, text)
        search.run(game.initial_state(), engram.Limit(simulations=1500), seed=1)
        rows.append(search.tree.children()["visit_count"].tolist())
    assert rows[0] != rows[1]
    assert rows[0] == rows[2]  # its groups hold equal positions anyway


def test_positions_of_neighbouring_hashes_stay_apart():
    # README's hash: 2·left + player. Of 13 objects a player takes 1 and wins; every other move loses.
    state = one_heap().initial_state()
    state["left"] = 13
    nim = one_heap(state=np.array(state).reshape(1), max_moves=13)
    search = engram.Search(nim, "uct(selection=kvda)")
    best = search.run(nim.initial_state(), engram.Limit(simulations=5000), seed=0).moves[0]
    assert best.action == 0 and best.value > 0.9
