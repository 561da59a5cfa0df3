"""A cluster of three nodes on this machine: what it costs, and whether deaths cost games.

python benchmarks/cluster.py deaths    # ten machines are killed, and the head; --work match, tune or td
python benchmarks/cluster.py speed     # games a second beside the pool of processes, in turns
python benchmarks/cluster.py answers   # results a second that the head takes from workers that answer at once
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ray.cluster_utils import Cluster

from engram import storage
from engram.arena.match import match
from engram.arena.results import MEMORY, Results
from engram.cluster.ray_cluster import RayCluster
from engram.fleet import spread, working_on
from engram.memory.values import table_files

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
MATCH = ("connect_four", "uct", "uct(exploration=0.5)")


WORK = {
    "match": ["match", "-g", "connect_four", "--b", "uct(exploration=0.5)", "--games", "2000", "-n", "100"],
    "tune": ["tune", "-g", "connect_four", "-s", "uct", "--tune", "exploration=0.2:3:log", "--max-games", "2000",
             "-n", "100"],
    "td": ["train", "td", "-g", "connect_four", "--seeds", "3", "--episodes", "400", "--every", "100", "--games", "40",
           "--evaluate", "uct(simulations=100)", "-n", "100", "-o", "all.table"],
}  # fmt: skip
"""Commands whose results must not depend on the machines that die."""


def outcome(folder: Path) -> dict[str, object]:
    """All that a command has left behind, without the time that it took: games, trials and tables."""
    left: dict[str, object] = {}
    with Results(folder / "r.sqlite", must_exist=True) as results:
        for row in results.matches():
            games = [
                {name: value for name, value in vars(record).items() if "seconds" not in name}
                for record in results.games(row.id)
            ]  # fmt: skip
            left[f"match {row.configuration['a']}, {row.games} games"] = games
    for table in sorted(folder.glob("*.table")):
        about, arrays = storage.load(table, table_files.KIND)
        left[table.name] = about, {name: array.tobytes() for name, array in arrays.items()}
    return left


def deaths(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Runs a command while machines die, kills the head in the middle, and compares with a local run."""
    with tempfile.TemporaryDirectory() as name:
        folders = Path(name, "here"), Path(name, "afar")
        for folder in folders:
            folder.mkdir()
        command = [sys.executable, "-m", "engram", *WORK[arguments.work]]
        command += ["--storage" if arguments.work == "tune" else "--database", "r.sqlite"]
        afar = [*command, "--cluster", cluster.address]
        head, kills = subprocess.Popen(afar, cwd=folders[1]), 0
        while head.poll() is None:
            time.sleep(arguments.every)
            if kills == arguments.kills:
                continue
            victim = cluster.list_all_nodes()[-1]
            os.kill(victim.all_processes["raylet"][0].process.pid, signal.SIGKILL)
            cluster.remove_node(victim, allow_graceful=False)
            kills += 1
            print(f"machine {kills} killed", flush=True)
            cluster.add_node(**NODE)
            if kills == arguments.kills // 2:
                head.kill()
                head.wait()
                print("head killed", flush=True)
                head = subprocess.Popen(afar, cwd=folders[1])
        subprocess.run(command, cwd=folders[0], check=True)
        here, there = map(outcome, folders)
        for part in here.keys() | there.keys():
            print(f"{part}: {'the same' if here.get(part) == there.get(part) else 'DIFFERENT'}")
        print(f"{arguments.work}: {kills} machines killed, the head {int(kills >= arguments.kills // 2)} times")


def speed(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Games a second of two workers of the cluster beside two processes, in turns; the load of the machine."""
    ratios = []
    with RayCluster(cluster.address) as ours:
        for turn in range(arguments.turns + 1):
            rates = []
            for place in ("cluster", "pool"):
                settings = {"games": arguments.games, "simulations": 1000, "workers": 2, "seed": turn}
                first: list[tuple[float, int]] = []
                last = time.monotonic(), 0

                def note(now: object, first: list[tuple[float, int]] = first) -> None:
                    nonlocal last
                    last = time.monotonic(), now.games  # type: ignore[attr-defined]
                    first.append(last)

                if place == "cluster":
                    with working_on(ours):
                        match(*MATCH, progress=note, database=MEMORY, **settings)
                else:
                    match(*MATCH, progress=note, database=MEMORY, **settings)
                # From the first report on, so that starting processes, which a long match does once, does not count.
                rates.append((last[1] - first[0][1]) / (last[0] - first[0][0]))
            if turn:  # the first compiles
                ratios.append(rates[0] / rates[1])
            print(f"cluster {rates[0]:.2f}, pool {rates[1]:.2f} games/s, load {os.getloadavg()[0]:.1f}", flush=True)
    print(f"ratio {statistics.median(ratios):.3f}, the median of {[round(ratio, 3) for ratio in ratios]}")


def answers(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Results a second that the head takes from three workers that answer at once."""
    with RayCluster(cluster.address) as ours, working_on(ours):
        tasks, start = [(number,) for number in range(10 * arguments.games)], 0.0
        for done, _ in enumerate(spread(abs, tasks, 3)):
            start = start if done else time.monotonic()
        print(f"{done / (time.monotonic() - start):.0f} results/s, load {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Runs one of the three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["deaths", "speed", "answers"])
    parser.add_argument("--work", choices=WORK, default="match")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between kills")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--games", type=int)
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    arguments.games = arguments.games or (100 if arguments.what == "speed" else 2000)
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "_system_config": QUICK})
    try:
        for _ in range(3):
            cluster.add_node(**NODE)
        {"deaths": deaths, "speed": speed, "answers": answers}[arguments.what](cluster, arguments)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
