"""A cluster of Ray: joined or started here, its machines checked, and its idle actors kept from fleet to fleet."""

from __future__ import annotations

import logging
import math
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from engram.cluster.actor import Actor, ray_node
from engram.cluster.files import Luggage
from engram.cluster.node import Node, this_node
from engram.cluster.ray_fleet import LACKS_ENGRAM, RayFleet
from engram.errors import EngramError, InvalidParameter, optional_package
from engram.fleet import default_workers, pickled

_LOG = logging.getLogger(__name__)
_LOOK_S = 120.0
_DOOR_S = 10.0  # for an address to answer; Ray itself would try for minutes
_JOINS = 6  # times that an address is tried if its process for us dies at the start
_PAUSE_S = 1.0


class ClusterError(EngramError, RuntimeError):
    """A cluster that cannot be joined or started, or whose machines do not fit together."""


class RayCluster:
    """The machines of a cluster of Ray; use it in a `with` block, inside `engram.fleet.working_on`.

    Args:
      address: `auto` joins the cluster that `RAY_ADDRESS` names or that runs on this machine, or starts one here;
        `HOST:6379` joins a cluster of which this machine is a node, `ray://HOST:10001` one from outside.
      gpu_share: share of a GPU for each worker, in (0, 1], or 0: none.
      allow_unequal: whether budgets in seconds may be played on machines with different processors.
      tell: called with lines about the workers.

    Attributes:
      num_workers: workers for which the cluster has room: a core each, and a share of a GPU.

    Raises:
      MissingPackage: Ray is not installed. ClusterError: the cluster cannot be joined.
      InvalidParameter: no such address or share.
    """

    def __init__(
        self, address: str, *, gpu_share: float = 0.0, allow_unequal: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ):  # fmt: skip
        if not 0.0 <= gpu_share <= 1.0:
            raise InvalidParameter(f"the share of a GPU is 0 to 1, not {gpu_share}")
        self._ray = _imported()
        self._joined = not self._ray.is_initialized()
        if self._joined:
            _connect(self._ray, address)
        self._tell, self._allow_unequal = tell, allow_unequal
        self._head = this_node("head")
        self._idle: list[Any] = []
        self._nodes: dict[str, Node] = {}
        self._clocked = False
        self._actor = self._ray.remote(num_cpus=1, num_gpus=gpu_share, max_restarts=0)(Actor)
        machines = [node for node in self._ray.nodes() if node["Alive"] and _room(node["Resources"], gpu_share)]
        try:
            self.num_workers = sum(_room(node["Resources"], gpu_share) for node in machines)
            if not self.num_workers:
                share = f" and {gpu_share:g} of a GPU" if gpu_share else ""
                raise ClusterError(f"the cluster {address} has no room for a worker of one core{share}")
            self._look_at(machines)
        except BaseException:
            self.close()
            raise
        self._tell(f"cluster: room for {count_of(self.num_workers, 'worker')} on {count_of(len(machines), 'machine')}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees all actors, and leaves the cluster; a cluster that was started here ends."""
        self.release()
        if self._joined:
            with suppress(Exception):
                self._ray.shutdown()

    def fleet(
        self, work: Callable[..., None], *setting: Any, count: int, files: Sequence[Path] = (), clocked: bool = False
    ) -> RayFleet:
        """See `engram.fleet.choice.fleet`."""
        if clocked:
            self._check_clocks()
        order = pickle.dumps((sys.path, pickled((work, setting))))
        return RayFleet(self, self._ray, order, Luggage.of(files), count=count)

    def take(self) -> Any:
        """An idle actor, or a new one."""
        return self._idle.pop() if self._idle else self._actor.options(scheduling_strategy="SPREAD").remote()

    def keep(self, actor: Any) -> None:
        """Keeps an actor whose work has ended for the next fleet."""
        self._idle.append(actor)

    def release(self) -> None:
        """See `engram.fleet.release_workers`."""
        while self._idle:
            self.free(self._idle.pop())

    def free(self, actor: Any) -> None:
        """Ends an actor."""
        with suppress(Exception):  # it may have died, or the cluster
            self._ray.kill(actor)

    def check(self, node: Node) -> None:
        """Refuses a machine whose games could differ from the others'.

        Raises:
          ClusterError: it has another engram; or another processor, once a fleet had budgets in seconds.
        """
        if mismatch := node.mismatch(self._head):
            raise ClusterError(f"the machine {node.name} has {mismatch}: install the same on all machines")
        self._nodes[node.name] = node
        if self._clocked:
            self._check_clocks()

    def _check_clocks(self) -> None:
        self._clocked = True
        first, *others = self._nodes.values()
        other = next((node for node in others if node.processor != first.processor), None)
        if other is not None and not self._allow_unequal:
            raise ClusterError(
                f"a budget in seconds would mean different searches on {first.name} ({first.processor}) and "
                f"{other.name} ({other.processor}): give simulations, or allow it by --allow-unequal"
            )

    def _look_at(self, machines: list[dict[str, Any]]) -> None:
        """Checks the machines of the cluster, except those that leave meanwhile."""
        look = self._ray.remote(num_cpus=0)(ray_node)
        at = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        calls = [look.options(scheduling_strategy=at(machine["NodeID"], soft=False)).remote() for machine in machines]
        for call in calls:
            try:
                self.check(self._ray.get(call, timeout=_LOOK_S))
            except self._ray.exceptions.RayError as error:
                if "No module named 'engram'" in str(error):
                    raise ClusterError(LACKS_ENGRAM) from None
                _LOG.warning("a machine of the cluster does not answer: %s", " ".join(str(error).split())[:300])

    def report(self, workers: int, machines: int) -> None:
        """Reports the number of workers; 0 if other work holds the cores."""
        working = f"{count_of(workers, 'worker')} on {count_of(machines, 'machine')}"
        self._tell(f"cluster: {working if workers else 'no core is free yet; other work holds them'}")


def count_of(number: int, noun: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _room(resources: dict[str, float], gpu_share: float) -> int:
    cores = int(resources.get("CPU", 0))
    return min(cores, math.floor(resources.get("GPU", 0) / gpu_share + 1e-9)) if gpu_share else cores


def _imported() -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # without a GPU, leave CUDA's variables alone
    token = os.environ.get("RAY_AUTH_TOKEN_PATH", os.path.expanduser("~/.ray/auth_token"))
    if os.environ.get("RAY_AUTH_TOKEN") or os.path.isfile(token):
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray itself shows a token only to clusters that it finds here
    return optional_package("ray", "Ray", "cluster", "a cluster")


def _knock(address: str) -> None:
    """Raises an OSError if nothing answers at an address."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_DOOR_S).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(f"nothing answers at {host}:{port} ({error})") from None


def _join(ray: Any, address: str, quiet: dict[str, Any]) -> None:
    """Joins a cluster; from outside, Ray starts a process for each client there, and that process may die at once."""
    for attempt in range(1, _JOINS + 1):
        try:
            ray.init(address=address, **quiet)
            return
        except ConnectionAbortedError as error:
            if attempt == _JOINS or "Initialization failure" not in str(error):
                raise
            _LOG.warning("the cluster's process for this client died at its start; attempt %d", attempt + 1)
            time.sleep(_PAUSE_S)


def _connect(ray: Any, address: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        _knock(os.environ.get("RAY_ADDRESS", "") if address == "auto" else address)
        if address != "auto":
            _join(ray, address, quiet)
            return
        try:
            ray.init(address="auto", **quiet)
        except ConnectionError:
            if os.environ.get("RAY_ADDRESS"):
                raise
            ray.init(address="local", include_dashboard=False, num_cpus=default_workers(), **quiet)
    except (RuntimeError, ValueError, ImportError, OSError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ClusterError(f"the cluster {address!r} cannot be joined: {reason[:300]}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's own handler prints its stack, and may abort
