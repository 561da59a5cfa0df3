"""Where work is done: in processes of this machine, or on the cluster of the enclosing `working_on`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from engram.errors import check_whole
from engram.fleet.interface import AnyFleet


class Cluster(Protocol):
    """Many machines.

    Attributes:
      num_workers: number of workers that it has room for.
    """

    num_workers: int

    def fleet(
        self, work: Callable[..., None], *setting: Any, count: int, files: Sequence[Path], clocked: bool
    ) -> AnyFleet:
        """See `engram.fleet.choice.fleet`."""
        ...

    def release(self) -> None:
        """See `release_workers`."""
        ...


cluster: ContextVar[Cluster | None] = ContextVar("cluster", default=None)


@contextmanager
def working_on(other: Cluster) -> Iterator[None]:
    """A block whose fleets work on a cluster."""
    token = cluster.set(other)
    try:
        yield
    finally:
        cluster.reset(token)


def on_cluster() -> bool:
    """Whether fleets work on a cluster now."""
    return cluster.get() is not None


def release_workers() -> None:
    """Ends the workers that a cluster keeps for the next fleet, because other programs may wait for their cores."""
    if (other := cluster.get()) is not None:
        other.release()


def default_workers() -> int:
    """Workers that the cluster has room for; else `$ENGRAM_WORKERS`, or the cores that this process may use.

    Raises:
      InvalidParameter: `$ENGRAM_WORKERS` is not a whole number from 1.
    """
    if (other := cluster.get()) is not None:
        return other.num_workers
    if wanted := os.environ.get("ENGRAM_WORKERS"):
        check_whole("ENGRAM_WORKERS", int(wanted) if wanted.isdecimal() else wanted, 1, 512)
        return int(wanted)
    return usable_cores()


def usable_cores() -> int:
    """The number of cores that this process may use; a container's limit on processor time is rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, processor_quota())))


def processor_quota(groups: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> float:
    """The cores' worth of time that Linux's control groups allow this process; inf without a limit.

    Args:
      groups: a line for each hierarchy, `number:controllers:path`. mount: the folder of the hierarchies.
    """
    quotas = [math.inf]
    with suppress(OSError):  # another system
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                root, names = mount, ["cpu.max"]  # version 2
            elif "cpu" in controllers.split(","):
                root, names = mount / "cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
            else:
                continue
            folder = root / path.lstrip("/")  # in a container it may be missing: its own group is the root
            for each in (folder, *folder.parents[: len(folder.parts) - len(root.parts)]):
                with suppress(OSError, ValueError):  # no limit here
                    quota, period = " ".join((each / name).read_text() for name in names).split()
                    quotas.append(float(quota) / float(period) if float(quota) > 0.0 else math.inf)
    return min(quotas)


def check_workers(count: int) -> None:
    """Refuses more than 64 processes, or more than 4 times `default_workers` where that is larger.

    Raises:
      InvalidParameter: the count is not a whole number from 1 to that bound.
    """
    check_whole("workers", count, 1, max(64, 4 * default_workers()))
