"""Learns the weights of Go's prior from strong games: a conditional logit over the legal moves of each position.

    python experiments/go_prior/learn.py GAMES.tsv.xz OUTPUT.json [--games 12000] [--share 0.2] [--seed 0]

`GAMES` has a line a game: board size, komi, result, ranks, source, and moves in SGF coordinates, `zz` a pass. Prints
the mean log-likelihood and the share of moves predicted, on games kept for validation. Writes a list of θ for each
feature; of the first, patterns, `prior_weights.py` holds both halves as digits.
"""

from __future__ import annotations

import argparse
import json
import lzma
from itertools import pairwise

import numpy as np

from engram.games.go.board import MAX_POINTS, empty_board
from engram.games.go.history import laid_point
from engram.games.go.prior import describe, survey
from engram.games.go.prior_weights import FIRST
from engram.games.go.rules import legal_actions, play
from engram.native.jit import compiled

NUM_FEATURES = len(FIRST) - 1
RATE, EPOCHS, PENALTY = 0.1, 6, 1e-4 / 60
_legal_actions, _play = compiled(legal_actions), compiled(play)


@compiled
def describe_game(board, moves, taken, rows, places, sizes):
    """Writes a row of θ indices for each legal move of the positions taken; returns how many positions and rows."""
    actions = np.empty(board.width * board.width + np.uint64(8), np.int32)
    status, levels = np.empty(MAX_POINTS, np.uint8), np.empty(NUM_FEATURES, np.int64)
    width = np.int64(board.width)
    position, row = 0, 0
    for number in range(len(moves)):
        count = _legal_actions(board, actions) - 1  # without the pass, which is last
        place = -1
        for k in range(count):
            if actions[k] == moves[number]:
                place = k
        if place < 0 and moves[number] != width * width:
            break
        if taken[number] and place >= 0 and count > 1 and row + count <= len(rows):
            survey(board, status)
            last, before = laid_point(board, 1), laid_point(board, 2)
            for k in range(count):
                cell = np.int64(actions[k])
                point = np.uint64((cell // width + 1) * (width + 1) + cell % width + 1)
                describe(board, point, status, last, before, levels)
                rows[row + k] = FIRST[:-1] + levels
            places[position], sizes[position] = place, count
            position += 1
            row += count
        if _play(board, np.int64(moves[number])) != 0:
            break
    return position, row


@compiled
def epoch(rows, begins, places, order, theta, squares, rate):
    """One pass of AdaGrad over positions, none at rate 0; the mean log-likelihood and the share predicted."""
    likelihood, hits = 0.0, 0
    for number in order:
        begin, end = begins[number], begins[number + 1]
        scores = np.zeros(end - begin)
        for k in range(begin, end):
            for index in rows[k]:
                scores[k - begin] += theta[index]
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        likelihood += np.log(chances[places[number]])
        hits += chances.argmax() == places[number]
        for k in range(begin, end if rate > 0.0 else begin):
            error = chances[k - begin] - (k - begin == places[number])
            for index in rows[k]:
                gradient = error + PENALTY * theta[index]
                squares[index] += gradient * gradient
                theta[index] -= rate * gradient / np.sqrt(squares[index])
    return likelihood / len(order), hits / len(order)


def positions(path: str, num_games: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Rows of θ indices, the first row of each position, and the place of its move."""
    with lzma.open(path, "rt") as file:
        lines = file.readlines()
    rows, places, sizes = [], [], []
    for line in rng.permutation(lines)[:num_games]:
        width, *_, text = line.rstrip("\n").split("\t")
        size = int(width)
        names = [text[k : k + 2] for k in range(0, len(text), 2)]
        moves = [size * size if name == "zz" else (ord(name[1]) - 97) * size + ord(name[0]) - 97 for name in names]
        taken = rng.random(len(moves)) < share
        room = np.empty((taken.sum() * size * size, NUM_FEATURES), np.uint16)
        place, count = np.empty(len(moves), np.int32), np.empty(len(moves), np.int64)
        board = empty_board(size, 7.5, 3 * size * size)[0]
        num_positions, num_rows = describe_game(board, np.array(moves, np.int32), taken, room, place, count)
        rows.append(room[:num_rows])
        places.append(place[:num_positions])
        sizes.append(count[:num_positions])
    begins = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return np.concatenate(rows), begins, np.concatenate(places)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games")
    parser.add_argument("output")
    parser.add_argument("--games", dest="num_games", type=int, default=12000)
    parser.add_argument("--share", type=float, default=0.2, help="of the positions of a game")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    rows, begins, places = positions(options.games, options.num_games, options.share, rng)
    last = len(places) * 9 // 10  # games are in order, so the two parts share one game at most
    training, validation = np.arange(last), np.arange(last, len(places))
    theta, squares = np.zeros(FIRST[-1]), np.ones(FIRST[-1])
    for number in range(EPOCHS):
        rng.shuffle(training)
        epoch(rows, begins, places, training, theta, squares, RATE if number < EPOCHS - 2 else 0.3 * RATE)
        print(number, *epoch(rows, begins, places, validation, theta, squares, 0.0), flush=True)
    with open(options.output, "w") as file:
        json.dump([theta[begin:end].round(2).tolist() for begin, end in pairwise(FIRST)], file)


if __name__ == "__main__":
    main()
