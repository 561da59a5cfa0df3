"""What each backup rule costs a simulation on Connect-4, every rule in turns, ratios to average; or whole searches.

    python benchmarks/backup_cost.py [--simulations 20000] [--rounds 15]
    python benchmarks/backup_cost.py --network connect_four --simulations 400
    python benchmarks/backup_cost.py --searches uct ments rents "uct(selection=grave)"      # ratios to the first
    python benchmarks/backup_cost.py --rivals      # selection rules and extensions, those of PUCT relative to puct

A ratio is the median over rounds of a rule's time to that of average in the same round, from fresh trees over a few
positions. A rule that searches better or worse sees other trees: deeper paths and shorter rollouts are part of it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import engram
from engram.presets.catalogue import preset

RULES = (
    "average",
    "erwa(step=0.1)",
    "erwa(step=0.1, debiased=true)",
    "feedback(profile=1)",
    "feedback(profile=4)",
    "monotone(knots=[0, 2, 1, 0, 1, 2])",
    "max_mcts",
    "td",
    "td_ucb",
    "sarsa",
    "q_learning",
    "softmax(knots=[0, 2, 1, 0, 1, 2])",
    "coulom(points=42)",
    "power_mean(power=2)",
    "power_mean(power=3.5)",
    "bias_correction",
)
RIVALS = (
    "uct",
    "sarsa_uct(trace_decay=1)",
    "sarsa_uct",
    "uct(selection=kvda)",
    "uct(transpositions=true)",
    "uct(transpositions=true, backup=exact_parents)",
    "uct(selection=implicit_minimax)",
    "uct(selection=grave)",
    "rave",
    "bts",
    "ments",
    "dents",
    "puct",
    "puct(selection=weighted_puct, backup=uncertainty)",
    "puct(selection=variance_puct)",
    "puct(selection=gumbel)",
)
OPENINGS = ("", "4 4", "4 3 4", "2 6 3 4")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulations", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--network", help="PUCT with this network, instead of plain UCT")
    parser.add_argument("--searches", nargs="+", help="these specifications, instead of UCT with every backup rule")
    parser.add_argument("--rivals", action="store_true", help="selection rules and extensions, instead")
    options = parser.parse_args()
    pattern = f"puct(network='{options.network}', backup=%s)" if options.network else "uct(backup=%s)"
    names = options.searches or [pattern % rule for rule in RULES]
    names = list(RIVALS) if options.rivals else names
    game = engram.game("connect_four")
    states = [game.play_moves(moves) for moves in OPENINGS]
    limit = engram.Limit(simulations=options.simulations)
    searches = {name: engram.Search(game, preset(name)) for name in names}

    def seconds(name: str, seed: int) -> float:
        spent = 0.0
        for state in states:
            searches[name].clear()
            start = time.process_time()
            searches[name].run(state, limit, seed=seed)
            spent += time.process_time() - start
        return spent

    for name in names:
        seconds(name, 0)
    times: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(options.rounds):
        for name in names:
            times[name].append(seconds(name, round_number))
    count = options.simulations * len(states)
    print(f"connect_four, {options.simulations:,} simulations, medians of {options.rounds} rounds in turns")
    base = names[0]
    for name in names:
        base = name if options.rivals and name == "puct" else base
        ratio = float(np.median(np.divide(times[name], times[base])))
        print(f"{name:54} {1e9 * float(np.median(times[name])) / count:7.0f} ns   {ratio:5.2f}")


if __name__ == "__main__":
    main()
