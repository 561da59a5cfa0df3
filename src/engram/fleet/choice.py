"""The choice of a fleet: processes of this machine, or workers of the cluster of the enclosing `working_on`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

from engram.fleet.interface import AnyFleet, Link
from engram.fleet.place import check_workers, cluster, on_cluster
from engram.fleet.processes import Fleet


def fleet(
    work: Callable[..., None], *setting: Any, count: int, grace_s: float = 0.0, files: Sequence[Path] = (),
    clocked: bool = False,
) -> AnyFleet:  # fmt: skip
    """Workers of this machine, or of the cluster of the enclosing `working_on`.

    Args:
      work, setting, count, grace_s: as for `Fleet`; a cluster allows no grace.
      files: files that `work` reads, which travel to the machines of a cluster.
      clocked: whether results depend on a machine's speed; unequal machines are then refused.

    Raises:
      InvalidParameter: as for `Fleet`; or a machine of the cluster does not fit.
    """
    place = cluster.get()
    if place is None:
        return Fleet(work, *setting, count=count, grace_s=grace_s)
    check_workers(count)
    return place.fleet(work, *setting, count=count, files=files, clocked=clocked)


def spread(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], workers: int,
    progress: Callable[[int, int], None] | None = None, files: Sequence[Path] = (),
) -> Iterator[Any]:  # fmt: skip
    """Results of `function(*task)`, in the order of the tasks.

    Args:
      function: of a module. workers: processes, as many as `check_workers` allows; with 1, and without a cluster, this
        process does the work.
      progress: called with the numbers of finished and of all tasks after each result. files: as for `fleet`.

    Raises:
      EngramError: as `function` and `fleet`.
    """
    check_workers(workers)
    report = progress or (lambda done, total: None)
    if workers == 1 and not on_cluster():
        for done, result in enumerate(starmap(function, tasks), 1):
            report(done, len(tasks))
            yield result
        return
    with fleet(_apply, function, count=min(workers, len(tasks)), files=files) as workers_of_it:
        early: dict[int, Any] = {}
        due = 0
        for done, (number, result) in enumerate(workers_of_it.run(enumerate(tasks)), 1):
            report(done, len(tasks))
            early[number] = result
            while due in early:
                yield early.pop(due)
                due += 1


def _apply(link: Link, function: Callable[..., Any]) -> None:
    for task in link.tasks():
        number, arguments = task
        link.send((number, function(*arguments)), ends=task)
