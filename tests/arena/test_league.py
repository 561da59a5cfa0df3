"""Leagues: ratings by hand and against true strengths, schedules, and a kill that costs no game."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import engram
from benchmarks.league_errors import league as simulated_league
from engram.arena.league import LeagueInterrupted, league, rated_players
from engram.arena.match import match
from engram.arena.ratings import rate
from engram.arena.results import Results
from engram.arena.statistics import normalised_elo, score_of_elo, standing
from engram.cli.app import app
from engram.errors import InvalidParameter, InvalidSpecification
from engram.rng import derive_seed
from tests.progress import num_recorded

PLAYERS = '''
import random, time

class Skilled:
    """Takes the middle of the legal moves with a probability, else a random one."""

    def __init__(self, game, skill=0.5, ms=0.0):
        self.game, self.skill, self.ms = game, skill, ms

    def choose(self, state, limit, seed):
        time.sleep(self.ms / 1000)
        legal, rng = self.game.legal_actions(state), random.Random(seed)
        return legal[len(legal) // 2] if rng.random() < self.skill else rng.choice(legal)
'''


@pytest.fixture
def skilled(tmp_path):
    file = tmp_path / "players_of_league.py"
    file.write_text(PLAYERS)
    return lambda count, ms=0.0: [f"{file}:Skilled(skill={at / 10},ms={ms})" for at in range(count)]


def played(database):
    """The games of every match of a database, without the clock."""
    with Results(database) as results:
        return {
            (record.configuration["a"], record.configuration["b"]): [
                (game.number, game.first, game.moves, game.outcome) for game in results.games(record.id)
            ]
            for record in results.matches()
        }


def engram_league(*arguments):
    return CliRunner().invoke(app, ["league", "-g", "tic_tac_toe", *map(str, arguments)])


# ---------------------------------------------------------------------------------------------- ratings


def test_two_players_have_the_elo_of_their_match_half_each():
    result = standing([(1, 1), (1, 0), (-1, 1), (0, -1)])
    ratings = rate(2, {(0, 1): result})
    assert ratings.elo == pytest.approx([result.elo / 2, -result.elo / 2])
    lead, error = ratings.difference(0, 1)
    assert lead == pytest.approx(400 * math.log10(0.625 / 0.375))
    # The weight is 8·p·(1 − p), of which four pairs leave ¾; Σ(s − 2p)² = 1.25. All pairs are those of this match.
    weight = 8 * 0.625 * 0.375
    overall = (2 + 1.25) / (1 + 0.75 * weight)
    overall += (2 - overall) * (1 - 4 * 0.625 * 0.375) ** 2
    dispersion = (1.25 + weight * overall) / (0.75 * weight + weight)
    assert result.squares == pytest.approx(1.25)
    assert error == pytest.approx(400 / math.log(10) * math.sqrt(dispersion / (8 * 0.625 * 0.375)), rel=1e-5)
    assert ratings.high - ratings.elo == pytest.approx([1.959964 * error / 2] * 2)


def test_three_players_by_hand():
    """a : b = 2 : 1 and b : c = 2 : 1 in points: a tree of matches has exactly the ratings of its scores."""
    ratings = rate(3, {(0, 1): standing([(1, 1), (1, -1), (1, -1)]), (1, 2): standing([(1, 1), (-1, 1), (1, -1)] * 5)})
    step = 400 * math.log10(2)
    assert ratings.elo == pytest.approx([step, 0, -step], abs=1e-4)
    assert ratings.covariance.sum() == pytest.approx(0, abs=1e-6)
    across = ratings.difference(0, 2)[1] ** 2
    assert across == pytest.approx(ratings.difference(0, 1)[1] ** 2 + ratings.difference(1, 2)[1] ** 2)


def test_intervals_contain_true_ratings_as_often_as_they_say():
    rng, truth = np.random.default_rng(3), np.array([-150, -60, 0, 10, 80, 120.0])
    hits, leads, rounds = np.zeros(6), 0, 150
    # A share of 0.3 of the pairs has opposite results, and so a score of ½.
    pairings = list(combinations(range(6), 2))
    target = rate(6, {(i, j): _expected(0.15 + 0.7 * score_of_elo(truth[i] - truth[j])) for i, j in pairings})
    for _ in range(rounds):
        results = {}
        for i, j in pairings:
            draws, share = 0.3, score_of_elo(truth[i] - truth[j])
            games = rng.choice([1, 0, -1], p=[share - draws / 2, draws, 1 - share - draws / 2], size=(60, 2))
            same = rng.random(60) < 0.3  # openings that decide the game
            games[same, 1] = -games[same, 0]
            results[i, j] = standing(games)
        ratings = rate(6, results)
        hits += (ratings.low < target.elo) & (target.elo < ratings.high)
        lead, error = ratings.difference(5, 2)
        leads += abs(lead - target.difference(5, 2)[0]) < 1.96 * error
    assert 0.93 <= hits.mean() / rounds <= 0.985
    assert 0.90 <= leads / rounds <= 0.99


@pytest.mark.parametrize(("count", "pairs", "draws"), [(20, 10, 0.9), (20, 2, 0.3), (12, 10, 0.5), (2, 10, 0.5)])
def test_intervals_of_short_and_of_drawn_matches_are_as_wide_as_their_errors(count, pairs, draws):
    rng, elo, errors = np.random.default_rng(8), [], []
    wins = (1 - draws) / 2
    for _ in range(40 if count > 2 else 400):
        results = {
            pairing: standing(rng.choice([1, 0, -1], p=[wins, draws, wins], size=(pairs, 2)))
            for pairing in combinations(range(count), 2)
        }
        ratings = rate(count, results)
        elo.append(ratings.elo)
        errors.append(np.sqrt(np.diag(ratings.covariance)))
    assert 0.9 < np.mean(errors) / np.std(elo) < 1.15


@pytest.mark.parametrize(("share", "pairs"), [(0.94, 20), (0.975, 50), (0.988, 100)])
def test_intervals_of_one_sided_matches_contain_the_truth(share, pairs):
    rng, hits = np.random.default_rng(5), 0
    truth = 200 * math.log10(share / (1 - share))
    for _ in range(400):
        ratings = rate(2, {(0, 1): standing(np.where(rng.random((pairs, 2)) < share, 1, -1))})
        hits += ratings.low[0] <= truth <= ratings.high[0]
    assert hits > 0.93 * 400


def test_ratings_far_apart_have_finite_errors():
    nearly = standing([(1, 1)] * 99 + [(1, -1)])
    matches = {(place, place + 1): nearly for place in range(8)} | {(0, 8): standing([(1, 1)] * 100)}
    ratings = rate(9, matches)
    assert np.isfinite(ratings.covariance).all() and np.isfinite(ratings.elo).all()


def _expected(score):
    """A match of this mean score, of so many games that its own error is of no account."""
    won = round(10_000 * score)
    return standing([(1, 1)] * won + [(-1, -1)] * (10_000 - won))


def test_true_elo_is_recovered_within_intervals():
    rng, truth = np.random.default_rng(11), np.array([-200, -100, 0, 100, 200.0])
    results = {
        (i, j): standing(np.where(rng.random((4000, 2)) < score_of_elo(truth[i] - truth[j]), 1, -1))
        for i, j in combinations(range(5), 2)
    }
    ratings = rate(5, results)
    assert ratings.order == [4, 3, 2, 1, 0]
    assert np.abs(ratings.elo - truth).max() < 10
    assert ((ratings.low < truth) & (truth < ratings.high)).all()
    assert ratings.elo.sum() == pytest.approx(0, abs=1e-6)


def test_all_points_one_way_bound_ratings_on_one_side():
    won, even = standing([(1, 1)] * 10), standing([(1, -1)] * 10)
    two = rate(2, {(0, 1): won})
    # One drawn pair more: 21 of 22 points.
    assert two.elo[0] == pytest.approx(200 * math.log10(21), abs=1e-3)
    assert two.high[0] == -two.low[1] == math.inf and math.isfinite(two.low[0]) and two.low[0] > 0
    # Player 0 loses to nobody; 1 and 2 have points from each other and are compared as usual.
    three = rate(3, {(0, 1): won, (0, 2): won, (1, 2): even})
    assert three.high[0] == math.inf and np.isfinite(three.low).all() and np.isfinite(three.high[1:]).all()
    # A chain: the player in the middle is bounded by neither.
    chain = rate(3, {(0, 1): won, (1, 2): won})
    assert (chain.low[1], chain.high[1]) == (-math.inf, math.inf) and chain.order == [0, 1, 2]
    # Pairs that nobody has lost keep an error: ten equal pairs are not certainty.
    assert rate(2, {(0, 1): even}).difference(0, 1)[1] > 10


def test_players_who_win_or_lose_everything_change_no_rating_of_the_others():
    won = standing([(1, 1)] * 10)
    among = {
        (0, 1): standing([(1, 1), (1, -1), (1, 1), (-1, 1)]),
        (1, 2): standing([(1, 0)] * 4),
        (0, 2): standing([(1, -1)]),
    }
    few = rate(3, among)
    many = rate(12, among | {(i, j): won for i in range(3) for j in range(3, 12)})
    assert many.elo[:3] == pytest.approx(few.elo) and few.elo.sum() == pytest.approx(0.0, abs=1e-6)
    assert np.isfinite(many.low[:3]).all() and np.isfinite(many.high[:3]).all()
    assert np.isinf(many.low[3:]).all() and np.isfinite(many.high[3:]).all()
    assert many.difference(0, 1)[0] == pytest.approx(few.difference(0, 1)[0])
    # 60 games and one drawn pair more: one point of 62 against players of about the same rating.
    assert many.elo[3:] == pytest.approx([400 * math.log10(1 / 61)] * 9, abs=30)


def test_a_player_who_lost_to_everyone_is_the_last():
    """A drawn pair for each of many short matches would place it above players who beat it."""
    nearly, won = standing([(1, 1), (1, 1), (1, -1), (1, 1)]), standing([(1, 1)])
    among = dict.fromkeys(combinations(range(6), 2), nearly)
    ratings = rate(7, among | {(i, 6): won for i in range(6)})
    assert ratings.order == [0, 1, 2, 3, 4, 5, 6] and np.isinf(ratings.low[6]) and np.isfinite(ratings.low[:6]).all()


def test_the_intervals_of_players_beside_a_loser_contain_the_truth():
    rng, truth, hits, leads = np.random.default_rng(2), np.array([60.0, 20.0, -20.0, -60.0, -1500.0]), 0, 0
    for _ in range(150):
        ratings = simulated_league(truth.tolist(), 60, 0, rng).ratings
        hits += ((ratings.low < truth) & (truth < ratings.high))[:4].sum()
        low, high = ratings.bounds(0, 3)
        leads += low < 120.0 < high
    assert 0.90 <= hits / 600 <= 0.985 and leads / 150 >= 0.90


def test_a_focused_league_finds_no_order_among_equals_more_often_than_one_in_twenty():
    rng, false = np.random.default_rng(3), 0
    for _ in range(60):
        rows = simulated_league([0.0] * 3, 20, 600, rng).rows()
        false += any(row["lead_low"] is not None and row["lead_low"] > 0.0 for row in rows)
    assert false <= 7  # of 60, at 1.96 standard errors 15


def test_players_whom_no_match_connects_do_not_compare():
    ratings = rate(5, {(0, 1): standing([(1, 0)] * 4), (2, 3): standing([(1, 0)] * 4)})
    assert len(set(ratings.groups.tolist())) == 3
    assert ratings.difference(0, 2) == (0.0, math.inf)
    assert ratings.difference(0, 1) == pytest.approx(ratings.difference(2, 3))
    assert (ratings.low[4], ratings.elo[4], ratings.high[4]) == (-math.inf, 0.0, math.inf)
    assert ratings.elo[:2].sum() == pytest.approx(0, abs=1e-9)


def test_pentanomial_counts_and_normalised_elo_by_hand():
    result = standing([(1, 1), (1, 0), (-1, 1), (0, 0), (0, -1), (-1, -1), (1, math.nan)])
    assert result.pentanomial == (1, 1, 2, 1, 1)
    assert result.nelo == 0.0
    # Scores of pairs ½, ½, ¾, 1: mean 11/16, variance (2·(3/16)² + (1/16)² + (5/16)²)/4 = 11/256.
    lead = standing([(1, -1), (0, 0), (1, 0), (1, 1)])
    assert lead.pentanomial == (0, 0, 2, 1, 1)
    assert lead.nelo == pytest.approx(800 / math.log(10) * (3 / 16) / math.sqrt(2 * 11 / 256))
    assert (normalised_elo([0, 0, 0, 0, 5]), normalised_elo([3, 0, 0, 0, 0])) == (math.inf, -math.inf)
    assert math.isnan(normalised_elo([0] * 5))


# ------------------------------------------------------------------------------------------- schedules


def test_a_league_is_a_set_of_ordinary_matches(tmp_path):
    database, texts = tmp_path / "l.sqlite", ["random", "uct", "minimax(depth=2)"]
    reports = []
    result = league(
        "tic_tac_toe", texts, games=6, simulations=20, seed=4, workers=1, database=database,
        progress=lambda done, total, now: reports.append((done, total)),
    )  # fmt: skip
    assert result.games == 18 and result.complete and reports[-1] == (18, 18)
    assert list(map(len, played(database).values())) == [6, 6, 6]
    pairing = result.matches[1, 2]
    a, b = result.players[1:]
    seed = derive_seed(4, "league", a, b)
    again = match("tic_tac_toe", a, b, games=6, simulations=20, seed=seed, workers=1, database=database)
    assert (again.match_id, again.standing) == (pairing.match_id, pairing.standing)
    rows = {row["player"]: row for row in result.rows()}
    assert sum(row["points"] for row in rows.values()) == 18
    own = [match for at, match in result.matches.items() if 2 in at]
    assert rows["uct"]["losses"] == sum(match.wins for match in own)  # the last of the texts is always B
    assert rows["uct"]["pentanomial"] == [sum(match.pentanomial[4 - k] for match in own) for k in range(5)]
    game = engram.game("tic_tac_toe")
    same = league(game, texts, games=6, simulations=20, seed=np.int64(4), workers=1, database=database)
    assert json.dumps(same.to_json()) == json.dumps(result.to_json())
    # Another order of the players, and one player more, play no recorded game again.
    before = played(database)
    more = league("tic_tac_toe", [*texts[::-1], "rave"], games=6, simulations=20, seed=4, workers=1, database=database)
    after = played(database)
    assert more.games == 36 and len(after) == 6 and all(after[at] == games for at, games in before.items())


def test_results_rate_all_players_that_met(tmp_path):
    database = tmp_path / "l.sqlite"
    settings = {"simulations": 20, "workers": 1, "database": database}
    result = league("tic_tac_toe", ["random", "uct", "minimax(depth=2)"], games=6, **settings)
    match("tic_tac_toe", "uct", "random", games=4, **settings)  # of fewer games
    match("tic_tac_toe", "uct", "random", games=4, **{**settings, "simulations": 10})  # of two players alone
    match("tic_tac_toe", "alpha_beta", "alpha_beta", games=4, **settings)  # met nobody else
    words = ["results", "--ratings", "-d", str(database)]
    (shown,) = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert (shown["game"], shown["budget"], shown["games"]) == ("tic_tac_toe", "20 simulations", 18)
    assert shown["players"] == json.loads(json.dumps(result.rows())) and shown["scores"] == result.scores()
    assert "20 simulations a move" in CliRunner().invoke(app, words).stdout
    counted = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert "met in a longer or newer one: 1" in counted.output
    table = CliRunner().invoke(app, [*words, "--format", "csv"]).stdout.splitlines()
    assert len(table) == 4 and table[0].startswith("#,player,Elo") and table[1].startswith("1,")
    alone = CliRunner().invoke(app, ["results", "4", "5", "6", "--ratings", "-d", str(database)])
    assert alone.exit_code == 0 and "no three players in this database have met" in alone.output


def test_ratings_keep_matches_with_a_judge_of_openings_apart(tmp_path):
    database, players = tmp_path / "l.sqlite", ["random", "uct", "minimax(depth=2)"]
    settings = {"games": 2, "simulations": 20, "workers": 1, "database": database}
    plain = league("tic_tac_toe", players, **settings)
    judged = league("tic_tac_toe", players, opening_judge="alpha_beta(depth=9)", opening_balance=0.5, **settings)
    shown = json.loads(CliRunner().invoke(app, ["results", "--ratings", "--json", "-d", str(database)]).stdout)
    scores = {league_of["budget"].partition(" by ")[0]: league_of["scores"] for league_of in shown}
    assert scores == {"20 simulations": plain.scores(), "openings within 0.5": judged.scores()}


def test_a_plot_that_cannot_be_written_is_refused_before_any_game(tmp_path):
    pytest.importorskip("matplotlib")
    words = ["league", "-g", "tic_tac_toe", "--player", "uct", "--player", "random", "--games", "2", "-n", "10"]
    words += ["-d", str(tmp_path / "l.sqlite"), "--plot", str(tmp_path / "none" / "l.png")]
    assert "l.png cannot be written" in CliRunner().invoke(app, words).output.replace("\n", " ")
    assert not (tmp_path / "l.sqlite").exists()


def test_swiss_rounds_pair_equals_and_every_player_pauses_once(tmp_path, skilled):
    def swiss(rounds, count=5):
        return league("tic_tac_toe", skilled(count), games=4, swiss=rounds, workers=1, database=tmp_path / "l.sqlite")

    earlier = Counter()
    for rounds in range(1, 6):
        result = swiss(rounds)
        now = Counter({at: match.games for at, match in result.matches.items()})
        assert (now - earlier).total() == 8 and not earlier - now  # two matches more, and the earlier rounds as before
        assert len({player for at in now - earlier for player in at}) == 4
        earlier = now
    games = Counter()
    for (i, j), number in earlier.items():
        games.update({i: number, j: number})
    assert set(games.values()) == {16}
    two = league("tic_tac_toe", skilled(4), games=2, swiss=1, workers=1, database=tmp_path / "m.sqlite")
    assert two.num_groups == 2


def test_further_games_go_where_the_order_is_uncertain(tmp_path, skilled):
    texts = ["uct", "minimax(depth=1)", *skilled(3)]
    common = {"games": 10, "simulations": 100, "workers": 1, "database": tmp_path / "l.sqlite"}
    base = league("tic_tac_toe", texts, **common)
    more = league("tic_tac_toe", texts, focus=36, **common)
    extra = {at: match.games - 10 for at, match in more.matches.items() if match.games > 10}
    assert sum(extra.values()) == 36 and set(np.array(list(extra.values())) % 10) <= {0, 6}
    order = base.ratings.order
    gaps = [base.ratings.difference(i, j) for i, j in pairwise(order)]
    at = max(range(4), key=lambda k: 1.96 * gaps[k][1] - gaps[k][0])
    assert tuple(sorted(order[at : at + 2])) in extra
    # Players whose order is certain get none, however many are allowed.
    sure = league("tic_tac_toe", ["solver", "random"], games=60, focus=2000, workers=1, database=tmp_path / "m.sqlite")
    assert sure.games < 300 and sure.ratings.difference(0, 1)[0] < 0


# --------------------------------------------------------------------------------- kills and refusals

SCRIPT = """
import sys
from engram.arena.league import league
*players, database = sys.argv[1:]
league("tic_tac_toe", players, games=8, focus=8, workers=1, database=database)
"""


def test_killed_on_the_way_a_league_loses_and_doubles_no_game(tmp_path, skilled):
    texts, killed = skilled(3, ms=10.0), tmp_path / "killed.sqlite"
    expected = league("tic_tac_toe", texts, games=8, focus=8, workers=1, database=tmp_path / "whole.sqlite")
    source = os.pathsep.join([str(Path(engram.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    for target in (5, 12, 26):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *texts, str(killed)], env=os.environ | {"PYTHONPATH": source}
        )
        try:
            deadline = time.monotonic() + 300
            while num_recorded(killed) < target:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            process.kill()
            process.wait()
    before = played(killed)
    resumed = league("tic_tac_toe", texts, games=8, focus=8, workers=2, database=killed)
    after = played(killed)
    assert after == played(tmp_path / "whole.sqlite")
    assert all(set(before[at]) <= set(after[at]) for at in before)
    assert resumed.games == expected.games == sum(map(len, after.values()))
    assert resumed.ratings.elo.tolist() == expected.ratings.elo.tolist()


def test_ctrl_c_shows_the_league_so_far(tmp_path, skilled):
    def stop(done, total, now):
        if done >= 9:
            raise KeyboardInterrupt

    database = tmp_path / "l.sqlite"
    with pytest.raises(LeagueInterrupted, match=r"games are recorded; the same league started again") as stopped:
        league("tic_tac_toe", skilled(3, ms=20.0), games=8, workers=1, database=database, progress=stop)
    result = stopped.value.result
    assert not result.complete and 9 <= result.games == sum(map(len, played(database).values())) < 24
    assert result.to_json()["games"] == result.games


@pytest.mark.parametrize(
    ("players", "options", "sentence"),
    [
        (["uct"], {}, "2 to 256 players, not 1"),
        (["uct", "random", "uct()"], {}, "uct is in the league twice"),
        (["uct", "rando"], {}, "did you mean 'random'"),
        (["uct", 3], {}, "a specification, not 3"),
        (["uct", "random"], {"games": 7}, "games of a league must be even"),
        (["uct", "random"], {"focus": 3}, "focus of a league must be even"),
        (["uct", "random"], {"swiss": 0}, "swiss"),
        (["uct", "random"], {"database": ":memory:"}, "needs a database"),
        (["uct", "random"], {"sprt": "elo0=0,elo1=5"}, "sprt"),
        (["uct", "random"], {"resign": 2.0}, "resign must be above 0"),
        (["uct", "random"], {"seed": "x"}, "seed must be a whole number, not 'x'"),
        (["uct", "random"], {"seed": 0.0}, "seed must be a whole number, not 0.0"),
        (["uct", "random"], {"seed": None}, "seed must be a whole number, not None"),
        (["uct", "random"], {"seed": True}, "seed must be a whole number, not True"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(tmp_path, players, options, sentence):
    with pytest.raises((InvalidParameter, InvalidSpecification), match=sentence) as error:
        league("tic_tac_toe", players, **{"database": tmp_path / "l.sqlite", **options})
    assert "\n" not in str(error.value)


def test_the_command_reads_a_file_of_players_and_shows_tables_json_and_a_picture(tmp_path):
    file, database, picture = tmp_path / "players.txt", tmp_path / "l.sqlite", tmp_path / "l.png"
    file.write_text("# of this test\nuct  # the usual\n\nrandom\n", "utf-8-sig")  # as editors of Windows do
    common = ("--players", file, "--player", "minimax(depth=1)", "--games", 4, "-n", 50, "--workers", 1, "-d", database)
    shown = engram_league(*common, "--plot", picture)
    assert shown.exit_code == 0, shown.output
    assert "3 players, 12 games" in shown.stdout and "minimax(depth=1" in shown.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    data = json.loads(engram_league(*common, "--json").stdout)
    assert [row["rank"] for row in data["players"]] == [1, 2, 3] and data["complete"] and data["groups"] == 1
    assert sum(row["points"] for row in data["players"]) == data["games"] == 12
    assert data["scores"][0][0] is None and data["scores"][0][1] + data["scores"][1][0] == 1.0
    assert len(json.loads(CliRunner().invoke(app, ["results", "-d", str(database), "--json"]).stdout)) == 3
    for arguments, word in (
        (("--players", tmp_path / "none.txt"), "none.txt"),
        (("--player", "uct"), "2 to 256 players"),
        (("--player", "uct", "--player", "random", "--games", 3, "-d", database), "even"),
    ):
        refused = engram_league(*arguments)
        assert refused.exit_code == 2 and word in refused.stderr and "Traceback" not in refused.output
    four = [word for text in ("uct", "rave", "random", "minimax(depth=1)") for word in ("--player", text)]
    apart = engram_league(*four, "--swiss", 1, "--games", 2, "-n", 20, "--workers", 1, "-d", tmp_path / "s.sqlite")
    assert apart.exit_code == 0 and "no games connect 2 groups of players" in apart.stderr
    file.write_bytes(b"\xff\xfe")
    assert "UTF-8" in engram_league("--players", file).stderr


def test_a_lead_over_a_player_without_points_is_bounded_on_one_side():
    won = standing([(1, 1)] * 50)
    even = standing([(1, -1), (1, 1), (-1, -1), (1, 0)] * 10)
    two = rate(2, {(0, 1): won})
    low, high = two.bounds(0, 1)
    assert 300 < low < won.elo_low + 60 and high == math.inf
    assert two.bounds(1, 0) == (-math.inf, pytest.approx(-low))
    ratings = rate(4, {(0, 1): even, (0, 2): won, (1, 2): won, (0, 3): won})
    assert all(map(math.isfinite, ratings.bounds(0, 1)))
    assert ratings.bounds(2, 3) == (-math.inf, math.inf)  # both lost to others, and have not met


def test_a_league_says_at_least_where_a_player_has_no_points(tmp_path):
    players = tmp_path / "players.txt"
    players.write_text("uct\nuct(exploration=0.5)\nrandom\n")
    command = ("league", "-g", "connect_four", "--players", str(players), "--games", "20", "-n", "100", "-d",
               str(tmp_path / "d.sqlite"))  # fmt: skip
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0 and "at least +" in shown.output, shown.output
    rows = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["players"]
    assert rows[0]["lead_error"] is not None
    assert rows[1]["lead"] is None is rows[1]["lead_error"] and rows[1]["lead_low"] > 100


def test_ratings_are_of_one_version_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rule = tmp_path / "mine.py"

    def play(a, b, games, c=None):
        if c is not None:
            rule.write_text(f"import engram\ndef mine():\n    return engram.presets.uct(exploration={c})\n")
        return match("tic_tac_toe", a, b, games=games, simulations=10, workers=1, database="r.sqlite")

    old = [play("mine.py:mine", other, 8, 30.0) for other in ("uct", "random")]
    between = play("uct", "random", 4)
    new = play("mine.py:mine", "uct", 2, 1.0)
    ((_, rated),) = rated_players([*old, between, new])
    assert [rated.matches[pair].games for pair in sorted(rated.matches)] == [8, 2, 4]  # of each pair the newest
    assert rated.left_out == 1
    shown = CliRunner().invoke(app, ["results", "-d", "r.sqlite"])
    assert len(set(re.findall(r"│ ([0-9a-f]{6}) │", shown.stdout))) == 2  # the two versions of one pair
    shown = CliRunner().invoke(app, ["results", "-d", "r.sqlite", "--ratings", "--json"])
    assert "2 matches are of earlier versions of their files" in shown.stderr
    assert json.loads(shown.stdout)[0]["games"] == 6
