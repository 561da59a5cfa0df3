"""Rollout policies: moves against a plain playout, what MAST learns against a list of its games, and refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numba import carray

import engram
from engram.errors import InvalidParameter, InvalidSpecification, OperatorError
from engram.native.intrinsics import address_of, call, pointer_at
from engram.presets import puct, rave, uct
from engram.presets.catalogue import preset
from engram.registry import Registry
from engram.rng import new_rng, random_below, random_float
from engram.search.backup import trace_step_mix
from engram.search.extension import Extension
from engram.search.extensions.move_averages import average_dtype, follow_averages, mast
from engram.search.operators import OPERATORS, Column, Parameter, Part, Record, after_backup, rollout
from engram.search.selection import ucb1
from engram.search.tree import CHANCE, PLAYER_1, nodes_of

game_played = np.dtype([("value", np.float64), ("count", np.int64), ("in_tree", np.int64), ("moves", np.int32, (120,))])


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """The policies of these tests get no name in the process."""
    policies = Registry("rollout policy")
    policies.update(OPERATORS["rollout"])
    monkeypatch.setitem(OPERATORS, "rollout", policies)


@rollout()
def first(state, player, actions, count, rng, parameters):
    return 0


@rollout()
def drawn(state, player, actions, count, rng, parameters):
    return random_below(rng, count)


@rollout(usual=Part("rollout"), rare=Part("rollout", optional=True), share=Parameter(0.25, low=0.0, high=1.0))
def either(state, player, actions, count, rng, parameters):
    """The rare policy's move with this probability, else the usual one's."""
    arguments = (state, player, actions, count, address_of(rng))
    if random_float(rng) < parameters.share and parameters.rare != 0:
        return call(parameters.rare, (*arguments, parameters.rare_parameters))
    return call(parameters.usual, (*arguments, parameters.usual_parameters))


@after_backup(games=Record(game_played))
def list_games(tree, path, depth, value, moves, parameters):
    """Lists the value and the moves of a simulation, each as 2·action + player."""
    games = carray(pointer_at(parameters.games, game_played), (parameters.games_size,))
    games[0].count += 1
    game = games[games[0].count]
    game.value = value
    nodes = nodes_of(tree)
    for ply in range(depth):
        node = nodes[path[ply]]
        if node.flags & CHANCE == 0:
            game.moves[game.count] = 2 * nodes[path[ply + 1]].action + (node.flags & PLAYER_1)
            game.count += 1
    game.in_tree = game.count
    log = pointer_at(moves, np.int32)
    for move in range(1, log[0] + 1):
        game.moves[game.count] = log[move]
        game.count += 1
    return 0


def search_and_games(text, rule, simulations, state=None, seed=0):
    """A search that has run; of each simulation its value, its moves in the tree and those of its rollout."""
    games = np.zeros(simulations + 1, game_played)
    listing = Extension("the list", after_backup=list_games(games=games), rollout_moves=True, chance=True, rewards=True)
    search = engram.Search(text, replace(rule, extensions=(listing,)))
    state = search.game.initial_state() if state is None else state
    search.run(state, engram.Limit(simulations=simulations), seed=seed)
    count = int(games[0]["count"])
    return search, [
        (
            float(game["value"]),
            game["moves"][: game["in_tree"]].tolist(),
            game["moves"][game["in_tree"] : game["count"]].tolist(),
        )
        for game in games[1 : count + 1]
    ]


def played(game, moves):
    """The position after moves of a list."""
    state = game.initial_state()
    for move in moves:
        assert game.to_play(state) == move & 1
        state = game.play(state, move >> 1)
    return state


def total(game, moves):
    """The return of a game of one player."""
    state, rewards = game.initial_state(), 0.0
    for move in moves:
        state = game.play(state, move)
        rewards += game.reward(state)
    return rewards + game.outcome(state)


def without_rollout(game):
    """The same game, whose rollouts go through its functions."""
    game.callbacks = {name: function for name, function in game.callbacks.items() if name != "rollout"}
    return game


@pytest.mark.parametrize(
    "text", ["tic_tac_toe", "connect_four", "othello:size=4", "hex:3", "p_game:branching=3,depth=5"]
)
def test_a_rollout_plays_the_policys_moves_to_the_end(text):
    game = engram.game(text)
    _, games = search_and_games(game, uct(rollout=first()), 40)
    assert len(games) == 40
    for value, in_tree, in_rollout in games:
        state = played(game, in_tree)
        for move in in_rollout:
            assert (move >> 1, move & 1) == (next(iter(game.legal_actions(state))), game.to_play(state))
            state = game.play(state, move >> 1)
        assert game.is_over(state) and game.outcome(state) == value


def test_the_first_simulation_is_the_policys_game_from_the_root():
    game = engram.game("same_game:seed=1,rows=4,columns=4,colours=3")
    state, moves = game.initial_state(), []
    while not game.is_over(state):
        moves.append(next(iter(game.legal_actions(state))))
        state = game.play(state, moves[-1])
    result = engram.Search(game, uct(rollout=first())).run(game.initial_state(), engram.Limit(simulations=1))
    assert result.value == pytest.approx(total(game, moves))


def test_a_policy_that_draws_uniformly_is_the_uniform_rollout():
    game = engram.game("pig:goal=10")  # nature's moves are not the policy's
    trees = []
    for rule in (uct(), uct(rollout=drawn())):
        search = engram.Search(without_rollout(game), rule)
        search.run(game.initial_state(), engram.Limit(simulations=300), seed=5)
        trees.append(search.tree.nodes[: search.tree.num_nodes].copy())
    assert (trees[0] == trees[1]).all()


# ------------------------------------------------------------------------------------------- MAST


def test_a_policy_calls_its_parts():
    """The rare one plays the least action; the usual one draws, so that it plays this one once in n."""
    _, games = search_and_games("tic_tac_toe", uct(rollout=either(usual=drawn(), rare=first(), share=0.4)), 2000)
    hits, chances = 0, []
    for _, in_tree, moves in games:
        if moves:
            free = sorted(set(range(9)) - {move >> 1 for move in in_tree})
            hits += moves[0] >> 1 == free[0]
            chances.append(0.4 + 0.6 / len(free))
    deviation = math.sqrt(sum(chance * (1.0 - chance) for chance in chances))
    assert len(chances) > 500 and abs(hits - sum(chances)) < 4.0 * deviation


def test_parts_have_their_kind_and_names_in_texts():
    OPERATORS["rollout"] |= {"first": first, "drawn": drawn, "either": either}
    rule = preset("uct(rollout=either(usual=drawn, rare=either(usual=first), share=0.5))").rollout
    assert str(rule) == "either(usual=drawn(), rare=either(usual=first(), rare=None, share=0.25), share=0.5)"
    for make, words in (
        (either, "either: usual must be an operator of the kind rollout, not None"),
        (lambda: either(usual=ucb1()), r"either: usual must be an operator of the kind rollout, not ucb1\("),
        (lambda: either(usual=drawn), "either: usual must be .*, not drawn without its parentheses"),
        (lambda: preset("uct(rollout=either(usual=ucb1))"), "no rollout policy is called 'ucb1'"),
        (lambda: preset("uct(rollout=either(usual=uniform))"), "usual must be .*, not 'uniform'"),
        (lambda: trace_step_mix(mix=ucb1()), "trace_step_mix: mix must be an operator of the kind mix, not ucb1"),
        (lambda: Part("choice"), "a part is of the kind selection, backup, mix, rollout, not 'choice'"),
        (lambda: rollout(usual=None)(lambda: 0), "usual must be a number, a Parameter, Part, .*, not None"),
    ):
        with pytest.raises((InvalidParameter, InvalidSpecification), match=words):
            make()


def means(games):
    """Mean return of each move for its player, and how often it was played, from a list of games."""
    returns = {}
    for value, in_tree, in_rollout in games:
        for move in (*in_tree, *in_rollout):
            returns.setdefault(move, []).append(-value if move & 1 else value)
    return {move: (np.mean(values), len(values)) for move, values in returns.items()}


@pytest.mark.parametrize("text", ["tic_tac_toe", "connect_four", "breakthrough:size=4", "pig:goal=10"])
def test_mast_holds_the_mean_return_of_each_move(text):
    search, games = search_and_games(text, uct(rollout=mast()), 200)
    averages = next(part.store for part in search.extensions if part.name == "MAST")
    expected = means(games)
    assert set(np.flatnonzero(averages["count"])) == set(expected)
    for move, (mean, count) in expected.items():
        assert averages[move]["count"] == count and averages[move]["value"] == pytest.approx(mean, abs=1e-9)
    search.clear()
    assert not averages["count"].any()


def test_with_rewards_a_move_of_mast_gets_the_return_of_the_whole_simulation():
    game = engram.game("same_game:seed=1,rows=3,columns=3,colours=2")
    search, games = search_and_games(game, uct(rollout=mast()), 60)
    low, high = game.bounds
    returns = []
    for _, in_tree, in_rollout in games:
        moves = [move >> 1 for move in (*in_tree, *in_rollout)]
        returns.append(((2.0 * total(game, moves) - low - high) / (high - low), in_tree, in_rollout))
    averages = next(part.store for part in search.extensions if part.name == "MAST")
    for move, (mean, count) in means(returns).items():
        assert averages[move]["count"] == count and averages[move]["value"] == pytest.approx(mean, abs=1e-9)


def test_mast_draws_moves_in_proportion_to_their_exponentials():
    averages = np.zeros(8, average_dtype)
    averages["value"], averages["count"] = [0.5, -1.0, -0.25, 0.0, 1.0, 0.2, 0.0, 0.0], [3, 1, 9, 2, 1, 4, 0, 0]
    operator = follow_averages(averages=averages, temperature=0.7)
    numbers, actions, rng = operator.bind(), np.array([3, 0, 1], np.int32), new_rng(1)
    draws = [
        operator.definition.callback.from_python(0, 0, actions.ctypes.data, 3, rng.ctypes.data, numbers.address)
        for _ in range(20_000)
    ]
    weights = np.exp(np.array([1.0, 0.5, -0.25]) / 0.7)  # action 3 has no return yet
    shares = np.bincount(draws, minlength=3) / len(draws)
    assert shares == pytest.approx(weights / weights.sum(), abs=4 * math.sqrt(0.25 / len(draws)))


def test_mast_plays_through_texts_threads_forks_and_other_presets():
    game = engram.game("connect_four")
    limit = engram.Limit(simulations=300)
    text = engram.Search(game, "uct(rollout=mast(temperature=0.3))").run(game.initial_state(), limit, seed=3)
    python = engram.Search(game, uct(rollout=mast(temperature=0.3))).run(game.initial_state(), limit, seed=3)
    assert text.moves == python.moves
    engram.Search(game, "rave(rollout=mast,threads=2,parallel=root)").run(game.initial_state(), limit)
    together = engram.Lockstep(game, uct(rollout=mast()), num_games=2).run(
        [game.initial_state()] * 2, limit, seeds=[0, 0]
    )
    assert together[0].visits.tolist() == together[1].visits.tolist()  # each tree has means of its own


def test_mast_goes_to_a_file_with_its_tree(tmp_path):
    searches = [engram.Search("connect_four", "uct(rollout=mast)") for _ in range(2)]
    start, limit = searches[0].game.initial_state(), engram.Limit(simulations=300)
    searches[0].run(start, limit, seed=1)
    searches[0].save(tmp_path / "tree")
    searches[1].load(tmp_path / "tree")
    results = [search.run(start, limit) for search in searches]
    assert results[0].moves == results[1].moves


def test_a_policy_in_go_fills_no_eye_and_passes_last():
    game = engram.game("go:5")
    alive = ".X.XX\nXXXXX\nOOOOO\nOO.O.\nOOOOO\n"
    for diagram, moves in (
        (alive + "X to play", ["pass"]),
        (alive + "O to play", ["pass"]),
        ("", [game.action_name(action) for action in range(25)]),
    ):
        state = game.parse_state(diagram) if diagram else game.initial_state()
        actions = np.zeros(game.num_actions, np.int32)
        count = game.callbacks["rollout_actions"].from_python(state.ctypes.data, actions.ctypes.data)
        assert [game.action_name(action) for action in actions[:count]] == moves
    _, games = search_and_games(game, uct(rollout=drawn()), 100)
    assert max(len(in_rollout) for *_, in_rollout in games) < 3 * 25


# --------------------------------------------------------------------------------------- refusals


@rollout()
def nowhere(state, player, actions, count, rng, parameters):
    return count


def test_a_policy_that_chooses_no_legal_move_is_named():
    with pytest.raises(OperatorError, match=r"the rollout policy .*nowhere chose no legal action"):
        engram.Search("connect_four", uct(rollout=nowhere())).run(
            engram.game("connect_four").initial_state(), engram.Limit(simulations=5)
        )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: uct(rollout="lazy"), "no rollout policy is called 'lazy'"),
        (lambda: uct(rollout=first), r"rollout=first lacks its parentheses: first\(\)"),
        (lambda: uct(rollout=mast), r"rollout=mast lacks its parentheses: mast\(\)"),
        (lambda: uct(rollout=rave().selection), "rollout is a name, a rollout operator with its numbers"),
        (lambda: uct(rollout=np.zeros(2)), "rollout is a name, a rollout operator with its numbers"),
        (lambda: uct(rollout=Extension), "rollout is a name, a rollout operator with its numbers"),
        (lambda: rollout(row=Column(average_dtype))(lambda *_: 0), "sees no tree, and so no column row"),
        (lambda: preset("uct(rollout=mst)"), "no rollout policy is called 'mst'; did you mean 'mast'"),
        (lambda: preset("uct(rollout=mast(temperature=0))"), "temperature must be in"),
        (lambda: puct(network="connect_four", rollout=first()), "needs a rollout_share"),
    ],
)
def test_rollouts_that_are_no_policy_are_refused(make, words):
    with pytest.raises((InvalidParameter, InvalidSpecification), match=words):
        make()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (replace(uct(rollout=mast()), extensions=(mast(),)), "MAST and MAST both replace the rollout policy"),
        (replace(uct(rollout="heavy"), extensions=(mast(),)), "leave it or rollout=heavy out"),
        (replace(uct(rollout=first()), evaluation=lambda state, rng: 0.0), "an evaluation takes the place of rollouts"),
        (replace(uct(rollout="heavy"), evaluation=lambda state, rng: 0.0), "an evaluation takes the place of rollouts"),
        (uct(rollout=Extension("the idle extension")), "the idle extension has no rollout policy"),
        (uct(rollout=mast(), threads=2), "threads on one tree do not go with MAST"),
        (replace(puct(network="connect_four"), extensions=(mast(),)), "leave the policy follow_averages out"),
        (uct(rollout=lambda state, player, actions, count, rng, parameters: 0), "a rule needs its decorator"),
    ],
)
def test_policies_that_conflict_are_refused(rule, words):
    with pytest.raises(InvalidParameter, match=words):
        engram.Search("connect_four", rule)


@pytest.mark.parametrize("text", ["uct(rollout=mast)", "rave"])
def test_an_action_out_of_range_late_in_a_rollout_is_refused(text):
    """Tables by action are read and written at it, so it must not get there."""

    class Late:
        def __init__(self, moves=0):
            self.moves = moves

        def legal_actions(self):
            return [] if self.moves == 9 else [0, 300_000_000] if self.moves == 8 else [0, 1]

        def play(self, move):
            self.moves = 0 if move == 0 and self.moves < 8 else self.moves + 1

        def copy(self):
            return Late(self.moves)

        def to_play(self):
            return 0

        def outcome(self):
            return 0.0

    game = engram.PythonGame("late", Late, num_actions=3, max_moves=100_000, players=1)
    with pytest.raises(OperatorError, match="while searching late: "):
        engram.Search(game, text).run(game.initial_state(), engram.Limit(simulations=30_000))
