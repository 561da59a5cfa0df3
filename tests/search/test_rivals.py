"""Rivals of the family's rules: numbers worked by hand, their limits, and whole searches against a slow oracle."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import engram
from engram.presets import puct, uct
from engram.presets.catalogue import preset
from engram.rng import new_rng
from engram.search import backup as backups
from engram.search.columns import OWN
from engram.search.entropy import policies, values
from engram.search.extensions.implicit_minimax import IMPLICIT, implicit_minimax
from engram.search.extensions.rave import AMAF, REFERENCE, grave
from engram.search.extensions.uncertainty import WEIGHTS, uncertainty
from engram.search.extensions.variance import SQUARES, variance_puct
from engram.search.selection import ucb1_kernel
from engram.search.tree import EXPAND, Tree, entering
from tests import reference
from tests.reference import Backup, LinePosition, Node, ReferenceSearch
from tests.search.test_reference import GAMES, compare, position_after
from tests.search.test_rules import mixed, one_node
from tests.search.test_selection import bandit, choose


def q_of(node: Node) -> list[tuple[int, float]]:
    """(n, Q) of the visited children, for the player to move."""
    return [(child.visit_count, node.sign * child.value) for child in node.visited if child.visit_count]


def mix_of(value_of: Callable[[Node, list[tuple[int, float]]], float]) -> Callable[[Node], float]:
    """An oracle's mix from a function of the node and its children, for the player to move."""
    return lambda node: node.sign * value_of(node, q_of(node)) if q_of(node) else node.mean


@pytest.fixture(params=["tic_tac_toe", "connect_four", "pick"])
def game_name(request) -> str:
    return request.param


def assert_oracle_agrees(game_name: str, searched, selection, backup: Backup, *, seed: int = 5) -> None:
    searched = preset(searched)
    for moves, simulations in ((0, 200), (3, 120)):
        game, state, position = position_after(game_name, moves, seed=seed)
        compare(game, state, position, searched, ReferenceSearch(position, selection, backup), simulations, seed)


# ------------------------------------------------------------------------------------------ power mean
def power_mean_reference(power: float):
    def value(node: Node, children) -> float:
        total = sum(n for n, _ in children)
        shares = 0.0
        for n, q in children:
            rate = 0.5 + 0.5 * q
            shares += n * (rate * rate if power == 2.0 else rate**power)
        best = 2.0 * (math.sqrt(shares / total) if power == 2.0 else (shares / total) ** (1.0 / power)) - 1.0
        own = 0.0
        for number, sample in enumerate(node.own_returns, 1):
            own += (sample - own) / number
        count = len(node.own_returns)
        return (count * node.sign * own + total * best) / (count + total)

    return mix_of(value)


@pytest.mark.parametrize("player", [0, 1])
def test_power_mean_worked_by_hand(player):
    # Win rates 0.6 (3 visits) and 0.3 (1): the root of (3·0.36 + 0.09)/4 = 0.2925 is 0.5408327, so M = 0.0816654.
    tree = one_node(0.1, [(0.2, 3), (-0.4, 1)], player)
    assert mixed(backups.power_mean(power=2.0), tree) == pytest.approx((0.1 + 4 * 0.0816654) / 5, abs=5e-8)
    # p = 1 is the mean (0.1 + 0.6 - 0.4)/5; p = 100 is near the best child, (0.1 + 4·0.2)/5.
    assert mixed(backups.power_mean(power=1.0), tree) == pytest.approx(0.06, abs=1e-15)
    assert mixed(backups.power_mean(power=100.0), tree) == pytest.approx(0.18, abs=4e-3)


@pytest.mark.parametrize("power", [2.0, 3.5])
def test_power_mean_grows_the_oracles_tree(game_name, power):
    rule = Backup(mix=power_mean_reference(power))
    assert_oracle_agrees(game_name, uct(backup=backups.power_mean(power=power)), reference.ucb1(), rule)


def test_power_one_is_the_average_up_to_rounding():
    game = GAMES["connect_four"][0]
    search = engram.Search(game, uct(backup=backups.power_mean(power=1.0)))
    search.run(game.initial_state(), engram.Limit(simulations=2000), seed=4)
    visited = search.tree.nodes["visit_count"][: search.tree.num_nodes] > 0
    results, means = search.tree.nodes["value"], search.tree.arrays()["own"]["mean"]
    assert np.abs(results[: len(visited)][visited] - means[: len(visited)][visited]).max() < 1e-12


def test_power_mean_by_name():
    assert preset("uct(backup=power_mean(power=2))").backup.values["mix"].definition.name == "power_mean"
    for wrong in ("0.5", "101", "nan"):
        with pytest.raises(engram.EngramError, match="power"):
            preset(f"uct(backup=power_mean(power={wrong}))")


# --------------------------------------------------------------------------------------------- entropy
def policy_of(weights: Callable[[float, list[tuple[int, float]]], list[float]], epsilon: float):
    """An oracle's selection from the policy's weights of (N(s), [(n, Q)])."""

    def select(node: Node, rng, q) -> int:
        if node.num_visited < len(node.children):
            return reference.EXPAND
        pairs = [(child.visit_count, q(node, child)) for child in node.children]
        if rng.float() * math.log(math.e + node.visit_count) < epsilon:
            drawn = rng.below(len(pairs))
            if pairs[drawn][1] > -math.inf:
                return drawn
        total, drawn = 0.0, reference.EXPAND
        for index, weight in enumerate(weights(node, pairs)):
            total += weight
            if rng.float() * total < weight:
                drawn = index
        return drawn

    return select


def boltzmann_reference(temperature: float, epsilon: float, by_visits: bool = False):
    def weights(node, pairs) -> list[float]:
        highest = max(q for _, q in pairs)
        return [(n if by_visits else 1.0) * math.exp((q - highest) / temperature) for n, q in pairs]

    return policy_of(weights, epsilon)


def soft_maximum_reference(temperature: float, by_visits: bool = False):
    def value(node: Node, children) -> float:
        highest = max(q for _, q in children)
        weights = [n if by_visits else 1.0 for n, _ in children]
        shares = [w * math.exp((q - highest) / temperature) for w, (_, q) in zip(weights, children, strict=True)]
        return highest + temperature * math.log(sum(shares) / sum(weights))

    return mix_of(value)


def drawn_shares(rule, values, visits, player: int, draws: int = 20_000) -> np.ndarray:
    """How often each visited child is drawn."""
    tree, rng = bandit(visits, values, player=player), new_rng(1)
    return np.bincount([choose(rule, tree, rng) - 1 for _ in range(draws)], minlength=len(values)) / draws


@pytest.mark.parametrize("player", [0, 1])
def test_ments_worked_by_hand(player):
    # τ = 0.5: e^0.4 = 1.4918247 and e^-0.8 = 0.4493290; V = 0.5·ln(1.9411537/2) = -0.0149326, without the own value.
    tree = one_node(0.9, [(0.2, 3), (-0.4, 1)], player)
    assert mixed(values.ments(temperature=0.5), tree) == pytest.approx(-0.0149324, abs=1e-6)
    assert mixed(values.ments(temperature=1e-6), tree) == pytest.approx(0.2, abs=1e-6)
    assert mixed(values.ments(temperature=1e6), tree) == pytest.approx(-0.1, abs=1e-6)


def test_boltzmann_draws_by_the_exponential_of_values():
    # τ = 0.5 and λ = 0.3/ln(e + 5) = 0.1468: 0.8532·(0.7685, 0.2315) + 0.0734.
    rule = policies.boltzmann(temperature=0.5, epsilon=0.3)
    uniform = 0.3 / math.log(math.e + 5)
    expected = (1 - uniform) * np.array([0.7685248, 0.2314752]) + uniform / 2
    for player in (0, 1):
        assert drawn_shares(rule, [0.2, -0.4], [3, 1], player) == pytest.approx(expected, abs=0.015)
    cold = policies.boltzmann(temperature=1e-6, epsilon=0.0)
    assert drawn_shares(cold, [0.2, -0.4], [3, 1], 0, 50).tolist() == [1.0, 0.0]


def test_ments_grows_the_oracles_tree(game_name):
    selection, rule = boltzmann_reference(0.2, 0.4), Backup(mix=soft_maximum_reference(0.2))
    assert_oracle_agrees(game_name, "ments(temperature=0.2,epsilon=0.4)", selection, rule)


@pytest.mark.parametrize("player", [0, 1])
def test_rents_worked_by_hand(player):
    # τ = 0.5: V = 0.5·ln((3·1.4918247 + 0.4493290)/4) = 0.5·ln 1.2312007 = 0.1039950.
    tree = one_node(0.9, [(0.2, 3), (-0.4, 1)], player)
    assert mixed(values.rents(temperature=0.5), tree) == pytest.approx(0.1039950, abs=1e-6)
    assert mixed(values.rents(temperature=1e-6), tree) == pytest.approx(0.2, abs=1e-5)
    assert mixed(values.rents(temperature=1e6), tree) == pytest.approx(0.05, abs=1e-6)


def test_rents_draws_by_visits_too():
    # 3·e^0.4 to 1·e^-0.8: 4.4754741 to 0.4493290.
    rule = policies.boltzmann(temperature=0.5, epsilon=0.0, by_visits=1)
    assert drawn_shares(rule, [0.2, -0.4], [3, 1], 1) == pytest.approx([0.90876, 0.09124], abs=0.01)


def sparse_policy(scores: list[float]) -> list[float]:
    """The projection on the simplex by sorting, as the paper has it."""
    ordered = sorted(scores, reverse=True)
    support = [k for k in range(1, len(ordered) + 1) if 1 + k * ordered[k - 1] > sum(ordered[:k])][-1]
    threshold = (sum(ordered[:support]) - 1) / support
    return [max(x - threshold, 0.0) for x in scores]


def sparse_mean_reference(temperature: float):
    def value(node: Node, children) -> float:
        highest = max(q for _, q in children)
        policy = sparse_policy([(q - highest) / temperature for _, q in children])
        distance = sum(p * p for p in policy) / 2 - 1 / (2 * len(policy))
        return sum(p * q for p, (_, q) in zip(policy, children, strict=True)) - temperature * distance

    return mix_of(value)


def sparse_reference(temperature: float, epsilon: float):
    def weights(node, pairs) -> list[float]:
        highest = max(q for _, q in pairs)
        return sparse_policy([(q - highest) / temperature for _, q in pairs])

    return policy_of(weights, epsilon)


@pytest.mark.parametrize("player", [0, 1])
def test_tents_worked_by_hand(player):
    # τ = 0.5: x = (0, -0.4, -2). The third is out: θ = (-0.4 - 1)/2 = -0.7, π = (0.7, 0.3, 0).
    # Σ π·Q = 0.7·0.2 + 0 = 0.14, less 0.5·(0.58/2 - 1/6) = 0.0616667.
    tree = one_node(0.9, [(0.2, 3), (0.0, 1), (-0.8, 2)], player)
    assert mixed(values.tents(temperature=0.5), tree) == pytest.approx(0.0783333, abs=1e-7)
    assert mixed(values.tents(temperature=1e-6), tree) == pytest.approx(0.2, abs=1e-6)
    assert mixed(values.tents(temperature=1e6), tree) == pytest.approx(-0.2, abs=1e-6)
    rule = policies.sparse(temperature=0.5, epsilon=0.0)
    assert drawn_shares(rule, [0.2, 0.0, -0.8], [3, 1, 2], player) == pytest.approx([0.7, 0.3, 0.0], abs=0.015)


def test_rents_and_tents_grow_the_oracles_trees(game_name):
    selection, rule = boltzmann_reference(0.2, 0.4, True), Backup(mix=soft_maximum_reference(0.2, True))
    assert_oracle_agrees(game_name, "rents(temperature=0.2,epsilon=0.4)", selection, rule)
    selection, rule = sparse_reference(0.3, 0.4), Backup(mix=sparse_mean_reference(0.3))
    assert_oracle_agrees(game_name, "tents(temperature=0.3,epsilon=0.4)", selection, rule)


def best_child_reference(node: Node, children) -> float:
    return max(q for _, q in children)


class Entropies:
    """The oracle's entropies below nodes, for player 0, which it writes on the nodes."""

    def __init__(self, temperature: float, weight: float):
        self.temperature, self.weight = temperature, weight

    def policy(self, node: Node, qualities: list[tuple[Node, float]]) -> list[float]:
        beta = self.weight / math.log(math.e + node.visit_count)
        scores = [q + beta * node.sign * getattr(child, "entropy", 0.0) for child, q in qualities]
        return [math.exp((score - max(scores)) / self.temperature) for score in scores]

    def mix(self, node: Node) -> float:
        children = [child for child in node.visited if child.visit_count]
        if not children:
            return node.mean
        weights = self.policy(node, [(child, node.sign * child.value) for child in children])
        shares = [weight / sum(weights) for weight in weights]
        own = -sum(share * math.log(share) for share in shares if share)
        below = sum(share * getattr(child, "entropy", 0.0) for share, child in zip(shares, children, strict=True))
        node.entropy = node.sign * own + below
        return node.sign * max(node.sign * child.value for child in children)

    def selection(self, epsilon: float):
        def weights(node, pairs) -> list[float]:
            return self.policy(node, [(child, q) for child, (_, q) in zip(node.children, pairs, strict=True)])

        return policy_of(weights, epsilon)


@pytest.mark.parametrize("player", [0, 1])
def test_bts_worked_by_hand(player):
    tree = one_node(0.9, [(0.2, 3), (-0.4, 1)], player)
    assert mixed(values.bts(), tree) == 0.2
    assert mixed(values.bts(), one_node(0.9, [], player)) == pytest.approx(-0.123 if player else 0.123)


@pytest.mark.parametrize("player", [0, 1])
def test_dents_worked_by_hand(player):
    # N = 5, β = 0.5/ln(e + 5) = 0.2446673. The children's entropies are 0 and 1 for the mover: scores 0.2, -0.1553327,
    # weights 1 and e^(-0.3553327/0.5) = 0.4913171, ρ = (0.6705482, 0.3294518).
    # H = 0.2679911 + 0.3657986 of its own, and 0.3294518·1 from below.
    tree = Tree(2, 64, [OWN, values.ENTROPY])
    plain = one_node(0.9, [(0.2, 3), (-0.4, 1)], player)
    tree.nodes[:3], tree.header["num_nodes"] = plain.nodes[:3], 3
    sign = -1.0 if player else 1.0
    tree.rows(values.ENTROPY)["value"][2] = sign * 1.0
    rule = values.dents(temperature=0.5, weight=0.5)
    bound, part = rule.bind(columns=tree.columns), rule.values["mix"]
    assert part.address and bound.owners
    numbers = part.bind(columns=tree.columns)
    result = part.definition.callback.from_python(tree.header.ctypes.data, 0, 0.123, numbers.address)
    assert result == sign * 0.2
    assert tree.rows(values.ENTROPY)["value"][0] == pytest.approx(sign * 0.9632415, abs=1e-6)


def test_bts_and_dents_grow_the_oracles_trees(game_name):
    selection, rule = boltzmann_reference(0.2, 0.4), Backup(mix=mix_of(best_child_reference))
    assert_oracle_agrees(game_name, "bts(temperature=0.2,epsilon=0.4)", selection, rule)
    oracle = Entropies(0.2, 0.5)
    selection, rule = oracle.selection(0.4), Backup(mix=oracle.mix)
    assert_oracle_agrees(game_name, "dents(temperature=0.2,weight=0.5,epsilon=0.4)", selection, rule)


def nodes_of_a_search(text):
    game = GAMES["connect_four"][0]
    search = engram.Search(game, text)
    search.run(game.initial_state(), engram.Limit(simulations=1000), seed=3)
    return search.tree.nodes[: search.tree.num_nodes]


def test_dents_without_weight_is_bts_node_by_node():
    assert nodes_of_a_search("bts").tobytes() == nodes_of_a_search("dents(weight=0)").tobytes()


@pytest.mark.parametrize("name", ["ments", "rents", "tents", "bts", "dents"])
def test_a_nearly_certain_win_is_found_with_every_part(name):
    game = engram.game("connect_four")
    state = game.play_moves("4 1 4 1 4 2")
    for options in ("", "solver=true", "transpositions=true", "widening=2", "threads=2, parallel=root"):
        result = engram.Search(game, f"{name}({options})").run(state, engram.Limit(simulations=1500), seed=1)
        assert result.action == 3 and result.value > 0.5, options


# ------------------------------------------------------------------------------- kernel over the tree
def kernel_reference(exploration: float, bandwidth: float, narrowing: float):
    """Visited siblings count as samples of a child, with the weight of a Gaussian at two edges."""

    def select(node: Node, rng, q) -> int:
        samples = [(index, float(child.visit_count), q(node, child)) for index, child in enumerate(node.visited)]
        samples = [(index, n, value) for index, n, value in samples if value > -math.inf]
        total, weighted = sum(n for _, n, _ in samples), sum(n * value for _, n, value in samples)
        width = bandwidth * max(float(node.visit_count), 1.0) ** -narrowing
        kernel = math.exp(-2.0 / (width * width))
        scale = exploration * math.sqrt(math.log(max(node.visit_count, 1)))
        best, highest = reference.EXPAND, -math.inf
        if node.num_visited < len(node.children):
            highest = weighted / total + scale / math.sqrt(kernel * total) if samples else math.inf
        for index, n, value in samples:
            near = n + kernel * (total - n)
            bound = ((1.0 - kernel) * n * value + kernel * weighted) / near + scale / math.sqrt(near)
            if bound > highest:
                best, highest = index, bound
        return best

    return select


@pytest.mark.parametrize(("bandwidth", "narrowing"), [(1.5, 0.1), (0.7, 0.0)])
def test_ucb1_kernel_grows_the_oracles_tree(game_name, bandwidth, narrowing):
    searched = f"uct(selection=ucb1_kernel(exploration=0.7,bandwidth={bandwidth},narrowing={narrowing}))"
    assert_oracle_agrees(game_name, searched, kernel_reference(0.7, bandwidth, narrowing), Backup())


@pytest.mark.parametrize("player", [0, 1])
def test_ucb1_kernel_worked_by_hand(player):
    # κ = 1/2: n' = (3.5, 2.5) and Q' = (0.4/3.5, -0.1/2.5), so that the second is better from c = 1.242 on, where
    # UCB1 has 1.119. An unvisited child has n' = 2 and Q' = 0.05.
    def rule(exploration: float, bandwidth: float = math.sqrt(2.0 / math.log(2.0))):
        return ucb1_kernel(exploration=exploration, bandwidth=bandwidth, narrowing=0.0)

    tree = bandit([3, 1], [0.2, -0.4], player=player)
    assert [choose(rule(c), tree) for c in (1.2, 1.3)] == [1, 2]
    assert [choose(rule(c, bandwidth=0.0), tree) for c in (1.1, 1.2)] == [1, 2]
    tree = bandit([3, 1], [0.2, -0.4], player=player, unvisited=1)
    assert [choose(rule(c), tree) for c in (0.1, 1.2)] == [1, EXPAND]
    assert choose(rule(0.1, bandwidth=0.0), tree) == EXPAND


def test_a_kernel_without_width_is_ucb1_node_by_node():
    plain, kernel = map(nodes_of_a_search, ("uct(solver=true)", "uct(solver=true,selection=ucb1_kernel(bandwidth=0))"))
    assert plain["visit_count"].tolist() == kernel["visit_count"].tolist()


# ------------------------------------------------------------------------------------ implicit minimax
def potential_of(position: LinePosition) -> float:
    """Windows of a run's length with n ≥ 1 stones of one player and none of the other: 4^(n-1) each."""
    windows = {tuple(cells) for through in position.runs for cells in through}
    difference = 0.0
    for cells in windows:
        owners = [position.board[cell] for cell in cells if position.board[cell] >= 0]
        if owners and len(set(owners)) == 1:
            difference += (1 - 2 * owners[0]) * 4.0 ** (len(owners) - 1)
    run = len(next(iter(windows)))
    return 0.99 * difference / (4.0 ** (run - 1) + abs(difference))


def guess(path: list[Node], position: LinePosition) -> None:
    if not hasattr(path[-1], "implicit"):
        path[-1].implicit = potential_of(position)


def implicit_of(child: Node) -> float:
    return child.value if child.terminal else child.implicit


def keep_minimax(path: list[Node], value: float) -> None:
    for node in reversed(path[:-1]):
        node.implicit = node.sign * max(node.sign * implicit_of(child) for child in node.visited)


@pytest.mark.parametrize("game_name", ["tic_tac_toe", "connect_four"])
def test_implicit_minimax_grows_the_oracles_tree(game_name):
    def blended(node: Node, rng, q) -> int:
        return reference.ucb1(0.7)(
            node,
            rng,
            lambda parent, child: q(parent, child) + 0.4 * (node.sign * implicit_of(child) - q(parent, child)),
        )

    for moves in (0, 3):
        game, state, position = position_after(game_name, moves, seed=moves)
        oracle = ReferenceSearch(position, blended, recall=guess, remember=keep_minimax)
        searched = preset("uct(selection=implicit_minimax(weight=0.4,exploration=0.7))")
        search = compare(game, state, position, searched, oracle, 300, seed=2)
        rows = search.tree.rows(IMPLICIT)["value"]
        assert rows[0] == pytest.approx(oracle.root.implicit, abs=1e-12)


@pytest.mark.parametrize("player", [0, 1])
def test_implicit_minimax_worked_by_hand(player):
    # N = 5, c = 0.1: bonuses 0.0732 and 0.1269. With v = (-0.5, 0.6) and α = 0.4: 0.12 - 0.2 and -0.24 + 0.24.
    tree = bandit([3, 1], [0.2, -0.4], player=player, columns=(IMPLICIT,))
    tree.rows(IMPLICIT)["value"][1:3] = np.array([-0.5, 0.6]) * (-1 if player else 1)
    assert choose(implicit_minimax(weight=0.4, exploration=0.1), tree) == 2
    assert choose(implicit_minimax(weight=0.0, exploration=0.1), tree) == 1


def test_implicit_minimax_without_weight_is_uct_and_other_games_are_refused():
    game = GAMES["connect_four"][0]
    trees = []
    for text in ("uct", "uct(selection=implicit_minimax(weight=0))"):
        search = engram.Search(game, text)
        search.run(game.initial_state(), engram.Limit(simulations=1000), seed=3)
        trees.append(search.tree.nodes[: search.tree.num_nodes].tobytes())
    assert trees[0] == trees[1]
    with pytest.raises(engram.EngramError, match="no heuristic 'potential'"):
        engram.Search(GAMES["pick"][0], "uct(selection=implicit_minimax)")


# ----------------------------------------------------------------------------------------------- GRAVE
class Grave:
    """The oracle's GRAVE, which remembers the nodes of the descent."""

    search: ReferenceSearch

    def __init__(self, visits: float, bias: float):
        self.visits, self.bias = visits, bias
        self.descent: list[Node] = []

    def reference(self, node: Node) -> Node:
        alike = [above for above in self.descent if above.player == node.player]
        enough = [above for above in alike if above is self.search.root or above.visit_count >= self.visits]
        return enough[-1] if enough else node

    def __call__(self, node: Node, rng, q) -> int:
        self.descent = [node] if node is self.search.root else [*self.descent, node]
        amaf = {child.action: child.amaf_returns for child in self.reference(node).children}
        choice, best, unknown = reference.EXPAND, -math.inf, 0
        for index, child in enumerate(node.children):
            n, value = (child.visit_count, q(node, child)) if index < node.num_visited else (0, 0.0)
            returns = amaf.get(child.action, [])
            m = len(returns)
            if not m and not n:
                unknown += 1
                choice = index if rng.below(unknown) == 0 else choice
                continue
            if m and value > -math.inf:
                mean = 0.0
                for number, sample in enumerate(returns, 1):
                    mean += (sample - mean) / number
                half = 0.5 * math.sqrt(self.bias)
                beta = m / (n + m + 4.0 * n * m * half * half) if n else 1.0
                value += beta * (node.sign * mean - value)
            if not unknown and value > best:
                choice, best = index, value
        return choice


@pytest.mark.parametrize("visits", [0, 10, 1e9])
def test_grave_grows_the_oracles_tree(game_name, visits):
    for moves in (0, 3):
        game, state, position = position_after(game_name, moves, seed=moves)
        rule = Grave(visits, 0.01)
        rule.search = ReferenceSearch(position, rule, amaf=True)
        compare(game, state, position, uct(selection=grave(visits=visits, bias=0.01)), rule.search, 250, seed=2)


@pytest.mark.parametrize("player", [0, 1])
def test_grave_worked_by_hand(player):
    # At the root. b = 0.5, n = ñ = 9: β = 9/(18 + 40.5) = 0.1538. Q = (0.2, -0.4), Q̃ = (0, 0.8): 0.1692, -0.2154.
    # The third child has only Q̃.
    sign = -1.0 if player else 1.0
    for third, expected in ((0.16, 1), (0.18, entering(3))):
        tree = bandit((9, 9), (0.2, -0.4), unvisited=1, player=player, columns=(AMAF, REFERENCE))
        tree.nodes["action"][1:4], tree.rows(AMAF)["count"][1:4] = (0, 1, 2), 9
        tree.rows(AMAF)["mean"][1:4] = sign * np.array([0.0, 0.8, third])
        assert choose(grave(visits=5, bias=0.5), tree) == expected


def test_grave_forgets_its_references_when_the_root_moves():
    game = GAMES["connect_four"][0]
    search = engram.Search(game, "uct(selection=grave(visits=20))")
    state = game.initial_state()
    for seed in range(3):
        result = search.run(state, engram.Limit(simulations=400), seed=seed)
        state = game.play(state, result.action)
        search.advance(result.action)
    assert (search.tree.rows(REFERENCE)["of_player_0"] == 0).all()
    assert result.simulations == 400


@pytest.mark.parametrize("text", ["dents", "tents", "uct(selection=implicit_minimax)", "uct(selection=grave)"])
def test_a_saved_tree_goes_on_bit_for_bit(text, tmp_path):
    game = GAMES["connect_four"][0]
    first, second = engram.Search(game, text), engram.Search(game, text)
    first.run(game.initial_state(), engram.Limit(simulations=500), seed=1)
    first.save(tmp_path / "tree")
    second.load(tmp_path / "tree")
    more = [search.run(search.root, engram.Limit(simulations=300), seed=None).moves for search in (first, second)]
    assert more[0] == more[1]


# -------------------------------------------------------------------------------- variance-scaled PUCT
def variance_reference(exploration: float, usual: float, weight: float, scale: float):
    """The oracle's rule, from the returns that it keeps of every node."""
    returns: dict[int, list[float]] = {}

    def select(node: Node, rng, q) -> int:
        n, factor = node.visit_count, 1.0
        if n > 1:
            squares = sum(value * value for value in returns[id(node)])
            square = node.value * node.value
            total = (square + usual * usual) * weight + max(squares, square * n)
            variance = max(total / (weight + n - 1) - square, 0.0)
            factor += scale * (math.sqrt(variance) / usual - 1.0)
        return reference.puct(exploration * factor)(node, rng, q)

    class Noted(Backup):
        def __call__(self, path: list[Node], value: float) -> None:
            for node in path:
                returns.setdefault(id(node), []).append(value)
            super().__call__(path, value)

    return select, Noted()


def test_variance_puct_grows_the_oracles_tree(game_name):
    searched = puct(selection=variance_puct(usual=0.6, usual_visits=3.0, scale=0.5))
    for moves in (0, 3):
        game, state, position = position_after(game_name, moves, seed=moves)
        oracle = ReferenceSearch(position, *variance_reference(1.25, 0.6, 3.0, 0.5))
        compare(game, state, position, searched, oracle, 200, seed=4)


@pytest.mark.parametrize("player", [0, 1])
def test_variance_puct_worked_by_hand(player):
    # N = 16, V = 0, n = (10, 5), Q = (0.1, -0.5), P = (½, ½, 0.08), c = 1.25.
    # Σr² = 0: σ² = 0.16·2/17, σ = 0.1372, f = 1 + 0.85·(0.1372/0.4 - 1) = 0.4415; bounds 0.2004, -0.3160, 0.1766.
    # Σr² = 16: σ² = (0.16·2 + 16)/17 = 0.96, f = 2.2321; bounds 0.6073, 0.4300, 0.8928.
    for squares, expected in ((0.0, 1), (16.0, reference.EXPAND)):
        tree = bandit((10, 5), (0.1, -0.5), unvisited=1, player=player, priors=(0.5, 0.5, 0.08), columns=(SQUARES,))
        tree.rows(SQUARES)["total"][0] = squares
        assert choose(variance_puct(), tree) == expected


def test_without_scale_it_is_puct():
    game = GAMES["connect_four"][0]
    trees = []
    for text in ("puct", "puct(selection=variance_puct(scale=0))"):
        search = engram.Search(game, text)
        search.run(game.initial_state(), engram.Limit(simulations=1000), seed=3)
        trees.append(search.tree.nodes[: search.tree.num_nodes].tobytes())
    assert trees[0] == trees[1]


# ------------------------------------------------------------------------------ uncertainty weights
class WeightedReference(Backup):
    """The oracle's weighted means, from all returns and weights of a node."""

    def __init__(self, error: float, coefficient: float, bound: float):
        super().__init__()
        self.error, self.coefficient, self.bound = error, coefficient, bound

    def __call__(self, path: list[Node], value: float) -> None:
        spread = self.error * math.sqrt(1.0 - value * value)
        weight = self.coefficient / (spread + self.coefficient / self.bound)
        for node in path:
            node.visit_count += 1
            node.weight += weight
            node.value = node.here = node.value + weight / node.weight * (value - node.value)
            node.own_returns.append((weight, value))
            mean = sum(w * v for w, v in node.own_returns) / sum(w for w, _ in node.own_returns)
            assert node.value == pytest.approx(mean, abs=1e-12)


def weighted_puct_reference(exploration: float):
    def select(node: Node, rng, q) -> int:
        scale = exploration * math.sqrt(node.weight)
        bounds = [q(node, child) + scale * child.prior / (1.0 + child.weight) for child in node.visited]
        if node.num_visited < len(node.children):
            urgency = node.sign * node.value + scale * node.children[node.num_visited].prior
            if urgency >= max(bounds, default=-math.inf):
                return reference.EXPAND
        return bounds.index(max(bounds))

    return select


@pytest.mark.parametrize("numbers", [(0.25, 0.25, 8.0), (1.0, 0.5, 3.0)])
def test_uncertainty_grows_the_oracles_tree(game_name, numbers):
    rule = "uncertainty(error={},coefficient={},max_weight={})".format(*numbers)
    searched = preset(f"puct(selection=weighted_puct(exploration=0.9),backup={rule})")
    for moves in (0, 3):
        game, state, position = position_after(game_name, moves, seed=moves)
        oracle = ReferenceSearch(position, weighted_puct_reference(0.9), WeightedReference(*numbers))
        search = compare(game, state, position, searched, oracle, 200, seed=4)
        assert search.tree.rows(WEIGHTS)["weight"][0] == pytest.approx(oracle.root.weight, abs=1e-9)


def test_uncertainty_worked_by_hand():
    # a = 0.25, m = 8, e = 0.25. v = 1: w = 0.25/0.03125 = 8. v = 0.6: u = 0.25·0.8 = 0.2, w = 0.25/0.23125 = 1.0810811.
    # V = (8 + 0.6·1.0810811)/9.0810811 = 0.9523810. v = 0: w = 0.25/0.28125 = 0.8888889, V = 8.6486486/9.9699700.
    tree = Tree(2, 64, [WEIGHTS])
    rule, path = uncertainty(), np.zeros(1, np.int32)
    numbers = rule.bind(columns=tree.columns)
    assert rule.address
    for value, expected in ((1.0, 1.0), (0.6, 0.9523810), (0.0, 0.8674699)):
        rule.definition.callback.from_python(tree.header.ctypes.data, path.ctypes.data, 0, value, numbers.address)
        assert tree.nodes["value"][0] == pytest.approx(expected, abs=5e-8)


def test_without_error_it_is_the_average_up_to_rounding():
    game = GAMES["connect_four"][0]
    visits = []
    for text in ("puct", "puct(backup=uncertainty(error=0))"):
        search = engram.Search(game, text)
        search.run(game.initial_state(), engram.Limit(simulations=300), seed=3)
        visits.append([move.visits for move in search.run(game.initial_state(), engram.Limit(simulations=1)).moves])
    assert visits[0] == visits[1]
