"""Ratings of the leagues that play.sh played: one table, one picture, and ratings.json with their numbers.

python table.py FOLDER      the leagues in FOLDER, as `engram league --json` wrote them; others stay as they are
python table.py             those in ratings.json
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

from engram.plotting import new_figure, save

HERE = Path(__file__).parent
SIDES = {"low": 1, "high": -1}  # of the end that is bounded, from the rating
GAMES = ("connect_four", "hex", "go9", "othello", "p_game", "2048")


def rows_of(league: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By player: Elo beside that of `uct`, its 95 % half-width, games and simulations a move.

    `open`: the end that no game bounds: "low" without points from `uct`, directly or through others; "high" where `uct`
    has none from the player.
    """
    players, spread, above = league["players"], league["covariance"], league["above"]
    names = [re.sub(r"(, )?bounds=learnt(, ?)?", "", player["player"]).replace("()", "") for player in players]
    base = names.index("uct")
    moves, simulations = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    short = {player["player"]: name for player, name in zip(players, names, strict=True)}
    for match in league["matches"]:
        for side in (match["a"], match["b"]):
            moves[short[side["player"]]] += side["moves"]
            simulations[short[side["player"]]] += side["moves"] * side["simulations"]
    rows = {}
    for place, name in enumerate(names):
        variance = spread[place][place] + spread[base][base] - 2 * spread[place][base]
        rows[name] = {
            "elo": round(players[place]["elo"] - players[base]["elo"]),
            "error": round(1.96 * math.sqrt(max(0.0, variance))),
            "open": "low" if not above[place][base] else "high" if not above[base][place] else "",
            "games": players[place]["games"], "simulations": round(simulations[name] / moves[name]),
        }  # fmt: skip
    return rows


def main() -> None:
    path = HERE / "ratings.json"
    ratings = json.loads(path.read_text())
    if folder := sys.argv[1:]:
        files = {game: Path(folder[0]) / f"{game}.json" for game in GAMES}
        there = {game: file for game, file in files.items() if file.exists() and file.stat().st_size}
        if not there:
            sys.exit(f"{folder[0]} holds no league that has ended, such as {GAMES[0]}.json")
        print(f"from {folder[0]}: {', '.join(there)}; all others from {path.name}", file=sys.stderr)
        ratings |= {game: rows_of(json.loads(file.read_text())) for game, file in there.items()}
        path.write_text(json.dumps(ratings, indent=1) + "\n")
    games = [game for game in GAMES if game in ratings]
    means = {
        name: sum(rows[name]["elo"] for rows in ratings.values() if name in rows)
        / sum(name in rows for rows in ratings.values())
        for name in ratings["connect_four"]
    }
    order = sorted(means, key=means.__getitem__, reverse=True)
    print("| rule | " + " | ".join(games) + " |\n|" + "---|" * (len(games) + 1))
    for name in order:
        cells = []
        for game in games:
            row = ratings[game].get(name)
            if row is None:
                cells.append("")
                continue
            bold = "**" if abs(row["elo"]) > row["error"] else ""
            strength = f"{row['elo']:+d} ± {row['error']}"
            if row.get("open") == "low":
                strength = f"at most {row['elo'] + row['error']:+d}"
            elif row.get("open") == "high":
                strength = f"at least {row['elo'] - row['error']:+d}"
            cells.append(f"{bold}{strength}{bold}, {row['simulations']:,}")
        print(f"| `{name}` | " + " | ".join(cells) + " |")
    figure = new_figure("the picture", figsize=(11.0, 4.6), layout="constrained")
    for place, game in enumerate(games):
        axes = figure.add_subplot(1, len(games), place + 1)
        shown = [(level, ratings[game][name]) for level, name in enumerate(order) if name in ratings[game]]
        axes.axvline(0.0, color="0.7", linewidth=1)
        axes.errorbar(
            [row["elo"] + SIDES.get(row.get("open"), 0) * row["error"] for _, row in shown],
            [level for level, _ in shown], xerr=[row["error"] for _, row in shown],
            xuplims=[row.get("open") == "low" for _, row in shown],
            xlolims=[row.get("open") == "high" for _, row in shown], fmt="o", markersize=4, linewidth=1,
        )  # fmt: skip
        axes.set_yticks(range(len(order)), order if place == 0 else [""] * len(order))
        axes.set_ylim(len(order) - 0.5, -0.5)
        axes.set_title(game)
        axes.set_xlabel("Elo beside uct")
    save(figure, HERE / "ratings.png")


if __name__ == "__main__":
    main()
