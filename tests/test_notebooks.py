"""The example notebooks run from the first cell to the last, and show what they promise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need engram[notebook] and nbclient")
nbclient = pytest.importorskip("nbclient", reason="notebooks need engram[notebook] and nbclient")
pytest.importorskip("ipykernel", reason="notebooks need a kernel: pip install ipykernel")
pytest.importorskip("anywidget", reason="notebooks need engram[notebook]")

ROOT = Path(__file__).parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"
NOTEBOOKS = {
    "memory": {"text/html": ["memory says", "<h4>A memory", "<svg", "nodes,"], WIDGET: [""]},
    "tuning": {"text/html": ["score of A", "95 % interval"], "image/png": ["iVBOR"], WIDGET: [""]},
    "learning": {"text/html": ["td_uct(table="], "image/png": ["iVBOR"], WIDGET: [""]},
}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_its_pictures(name, tmp_path, monkeypatch):
    if name == "tuning":
        pytest.importorskip("botorch", reason="tuning needs engram[tune]")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(ROOT / "examples/notebooks" / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    done = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown: dict[str, str] = {}
    for cell in done.cells:
        for output in cell.get("outputs", []):
            for kind, text in output.get("data", {}).items():
                shown[kind] = shown.get(kind, "") + str(text)
    for kind, parts in NOTEBOOKS[name].items():
        assert kind in shown
        for part in parts:
            assert part in shown[kind]
