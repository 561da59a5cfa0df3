"""Figure 2 of the memory paper at our scale: neighbours × temperature × simulations, against the baseline.

    python experiments/memory_mcts/run.py --games 200 --only "go block4" "250 simulations" --minutes 40

    python experiments/memory_mcts/run.py --learned FOLDER --games 100 --only "go learned" --minutes 40

FOLDER is that of `engram train features --game go:9 --network go9 …`. Cells grow together, some games each in turn, so
that whatever the clock allows is spread evenly; the same command again goes on. Games are recorded in
memory_mcts.sqlite beside this file, the table stands in screen.json and on the terminal.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import t

from engram import match
from engram.storage import whole

HERE = Path(__file__).parent
PLAYERS = os.path.relpath(HERE / "players.py")
SEED = 501
ROUND = 200
"""Games of a cell in one turn: fewer leave places of the network's batches empty."""
NEIGHBOURS, TEMPERATURES = (20, 50, 100), (0.02, 0.05, 0.1, 1.0)
"""The paper's, and a smaller temperature: our networks' layers make all positions of a search alike (0.8 to 0.95)."""
LEAVES = 8
"""In flight where time is the budget: one leaf at a time takes 2.7 times as long."""
CHEAP = "capacity=2000, num_candidates=60, equivalence=15, temperature=0.08, decay=1.4"
"""A correcting memory that takes a sixth of a search's time; how it was found: RESULTS.md."""
GO_BASELINE = "uct_prior(network='go9', rollout=heavy)"
GO19_BASELINE = "uct_prior(network='go19-predictor', rollout=heavy, num_leaves=8)"
RAVE = "rave(network='go9', rollout=heavy)"
RESIGN = {"go:9": 0.9, "go:19": 0.9}
"""By game: with rollouts half of a game of Go comes after both sides know its winner."""


@dataclass(frozen=True)
class Cell:
    """A match: its group, game, players, and what each may spend a move (simulations, or seconds)."""

    group: str
    game: str
    a: str
    b: str
    simulations: int | None = None
    seconds: float | None = None

    @property
    def name(self) -> str:
        """Group, budget and player, as the table shows it."""
        budget = f"{self.simulations} simulations" if self.simulations else f"{self.seconds} s"
        return f"{self.group}: {self.a.removeprefix(PLAYERS + ':')}, {budget}"


def cells(learned_go: str | None = None) -> list[Cell]:
    """Every cell of the study; those of features learned for 9×9 Go too, if there are any."""
    grid = [f"num_neighbours={m}, temperature={t}" for m in NEIGHBOURS for t in TEMPERATURES]
    study = []
    for group, network in (("connect_four hand-made", ""), ("connect_four learned", "connect_four_features")):
        # Leaves in flight cost strength at so few simulations: one at a time, as the opponent has it.
        prefix = f"network='{network}', num_leaves=1, " if network else ""
        # How loud a memory may be depends on how well it compares: λ is screened first.
        # So does the way up the path: with η = 1000 an answer counts as one return beyond its own node.
        loud = [f"equivalence={k}" for k in (3, 30)]
        loud += ["equivalence=30, decay=1000.0", "equivalence=30, every_node=true"]
        study += [Cell(f"{group} λ", "connect_four", f"memory_uct({prefix}{options})", "uct", 200) for options in loud]
        study += [
            Cell(group, "connect_four", f"memory_uct({prefix}{options})", "uct", simulations)
            for simulations in (250, 500, 1000)
            for options in grid
        ]
        timed = f"network='{network}'" if network else ""
        study.append(Cell(f"{group} time", "connect_four", f"memory_uct({timed})", "uct", seconds=0.05))
    loud_and_near = "equivalence=30, decay=1000.0"
    learned = f"memory_uct(network='connect_four_features', num_leaves=1, {loud_and_near})"
    study.append(Cell("learned or hand-made", "connect_four", learned, f"memory_uct({loud_and_near})", 200))
    for group, layer in (("go hand-made", "'hand-made'"), ("go block4", "block4")):
        study += [
            Cell(group, "go:9", f"{PLAYERS}:memory_prior(layer={layer}, {options})", GO_BASELINE, simulations)
            for simulations in (250, 500, 1000)
            for options in grid
        ]
        timed = f"{PLAYERS}:memory_prior(layer={layer}, num_leaves={LEAVES})"
        study.append(Cell(f"{group} time", "go:9", timed, GO_BASELINE, seconds=0.2))
    if learned_go is not None:
        player = f"{PLAYERS}:memory_prior(network='{learned_go}', layer=features, temperature="
        study += [Cell("go learned", "go:9", f"{player}{t})", GO_BASELINE, 250) for t in (0.03, 0.1, 0.3)]
    # One number at a time beside the paper's best cell: how much is kept, how far an answer counts up, how loud it is
    # and by which law it falls silent, how many numbers a position is, and the direct variant.
    numbers = {
        "capacity": (1000, 3000, 5000, 30000), "decay": (1.0, 4.0, 1000.0), "equivalence": (1.0, 30.0, 300.0),
        "bias": (0.05, 0.1, 0.3), "dimension": (128, 256, 1024, 4096), "every_node": ("true",),
    }  # fmt: skip
    study += [
        Cell(f"go {name}", "go:9", f"{PLAYERS}:memory_prior(layer=block4, {name}={value})", GO_BASELINE, 250)
        for name, values in numbers.items()
        for value in values
    ]
    # What else says something of a position from elsewhere, on the same baseline.
    prior = GO_BASELINE.removesuffix(")")
    others = (f"{prior}, transpositions=true)", f"{prior}, backup=bias_correction)", RAVE)
    study += [Cell("go others", "go:9", other, GO_BASELINE, 250) for other in others]
    # Memory itself against each of them, and on top of a learned value: the paper's first open question.
    best = f"{PLAYERS}:memory_prior(layer=block4)"
    study += [Cell(f"go block4 against {other}", "go:9", best, other, 250) for other in others]
    for game, network, simulations in (("connect_four", "connect_four", 100), ("go:9", "go9", 400)):
        learned, loud = f"network='{network}', num_leaves=4", "equivalence=30"
        study += [
            Cell(f"{network} value", game, f"memory_puct({options})", f"puct({learned})", simulations)
            for options in (
                f"{learned}, correct=false",
                f"{learned}, correct=false, temperature=0.02",
                f"{learned}, correct=false, temperature=0.02, {loud}",
                learned,
                f"{learned}, equivalence=100, decay=1000, temperature=0.03",
                f"{learned}, {CHEAP}",
            )
        ]
    large = f"{PLAYERS}:memory_prior(network='go19-predictor', layer=block4, num_leaves=8)"
    study += [
        Cell("go19 block4", "go:19", large, GO19_BASELINE, budget, time) for budget, time in ((250, None), (None, 1.0))
    ]
    return study


def together(database: Path, matches: set[int]) -> str:
    """The score of all cells in one, 95 %: cells of a seed share their openings, so that these are the unit."""
    games = ", ".join(map(str, sorted(matches)))
    with closing(sqlite3.connect(database)) as opened:
        rows = opened.execute(
            f"SELECT avg((outcome + 1) / 2), count(*) FROM game WHERE match_id IN ({games}) GROUP BY pair"
        ).fetchall()
    scores = 100 * np.array([score for score, _ in rows])
    error = float(t.ppf(0.975, len(scores) - 1)) * scores.std(ddof=1) / math.sqrt(len(scores))
    mean, played = scores.mean(), sum(number for _, number in rows)
    return f"together: {played} games {mean:.1f} % [{mean - error:.1f}, {mean + error:.1f}]"


def main() -> None:
    """Plays rounds until every chosen cell has its games or the minutes are over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=200, help="of a cell")
    parser.add_argument("--only", nargs="+", default=[], help="cells whose name holds all these texts")
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--learned", help="network with features learned for 9×9 Go")
    options = parser.parse_args()
    selection, end = (
        [cell for cell in cells(options.learned) if all(text in cell.name for text in options.only)],
        time.monotonic() + 60.0 * options.minutes,
    )
    table = HERE / "screen.json"
    rows = json.loads(table.read_text("utf-8")) if table.exists() else {}
    database, matches = HERE / "memory_mcts.sqlite", set()
    for games in range(ROUND, options.games + ROUND, ROUND):
        for cell in selection:
            if time.monotonic() > end:
                return
            result = match(
                cell.game, cell.a, cell.b, games=min(games, options.games), simulations=cell.simulations,
                seconds=cell.seconds, seed=options.seed, resign=RESIGN.get(cell.game), workers=1,
                database=database,
            )  # fmt: skip
            data, matches = result.to_json(), matches | {result.match_id}
            rows[f"{cell.name}, seed {options.seed}"] = {
                "games": result.games, "score": data["score"], "low": data["score_low"], "high": data["score_high"],
                "ms_a": 1000 * result.a.seconds, "ms_b": 1000 * result.b.seconds,
            }  # fmt: skip
            with whole(table) as part:
                part.write_text(json.dumps(rows, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
            low, high = 100 * data["score_low"], 100 * data["score_high"]
            print(
                f"{cell.name:70} {result.games:4} games {100 * result.score:5.1f} % [{low:.1f}, {high:.1f}]", flush=True
            )
        if len(matches) > 1:
            print(together(database, matches), flush=True)


if __name__ == "__main__":
    main()
