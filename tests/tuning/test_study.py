"""Studies: resumed after a kill with the same games, joined, confirmed, reported, and refused in one sentence."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("optuna")
pytest.importorskip("botorch")

import optuna
import sqlalchemy
from sqlalchemy.exc import OperationalError

from engram.arena.database import Database
from engram.arena.match import match
from engram.arena.results import Results
from engram.cli.app import app
from engram.errors import DatabaseError, EngramError, InvalidParameter, InvalidSpecification
from engram.tuning.charts import write_report
from engram.tuning.findings import findings
from engram.tuning.objective import MatchObjective
from engram.tuning.sampler import GAMES, observe
from engram.tuning.space import Space, Tunable, space
from engram.tuning.study import CLAIM, RECOMMENDED, Study, recorded_study
from tests.progress import num_recorded

WHERE = space("uct", tune=["exploration=0.2:3:log"])
FRAGILE = """
from engram.arena.opponents import RandomPlayer

class Fragile(RandomPlayer):
    def __init__(self, game, x):
        super().__init__(game)
        self.x = x

    def choose(self, state, limit, seed):
        if self.x > 0.7:
            raise ZeroDivisionError("x is too large")
        return super().choose(state, limit, seed)

def fragile(game, x=0.5):
    return Fragile(game, x)
"""


def objective(file, seed=1):
    return MatchObjective("tic_tac_toe", WHERE, "random", 20, None, None, None, seed, str(file))


@pytest.mark.parametrize("bounds", ["1:3", "1:51", "1:101"])
def test_a_range_of_whole_numbers_without_its_mark_is_refused_before_a_trial(tmp_path, bounds):
    open_range = replace(objective(tmp_path / "s.sqlite"), space=space("uct", tune=[f"expand_after={bounds}"]))
    with pytest.raises(InvalidSpecification, match=r"whole number.*written LOW:HIGH:int"):
        open_range.check()


def study(file, seed=1):
    return Study(objective(file, seed), max_games=100, confirm_games=20, trial_games=100)


def games_by_match(file):
    with Results(file, must_exist=True) as results:
        return {entry.id: [game.moves for game in results.games(entry.id)] for entry in results.matches()}


def test_a_study_spends_its_games_and_confirms_on_fresh_ones(tmp_path):
    file = tmp_path / "s.sqlite"
    reports = []
    tuning = study(file)
    tuning.search(reports.append)
    assert reports[-1].games == 80
    assert sum(entry.games for entry in tuning.observations()) == 80
    result = tuning.confirm()
    assert result.games == 20
    assert result.score > 0.7
    played = games_by_match(file)
    assert sum(map(len, played.values())) == 100
    again = study(file)
    again.search(lambda progress: pytest.fail("nothing was left to play"))
    assert again.confirm().match_id == result.match_id
    assert games_by_match(file) == played


@pytest.mark.parametrize("number", [60.0, 100.5, math.nan, math.inf, "60"])
def test_a_budget_is_of_whole_games(number, tmp_path):
    for name in ("max_games", "trial_games", "confirm_games"):
        with pytest.raises(InvalidParameter, match=f"{name} must be a whole number, not {number!r}"):
            Study(objective(tmp_path / "s"), **{"max_games": 100, "trial_games": 20, name: number})


def test_a_database_may_be_a_path_and_ranges_may_be_numbers_of_numpy(tmp_path):
    ranges = (
        Tunable("exploration", np.float32(0.25), np.float32(3)),
        Tunable("expand_after", np.int64(1), 4, integer=True),
    )
    plain = Tunable("exploration", 0.25, 3.0), Tunable("expand_after", 1, 4, integer=True)
    path = tmp_path / "s.sqlite"
    begun = [
        Study(replace(objective(path), database=file, space=Space("uct", tunables)), max_games=100, trial_games=20)
        for file, tunables in ((path, ranges), (str(path), plain))
    ]
    names = {each.optuna.study_name for each in begun}
    assert len(names) == 1 and recorded_study(path, names.pop())[0].tunables == plain


def test_an_objective_that_cannot_be_named_is_no_fault_of_the_database(tmp_path, monkeypatch):
    monkeypatch.setattr(MatchObjective, "identity", property(lambda self: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        study(tmp_path / "s.sqlite")


def test_the_games_and_the_study_lie_in_the_file_that_was_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("w?1", "w?2", "50%20{a}"):
        fresh = study(name)
        fresh.search()
        assert sum(entry.games for entry in fresh.observations()) == 80
    assert {file.name.rsplit("-")[0] for file in tmp_path.iterdir()} == {"w?1", "w?2", "50%20{a}"}


def test_a_trial_left_behind_is_taken_up_and_nothing_counts_twice(tmp_path):
    file = tmp_path / "s.sqlite"
    tuning = study(file)
    slices = []

    def stop(progress):
        slices.append(progress)
        if len(slices) == 3:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        tuning.search(stop)
    before = games_by_match(file)
    study(file).search()
    after = games_by_match(file)
    assert all(after[match][: len(moves)] == moves for match, moves in before.items())
    assert sum(map(len, after.values())) == 80
    assert {trial.state.name for trial in tuning.trials()} <= {"COMPLETE", "PRUNED"}
    assert sum(trial.user_attrs[GAMES] for trial in tuning.trials()) == 80


PAIR = space("uct", tune=["exploration=0.2:3:log", "first_play_urgency=0:1"])


def of_two_numbers(file):
    """A study that chooses its trials 6 to 8 by the posterior."""
    return Study(replace(objective(file), space=PAIR), max_games=76, confirm_games=4, trial_games=80)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    file = tmp_path_factory.mktemp("undisturbed") / "s.sqlite"
    of_two_numbers(file).search()
    return games_by_match(file)


class Killed(BaseException):
    """The processor has done the last of this process."""


def die():
    raise Killed


def killed_before(write, file, die=die):
    """Plays a study, and dies before so many writes after its first seven trials."""
    tuning, done = of_two_numbers(file), [0]
    storage = tuning.optuna._storage

    def mortal(act, *values, **options):
        done[0] += sum(trial.state.is_finished() for trial in tuning.trials()) >= 7
        if done[0] > write:
            die()
        return act(*values, **options)

    for name in ("create_new_trial", "set_trial_param", "set_trial_user_attr", "set_trial_intermediate_value",
                 "set_trial_state_values"):  # fmt: skip
        setattr(storage, name, partial(mortal, getattr(storage, name)))
    tuning.search()


CHOOSING, WRITES = 2, 12
"""Writes of a trial: itself and a claim, then each number of its point, ...; at last its end."""


@pytest.fixture(scope="module")
def seven_trials(tmp_path_factory):
    file = tmp_path_factory.mktemp("seven") / "s.sqlite"
    with pytest.raises(Killed):
        killed_before(0, file)
    assert len(games_by_match(file)) == 7
    return file


@pytest.fixture
def file(seven_trials, tmp_path):
    """A copy of the seven trials."""
    copy = tmp_path / "s.sqlite"
    with closing(sqlite3.connect(seven_trials)) as source, closing(sqlite3.connect(copy)) as empty:
        source.backup(empty)
    return copy


def test_a_process_killed_while_it_chooses_a_point_changes_no_game(file, undisturbed):
    code = f"import os; from tests.tuning import test_study as t; t.killed_before({CHOOSING}, {str(file)!r}, os.abort)"
    killed = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGABRT, killed.stderr
    again = of_two_numbers(file)
    assert len(again.trials()) == 8 and not again.trials()[7].params
    again.search()
    assert games_by_match(file) == undisturbed
    assert [trial.number for trial in again.trials()] == list(range(9))


@pytest.mark.parametrize("write", range(WRITES))
def test_a_kill_before_any_write_of_a_trial_changes_no_game(write, file, undisturbed):
    with pytest.raises(Killed):
        killed_before(write, file)
    of_two_numbers(file).search()
    assert games_by_match(file) == undisturbed


PLAYERS = """
import engram

def some(width=1.0):
    if 1.3 < width < 2.5:
        raise ValueError("no such width")
    return engram.presets.uct(exploration=width)

def comb(width=1.0):
    if round(width * 10) % 2 and width < 4.0:
        raise ValueError("no such width")
    return engram.presets.uct(exploration=width)
"""


def test_a_point_without_a_player_is_left_out_and_the_study_goes_on(tmp_path):
    (tmp_path / "players.py").write_text(PLAYERS)
    where = space(f"{tmp_path / 'players.py'}:some", tune=["width=1:4"])
    study = Study(replace(objective(tmp_path / "s"), space=where), max_games=100, confirm_games=20, trial_games=100)
    study.search()
    failed = [trial for trial in study.trials() if trial.state == optuna.trial.TrialState.FAIL]
    assert failed and all(1.3 < trial.params["width"] < 2.5 for trial in failed)
    assert len(study.faults()) == len(failed) and "no such width" in study.faults()[0]
    assert sum(entry.games for entry in study.observations()) == 80
    assert not 1.3 < where.values(study.recommendation().point)["width"] < 2.5


def test_the_recommended_point_has_a_player(tmp_path):
    (tmp_path / "players.py").write_text(PLAYERS)
    where = space(f"{tmp_path / 'players.py'}:comb", tune=["width=1:4.2"])
    study = Study(replace(objective(tmp_path / "s", 5), space=where), max_games=60, confirm_games=20, trial_games=30)
    study.search()
    study.objective.make(where.values(study.recommendation().point))
    assert any(entry.games == 0 for entry in study.observations())
    assert study.confirm().games == 20


def test_others_trials_are_left_alone(tmp_path):
    file = tmp_path / "s.sqlite"
    tuning = study(file)
    trial = tuning.optuna.ask(WHERE.ranges)
    trial.set_user_attr(CLAIM, {"host": "another", "process": 1, "time": time.time()})
    assert tuning._adopt() is None
    for seconds in (-10_000, 10_000):  # the other one's clock was ahead, or it is gone
        trial.set_user_attr(CLAIM, {"host": "another", "process": 1, "time": time.time() - seconds})
        assert tuning._adopt() is not None


def test_machines_need_not_agree_on_the_time(tmp_path, monkeypatch):
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() + 3600.0)
    assert abs(study(tmp_path / "s.sqlite")._claim()["time"] - real()) < 60.0


def test_a_machine_with_another_build_of_engram_is_refused(tmp_path):
    file = tmp_path / "s.sqlite"
    trial = study(file).optuna.ask(WHERE.ranges)
    trial.set_user_attr(CLAIM, {"host": "another", "process": 1, "time": time.time(), "build": "x"})
    with pytest.raises(DatabaseError, match="another process plays this study with other source files"):
        study(file)


def test_a_player_that_fails_in_a_game_is_left_out_and_the_study_goes_on(tmp_path):
    (tmp_path / "fragile.py").write_text(FRAGILE)
    where = space(f"{tmp_path}/fragile.py:fragile", tune=["x=0:1"])
    fragile = replace(objective(tmp_path / "s.sqlite"), space=where)
    tuning = Study(fragile, max_games=64, confirm_games=4, trial_games=20)
    tuning.search()
    assert any("x is too large" in fault for fault in tuning.faults())
    assert sum(entry.games for entry in tuning.observations()) == 60


def test_the_claim_on_a_trial_is_renewed_while_a_game_lasts(tmp_path, monkeypatch):
    monkeypatch.setattr("engram.tuning.study._LEASE_S", 0.2)
    tuning = study(tmp_path / "s.sqlite")
    trial = tuning.optuna.ask(WHERE.ranges)
    trial.set_user_attr(CLAIM, {"host": "another", "process": 1, "time": 0.0})
    with tuning._renewed(trial):
        end = time.monotonic() + 60.0
        while tuning.trials()[0].user_attrs[CLAIM]["time"] == 0.0 and time.monotonic() < end:
            time.sleep(0.05)
    assert tuning.trials()[0].user_attrs[CLAIM]["time"] > 0.0


def test_a_process_of_another_machine_with_our_number_is_not_us(tmp_path):
    tuning = study(tmp_path / "s.sqlite")
    trial = tuning.optuna.ask(WHERE.ranges)
    trial.set_user_attr(CLAIM, {"host": "another", "process": os.getpid(), "owner": "x", "time": time.time()})
    assert tuning._adopt() is None


def test_a_trial_that_another_finished_meanwhile_is_left_to_it(tmp_path):
    first, other = study(tmp_path / "s.sqlite"), study(tmp_path / "s.sqlite")
    reports = []

    def be_slow(progress):
        if not reports:
            trial = other.trials()[0]
            other.optuna.tell(trial.number, state=optuna.trial.TrialState.PRUNED)
        reports.append(progress)

    first.search(be_slow)
    assert sum(entry.games for entry in first.observations()) == 80
    assert {trial.state.name for trial in first.trials()} <= {"COMPLETE", "PRUNED"}


def test_a_database_that_is_made_by_two_at_once_is_opened_by_both(tmp_path, monkeypatch):
    make, errors = optuna.create_study, []

    def meets(**arguments):
        if len(errors) < 2:
            errors.append(OperationalError("CREATE", {}, Exception("table studies already exists")))
            raise errors[-1]
        return make(**arguments)

    monkeypatch.setattr(optuna, "create_study", meets)
    assert study(tmp_path / "s.sqlite").trials() == []
    assert len(errors) == 2


def test_all_processes_recommend_the_same(tmp_path):
    first, other = study(tmp_path / "s.sqlite"), study(tmp_path / "s.sqlite")
    early = first.optuna.ask(WHERE.ranges)
    observe(early, 0.5, 0.1, 2)
    first.optuna.tell(early, 0.5)
    assert first.recommendation() == first.best()
    assert not any(name.startswith(RECOMMENDED) for name in first.optuna.user_attrs)
    first.search()
    best = first.recommendation()
    late = first.optuna.ask(WHERE.ranges)
    observe(late, 1.0, 1e-6, 10_000)
    first.optuna.tell(late, 1.0)
    assert other.best().point != best.point
    assert other.recommendation() == first.recommendation() == best
    assert str(first.space.values(best.point)["exploration"])[:5] in str(first.confirm().configuration.a)


def test_a_study_of_one_slice_has_its_report(tmp_path):
    arguments = [*ARGUMENTS, "--storage", str(tmp_path / "s"), "--report", str(tmp_path / "r")]
    arguments[arguments.index("--max-games") + 1] = "40"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "r" / "tuning.json").read_text())
    assert len(report["progress"]) == 1
    assert len(report["slices"]["exploration"]["mean"]) == len(report["slices"]["exploration"]["value"])


def test_a_study_of_words_is_resumed_confirmed_and_reported(tmp_path):
    file = str(tmp_path / "s.sqlite")
    words = ["tune", "-g", "tic_tac_toe", "-s", "uct", "--against", "random", "-n", "20", "--trial-games", "20"]
    words += ["--max-games", "80", "--confirm-games", "20", "--storage", file, "--report", str(tmp_path / "r")]
    words += ["--tune", "backup=average|erwa(step=0.1)|softmax", "--tune", "exploration=0.2:3:log"]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    again = CliRunner().invoke(app, words)
    assert again.stdout == first.stdout and re.search(
        r"best: uct\(backup=(average|erwa\(step=0.1\)|softmax)", again.stdout
    )
    report = json.loads((tmp_path / "r" / "tuning.json").read_text())
    scores = report["slices"]["backup"]
    assert sorted(scores["value"]) == ["average", "erwa(step=0.1)", "softmax"]
    at = scores["mean"][scores["value"].index(report["values"]["backup"])]
    assert at == pytest.approx(report["posterior"]["mean"], abs=1e-6), "the slices lead through the recommended point"
    assert set(report["importance"]) == {"backup", "exploration"}
    page = (tmp_path / "r" / "index.html").read_text()
    assert "backup, the rest as recommended" in page and "Score along exploration" in page
    with closing(sqlite3.connect(file)) as database:
        (name,) = database.execute("select study_name from studies").fetchone()
    recorded, entries, seed = recorded_study(file, name)
    assert recorded.alternatives[0].name == "backup" and {len(entry.point) for entry in entries} == {4}
    write_report(str(tmp_path / "again"), "A title", recorded, findings(recorded, entries, seed), None)
    assert sorted(file.name for file in (tmp_path / "again").iterdir()) == ["index.html", "tuning.json", "tuning.png"]


def test_a_word_of_which_no_player_is_made_is_refused_before_a_trial(tmp_path):
    wrong = replace(objective(tmp_path / "s.sqlite"), space=space("uct", tune=["backup=average|averag"]))
    with pytest.raises(EngramError, match="averag"):
        wrong.check()


def test_games_that_are_resigned_make_another_study(tmp_path):
    played_out = objective(tmp_path / "s.sqlite")
    resigned = replace(played_out, resign=0.9)
    assert resigned.key != played_out.key
    assert resigned.play({"exploration": 1.0}, 0, 2).configuration.resign == 0.9


def test_every_part_of_an_objective_is_played_and_makes_another_study(tmp_path):
    plain = objective(tmp_path / "s.sqlite")
    changed = {"simulations": 7, "seconds": 1.0, "opening_moves": 3, "resign": 0.9, "seed": 4, "against": "uct"}
    for name, value in changed.items():
        other = replace(plain, **{name: value})
        assert other.key != plain.key
        played = [variant.play({"exploration": 1.0}, 3, 2).configuration.to_json() for variant in (plain, other)]
        assert played[0] != played[1], name


def test_the_options_of_a_study_reach_its_games(tmp_path):
    tuning = Study(objective(tmp_path / "s.sqlite"), max_games=300, confirm_games=40, trial_games=60, acquisition="ucb")
    counts = []
    play = lambda values, name, games, **_: counts.append(games) or Played(games)  # noqa: E731
    tuning.objective = SimpleNamespace(play=play, fault_at=lambda values: "")
    tuning.search()
    assert counts[0] == 6 and max(counts) == 60 and tuning._sampler._acquisition == "ucb"
    assert sum(entry.games for entry in tuning.observations()) == 260


@dataclass
class Played:
    games: int
    score: float = 0.5
    score_low: float = 0.4
    score_high: float = 0.6


ARGUMENTS = [
    "tune", "-g", "tic_tac_toe", "-s", "uct", "--against", "random", "--tune", "exploration=0.2:3:log", "-n", "200",
    "--max-games", "140", "--confirm-games", "20", "--trial-games", "200", "--seed", "5",
]  # fmt: skip


def test_killed_and_resumed_from_the_command_line(tmp_path):
    file = tmp_path / "s.sqlite"
    command = [sys.executable, "-m", "engram", *ARGUMENTS, "--storage", str(file)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and num_recorded(file) < 30:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = games_by_match(file)
    assert 30 <= sum(map(len, before.values())) < 140
    result = CliRunner().invoke(app, [*ARGUMENTS, "--storage", str(file), "--report", str(tmp_path / "r"), "--json"])
    assert result.exit_code == 0, result.output
    after = games_by_match(file)
    assert all(after[match][: len(moves)] == moves for match, moves in before.items())
    assert Counter(map(len, after.values())).total() == len(after)
    assert sum(map(len, after.values())) == 140
    shown = json.loads(result.stdout)
    assert shown["games"] == 120
    assert shown["confirmation"]["games"] == 20
    page = (tmp_path / "r" / "index.html").read_text()
    assert shown["best"] in page
    assert (tmp_path / "r" / "tuning.png").stat().st_size > 10_000


def test_two_processes_share_one_study(tmp_path):
    file = tmp_path / "s.sqlite"
    command = [sys.executable, "-m", "engram", *ARGUMENTS, "--storage", str(file)]
    other = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and num_recorded(file) == 0:
            time.sleep(0.05)
        result = CliRunner().invoke(app, [*ARGUMENTS, "--storage", str(file), "--json"])
        assert result.exit_code == 0, result.output
        assert other.wait(timeout=200) == 0
    finally:
        other.kill()
    shown = json.loads(result.stdout)
    assert shown["confirmation"]["games"] == 20
    played = games_by_match(file)
    # Both work until the games are spent; what one has begun by then it plays to its end.
    assert 140 <= sum(map(len, played.values())) <= 140 + 2 * 20
    with Results(file, must_exist=True) as results:
        numbers = [sorted(game.number for game in results.games(entry.id)) for entry in results.matches()]
    assert all(row == list(range(len(row))) for row in numbers)
    storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
    claims = [
        trial.user_attrs.get(CLAIM, {}).get("process")
        for study in optuna.get_all_study_names(storage)
        for trial in optuna.load_study(study_name=study, storage=storage).trials
    ]
    assert len(set(claims) - {None}) == 2, claims


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-s", "uct"], "nothing to tune"),
        (["-s", "uct", "--tune", "explore=0.1:1"], "no option 'explore'"),
        (["-s", "uct(backup=softmax)", "--knots", "3", "--knot-range", "x"], "low:high"),
        (["-s", "uct(backup=average)", "--knots", "3"], "average has no option 'knots'; it takes none"),
        (["-s", "uct", "--tune", "exploration=1:2", "--max-games", "10"], "for trials"),
        (["-s", "uct", "--tune", "exploration=1:2", "--confirm-games", "3"], "even number"),
        (["-s", "uct", "--tune", "exploration=1:2", "--storage", "nowhere://x"], "not in nowhere"),
        (["-s", "uct", "--tune", "exploration=1:2", "--against", "nobody"], "nobody"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["tune", *arguments])
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert re.search(sentence, lines[0])


@pytest.fixture(scope="module")
def whole_study(tmp_path_factory):
    """The database of a study that has spent its games, as one file."""
    folder = tmp_path_factory.mktemp("whole_study")
    tuning = study(folder / "s.sqlite")
    tuning.search()
    tuning.recommendation()
    with closing(sqlite3.connect(folder / "s.sqlite")) as played, closing(sqlite3.connect(folder / "whole")) as copy:
        played.backup(copy)
    shutil.copyfile(folder / "whole", folder / "again")
    assert study(folder / "again").recommendation() == tuning.recommendation()
    return folder / "whole"


@pytest.mark.parametrize(
    "damage",
    [
        "update trial_params set distribution_json = 'x'",
        "update trial_user_attributes set value_json = '[[['",
        "update trial_user_attributes set value_json = '\"x\"'",
        "update trial_values set value_type = 'x'",
        "update trials set state = 'x'",
        "update study_user_attributes set value_json = '3'",
        "update trial_user_attributes set value_json = 'NaN' where value_json not like '{%'",
        "update trial_params set param_name = 'x'",
    ],
)
def test_a_damaged_study_is_one_sentence(damage, whole_study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(whole_study, "s.sqlite")
    with closing(sqlite3.connect("s.sqlite")) as database, database:
        database.execute(damage)
    with pytest.raises(DatabaseError, match=r"the study cannot be (kept in|read from) .*s\.sqlite"):
        study(tmp_path / "s.sqlite")


def test_a_database_without_studies_is_only_read(tmp_path):
    match("tic_tac_toe", "random", "random", games=2, workers=1, database=tmp_path / "m.sqlite")
    with pytest.raises(DatabaseError, match="holds no study"):
        recorded_study(str(tmp_path / "m.sqlite"), "x")
    with Database(tmp_path / "m.sqlite", must_exist=True) as database:
        assert "studies" not in sqlalchemy.inspect(database.engine).get_table_names()
