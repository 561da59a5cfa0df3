"""The files of a public repository: they parse, agree with the README and the package, and name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import engram

ROOT = Path(__file__).parents[1]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


def read(path: Path):
    return yaml.safe_load(path.read_text())


def readme_command(marker: str) -> str:
    return re.search(rf"<!-- {marker} -->\n```\n(.*)\n```\n<!-- end -->", (ROOT / "README.md").read_text())[1]


def steps(job: dict) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("name", ["match", "test"])
def test_the_workflow_runs_the_commands_of_the_readme_on_every_system(name):
    """But for the folder of programs, which Windows calls otherwise."""
    job = read(ROOT / ".github/workflows/ci.yml")["jobs"]["tests"]
    (step,) = [step for step in job["steps"] if step.get("name") == name]
    systems = {row["system"]: row["bin"] for row in job["strategy"]["matrix"]["include"]}
    assert systems == {"ubuntu-latest": "bin", "macos-latest": "bin", "windows-latest": "Scripts"}
    assert step["run"].replace("${{ matrix.bin }}", "bin") == readme_command(name)


def test_the_workflow_builds_the_site_and_a_wheel():
    jobs = read(ROOT / ".github/workflows/ci.yml")["jobs"]
    assert "mkdocs build --strict" in steps(jobs["docs"])
    assert any(run.startswith("pip wheel") for run in steps(jobs["wheel"]))
    folder = re.search(r"^site_dir: (.+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)[1]
    assert jobs["docs"]["steps"][-1]["with"]["path"] == folder


def test_each_job_begins_with_the_code_and_no_job_may_write():
    workflow = read(ROOT / ".github/workflows/ci.yml")
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["steps"][0]["uses"].startswith("actions/checkout@")
        assert job["timeout-minutes"] <= 90


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.stem)
def test_a_form_for_issues_is_complete(file):
    form = read(file)
    if file.stem == "config":
        assert set(form) == {"blank_issues_enabled"}
        return
    assert {"name", "description", "body"} <= set(form)
    for field in form["body"]:
        assert field["type"] in {"textarea", "input", "checkboxes"}
        assert field["attributes"]["label"]
    identifiers = [field["id"] for field in form["body"]]
    assert len(set(identifiers)) == len(identifiers)


def test_the_hooks_are_the_tools_of_the_suite():
    """Local ones, so that a commit is checked by the versions that the tests use."""
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    entries = [hook["entry"] for hook in repository["hooks"]]
    assert entries == ["ruff check", "ruff format --check", "mypy", "lint-imports"]
    assert all(hook["language"] == "system" for hook in repository["hooks"])


def test_the_citation_is_of_this_version_and_names_three_papers():
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == engram.__version__
    assert citation["license"] == "Apache-2.0"
    papers = {paper["authors"][0]["family-names"]: paper["year"] for paper in citation["references"]}
    assert papers == {"Xiao": 2018, "Li": 2020, "Swayne": 2020}
