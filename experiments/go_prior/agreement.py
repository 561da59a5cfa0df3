"""Searches on positions of games kept from learning: how often do they choose the move of a strong player?

    python experiments/go_prior/agreement.py GAMES.tsv.xz PRESET [PRESET ...] [-n 1000] [--seed 1]

`GAMES` is as in `learn.py`. One position of each game with komi 7 and a winner by score or resignation, from move 6 to
the 46th. Prints the share of moves chosen, the mean share of visits of the move played, the squared error of the root's
value against the winner, and the changes from the first preset with their 95 % intervals.
"""

from __future__ import annotations

import argparse
import lzma

import numpy as np

import engram

KOMI, FIRST, LAST, SHORTEST = 7, 6, 46, 26


def positions(path: str) -> list[tuple[list[int], int, int]]:
    """Moves of each game, the number of them that are played, and the winner: 1 for Black, -1 for White."""
    with lzma.open(path, "rt") as file:
        lines = file.readlines()
    numbers = np.random.default_rng(42).permutation(len(lines))[: len(lines) // 10]
    rng, result = np.random.default_rng(7), []
    for number in numbers:
        _, komi, winner, *_, text = lines[number].rstrip("\n").split("\t")
        moves = [text[k : k + 2] for k in range(0, len(text), 2)]
        draw = rng.random()
        if komi != str(KOMI) or winner[:2] not in ("B+", "W+") or winner[2:3] in ("T", "F") or len(moves) < SHORTEST:
            continue
        actions = [81 if move == "zz" else (ord(move[1]) - 97) * 9 + ord(move[0]) - 97 for move in moves]
        ply = int(FIRST + draw * (min(len(moves) - FIRST, LAST) - FIRST))
        if 81 not in actions[: ply + 1]:
            result.append((actions, ply, 1 if winner[0] == "B" else -1))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games")
    parser.add_argument("presets", nargs="+")
    parser.add_argument("-n", "--simulations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    game, limit = engram.game(f"go:9,komi={KOMI}"), engram.Limit(simulations=options.simulations)
    drawn, base = positions(options.games), None
    for preset in options.presets:
        search, rows = engram.Search(game, preset), []
        for actions, ply, winner in drawn:
            state = game.initial_state()
            for action in actions[:ply]:
                state = game.play(state, action)
            search.clear()
            result = search.run(state, limit, seed=options.seed)
            visits = sum(move.visits for move in result.moves if move.action == actions[ply])
            error = (result.value - (winner if result.player == 0 else -winner)) ** 2
            rows.append((result.action == actions[ply], visits / result.simulations, error))
        now = np.array(rows, float)
        base = now if base is None else base
        half = 1.96 * (now - base).std(0) / len(now) ** 0.5
        for name, *figures in zip(("chosen", "visits", "error"), now.mean(0), (now - base).mean(0), half, strict=True):
            print("{}   {}   {:.4f}   {:+.4f} ± {:.4f}".format(preset, name, *figures), flush=True)


if __name__ == "__main__":
    main()
