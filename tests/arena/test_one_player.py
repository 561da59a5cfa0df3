"""Matches of one player, and of games with nature and rewards."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import engram
from engram.arena.configuration import configure
from engram.arena.league import league
from engram.arena.ongoing_game import OngoingGame
from engram.arena.report import recorded_result
from engram.arena.results import Results
from engram.arena.runner import MatchRunner
from engram.cli.app import app
from engram.errors import InvalidGame, InvalidParameter, InvalidSpecification
from engram.games.bounds import rounded
from engram.games.game import random_line
from engram.games.python_game import PythonGame
from engram.games.record import NATURE
from engram.presets.catalogue import preset
from engram.search.nature import with_nature
from tests.games_for_tests import walk

MEMORY = ":memory:"
FILE = """
from tests.games_for_tests import walk
def one(turns=4):
    return walk(turns=turns, bounds=(-14.0, 14.0))
def two():
    return walk(players=2, turns=4, bounds=(-14.0, 14.0))
def alone():
    return walk(chance=False, turns=5, bounds=(-14.0, 14.0))
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "walks.py"
    path.write_text(FILE)
    return path


def test_a_match_of_one_player_compares_outcomes_on_the_same_draws(file, tmp_path):
    database = tmp_path / "results.sqlite"
    text = f"{file}:one"
    result = engram.match(text, "uct", "random", games=400, simulations=100, database=database, workers=1)
    assert result.means.difference == pytest.approx(result.means.a - result.means.b)
    assert result.means.low > 0.0
    assert result.verdict == "A reaches more (95 % interval)"
    assert result.games == 400 and result.wins % 2 == 0
    shown = str(result)
    assert "mean return" in shown and "first movers" not in shown and "Elo" not in shown
    assert result.to_json()["means"]["a"] == result.means.a
    assert result.configuration.players == 1
    listed = CliRunner().invoke(app, ["results", "-d", str(database)], env={"COLUMNS": "200"}).stdout
    assert "Elo" not in listed and "outcome" in listed and result.lead.split()[0] in listed

    game = engram.game(text)
    with Results(database) as results:
        records = results.games(result.match_id)
        again = recorded_result(results, result.match_id)
    assert again.means == result.means
    outcomes = {"A": [], "B": []}
    for record in records:
        state, total = game.initial_state(), 0.0
        for action in record.moves:
            state = game.play(state, action)
            total += game.reward(state)
        assert record.outcome == pytest.approx(total + game.outcome(state))
        assert record.first == ("B" if record.number % 2 else "A")
        assert f"{record.first} plays, outcome" in record.text(game)
        outcomes[record.first].append(record.outcome)
    assert (np.mean(outcomes["A"]), np.mean(outcomes["B"])) == pytest.approx((result.means.a, result.means.b))


def test_equal_players_show_no_difference(file):
    """The same player twice plays the same game on the same draws where its moves need no luck."""
    result = engram.match(f"{file}:one", "greedy", "greedy", games=20, simulations=2000, database=MEMORY, workers=1)
    assert "50 %" not in str(result)
    assert result.verdict == "no difference seen: the 95 % interval contains 0"
    assert result.means.low <= 0.0 <= result.means.high
    assert not replace(result, score_low=0.6, score_high=0.9).decided  # more pairs won, and no greater mean


def test_nature_draws_by_the_same_numbers_in_both_games_of_a_pair():
    setup = configure(walk(turns=4), "random", "random", games=8, seed=5)
    numbers = []
    for number in range(4):
        game = OngoingGame(setup.configuration, setup.game, number, ((), setup.game.initial_state()))
        drawn = []
        while not game.ended:
            if game.is_chance_node:
                drawn.append(game.draw())
            else:
                game.play(engram.player.Choice(0))
        numbers.append(tuple(drawn))
    assert numbers[0] == numbers[1] and numbers[2] == numbers[3]
    assert numbers[0] != numbers[2]


def test_the_rule_around_all_rules_cannot_be_named():
    for text in ("uct(selection=with_nature)", "uct(selection=nosuch)"):
        with pytest.raises(InvalidSpecification, match="no selection rule is called") as refused:
            preset(text)
        assert "here are ucb1," in str(refused.value)
    with pytest.raises(InvalidParameter, match="must be an operator of the kind selection, not None"):
        with_nature()


def test_two_players_with_nature_and_rewards():
    game = walk(players=2, turns=4, bounds=(-14.0, 14.0))
    setup = configure(game, "uct", "random", games=20, simulations=50)
    for record in MatchRunner(setup).play_all(iter(range(20))):
        state, total = game.initial_state(), 0.0
        for action in record.moves:
            state = game.play(state, action)
            total += game.reward(state)
        total += game.outcome(state)
        assert record.outcome == pytest.approx(total if record.first == "A" else -total)
        assert (record.a_moves, record.b_moves) == (2, 2)


def test_openings_and_discount_count_in_the_outcome():
    game = walk(turns=5, chance=False, discount=0.5)
    setup = configure(game, "random", "random", games=4, opening_moves=3, seed=2)
    for record in MatchRunner(setup).play_all(iter(range(4))):
        assert record.opening == 3
        state, total, factor = game.initial_state(), 0.0, 1.0
        for action in record.moves:
            state = game.play(state, action)
            total += factor * game.reward(state)
            factor *= 0.5
        assert record.outcome == pytest.approx(total + factor * game.outcome(state))


class Shares:
    """Four rewards in any order, of which the sum is 0 but for rounding."""

    rewards = (0.1, 0.2, -0.3, 0.0)

    def __init__(self, players, actions=()):
        self.players, self.taken = players, actions

    def legal_actions(self):
        return [action for action in range(4) if action not in self.taken]

    def play(self, action):
        self.taken = (*self.taken, action)

    def to_play(self):
        return len(self.taken) % self.players

    def reward(self):
        return self.rewards[self.taken[-1]] if self.taken else 0.0

    def outcome(self):
        return 0.0

    def copy(self):
        return Shares(self.players, self.taken)


@pytest.mark.parametrize("players", [1, 2])
def test_rounding_wins_no_game(players):
    game = PythonGame(
        "shares", lambda: Shares(players), num_actions=4, max_moves=4, players=players, bounds=(-1.0, 1.0)
    )
    result = engram.match(game, "random", "random", games=40, workers=1, database=MEMORY)
    assert result.draws == 40 and result.distinct_games > 10
    if players == 2:
        assert engram.check_game(game, games=20).draws == 20


def test_equal_sums_of_other_amounts_are_equal(monkeypatch):
    class Detours(Shares):
        """A third, with or without a detour of 8 points."""

        def legal_actions(self):
            return [0, 1] if not self.taken else [] if len(self.taken) == 3 else [2]

        def reward(self):
            if not self.taken:
                return 0.0
            return (1 / 3, (8.0, 0.0)[self.taken[0]], (-8.0, 0.0)[self.taken[0]])[len(self.taken) - 1]

        def copy(self):
            return Detours(self.players, self.taken)

    game = PythonGame("detours", lambda: Detours(1), num_actions=3, max_moves=4, players=1, bounds=(-10.0, 10.0))
    result = engram.match(game, "random", "random", games=40, workers=1, database=MEMORY, opening_moves=0)
    assert result.draws == 40 and result.distinct_games == 2


def test_a_sum_keeps_what_is_more_than_rounding():
    assert rounded(0.1 + 0.2 - 0.3, 0.6) == 0.0
    assert rounded(0.1 + 0.2, 0.3) == rounded(0.2 + 0.1, 0.3) == 0.3
    for number in (3e-9, 1 / 3, 2.0**52 + 1, -1e17, 1e300 / 3):
        assert rounded(number, abs(number)) == pytest.approx(number, rel=1e-12, abs=0)
    assert rounded(2.0**52 + 1, 2.0**52) == 2.0**52 + 1


def test_a_sequential_test_counts_pairs_of_one_player(file):
    result = engram.match(
        f"{file}:alone", "uct", "random", games=200, simulations=200, database=MEMORY, workers=1, sprt="elo0=0,elo1=100"
    )
    assert result.sprt.decision == "elo1"
    assert result.games < 200


def test_what_one_player_cannot_have_is_refused_in_a_sentence():
    with pytest.raises(InvalidParameter, match="resign is for two players"):
        configure(walk(), "random", "random", games=2, resign=0.9)
    with pytest.raises(InvalidParameter, match="opening_judge is for games of two players"):
        configure(walk(), "random", "random", games=2, opening_judge="uct")
    for player in ("minimax(depth=2)", "alpha_beta(depth=2)"):
        with pytest.raises(InvalidParameter, match="depth-limited search needs a game of two players"):
            configure(walk(), player, "random", games=2)
    with pytest.raises(engram.errors.InvalidSpecification):
        configure("go:5", "solver", "random", games=2)


def test_the_solver_reaches_more_than_chance():
    result = engram.match(walk(), "solver", "random", games=60, seed=3)
    assert result.means.difference > 0 and result.wins > result.losses


def test_a_player_is_asked_only_where_it_moves():
    class Asked:
        def choose(self, state, limit, seed):
            assert game.to_play(state) != NATURE
            return 1

    game = walk(turns=4)
    setup = configure(game, Asked(), "random", games=4)
    records = list(MatchRunner(setup).play_all(iter(range(4))))
    assert [record.a_moves for record in records] == [4, 0, 4, 0]
    assert [record.b_moves for record in records] == [0, 4, 0, 4]


PUZZLE = "same_game:seed=3,rows=4,columns=4,colours=3"


def test_a_mean_of_returns_is_not_compared_with_a_score(tmp_path):
    place = {"database": tmp_path / "r.sqlite", "workers": 1, "games": 4, "simulations": 20}
    engram.match(PUZZLE, "uct", "random", **place)
    engram.match("tic_tac_toe", "uct", "random", **place)
    engram.match(PUZZLE, "random", "uct", **place)
    rows = json.loads(
        CliRunner().invoke(app, ["results", "1", "2", "3", "-d", str(tmp_path / "r.sqlite"), "--json"]).stdout
    )
    assert not any("score_difference" in row for row in rows)


def test_a_game_for_one_that_the_engine_plays_keeps_its_score():
    played = CliRunner().invoke(app, ["play", "-g", "same_game", "--second", "-n", "5", "--json"], input="")
    game = json.loads(played.stdout)
    rules = engram.game("same_game")
    assert game["outcome"] == rules.line_return([rules.parse_action(name) for name in game["moves"]])
    assert "you watch" in played.stderr and f"uct reaches {game['outcome']:g}" in played.stderr


LOTTERY = """
import numpy as np
from engram import PythonGame

class Lottery:
    def __init__(self, players, moves=()):
        self.players, self.moves = players, moves
    def legal_actions(self):
        return [0, 1] if len(self.moves) < 2 else []
    def play(self, action):
        self.moves = (*self.moves, action)
    def copy(self):
        return Lottery(self.players, self.moves)
    def to_play(self):
        return 2 if len(self.moves) == 1 else 0
    def chance(self):
        return [0.4, 0.6]
    def outcome(self):
        return 0.0 if self.moves[0] == 1 else 1.0 if self.moves[1] == 1 else -1.0

def lottery(players=1):
    return PythonGame("lottery", lambda: Lottery(players), num_actions=2, max_moves=2, players=players)

class Arm:
    def __init__(self, arm):
        self.arm = arm
    def choose(self, state, limit, seed):
        return self.arm

def risky():
    return Arm(0)

def sure():
    return Arm(1)
"""


def test_pairs_of_the_same_moves_are_draws_of_their_own_where_nature_moves(tmp_path):
    """The lottery pays 1 in 60 % of draws and else -1: pairs repeat each other, and each of them is evidence."""
    path = tmp_path / "lottery.py"
    path.write_text(LOTTERY)
    sides = f"{path}:risky", f"{path}:sure"
    options = {"games": 400, "simulations": 1, "opening_moves": 0, "workers": 1, "seed": 4}
    result = engram.match(f"{path}:lottery", *sides, database=tmp_path / "results.sqlite", **options)
    assert result.configuration.chance and result.distinct_pairs == result.pairs == 200
    wins = result.wins // 2
    spread = np.std([1.0] * wins + [-1.0] * (200 - wins), ddof=1) / np.sqrt(200)
    assert result.means.high - result.means.low == pytest.approx(2 * 1.972 * spread, rel=1e-3)
    assert result.means.low < 0.2 < result.means.high and "equal games" not in str(result)
    again = recorded_result(Results(tmp_path / "results.sqlite"), result.match_id)
    assert again.means == result.means and again.configuration == result.configuration
    tested = engram.match(f"{path}:lottery", *sides, sprt="elo0=-100,elo1=300", database=MEMORY, **options)
    assert tested.accepted is not None and tested.sprt.pairs < 100
    assert "of pairs won, whatever the returns" in str(tested) and "the difference above is biased" in str(tested)
    rated = league(f"{path}:lottery", list(sides), database=tmp_path / "league.sqlite", **options)
    assert "ratings count the pairs that it won" in str(rated)


def test_keys_of_matches_without_chance_are_as_before():
    without, with_chance = (configure(game, "uct", "random", games=2, simulations=1) for game in ("go:5", "2048"))
    assert "chance" not in without.configuration.identity and with_chance.configuration.identity["chance"] is True


def test_a_game_longer_than_it_says_is_refused():
    class Endless:
        def __init__(self, moves=0):
            self.moves = moves

        def legal_actions(self):
            return [0, 1]

        def play(self, action):
            self.moves += 1

        def copy(self):
            return Endless(self.moves)

        def to_play(self):
            return self.moves % 2

        def outcome(self):
            return 0.0

    game = PythonGame("endless", Endless, num_actions=2, max_moves=30)
    with pytest.raises(InvalidGame, match="longer than max_moves = 30"):
        engram.match(game, "random", "random", games=2, simulations=1, database=MEMORY, workers=1)
    short = engram.match(game, "random", "random", games=2, simulations=1, max_moves=20, database=MEMORY, workers=1)
    assert short.draws == 2, "a limit of the match's own cuts games"
    with pytest.raises(InvalidGame, match="longer than max_moves = 30"):
        random_line(game, random.Random(1))
