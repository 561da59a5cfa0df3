"""A machine of a cluster: its engram and its processor, and the versions that all machines must share."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import engram


@dataclass(frozen=True)
class Node:
    """A machine as a process on it sees it.

    Attributes:
      name: its address, and the beginning of its number on a cluster. process: the process that sees it.
      version, sources: of engram, and the digest of its source files.
      python, numpy, numba: versions. processor: model and features, which decide speed and compiled code.
    """

    name: str
    process: int
    version: str
    sources: str
    python: str
    numpy: str
    numba: str
    processor: str

    def mismatch(self, head: Node) -> str:
        """The first difference from the head that could change results; empty: none."""
        for what in ("version", "sources", "python", "numpy", "numba"):
            here, there = getattr(self, what), getattr(head, what)
            if here != there:
                if what == "sources":
                    return f"other source files of engram {self.version} than the head"
                title = "engram" if what == "version" else what
                return f"{title} {here}, and the head {there}"
        return ""


def this_node(name: str) -> Node:
    """The machine of this process."""
    import numba
    import numpy

    python = ".".join(platform.python_version_tuple()[:2])
    return Node(
        name, os.getpid(), engram.__version__, sources_digest(), python, numpy.__version__, numba.__version__,
        _processor(),
    )  # fmt: skip


@cache
def sources_digest() -> str:
    """Digest of all of engram's source files."""
    package, digest = Path(engram.__file__).parent, hashlib.sha256()
    for file in sorted(package.rglob("*.py"), key=lambda file: file.parts):  # Windows paths sort differently
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def build() -> str:
    """Digest of all that decides results besides the processor: engram's source files, Python, NumPy and Numba."""
    node = this_node("")
    parts = node.version, node.sources, node.python, node.numpy, node.numba
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    from llvmlite import binding

    model = platform.processor() or platform.machine()
    with suppress(OSError, IndexError):  # not Linux, or a processor without a name
        model = re.findall(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[0]
    features = hashlib.sha256(binding.get_host_cpu_features().flatten().encode()).hexdigest()[:8]
    return f"{model} ({binding.get_host_cpu_name()} {features})"
