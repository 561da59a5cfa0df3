"""Does a memory of positions pay on a real problem at equal time? Runs of two inventory problems, with and without.

    python experiments/memory_pays/run.py cost     # what a query costs in simulations, by processor time, in turns
    python experiments/memory_pays/run.py tune     # all numbers of both searches, on seeds of their own
    python experiments/memory_pays/run.py locate   # the place of each problem on the map, and the prediction
    python experiments/memory_pays/run.py test     # fresh runs with the tuned searches
    python experiments/memory_pays/run.py more     # UCT on the inventory with further budgets and further settings
    python experiments/memory_pays/run.py report   # the table, and result.png

Each finished cell is in cells.json at once; the same command again goes on.
"""

from __future__ import annotations

import json
import math
import sys
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from engram import Limit, Search, game
from engram.arena.truth.memory_truth import answer_of_others
from engram.intervals import NORMAL_95
from engram.plotting import new_figure, save
from engram.rng import derive_seed, new_rng
from engram.storage import whole

HERE = Path(__file__).parent
PERIODS = 50
SLOW = "equal time, plain Python"
TUNING, LOCATING, TIMING, FRESH = range(32), range(10**5, 10**5 + 12), range(2 * 10**5, 2 * 10**5 + 15), 10**6
PROBLEMS: dict[str, dict[str, Any]] = {
    "inventory": {
        "game": "examples/inventory.py:inventory", "memory": "examples/inventory.py:remembering_stock",
        "simulations": 20, "ahead": (2, 3, 5), "temperature": (0.5, 0.05, 0.005), "runs": 1000,
        "slow": "experiments/memory_pays/slow_inventory.py:slow_inventory",
        "slow_memory": "experiments/memory_pays/slow_inventory.py:remembering_stock",
    },
    "lost sales": {
        "game": "experiments/memory_pays/lost_sales.py:lost_sales",
        "memory": "experiments/memory_pays/lost_sales.py:remembering_pipeline",
        "simulations": 50, "ahead": (4, 6), "temperature": (0.1, 0.01, 0.001), "runs": 150,
    },
    # Each run has a board of its own, and is played to its end; the cost of a run is its score, with a minus.
    "same_game": {
        "game": "same_game", "memory": "experiments/memory_pays/puzzle.py:remembering_tiles",
        "simulations": 100, "ahead": (0,), "temperature": (0.1, 0.01, 0.001), "runs": 150,
    },
}  # fmt: skip


def episode(search: Any, seed: int, simulations: int, watch: Any = None, *, forgets: bool = False) -> float:
    """The mean cost of a period. Nature's draws depend on the seed alone, so that searches meet the same demand.

    The memory is kept from move to move of the run, and emptied before it; if it forgets, before each decision.
    `watch(search, state, number)` sees each decision.
    """
    search.clear()
    played, draw = search.game, np.random.default_rng(derive_seed("memory_pays", seed))
    state, total, number = played.initial_state(), 0.0, 0
    while number < PERIODS and not played.is_over(state):
        if forgets:
            search.clear()
        action = search.run(state, Limit(simulations=simulations), seed=derive_seed(seed, number)).action
        if watch is not None:
            watch(search, state, number)
        for is_chance_node in (False, True) if played.has("chance") else (False,):
            move = played.drawn(state, draw.random()) if is_chance_node else action
            state = played.play(state, move)
            search.advance(move)
            total -= played.reward(state)
        number += 1
    total -= played.outcome(state) if played.is_over(state) else 0.0
    return total / (PERIODS if played.has("chance") else 1)


def board(name: str, ahead: int, seed: int) -> str:
    """The game of a run: the same for all seeds, or a board for each."""
    if name == "same_game":
        return f"same_game:seed={seed + 1},rows=10,columns=10"
    return f"{PROBLEMS[name]['game']}(periods_ahead={ahead})"


def costs(name: str, ahead: int, preset: str, simulations: int, seeds: Any) -> list[float]:
    """The cost of each run."""
    searches = {where: Search(game(where), preset) for where in {board(name, ahead, seed) for seed in seeds}}
    return [episode(searches[board(name, ahead, seed)], seed, simulations) for seed in seeds]


class OrderUpTo:
    """The rule (s, S) in place of a search: below s an order brings the stock next to S. It is optimal here (Scarf)."""

    def __init__(self, played: Any, low: float, high: float):
        self.game, self.low, self.high = played, low, high

    def clear(self) -> None:
        """Has nothing to forget."""

    def advance(self, move: int) -> None:
        """Has nothing to keep."""

    def run(self, state: Any, limit: Limit, seed: int) -> Any:
        """The rule's order."""
        stock = float(state["stock"])
        return SimpleNamespace(action=min(round((self.high - stock) / 5.0), 10) if stock < self.low else 0)


def best_rule(table: Path, rows: dict[str, Any]) -> None:
    """The cost of the best rule (s, S), chosen on the tuning seeds, in the fresh runs."""
    played = game(PROBLEMS["inventory"]["game"])
    rules = [OrderUpTo(played, low, high) for low, high in product((2, 4, 6, 8, 10), (35, 40, 45))]
    best = min(rules, key=lambda rule: np.mean([episode(rule, seed, 1) for seed in TUNING]))
    runs = [round(episode(best, FRESH + number, 1), 4) for number in range(PROBLEMS["inventory"]["runs"])]
    rows[f"inventory; rule; {best.low}; {best.high}"] = runs
    keep(table, rows)


def rows_of(table: Path) -> dict[str, Any]:
    return json.loads(table.read_text("utf-8")) if table.exists() else {}


def keep(table: Path, rows: dict[str, Any]) -> None:
    with whole(table) as part:
        part.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


def timed(where: str, memory: str, simulations: int) -> dict[str, Any]:
    """The cost of a query in simulations: time with a memory, less that without, by that of as many simulations.

    A round is a run of each: the memory's, and UCT's with the budget and with five times the budget, whose difference
    is the time of simulations alone. They take turns, so that a busy machine slows all three.
    """
    searches = Search(game(where), memory), Search(game(where), "uct(exploration=0.001)")
    rounds = []
    for seed in TIMING:
        spent = []
        for search, budget in ((searches[0], 1), (searches[1], 1), (searches[1], 5)):
            before = time.process_time()
            episode(search, seed, budget * simulations)
            spent.append(time.process_time() - before)
        rounds.append(spent)
    first, base, many = np.array(rounds[1:]).T  # the first round compiles
    simulation = (many - base) / (4 * simulations * PERIODS)  # of games of fewer moves both are less, by one factor
    query = (first - base) / (simulations * PERIODS)
    return {
        "µs a simulation": 1e6 * float(np.median(simulation)), "µs a query": 1e6 * float(np.median(query)),
        "cost": float(np.median(query / simulation)),
        "quartiles": np.quantile(query / simulation, (0.25, 0.75)).tolist(),
    }  # fmt: skip


def budgets(problem: dict[str, Any], cost: dict[str, Any]) -> dict[str, int]:
    """Simulations of UCT for each of the memory's budgets, by what a query costs."""
    number = problem["simulations"]
    return {"equal simulations": number} | {kind: round(number * (1.0 + row["cost"])) for kind, row in cost.items()}


def uct_cells(problem: dict[str, Any]) -> list[tuple[int, str]]:
    constants = (0.01, 0.03, 0.1, 0.3) if problem["game"] == "same_game" else (0.0003, 0.001, 0.004)
    options = product(problem["ahead"], constants, (1, 4))
    return [(ahead, f"uct(exploration={c}, expand_after={after})") for ahead, c, after in options]


def memory_cells(problem: dict[str, Any]) -> list[tuple[int, str]]:
    constants = (0.03, 0.1, 0.3) if problem["game"] == "same_game" else (0.001,)
    options = product(problem["ahead"], constants, problem["temperature"], (100, 1000))
    return [
        (ahead, f"{problem['memory']}(exploration={c}, temperature={t}, equivalence={k})") for ahead, c, t, k in options
    ]


def tune(name: str, rows: dict[str, Any]) -> None:
    """The mean cost of every cell on the tuning seeds; as many cells for each budget of UCT as for the memory."""
    problem, table = PROBLEMS[name], HERE / "tuning.json"
    means = rows_of(table)
    todo = [("memory", problem["simulations"], cell) for cell in memory_cells(problem)]
    for number in budgets(problem, rows[name]["cost"]).values():
        todo += [("uct", number, cell) for cell in uct_cells(problem)]
    for kind, number, (ahead, search) in todo:
        key = f"{name}; {kind}; {number}; {ahead}; {search}"
        if key not in means:
            means[key] = float(np.mean(costs(name, ahead, search, number, TUNING)))
            keep(table, means)
            print(f"{key}: {means[key]:.2f}", flush=True)


def tuned(name: str, kind: str, number: int) -> tuple[int, str]:
    """The best cell on the tuning seeds: periods ahead, and the search."""
    means = rows_of(HERE / "tuning.json")
    best = min((key for key in means if key.startswith(f"{name}; {kind}; {number}; ")), key=lambda key: means[key])
    *_, ahead, search = best.split("; ")
    return int(ahead), search


def located(name: str, *, most: int = 1000, rollouts: int = 256) -> dict[str, float]:
    """σ, g, β and η of a problem, as experiments/when_memory_pays/games.py has them, in runs of the tuned memory.

    Args:
      most: count only the best so many moves of a decision, the contenders.

    Siblings are the moves of every fifth decision, after the search. A move's value v is its reward and the mean return
    of rollouts behind it; the answer A about it adds the same reward to the answer from all entries but its own.
    """
    ahead, memory = tuned(name, "memory", PROBLEMS[name]["simulations"])
    sums, rng = np.zeros(6), new_rng(1)

    def watch(search: Search, state: Any, number: int) -> None:
        if number % 5 or not number:
            return
        played = search.game
        roll, (low, high) = played.callbacks["rollout"].from_python, played.bounds
        families = []
        for action in played.legal_actions(state):
            child = played.play(state, action)
            if played.is_over(child):
                continue
            buffer, returns = played.new_buffer(), np.zeros(rollouts)
            for rollout in range(rollouts):
                played.write(buffer, child)
                returns[rollout] = roll(buffer.ctypes.data, rng.ctypes.data)
            answer = 0.5 * (low + high) + 0.5 * (high - low) * answer_of_others(search, child)
            pay = played.reward(child)
            families.append((pay + returns.mean(), returns.var(ddof=1), pay + answer))
        table = np.array(sorted([row for row in families if not math.isnan(row[2])], reverse=True)[:most])
        if len(table) > 1:
            value, answer = table[:, 0] - table[:, 0].mean(), table[:, 2] - table[:, 2].mean()
            free = len(table) - 1
            sums[:] += free, free * table[:, 1].mean(), value @ value, answer @ answer, value @ answer, 1

    for seed in LOCATING:
        episode(Search(game(board(name, ahead, seed)), memory), seed, PROBLEMS[name]["simulations"], watch)
    noise, spread, answered, together = sums[1:5] / sums[0]
    g2 = max(spread - noise / rollouts, 1e-9)
    beta = together / g2
    eta = math.sqrt(max(answered - beta**2 * g2, 0.0))
    g = math.sqrt(g2)
    place = {"σ": math.sqrt(noise), "g": g, "σ/g": math.sqrt(noise) / g, "β": beta, "η/g": eta / g}
    return place | {"moves": 1.0 + float(sums[0] / sums[5])}


def predicted(name: str, place: dict[str, float], budget: dict[str, int]) -> dict[str, float]:
    """The change of the log odds of the best move by the map's formula, at each cost of a query."""
    sys.path.insert(0, str(HERE.parent / "when_memory_pays"))
    from report import NAMES, score

    numbers = rows_of(HERE.parent / "when_memory_pays" / "predictor.json")["numbers"]
    numbers, simulations = np.array([numbers[key] for key in NAMES]), PROBLEMS[name]["simulations"]
    k = float(tuned(name, "memory", simulations)[1].split("equivalence=")[1].rstrip(")"))
    inputs = place["σ/g"], place["β"], place["η/g"], simulations / place["moves"], k
    return {
        kind: float(numbers[6] * score(numbers, *inputs, count / simulations - 1.0)) for kind, count in budget.items()
    }


def test(name: str, rows: dict[str, Any]) -> None:
    """Fresh runs of the memory, and of UCT at each budget, on the same seeds, in slices."""
    problem, table = PROBLEMS[name], HERE / "runs.json"
    runs = rows_of(table)
    todo = [("memory", problem["simulations"])] + [("uct", n) for n in budgets(problem, rows[name]["cost"]).values()]
    for first in range(0, problem["runs"], 50):
        for kind, number in todo:
            ahead, search = tuned(name, kind, number)
            key = f"{name}; {kind}; {number}; {ahead}; {search}"
            done = runs.setdefault(key, [])
            if len(done) <= first:
                seeds = range(FRESH + first, FRESH + first + 50)
                done += [round(cost, 4) for cost in costs(name, ahead, search, number, seeds)]
                keep(table, runs)
        print(f"{name}: {first + 50} runs", flush=True)
    if name == "inventory" and not any("; rule; " in key for key in runs):
        best_rule(table, runs)


def more() -> None:
    """UCT beyond its grid, whose best cell lies at an edge, and with other budgets; a memory of one decision alone."""
    name, means = "inventory", rows_of(HERE / "tuning.json")
    for ahead, c, after in product((1, 2), (0.0001, 0.0003), (1, 2)):
        search = f"uct(exploration={c}, expand_after={after})"
        key = f"{name}; uct; 112; {ahead}; {search}"
        if key not in means:
            means[key] = float(np.mean(costs(name, ahead, search, 112, TUNING)))
            keep(HERE / "tuning.json", means)
            print(f"{key}: {means[key]:.2f}", flush=True)
    ahead, search = tuned(name, "uct", 112)
    for number in (112, 160, 240, 400, 800):
        runs, key = rows_of(HERE / "runs.json"), f"{name}; more uct; {number}; {ahead}; {search}"
        if key not in runs:
            seeds = range(FRESH, FRESH + 200)
            runs[key] = [round(cost, 4) for cost in costs(name, ahead, search, number, seeds)]
            keep(HERE / "runs.json", runs)
    ahead, search = tuned(name, "memory", PROBLEMS[name]["simulations"])
    runs, key = rows_of(HERE / "runs.json"), f"{name}; more, a memory that forgets; 20; {ahead}; {search}"
    if key not in runs:
        forgetful = Search(game(board(name, ahead, 0)), search)
        runs[key] = [round(episode(forgetful, FRESH + number, 20, forgets=True), 4) for number in range(200)]
        keep(HERE / "runs.json", runs)


def slow(rows: dict[str, Any]) -> dict[str, Any]:
    """Fresh runs of the inventory in plain Python at equal time, in turns, and the processor time that they took."""
    problem, number = PROBLEMS["inventory"], budgets(PROBLEMS["inventory"], rows["inventory"]["cost"])[SLOW]
    searches = []
    for kind, count in (("memory", problem["simulations"]), ("uct", number)):
        ahead, text = tuned("inventory", kind, count)
        played = game(f"{problem['slow']}(periods_ahead={ahead})")
        searches.append((Search(played, text.replace(problem["memory"], problem["slow_memory"])), count))
    runs, spent = np.zeros((2, 100)), np.zeros(2)
    for seed in range(100):
        for which, (search, count) in enumerate(searches):
            before = time.process_time()
            runs[which, seed] = episode(search, 2 * FRESH + seed, count)
            spent[which] += time.process_time() - before
    saved = runs[1] - runs[0]
    return {
        "cost": runs.mean(axis=1).tolist(), "seconds": spent.tolist(), "saved": float(saved.mean()),
        "half": float(NORMAL_95 * saved.std(ddof=1) / 10.0),
    }  # fmt: skip


def gain(runs: dict[str, Any], name: str, number: int) -> tuple[float, float, float, float, float]:
    """Cost with memory and of UCT, the difference, its 95 % half width, and the share of runs that are better."""
    ours, base = (
        np.array(runs[f"{name}; {kind}; {count}; {ahead}; {search}"])
        for kind, count in (("memory", PROBLEMS[name]["simulations"]), ("uct", number))
        for ahead, search in (tuned(name, kind, count),)
    )
    saved = base - ours
    half = NORMAL_95 * saved.std(ddof=1) / math.sqrt(len(saved))
    return ours.mean(), base.mean(), saved.mean(), half, ((saved > 0) + 0.5 * (saved == 0)).mean()


def report(rows: dict[str, Any]) -> None:
    """Prints the table and draws the picture."""
    all_runs, names = rows_of(HERE / "runs.json"), [name for name in PROBLEMS if name in rows]
    figure = new_figure("a picture", figsize=(4.6 * len(names), 3.4), layout="constrained")
    for key, runs in all_runs.items():
        if "; rule; " in key or "; more" in key:
            print(f"{key}: {np.mean(runs):.2f} in {len(runs)} runs")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        problem, kinds = PROBLEMS[name], budgets(PROBLEMS[name], rows[name]["cost"])
        for place, (kind, number) in enumerate(kinds.items()):
            ours, base, saved, half, better = gain(all_runs, name, number)
            prediction = rows[name]["predicted"][kind]
            line = f"{name}, {kind}, {number}: memory {ours:.2f}, uct {base:.2f}, saved {saved:+.2f} ± {half:.2f}"
            print(f"{line}; better in {100 * better:.1f} % of the runs; predicted {prediction:+.2f}")
            axes.errorbar(place, saved, half, fmt="o", color="black", capsize=4)
            axes.annotate(f"map: {prediction:+.2f}", (place, saved), (8, 4), textcoords="offset points", fontsize=8)
        axes.axhline(0.0, color="grey", lw=1)
        labels = ["{}\n({})".format(kind.replace(", ", ",\n"), number) for kind, number in kinds.items()]
        axes.set_xticks(range(len(kinds)), labels, fontsize=8)
        axes.set_xlim(-0.5, len(kinds) - 0.2)
        axes.set_title(f"{name}: memory with {problem['simulations']} simulations", fontsize=10)
        axes.set_ylabel("points gained" if name == "same_game" else "cost of a period saved")
    save(figure, HERE / "result.png")


def main() -> None:
    """Does a stage for every problem, or for those named."""
    stage, names = sys.argv[1], sys.argv[2:] or list(PROBLEMS)
    table = HERE / "cells.json"
    rows = rows_of(table)
    if stage == "report":
        return report(rows)
    if stage == "more":
        return more()
    for name in names:
        row, problem = rows.setdefault(name, {}), PROBLEMS[name]
        if stage == "cost" and "cost" not in row:
            where = problem["game"] if name != "same_game" else board(name, 0, 0)
            row["cost"] = {"equal time": timed(where, problem["memory"], problem["simulations"])}
            if "slow" in problem:
                in_python = timed(problem["slow"], problem["slow_memory"], problem["simulations"])
                row["cost"] = {SLOW: in_python} | row["cost"]
        elif stage == "tune":
            tune(name, rows)
        elif stage == "locate":
            # Of the other problems the three best moves are too close for so few rollouts.
            for place, key, most in (("place", "predicted", 1000), ("three best", "three best predicted", 3)):
                if place not in row and (most > 3 or name == "inventory"):
                    row[place] = located(name, most=most)
                    row[key] = predicted(name, row[place], budgets(problem, row["cost"]))
        elif stage == "test":
            test(name, rows)
            if "slow" in problem and "slow" not in row:
                row["slow"] = slow(rows)
        keep(table, rows)
        print(name, json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
