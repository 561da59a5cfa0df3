"""Writes the packages for OptunaHub into a clone of its registry, or into any other folder.

python hub/assemble.py REGISTRY
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HUB = Path(__file__).parent
ROOT = HUB.parent
PACKAGES = {
    "samplers/noisy_score": [ROOT / "src/engram/tuning/sampler", HUB / "samplers/noisy_score"],
    "benchmarks/noisy_win_rate": [HUB / "benchmarks/noisy_win_rate"],
}


def assemble(registry: Path) -> list[Path]:
    """Writes both packages below `registry`/package; returns their folders."""
    folders = []
    for name, sources in PACKAGES.items():
        folder = registry / "package" / name
        for source in sources:
            shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "LICENSE", folder)
        folders.append(folder)
    return folders


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("python hub/assemble.py REGISTRY")
    print(*assemble(Path(sys.argv[1])), sep="\n")
