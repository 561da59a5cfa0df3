"""Matches: pairs, openings, budgets, early stops; killed at any moment they end as if nothing had happened."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import engram
from engram import presets
from engram.arena import claims
from engram.arena.configuration import MatchConfiguration, MatchSetup, configure
from engram.arena.game_record import COUNTED, NEEDED, GameRecord, counted, moves_text
from engram.arena.match import MatchInterrupted, match
from engram.arena.ongoing_game import OngoingGame, PlayerError
from engram.arena.openings import Openings
from engram.arena.report import recorded_result
from engram.arena.report import report as report_of
from engram.arena.results import Results
from engram.arena.roster import player
from engram.arena.runner import MatchRunner
from engram.arena.sources import files_named, is_out_of_date, text_digest
from engram.arena.statistics import Sprt
from engram.arena.tally import Tally
from engram.drivers.limit import Limit
from engram.drivers.result import Choice
from engram.errors import DatabaseError, InvalidLimit, InvalidParameter, InvalidSpecification
from engram.fleet import WorkerError
from engram.games.catalogue import game as named_game
from engram.games.line.one_word import line
from engram.player import Forfeit, Player
from engram.presets.catalogue import preset
from engram.search.decision import DECISIONS
from tests.progress import num_recorded

PLAYERS = '''
import os, random, signal, time

class Slow:
    """Random moves after a short sleep, so that a match lasts although it takes no work."""

    def __init__(self, game, ms=0.0, uneven=False):
        self.game, self.ms, self.uneven, self.seed = game, ms, uneven, 0

    def new_game(self, game_seed):
        self.seed = game_seed

    def choose(self, state, limit, seed):
        time.sleep(self.ms / 1000 * (1 + 9 * (self.uneven and self.seed % 3 == 0)))
        return random.Random(seed).choice(self.game.legal_actions(state))

class Faulty(Slow):
    def choose(self, state, limit, seed):
        if self.seed % 5 == 0:
            raise ValueError("a fault of the test")
        return super().choose(state, limit, seed)

class Cheat(Slow):
    def choose(self, state, limit, seed):
        return 7

class Dies(Slow):
    def choose(self, state, limit, seed):
        if self.seed % 5 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().choose(state, limit, seed)

class Talks(Slow):
    def choose(self, state, limit, seed):
        print('{"not": "an answer"}', flush=True)
        return super().choose(state, limit, seed)
'''


@pytest.fixture
def players(tmp_path):
    file = tmp_path / "players_of_test.py"
    file.write_text(PLAYERS)
    return str(file)


def essence(records):
    """All of a game but the clock."""
    return [replace(record, a_seconds=0.0, b_seconds=0.0) for record in records]


def recorded(database):
    with Results(database) as results:
        return essence(results.games(1))


# ------------------------------------------------------------------------------ pairs and openings


def test_both_games_of_a_pair_share_an_opening_with_sides_exchanged(tmp_path):
    database = tmp_path / "r.sqlite"
    result = match("connect_four", "random", "minimax(depth=1)", games=40, seed=5, workers=1, database=database)
    games = recorded(database)
    assert [record.number for record in games] == list(range(40))
    openings = set()
    for first, second in zip(games[::2], games[1::2], strict=True):
        assert (first.pair, first.first, second.first) == (first.number // 2, "A", "B")
        assert first.moves[:4] == second.moves[:4]
        assert first.opening == second.opening == 4
        openings.add(first.moves[:4])
    assert len(openings) > 15
    assert result.games == result.wins + result.draws + result.losses == 40
    assert result.distinct_games == len({record.moves for record in games})
    # Outcomes are for A: replaying the moves must give them.
    game = named_game("connect_four")
    for record in games:
        state = game.play_moves(record.moves)
        assert game.outcome(state, 0 if record.first == "A" else 1) == record.outcome
        assert record.a_moves + record.b_moves == len(record.moves) - 4


def test_an_opening_depends_on_seed_and_pair_and_never_ends_the_game():
    def openings(game, seed, num_moves):
        setup = configure(game, "random", "random", games=2, seed=seed, opening_moves=num_moves)
        return Openings(setup.configuration, game, None)

    game = line(3, 3, 3)
    drawn = list(map(openings(game, 1, 7).of, range(200)))
    for moves, state in drawn:
        assert len(moves) == 7
        assert not game.is_over(state)
    assert drawn[3][0] == openings(game, 1, 7).of(3)[0] != openings(game, 2, 7).of(3)[0]
    assert openings(game, 1, 0).of(0)[0] == ()
    # Where every line of the wanted length ends the game, the opening is shorter.
    tiny = line(1, 3, 2)
    assert {len(openings(tiny, 1, 2).of(pair)[0]) for pair in range(5)} == {2}
    assert all(len(openings(line(2, 2, 2), 1, 3).of(pair)[0]) == 2 for pair in range(5))


def test_a_judge_keeps_openings_that_are_even(tmp_path):
    game, database = named_game("tic_tac_toe"), tmp_path / "r.sqlite"
    truth = player(game, "alpha_beta(depth=9)")
    options = {"games": 60, "seed": 3, "opening_moves": 3, "database": database}

    def sizes(number):
        with Results(database) as results:
            starts = [record.moves[: record.opening] for record in results.games(number)]
        assert starts[::2] == starts[1::2]
        return {round(abs(truth.choose(game.play_moves(moves), Limit(1), 0).value)) for moves in starts}

    random_start = match("tic_tac_toe", "random", "random", workers=1, **options)
    even_start = match("tic_tac_toe", "random", "random", workers=2, opening_judge="alpha_beta(depth=9)", **options)
    assert (sizes(random_start.match_id), sizes(even_start.match_id)) == ({0, 1}, {0})
    assert "openings within 0.25 by alpha_beta(depth=9" in str(even_start) and "openings" not in str(random_start)
    games = MatchRunner(MatchSetup.of(even_start.configuration)).play_all(iter(range(60)))
    with Results(database) as results:
        assert essence(games) == essence(results.games(even_start.match_id))


class Judge:
    """Notes how it is asked, and values a position by a function of its first move."""

    text = "judge"

    def __init__(self, value):
        self.value, self.calls, self.games = value, [], []

    def new_game(self, seed):
        self.games.append(seed)

    def choose(self, state, limit, seed):
        self.calls.append((state, limit.simulations, seed))
        return Choice(0, value=self.value(state))


def test_a_judge_has_a_budget_a_seed_for_each_line_and_a_bound_in_the_games_units():
    game = TwiceInARow()
    game.bounds = (-8.0, 8.0)
    configuration = replace(configure_match(opening_moves=2), opening_judge="judge", opening_balance=0.25)
    judge = Judge(lambda state: -2.0 if state == (1, 0) else 2.1)
    openings = Openings(configuration, game, judge)
    assert {openings.of(pair)[1] for pair in range(20)} == {(1, 0)}
    states, budgets, seeds = zip(*judge.calls, strict=True)
    assert set(budgets) == {1000} and len(set(seeds)) == len(seeds) == len(judge.games) > 40
    assert judge.games == list(seeds) and len(set(states)) == 4
    openings.of(19)
    assert len(judge.calls) == len(seeds), "the second game of a pair takes the opening of the first"
    # Where no position is even, the opening gets shorter and shorter, to the start.
    assert Openings(configuration, game, Judge(lambda state: 3.0)).of(0) == ((), ())
    assert len(Openings(configuration, game, Judge(lambda state: 3.0 * (len(state) > 1))).of(0)[0]) == 1


def test_a_judge_that_fails_is_named():
    configuration = replace(configure_match(opening_moves=2), opening_judge="judge", opening_balance=0.25)
    with pytest.raises(
        PlayerError, match=r"the judge, judge, failed at the opening of pair 3, .* raised ZeroDivisionError"
    ):
        Openings(configuration, TwiceInARow(), Judge(lambda state: 1 / 0)).of(3)
    with pytest.raises(PlayerError, match="judge gives no values"):
        Openings(configuration, TwiceInARow(), Judge(lambda state: None)).of(3)


def test_a_judge_is_part_of_the_match_and_wrong_ones_are_refused(players):
    def of(game="tic_tac_toe", **options):
        return configure(game, "random", "random", games=2, **options).configuration

    unjudged, judged = of(), of(opening_judge="alpha_beta", opening_balance=0.5)
    assert len({unjudged.key, judged.key, of(opening_judge="alpha_beta").key}) == 3
    assert not {"opening_judge", "opening_balance"} & unjudged.identity.keys()
    assert MatchConfiguration.from_json(judged.to_json()) == judged
    for crafted in ({"opening_balance": None}, {"opening_balance": math.nan}, {"opening_judge": None}):
        with pytest.raises(InvalidParameter, match="recorded by engram"):
            MatchConfiguration.from_json(judged.to_json() | crafted)
    assert of(opening_judge=f"{players}:Slow").sources == text_digest([f"{players}:Slow"]) != ""
    for wrong, words in [
        ({"opening_balance": 0.5}, "needs a player that values openings"),
        ({"opening_judge": "uct", "opening_balance": 0.0}, "opening_balance must be above 0"),
        ({"opening_judge": "uct", "opening_moves": 0}, "nothing to value without opening moves"),
        ({"opening_judge": "uct(threads=2)"}, "must repeat its values"),
        ({"opening_judge": Judge(abs)}, "is a specification"),
        ({"opening_judge": "utc"}, "did you mean 'uct'"),
        ({"opening_judge": "uct", "opening_moves": 3, "game": "pig"}, "without chance and rewards, not pig"),
    ]:
        with pytest.raises((InvalidParameter, InvalidSpecification), match=words):
            of(**wrong)


def test_a_move_limit_makes_a_draw(tmp_path):
    database = tmp_path / "r.sqlite"
    result = match("connect_four", "random", "random", games=4, max_moves=6, workers=1, database=database)
    assert (result.draws, result.score) == (4, 0.5)
    assert {record.reason for record in recorded(database)} == {"move limit"}
    assert {len(record.moves) for record in recorded(database)} == {6}


def test_results_do_not_depend_on_workers_or_on_time(tmp_path, players):
    text = {"game": "connect_four", "a": "uct(exploration=0.5)", "b": f"{players}:Slow(ms=1, uneven=true)"}
    first = match(**text, games=12, simulations=60, workers=1, database=tmp_path / "1.sqlite")
    second = match(**text, games=12, simulations=60, workers=2, database=tmp_path / "2.sqlite")
    assert recorded(tmp_path / "1.sqlite") == recorded(tmp_path / "2.sqlite")
    assert first.standing == second.standing
    other = match(**text, games=12, simulations=60, seed=1, workers=1, database=tmp_path / "1.sqlite")
    assert other.match_id != first.match_id
    assert other.a.simulations == first.a.simulations == 60


def test_every_move_of_a_match_has_a_seed_of_its_own():
    seeds = []

    class Noted:
        def choose(self, state, limit, seed):
            seeds.append(seed)
            return game.legal_actions(state)[0]

    game = named_game("connect_four")
    match(game, Noted(), Noted(), games=12, seed=1)
    noted = seeds[:]
    assert len(set(noted)) == len(noted) > 200
    seeds.clear()
    match(game, Noted(), Noted(), games=12, seed=1)
    assert seeds == noted
    seeds.clear()
    match(game, Noted(), Noted(), games=12, seed=2)
    assert not set(seeds) & set(noted)


def test_a_search_begins_each_game_afresh_and_keeps_its_tree_within_one():
    game = named_game("connect_four")
    state, limit = game.initial_state(), Limit(simulations=300)
    used, fresh = player(game, "uct"), player(game, "uct")
    used.choose(state, limit, 1)
    used.new_game(0)
    first = used.choose(state, limit, 2)
    assert first.value == fresh.choose(state, limit, 2).value
    # Told of the moves, it goes on from its tree; not told, it would start from nothing.
    used.played(first.action)
    after = game.play(state, first.action)
    alone = player(game, "uct")
    assert used.choose(after, limit, 3).value != alone.choose(after, limit, 3).value


def test_a_better_player_is_seen_and_swapping_sides_mirrors_the_result():
    result = match("tic_tac_toe", "alpha_beta(depth=9)", "random", games=60, workers=1, database=":memory:")
    assert result.losses <= 2
    assert result.elo_low > 100
    assert result.verdict.startswith("A is stronger")
    same = match("tic_tac_toe", "random", "random", games=60, workers=1, database=":memory:")
    assert same.verdict.startswith("no difference seen")


def test_each_side_may_have_its_own_budget():
    result = match(
        "connect_four", "uct", "uct", games=2, a_simulations=40, b_simulations=80, workers=1, database=":memory:"
    )
    assert result.a.simulations == 40
    assert result.b.simulations == 80
    timed = match("connect_four", "uct", "uct", games=2, seconds=0.004, workers=1, database=":memory:")
    assert timed.a.simulations > 0
    assert timed.a.seconds > 0.003


# ------------------------------------------------------------------------------- the same call again


def test_the_same_call_returns_what_is_recorded_and_more_games_extend_it(tmp_path):
    database = tmp_path / "r.sqlite"
    call = {"game": "connect_four", "a": "uct", "b": "random", "simulations": 30, "workers": 1}
    short = match(**call, games=6, database=database)
    again = match(**call, games=6, database=database)
    assert again == short  # the clock's figures too: nothing was played again
    longer = match(**call, games=10, database=database)
    fresh = match(**call, games=10, database=tmp_path / "fresh.sqlite")
    assert recorded(database) == recorded(tmp_path / "fresh.sqlite")
    assert longer.standing == fresh.standing
    assert longer.match_id == short.match_id
    assert match(**call, games=6, database=database) == short
    with Results(database) as results:
        assert recorded_result(results, 1) == longer


def test_an_edited_player_makes_another_match_and_says_so(tmp_path, players):
    database = tmp_path / "r.sqlite"
    code = (
        "import sys; from engram.arena.match import match;"
        "result = match('tic_tac_toe', sys.argv[1] + ':Slow', 'random', games=2, workers=1, database=sys.argv[2]);"
        "print(result.match_id, result.superseded, 'in another state' in str(result))"
    )

    def run():
        return subprocess.run(
            [sys.executable, "-c", code, players, str(database)], check=True, capture_output=True, text=True
        ).stdout

    assert run() == run() == "1 0 False\n"
    Path(players).write_text(PLAYERS + "\n# edited\n")
    assert run() == "2 2 True\n"


def test_a_side_that_overruns_its_seconds_is_named(players):
    slow = match("tic_tac_toe", f"{players}:Slow(ms=20)", "random", games=2, seconds=0.01, database=":memory:")
    assert re.search(r"Slow\(ms=20\) took [\d.]+ times its 0\.01 s a move", str(slow))
    assert "times its" not in str(match("tic_tac_toe", "random", "random", games=2, seconds=5.0, database=":memory:"))


@pytest.mark.parametrize(
    ("option", "counts"),
    [
        ("uct(rollout='heavy')", False),
        ("puct(network='go9')", False),
        ("td_uct(table='heavy')", True),
        ("memory_uct(memory='heavy')", True),
        ("puct(network='heavy')", True),
    ],
)
def test_only_options_that_are_files_make_another_match(tmp_path, monkeypatch, option, counts):
    monkeypatch.chdir(tmp_path)
    if "network" in option:
        pytest.importorskip("torch")
    before = text_digest([option])
    for name in ("heavy", "go9"):
        (tmp_path / name).write_text("a file of the user's")
    assert (text_digest([option]) != before) == counts


def test_a_match_is_found_again_beside_a_file_that_is_called_like_an_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = {"game": "go:5", "a": "uct(rollout='heavy')", "b": "random", "games": 2, "simulations": 5, "workers": 1}
    recorded_first = match(**call, database="r.sqlite")
    (tmp_path / "heavy").write_text("a file of the user's")
    assert match(**call, database="r.sqlite") == recorded_first


def test_a_preset_is_recorded_only_where_its_text_makes_it_again():
    narrow = preset("uct(exploration=0.5, backup=td(trace_decay=0.8))")

    def is_named(game, a, b="random"):
        return configure(game, a, b).is_named

    assert is_named("connect_four", narrow, preset("puct"))
    assert not is_named("connect_four", replace(narrow, backup=preset("uct").backup))
    assert not is_named("connect_four", replace(narrow, selection=preset("uct").selection))
    assert not is_named("connect_four", replace(narrow, decision="max"))
    assert not is_named(line(6, 7, 4, True, name="my board"), "random")
    assert not is_named(line(6, 7, 5, True, name="connect_four"), "random")
    assert is_named(line(6, 7, 4, True, name="connect_four"), "random")


def test_presets_with_memories_have_a_text_and_are_recorded(tmp_path):
    remembers, learns = presets.memory_uct(equivalence=2.0), presets.history_uct()
    for choice in (remembers, learns, presets.sarsa_uct(), presets.uct(rollout="mast")):
        assert configure("connect_four", choice, preset(choice.text)).is_named, choice.text
        for name, change in {"extensions": (), "rollout": "heavy"}.items():
            if getattr(choice, name) not in ((), "uniform"):
                assert not configure("connect_four", replace(choice, **{name: change}), "uct").is_named
    call = {"game": "tic_tac_toe", "a": presets.memory_uct(capacity=50), "b": "random", "games": 4, "simulations": 20}
    first = match(**call, database=tmp_path / "r.sqlite", workers=1)
    assert first.a.player == "memory_uct(capacity=50)"
    assert match(**{**call, "a": first.a.player}, database=tmp_path / "r.sqlite") == first


def least_visited(place, value, visits):
    return int(np.argsort(visits)[place])


def test_a_name_that_a_script_has_given_is_recorded_with_the_script_and_plays_in_its_process():
    DECISIONS.named("least visited")(lambda value, visits: int(np.argmin(visits)))
    exec("DECISIONS.named('in a cell')(lambda value, visits: 0)", {"DECISIONS": DECISIONS})
    try:
        for choice in (presets.uct(decision="least visited"), "uct(decision='least visited')"):
            setup = configure("connect_four", choice, "uct")
            assert setup.is_named and not setup.is_portable and setup.configuration.sources
        assert not configure("connect_four", "uct(decision='in a cell')", "uct").is_named
        key = configure("connect_four", "uct", "uct").configuration.key
        for name in ("exploration", "uct", "learnt"):
            DECISIONS.named(name)(lambda value, visits: 0)
        assert configure("connect_four", "uct", "uct").configuration.key == key
        DECISIONS.add("part", partial(least_visited, 1))
        assert Path(__file__).name in map(attrgetter("name"), files_named(["uct(decision=part)"]))
        mixed = configure("connect_four", "uct(decision='least visited')", "uct").configuration
        for choice in (presets.uct(decision="max"), presets.uct(exploration=0.5)):
            setup = configure("connect_four", choice, "uct")
            assert setup.is_named and setup.is_portable and not setup.configuration.sources
    finally:
        for name in ("least visited", "in a cell", "exploration", "uct", "learnt", "part"):
            DECISIONS.pop(name, None)
    assert not is_out_of_date(mixed.sources, mixed.texts), "this process has the name no more"


def test_an_edited_rule_of_a_script_makes_a_new_match(tmp_path):
    script = tmp_path / "script.py"
    code = (
        "from engram import match\nfrom engram.search.decision import DECISIONS\n"
        "@DECISIONS.named('own')\ndef own(value, visits):\n    return int(visits.argmax())\n"
        "played = match('tic_tac_toe', 'uct(decision=own)', 'uct', games=4, simulations=30, workers=2,\n"
        "               database='r.sqlite')\n"
        "print(played.match_id, played.superseded)\n"
    )
    answers = []
    for text in (code, code, code.replace("argmax", "argmin")):
        script.write_text(text)
        answers.append(subprocess.check_output([sys.executable, script], cwd=tmp_path, text=True))
    assert answers == ["1 0\n", "1 0\n", "2 4\n"]
    with Results(tmp_path / "r.sqlite") as results:
        for setup in (recorded_result(results, number).configuration for number in (1, 2)):
            assert setup.sources and not is_out_of_date(setup.sources, setup.texts)  # this process has no such name


@pytest.mark.parametrize(
    "change", [{"discount": 0.5}, {"max_moves": 8}, {"bounds": (-2.0, 2.0)}, {"action_names": list("abcdefghi")}]
)
def test_a_game_with_other_rules_is_not_taken_for_the_built_in_one(change):
    game = engram.game("tic_tac_toe")
    functions = {name: part.function for name, part in game.callbacks.items()}
    sizes = {"num_actions": 9, "max_moves": 9, "planes_shape": game.planes_shape}
    sizes["action_names"] = [game.action_name(action) for action in range(9)]
    for traits, is_named in ((sizes, True), (sizes | change, False)):
        other = engram.Game("tic_tac_toe", state=game.initial_state(), **traits, **functions)
        assert configure(other, "uct", "random").is_named == is_named


def test_objects_that_no_text_names_play_here_and_are_not_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class First:
        def choose(self, state, limit, seed):
            return game.legal_actions(state)[0]

    game = line(3, 4, 3, name="a board of my own")
    result = match(game, First(), "random", games=4)
    assert result.games == 4
    assert result.a.player == "First"
    assert list(tmp_path.iterdir()) == []
    # A built-in game given as an object is named by its text.
    assert match(named_game("tic_tac_toe"), "random", "random", games=2, workers=1).database == "engram.sqlite"
    assert (tmp_path / "engram.sqlite").exists()


# ------------------------------------------------------------------------------------ sequential test

TEST = Sprt(elo0=0, elo1=150, alpha=0.1, beta=0.1)


def test_the_sequential_test_ends_the_match_at_the_same_pair_whatever_the_order(tmp_path, players):
    slow = f"{players}:Slow(ms=3, uneven=true)"
    call = {"game": "tic_tac_toe", "a": "alpha_beta(depth=9)", "b": slow, "games": 400, "sprt": TEST}
    first = match(**call, workers=1, database=tmp_path / "1.sqlite")
    second = match(**call, workers=3, database=tmp_path / "2.sqlite")
    assert first.sprt is not None
    assert first.sprt.decision == "elo1"
    assert first.games == 2 * first.sprt.pairs < 100
    assert first.complete
    assert (second.standing, second.sprt, second.distinct_games) == (first.standing, first.sprt, first.distinct_games)
    counting = recorded(tmp_path / "1.sqlite")[: first.games]
    assert recorded(tmp_path / "2.sqlite")[: first.games] == counting
    assert "accepts Elo 150" in str(first)
    assert first.verdict == "the sequential test accepts Elo 150" and first.decided
    assert match(**call, workers=3, database=tmp_path / "2.sqlite") == second


def made_record(number, outcome):
    return GameRecord(number, number // 2, 0, "AB"[number % 2], (number,), outcome, "end", 1, 1, 0.0, 1, 1, 0.0)


def report(configuration, records, **where):
    tally = Tally(configuration)
    rows = [{**vars(record), "id": 1, "moves": moves_text(record.moves)} for record in records]
    tally.add(np.array([counted(*(row[name] for name in NEEDED)) for row in rows], COUNTED))
    return report_of(tally, **where)


def made_configuration(games, sprt):
    return MatchConfiguration("tic_tac_toe", "x", "y", games, 1, None, 1, None, 0, 9, 0, sprt, "", "0")


def test_games_beyond_the_stop_and_gaps_do_not_count():
    configuration = made_configuration(400, TEST)
    rng = random.Random(4)
    records = [made_record(number, rng.choice([1.0, 1.0, 1.0, 0.0, -1.0])) for number in range(200)]
    full = report(configuration, records)
    assert full.sprt is not None
    stop = 2 * full.sprt.pairs
    assert full.games == stop < 150
    # The test has the last word: an interval that excludes ½ after an early stop is no second verdict.
    lucky = replace(full, sprt=replace(full.sprt, decision="elo0"), score_low=0.51)
    assert lucky.verdict == "the sequential test accepts Elo 0" and not lucky.decided
    # Accepted is what lies nearer; only with 0 on the other side a difference is shown.
    for elo0, elo1, decision, decided in ((-200, 200, "elo1", False), (-9, -1, "elo0", True), (5, 9, "elo0", False)):
        setup = replace(full.configuration, sprt=Sprt(elo0=elo0, elo1=elo1))
        assert replace(lucky, configuration=setup, sprt=replace(full.sprt, decision=decision)).decided == decided
    shuffled = records[:]
    rng.shuffle(shuffled)
    assert report(configuration, shuffled) == full
    worse = records[:stop] + [made_record(number, -1.0) for number in range(stop, 300)]
    assert report(configuration, worse) == full
    # A pair that is missing before the stop keeps the test waiting, whatever came after it.
    gap = report(configuration, [record for record in records if record.pair != 2])
    assert gap.sprt is not None
    assert (gap.sprt.decision, gap.sprt.pairs, gap.complete) == (None, 2, False)


def test_a_test_may_be_a_text():
    call = {"game": "tic_tac_toe", "a": "alpha_beta(depth=9)", "b": "random", "workers": 1, "database": ":memory:"}
    by_text = match(**call, games=200, sprt="elo0=0,elo1=150,alpha=0.1,beta=0.1")
    by_numbers = match(**call, games=200, sprt=engram.Sprt(0, 150, 0.1, 0.1))
    assert json.dumps(by_text.configuration.to_json()) == json.dumps(by_numbers.configuration.to_json())
    assert by_text.complete and by_text.games < 200
    assert by_text.sprt.llr >= by_text.sprt.upper
    with pytest.raises(InvalidSpecification, match="'elo0=0,elo1=20'"):
        match(**call, sprt="5")


def test_games_of_players_who_repeat_themselves_decide_nothing():
    # Each has one answer to a position, so there are as many different pairs as openings of one move: nine.
    player = "alpha_beta(depth=2,ties=first)"
    call = {"opening_moves": 1, "workers": 1, "database": ":memory:", "seed": 3}
    few = match("tic_tac_toe", player, "minimax(depth=1,ties=first)", games=18, **call)
    many = match("tic_tac_toe", player, "minimax(depth=1,ties=first)", games=400, **call)
    assert (many.pairs, many.distinct_pairs) == (200, 9) and many.distinct_games <= 18
    assert many.score_high - many.score_low > 0.8 * (few.score_high - few.score_low) * (few.distinct_pairs / 9) ** 0.5
    assert "9 of 200 pairs differ" in str(many)
    tested = match("tic_tac_toe", player, "minimax(depth=1,ties=first)", games=400, sprt="elo0=0,elo1=20", **call)
    assert tested.sprt.decision is None and tested.sprt.pairs == 200
    result = match("tic_tac_toe", player, "minimax(depth=1,ties=first)", games=200, **{**call, "opening_moves": 0})
    assert result.distinct_pairs == 1 and result.verdict.startswith("no difference seen")


def test_a_result_as_data_and_as_a_table():
    records = [made_record(number, outcome) for number, outcome in enumerate((1.0, 1.0, 0.0, 1.0, -1.0, 1.0))]
    result = report(made_configuration(8, None), records, match_id=1, database="r.sqlite")
    data = result.to_json()
    assert {key: data[key] for key in ("wins", "draws", "losses", "games", "distinct_games")} == {
        "wins": 4, "draws": 1, "losses": 1, "games": 6, "distinct_games": 6
    }  # fmt: skip
    assert data["score"] == pytest.approx(0.75)
    assert data["elo_low"] < data["elo"] < data["elo_high"]
    assert (data["first_player"]["wins"], data["first_player"]["losses"]) == (1, 4)
    table = str(result)
    assert "6 different games (of 8 asked for)" in table
    assert "no difference seen" in table
    assert len({len(row) for row in table.splitlines()[1:4]}) == 1
    nothing = report(made_configuration(8, None), [])
    assert nothing.to_json()["elo_low"] is None
    assert "no games were played" in str(nothing)
    same = report(made_configuration(8, None), [replace(record, moves=(1,)) for record in records])
    assert "1 of 3 pairs differ: equal games add no evidence" in str(same)


# ---------------------------------------------------------------------------------- killed on the way

SCRIPT = """
import json, signal, sys
from engram.arena.match import MatchInterrupted, match
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
a, b, games, database, workers = sys.argv[1:]
try:
    print(match("connect_four", a, b, games=int(games), simulations=80, workers=int(workers), database=database).games)
except MatchInterrupted as stopped:
    print(stopped)
    sys.exit(130)
"""


def start(a, b, games, database, workers=2):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, a, b, str(games), str(database), str(workers)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": _path()},
    )  # fmt: skip


def _path():
    import engram

    return os.pathsep.join([str(Path(engram.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])


def wait_for_games(database, count, process):
    """Waits until so many games are recorded; the process must still be at work then."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the match ended on its own: {process.communicate()}")
        if num_recorded(database) >= count:
            return
        time.sleep(0.02)
    raise AssertionError("no games were recorded")


def children(pid):
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            pids.append(int(stat.parent.name))
    return pids


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processes from /proc")


@needs_proc
def test_killed_at_random_moments_a_match_ends_as_if_undisturbed(tmp_path, players):
    a, b, games = "uct(exploration=0.7)", f"{players}:Slow(ms=6)", 80  # enough that a busy machine does not finish
    undisturbed, database = tmp_path / "whole.sqlite", tmp_path / "killed.sqlite"
    expected = match("connect_four", a, b, games=games, simulations=80, workers=2, database=undisturbed)
    rng = random.Random()
    before = 0
    for kill_number in range(4):
        process = start(a, b, games, database)
        try:
            wait_for_games(database, before + 2, process)
            time.sleep(rng.uniform(0, 0.15))
            workers = children(process.pid)
            assert len(workers) == 2
            if kill_number == 1:
                # A worker dies alone: the match says so, and keeps what it has.
                os.kill(workers[0], signal.SIGKILL)
                _, errors = process.communicate(timeout=300)
                assert process.returncode == 1
                assert "worker process ended by signal 9" in errors
            else:
                process.kill()
                process.communicate(timeout=300)
        finally:
            process.kill()
            process.wait()
        patience = time.monotonic() + 120
        while any(map(alive, workers)) and time.monotonic() < patience:
            time.sleep(0.02)
        assert not any(map(alive, workers)), "a worker outlived its parent"
        before = len(recorded(database))
        assert 2 <= before < games, "the match was over before the kill"
    resumed = match("connect_four", a, b, games=games, simulations=80, workers=2, database=database)
    assert recorded(database) == recorded(undisturbed)
    assert resumed.standing == expected.standing
    assert resumed.distinct_games == expected.distinct_games


@needs_proc
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path, players, workers):
    a, b = f"{players}:Slow(ms=4)", "uct"
    database = tmp_path / "r.sqlite"
    process = start(a, b, 40, database, workers)
    try:
        wait_for_games(database, 3, process)
        working = children(process.pid)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in errors
    count = len(recorded(database))
    assert 3 <= count < 40
    assert f"{count} of 40 games are recorded; the same match started again continues" in output
    assert not any(map(alive, working))


def test_a_batch_system_that_ends_a_job_loses_no_game_and_no_claim(tmp_path):
    """It sends SIGTERM; a job that a shell has started in the background also ignores Ctrl-C."""
    database = tmp_path / "r.sqlite"
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from engram.cli.app import main; import sys\n"
        "sys.argv[0] = 'engram'; main()"
    )
    words = ["match", "-g", "tic_tac_toe", "-n", "3000", "--games", "4000", "--workers", "1", "-d", str(database)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for_games(database, 2, process)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130 and "repeat the command to continue" in errors, errors
    assert json.loads(output)["games"] == len(recorded(database)) < 4000
    with sqlite3.connect(database) as connection:
        assert connection.execute("select count(*) from claim").fetchone() == (0,)


def test_an_interruption_in_this_process_carries_the_result(tmp_path):
    def stop(result):
        if result.games >= 3:
            raise KeyboardInterrupt

    with pytest.raises(MatchInterrupted) as stopped:
        match(
            "connect_four", "random", "minimax(depth=5)", games=4000, workers=1, database=tmp_path / "r.sqlite",
            progress=stop,
        )  # fmt: skip
    assert stopped.value.result.games == len(recorded(tmp_path / "r.sqlite")) >= 3


def test_a_match_that_goes_on_first_reports_its_recorded_games(tmp_path):
    counts = []

    def play(games):
        match(
            "tic_tac_toe", "random", "random", games=games, workers=1, database=tmp_path / "r.sqlite",
            progress=lambda result: counts.append(result.games),
        )  # fmt: skip

    play(2)
    assert counts[0] > 0
    counts.clear()
    play(40)
    assert (counts[0], counts[-1]) == (2, 40)


# ------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("workers", [1, 2])
def test_a_player_that_fails_is_named_with_its_seed(tmp_path, players, workers):
    database = tmp_path / "r.sqlite"
    with pytest.raises(PlayerError) as error:
        match("connect_four", f"{players}:Faulty", "random", games=60, seed=8, workers=workers, database=database)
    message = str(error.value)
    assert "Faulty" in message
    assert re.search(r"players_of_test.py:\d+ \w+ raised ValueError: a fault of the test", message)
    assert "match with seed 8" in message
    assert "\n" not in message
    if workers == 1:
        failed = int(re.search(r"failed in game (\d+)", message)[1])
        assert [record.number for record in recorded(database)] == list(range(failed))


def test_a_fault_of_a_users_game_is_named_with_its_line(tmp_path):
    file = tmp_path / "heap.py"
    file.write_text(
        "from engram import PythonGame\n"
        "class Heap:\n"
        "    def __init__(self, left=10, player=0): self.left, self.player = left, player\n"
        "    def legal_actions(self): return list(range(min(3, self.left)))\n"
        "    def play(self, action):\n"
        "        self.left, self.player = self.left - action - 1, 1 - self.player\n"
        "        if self.left == 5: raise ValueError('five')\n"
        "    def to_play(self): return self.player\n"
        "    def outcome(self): return 1.0 if self.player else -1.0\n"
        "    def copy(self): return Heap(self.left, self.player)\n"
        "def heap(): return PythonGame('heap', Heap, num_actions=3, max_moves=10)\n"
    )
    with pytest.raises(PlayerError, match=r"failed in game \d.*: heap.py:7 play raised ValueError: five$"):
        match(f"{file}:heap", "uct", "random", games=20, simulations=16, workers=1, database=":memory:")


def test_an_illegal_move_is_refused(tmp_path, players):
    with pytest.raises(PlayerError, match=r"player B, .*Cheat, failed in game 0 .* not legal"):
        match("connect_four", "random", f"{players}:Cheat", games=2, workers=1, database=":memory:")


def test_a_worker_that_dies_is_reported_and_its_match_goes_on_later(tmp_path, players):
    database = tmp_path / "r.sqlite"
    with pytest.raises(WorkerError, match="signal 9"):
        match("tic_tac_toe", f"{players}:Dies", "random", games=60, workers=2, database=database)
    with Results(database) as results:
        assert results.match(1).recorded < 60


def test_what_a_player_prints_does_not_disturb_the_match(tmp_path, players):
    result = match("tic_tac_toe", f"{players}:Talks", "random", games=4, workers=2, database=":memory:")
    assert result.games == 4


def test_a_database_that_fails_in_the_middle_keeps_its_games(tmp_path, monkeypatch):
    database = tmp_path / "r.sqlite"
    add = Results.add_games

    def failing(self, match_id, records):
        if early := [record for record in records if record.number < 5]:
            add(self, match_id, early)
        if early != records:
            raise DatabaseError("the disk is full")

    monkeypatch.setattr(claims, "LEASE_S", 3.0)  # for so long the last match waits for games of the failed ones
    with monkeypatch.context() as patch:
        patch.setattr(Results, "add_games", failing)
        for workers in (1, 2):
            with pytest.raises(DatabaseError, match="disk is full"):
                match("tic_tac_toe", "random", "random", games=20, workers=workers, database=database)
    assert len(recorded(database)) >= 5
    match("tic_tac_toe", "random", "random", games=20, workers=1, database=database)
    match("tic_tac_toe", "random", "random", games=20, workers=1, database=tmp_path / "fresh.sqlite")
    assert recorded(database) == recorded(tmp_path / "fresh.sqlite")


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"games": 3}, InvalidParameter, "even"),
        ({"games": 0}, InvalidParameter, "from 2"),
        ({"workers": 0}, InvalidParameter, "workers must be a whole number, 1 to"),
        ({"workers": 5000}, InvalidParameter, "workers must be a whole number, 1 to"),
        ({"workers": 2**63}, InvalidParameter, "workers must be a whole number, 1 to"),
        ({"workers": 1.5}, InvalidParameter, "workers must be a whole number, 1 to"),
        ({"gmaes": 3}, InvalidSpecification, "did you mean 'games'"),
        ({"sprt": 5}, InvalidSpecification, "SPRT"),
        ({"simulations": -5}, InvalidLimit, "budget of A"),
        ({"seconds": 0.0}, InvalidLimit, "seconds"),
        ({"b_simulations": 0}, InvalidLimit, "budget of B"),
        ({"opening_moves": -1}, InvalidParameter, "opening_moves"),
        ({"opening_moves": 42}, InvalidParameter, "opening_moves"),
        ({"max_moves": 3}, InvalidParameter, "max_moves"),
        ({"game": "conect_four"}, InvalidSpecification, "did you mean 'connect_four'"),
        ({"a": "uct(exploratio=1)"}, InvalidSpecification, "did you mean 'exploration'"),
        ({"b": "randm"}, InvalidSpecification, "did you mean 'random'"),
        ({"b": ""}, InvalidSpecification, "empty"),
    ],
)
def test_bad_arguments_say_what_is_wrong(tmp_path, arguments, error, says):
    call = {"game": "connect_four", "a": "uct", "b": "random", "database": tmp_path / "r.sqlite", **arguments}
    with pytest.raises(error, match=says):
        match(**call)
    assert not (tmp_path / "r.sqlite").exists()


def test_a_configuration_survives_json(tmp_path):
    match("tic_tac_toe", "random", "random", games=2, sprt=TEST, workers=1, database=tmp_path / "r.sqlite")
    with Results(tmp_path / "r.sqlite") as results:
        record = results.match(1)
        configuration = MatchConfiguration.from_json({**record.configuration, "games": record.games})
        assert configuration.sprt == TEST
        assert configuration.key == record.key
        assert replace(configuration, games=50).key == record.key
        assert essence(MatchRunner(MatchSetup.of(configuration)).play_all(iter([1]))) == essence(results.games(1))[1:]


def test_search_loses_no_game_of_tic_tac_toe_to_full_depth():
    result = match(
        "tic_tac_toe", "uct", "alpha_beta(depth=9)", games=100, simulations=10_000, seed=5, opening_moves=0,
        workers=1, database=":memory:",
    )  # fmt: skip
    assert result.games == 100 and result.losses == 0


def test_numbers_of_numpy_are_numbers():
    result = match(
        "tic_tac_toe", "random", "random", games=np.int64(2), simulations=np.int64(5), seed=np.int32(3),
        opening_moves=np.int64(1), workers=1, database=":memory:",
    )  # fmt: skip
    json.dumps(result.to_json())
    with pytest.raises(InvalidParameter, match="whole number"):
        match("tic_tac_toe", "random", "random", games=2.0)
    with pytest.raises(InvalidSpecification, match="specification"):
        match("tic_tac_toe", 3, "random")


class Mover:
    """Takes 0.1 s to move its root after each move that it hears of, by a clock that only it moves."""

    now = 0.0

    def __init__(self):
        self.limits = []

    def choose(self, state, limit, seed):
        self.limits.append(limit.seconds)
        return Choice(named_game("tic_tac_toe").legal_actions(state)[0], seconds=limit.seconds)

    def played(self, action):
        Mover.now += 0.1


def test_moving_the_root_is_on_the_clock(monkeypatch):
    monkeypatch.setattr("engram.arena.runner.time.perf_counter", lambda: Mover.now)
    slow, quick = Mover(), Mover()
    quick.played = lambda action: None
    result = match("tic_tac_toe", slow, quick, games=2, seconds=0.5, opening_moves=0)
    # The first mover begins with its whole budget; each later move pays for its own last move and the answer.
    assert [round(limit, 9) for limit in slow.limits[:3]] == [0.5, 0.3, 0.3]
    assert set(quick.limits) == {0.5}
    assert result.a.seconds == pytest.approx(0.5) == result.b.seconds
    assert round(min(slow.limits), 9) == 0.3 and slow.limits.count(0.5) == 1
    late = Mover()
    match("tic_tac_toe", late, "random", games=2, seconds=0.05, opening_moves=0)
    assert all(limit > 0 for limit in late.limits)


class Meddler:
    """Plays the first legal action, and spoils the state that it was given."""

    def choose(self, state, limit, seed):
        action = named_game("tic_tac_toe").legal_actions(state)[0]
        state["stones"] = 0
        return action


def test_a_player_gets_a_state_of_its_own():
    result = match("tic_tac_toe", Meddler(), Meddler(), games=2, workers=1, opening_moves=0, database=":memory:")
    assert result.games == 2


class Formed:
    """Chooses the last legal move in a form of its own, and notes the moves that it hears of."""

    def __init__(self, form):
        self.form, self.heard = form, []

    def choose(self, state, limit, seed):
        return self.form(named_game("connect_four").legal_actions(state)[-1])

    def played(self, action):
        self.heard.append(action)


@pytest.mark.parametrize(
    "form",
    [lambda move: str(move + 1), lambda move: Choice(str(move + 1)), lambda move: Choice(np.int8(move)), np.array],
)
def test_a_move_in_any_form_is_recorded_and_told_as_it_is_played(form, monkeypatch):
    records, plain = [], Results.add_games
    monkeypatch.setattr(Results, "add_games", lambda self, key, games: (records.extend(games), plain(self, key, games)))
    side = Formed(form)
    match("connect_four", side, Formed(int), games=2, opening_moves=0, simulations=1)
    assert side.heard == [move for record in records for move in record.moves]
    assert records[0].moves[:7] == (6,) * 6 + (5,) and {type(move) for move in side.heard} == {int}


@pytest.mark.parametrize(
    ("choice", "fault"),
    [
        (3.9, r"connect_four: a move must be a number or a name, not 3\.9"),
        (None, "connect_four: a move must be a number or a name, not None"),
        (Choice(True), "connect_four: a move must be a number or a name, not True"),
        (Choice(3, seconds=math.nan), "seconds of a Choice must be 0 or more, and finite, not nan"),
        (Choice(3, seconds=-1.0), "seconds of a Choice must be 0 or more, and finite, not -1.0"),
        (Choice(3, simulations=-5), "simulations of a Choice must be a whole number, 0 to .*"),
        (Choice(3, simulations=10**30), "simulations of a Choice must be a whole number, 0 to .*"),
        (Choice(3, value=5.0), r"value of a Choice must be None or within \(-1.0, 1.0\), not 5.0"),
        (Choice(3, value="x"), r"value of a Choice must be None or within \(-1.0, 1.0\), not 'x'"),
    ],
)
def test_a_choice_that_cannot_be_recorded_is_refused(choice, fault):
    with pytest.raises(PlayerError, match=f"player A, Formed, failed in game 0 .*: {fault}$"):
        match("connect_four", Formed(lambda move: choice), "random", games=2, opening_moves=0, simulations=1)


class Says:
    """Plays the first move, and calls the game as it is told: by its colour and the number of its move."""

    def __init__(self, values):
        self.values = values

    def new_game(self, game_seed):
        self.move = 0

    def choose(self, state, limit, seed):
        game = named_game("gomoku:9")
        self.move += 1
        return Choice(game.legal_actions(state)[0], value=self.values(game.to_play(state), self.move))


def lengths(first, second, resign=0.9):
    records = []
    with pytest.MonkeyPatch.context() as patch:
        plain = Results.add_games
        patch.setattr(Results, "add_games", lambda self, key, games: (records.extend(games), plain(self, key, games)))
        match("gomoku:9", Says(first), Says(second), games=2, opening_moves=0, resign=resign, simulations=1)
    return {
        (len(record.moves), record.outcome if record.first == "A" else -record.outcome, record.reason)
        for record in records
    }


def test_a_game_ends_when_both_sides_agree_for_three_moves_each():
    def white(player, move):
        return 0.95 if player else -0.95

    # From move 4 on White is sure; Black agrees from the start.
    assert lengths(white, white) == {(6, -1.0, "agreed at 0.9")}
    assert lengths(lambda *where: white(*where) if where[1] > 3 else 0.0, white) == {
        (11, -1.0, "agreed at 0.9"),
        (12, -1.0, "agreed at 0.9"),
    }
    assert lengths(lambda player, move: -white(player, move), lambda *where: -white(*where)) == {
        (6, 1.0, "agreed at 0.9")
    }


def test_a_game_goes_on_where_sides_differ_or_say_nothing():
    def mine(player, move):
        return 0.99

    played_out = lengths(mine, mine, resign=None)
    assert played_out == lengths(mine, mine) and {reason for *_, reason in played_out} == {"end"}
    assert lengths(lambda player, move: None, lambda player, move: -1.0 if player else 1.0) == played_out
    assert lengths(lambda player, move: 0.8 if player else -0.8, lambda p, m: 0.8 if p else -0.8) == played_out
    assert lengths(lambda p, m: math.nan, lambda p, m: math.nan) == played_out


class Early:
    """A game of twelve moves, of which the first is worth 15, and an end that costs 10: the first player has 5."""

    def __init__(self, number=0):
        self.number = number

    def copy(self):
        return type(self)(self.number)

    def legal_actions(self):
        return [0, 1] if self.number < 12 else []

    def to_play(self):
        return self.number % 2

    def play(self, action):
        self.number += 1

    def reward(self):
        return 15.0 if self.number == 1 else 0.0

    def outcome(self):
        return -10.0


def test_sides_agree_on_the_return_of_the_whole_game():
    game = engram.PythonGame("early", Early, num_actions=2, max_moves=12, bounds=(-16.0, 16.0))
    options = {"games": 4, "simulations": 30, "opening_moves": 0, "workers": 1, "database": ":memory:"}
    for resign, length in ((None, 12), (0.25, 6), (0.5, 12)):  # 5 is 0.31 of the bound
        result = match(game, "uct", "uct(exploration=0.5)", resign=resign, **options)
        assert result.first_wins == 4 and result.a.moves + result.b.moves == 4 * length


class Alone(Early):
    def to_play(self):
        return 0


class Quitter(Player):
    """Gives up at once."""

    text = "quitter"

    def choose(self, state, limit, seed):
        raise Forfeit("enough")


@pytest.mark.parametrize(("bounds", "least"), [((-16.0, 16.0), -16.0), ((-10.0, 8.0), -10.0), (None, 0.0)])
def test_a_single_player_who_gives_up_has_the_least_return(bounds, least):
    game = engram.PythonGame("alone", Alone, num_actions=2, max_moves=12, players=1, bounds=bounds)
    options = {"games": 2, "simulations": 10, "opening_moves": 0, "workers": 1, "database": ":memory:"}
    result = match(game, "uct" if bounds else "uct(bounds=learnt)", Quitter(), **options)
    assert (result.means.a, result.means.b) == (5.0, least)


def test_one_side_alone_does_not_end_a_game():
    configuration = configure_match(resign=0.9)
    game = OngoingGame(configuration, TwiceInARow(), 0, ((), ()))
    for _ in range(6):
        game.play(Choice(0, value=0.95))
    assert not game.ended


def configure_match(**options):
    return match("tic_tac_toe", "random", "random", games=2, database=":memory:", **options).configuration


class TwiceInARow:
    """A game in which player 0 is always to move."""

    players, bounds, discount, max_moves = 2, (-1.0, 1.0), 1.0, 100

    def require_start(self):
        pass

    def has(self, function):
        return False

    def reward(self, state):
        return 0.0

    def initial_state(self):
        return ()

    def play(self, state, action):
        return (*state, action)

    def legal_actions(self, state):
        return [0, 1]

    def is_over(self, state):
        return False

    def to_play(self, state):
        return 0


def test_a_match_that_resigns_is_another_match_and_is_refused_out_of_range():
    def key(resign):
        return configure_match(resign=resign).key

    assert len({key(None), key(0.9), key(1.0)}) == 3
    for wrong in (0.0, -0.5, 1.5, math.nan, "0.9", True):
        with pytest.raises(InvalidParameter, match="resign must be above 0 and at most 1"):
            key(wrong)


LOOKS_AHEAD = """
from engram import PythonGame

class Nim:
    def __init__(self, left=13, player=0): self.left, self.player = left, player
    def legal_actions(self): return list(range(min(3, self.left)))
    def play(self, action): self.left, self.player = self.left - action - 1, 1 - self.player
    def to_play(self): return self.player
    def outcome(self): return 1.0 if self.player == 1 else -1.0
    def copy(self): return Nim(self.left, self.player)

class LooksAhead:
    def choose(self, state, limit, seed):
        while state.left:
            state.play(0)
        return 0

def nim(): return PythonGame("nim", Nim, num_actions=3, max_moves=20)
def ahead(): return LooksAhead()
"""


def test_a_player_that_moves_on_in_its_state_of_a_python_game_changes_no_game(tmp_path):
    file = tmp_path / "nim.py"
    file.write_text(LOOKS_AHEAD)
    database = tmp_path / "m.sqlite"
    match(f"{file}:nim", f"{file}:ahead", f"{file}:ahead", games=2, opening_moves=0, workers=1, database=database)
    with Results(database) as results:
        assert [record.moves for record in results.games(1)] == [(0,) * 13] * 2


def test_a_file_of_data_that_a_users_player_names_makes_another_match(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("import engram\ndef mine(weights='', c=1.0):\n    return engram.presets.uct()\n")
    text = "mine.py:mine(weights='w.npy')"
    keys = []
    for content in (None, "a", "b"):
        if content is not None:
            Path("w.npy").write_text(content)
        keys.append(text_digest([text]))
    assert len(set(keys)) == 3 and text_digest([text]) == keys[-1]
    assert text_digest(["mine.py:mine(weights='other.npy')"]) == keys[0], "there is no such file"
    assert text_digest(["mine.py:mine(c=2.0)"]) == keys[0] == text_digest(["mine.py:mine(weights='~nosuch/w')"])
    for other in ("mine.py:mine('w.npy')", "mine.py:mine(weights=['w.npy', 'x'])"):
        assert text_digest([other]) == keys[-1]


def test_a_reason_of_any_characters_is_recorded(tmp_path):
    file = tmp_path / "odd.py"
    file.write_text(
        "from engram.player import Forfeit\n\n\n"
        "class Odd:\n    def choose(self, state, limit, seed):\n        raise Forfeit('a \\x00 and \\udcff')\n\n\n"
        "def mine():\n    return Odd()\n"
    )
    database = tmp_path / "m.sqlite"
    match("tic_tac_toe", f"{file}:mine", "random", games=2, workers=1, database=database)
    with Results(database) as results:
        reasons = [record.reason for record in results.games(1)]
    assert reasons == [r"A: a \x00 and \udcff"] * 2
