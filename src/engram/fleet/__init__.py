"""Work in many processes, of this machine or of a cluster, behind one interface."""

from engram.fleet.choice import fleet, spread
from engram.fleet.interface import AnyFleet, Link, WorkerError, portable
from engram.fleet.log import log_to_stderr
from engram.fleet.place import Cluster, check_workers, default_workers, on_cluster, release_workers, working_on
from engram.fleet.processes import Fleet, pickled

__all__ = [
    "AnyFleet", "Cluster", "Fleet", "Link", "WorkerError", "check_workers", "default_workers", "fleet",
    "log_to_stderr", "on_cluster", "pickled", "portable", "release_workers", "spread", "working_on",
]  # fmt: skip
