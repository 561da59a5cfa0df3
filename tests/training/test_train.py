"""Training: it learns, resumes as if undisturbed, and says why it does not learn."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from typer.testing import CliRunner  # noqa: E402

from engram import storage as durable  # noqa: E402
from engram import training  # noqa: E402
from engram.cli.app import app  # noqa: E402
from engram.errors import DatabaseError, InvalidFile, InvalidParameter, MissingPackage, OperatorError  # noqa: E402
from engram.games.catalogue import game as game_of  # noqa: E402
from engram.networks.architectures import architecture  # noqa: E402
from engram.networks.by_name import NamedNetwork  # noqa: E402
from engram.networks.network import load_network  # noqa: E402
from engram.networks.torch_backend import NetworkModule  # noqa: E402
from engram.training import curves  # noqa: E402
from engram.training.history import TrainingResults, recorded_points  # noqa: E402
from engram.training.learner import KIND, Learner  # noqa: E402
from engram.training.records import Records, RecordSampler, read  # noqa: E402
from engram.training.run import CHECKPOINT, NETWORK  # noqa: E402
from engram.training.supervised import RecordsPlan, ahead_of_time, train_records  # noqa: E402
from engram.training.validation import Validation, why_nothing_is_learnt, why_records_cannot_teach  # noqa: E402
from engram.web.reader import ResultsReader  # noqa: E402

SIZE = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Games where White plays opposite of Black, who wins by beginning in a corner or the centre."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(150):
        game = game_of(f"go:{SIZE}")
        state, moves = game.initial_state(), []
        for number in range(10):
            legal = game.legal_actions(state)
            opposite = SIZE**2 - 1 - moves[-1] if number % 2 else -1
            action = opposite if opposite in legal else int(rng.choice(legal[:-1]))
            moves.append(action)
            state = game.play(state, action)
        first = divmod(moves[0], SIZE)
        wins = (first[0] in (1, 2)) == (first[1] in (1, 2))
        text = "".join(chr(97 + a % SIZE) + chr(97 + a // SIZE) for a in moves)
        rows.append(f"{SIZE}\t7.5\t{'B' if wins else 'W'}+R\t1d\t1d\there\t{text}\n")
    file = tmp_path_factory.mktemp("data") / "games.tsv"
    file.write_text("".join(rows))
    return file


def plan_for(data, **changes):
    plan = RecordsPlan(game=f"go:{SIZE}", network="residual(blocks=1,filters=8)", data=(str(data),), steps=30, batch=32,
                validation=0.2)  # fmt: skip
    return replace(plan, **changes)


def weights(folder):
    return NetworkModule.of(load_network(folder / "network.safetensors")).state_dict()


def test_a_folder_without_room_is_told_in_a_sentence(data, tmp_path, capfd):
    """TensorBoard's own thread would print a traceback."""
    # The limit is not for the files of the compiler, nor for those that PyTorch writes as it is loaded.
    train_records(plan_for(data, steps=3), tmp_path / "first")
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        with pytest.raises(InvalidFile, match=r"cannot be written: File too large$"):
            train_records(plan_for(data, steps=3), tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not capfd.readouterr().err
    assert train_records(plan_for(data, steps=3), tmp_path / "run").done == 3


def test_it_learns_and_logs(data, tmp_path):
    plan = plan_for(data, steps=300, learning_rate=0.01)
    reports = []
    done = train_records(plan, tmp_path / "run", progress=reports.append)
    assert done.done == 300 and done.warnings == ()
    assert done.validation.accuracy > 0.4 and done.validation.value_sign > 0.75  # at chance 0.06 and 0.5
    assert reports[-1] == done and done.losses.policy < reports[0].losses.policy
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 300 and lines[-1]["positions"] == 9600
    assert list((tmp_path / "run" / "tensorboard").rglob("events*"))
    evaluator = NamedNetwork(str(tmp_path / "run"))(game_of(f"go:{SIZE}"), 4)
    assert evaluator.evaluate(game_of(f"go:{SIZE}").initial_state().reshape(1)).policy.shape == (1, 17)


def test_a_stopped_training_goes_on_as_if_undisturbed(data, tmp_path):
    plan = plan_for(data)
    train_records(plan, tmp_path / "whole")
    for stop in (7, 20, None):
        train_records(plan, tmp_path / "parts", stop_at=stop)
    first, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(first[name], other[name]) for name in first)
    again = train_records(plan, tmp_path / "parts")  # nothing left to do
    assert again.done == 30
    with pytest.raises(InvalidFile, match=r"another plan .*seed 0 to 1"):
        train_records(replace(plan, seed=1), tmp_path / "parts")


def test_a_torn_line_of_the_log_costs_no_other(data, tmp_path):
    train_records(plan_for(data), tmp_path, stop_at=7)
    log = tmp_path / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    train_records(plan_for(data), tmp_path)
    torn, whole = log.read_text().splitlines()
    assert json.loads(whole)["step"] == 30 and torn.startswith('{"')


def test_a_log_that_is_a_pipe_is_refused(data, tmp_path):
    train_records(plan_for(data), tmp_path, stop_at=7)
    (tmp_path / "log.jsonl").unlink()
    os.mkfifo(tmp_path / "log.jsonl")
    with pytest.raises(InvalidFile, match="a pipe"):
        train_records(plan_for(data), tmp_path)


def test_a_damaged_point_is_left_out_of_the_page_and_named(data, tmp_path):
    file = tmp_path / "r.sqlite"
    train_records(plan_for(data), tmp_path / "run", database=str(file), checkpoint_s=0.0)
    for change in ("seed = 'x'", "measured = 'x'", "findings = '5'", "games = -1", "episode = 'x'"):
        shutil.copy(file, tmp_path / "damaged.sqlite")
        with closing(sqlite3.connect(tmp_path / "damaged.sqlite")) as connection, connection:
            connection.execute(f"UPDATE training_point SET {change} WHERE id = 1")
        (training,) = ResultsReader(str(tmp_path / "damaged.sqlite"), lambda name: True).trainings()
        assert "1 points of it are damaged" in training["findings"][-1]
        with TrainingResults(tmp_path / "damaged.sqlite") as results, pytest.raises(DatabaseError, match="damaged"):
            results.points(training["name"])


def test_a_lost_network_of_a_finished_training_is_written_again(data, tmp_path):
    train_records(plan_for(data), tmp_path)
    first, file = weights(tmp_path), tmp_path / "network.safetensors"
    for damage in (file.unlink, lambda: os.truncate(file, 1000)):
        damage()
        assert train_records(plan_for(data), tmp_path).done == 30
        other = weights(tmp_path)
        assert all(torch.equal(first[name], other[name]) for name in first)
    written = file.stat().st_mtime_ns
    train_records(plan_for(data), tmp_path)
    assert file.stat().st_mtime_ns == written


def test_a_lost_network_of_a_training_from_a_known_one_is_written_again(data, tmp_path):
    train_records(plan_for(data), tmp_path / "known")
    plan = plan_for(data, network=str(tmp_path / "known"), steps=5)
    train_records(plan, tmp_path / "run")
    first = weights(tmp_path / "run")
    (tmp_path / "run" / "network.safetensors").unlink()
    train_records(plan, tmp_path / "run")
    other = weights(tmp_path / "run")
    assert all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("follows", [False, True], ids=["removed", "replaced"])
def test_a_training_whose_folder_goes_writes_into_no_other(data, tmp_path, follows):
    folder = tmp_path / "run"

    def move(progress):
        if folder.exists() and not (tmp_path / "old").exists():
            folder.rename(tmp_path / "old")
            if follows:
                train_records(plan_for(data, steps=2), folder)

    with pytest.raises(InvalidFile, match="run was removed or replaced during its training, which ends here"):
        train_records(plan_for(data), folder, progress=move)
    assert folder.exists() == follows
    if follows:
        assert train_records(plan_for(data, steps=2), folder).done == 2


def test_other_data_under_the_same_name_is_refused(data, tmp_path):
    file = tmp_path / "games.tsv"
    rows = data.read_text().splitlines(keepends=True)
    file.write_text("".join(rows[:100]))
    train_records(plan_for(file), tmp_path / "run", stop_at=5)
    file.write_text("".join(rows[50:]))
    with pytest.raises(InvalidFile, match="the data has changed since the checkpoint"):
        train_records(plan_for(file), tmp_path / "run")
    file.write_text("".join(rows[:100]))
    assert train_records(plan_for(file), tmp_path / "run").done == 30


def test_no_setting_of_a_plan_is_without_effect(data, tmp_path):
    changed = {
        "batch": 16,
        "learning_rate": 0.1,
        "weight_decay": 0.5,
        "value_weight": 0.1,
        "averaged_share": 0.5,
        "validation": 0.6,
        "seed": 1,
    }
    trained = {}
    for name in ("nothing", *changed):
        train_records(plan_for(data, steps=3, **({name: changed[name]} if name in changed else {})), tmp_path / name)
        trained[name] = b"".join(part.numpy().tobytes() for part in weights(tmp_path / name).values())
    assert [name for name in changed if trained[name] == trained["nothing"]] == []


def test_killed_at_any_moment_the_same_command_ends_as_if_undisturbed(data, tmp_path):
    steps, folder = 400, tmp_path / "killed"
    command = ["train", "records", "--game", f"go:{SIZE}", "--network", "residual(blocks=1,filters=8)", "--batch", "8",
               "--data", str(data), "--steps", str(steps), "--validation", "0.2", "--seed", "3",
               "-d", str(tmp_path / "x.sqlite")]  # fmt: skip
    # A checkpoint a step, so that most moments are moments of writing.
    often = [sys.executable, "-m", "engram", *command, "-o", str(folder), "--checkpoint-s", "0"]
    process = subprocess.Popen(often, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not (folder / CHECKPOINT).exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < durable.about(folder / CHECKPOINT, KIND)["done"] < steps
    load_network(folder / NETWORK)
    for name in ("killed", "whole"):
        result = CliRunner().invoke(app, [*command, "-o", str(tmp_path / name), "--json"])
        assert result.exit_code == 0 and json.loads(result.stdout)["done"] == steps, result.output
    # The network and the optimiser, bit for bit.
    first, other = (durable.load(tmp_path / name / CHECKPOINT, KIND)[1] for name in ("killed", "whole"))
    assert first.keys() == other.keys() and all(first[name].tobytes() == other[name].tobytes() for name in first)
    first, other = weights(folder), weights(tmp_path / "whole")
    assert all(torch.equal(first[name], other[name]) for name in first)
    with TrainingResults(tmp_path / "x.sqlite") as results:
        recorded = {name.split()[0]: points for name, points in recorded_points(results).items()}
    assert {points[-1].episode for points in recorded.values()} == {steps} and set(recorded) == {"killed", "whole"}
    assert len({point.episode for point in recorded["killed"]}) == len(recorded["killed"]) > 1
    assert recorded["killed"][-1].measured == recorded["whole"][-1].measured
    assert {"policy", "policy, held out"} <= set(recorded["whole"][-1].measured)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("numbers", [range(0), range(5, 7), range(3, 40)])
def test_threads_compute_results_in_order(threads, numbers):
    def compute(number):
        time.sleep(0.002 * (number % 3))
        return -number

    assert list(ahead_of_time(compute, numbers, threads)) == [(number, -number) for number in numbers]


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_are_only_a_few_results_ahead(threads):
    begun, numbers = threading.Semaphore(0), []

    def compute(number):
        numbers.append(number)
        begun.release()
        return number

    results = ahead_of_time(compute, range(100), threads)
    assert next(results) == (0, 0)
    for _ in range(1 + 2 * threads):
        assert begun.acquire(timeout=60)
    results.close()
    assert sorted(numbers) == list(range(1 + 2 * threads))


def drawing_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("engram positions")]


def test_a_fault_in_drawing_reaches_the_training_and_no_thread_is_left(data, tmp_path, monkeypatch):
    draw = RecordSampler.draw

    def faulty(sampler, count, seed, number):
        if number == 3:
            raise InvalidParameter("no such position")
        return draw(sampler, count, seed, number)

    def fail(state):
        raise RuntimeError("stopped by its watcher")

    with pytest.raises(RuntimeError, match="watcher") as error:
        train_records(plan_for(data), tmp_path / "stopped", progress=fail)
    assert error.traceback and not drawing_threads()  # though the error keeps the run
    monkeypatch.setattr(RecordSampler, "draw", faulty)
    with pytest.raises(InvalidParameter, match="no such position"):
        train_records(plan_for(data), tmp_path / "faulty")
    assert not drawing_threads()


def test_a_training_goes_on_from_a_known_network(data, tmp_path):
    train_records(plan_for(data), tmp_path / "first")
    about = {"learning_rate": 1e-12, "weight_decay": 0.0, "steps": 1}  # a step that changes next to nothing
    train_records(plan_for(data, network=str(tmp_path / "first"), **about), tmp_path / "second")
    first, other = weights(tmp_path / "first"), weights(tmp_path / "second")
    learnt = [name for name in first if "running" not in name and "tracked" not in name]
    assert all(torch.allclose(first[name], other[name], atol=1e-6) for name in learnt)
    with pytest.raises(InvalidParameter, match="is for a board of 4 by 4, not for go:5"):
        train_records(plan_for(data, network=str(tmp_path / "first"), game="go:5"), tmp_path / "third")


def test_results_of_time_and_distributions_as_targets(data):
    torch.manual_seed(0)
    net = NetworkModule(architecture("residual(blocks=1,filters=8)", game_of("go:4")))
    learner = Learner(net, 100)
    rng = np.random.default_rng(0)
    planes, shares = rng.random((8, 11, 4, 4)).astype(np.float32), np.full((8, 17), 1 / 17, np.float32)
    before = net.value[-1].weight.detach().clone()
    losses = learner.step(planes, shares, np.full(8, np.nan, np.float32))
    assert np.isnan(losses.value) and losses.policy == pytest.approx(np.log(17), abs=0.5)
    learner_decay = before * (1 - learner.rate(0) * 1e-4)
    assert torch.allclose(net.value[-1].weight, learner_decay)  # nothing was learnt of values
    with pytest.raises(OperatorError, match="not finite"):
        learner.step(planes * np.nan, shares, np.zeros(8, np.float32))
    assert all(torch.isfinite(part).all() for part in net.parameters())


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_the_mean_of_the_weights_is_that_of_the_formula(share, tmp_path):
    torch.manual_seed(0)
    net = NetworkModule(architecture("residual(blocks=1,filters=8)", game_of("go:4")))
    learner = Learner(net, 100, learning_rate=0.01, averaged_share=share)
    rng, steps = np.random.default_rng(0), []
    for _ in range(8):
        learner.step(rng.random((8, 11, 4, 4)).astype(np.float32), rng.integers(0, 17, 8), np.ones(8, np.float32))
        steps.append({name: tensor.clone() for name, tensor in net.state_dict().items()})
    # Shamir and Zhang's average with η = 1/share - 1 weighs step t by t (t + 1) ... (t + η - 1).
    eta = 1.0 / share - 1.0
    weights = np.array([math.gamma(step + eta) / math.gamma(step) for step in range(1, 9)])
    mean = learner.result_net.state_dict()
    for name in mean:
        if mean[name].is_floating_point():
            expected = sum(weight * step[name] for weight, step in zip(weights / weights.sum(), steps, strict=True))
            assert torch.allclose(mean[name], expected, atol=1e-5), name
    assert not torch.allclose(mean["policy.2.weight"], steps[-1]["policy.2.weight"], atol=1e-5)
    learner.save(tmp_path / "mean", {})
    with pytest.raises(InvalidFile, match="averages"):
        Learner(net, 100).load(tmp_path / "mean")
    Learner(net, 100).save(tmp_path / "plain", {})
    with pytest.raises(InvalidFile, match="averages"):
        learner.load(tmp_path / "plain")


def test_a_training_that_averages_goes_on_as_if_undisturbed(data, tmp_path):
    plan = plan_for(data, steps=12, averaged_share=0.5)
    train_records(plan, tmp_path / "whole")
    for stop in (5, 12):
        train_records(plan, tmp_path / "parts", stop_at=stop)
    first, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(first[name], other[name]) for name in first)
    with pytest.raises(InvalidFile, match=r"another plan \(averaged_share 0.5 to 0.0\)"):
        train_records(replace(plan, averaged_share=0.0), tmp_path / "parts")


def test_rates_rise_and_fall_to_zero():
    learner = Learner(
        NetworkModule(architecture("residual(blocks=1,filters=4)", game_of("go:4"))), 1000, learning_rate=0.01
    )
    rates = [learner.rate(step) for step in range(1001)]
    assert rates[0] < 0.001 and max(rates) == pytest.approx(0.01, rel=0.02) and rates[1000] == pytest.approx(0)
    assert np.argmax(rates) < 60 and rates[60:] == sorted(rates[60:], reverse=True)


def test_why_a_run_does_not_learn(data):
    records = read(game_of("go:4"), [data])
    assert why_records_cannot_teach(records) == []
    same = records.part(np.arange(len(records)) == 0)
    alike = replace(
        same, start=np.repeat(same.start, 100), offset=np.arange(101) * 10, actions=np.tile(same.actions, 100),
        value=np.repeat(same.value, 100), held_out=np.repeat(same.held_out, 100),
    )  # fmt: skip
    assert isinstance(alike, Records)
    reasons = " ".join(why_records_cannot_teach(alike))
    assert "all games are alike" in reasons and "ends alike" in reasons
    nothing = replace(records, value=np.full(len(records), np.nan))
    assert "no game has a result" in why_records_cannot_teach(nothing)[0]
    good = Validation(100, 1.0, 0.5, 0.5, 0.7, 0.5)
    assert why_nothing_is_learnt(good, records.actions) == []
    for change, message in (
        ({"accuracy": 0.05}, "at chance"),
        ({"value_spread": 0.0}, "constant"),
        ({"value_sign": 0.3}, "wrong sign"),
    ):
        (reason,) = why_nothing_is_learnt(replace(good, **change), records.actions)
        assert message in reason


def test_the_command_trains_and_fails_in_one_sentence(data, tmp_path):
    run = lambda *more: CliRunner().invoke(app, ["train", "records", "--game", "go:4", *more])  # noqa: E731
    common = ["--data", str(data), "--output", str(tmp_path / "net"), "--steps", "5", "--batch", "8"]
    common += ["-d", str(tmp_path / "x.sqlite")]
    done = run(*common, "--network", "residual(blocks=1,filters=4)", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["done"] == 5
    done = run(*common, "--network", "predictor", "--output", str(tmp_path / "moves"), "--json")
    assert json.loads(done.stdout, parse_constant=pytest.fail)["validation"]["value_sign"] is None
    for wrong, message in (
        (["--network", "residual(blocks=2,filters=4)"], "another"),
        (["--network", "residul", "--output", str(tmp_path / "other")], "did you mean"),
        (["--learning-rate", "0"], "--learning-rate': it must be a number above 0"),
        (["--data", str(tmp_path / "none.tsv"), "--output", str(tmp_path / "other")], "there is no file"),
    ):
        failed = run(*common, *wrong)
        assert failed.exit_code == 2 and message in failed.stderr and failed.stderr.count("\n") <= 2, failed.output
    with pytest.raises(InvalidParameter, match="steps"):
        plan_for(data, steps=0)


def test_a_damaged_log_costs_its_damaged_lines_alone(tmp_path):
    lines = [json.dumps({"done": step, "losses": {"value_loss": 1 / step}}) for step in (10, 20, 30)]
    log = [lines[0], lines[1][:-9], "[1]", lines[2], "\xff", lines[0].replace("0.1", "1" * 400)]
    (tmp_path / curves.LOG).write_bytes("\n".join(log).encode("latin-1"))
    curves.report(tmp_path, "a training", "ends", [])
    page = (tmp_path / curves.REPORT).read_text()
    assert "damaged lines of log.jsonl, left out: 4" in page and "0.03333" in page


@pytest.mark.parametrize(("package", "name"), [("torch", "PyTorch"), ("tensorboard", "TensorBoard")])
def test_a_training_names_the_package_that_it_lacks_before_it_begins(package, name, monkeypatch):
    monkeypatch.setattr(training, "find_spec", lambda wanted: None if wanted == package else find_spec(wanted))
    with pytest.raises(MissingPackage, match=rf"training needs {name}: pip install 'engram\[learn\]'"):
        training.require_torch()


def test_a_kept_refusal_holds_no_folder(data, tmp_path):
    train_records(plan_for(data), tmp_path / "run", stop_at=1)
    with pytest.raises(InvalidFile, match="another plan") as refused:
        train_records(replace(plan_for(data), seed=77), tmp_path / "run")
    train_records(plan_for(data), tmp_path / "run", stop_at=2)
    assert refused.value.__traceback__ is not None


def test_the_log_has_no_step_without_a_checkpoint(data, tmp_path, monkeypatch):
    def fails(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("engram.training.learner.Learner.save", fails)
    with pytest.raises(KeyboardInterrupt):
        train_records(plan_for(data), tmp_path / "run")
    assert not (tmp_path / "run" / "log.jsonl").exists()
