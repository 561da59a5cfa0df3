"""What each backup rule costs a simulation on Connect-4, every rule in turns, ratios to average.

    python benchmarks/backup_cost.py [--simulations 20000] [--rounds 15]
    python benchmarks/backup_cost.py --network connect_four --simulations 400

A ratio is the median over rounds of a rule's time to that of average in the same round, from fresh trees over a few
positions. A rule that searches better or worse sees other trees: deeper paths and shorter rollouts are part of it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import engram
from engram.presets.catalogue import preset

RULES = {
    "average": "average",
    "erwa(step=0.1)": "step",
    "erwa(step=0.1, debiased=true)": "step",
    "feedback(profile=1)": "step",
    "feedback(profile=4)": "step",
    "monotone(knots=[0, 2, 1, 0, 1, 2])": "step",
    "max_mcts": "trace",
    "td": "trace",
    "td_ucb": "step",
    "sarsa": "trace",
    "q_learning": "trace",
    "softmax(knots=[0, 2, 1, 0, 1, 2])": "mix",
    "coulom(points=42)": "mix",
    "power_mean(power=2)": "mix",
    "power_mean(power=3.5)": "mix",
    "bias_correction": "mix",
}
OPENINGS = ("", "4 4", "4 3 4", "2 6 3 4")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulations", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--network", help="PUCT with this network, instead of plain UCT")
    given = parser.parse_args()
    search = f"puct(network='{given.network}', backup=%s)" if given.network else "uct(backup=%s)"
    game = engram.game("connect_four")
    states = [game.play_moves(moves) for moves in OPENINGS]
    limit = engram.Limit(simulations=given.simulations)
    searches = {rule: engram.Search(game, preset(search % rule)) for rule in RULES}

    def seconds(rule: str, seed: int) -> float:
        spent = 0.0
        for state in states:
            searches[rule].clear()
            begun = time.process_time()
            searches[rule].run(state, limit, seed=seed)
            spent += time.process_time() - begun
        return spent

    for rule in RULES:
        seconds(rule, 0)
    times = {rule: [seconds(rule, 0)] for rule in RULES}
    for round_number in range(1, given.rounds):
        for rule in RULES:
            times[rule].append(seconds(rule, round_number))
    count = given.simulations * len(states)
    print(
        f"connect_four, {search % 'RULE'}, {given.simulations:,} simulations, median of {given.rounds} rounds in turns"
    )
    for rule, kind in RULES.items():
        ratio = float(np.median(np.divide(times[rule], times["average"])))
        print(f"{rule:38} {kind:6} {1e9 * float(np.median(times[rule])) / count:7.0f} ns   {ratio:5.2f}")


if __name__ == "__main__":
    main()
