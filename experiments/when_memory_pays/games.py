"""Where a game lies on the map: its noise, what its features know of siblings, and the cost of a query, all measured.

    python experiments/when_memory_pays/games.py [NAME …]     # rows of games.json; a finished row is not measured again

Siblings are visited children of the root and of its two most visited children, in searches of random positions. Their
values v are means of rollouts. A_j is the mean of the memory's answers about positions j plies below a child, each from
the entries of other positions; A_0 is about the child itself.

    σ² = variance of a rollout;  g² = variance of v among siblings, without the noise of its estimate;
    β_j = cov(A_j, v)/g², the share of siblings' differences that answers show;  η² = var(A_0) - β_0²g², their error;
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from engram import Limit, Search, game
from engram.arena.truth.memory_truth import answer_of_others
from engram.rng import derive_seed
from engram.storage import whole

HERE = Path(__file__).parent
PARTS, LEVELS, NODES = 8, 5, 4
BARE = "pattern_weight=0, dimension=64, neighbours=exact"
GAMES: dict[str, tuple[str, str, int, int, int, int]] = {
    # name: game, options of both searches, simulations, random moves before (lowest, highest), rollouts a sibling
    "connect_four": ("connect_four", "", 200, 4, 20, 512),
    "connect_four learned": ("connect_four", "network='connect_four_features', num_leaves=1", 200, 4, 20, 512),
    "go:9": ("go:9", "rollout=heavy", 500, 4, 40, 256),
    "breakthrough:6": ("breakthrough:6", "", 100, 4, 16, 512),
    "othello:6": ("othello:6", "", 100, 4, 20, 512),
    "p_game": ("p_game:gap=0.2,noise=0.7,similarity=0.1", BARE, 200, 0, 2, 512),
    "p_game blurred": ("p_game:gap=0.2,noise=0.7,similarity=1", BARE, 200, 0, 2, 512),
    "p_game alike": ("p_game:gap=0.2,noise=0.7,similarity=0.1,sibling_likeness=0.9", BARE, 200, 0, 2, 512),
}
OF_MEMORY = "pattern_weight", "dimension", "neighbours", "network", "num_leaves"


def searches(options: str, equivalence: float) -> tuple[str, str]:
    """The search with a memory, and without."""
    both = ", ".join(option for option in options.split(", ") if option and not option.startswith(OF_MEMORY))
    return f"memory_uct({', '.join(filter(None, (options, f'equivalence={equivalence}')))})", f"uct({both})"


def start(played: Any, lowest: int, highest: int, rng: np.random.Generator) -> Any:
    """A position after random moves, in which the game goes on and a choice is left."""
    while True:
        state = played.initial_state()
        for _ in range(int(rng.integers(lowest, highest + 1))):
            if played.is_over(state):
                break
            state = played.play(state, int(rng.choice(played.legal_actions(state))))
        if not played.is_over(state) and len(played.legal_actions(state)) > 1:
            return state


def located(name: str, positions: int = 48) -> dict[str, Any]:
    """The row of a game: σ, g, β, η in the search's units, moves of a position, and the cost of a query.

    The time of a simulation is that of five times the budget less that of the budget, so that what a search costs once
    does not count.
    """
    where, options, simulations, lowest, highest, rollouts = GAMES[name]
    played, rng = game(where), np.random.default_rng(derive_seed("located", name))
    memory, plain = searches(options, 0.0)
    remembering, searching = Search(played, memory), Search(played, plain)
    # A root that is never expanded is itself the leaf of all simulations.
    never = "expand_after=1000000"
    rolling = Search(played, plain.replace("()", f"({never})").replace("rollout", f"{never}, rollout"))
    sums, by_level, branching, seconds = np.zeros(5), np.zeros((LEVELS, 2)), [], np.zeros(2)
    for number in range(positions):
        state = start(played, lowest, highest, rng)
        branching.append(len(played.legal_actions(state)))
        for which, search in enumerate((searching, remembering)):
            for share, budget in ((1.0, 5 * simulations), (-1.0, simulations)):
                search.clear()
                before = time.process_time()
                search.run(state, Limit(simulations=budget), seed=number)
                if number > 0:  # the first ones compile
                    seconds[which] += share * (time.process_time() - before)
        low, high = remembering.tree.bounds
        for family in families(played, remembering, state):
            siblings = []
            for node, child in family:
                sign = 1.0 if played.to_play(child) == 0 else -1.0
                means = []
                for part in range(PARTS):
                    rolling.clear()
                    result = rolling.run(child, Limit(simulations=rollouts // PARTS), seed=1000 * number + part)
                    means.append(played.reward(child) + sign * result.value)
                means = (2.0 * np.array(means) - low - high) / (high - low)
                variance = means.var(ddof=1) * (rollouts // PARTS)
                siblings.append((means.mean(), variance, *answers(played, remembering, node, child)))
            for level in range(LEVELS):
                table = np.array([sibling for sibling in siblings if not math.isnan(sibling[2 + level])])
                if len(table) > 1:
                    value, answer = (column - column.mean() for column in (table[:, 0], table[:, 2 + level]))
                    by_level[level] += value @ answer, len(table) - 1
                    if level == 0:
                        free, noise = len(table) - 1, table[:, 1].mean()
                        sums += free, noise * free, value @ value, answer @ answer, 1
    free, count = int(sums[0]), int(sums[4])
    noise, spread, answered = sums[1:4] / free
    g2 = max(spread - noise / rollouts, 1e-9)
    betas = [round(float(total / number / g2), 4) if number else None for total, number in by_level.tolist()]
    return {
        "game": where, "options": options, "simulations": simulations, "positions": positions, "families": count,
        "siblings": free + count, "sigma": math.sqrt(noise), "g": math.sqrt(g2),
        "betas": betas, "free": by_level[:, 1].tolist(),
        "eta": math.sqrt(max(answered - betas[0] ** 2 * g2, 0.0)), "branching": float(np.mean(branching)),
        "µs": (1e6 * seconds / (positions - 1) / (4 * simulations)).tolist(),
        "cost": float(seconds[1] / seconds[0] - 1.0),
    }  # fmt: skip


def answers(played: Any, search: Any, node: int, state: Any) -> list[float]:
    """The memory's mean answers about up to NODES of the most visited positions 0, 1, … plies below a child, or nan."""
    result, level = [], [(node, state)]
    for _ in range(LEVELS):
        level = sorted(level, key=lambda pair: search.tree.nodes[pair[0]]["visit_count"], reverse=True)[:NODES]
        some = [answer for _, at in level if not math.isnan(answer := answer_of_others(search, at))]
        result.append(sum(some) / len(some) if some else math.nan)
        level = [child for pair in level for child in children(played, search, *pair)]
    return result


def families(played: Any, search: Any, state: Any) -> list[list[tuple[int, Any]]]:
    """Visited children of the root and of its two most visited children, up to six of each."""
    of_root = children(played, search, 0, state)
    return [of_root[:6], *(children(played, search, *pair)[:6] for pair in of_root[:2])]


def children(played: Any, search: Any, node: int, state: Any) -> list[tuple[int, Any]]:
    """Visited children of a node where the game goes on, as (node, state), the most visited ones first."""
    nodes, first = search.tree.nodes, int(search.tree.nodes[node]["first_child"])
    if first <= 0:
        return []
    places = range(first, first + int(nodes[node]["num_children"]))
    visited = [place for place in places if nodes[place]["visit_count"] > 0]
    visited.sort(key=lambda place: nodes[place]["visit_count"], reverse=True)
    pairs = [(place, played.play(state, int(nodes[place]["action"]))) for place in visited]
    return [(place, child) for place, child in pairs if not played.is_over(child)]


def main() -> None:
    """Measures the missing rows."""
    table = HERE / "games.json"
    rows = json.loads(table.read_text("utf-8")) if table.exists() else {}
    for name in sys.argv[1:] or GAMES:
        if name not in rows:
            rows[name] = located(name)
            with whole(table) as part:
                part.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
        row = rows[name]
        g = row["g"]
        share = f"σ/g {row['sigma'] / g:.2f}, g {g:.3f}, β {row['betas']}, η/g {row['eta'] / g:.2f}"
        print(f"{name}: {share}, {row['branching']:.1f} moves, a query costs {row['cost']:.2f} simulations", flush=True)


if __name__ == "__main__":
    main()
