"""Rules of the literature, each tuned on each game in at most 5,000 games, against a `uct` that is tuned as well.

    python experiments/tuned_rivals/study.py FOLDER [--games connect_four othello] [--rules ments power_mean]
    python experiments/tuned_rivals/study.py --draw

First `uct` gets its exploration constant, against its default. Then each rule is tuned against that `uct` at equal
simulations and plays fresh games. A rule that wins by the whole interval plays fresh games at equal time, too: `uct`
then has as many simulations as the rule's time buys. The same command goes on; FOLDER keeps trials and games.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from engram.plotting import new_figure, save
from engram.storage import whole

HERE = Path(__file__).parent
TABLE = HERE / "results.json"
GAMES = {
    "connect_four": ("connect_four", 1000),
    "othello": ("othello:8", 300),
    "othello_3000": ("othello:8", 3000),
    "hex": ("hex:7", 300),
}
"""Game and simulations a move."""
EXPLORATION = ("exploration=0.1:3:log",)
ENTROPY = ("temperature=0.003:1:log", "epsilon=0.003:1:log")
RULES: dict[str, tuple[str, tuple[str, ...]]] = {
    "uct": ("uct", EXPLORATION),
    "power_mean": ("uct(backup=power_mean)", (*EXPLORATION, "backup.power=1:20:log")),
    "max_mcts": ("uct(backup=max_mcts)", (*EXPLORATION, "backup.trace_decay=0:0.98")),
    "erwa": ("uct(backup=erwa)", (*EXPLORATION, "backup.step=0.002:0.2:log")),
    "variance_puct": ("puct(selection=variance_puct)", ("selection.exploration=0.1:3:log",)),
    "ments": ("ments", ENTROPY),
    "rents": ("rents", ENTROPY),
    "tents": ("tents", ENTROPY),
    "bts": ("bts", ENTROPY),
    "dents": ("dents", (*ENTROPY, "weight=0.003:1:log")),
}
"""Search and the numbers that are tuned."""
SEED, MOST, FRESH = 26, 4000, 1000


def engram(*arguments: str, folder: Path) -> None:
    """Runs a command of engram in the folder; it goes on from what is there."""
    subprocess.run([sys.executable, "-m", "engram", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def tuned(folder: Path, name: str, rule: str, opponent: str) -> dict[str, Any]:
    """The best numbers of a rule on a game, and its fresh games."""
    game, simulations = GAMES[name]
    search, numbers = RULES[rule]
    report = folder / f"{name}_{rule}"
    ranges = [text for number in numbers for text in ("--tune", number)]
    if not (report / "tuning.json").exists():
        engram(
            "tune", "-s", search, "-g", game, "--against", opponent, *ranges, "-n", str(simulations),
            "--seed", str(SEED), "--max-games", str(MOST + FRESH), "--confirm-games", str(FRESH), "--workers", "1",
            "--storage", "tune.sqlite", "--report", str(report.resolve()), folder=folder,
        )  # fmt: skip
    summary = json.loads((report / "tuning.json").read_text("utf-8"))
    return {"player": summary["best"], "opponent": opponent, **row_of(summary["confirmation"])}


def row_of(match: dict[str, Any]) -> dict[str, Any]:
    """The figures of a match."""
    names = ("wins", "draws", "losses", "score", "score_low", "score_high", "distinct_games")
    budgets = {f"{side}_simulations": match["configuration"][f"{side}_simulations"] for side in "ab"}
    return {key: match[key] for key in names} | budgets | {f"{side}_seconds": match[side]["seconds"] for side in "ab"}


def at_equal_time(folder: Path, name: str, rule: str, row: dict[str, Any]) -> dict[str, Any]:
    """Fresh games in which `uct` has as many simulations as the rule's time buys."""
    game, simulations = GAMES[name]
    more = round(simulations * row["a_seconds"] / row["b_seconds"])
    file = folder / f"{name}_{rule}.json"
    budgets = ["--a-simulations", str(simulations), "--b-simulations", str(more)]
    command = [
        sys.executable, "-m", "engram", "match", "-g", game, "--a", row["player"], "--b", row["opponent"],
        *budgets, "--games", str(FRESH), "--seed", str(SEED + 1), "--workers", "1", "-d", "equal_time.sqlite", "--json",
    ]  # fmt: skip
    if not file.exists():
        file.write_text(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout, "utf-8")
    return row_of(json.loads(file.read_text("utf-8")))


def draw(table: dict[str, Any]) -> None:
    """Each rule's score with its interval, a panel a game."""
    figure = new_figure("a picture", figsize=(5.0 * len(table), 4.4), layout="constrained")
    for axes, (name, rows) in zip(
        figure.subplots(1, len(table), sharex=True, squeeze=False)[0], table.items(), strict=True
    ):
        for height, row in enumerate(reversed(rows.values())):
            for match, mark, below in ((row, "o", 0.0), (row.get("equal_time"), "s", 0.25)):
                if match is not None:
                    middle, low, high = (100 * match[key] for key in ("score", "score_low", "score_high"))
                    axes.errorbar(middle, height - below, xerr=[[middle - low], [high - middle]], fmt=mark, color="C0")
        axes.axvline(50.0, color="black", lw=1)
        names = ["uct, against its default" if rule == "uct" else rule for rule in rows]
        axes.set_yticks(range(len(rows)), names[::-1])
        axes.set_title(f"{GAMES[name][0]}, {GAMES[name][1]} simulations")
    figure.supxlabel("score against the tuned uct, %\n(squares: at equal time)")
    save(figure, HERE / "scores.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="of trials and games")
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES))
    parser.add_argument("--draw", action="store_true", help="only the picture of results.json")
    options = parser.parse_args()
    table = json.loads(TABLE.read_text("utf-8")) if TABLE.exists() else {}
    if not options.draw:
        if options.folder is None:
            parser.error("name a folder for trials and games")
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in options.games:
            rows = table.setdefault(name, {})
            for rule in dict.fromkeys(["uct", *options.rules]):
                if rule in rows:
                    continue
                rows[rule] = tuned(options.folder, name, rule, "uct" if rule == "uct" else rows["uct"]["player"])
                if rule != "uct" and rows[rule]["score_low"] > 0.5:
                    rows[rule]["equal_time"] = at_equal_time(options.folder, name, rule, rows[rule])
                with whole(TABLE) as part:
                    part.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
                print(name, rule, rows[rule], flush=True)
    draw(table)


if __name__ == "__main__":
    main()
