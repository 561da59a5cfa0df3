"""The paper's tables 1-5 at our scale: each backup rule against the average, and the head-to-head rows, with a network.

    python experiments/bayesopt_backup/tables.py connect_four --games 2000
    python experiments/bayesopt_backup/tables.py go9 --games 200 --only monotone --minutes 60
    python experiments/bayesopt_backup/tables.py go9_c0.5 --games 200 --only "S2 - average" "M2 - average"

Rows grow together, some games each in turn; the same command again goes on. Games are recorded in a database, the
rows of a setting stand in tables_SETTING.json, their picture in tables_SETTING.png.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

from engram import match
from engram.plotting import new_figure, save
from engram.storage import whole

HERE = Path(__file__).parent
SEED = 91
PAPER_BUDGET = 5000


@dataclass(frozen=True)
class Setting:
    """Where rules play: the game, both players, simulations a move, when games are resigned, games that a row grows by.

    Attributes:
      points: of the board, for Coulom's rule.
    """

    game: str
    player: str
    simulations: int
    points: int
    resign: float | None
    round: int


SETTINGS = {
    "connect_four": Setting("connect_four", "puct(network='connect_four', backup={})", 100, 42, None, 500),
    "go9": Setting("go:9", "puct(network='go9', backup={}, num_leaves=4)", 400, 81, 0.9, 200),
    # The paper's exploration constant, and then its number of simulations too.
    "go9_c0.5": Setting("go:9", "puct(network='go9', backup={}, exploration=0.5, num_leaves=4)", 400, 81, 0.9, 200),
    "go9_5000": Setting("go:9", "puct(network='go9', backup={}, exploration=0.5, num_leaves=4)", 5000, 81, 0.9, 20),
    # Older than the network with a value for 19×19: heavy rollouts, and a predictor's priors for the first 100 nodes.
    "go19": Setting(
        "go:19", "uct_prior(network='go19-predictor', rollout=heavy, backup={}, num_leaves=8)", 250, 361, 0.9, 20
    ),
}
PAPER = {
    "monotone M1": (-10, -10, -4, -4, -4, -10),
    "monotone M2": (-4, -4, -4, -10, -4, -4),
    "softmax S1": (-4, -10, -4, -4, -10, -4),
    "softmax S2": (-4, -10, -7.9, -10, -10, -7.8),
}
"""Optima of the paper, g over its 5000 visits; ours are h = g + ln 5000 over the share of the budget."""


def tuned(setting: str, rule: str) -> str:
    """The rule that our own tuner found, as its report has it; for every setting of Go that of 9×9."""
    study = "go9" if setting.startswith("go") else setting
    text = json.loads((HERE / f"{study}_{rule}" / "tuning.json").read_text("utf-8"))["best"]
    return text[text.index("backup=") + len("backup=") : text.rindex(", network=")]


def rules(setting: str) -> dict[str, str]:
    """Every rule by its name."""
    points = SETTINGS[setting].points
    texts = {f"our {rule}": tuned(setting, rule) for rule in ("softmax", "monotone")}
    for name, knots in PAPER.items():
        shifted = [round(g + math.log(PAPER_BUDGET), 3) for g in knots]
        texts[name] = f"{name.split()[0]}(knots={shifted})"
    texts |= {
        f"coulom({a}, {b})": f"coulom(mean_weight={a}, growth={b}, points={points})"
        for a, b in ((2, 16), (4, 32), (8, 64))
    }
    texts |= {f"erwa({step}, debiased)": f"erwa(step={step}, debiased=true)" for step in (0.002, 0.01, 0.03)}
    texts |= {f"feedback F{k}": f"feedback(profile={k})" for k in (1, 2, 3, 4)}
    return texts | {"max_mcts": "max_mcts()", "td": "td(discount=1.0)"}


def rows(setting: str) -> dict[str, tuple[str, str]]:
    """What is played, by name: two rules."""
    texts = rules(setting)
    pairs = {f"{name} - average": (rule, "average") for name, rule in texts.items()}
    rivals = {"monotone": ("erwa", "feedback"), "softmax": ("coulom",)}
    for first in [*(f"our {kind}" for kind in rivals), *PAPER]:
        others = next(names for kind, names in rivals.items() if kind in first)
        pairs |= {f"{first} - {name}": (texts[first], rule) for name, rule in texts.items() if name.startswith(others)}
    return pairs


def show(table: dict[str, dict[str, float]], file: Path) -> None:
    """Draws every row with its interval."""
    figure = new_figure("a picture", figsize=(9, 1 + 0.24 * len(table)), layout="constrained")
    axes = figure.add_subplot()
    names = sorted(table, reverse=True)
    for k, name in enumerate(names):
        row = {key: 100 * value for key, value in table[name].items() if key != "games"}
        axes.plot([row["low"], row["high"]], [k, k], color="tab:blue")
        axes.plot(row["score"], k, "o", color="tab:blue", markersize=4)
    axes.axvline(50, color="grey", linewidth=0.8)
    axes.set(yticks=range(len(names)), yticklabels=names, xlabel="score of the first rule, %, and its 95 % interval")
    save(figure, file, dpi=100)


def main() -> None:
    """Plays rounds until every row has its games or the minutes are over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=sorted(SETTINGS))
    parser.add_argument("--games", type=int, default=200, help="of a row")
    parser.add_argument("--only", nargs="+", default=[""], help="rows whose name holds one of these texts")
    parser.add_argument("--database", default=HERE / "tables.sqlite", help="where games are recorded")
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    setting = SETTINGS[options.setting]
    file, end = HERE / f"tables_{options.setting}.json", time.monotonic() + 60 * options.minutes
    size = setting.round
    for games in range(size, options.games + size, size):
        for name, pair in rows(options.setting).items():
            if not any(text in name for text in options.only):
                continue
            if time.monotonic() > end:
                return
            a, b = (setting.player.format(rule) for rule in pair)
            result = match(
                setting.game, a, b, games=min(games, options.games), simulations=setting.simulations, seed=SEED,
                resign=setting.resign, workers=1, database=options.database,
            )  # fmt: skip
            data = result.to_json()
            table = json.loads(file.read_text("utf-8")) if file.exists() else {}
            if result.games < table.get(name, {}).get("games", 0):
                continue  # a row that an earlier call has taken further
            table[name] = {
                "games": result.games, "score": data["score"], "low": data["score_low"], "high": data["score_high"],
            }  # fmt: skip
            with whole(file) as part:
                part.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", "utf-8")
            show(table, file.with_suffix(".png"))
            low, high = 100 * data["score_low"], 100 * data["score_high"]
            print(f"{name:32} {result.games:5} games {100 * result.score:5.1f} % [{low:.1f}, {high:.1f}]", flush=True)


if __name__ == "__main__":
    main()
