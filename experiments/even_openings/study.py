"""What openings of even positions are worth: the same players over random openings, and over those that a judge keeps.

    python experiments/even_openings/study.py [--games 1000] [--only connect_four go9] [--database FILE]
    python experiments/even_openings/study.py --draw

The same command goes on from its database. A difference needs fewer games the larger its normalised Elo; the square
of a ratio of these is a ratio of games.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from engram import match
from engram.plotting import new_figure, save
from engram.storage import whole

HERE = Path(__file__).parent
TABLE = HERE / "results.json"
SEED = 31
GO9 = "puct(network='go9',num_leaves=4)"
ROWS = {
    "connect_four": ("connect_four", "uct", "uct", 200, 100, "uct"),
    "othello": ("othello:8", "uct", "uct", 200, 100, "uct"),
    "hex": ("hex:7", "uct", "uct", 200, 100, "uct"),
    "go9": ("go:9", GO9, GO9, 200, 100, GO9),
    "go9_large": ("go:9", "puct(network='go9-large',num_leaves=4)", GO9, 200, 200, GO9),
}
"""Game, players A and B, simulations of each, judge."""


def ratio_of_games(row: dict[str, dict[str, float]]) -> float:
    """How many times as much a pair tells over even openings: the square of the ratio of normalised Elos."""
    return (row["even"]["nelo"] / row["random"]["nelo"]) ** 2


def draw(table: dict[str, dict[str, dict[str, float]]]) -> None:
    """Scores over both kinds of openings, with intervals."""
    figure = new_figure("a picture", figsize=(7, 1 + 0.5 * len(table)), layout="constrained")
    axes = figure.add_subplot()
    for height, row in enumerate(reversed(table.values())):
        for side, (kind, colour) in enumerate((("random", "tab:grey"), ("even", "tab:blue"))):
            score, low, high = (100 * row[kind][key] for key in ("score", "low", "high"))
            label = f"{kind} openings" if height == 0 else None
            axes.errorbar(
                score, height - 0.2 * side, xerr=[[score - low], [high - score]], fmt="o", color=colour, label=label
            )
        axes.annotate(f"{ratio_of_games(row):.2f}", (1.02, height), xycoords=("axes fraction", "data"), va="center")
    axes.annotate("a pair tells so\nmany times as much", (1.0, 1.02), xycoords="axes fraction", fontsize=8)
    axes.axvline(50, color="black", linewidth=0.8)
    axes.set(xlim=(45, 100), xlabel="score of the stronger side, %")
    axes.set_yticks(range(len(table)), list(table)[::-1])
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)
    save(figure, HERE / "scores.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=1000, help="of each match")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--database", default="even_openings.sqlite", help="where games are recorded")
    parser.add_argument("--draw", action="store_true", help="only the picture of results.json")
    options = parser.parse_args()
    table = json.loads(TABLE.read_text("utf-8")) if TABLE.exists() else {}
    for name in [] if options.draw else options.only:
        game, a, b, a_simulations, b_simulations, judge = ROWS[name]
        table[name] = {}
        for kind, opening_judge in (("random", None), ("even", judge)):
            result = match(
                game, a, b, games=options.games, a_simulations=a_simulations, b_simulations=b_simulations, seed=SEED,
                opening_judge=opening_judge, workers=1, database=options.database,
            )  # fmt: skip
            table[name][kind] = {
                "games": result.games, "score": result.score, "low": result.score_low, "high": result.score_high,
                "nelo": result.nelo, "first_wins": result.first_wins, "first_losses": result.first_losses,
            }  # fmt: skip
        print(f"{name:14} {table[name]}  a pair tells {ratio_of_games(table[name]):.2f} times as much", flush=True)
        with whole(TABLE) as part:
            part.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    draw(table)


if __name__ == "__main__":
    main()
