"""What the pictures of `engram tune` and `engram truth` show."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from engram.arena.truth.backup_truth import TruthRow
from engram.arena.truth.memory_truth import MemoryTruthRow
from engram.cli import truth_views
from engram.pictures import chart


@pytest.fixture
def figures(monkeypatch):
    """The figures that are saved, in order."""
    saved = []
    monkeypatch.setattr(chart, "save", lambda figure, *_: saved.append(figure))
    return saved


def test_tuning_one_number_shows_that_number_and_its_trials(figures):
    charts = pytest.importorskip("engram.tuning.charts")
    from engram.tuning.findings import findings
    from engram.tuning.sampler import Observation
    from engram.tuning.space import space

    search_space = space("uct", tune=["exploration=0.2:3:log"])
    observations = [Observation(k, (k / 5,), 0.5 + 0.01 * k, 0.005, 50 + k) for k in range(6)]
    chart.draw(Path("unused.png"), "a study", charts.curves(search_space, findings(search_space, observations)))
    slice_, progress = figures[0].axes
    assert (slice_.get_title(), progress.get_title()) == (
        "Score along exploration",
        "Progress: the best posterior mean",
    )
    points = next(part for part in slice_.collections if len(part.get_offsets()) == 6)
    assert np.allclose(points.get_offsets()[:, 1], [trial.score for trial in observations])
    figures[0].draw_without_rendering()
    boxes = [label.get_window_extent() for label in slice_.get_xticklabels() if label.get_text()]
    assert len(boxes) >= 3 and all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_searches_have_clearly_different_colours(figures):
    rows = [
        TruthRow(f"uct({k})", n, 9, 5, 0.0, 0.1, 0.5, 0.1, 0.2, 0.1, 0.3, "0") for k in range(10) for n in (100, 400)
    ]
    truth_views.plot(truth_views.RULES, "connect_four", rows, Path("unused.png"))
    colours = {to_rgb(line.get_color()) for line in figures[0].axes[0].lines if len(line.get_xdata()) == 2}
    colours -= {to_rgb("grey")}
    assert len(colours) == 10
    assert min(max(abs(np.subtract(first, other))) for first, other in combinations(colours, 2)) > 0.2


def test_points_of_memory_have_intervals_and_numbers_of_nodes(figures):
    figures_of = dict.fromkeys(MemoryTruthRow.__dataclass_fields__, 0.25)
    of_search = {"search": "memory_uct", "simulations": 100, "positions": 8, "visits_high": 1}
    rows = [
        MemoryTruthRow(**{**figures_of, **of_search, "visits_low": 1, "nodes": 1234}),
        MemoryTruthRow(**{**figures_of, **of_search, "visits_low": 2, "nodes": 5, "memory_gain_error": None}),
    ]
    truth_views.plot(truth_views.MEMORIES, "connect_four", rows, Path("unused.png"))
    above, below = figures[0].axes
    assert [label.get_text() for label in below.get_xticklabels()] == ["1", "2"]
    assert below.get_xlabel().endswith("nodes by visits: 1: 1234, 2: 5")
    assert len(above.containers) == 3 and all(bars.has_yerr for bars in above.containers)
    hollow = [line for line in below.lines if line.get_markerfacecolor() == "white"]
    assert [line.get_xdata()[0] for line in hollow] == [2.0]


def test_long_titles_and_notes_stay_within_their_panels(figures):
    series = [chart.Series("a", [1, 2], [0.1, 0.2])]
    note = "nodes by visits: " + ", ".join(f"{2**k}: {1000 + k}" for k in range(10))
    title = "memory_uct(temperature=0.02): closer to the truth than the search's own by"
    charts = [chart.Chart(title, series, x="visits", y="error", note=note)] * 4
    chart.draw(Path("unused.png"), "a study of " + ", ".join(["memory_uct(temperature=0.02)"] * 6), charts, columns=2)
    figure = figures[0]
    figure.draw_without_rendering()
    panels = [(axes.title.get_window_extent(), axes.xaxis.label.get_window_extent()) for axes in figure.axes]
    texts = [extent for panel in panels for extent in panel] + [figure._suptitle.get_window_extent()]
    frame = figure.bbox
    assert all(frame.x0 <= text.x0 and text.x1 <= frame.x1 and frame.y0 <= text.y0 for text in texts)
    assert not any(first.overlaps(other) for first, other in combinations(texts, 2))
