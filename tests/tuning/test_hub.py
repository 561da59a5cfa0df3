"""The packages for OptunaHub load and work as OptunaHub loads them, in a process that cannot import engram."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("botorch")
pytest.importorskip("optunahub")

HUB = Path(__file__).parents[2] / "hub"
WITHOUT_ENGRAM = """
import runpy, sys
sys.modules["engram"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    folder = tmp_path_factory.mktemp("registry")
    subprocess.run([sys.executable, HUB / "assemble.py", folder], check=True, capture_output=True)
    return folder / "package"


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name, best", [("samplers/noisy_score", 0.55), ("benchmarks/noisy_win_rate", 0.5)])
def test_the_example_of_a_package_runs_without_engram(registry, name, best):
    command = [sys.executable, "-c", WITHOUT_ENGRAM, registry / name / "example.py", registry]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert float(re.search(r"truly ([\d.]+)%", run.stdout)[1]) > 100 * best


@pytest.mark.parametrize("name", ["samplers/noisy_score", "benchmarks/noisy_win_rate"])
def test_a_package_has_what_the_registry_asks_for(registry, name):
    folder = registry / name
    assert {"LICENSE", "README.md", "__init__.py", "example.py", "requirements.txt"} <= {
        file.name for file in folder.iterdir()
    }
    front = (folder / "README.md").read_text().split("---")[1]
    assert all(
        f"\n{key}: " in front for key in ("author", "title", "description", "tags", "optuna_versions", "license")
    )
    assert name.split("/")[0].removesuffix("s") in front


def test_the_benchmark_has_its_optimum_where_it_says(registry):
    import optunahub

    module = optunahub.load_local_module("benchmarks/noisy_win_rate", registry_root=str(registry))
    import numpy as np

    for kind in ("shape", "knots"):
        problem = module.WinRate(kind, seed=3, games=100_000)
        best = np.random.default_rng(3).uniform(-2.0, 4.0, module.KNOTS)
        params = dict(zip(problem.search_space, best, strict=True))
        assert problem.win_rate(params) == pytest.approx(module.OPTIMUM, abs=1e-9)
        assert problem.evaluate(params) == pytest.approx(module.OPTIMUM, abs=0.01)
        assert problem.win_rate({**params, "h3": params["h3"] + 3.0}) < module.OPTIMUM - 0.01
    with pytest.raises(ValueError, match="there are shape, knots"):
        module.WinRate("bowl")
