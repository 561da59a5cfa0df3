"""Sarsa-UCT(λ): the paper's TD errors through tree and rollout, numbers worked by hand, limits and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import engram
from engram.errors import InvalidParameter
from engram.presets import sarsa_uct, uct
from engram.search import backup as backups
from engram.search.extension import Extension
from engram.search.extensions.local_bounds import RETURNS, local_bounds, ucb1_local
from engram.search.tree import EXPAND, Tree
from tests import reference
from tests.reference import Backup, Node, ReferenceSearch
from tests.search.test_reference import GAMES, compare, position_after
from tests.search.test_selection import bandit, choose


class SarsaReference(ReferenceSearch):
    """The paper's episodes: positions of the tree, then those of the rollout, which keep the value 0."""

    def __init__(self, position, exploration: float, lam: float, gamma: float, initial: float):
        self.exploration, self.lam, self.gamma, self.initial = exploration, lam, gamma, initial
        self.targets = Backup(trace_decay=lam, discount=gamma, initial=initial)
        super().__init__(position, self.select, self.back_up)

    def evaluate(self, leaf: Node, position, rng) -> tuple[float, int]:
        answer = super().evaluate(leaf, position, rng)
        self.steps = len(position.rolled)
        return answer

    def select(self, node: Node, rng, q) -> int:
        if node.num_visited < len(node.children):
            return reference.EXPAND
        least = 1.0 - max(1.0 - gain for gain in node.returns)
        greatest = max(1.0 + gain for gain in node.returns) - 1.0
        middle, half = (least + greatest) / 2.0, (greatest - least) / 2.0
        middle, half = (middle, half) if half > 0.0 else (0.0, 1.0)
        scale = self.exploration * math.sqrt(math.log(node.visit_count))
        bounds = [
            (q(node, child) - node.sign * middle) / half + scale / math.sqrt(child.visit_count)
            for child in node.children
        ]
        return bounds.index(max(bounds))

    def back_up(self, path: list[Node], value: float) -> None:
        self.note_returns(path, value)
        # TD errors, backwards through the whole episode; the only reward comes with its last position.
        episode: list[Node | None] = [*path, *[None] * self.steps]
        errors, following, values = 0.0, 0.0, {}
        for number, position in enumerate(reversed(episode)):
            reward = value if number == 0 else 0.0
            current = 0.0
            if position is not None:
                current = position.value if position.visit_count else self.initial
            errors = self.lam * self.gamma * errors + (reward + self.gamma * following - current)
            if position is not None:
                values[id(position)] = current + errors / (position.visit_count + 1)
            following = current
        # The family's targets are the same numbers. They are kept, because a rounding decides between equal moves.
        self.targets(path, value * (self.lam * self.gamma) ** float(self.steps))
        for node in path:
            assert node.value == pytest.approx(values[id(node)], rel=0, abs=1e-13)

    def note_returns(self, path: list[Node], value: float) -> None:
        gain = value * self.gamma ** float(self.steps)
        for node in reversed(path[:-1]):
            node.returns = [*getattr(node, "returns", []), gain]
            gain *= self.gamma


@pytest.mark.parametrize("game_name", GAMES)
@pytest.mark.parametrize(
    ("lam", "gamma", "initial"), [(0.9, 1.0, 0.0), (0.7, 0.95, 0.0), (1.0, 0.8, 0.5), (0.5, 1.0, -0.3), (0.0, 1.0, 0.2)]
)
def test_sarsa_uct_grows_the_papers_tree(game_name, lam, gamma, initial):
    options = {"trace_decay": lam, "discount": gamma, "initial": initial, "exploration": 0.6}
    for moves, simulations in ((0, 250), (3, 250)):
        game, state, position = position_after(game_name, moves, seed=moves)
        oracle = SarsaReference(position, 0.6, lam, gamma, initial)
        search = compare(game, state, position, sarsa_uct(**options), oracle, simulations, seed=7)
        rows = search.tree.rows(RETURNS)[0]
        assert rows["above"] == max(1.0 + gain for gain in oracle.root.returns)
        assert rows["below"] == max(1.0 - gain for gain in oracle.root.returns)


def test_heavy_rollouts_carry_the_trace_too():
    game = GAMES["connect_four"][0]
    state = game.play_moves("4 1 4 1 4")  # a heavy rollout from here blocks, or loses in two moves
    search = engram.Search(game, sarsa_uct(trace_decay=0.5, rollout="heavy"))
    first = search.run(state, engram.Limit(simulations=1), seed=3)
    # One rollout of L moves from the root: its value is an outcome times a power of a half.
    assert first.value == 0.0 or math.log2(abs(first.value)) == int(math.log2(abs(first.value))) <= -1


def test_one_backup_worked_by_hand():
    # γ = 0.9, λ = 0.5, V_init = 0.1; a rollout of 2 moves that player 0 wins: R = 0.45² = 0.2025.
    # Fresh leaf s_2: V = 0.2025. s_1 had V = -0.1 after one visit, s_0 had 0 after two.
    # G_1 = 0.9·(0.5·0.2025 + 0.5·0.1) = 0.136125, V(s_1) = (-0.1 + 0.136125)/2 = 0.0180625.
    # G_0 = 0.9·(0.5·0.136125 - 0.5·0.1) = 0.01625625, V(s_0) = 0.01625625/3 = 0.00541875.
    tree = Tree(2, 64)
    tree.nodes["visit_count"][:2], tree.nodes["value"][:2] = (2, 1), (0.0, -0.1)
    rule = backups.trace_step_mix(trace_decay=0.5, discount=0.9, initial=0.1)
    path, numbers = np.array([0, 1, 2], np.int32), rule.bind()
    assert rule.address
    rule.definition.callback.from_python(tree.header.ctypes.data, path.ctypes.data, 2, 0.2025, numbers.address)
    assert tree.nodes["value"][:3].tolist() == pytest.approx([0.00541875, 0.0180625, 0.2025], abs=1e-15)
    assert tree.nodes["visit_count"][:3].tolist() == [3, 2, 1]


def countdown_actions(state, actions):
    actions[0], actions[1] = 0, 1
    return 2 if state.left > 0 else 0


def countdown_play(state, action):
    state.left -= 1
    return np.int64(state.left == 0)


@pytest.mark.parametrize("low", [-10.0, 0.0, 9.0])
@pytest.mark.parametrize("simulations", [1, 2, 1000])
def test_discounts_are_of_returns_in_the_games_units(low, simulations):
    # All games end with 10 after 6 moves, so each value is 10·0.9⁶, or the bound above it.
    state = np.zeros(1, np.dtype([("left", np.int64)]))
    state["left"] = 6
    game = engram.Game(
        "countdown", state=state, num_actions=2, max_moves=6, legal_actions=countdown_actions, play=countdown_play,
        outcome=lambda state: 10.0, to_play=lambda state: 0, hash=lambda state: np.uint64(state.left), players=1,
        bounds=(low, 10.0),
    )  # fmt: skip
    search = engram.Search(game, sarsa_uct(trace_decay=1.0, discount=0.9))
    result = search.run(game.initial_state(), engram.Limit(simulations=simulations))
    assert result.value == pytest.approx(max(low, 10.0 * 0.9**6), rel=1e-12)
    if simulations > 2 and low < 9.0:  # a move from the root leaves 5
        returns = search.tree.rows(RETURNS)[0]
        extremes = np.array([returns["above"] - 1.0, 1.0 - returns["below"]])
        assert search.tree.in_units(extremes) == pytest.approx(10.0 * 0.9**5, rel=1e-12)


def test_a_decay_is_the_same_wherever_the_bounds_lie():
    """λ pulls towards the middle of the bounds, so that a shift of all outcomes changes nothing."""

    def visits(low):
        state = np.zeros(1, np.dtype([("left", np.int64), ("first", np.int64)]))
        state["left"], state["first"] = 20, -1
        game = engram.Game(
            "shifted", state=state, num_actions=2, max_moves=20, legal_actions=countdown_actions, play=first_play,
            outcome=lambda state: low + state.first, to_play=lambda state: 0, players=1, bounds=(low, low + 1.0),
            hash=lambda state: np.uint64(2 * state.left + state.first + 1),
        )  # fmt: skip
        result = engram.Search(game, "sarsa_uct").run(game.initial_state(), engram.Limit(simulations=1000))
        assert result.action == 1
        return sorted((move.action, move.visits) for move in result.moves)

    assert visits(9.0) == visits(-0.5)


def first_play(state, action):
    state.first = action if state.first < 0 else state.first
    state.left -= 1
    return np.int64(state.left == 0)


@pytest.mark.parametrize("player", [0, 1])
def test_stretched_values_worked_by_hand(player):
    # N = 17, n = (10, 5, 1), sqrt(ln 17 / n) = 0.53228, 0.75276, 1.68321. Q = (0.3, 0.2, 0.1).
    # Returns in [0, 0.4]: Q becomes (0.5, 0, -0.5); bounds at c = 0.5 are 0.76614, 0.37638, 0.34161.
    # Without stretching they would be 0.56614, 0.57638, 0.94161.
    tree = bandit((10, 5, 1), (0.3, 0.2, 0.1), player=player, columns=(RETURNS,))
    assert choose(ucb1_local(exploration=0.5), tree) == 3
    extremes = (1.0, 1.4) if player else (1.4, 1.0)
    tree.rows(RETURNS)["above"][0], tree.rows(RETURNS)["below"][0] = extremes
    assert choose(ucb1_local(exploration=0.5), tree) == 1
    # One kind of return has no span.
    tree.rows(RETURNS)["above"][0], tree.rows(RETURNS)["below"][0] = 1.4, 0.6
    assert choose(ucb1_local(exploration=0.5), tree) == 3
    assert choose(ucb1_local(), bandit((3,), (0.1,), unvisited=1, columns=(RETURNS,))) == EXPAND


def trees(game, *presets, simulations: int = 2000) -> list[bytes]:
    results = []
    for variant in presets:
        search = engram.Search(game, variant)
        search.run(game.initial_state(), engram.Limit(simulations=simulations), seed=3)
        results.append(search.tree.nodes[: search.tree.num_nodes].tobytes())
    return results


def test_without_decay_it_is_uct_with_local_bounds():
    first, second = trees(GAMES["connect_four"][0], sarsa_uct(trace_decay=1.0), uct(selection=ucb1_local()))
    assert first == second


def test_full_bounds_leave_ucb1():
    tree = bandit((10, 5, 9), (0.6, 0.4, 0.0), columns=(RETURNS,))
    tree.rows(RETURNS)[0] = (2.0, 2.0)
    for exploration, expected in ((0.1, 1), (1.0, 2)):
        assert choose(ucb1_local(exploration=exploration), tree) == expected


def test_an_initial_value_is_without_effect_where_nothing_bootstraps():
    first, second = trees(
        GAMES["connect_four"][0], uct(), uct(backup=backups.trace_step_mix(initial=0.7)), simulations=500
    )
    assert first == second


def test_bounds_follow_a_move_of_the_root():
    game = GAMES["connect_four"][0]
    search = engram.Search(game, "sarsa_uct(discount=0.9)")
    result = search.run(game.initial_state(), engram.Limit(simulations=600), seed=1)
    child = 1 + search.tree.children()["action"].tolist().index(result.action)
    before = search.tree.rows(RETURNS)[child].copy()
    assert before["above"] > 1.0 and before["below"] > 1.0
    search.advance(result.action)
    assert search.tree.rows(RETURNS)[0] == before


def test_a_saved_tree_goes_on_bit_for_bit(tmp_path):
    game = GAMES["connect_four"][0]
    first, second = engram.Search(game, "sarsa_uct"), engram.Search(game, "sarsa_uct")
    first.run(game.initial_state(), engram.Limit(simulations=500), seed=1)
    first.save(tmp_path / "tree")
    second.load(tmp_path / "tree")
    more = [search.run(search.root, engram.Limit(simulations=300), seed=None).moves for search in (first, second)]
    assert more[0] == more[1]


def test_refusals():
    with pytest.raises(InvalidParameter, match="moves of nature"):
        engram.Search("pig", "sarsa_uct")
    with pytest.raises(InvalidParameter, match="rollout_decay is in"):
        Extension("mine", rollout_decay=0.5)
    with pytest.raises(InvalidParameter, match="sarsa_uct: learn needs a table"):
        sarsa_uct(learn=True)
    with pytest.raises(InvalidParameter, match="initial must be in"):
        sarsa_uct(initial=1.5)
    assert local_bounds()(engram.game("tic_tac_toe")).rollout_moves is False
    with pytest.raises(InvalidParameter, match="discount must be in"):
        local_bounds(discount=1.5)


@pytest.mark.parametrize(
    "options", ["", "solver=true", "transpositions=true", "widening=2", "threads=2, parallel=root"]
)
def test_a_nearly_certain_win_is_found_with_every_part(options):
    game = engram.game("connect_four")
    result = engram.Search(game, f"sarsa_uct({options})").run(
        game.play_moves("4 1 4 1 4 2"), engram.Limit(simulations=1500), seed=1
    )
    assert result.action == 3 and result.value > 0.5
