"""A cluster plays the games of one machine: a real one of three nodes here, by Ray, some of which die."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PureWindowsPath

import numpy as np
import pytest
from sqlalchemy import text

ray = pytest.importorskip("ray", reason="a cluster needs Ray: pip install 'engram[cluster]'")

from ray.cluster_utils import Cluster  # noqa: E402

from engram import storage  # noqa: E402
from engram.arena import claims  # noqa: E402
from engram.arena.league import league  # noqa: E402
from engram.arena.match import MatchInterrupted, match  # noqa: E402
from engram.arena.results import Results  # noqa: E402
from engram.arena.sources import files_named, text_digest  # noqa: E402
from engram.arena.truth.backup_truth import truth  # noqa: E402
from engram.cluster import node, ray_fleet  # noqa: E402
from engram.cluster.files import Luggage  # noqa: E402
from engram.cluster.ray_cluster import ClusterError, RayCluster  # noqa: E402
from engram.errors import InvalidParameter, TooLarge  # noqa: E402
from engram.fleet import WorkerError, default_workers, fleet, spread, working_on  # noqa: E402
from engram.memory.values import table_files  # noqa: E402
from engram.training.td.settings import EvaluationPlan, TdConfiguration, parse_opponents  # noqa: E402
from engram.training.td.training import train  # noqa: E402

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
# Ray gives its workers the niceness 15: on a busy machine they hardly run, and a test takes ten minutes.
QUICK = {
    "health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 3, "worker_niceness": 0,
}  # fmt: skip


def start(cluster, **node):
    """A new node of a cluster; Ray itself waits 30 s for one, which a busy machine may need."""
    for attempt in range(20):
        try:
            return cluster.add_node(**node)
        except Exception as error:
            if attempt == 19 or "timed out during startup" not in str(error):
                raise


@pytest.fixture(scope="module")
def machines():
    """A cluster of a head without workers, and three nodes of a core each."""
    cluster = Cluster()
    start(cluster, **{**NODE, "num_cpus": 0, "_system_config": QUICK})
    for _ in range(3):
        start(cluster, **NODE)
    yield cluster
    cluster.shutdown()


messages = []


@pytest.fixture(scope="module")
def cluster(machines):
    with RayCluster(machines.address, tell=messages.append) as cluster:
        yield cluster


def free_cores():
    return ray.available_resources().get("CPU", 0.0)


MATCH = ("tic_tac_toe", "uct", "uct(exploration=0.3)")


def played(*texts, database, **options):
    """The games of a match, without the time that they took."""
    result = match(*(texts or MATCH), database=database, **{"games": 60, "simulations": 20, **options})
    with Results(database) as results:
        records = results.games(result.match_id)
    return [{name: value for name, value in vars(record).items() if "seconds" not in name} for record in records]


def test_a_match_is_the_same_alone_in_two_processes_and_on_three_machines(tmp_path, cluster, caplog):
    alone, two = (played(database=tmp_path / f"{workers}.sqlite", workers=workers) for workers in (1, 2))
    with caplog.at_level(logging.DEBUG, "engram"), working_on(cluster):
        assert default_workers() == 3
        afar = played(database=tmp_path / "afar.sqlite")
        assert league("tic_tac_toe", ["random", "uct", "minimax(depth=1)"], games=4, simulations=10,
                      database=tmp_path / "afar.sqlite").games == 12  # fmt: skip
    assert len(alone) == 60 and alone == two == afar
    assert messages[0] == "cluster: room for 3 workers on 3 machines"
    ends = [record for record in caplog.records if "game 0 ends" in record.getMessage()]
    assert ends and all(record.process != os.getpid() and record.name == "engram.arena.runner" for record in ends)


def test_a_match_goes_on_when_a_machine_dies_and_no_game_counts_twice(tmp_path, machines, cluster):
    settings = {"games": 60, "simulations": 400, "seed": 3}
    game = ("connect_four", "uct", "uct(exploration=0.3)")
    victim, counts = machines.list_all_nodes()[-1], []

    def kill(result):
        counts.append(result.games)
        if len(counts) == 1:
            os.kill(victim.all_processes["raylet"][0].process.pid, signal.SIGKILL)

    try:
        with working_on(cluster):
            afar = played(*game, database=tmp_path / "afar.sqlite", progress=kill, **settings)
    finally:
        machines.remove_node(victim, allow_graceful=False)
        start(machines, **NODE)
    assert counts[0] < 60, "the machine died in the middle"
    assert counts == sorted(counts) and counts[-1] == 60
    assert afar == played(*game, database=tmp_path / "here.sqlite", workers=2, **settings)


DIES_ONCE = """
import os, sys
if any("specific-server" in word for word in sys.orig_argv) and not os.path.exists({marker!r}):
    open({marker!r}, "w").close()
    os._exit(1)
"""


def test_a_match_from_outside_the_cluster_is_the_same(tmp_path, machines, cluster):
    marker = tmp_path / "died"
    (tmp_path / "sitecustomize.py").write_text(DIES_ONCE.format(marker=str(marker)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    door = subprocess.Popen(
        [sys.executable, "-m", "ray.util.client.server", "--address", machines.address, "--host", "127.0.0.1",
         "--port", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while subprocess.run([sys.executable, "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}))"],
                             stderr=subprocess.DEVNULL).returncode and time.monotonic() < deadline:  # fmt: skip
            time.sleep(0.2)
        words = ["match", "-g", "tic_tac_toe", "--a", MATCH[1], "--b", MATCH[2], "--games", "60", "-n", "20"]
        words += ["--cluster", f"ray://127.0.0.1:{port}", "-d", str(tmp_path / "afar.sqlite")]
        while cluster._idle:  # the test before may have killed their machine
            cluster.free(cluster.take())
        holders = [cluster.take() for _ in range(3)]
        ray.get([holder.node.remote() for holder in holders])  # now they hold all cores
        outside = subprocess.Popen(
            [sys.executable, "-m", "engram", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        lines: list[str] = []
        while not lines or ("no core is free yet; other work holds them" not in lines[-1] and lines[-1]):
            lines.append(outside.stderr.readline())
        assert lines[-1], "".join(lines)
        assert marker.exists(), "its first process there died, and it tried again"
        for holder in holders:
            cluster.free(holder)
        assert outside.wait() == 0
    finally:
        door.terminate()
        door.wait()
    afar = played(database=tmp_path / "afar.sqlite", workers=1)
    with Results(tmp_path / "afar.sqlite") as results:
        assert len(results.matches()) == 1, "the local run found the match"
    assert afar == played(database=tmp_path / "here.sqlite", workers=1)


def test_workers_share_a_gpu(machines):
    node = start(machines, **{**NODE, "num_cpus": 3, "num_gpus": 1})
    try:
        with RayCluster(machines.address, gpu_share=0.5) as cluster, working_on(cluster):
            assert cluster.num_workers == 2
            assert set(spread(os.getenv, [("CUDA_VISIBLE_DEVICES",)] * 8, 2)) == {"0"}
    finally:
        machines.remove_node(node)


RULES = """
import engram
from rules import WIN
from engram.presets.rollouts import uct

def mine(width=1.0):
    return uct(exploration=width * WIN)
"""


def test_a_users_files_travel_and_make_the_same_match(tmp_path, cluster, monkeypatch):
    (tmp_path / "here" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "rules.py").write_text("WIN = 0.5\n")
    (tmp_path / "here" / "deep" / "mine.py").write_text(f"import sys\nsys.path.append({str(tmp_path)!r})\n{RULES}")
    (tmp_path / "mine.py").write_text(RULES)
    for name in ("../mine.py", str(tmp_path / "mine.py")):
        texts = "tic_tac_toe", f"{name}:mine(width=0.8)", "random"
        with working_on(cluster):
            afar = played(*texts, database=tmp_path / "one.sqlite", games=8)
        here = played(*texts, database=tmp_path / "one.sqlite", games=10, workers=1)
        assert here[:8] == afar, "the local run found the match, and went on"
    code = (
        "import pickle, sys\n"
        "from engram.arena.sources import text_digest; from engram.presets.catalogue import preset\n"
        "luggage, text = pickle.loads(sys.stdin.buffer.read()); luggage.unpack()\n"
        "print(text_digest([text]), preset(text).text)"
    )
    text = f"{tmp_path / 'mine.py'}:mine"
    luggage, digest = Luggage.of(files_named([text])), text_digest([text])
    (tmp_path / "mine.py").unlink()
    (tmp_path / "rules.py").unlink()
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps((luggage, text)), capture_output=True)
    assert done.stdout.decode().split() == [digest, text], done.stderr.decode()


def test_truth_and_temporal_differences_are_those_of_one_machine(tmp_path, cluster):
    rows = truth("tic_tac_toe", ["uct", "uct(backup=softmax)"], [10, 20], positions=60)
    configuration = TdConfiguration("tic_tac_toe", simulations=10, earlier=0.3, snapshot_every=6, capacity=4096)
    plan = EvaluationPlan(parse_opponents("random", configuration.made_game), every=10, games=2)

    def trained(folder, episodes):
        folder.mkdir(exist_ok=True)
        where = {"plan": plan, "workers": 3, "database": folder / "points.sqlite"}
        points = train(configuration, folder / "all.table", episodes=episodes, seeds=range(3), **where)
        return points, {file.name: storage.load(file, table_files.KIND) for file in folder.glob("*.table")}

    (points, tables) = trained(tmp_path / "here", 20)
    with working_on(cluster):
        assert truth("tic_tac_toe", ["uct", "uct(backup=softmax)"], [10, 20], positions=60) == rows
        trained(tmp_path / "afar", 10)
        points_afar, tables_afar = trained(tmp_path / "afar", 20)
    assert points == points_afar and len(points) == 9
    assert sorted(tables) == sorted(tables_afar) and len(tables) > 6
    for name, (about, arrays) in tables.items():
        about_afar, arrays_afar = tables_afar[name]
        assert about == about_afar and all(np.array_equal(arrays[key], arrays_afar[key]) for key in arrays)


def study_in(database):
    pytest.importorskip("botorch")
    from engram.tuning.objective import MatchObjective
    from engram.tuning.space import space
    from engram.tuning.study import Study

    objective = MatchObjective(
        game="tic_tac_toe", space=space("uct", tune=["exploration=0.1:2"]), against="uct", simulations=10,
        seconds=None, opening_moves=None, resign=None, seed=1, database=str(database),
    )  # fmt: skip
    return Study(objective, max_games=26, confirm_games=6, trial_games=20)


def test_a_study_is_that_of_one_process(tmp_path, cluster):
    def studied(name, workers):
        study = study_in(tmp_path / name)
        study.search(workers=workers)
        confirmation = study.confirm(workers=workers)
        return (
            [(trial.number, trial.params, trial.values) for trial in study.trials()],
            confirmation.score,
            study.best(),
        )

    here = studied("here.sqlite", 1)
    with working_on(cluster):
        assert studied("afar.sqlite", 3) == here


def test_self_play_is_that_of_one_process(tmp_path, cluster):
    pytest.importorskip("torch")
    from engram.networks.network import load_network
    from engram.training.run import NETWORK
    from engram.training.self_play import SelfPlayOptions
    from engram.training.self_play_training import SelfPlayPlan, train_self_play

    plan = SelfPlayPlan(
        game="tic_tac_toe", network="residual(blocks=1,filters=4,hidden=4)", steps=10, batch=16, first=40, refresh=4,
        window=200, options=SelfPlayOptions(num_games=6, simulations=8, fast_simulations=4, at_once=2),
    )  # fmt: skip
    here = train_self_play(plan, tmp_path / "here")
    with working_on(cluster):
        afar = train_self_play(plan, tmp_path / "afar", workers=3)
        behind = train_self_play(replace(plan, asynchronous=True), tmp_path / "behind", workers=3)
    assert (here.positions, here.games, here.max_age) == (afar.positions, afar.games, afar.max_age)
    weights, weights_afar = (load_network(tmp_path / name / NETWORK).weights for name in ("here", "afar"))
    assert all(np.array_equal(weights[name], weights_afar[name]) for name in weights)
    assert behind.done == 10 and 0 <= behind.mean_age <= behind.max_age


def square(number):
    if number == 7:
        raise TooLarge("7 is too large")
    if number == 8:
        raise ZeroDivisionError("a mistake")
    if number == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def test_tasks_are_taken_when_workers_ask(cluster):
    numbers = []

    def tasks():
        for number in range(100_000):
            numbers.append(number)
            yield number

    with working_on(cluster), fleet(negative, count=2) as workers:
        results = workers.run(tasks())
        first = [next(results) for _ in range(3)]
        assert {0, -1, -2} >= {first[0]} and len(numbers) < 100_000, "other processes may claim the rest"
    with working_on(cluster), fleet(negative, count=2) as workers:
        assert sorted(workers.run(iter(range(2000)))) == list(range(-1999, 1))


def negative(link):
    for task in link.tasks():
        link.send(-task, ends=task)


def double(link):
    for task in link.tasks():
        link.send(2 * link.shared(task), ends=task)


def test_errors_of_the_work_and_deaths_of_workers_have_their_sentences(cluster, monkeypatch):
    monkeypatch.setattr(ray_fleet, "_MOST_DEATHS", 1)
    with working_on(cluster):
        assert list(spread(square, [(number,) for number in range(7)], 3)) == [0, 1, 4, 9, 16, 25, 36]
        with pytest.raises(TooLarge, match="7 is too large"):
            list(spread(square, [(7,)], 2))
        with pytest.raises(WorkerError, match=r"a worker failed: ZeroDivisionError: a mistake \(test_ray_cluster.py:"):
            list(spread(square, [(8,)], 2))
        with pytest.raises(WorkerError, match="more than 1 workers died one after another with the same task"):
            list(spread(square, [(9,)], 2))
        with pytest.raises(InvalidParameter, match="cannot receive"):
            fleet(lambda link: None, count=1)
        with fleet(double, count=2) as workers:
            tasks = deque([workers.share(3)])
            assert list(workers.stream(tasks)) == [6]
            tasks.append(workers.share(np.arange(3)))
            assert [answer.tolist() for answer in workers.stream(tasks)] == [[0, 2, 4]]


def test_machines_that_would_play_other_games_are_refused(machines, cluster, tmp_path):
    with working_on(cluster):
        node = next(iter(cluster._nodes.values()))
        for change, sentence in (
            ({"version": "0.0.1"}, "has engram 0.0.1, and the head"),
            ({"sources": "0"}, "has other source files of engram"),
            ({"numba": "0.1"}, "has numba 0.1, and the head"),
        ):
            with pytest.raises(ClusterError, match=sentence):
                cluster.check(replace(node, **change))
        cluster.check(replace(node, name="slow", processor="of last year"))
        assert len(played(database=tmp_path / "n.sqlite", games=2, simulations=1)) == 2
        with pytest.raises(ClusterError, match=r"different searches on .* give simulations, or allow it"):
            played(database=tmp_path / "s.sqlite", games=2, simulations=None, seconds=0.001)
        with pytest.raises(ClusterError, match="different searches"):
            cluster.check(replace(node, name="slow", processor="of last year"))
        cluster._allow_unequal = True
        assert len(played(database=tmp_path / "s.sqlite", games=2, simulations=None, seconds=0.001)) == 2
    with pytest.raises(ClusterError, match=r"has no room for a worker of one core and 0\.5 of a GPU"):
        RayCluster(machines.address, gpu_share=0.5)
    with pytest.raises(InvalidParameter, match="the share of a GPU is 0 to 1"):
        RayCluster(machines.address, gpu_share=2.0)


class WindowsFolder(PureWindowsPath):
    """A path as Windows writes and sorts it, of a file of this machine."""

    def rglob(self, pattern):
        return [WindowsFolder(file) for file in Path(self.as_posix()).rglob(pattern)]

    def read_bytes(self):
        return Path(self.as_posix()).read_bytes()


def test_windows_and_linux_name_the_sources_alike(monkeypatch):
    digest = node.sources_digest()
    monkeypatch.setattr(node, "Path", WindowsFolder)
    assert node.sources_digest.__wrapped__() == digest


def test_ctrl_c_frees_the_cores_and_the_match_goes_on_later(tmp_path, cluster):
    def stop(result):
        raise KeyboardInterrupt

    settings = {"database": tmp_path / "r.sqlite", "simulations": 400}
    with working_on(cluster), pytest.raises(MatchInterrupted) as interrupt:
        played(games=100_000, progress=stop, **settings)
    recorded = interrupt.value.result.games
    assert 0 < recorded < 100_000
    deadline = time.monotonic() + 120
    while (free := free_cores() + len(cluster._idle)) < 3 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert free == 3
    more = recorded + 40 + recorded % 2
    assert len(played(games=more, workers=1, **settings)) == more


def test_a_match_that_waits_for_others_leaves_them_the_cores(tmp_path, cluster, monkeypatch):
    """Otherwise one command holds every core and waits for the games of commands that wait for a core."""
    monkeypatch.setattr(claims, "LEASE_S", 1000.0)
    options = {"games": 20, "simulations": 20, "database": tmp_path / "r.sqlite"}
    alone = match(*MATCH, **options | {"database": tmp_path / "alone.sqlite"}, workers=1)
    with Results(options["database"]) as results, ThreadPoolExecutor(1) as pool:
        match_id = results.open_match(alone.configuration.identity, 20, "1")
        with results.changing(match_id) as connection:
            results.claim(connection, match_id, [3], "another machine/7/x", 1000.0)

        def play():
            with working_on(cluster):
                return match(*MATCH, **options)

        playing, deadline = pool.submit(play), time.monotonic() + 300
        try:
            while len(results.games(match_id)) < 19 or free_cores() < 3:
                assert time.monotonic() < deadline and not playing.done()
                time.sleep(0.1)
        finally:
            with results.writing() as connection:
                connection.execute(text("UPDATE claim SET expires = 0"))
        assert playing.result(300).standing == alone.standing


def test_a_study_that_waits_for_others_leaves_them_the_cores(tmp_path, cluster):
    study = study_in(tmp_path / "r.sqlite")
    from engram.tuning.study import CLAIM, TrialState

    def are_free(deadline):
        try:
            while free_cores() < 3 and time.monotonic() < deadline:
                time.sleep(0.1)
            return time.monotonic() < deadline
        finally:
            study.optuna.tell(trial, state=TrialState.FAIL)

    with working_on(cluster), ThreadPoolExecutor(1) as pool:
        study.search(workers=3)
        trial = study.optuna.ask(study.space.ranges)
        trial.set_user_attr(CLAIM, {"host": "another", "process": 1, "time": time.time() + 120})
        free = pool.submit(are_free, time.monotonic() + 120)
        assert study.recommendation() and free.result()


def test_a_terminated_head_ends_without_a_word_of_ray(machines):
    code = "import os, signal; from engram.cluster.ray_cluster import RayCluster\n"
    code += f"with RayCluster({machines.address!r}): os.kill(os.getpid(), signal.SIGTERM)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGTERM, "")


def test_without_ray_and_without_a_cluster_a_sentence_says_so():
    start = "import sys; from engram.cli.app import main; sys.argv[1:] = {}; {}; main()"
    words = ["match", "-g", "tic_tac_toe", "--games", "2", "-d", ":memory:", "--cluster"]
    for address, before, sentence in (
        ("auto", "sys.modules['ray'] = None", "engram: a cluster needs Ray: pip install 'engram[cluster]'\n"),
        ("nowhere", "", "engram: the cluster 'nowhere' cannot be joined: "),
        ("127.0.0.1:1", "", "engram: the cluster '127.0.0.1:1' cannot be joined: nothing answers at 127.0.0.1:1 ("),
        ("ray://[::1]:1", "", "engram: the cluster 'ray://[::1]:1' cannot be joined: nothing answers at [::1]:1 ("),
    ):
        code = start.format([*words, address], before or "pass")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith(sentence) and done.stderr.count("\n") == 1, done.stderr


def test_a_cluster_that_asks_for_a_token_is_joined_with_it_and_else_refused_in_a_sentence(tmp_path):
    home = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"} | {"HOME": str(tmp_path)}
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text("of this test")
    head = "import sys, time; from ray.cluster_utils import Cluster as C; c = C(True, head_node_args={}); {}"
    head = head.format(NODE, "print(c.address, flush=True); sys.stdin.read(); c.shutdown()")
    for _ in range(20):  # Ray itself waits 30 s for a node, which a busy machine may need
        server = subprocess.Popen(
            [sys.executable, "-c", head], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env={**home, "RAY_AUTH_MODE": "token"},
        )  # fmt: skip
        if address := server.stdout.readline().strip():
            break
        server.communicate()
    try:
        words = ["match", "-g", "tic_tac_toe", "--games", "2", "-n", "5", "-d", ":memory:", "--cluster"]
        words = [sys.executable, "-m", "engram", *words, address]
        joined = subprocess.run(words, capture_output=True, text=True, env=home)
        assert joined.returncode == 0, joined.stderr
        (tmp_path / ".ray/auth_token").unlink()
        refused = subprocess.run(words, capture_output=True, text=True, env={**home, "RAY_AUTH_MODE": "token"})
        assert refused.returncode == 2 and "no authentication token was found" in refused.stderr
        assert refused.stderr.startswith("engram: the cluster ") and refused.stderr.count("\n") == 1
    finally:
        server.stdin.close()
        server.wait()
