"""Training by temporal differences: it learns, resumes exactly, says why it does not learn, and draws."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

import engram
from engram import Limit, Search, presets
from engram.arena.match import MatchInterrupted
from engram.cli.app import app
from engram.errors import EngramError, InvalidFile, InvalidParameter
from engram.intervals import wilson
from engram.memory.values import table_files
from engram.memory.values.table import Table
from engram.presets.catalogue import preset
from engram.specification import Specification
from engram.training.history import Point, TrainingResults, of_seeds
from engram.training.td.curves import band, draw, draw_small_multiples, sparkline
from engram.training.td.diagnosis import diagnose
from engram.training.td.episodes import TdLearner, episode_dtype
from engram.training.td.settings import EvaluationPlan, TdConfiguration, TdOpponent, parse_opponents
from engram.training.td.training import seed_file, train

SMALL = TdConfiguration("tic_tac_toe", simulations=30, capacity=2000, epsilon=0.2, replay=0.3, opening_moves=2)
PLAN = EvaluationPlan((TdOpponent("uct", 30), TdOpponent("alpha_beta(depth=2)", opening_moves=0)), every=4, games=4)


def content(path):
    table, about, arrays = table_files.load(path)
    return table.entries.tobytes(), about, {name: array.tobytes() for name, array in arrays.items()}


def test_it_learns_tic_tac_toe():
    configuration = TdConfiguration("tic_tac_toe", simulations=100, capacity=2000)
    learner = TdLearner(configuration)
    for _ in range(40):
        learner.episode()
    history = learner.history
    assert (history["played_states"] <= history["plain_states"]).all()
    assert 400 < history["searched_states"][-1] <= 627  # 765 positions up to symmetry, 138 of them over
    against = {}
    for name, player in (("trained", configuration.preset(learner.table, learn=False)), ("plain", "td_uct")):
        played = engram.match("tic_tac_toe", player, "alpha_beta(depth=9)", games=60, simulations=20, seed=2,
                              database=":memory:")  # fmt: skip
        against[name] = played.losses
    assert against["trained"] < against["plain"] / 2


@pytest.mark.parametrize(
    "changes", [{}, {"opponent": "random"}, {"earlier": 0.7, "snapshot_every": 2}, {"learn_from": "positions"}]
)
def test_an_episode_resumed_is_the_episode_undisturbed(tmp_path, changes):
    configuration = replace(SMALL, **changes)
    full, first, path = TdLearner(configuration, 3), TdLearner(configuration, 3), tmp_path / "a.table"
    for _ in range(12):
        full.episode()
    for _ in range(5):
        first.episode()
    first.save(path)
    second = TdLearner(configuration, 3)
    second.load(path)
    for _ in range(7):
        second.episode()
    assert second.table.entries.tobytes() == full.table.entries.tobytes()
    assert second.history.tobytes() == full.history.tobytes()
    other = TdLearner(configuration, 4)
    with pytest.raises(InvalidFile, match="seed 3, not 4"):
        other.load(path)
    with pytest.raises(InvalidFile, match=r"epsilon 0.2, not 0.5"):
        TdLearner(replace(configuration, epsilon=0.5), 3).load(path)


def history_of(episodes=20, **changes):
    plain = {"epsilon": 0.0, "replay": 0.0, "opening_moves": 0}
    learner = TdLearner(replace(SMALL, **{**plain, **changes}))
    for _ in range(episodes):
        learner.episode()
    return learner, learner.history


def test_epsilon_draws_moves_and_replay_begins_within_earlier_games():
    _, drawn = history_of(epsilon=1.0)
    assert drawn["searched_states"][-1] == 0  # a move that is drawn needs no search
    _, searched = history_of()
    assert searched["moves"].min() >= 5 and searched["searched_states"][-1] > 100  # no game of tic-tac-toe is shorter
    for shorter in ({"replay": 1.0}, {"opening_moves": 4}):
        assert history_of(**shorter)[1]["moves"].min() < 5


def test_the_opponent_has_every_second_side():
    """A perfect opponent of a weak learner never loses, on either side; in self-play the first player wins."""
    _, history = history_of(40, opponent="alpha_beta(depth=9)", simulations=1)
    of_opponent = history["outcome"] * np.resize([1, -1], 40)
    assert of_opponent.min() >= 0 and of_opponent.sum() > 10


def test_it_plays_against_earlier_states_of_itself(tmp_path):
    learner, history = history_of(30, earlier=1.0, snapshot_every=10)
    assert sorted(learner.snapshots) == [10, 20, 30]
    searches = np.diff(history["searched_states"], prepend=0)
    alone = np.diff(history_of(30)[1]["searched_states"], prepend=0)
    assert (searches[:10] == alone[:10]).all() and searches[10:].sum() < alone[10:].sum()  # it learns from its own side
    learner.save(tmp_path / "a.table")
    states = [table_files.about(tmp_path / f"a.episode{episode}.table")["entries"] for episode in (10, 20, 30)]
    assert states[0] < states[1] < states[2] == table_files.about(tmp_path / "a.table")["entries"]
    engram.Search("tic_tac_toe", f"td_uct(table='{tmp_path / 'a.episode10.table'}')")


def test_positions_alone_teach_far_fewer_states():
    learner, history = history_of(learn_from="positions")
    assert history["searched_states"][-1] == history["played_states"][-1] == len(learner.table)
    assert history_of()[1]["searched_states"][-1] > 2 * len(learner.table)


def test_positions_learn_by_hand():
    """γ = 0.9, λ = 0.5, values before 0, 0.2, -0.1 (all for player 0), outcome 1, first visits but one."""
    learner = TdLearner(replace(SMALL, learn_from="positions", discount=0.9, trace_decay=0.5, min_step=0.0))
    keys = np.array([11, 12, 13], np.uint64)
    learner.table.put(keys, np.array([0.0, 0.2, -0.1]), np.array([0, 1, 0]))
    learner._learn_positions(keys, 1.0)
    values, visits = learner.table.get(keys)
    # G = 0.9; 0.9·(0.45 - 0.05) = 0.36; 0.9·(0.18 + 0.1) = 0.252; the second moves half the way from 0.2.
    assert values == pytest.approx([0.252, 0.28, 0.9]) and visits.tolist() == [1, 2, 1]


def test_a_position_that_comes_twice_is_learnt_twice():
    learner = TdLearner(replace(SMALL, learn_from="positions", discount=1.0, trace_decay=1.0, min_step=0.0))
    learner._learn_positions(np.array([5, 6, 5, 7], np.uint64), 1.0)
    values, visits = learner.table.get(np.array([5, 6, 7], np.uint64))
    assert values == pytest.approx([1.0, 1.0, 1.0]) and visits.tolist() == [2, 1, 1]


@pytest.mark.parametrize(("search", "numbers"), [("td_uct", (0.9, 0.9, 0.005)), ("sarsa_uct", (0.99, 1.0, 0.0))])
def test_a_training_searches_as_the_preset_that_plays(search, numbers):
    configuration = TdConfiguration("tic_tac_toe", search=search)
    assert (configuration.trace_decay, configuration.discount, configuration.min_step) == numbers
    assert str(configuration.preset(Table(10), learn=True).backup) == str(getattr(presets, search)().backup)


def test_points_of_an_edited_opponent_or_game_are_measured_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.py"
    code = (
        "import engram\ndef weak(): return engram.presets.uct(exploration={})\ndef game(): return engram.game({!r})\n"
    )
    keys = []
    for exploration, size in ((1.0, "tic_tac_toe"), (9.0, "tic_tac_toe"), (9.0, "connect_four")):
        file.write_text(code.format(exploration, size))
        plan = EvaluationPlan((TdOpponent("mine.py:weak", 30),), every=4, games=4)
        keys.append((plan.key(SMALL), EvaluationPlan(every=4).key(replace(SMALL, game="tic_tac_toe"))))
    assert len({key for key, _ in keys}) == 3 and len({key for _, key in keys}) == 1


OPTIONS = {
    "simulations": 31, "trace_decay": 0.5, "discount": 0.5, "min_step": 0.5, "exploration": 3.0, "bootstrap": "best",
    "epsilon": 0.9, "replay": 0.0, "opening_moves": 0, "opponent": "random", "earlier": 1.0, "symmetric": False,
    "learn_from": "positions", "capacity": 100, "rollout": "heavy", "search": "sarsa_uct",
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_no_option_is_without_effect(option):
    game = "line:rows=3,columns=3,run=3"
    learners = [TdLearner(replace(SMALL, game=game, **changes, snapshot_every=2))
                for changes in ({}, {option: OPTIONS[option]})]  # fmt: skip
    for learner in learners:
        for _ in range(6):
            learner.episode()
    assert learners[0].table.entries.tobytes() != learners[1].table.entries.tobytes()


def test_every_option_of_the_command_reaches_the_training(tmp_path, monkeypatch):
    call = {}
    monkeypatch.setattr(
        "engram.training.td.training.train", lambda *values, **more: call.update(more, given=values) or []
    )
    options = {**OPTIONS, "symmetric": True, "snapshot_every": 7, "bootstrap": "taken"}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if name not in
             ("opponent", "symmetric")]  # fmt: skip
    result = CliRunner().invoke(app, [
        "train", "td", "-g", "tic_tac_toe", "-o", str(tmp_path / "x.table"), "--against", "random", "--no-symmetric",
        *words, "--episodes", "3", "--every", "9", "--games", "6", "--evaluation-openings", "1", "--seeds", "2",
        "--seed", "5", "--workers", "2", "--evaluate", "uct", "-d", str(tmp_path / "x.sqlite"),
    ])  # fmt: skip
    assert result.exit_code == 0, result.output
    assert call["given"][0] == TdConfiguration("tic_tac_toe", **{**options, "symmetric": False})
    assert call["plan"] == EvaluationPlan((TdOpponent("uct"),), every=9, games=6, opening_moves=1)
    assert (call["episodes"], list(call["seeds"]), call["workers"]) == (3, [5, 6], 2)


def test_training_in_pieces_equals_training_at_once(tmp_path):
    once = train(SMALL, tmp_path / "once.table", episodes=10, seeds=(0, 1), plan=PLAN, database=tmp_path / "a.sqlite")
    for episodes in (3, 4, 10):
        pieces = train(SMALL, tmp_path / "pieces.table", episodes=episodes, seeds=(0, 1), plan=PLAN,
                       database=tmp_path / "b.sqlite")  # fmt: skip
    assert [p for p in pieces if p.episode != 3] == once
    assert {p.episode for p in once} == {0, 4, 8, 10} and len(once) == 2 * 2 * 4
    for seed in (0, 1):
        assert content(seed_file(tmp_path / "once.table", seed)) == content(seed_file(tmp_path / "pieces.table", seed))
    joined, about, _ = table_files.load(tmp_path / "once.table", {"game": "tic_tac_toe", "seeds": 2})
    parts = [table_files.load(seed_file(tmp_path / "once.table", seed))[0] for seed in (0, 1)]
    assert joined.entries["visit_count"].sum() == sum(part.entries["visit_count"].sum() for part in parts)
    # And it plays.
    engram.Search("tic_tac_toe", f"td_uct(table='{tmp_path / 'once.table'}')")
    assert about["episodes"] == 10


def test_fewer_episodes_than_a_seed_has_are_refused(tmp_path):
    train(SMALL, tmp_path / "t", episodes=6)
    before = (tmp_path / "t").read_bytes()
    with pytest.raises(InvalidParameter, match="has 6 episodes already"):
        train(SMALL, tmp_path / "t", episodes=3)
    assert (tmp_path / "t").read_bytes() == before


def test_a_training_killed_goes_on_as_if_nothing_had_happened(tmp_path):
    configuration = TdConfiguration("tic_tac_toe", simulations=60, capacity=2000, epsilon=0.1)
    plan = EvaluationPlan((TdOpponent("uct", 20),), every=40, games=4)
    command = [sys.executable, "-m", "engram", "train", "td", "-g", "tic_tac_toe", "-n", "60",
               "--capacity", "2000", "--epsilon", "0.1", "--every", "40", "--games", "4", "--seeds", "2",
               "--evaluate", "uct(simulations=20)", "--workers", "2", "--episodes", "100000",
               "-o", str(tmp_path / "killed.table"), "-d", str(tmp_path / "killed.sqlite")]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    files = [seed_file(tmp_path / "killed.table", seed) for seed in (0, 1)]
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        if all(file.exists() and table_files.about(file)["episodes"] >= 40 for file in files):
            break
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    # The workers notice at the end of their episode, save, and go: then nobody writes any more.
    standing = None
    while standing != (standing := [(file.stat().st_mtime_ns, table_files.about(file)["episodes"]) for file in files]):
        time.sleep(1.5)
    episodes = max(number for _, number in standing) + 25
    results = {}
    for name in ("killed", "whole"):
        results[name] = train(configuration, tmp_path / f"{name}.table", episodes=episodes, seeds=(0, 1), plan=plan,
                              database=tmp_path / f"{name}.sqlite")  # fmt: skip
    assert results["killed"] == results["whole"]
    for name in ("killed", "killed.seed0", "killed.seed1"):
        assert content(tmp_path / f"{name}.table") == content(tmp_path / f"{name.replace('killed', 'whole')}.table")


def test_a_file_that_the_training_did_not_write_is_not_replaced(tmp_path):
    notes, table = tmp_path / "notes.txt", tmp_path / "t.table"
    notes.write_text("my notes")
    with pytest.raises(InvalidFile):
        train(SMALL, notes, episodes=2)
    assert notes.read_text() == "my notes"
    own = tmp_path / "own.table"
    table_files.save(own, Table(64), {"game": "tic_tac_toe"})
    with pytest.raises(InvalidFile, match="is a table with"):
        train(SMALL, own, episodes=2)
    train(SMALL, tmp_path / "x.table", episodes=2)
    other = replace(SMALL, game="connect_four")
    with pytest.raises(InvalidFile, match="is a table with"):
        train(other, tmp_path / "x.table", episodes=2, seeds=(5,))
    train(SMALL, table, episodes=6)
    before = table.read_bytes()
    seed_file(table, 0).unlink()  # people copy the merged table alone
    with pytest.raises(InvalidFile, match="without the files of its seeds"):
        train(SMALL, table, episodes=8)
    assert table.read_bytes() == before


def test_two_trainings_do_not_write_one_table(tmp_path):
    with FileLock(tmp_path / ".t.table.lock"), pytest.raises(InvalidFile, match="another training writes"):
        train(SMALL, tmp_path / "t.table", episodes=2)


def test_a_table_does_not_go_on_against_an_edited_opponent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "import engram\ndef weak(): return engram.presets.uct(exploration={})\n"
    (tmp_path / "own.py").write_text(code.format(1.0))
    for episodes in (2, 3):
        train(replace(SMALL, opponent="own.py:weak"), tmp_path / "t.table", episodes=episodes)
    (tmp_path / "own.py").write_text(code.format(9.0))
    with pytest.raises(InvalidFile, match="against a player in other files"):
        train(replace(SMALL, opponent="own.py:weak"), tmp_path / "t.table", episodes=4)


def test_a_training_that_goes_on_first_tells_the_episodes_of_every_seed(tmp_path):
    train(SMALL, tmp_path / "t.table", episodes=3, seeds=[0])
    rows = []
    train(
        SMALL, tmp_path / "t.table", episodes=4, seeds=[0, 1], progress=lambda now: rows.append((now.seed, now.episode))
    )
    assert rows[0] == (0, 3) and dict(rows) == {0: 4, 1: 4}


def test_seeds_that_a_database_would_take_for_one_are_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="must differ, also modulo"):
        train(SMALL, tmp_path / "x.table", episodes=1, seeds=(-1, 2**64 - 1))


def test_points_are_recorded_once(tmp_path):
    point = Point(0, 4, "uct", 4, 1, 2, 1, 4, 10, 100, {"mistakes": 0.25}, ("exploration collapsed: …",))
    with TrainingResults(tmp_path / "x.sqlite") as results:
        for _ in range(2):
            results.add_point("key", {"game": "go:9"}, point)
        results.add_point("other", {"game": "go:9"}, point)
        assert results.points("key") == [point] and point.score == 0.5
        for seed in (2**63, 2**64 - 1, -(2**63)):
            results.add_point("seeds", {"game": "go:9"}, replace(point, seed=seed))
        assert [other.seed for other in of_seeds(results.points("seeds"), [2**63])] == [2**63]
        assert [other.seed for other in of_seeds(results.points("seeds"), [2**64 - 1, 5])] == [2**64 - 1]


def test_opponents_are_read_with_what_belongs_to_the_match():
    game = engram.game("connect_four")
    opponents = parse_opponents("alpha_beta(depth=4,opening_moves=0),uct(exploration=0.5,simulations=100)", game)
    assert opponents[0] == TdOpponent("alpha_beta(depth=4, heuristic=naive)", None, 0)
    assert opponents[1] == TdOpponent("uct(exploration=0.5)", 100) and parse_opponents("", game) == ()
    assert opponents[1].name == "uct(exploration=0.5), 100 simulations"
    for wrong in ("uct(simulations=0)", "uct(simulations=many)", "uct(opening_moves=-1)", "utc"):
        with pytest.raises(EngramError):
            parse_opponents(wrong, game)


def test_an_opponent_in_training_may_have_its_own_budget():
    own = replace(SMALL, opponent="uct(exploration=0.5,simulations=7)")
    assert own.opponent_limit.simulations == 7 and own.made_opponent.text == "uct(exploration=0.5)"
    assert replace(SMALL, opponent="random").opponent_limit.simulations == 30 and SMALL.made_opponent is None
    plan = EvaluationPlan()
    assert plan.key(own) != plan.key(replace(own, opponent="uct(exploration=0.5,simulations=8)"))


def test_numbers_of_numpy_are_kept_in_the_file(tmp_path):
    numbers = {"simulations": np.int64(20), "epsilon": np.float32(0.25), "capacity": np.int32(2000)}
    done = {}
    for name, settings in (("numpy", numbers), ("python", {name: value.item() for name, value in numbers.items()})):
        plan = EvaluationPlan(every=numbers["simulations"], games=np.int64(2))
        train(TdConfiguration("tic_tac_toe", **settings), tmp_path / name, episodes=3, plan=plan, database=":memory:")
        done[name] = (tmp_path / name).read_bytes()
    assert done["numpy"] == done["python"]


@pytest.mark.parametrize("change", [{"epsilon": 1.5}, {"replay": -0.1}, {"simulations": 0}, {"discount": 2.0},
                                    {"game": "chess"}, {"opponent": "nobody"}, {"opponent": "uct,random"},
                                    {"opponent": "uct(opening_moves=2)"}, {"bootstrap": "worst"},
                                    {"capacity": 0}, {"opening_moves": -1}, {"earlier": 2.0}, {"snapshot_every": 0},
                                    {"learn_from": "rollouts"}, {"opening_moves": 1.5}, {"opponent": 5},
                                    {"epsilon": "x"}, {"replay": True}, {"symmetric": "false"}, {"trace_decay": "x"},
                                    {"learn_from": "positions", "bootstrap": "best"}])  # fmt: skip
def test_a_configuration_out_of_range_is_refused(change):
    with pytest.raises(EngramError):
        TdConfiguration(**{"game": "tic_tac_toe", **change})
    for plan in (
        {"every": 0},
        {"games": 3},
        {"every": 1.5},
        {"every": math.nan},
        {"games": 4.0},
        {"opening_moves": -1},
    ):
        with pytest.raises(InvalidParameter):
            EvaluationPlan(**plan)


# -------------------------------------------------------------------------- why isn't it learning?


def healthy(count=100):
    history = np.zeros(count, episode_dtype)
    history["outcome"], history["moves"] = np.resize([1, -1], count), 9
    history["game"] = np.arange(count)
    history["played_states"], history["plain_states"] = np.arange(count) * 20, np.arange(count) * 38
    history["concentration"], history["visits"] = 0.6, 500
    history["largest"] = 0.9
    return history


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({}, {}, None),
        ({"outcome": 0, "largest": 0}, {}, "reward never reached"),
        ({"outcome": 0}, {}, None),  # draws between good players are no fault
        ({"visits": 50_000}, {"min_step": 0.0}, "step size vanished"),
        ({"visits": 50_000}, {}, None),
        ({"concentration": 0.995}, {}, "exploration collapsed"),
        ({"game": 7}, {}, "the same game again and again: only 1 different"),
        ({}, {"symmetric": False}, "symmetric positions not shared: 8"),
        ({"played_states": 4000, "plain_states": 4000}, {}, "symmetric positions not shared"),
    ],
)
def test_each_cause_is_named(changes, options, words):
    history = healthy()
    for name, value in changes.items():
        history[name] = value
    causes = diagnose(replace(SMALL, **options), engram.game("tic_tac_toe"), history)
    assert (causes == []) if words is None else (len(causes) == 1 and words in causes[0]), causes
    assert diagnose(SMALL, engram.game("tic_tac_toe"), history[:10]) == []


def trained(game_text, episodes=30, **options):
    learner = TdLearner(TdConfiguration(game_text, **{"simulations": 60, "capacity": 5000, **options}))
    for _ in range(episodes):
        learner.episode()
    return diagnose(learner.configuration, learner.game, learner.history)


DRAWN = """
import numpy as np
from engram import Game
board = np.zeros(1, np.dtype([("left", np.int64), ("player", np.int64)]))
board["left"] = 15
def legal_actions(state, actions):
    count = min(state.left, 3)
    for action in range(count):
        actions[action] = action
    return count
def play(state, action):
    state.left -= action + 1
    state.player = 1 - state.player
    return np.int64(state.left == 0)
def outcome(state):
    return 1.0 if state.player == 1 else -1.0
def to_play(state):
    return state.player
def position_hash(state):
    return np.uint64(state.left * 2 + state.player)
def never(state):
    return 0.0
def nothing(state, rng):
    return 0.0
drawn = Game("drawn", state=board, num_actions=3, max_moves=15, legal_actions=legal_actions, play=play,
             outcome=never, to_play=to_play, hash=position_hash, rollout=nothing)
"""

TURNED = """
import engram
from engram import presets
from engram.native.jit import compiled
from engram.games.line import one_word as line
right = compiled(line.rollout)
def rollout(state, rng):
    return -right(state, rng)
turned = engram.Game("turned", state=line.line(4, 4, 3).initial_state(), num_actions=16, max_moves=16,
    legal_actions=line.legal_actions, play=line.play, outcome=line.outcome, to_play=line.to_play,
    hash=line.position_hash, rollout=rollout)
"""


def test_causes_are_found_in_real_trainings(tmp_path):
    files = {name: tmp_path / f"{name}.py" for name in ("drawn", "turned")}
    files["drawn"].write_text(DRAWN)
    files["turned"].write_text(TURNED)
    assert any("reward never reached" in finding for finding in trained(f"{files['drawn']}:drawn"))
    assert any("sign of view" in finding for finding in trained(f"{files['turned']}:turned"))
    right = trained("line:rows=4,columns=4,run=3", epsilon=0.2)
    assert not any("sign of view" in finding for finding in right)
    collapsed = trained("tic_tac_toe", exploration=0.0, simulations=300)
    assert any("the same game again" in finding or "exploration collapsed" in finding for finding in collapsed)
    assert any("symmetric positions" in finding for finding in trained("tic_tac_toe", symmetric=False))


# ------------------------------------------------------------------------------------------ curves


def points():
    return [
        Point(seed, episode, "uct", 100, 40 + 5 * seed + episode // 10, 10, 0, 90, 10 * episode, 1000 * episode)
        for seed in range(3)
        for episode in (0, 100, 200)
    ]


def test_a_band_is_student_s_interval_over_seeds():
    result = band(points())
    assert result.episodes.tolist() == [0, 100, 200] and result.seeds.tolist() == [3, 3, 3]
    assert result.mean[0] == pytest.approx(0.5)
    half = 4.302653 * 0.05 / np.sqrt(3)  # t of 2 degrees of freedom; scores 0.45, 0.50, 0.55
    assert (result.low[0], result.high[0]) == pytest.approx((0.5 - half, 0.5 + half))
    alone = band(points()[:1])
    assert (alone.low[0], alone.high[0]) == pytest.approx(wilson(0.45, 100))
    assert wilson(0.5, 100) == pytest.approx((0.403832, 0.596168), abs=1e-6)
    for games in range(1, 101):  # rounding once put the share outside its interval
        assert wilson(0.0, games)[0] == 0.0 and wilson(1.0, games)[1] == 1.0
    equal = band([Point(seed, 0, "uct", 10, 10, 0, 0, 0, 0, 0) for seed in range(2)])  # equal by chance
    assert (equal.low[0], equal.high[0]) == pytest.approx(wilson(1.0, 20))
    assert len(band([]).episodes) == 0 and sparkline([0.0, 0.5, 1.0]) == "▁▅█"


def test_curves_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw(tmp_path / "a.png", "title", points())
    draw(tmp_path / "a.html", "a < b", points())
    draw_small_multiples(tmp_path / "b.png", "title", {"min_step": {"0.1": points()}, "λ": {"1": points()}})
    assert (tmp_path / "a.png").read_bytes()[:4] == (tmp_path / "b.png").read_bytes()[:4] == b"\x89PNG"
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "a &lt; b" in page and page.count("<tr>") == 10
    with pytest.raises(InvalidFile, match="cannot be written"):
        draw(tmp_path / "none" / "a.png", "title", points())


# ---------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-g", "conect_four"], "did you mean 'connect_four'"),
        (["--evaluate", "alpha_bet(depth=4)"], "did you mean 'alpha_beta'"),
        (["--bootstrap", "worst"], "'taken' or 'best'"),
        (["--epsilon", "2"], "--epsilon': it must be a number from 0 to 1"),
        (["--games", "3"], "games must be even"),
        (["--rollout", "wild"], "rollout is 'uniform' or 'heavy'"),
        (["-d", "/no/such/folder/x.sqlite"], "cannot be opened"),
    ],
)
def test_bad_input_gets_one_sentence(tmp_path, arguments, words):
    result = CliRunner().invoke(app, ["train", "td", "-o", str(tmp_path / "x.table"), "--episodes", "0", *arguments])
    assert result.exit_code == 2 and words in result.output and "Traceback" not in result.output


def test_a_file_of_another_training_is_refused(tmp_path):
    common = ["train", "td", "-o", str(tmp_path / "x.table"), "-d", str(tmp_path / "x.sqlite"), "--episodes", "1",
              "-g", "tic_tac_toe", "-n", "10", "--capacity", "2000"]  # fmt: skip
    assert CliRunner().invoke(app, common).exit_code == 0
    other = CliRunner().invoke(app, [*common, "--discount", "0.5"])
    assert other.exit_code == 2 and "discount 0.9, not 0.5" in other.output


def test_a_failing_evaluation_keeps_the_points_before_it(tmp_path, monkeypatch):
    def fails(*_):
        raise KeyboardInterrupt

    plan = replace(PLAN, measure=fails)
    with pytest.raises(KeyboardInterrupt):
        train(SMALL, tmp_path / "x.table", episodes=0, seeds=(0,), plan=plan, database=tmp_path / "x.sqlite")
    with TrainingResults(tmp_path / "x.sqlite") as results:
        assert {point.opponent for point in results.points(plan.key(SMALL))} == {entry.name for entry in PLAN.opponents}


@pytest.mark.parametrize("curve", ["none/curve.png", "."])
def test_a_picture_that_cannot_be_drawn_is_refused_before_the_first_episode(tmp_path, monkeypatch, curve):
    monkeypatch.chdir(tmp_path)
    command = ["train", "td", "-g", "tic_tac_toe", "--episodes", "20", "--simulations", "10", "--output", "a.table"]
    refused = CliRunner().invoke(app, [*command, "--curve", curve])
    assert refused.exit_code == 2 and "cannot be written" in refused.output
    assert not (tmp_path / "a.table").exists()


def test_a_joined_table_is_not_replaced_by_one_of_fewer_seeds(tmp_path):
    table = tmp_path / "c.table"
    train(SMALL, table, episodes=4, seeds=(0, 1))
    before = table.read_bytes()
    for seeds in ((0,), (7,)):
        with pytest.raises(InvalidFile, match="joins the seeds 0, 1: ask for all of them"):
            train(SMALL, table, episodes=4, seeds=seeds)
    assert table.read_bytes() == before
    train(SMALL, table, episodes=4, seeds=(0, 1, 2))


def test_ctrl_c_in_a_measurement_promises_no_recorded_game():
    played = engram.match("tic_tac_toe", "random", "random", games=2, workers=1, database=":memory:")
    assert str(MatchInterrupted(played)) == "interrupted"


def test_snapshots_are_no_files_of_seeds(tmp_path):
    table, earlier = tmp_path / "b.table", replace(SMALL, earlier=0.5, snapshot_every=2)
    train(earlier, table, episodes=6)
    seed_file(table, 0).unlink()
    assert list(tmp_path.glob("b.seed0.episode*"))
    with pytest.raises(InvalidFile, match="without the files of its seeds"):
        train(earlier, table, episodes=2)


def test_another_version_measures_anew(tmp_path, monkeypatch):
    values = iter(range(100))
    plan = EvaluationPlan(every=2, measure=lambda configuration, table: {"calls": next(values)})
    for name, version, first in (("a", "1", 0.0), ("a", "1", 0.0), ("b", "1", 0.0), ("c", "2", 3.0)):
        monkeypatch.setattr("engram.__version__", version)
        points = train(SMALL, tmp_path / name, episodes=4, plan=plan, database=tmp_path / "r.sqlite")
        assert points[0].measured == {"calls": first}


def test_an_interrupted_extension_leaves_the_joined_table_to_its_seeds(tmp_path):
    table = tmp_path / "c.table"
    train(SMALL, table, episodes=4)
    (tmp_path / "c.seed5.table").write_bytes(b"begun, and left")
    assert train(SMALL, table, episodes=4) == []


def test_measures_and_opponents_of_another_kind_are_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="numbers by name, not 3"):
        train(SMALL, tmp_path / "a", episodes=0, plan=EvaluationPlan(measure=lambda configuration, table: 3))
    with pytest.raises(InvalidParameter, match="parse_opponents"):
        EvaluationPlan("random")
    for options in ({"seeds": 3}, {"seeds": [0.5]}, {"episodes": "20"}, {"episodes": 2.5}):
        with pytest.raises(InvalidParameter, match="whole number"):
            train(SMALL, tmp_path / "a", **{"episodes": 2, **options})


def test_the_player_of_a_file_is_the_one_that_was_measured(tmp_path):
    assert SMALL.player_text("a b.table") == Specification("td_uct", options={"table": "a b.table"}).text
    other = replace(SMALL, exploration=0.2, rollout="heavy")
    text = other.player_text(tmp_path / "it's.table")
    assert "exploration=0.2" in text
    train(other, tmp_path / "it's.table", episodes=2)
    made = preset(text)
    assert (str(made.selection), made.rollout) == (str(other.preset(Table(1), learn=False).selection), "heavy")


def test_trust_needs_a_table_that_does_not_learn(tmp_path):
    train(SMALL, tmp_path / "a.table", episodes=2)
    with pytest.raises(InvalidParameter, match="needs a table that does not learn"):
        presets.td_uct(table=tmp_path / "a.table", learn=True, trust=5)
    with pytest.raises(InvalidParameter, match="table is a file or a Table, not 3"):
        presets.td_uct(table=3)
    search = Search("tic_tac_toe", presets.td_uct(table=tmp_path / "a.table"))
    assert search.run(search.game.initial_state(), Limit(simulations=10)).simulations == 10
