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
from engram.plotting import new_figure, save
from engram.storage import whole

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import players  # noqa: E402

FILE = os.path.relpath(HERE / "players.py")
SIMULATIONS = 200
SEED = 531
ROUND = 40
UNASKED = 9.0  # no value is
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
        return f"{FILE}:{self.name}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"


def cells(network: str | None) -> dict[str, Cell]:
    """Every cell by its name in the table; those of learned features if there are any."""
    table = {}
    for k in (3, 30):
        for kind, sizes in SIZES.items():
            for sigma in sizes:
                options = {"kind": kind, "sigma": sigma, "equivalence": k}
                table[f"k = {k}, {kind}, σ = {sigma}"] = Cell(kind, "knowing", options)
        features: dict[str, dict[str, Any]] = {"hand-made": {}, "learned": {"network": network}}
        for name, arguments in features.items():
            if name == "learned" and network is None:
                continue
            for kind, exact in ((REAL, False), (EXACT, True)):
                options = {"exact": exact, "equivalence": k, **arguments}
                table[f"k = {k}, {kind}, {name}"] = Cell(kind, "remembering_truth", options)
    return table


def judged(cell: Cell) -> dict[str, float]:
    """What the answers are worth, in searches of random positions that are the same for all cells (k = 0).

    `error`: mean |answer - V*| of all leaves. `order`: how often two answers about children of one node are in the
    order of their V*, where these differ (a tie counts half). `root_order`: the same of the root's children and what
    selection reads there, V̂_M after the search. `own_order`: the same of the search's own values there.
    """
    game, rng = players.board(), np.random.default_rng(SEED)
    errors, orders, root_orders, own_orders = [], [], [], []
    for number in range(100):
        state, notes = game.initial_state(), np.full((4000, 2), UNASKED)
        for _ in range(4 + number % 8):
            after = game.play(state, int(rng.choice(game.legal_actions(state))))
            state = state if game.is_over(after) else after
        search = Search(game, getattr(players, cell.name)(**{**cell.options, "equivalence": 0}, notes=notes))
        search.run(state, Limit(simulations=SIMULATIONS), seed=number)
        errors.append(np.abs(notes[:, 0] - notes[:, 1])[notes[:, 0] != UNASKED])
        column = search.tree.arrays()["memory"]["value"]
        for at, node in enumerate(search.tree.nodes[: search.tree.num_nodes]):
            first = int(node["first_child"])
            rows = np.arange(first, first + int(node["num_children"])) if first else np.arange(0)
            rows = rows[notes[rows, 0] != UNASKED]
            orders.append(_in_order(notes[rows, 0], notes[rows, 1]))
            if at == 0:
                root_orders.append(_in_order(column[rows], notes[rows, 1]))
                own_orders.append(_in_order(search.tree.nodes["value"][rows], notes[rows, 1]))
    return {
        "error": float(np.concatenate(errors).mean()), "order": float(np.concatenate(orders).mean()),
        "root_order": float(np.concatenate(root_orders).mean()), "own_order": float(np.concatenate(own_orders).mean()),
    }  # fmt: skip


def _in_order(answers: np.ndarray, truth: np.ndarray) -> np.ndarray:
    first, other = np.triu_indices(len(answers), 1)
    gap = truth[first] - truth[other]
    return (np.sign(answers[first] - answers[other]) * np.sign(gap) / 2.0 + 0.5)[gap != 0.0]


def picture(rows: dict[str, dict[str, object]]) -> None:
    """Score by the mean error of the answers."""
    figure = new_figure("a picture", figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    colours = {"own": "tab:blue", "siblings": "tab:orange", "blurred": "tab:green", EXACT: "tab:red", REAL: "black"}
    for k, marker in ((3.0, "o"), (30.0, "s")):
        for kind, colour in colours.items():
            some = [row for row in rows.values() if row["kind"] == kind and row["k"] == k]
            if not some:
                continue
            x, y = (
                [row["root_order"] for row in some],
                np.array([[row["score"], row["low"], row["high"]] for row in some]),
            )
            spread, line = [y[:, 0] - y[:, 1], y[:, 2] - y[:, 0]], "none" if kind in (EXACT, REAL) else "-"
            label = f"{kind}, k = {k:g}"
            axes.errorbar(x, y[:, 0], spread, marker=marker, color=colour, ls=line, label=label, capsize=2)
    axes.axhline(0.5, color="grey", lw=0.8)
    axes.set_xlabel("share of pairs of root moves that V̂_M has in the right order")
    axes.set_ylabel("score against uct")
    figure.legend(fontsize=8, loc="outside right upper")
    save(figure, HERE / "memory_oracle.png")


def main() -> None:
    """Plays rounds until every cell has its games or the minutes are over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=200, help="of a cell")
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--learned", help="network with features learned for this board")
    options = parser.parse_args()
    end, table = time.monotonic() + 60.0 * options.minutes, HERE / "memory_oracle.json"
    rows = json.loads(table.read_text("utf-8")) if table.exists() else {}
    judgements: dict[str, dict[str, float]] = {}
    for games in range(ROUND, options.games + ROUND, ROUND):
        for name, cell in cells(options.learned).items():
            if time.monotonic() > end:
                return
            result = match(
                f"{FILE}:board", cell.player, "uct", games=min(games, options.games), simulations=SIMULATIONS,
                seed=SEED, workers=1, database=HERE / "memory_oracle.sqlite",
            )  # fmt: skip
            data = result.to_json()
            what = name.split(", ", 1)[1]  # without k, of which it does not depend
            if what not in judgements:
                judgements[what] = judged(cell)
            rows[name] = {
                "kind": cell.kind, "k": cell.options["equivalence"], **judgements[what], "games": result.games,
                "score": data["score"], "low": data["score_low"], "high": data["score_high"],
            }  # fmt: skip
            with whole(table) as part:
                part.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
            interval = f"[{100 * data['score_low']:.1f}, {100 * data['score_high']:.1f}]"
            wrong = ", ".join(f"{key} {value:.2f}" for key, value in judgements[what].items())
            print(f"{name:32} {result.games:4} games {100 * result.score:5.1f} % {interval}, {wrong}", flush=True)
        picture(rows)


if __name__ == "__main__":
    main()
