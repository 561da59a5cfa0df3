"""What a search gains from a memory that answers with an error of so much, against `uct` without one.

    engram train features --game experiments/memory_oracle/players.py:board --positions 60000 --steps 4000 -o FOLDER
    python experiments/memory_oracle/run.py --games 200 --minutes 40 --learned FOLDER

Cells grow together; the same command again goes on. Games are recorded in memory_oracle.sqlite beside this file, the
table stands in memory_oracle.json, the picture in memory_oracle.png.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram import Limit, Search, match
from engram.durable import whole
from engram.pictures import new_figure, save

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import players  # noqa: E402

FILE = os.path.relpath(HERE / "players.py")
SIMULATIONS = 200
SEED = 531
ROUND = 40
SIZES = {players.OWN: (0.0, 0.5, 1.0, 2.0), players.SIBLINGS: (1.0,), players.BLURRED: (0.0,)}
REAL, EXACT = "returns of neighbours", "V* of neighbours"


@dataclass(frozen=True)
class Cell:
    """A match against `uct`: of what kind the answers are, the player's name and its options."""

    kind: str
    name: str
    options: dict[str, Any]

    @property
    def player(self) -> str:
        """Its specification."""
        text = f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"
        return text if self.kind == REAL else f"{FILE}:{text}"


def cells(network: str | None) -> dict[str, Cell]:
    """Every cell by its name in the table; those of learned features if there are any."""
    found = {}
    for k in (3, 30):
        for kind, sizes in SIZES.items():
            for sigma in sizes:
                options = {"kind": kind, "sigma": sigma, "equivalence": k}
                found[f"k = {k}, {kind}, σ = {sigma}"] = Cell(kind, "knowing", options)
        features: dict[str, dict[str, Any]] = {"hand-made": {}, "learned": {"network": network}}
        for name, given in features.items():
            if name == "learned" and network is None:
                continue
            alone = {"num_leaves": 1} if given else {}
            found[f"k = {k}, returns, {name}"] = Cell(REAL, "memory_uct", {"equivalence": k, **given, **alone})
            found[f"k = {k}, V*, {name}"] = Cell(EXACT, "true_values", {"equivalence": k, **given})
    return found


def mean_error(cell: Cell) -> float:
    """|answer - V*| of all leaves of searches of random positions."""
    told, game, rng = np.zeros(2), players.board(), np.random.default_rng(SEED)
    made = getattr(players, cell.name)(**cell.options, told=told)
    for number in range(40):
        state = game.initial_state()
        for _ in range(4 + number % 8):
            after = game.play(state, int(rng.choice(game.legal_actions(state))))
            state = state if game.is_over(after) else after
        Search(game, made).run(state, Limit(simulations=SIMULATIONS), seed=number)
    return float(told[1] / told[0])


def picture(rows: dict[str, dict[str, object]]) -> None:
    """Score by the mean error of the answers."""
    figure = new_figure("a picture", figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    colours = {"own": "tab:blue", "siblings": "tab:orange", "blurred": "tab:green", EXACT: "tab:red"}
    for k, marker in ((3.0, "o"), (30.0, "s")):
        for kind, colour in colours.items():
            some = [row for row in rows.values() if row["kind"] == kind and row["k"] == k]
            if not some:
                continue
            x, y = [row["error"] for row in some], np.array([[row["score"], row["low"], row["high"]] for row in some])
            spread, line = [y[:, 0] - y[:, 1], y[:, 2] - y[:, 0]], "none" if kind == EXACT else "-"
            label = f"{kind}, k = {k:g}"
            axes.errorbar(x, y[:, 0], spread, marker=marker, color=colour, ls=line, label=label, capsize=2)
    axes.axhline(0.5, color="grey", lw=0.8)
    axes.set_xlabel("mean |answer - V*| of a leaf")
    axes.set_ylabel("score against uct")
    axes.legend(fontsize=8)
    save(figure, HERE / "memory_oracle.png")


def main() -> None:
    """Plays rounds until every cell has its games or the minutes are over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=200, help="of a cell")
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--learned", help="network with features learned for this board")
    asked = parser.parse_args()
    end, table = time.monotonic() + 60.0 * asked.minutes, HERE / "memory_oracle.json"
    rows = json.loads(table.read_text("utf-8")) if table.exists() else {}
    for games in range(ROUND, asked.games + ROUND, ROUND):
        for name, cell in cells(asked.learned).items():
            if time.monotonic() > end:
                return
            found = match(
                f"{FILE}:board", cell.player, "uct", games=min(games, asked.games), simulations=SIMULATIONS, seed=SEED,
                workers=1, database=HERE / "memory_oracle.sqlite",
            )  # fmt: skip
            told = found.to_json()
            error = rows[name]["error"] if name in rows else None if cell.kind == REAL else mean_error(cell)
            rows[name] = {
                "kind": cell.kind, "k": cell.options["equivalence"], "error": error, "games": found.games,
                "score": told["score"], "low": told["score_low"], "high": told["score_high"],
            }  # fmt: skip
            with whole(table) as part:
                part.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
            interval = f"[{100 * told['score_low']:.1f}, {100 * told['score_high']:.1f}]"
            wrong = "" if error is None else f", wrong by {error:.2f}"
            print(f"{name:32} {found.games:4} games {100 * found.score:5.1f} % {interval}{wrong}", flush=True)
        picture(rows)


if __name__ == "__main__":
    main()
