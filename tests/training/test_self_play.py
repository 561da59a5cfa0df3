"""Self-play: what is learnt is what was searched and what came of it; a killed training goes on."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from engram import storage
from engram.arena.results import Results
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.errors import InvalidFile, InvalidGame, InvalidParameter, InvalidSpecification
from engram.games.catalogue import game as game_of
from engram.presets.catalogue import preset
from engram.search.evaluation import Evaluation

torch = pytest.importorskip("torch")

from engram.networks.network import load_network  # noqa: E402
from engram.training import curves, self_play_training  # noqa: E402
from engram.training.history import recorded_points  # noqa: E402
from engram.training.replay import Examples, Replay  # noqa: E402
from engram.training.run import NETWORK, TrainingRun  # noqa: E402
from engram.training.self_play import SelfPlay, SelfPlayOptions  # noqa: E402
from engram.training.self_play_training import SelfPlayPlan, train_self_play  # noqa: E402

TIC_TAC_TOE = game_of("tic_tac_toe")
OPTIONS = SelfPlayOptions(num_games=8, simulations=24, fast_simulations=8, full_share=0.5)


class Flat:
    """Knows nothing: every move alike, every position drawn."""

    def evaluate(self, states):
        return Evaluation(np.zeros(len(states)), np.ones((len(states), TIC_TAC_TOE.num_actions)))


def games(seed=1, **options):
    settings = SelfPlayOptions(**{**OPTIONS.__dict__, **options})
    return SelfPlay(TIC_TAC_TOE, Flat(), None, settings, seed)


def played(under_way, rounds):
    parts = [under_way.play_round() for _ in range(rounds)]
    return Examples(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def test_positions_carry_the_result_for_their_mover():
    examples = played(games(full_share=1.0), 40)
    assert len(examples.value) > 100
    assert np.allclose(examples.policy.sum(1), 1.0, atol=1e-5)
    # The planes are the mover's stones and the other's; nothing was searched where a stone lies.
    assert not (examples.policy.reshape(-1, 3, 3) * examples.planes.sum(1)).any()
    assert np.isin(examples.value, (-1.0, 0.0, 1.0)).all()
    # One empty cell left: the game ends with this move, and the rules say how.
    last = examples.planes.sum((1, 2, 3)) == 8
    for planes, value in zip(examples.planes[last], examples.value[last], strict=True):
        full = planes[0] + (planes.sum(0) == 0)
        lines = [*full, *full.T, np.diag(full), np.diag(full[::-1])]
        assert value == (1.0 if any(line.sum() == 3 for line in lines) else 0.0)


def test_fast_searches_are_not_learnt():
    everything, some = games(full_share=1.0), games(full_share=0.3)
    assert 0 < len(played(some, 60).value) < 0.7 * len(played(everything, 60).value)


class Prefers:
    """Likes the centre four times as well as any other cell."""

    def evaluate(self, states):
        policy = np.ones((len(states), 9))
        policy[:, 4] = 4.0
        return Evaluation(np.zeros(len(states)), policy)


def test_first_moves_are_drawn_by_visits_and_later_ones_are_the_most_visited():
    first = {}
    for warm in (9, 0):
        options = SelfPlayOptions(num_games=64, simulations=24, full_share=1.0, noise_share=0.0, temperature_moves=warm)
        self_play = SelfPlay(TIC_TAC_TOE, Prefers(), None, options, 1)
        self_play.play_round()
        first[warm] = [TIC_TAC_TOE.hash(state) for state in self_play._states]
    (best,) = set(first[0])
    assert len(set(first[9])) > 4 and first[9].count(best) > 64 // 9


def test_gumbel_search_teaches_its_improved_policy():
    """A win in one stands out, although halving gives it few more visits than the others."""
    state = TIC_TAC_TOE.initial_state()
    for action in (0, 3, 1, 4):
        state = TIC_TAC_TOE.play(state, action)  # 2 wins
    limit, shares = Limit(simulations=16), {}
    for rule in ("puct", "gumbel(noise=1)"):
        search = preset("puct" if rule == "puct" else f"puct(selection={rule})", evaluator=Flat())
        (root,) = Lockstep(TIC_TAC_TOE, search, 1).run([state], limit, [0])
        assert root.policy.sum() == pytest.approx(1.0) and np.allclose(root.prior, 0.2)
        shares[rule] = (
            root.policy[root.actions == 2].item(),
            (root.visits / root.visits.sum())[root.actions == 2].item(),
        )
    assert shares["puct"][0] == shares["puct"][1]
    policy, visits = shares["gumbel(noise=1)"]
    assert policy > 0.99 and visits < 0.6


OPTIONS_CHANGED = {
    "num_games": 9, "simulations": 40, "fast_simulations": 20, "full_share": 0.9, "search": "puct(exploration=4.0)",
    "noise_share": 0.9, "noise_concentration": 0.5, "temperature_moves": 0, "root_value_share": 0.5,
    "target_temperature": 0.5,
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS_CHANGED)
def test_no_option_of_the_games_is_without_effect(option):
    plain, changed = (played(games(**changes), 30) for changes in ({}, {option: OPTIONS_CHANGED[option]}))
    assert any(first.tobytes() != other.tobytes() for first, other in zip(plain, changed, strict=True))


def test_games_go_on_from_a_checkpoint():
    full, parts = games(), games()
    expected = [full.play_round() for _ in range(30)]
    for _ in range(11):
        parts.play_round()
    about, arrays = parts.checkpoint()
    again = games()
    again.restore(about, arrays)
    for wanted in expected[11:]:
        for first, other in zip(wanted, again.play_round(), strict=True):
            assert np.array_equal(first, other)
    assert again.finished == full.finished and (again.outcomes == full.outcomes).all()


def test_games_that_are_all_alike_are_named():
    same = games(full_share=1.0, noise_share=0.0, temperature_moves=0, num_games=4)
    played(same, 1000)
    assert any("again and again" in reason for reason in same.why_not_learning())
    assert not any("again and again" in reason for reason in _long(games(temperature_moves=9)).why_not_learning())


def test_games_that_end_alike_are_not_the_same_games():
    game = game_of("dots_and_boxes:2")  # its final positions have all lines drawn

    class Any:
        def evaluate(self, states):
            return Evaluation(np.zeros(len(states)), np.ones((len(states), game.num_actions)))

    several = SelfPlay(game, Any(), None, SelfPlayOptions(num_games=64, simulations=4, temperature_moves=99), 1)
    for _ in range(60):
        several.play_round()
    assert len(np.unique(several._ends[: several.finished])) > 0.9 * several.finished > 150
    assert not any("again and again" in reason for reason in several.why_not_learning())


def _long(under_way):
    played(under_way, 250)
    return under_way


def test_the_window_keeps_the_newest_and_turns_them():
    replay = Replay(TIC_TAC_TOE, (2, 3, 3), 50)
    rng = np.random.default_rng(0)

    def some(first, count):
        planes = np.zeros((count, 2, 3, 3), np.float16)
        policy = np.zeros((count, 9), np.float32)
        # The mover has a stone where the policy is: symmetries must take both to the same cell.
        cells = rng.integers(0, 9, count)
        planes.reshape(count, 2, 9)[np.arange(count), 0, cells] = 1
        policy[np.arange(count), cells] = 1
        return Examples(planes, policy, np.arange(first, first + count, dtype=np.float32))

    for first in range(0, 120, 30):
        replay.add(some(first, 30))
    assert len(replay) == 50
    drawn = replay.draw(400, np.random.default_rng(1))
    assert drawn.value.min() >= 70 and set(drawn.value) == set(range(70, 120))
    assert np.array_equal(drawn.planes[:, 0].reshape(-1, 9), drawn.policy)
    assert len(np.unique(drawn.planes.reshape(400, -1)[drawn.value == 100], axis=0)) > 1
    other = Replay(TIC_TAC_TOE, (2, 3, 3), 50)
    other.restore(replay.arrays(), replay.added)
    for left, right in zip(
        replay.draw(64, np.random.default_rng(2)), other.draw(64, np.random.default_rng(2)), strict=True
    ):
        assert np.array_equal(left, right)


class Knows:
    """Values positions by a short search of its own: a strong player among those that know nothing."""

    def evaluate(self, states):
        values = np.zeros(len(states))
        for row, state in enumerate(states):
            for action in TIC_TAC_TOE.legal_actions(state):
                after = TIC_TAC_TOE.play(state, action)
                if TIC_TAC_TOE.is_over(after) and TIC_TAC_TOE.outcome(after):
                    values[row] = 1.0
        return Evaluation(values, np.ones((len(states), 9)))


def plan(**changed):
    return SelfPlayPlan(**{
        "game": "tic_tac_toe", "network": "residual(blocks=1,filters=8,hidden=8)", "steps": 30, "batch": 32,
        "first": 60, "refresh": 10, "window": 500, "options": OPTIONS, "seed": 4, **changed,
    })  # fmt: skip


def test_training_in_parts_is_training_at_once(tmp_path):
    full = train_self_play(plan(gate_pairs=4, gate_simulations=8), tmp_path / "whole")
    for stop in (3, 7, 20, 30):
        parts = train_self_play(plan(gate_pairs=4, gate_simulations=8), tmp_path / "parts", stop_at=stop)
        assert parts.done == stop
    assert parts.losses == full.losses
    assert (parts.positions, parts.games, parts.networks, parts.refused) == (
        full.positions, full.games, full.networks, full.refused,
    )  # fmt: skip
    nets = [load_network(tmp_path / name / NETWORK) for name in ("whole", "parts")]
    for first, other in zip(nets[0].weights.values(), nets[1].weights.values(), strict=True):
        assert np.array_equal(first, other)
    with pytest.raises(InvalidFile, match=r"another plan \(seed 4 to 5\)"):
        train_self_play(plan(gate_pairs=4, gate_simulations=8, seed=5), tmp_path / "whole")
    noisy = SelfPlayOptions(**{**OPTIONS.__dict__, "noise_share": 0.1})
    with pytest.raises(InvalidFile, match=r"another plan \(noise_share 0.25 to 0.1\)"):
        train_self_play(plan(gate_pairs=4, gate_simulations=8, options=noisy), tmp_path / "whole")


def test_a_training_does_not_go_on_with_an_edited_game_or_search(tmp_path):
    file = tmp_path / "own.py"
    code = (
        "import engram\ndef game(): return engram.game('tic_tac_toe')\n"
        "def search(evaluator=None): return engram.presets.puct(evaluator=evaluator, exploration={})\n"
    )
    file.write_text(code.format(1.25))
    settings = plan(game=f"{file}:game", options=replace(OPTIONS, search=f"{file}:search"))
    train_self_play(settings, tmp_path / "run", stop_at=3)
    train_self_play(settings, tmp_path / "run", stop_at=4)
    file.write_text(code.format(60.0))
    with pytest.raises(InvalidFile, match="of a game or search in other files"):
        train_self_play(settings, tmp_path / "run")


def test_batches_of_one_round_are_reported_and_kept_on_the_way(tmp_path, monkeypatch):
    """After the first round many are due, and learning them takes as long as the whole training."""
    monkeypatch.setattr(self_play_training, "_AT_A_TIME_S", 0.0)
    monkeypatch.setattr(
        TrainingRun, "tell", lambda run, progress, always=False: counts.append(run.learner.done) or run.standing()
    )
    counts = []
    train_self_play(plan(steps=20, first=1, reuse=100.0, refresh=1000), tmp_path / "one")
    assert sorted(set(counts)) == list(range(21))


def test_figures_of_a_deleted_training_do_not_stay(tmp_path):
    database = str(tmp_path / "r.sqlite")
    for steps in (4, 2):
        train_self_play(plan(steps=30), tmp_path / "one", stop_at=steps, database=database, checkpoint_s=0.0)
        shutil.rmtree(tmp_path / "one")
        with Results(database) as results:
            (points,) = recorded_points(results).values()
        assert max(point.episode for point in points) == steps


def test_a_training_killed_in_its_last_write_has_its_network(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TrainingRun, "log", _killed)  # the checkpoint is there
        train_self_play(plan(), tmp_path)
    weights = load_network(tmp_path / NETWORK).weights
    assert train_self_play(plan(), tmp_path).done == 30
    curves.report(tmp_path, "a training", "ends", [])  # without a log
    final_weights = load_network(tmp_path / NETWORK).weights
    assert all(np.array_equal(weights[name], final_weights[name]) for name in final_weights)


def test_folders_of_a_person_beside_a_checkpoint_stay(tmp_path):
    train_self_play(plan(steps=4), tmp_path, stop_at=2)
    (checkpoint,) = tmp_path.glob("checkpoint-*")
    for name in ("checkpoint-notes", "checkpoint-before"):
        shutil.copytree(checkpoint, tmp_path / name)
    train_self_play(plan(steps=4), tmp_path)
    assert {"checkpoint-notes", "checkpoint-before"} < {place.name for place in tmp_path.iterdir()}
    assert not checkpoint.exists()


def test_a_new_network_is_new_whatever_files_lie_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train_self_play(plan(network="residual(blocks=1,filters=4)", steps=2), "residual")
    train_self_play(plan(network="residual", steps=1), "second")
    assert load_network(tmp_path / "second" / NETWORK).configuration.network.startswith("residual(blocks=4")


def test_a_training_goes_on_without_the_file_that_it_began_with(tmp_path, monkeypatch):
    train_self_play(plan(steps=2), tmp_path / "first")
    start = tmp_path / "start"
    shutil.copy(tmp_path / "first" / NETWORK, start)
    full = train_self_play(plan(network=str(start)), tmp_path / "whole")
    train_self_play(plan(network=str(start)), tmp_path / "parts", stop_at=10)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("os.rename", _killed)  # in its first checkpoint: it has nothing to go on from
        train_self_play(plan(network=str(start)), tmp_path / "killed")
    assert train_self_play(plan(network=str(start)), tmp_path / "killed").losses == full.losses
    start.unlink()
    assert train_self_play(plan(network=str(start)), tmp_path / "parts").losses == full.losses
    with pytest.raises(InvalidFile, match="there is no network"):
        train_self_play(plan(network=str(start)), tmp_path / "third")
    start.mkdir()
    (start / ".lock").touch()
    with pytest.raises(InvalidFile, match="has no network yet: it writes one with its first checkpoint"):
        train_self_play(plan(network=str(start)), tmp_path / "third")


def test_planes_that_half_precision_rounds_are_refused():
    under_way = games(full_share=1.0)
    encode = under_way._encode
    under_way._encode = lambda states: 3000.0 + encode(states)
    with pytest.raises(InvalidGame, match="encode gives 3000"):
        under_way.play_round()


def _killed(*_):
    raise KeyboardInterrupt


def test_games_and_network_do_not_depend_on_who_searches(tmp_path):
    def trained(name, workers, **changes):
        options = SelfPlayOptions(**{**OPTIONS.__dict__, "at_once": 3})
        state = train_self_play(plan(options=options, **changes), tmp_path / name, workers=workers)
        return state, load_network(tmp_path / name / NETWORK).weights

    alone, two = trained("one", 1), trained("two", 2)
    assert (alone[0].positions, alone[0].games) == (two[0].positions, two[0].games)
    assert alone[0].max_age == two[0].max_age > 0
    assert all(np.array_equal(alone[1][name], two[1][name]) for name in alone[1])


def test_asynchronous_play_says_how_old_its_weights_are_and_goes_on(tmp_path):
    options = SelfPlayOptions(**{**OPTIONS.__dict__, "at_once": 4})
    for stop in (15, 30):
        state = train_self_play(plan(options=options, asynchronous=True), tmp_path, workers=2, stop_at=stop)
        assert state.done == stop and state.games > 0 and 0 <= state.mean_age <= state.max_age <= stop
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all({"mean_age", "max_age"} <= line.keys() for line in lines) and lines[-1]["max_age"] > 0
    with pytest.raises(InvalidFile, match="asynchronous"):
        train_self_play(plan(options=options), tmp_path)


PLAN_CHANGED = {
    "batch": 16, "reuse": 1.0, "window": 40, "first": 120, "refresh": 3, "learning_rate": 0.1, "weight_decay": 0.5,
    "value_weight": 0.1, "averaged_share": 0.5, "seed": 5, "options": SelfPlayOptions(num_games=8, simulations=24),
}  # fmt: skip


def test_no_setting_of_a_plan_is_without_effect(tmp_path):
    trained = {}
    for name in ("nothing", *PLAN_CHANGED):
        changes = {name: PLAN_CHANGED[name]} if name in PLAN_CHANGED else {}
        train_self_play(plan(steps=12, refresh=5, **changes) if name != "refresh" else plan(steps=12, **changes),
                        tmp_path / name)  # fmt: skip
        weights = load_network(tmp_path / name / NETWORK).weights
        trained[name] = b"".join(weights[key].tobytes() for key in sorted(weights))
    assert [name for name in PLAN_CHANGED if trained[name] == trained["nothing"]] == []


def test_the_gate_refuses_a_network_that_loses(tmp_path, monkeypatch):
    calls = []

    def lost(*_, **options):
        calls.append((options["simulations"], options["games"]))
        return SimpleNamespace(score=0.4)

    monkeypatch.setattr("engram.training.self_play_training.match", lost)
    done = train_self_play(plan(gate_pairs=3, gate_simulations=7), tmp_path)
    assert (done.networks, done.refused) == (1, 3) and calls == [(7, 6)] * 3


def test_killed_training_goes_on(tmp_path):
    code = (
        "from engram.training.self_play_training import *\nfrom engram.training.self_play import SelfPlayOptions\n"
        f"train_self_play({plan(steps=100_000)!r}, {str(tmp_path / 'net')!r}, checkpoint_s=0.2)"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    end = time.monotonic() + 120
    while not list(tmp_path.glob("net/checkpoint-*/playing")) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)
    with pytest.raises(InvalidFile, match="another training works in"):
        train_self_play(plan(steps=100_000), tmp_path / "net", stop_at=1)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    result = train_self_play(plan(steps=100_000), tmp_path / "net", stop_at=1)
    assert result.positions > 0


@pytest.mark.parametrize(
    "changed",
    [
        {"steps": 0}, {"reuse": 0.0}, {"learning_rate": -1.0}, {"gate_pairs": -1}, {"averaged_share": 1.5},
        {"steps": math.nan}, {"steps": math.inf}, {"steps": 1.5}, {"steps": True}, {"steps": "x"}, {"batch": 4.0},
        {"window": 100.0}, {"seed": 0.5}, {"learning_rate": "x"}, {"network": None}, {"game": 5},
    ],
)  # fmt: skip
def test_plans_that_make_no_sense(changed):
    with pytest.raises(InvalidParameter):
        plan(**changed)
    for options in ({"full_share": 0.0}, {"num_games": 8.0}, {"temperature_moves": -1}, {"at_once": 0}):
        with pytest.raises(InvalidParameter, match=next(iter(options))):
            SelfPlayOptions(**options)
    with pytest.raises(InvalidParameter, match="at_once is 1 to the 8 games, not 9"):
        SelfPlayOptions(num_games=8, at_once=9)


def test_any_search_that_asks_a_network_plays_the_games():
    examples = played(games(search="puct_rave(expand_after=4)", full_share=1.0), 40)
    assert len(examples.value) > 100 and np.allclose(examples.policy.sum(1), 1.0, atol=1e-5)
    with pytest.raises(InvalidSpecification, match=r"uct takes no evaluator, so no network can search with it"):
        games(search="uct").play_round()
    with pytest.raises(InvalidSpecification, match="no search is called 'puctt'"):
        games(search="puctt").play_round()


def test_a_training_begun_with_an_exploration_goes_on(tmp_path):
    begun = plan(options=SelfPlayOptions(**{**OPTIONS.__dict__, "search": "puct(exploration=2.0)"}))
    train_self_play(begun, tmp_path, stop_at=5)
    (file,) = tmp_path.glob("checkpoint-*/games*")
    about, arrays = storage.load(file, "games")
    options = about["plan"]["options"]
    del about["plan"]["averaged_share"], options["search"], options["target_temperature"]
    options["exploration"] = 2.0
    storage.save(file, "games", about, arrays)
    assert train_self_play(begun, tmp_path, stop_at=6).done == 6
    with pytest.raises(InvalidFile, match="training with another plan"):
        train_self_play(plan(), tmp_path, stop_at=7)


def test_a_low_temperature_sharpens_the_policy_target():
    plain, sharp = (played(games(full_share=1.0, target_temperature=warm), 12) for warm in (1.0, 0.5))
    assert np.array_equal(plain.planes, sharp.planes)
    squares = plain.policy**2
    assert np.allclose(sharp.policy, squares / squares.sum(1, keepdims=True), atol=1e-5)
    with pytest.raises(InvalidParameter, match="target_temperature is above 0"):
        SelfPlayOptions(target_temperature=0.0)


def test_many_parts_on_few_workers_name_no_network_that_is_gone(tmp_path):
    # Twelve parts for two workers, and more networks than a fleet keeps before a part has its turn.
    options = SelfPlayOptions(**{**OPTIONS.__dict__, "num_games": 24, "at_once": 2, "simulations": 4})
    often = plan(options=options, asynchronous=True, refresh=1, batch=8, reuse=16.0, first=8, steps=200)
    state = train_self_play(often, tmp_path, workers=2)
    assert state.done == 200 and state.networks == 201
