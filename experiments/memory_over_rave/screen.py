"""Screens what the paper leaves open: the schedule of λ, and whether the mean or RAVE's value takes the memory.

    python experiments/memory_over_rave/screen.py GAMES.tsv.xz WORK.jsonl [--games 40]

`GAMES` holds 19×19 games of strong players, one a line with tabs: its last column is the moves. From each game drawn,
every player searches five positions two plies apart, 1,000 simulations each, and keeps its tree and memory between
them. A judge, `puct(network='go19')` with 200 simulations, gives the value of the position after each move.
Each finished game is a line of `WORK`; the same command goes on after the last one, and prints means and 95 %
intervals over games.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from players import NETWORK, baseline

import engram
from engram.presets.memory import comparing
from engram.search.extensions.rave import AMAF, amaf_dtype
from engram.search.operators import Parameter, column_of, selection
from engram.search.preset import Preset
from engram.search.selection import highest_prior, with_starting_visits
from engram.search.tree import EXPAND, blend_weight, entering, nodes_of, sign_of, with_advice

STRENGTH, EQUIVALENCE = 200.0, 1000.0  # of `rave` with a network
FIRST, STEP, SEARCHES, SHORTEST = 10, 2, 5, 120
SIMULATIONS, JUDGE, JUDGE_SIMULATIONS = 1000, "puct(network='go19')", 200


def whole(result: engram.SearchResult) -> engram.SearchResult:
    """The result of a search; Ctrl-C, which ends a search early, ends the screen: no row comes from half a search."""
    if result.stopped == "interrupted":
        raise KeyboardInterrupt
    return result


@selection(amaf=AMAF, strength=Parameter(STRENGTH, low=0.0), equivalence=Parameter(EQUIVALENCE, low=0.0))
def memory_last(tree, node, rng, parameters):
    """RAVE without a bonus, whose value, not the mean alone, takes λ of the memory; one leaf in flight, no solver."""
    nodes = nodes_of(tree)
    column = column_of(tree, parameters.amaf, amaf_dtype)
    parent = nodes[node]
    first = np.uint64(parent.first_child)
    unvisited = first + np.uint64(parent.num_visited)
    sign = sign_of(parent)
    likeliest = highest_prior(nodes, parent)
    best = np.int64(EXPAND)
    highest = -math.inf
    for child in range(first, first + np.uint64(parent.num_children)):
        own = np.float64(nodes[child].visit_count)
        visits = own
        value = sign * nodes[child].value if child < unvisited else 0.0
        if likeliest > 0.0:
            prior = np.float64(nodes[child].prior)
            visits, value = with_starting_visits(visits, value, prior, likeliest, parameters.strength)
        count = np.float64(column[child].count)
        if count > 0.0:
            weight = blend_weight(visits, count, parameters.equivalence, math.nan)
            value += weight * (sign * column[child].mean - value)
        elif visits <= 0.0:
            return entering(child)
        if child < unvisited:
            value = with_advice(tree, child, sign, own, value)
        if value > highest:
            highest = value
            best = np.int64(child) if child < unvisited else entering(child)
    return best


def with_memory(base: Preset | None = None, equivalence: float = 3.0, bias: float | None = None) -> Preset:
    """The player `memory(neighbours=sketch)` of players.py with another λ, or over another baseline."""
    return comparing(
        base or baseline(), NETWORK, None,
        {
            "num_neighbours": 50, "temperature": 0.1, "capacity": 10_000, "dimension": 4096, "decay": 2.0,
            "neighbours": "sketch", "equivalence": equivalence, "bias": bias,
        },
    )  # fmt: skip


PLAYERS = {
    "without memory": baseline(),
    "no weight, k = 0": with_memory(equivalence=0.0),
    "k = 0.3": with_memory(equivalence=0.3),
    "k = 3, as played": with_memory(equivalence=3.0),
    "k = 30": with_memory(equivalence=30.0),
    "bias 0.1": with_memory(bias=0.1),
    "bias 0.5": with_memory(bias=0.5),
    "k = 3, RAVE's value": with_memory(replace(baseline(), selection=memory_last())),
}


def measured(game: engram.Game, moves: list[int], first: int, seed: int) -> dict[str, list[tuple[float, bool]]]:
    """By player, for each of the five positions: the value after its move, and whether it is the game's move."""
    states = [game.initial_state()]
    for action in moves[: first + STEP * SEARCHES]:
        states.append(game.play(states[-1], action))
    judge = engram.Search(game, JUDGE)
    values: dict[tuple[int, int], float] = {}
    rows: dict[str, list[tuple[float, bool]]] = {}
    for name, preset in PLAYERS.items():
        search = engram.Search(game, preset)
        rows[name] = []
        for number in range(SEARCHES):
            ply = first + STEP * number
            result = whole(search.run(states[ply], engram.Limit(simulations=SIMULATIONS), seed=seed + number))
            place = ply, result.action
            if place not in values:
                judge.clear()
                after = game.play(states[ply], result.action)
                values[place] = -whole(judge.run(after, engram.Limit(simulations=JUDGE_SIMULATIONS), seed=0)).value
            rows[name].append((values[place], result.action == moves[ply]))
            for action in moves[ply : ply + STEP]:
                search.advance(action)
    return rows


def drawn(path: str, count: int) -> list[list[int]]:
    """Moves of games that are long enough and have no early pass, as actions."""
    with lzma.open(path, "rt") as file:
        lines = file.readlines()
    games = []
    for number in np.random.default_rng(26).permutation(len(lines)):
        text = lines[number].rstrip("\n").split("\t")[-1]
        places = [text[at : at + 2] for at in range(0, len(text), 2)][:SHORTEST]
        if len(places) == SHORTEST and "zz" not in places:
            games.append([(ord(place[1]) - 97) * 19 + ord(place[0]) - 97 for place in places])
        if len(games) == count:
            break
    return games


def show(lines: list[dict[str, list[tuple[float, bool]]]]) -> None:
    base = np.array([[value for value, _ in rows["without memory"]] for rows in lines]).mean(1)
    for name in PLAYERS:
        change = np.array([[value for value, _ in rows[name]] for rows in lines]).mean(1) - base
        error = 1.96 * change.std(ddof=1) / math.sqrt(len(lines)) if len(lines) > 1 else math.nan
        played = np.mean([same for rows in lines for _, same in rows[name]])
        print(f"{name:22} {change.mean():+.4f} ± {error:.4f}   the game's move {played:6.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records")
    parser.add_argument("work", type=Path)
    parser.add_argument("--games", type=int, default=40)
    options = parser.parse_args()
    game, firsts = engram.game("go:19"), np.random.default_rng(27).integers(FIRST, 100, options.games)
    texts = options.work.read_text().splitlines() if options.work.exists() else []
    lines = [json.loads(text) for text in texts]
    for number, moves in enumerate(drawn(options.records, options.games)):
        if number < len(lines):
            continue
        lines.append(measured(game, moves, int(firsts[number]), 100 * number))
        with options.work.open("a") as file:
            file.write(json.dumps(lines[-1]) + "\n")
        print(f"game {number + 1} of {options.games}", flush=True)
        show(lines)


if __name__ == "__main__":
    main()
