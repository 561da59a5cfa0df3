"""Learns the weights of Go's prior from strong games: a conditional logit over the legal moves of each position.

    python experiments/go_prior/learn.py GAMES.tsv.xz OUTPUT.safetensors [--share 0.6] [--rank 8] [--seed 0]

`GAMES` has a line a game: board size, komi, result, ranks, source, and moves in SGF coordinates, `zz` a pass. Prints
the mean log-likelihood and the share of moves predicted, on games kept for validation, after each pass over the others
and once more for the rounded weights. `OUTPUT` replaces `src/engram/games/go/prior_weights.safetensors`, and the last
line is the digest of that file in `prior_weights.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
from pathlib import Path

import numpy as np

from engram.games.go.board import MAX_POINTS, MAX_SIZE, empty_board
from engram.games.go.history import laid_point
from engram.games.go.large_patterns import MARGIN, SIZES, images, number_codes, table, write_codes, write_kinds
from engram.games.go.prior import FIRST_SIZE, LEVELS, describe, survey
from engram.games.go.prior_weights import THETA_UNIT, VECTOR_UNIT
from engram.games.go.rules import legal_actions, play
from engram.native.jit import compiled
from engram.storage import save

NUM_FEATURES = FIRST_SIZE + len(SIZES)
RATE, VECTOR_RATE, EPOCHS, PENALTY = 0.1, 0.05, 5, 1e-5
RAREST = 25
"""Times that a large pattern was played at least."""
_legal_actions, _play = compiled(legal_actions), compiled(play)


@compiled
def played_codes(board, moves, codes):
    """Writes the codes of each move that is no pass; returns how many."""
    width, count = np.int64(board.width), 0
    kinds = np.empty((MAX_SIZE + 2 * MARGIN) ** 2, np.uint8)
    for move in moves:
        if move < width * width:
            write_kinds(board, kinds)
            point = np.uint64((move // width + 1) * (width + 1) + move % width + 1)
            write_codes(kinds, point, laid_point(board, 1), board.width + np.uint64(1), codes[count])
            count += 1
        if _play(board, np.int64(move)) != 0:
            break
    return count


@compiled
def describe_game(board, moves, mask, rows, places, sizes):
    """Writes the levels of each legal move of the positions taken; returns how many positions and rows."""
    actions = np.empty(board.width * board.width + np.uint64(8), np.int32)
    status, kinds = np.empty(MAX_POINTS, np.uint8), np.empty((MAX_SIZE + 2 * MARGIN) ** 2, np.uint8)
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
        if mask[number] and place >= 0 and count > 1 and row + count <= len(rows):
            survey(board, status)
            write_kinds(board, kinds)
            last, before = laid_point(board, 1), laid_point(board, 2)
            for k in range(count):
                cell = np.int64(actions[k])
                point = np.uint64((cell // width + 1) * (width + 1) + cell % width + 1)
                describe(board, kinds, point, status, last, before, rows[row + k])
            places[position], sizes[position] = place, count
            position += 1
            row += count
        if _play(board, np.int64(moves[number])) != 0:
            break
    return position, row


@compiled
def place_all(entries, rows, first, result):
    """Writes rows of places in θ from rows of levels."""
    for row in range(len(rows)):
        number_codes(entries, rows[row, FIRST_SIZE:])
        for feature in range(len(first) - 1):
            result[row, feature] = first[feature] + rows[row, feature]


@compiled
def epoch(rows, begins, places, order, theta, vectors, squares, vector_squares, rate):
    """One pass of AdaGrad over positions, none at rate 0; the mean log-likelihood and the share predicted."""
    likelihood, hits = 0.0, 0
    rank = vectors.shape[1]
    sums, scores = np.empty((len(theta), rank)), np.empty(len(theta))
    for number in order:
        begin, end = begins[number], begins[number + 1]
        for k in range(end - begin):
            scores[k] = 0.0
            sums[k] = 0.0
            for place in rows[begin + k]:
                scores[k] += theta[place]
                for axis in range(rank):
                    sums[k, axis] += vectors[place, axis]
            for axis in range(rank):
                scores[k] += 0.5 * sums[k, axis] ** 2
        chances = np.exp(scores[: end - begin] - scores[: end - begin].max())
        chances /= chances.sum()
        likelihood += np.log(chances[places[number]])
        hits += chances.argmax() == places[number]
        for k in range(end - begin if rate > 0.0 else 0):
            error = chances[k] - (k == places[number])
            if abs(error) < 1e-4:
                continue
            for place in rows[begin + k]:
                gradient = error + PENALTY * theta[place]
                squares[place] += gradient * gradient
                theta[place] -= RATE * rate * gradient / np.sqrt(squares[place])
                for axis in range(rank):
                    gradient = error * sums[k, axis] + PENALTY * vectors[place, axis]
                    vector_squares[place, axis] += gradient * gradient
                    vectors[place, axis] -= VECTOR_RATE * rate * gradient / np.sqrt(vector_squares[place, axis])
    return likelihood / len(order), hits / len(order)


def read(path: str) -> list[tuple[int, np.ndarray]]:
    """Size and moves of each game."""
    games = []
    with lzma.open(path, "rt") as file:
        for line in file:
            width, *_, text = line.rstrip("\n").split("\t")
            size, names = int(width), [text[k : k + 2] for k in range(0, len(text), 2)]
            moves = [size * size if name == "zz" else (ord(name[1]) - 97) * size + ord(name[0]) - 97 for name in names]
            games.append((size, np.array(moves, np.int32)))
    return games


def frequent(games: list[tuple[int, np.ndarray]]) -> list[np.ndarray]:
    """The patterns of each size that were played often, by the lowest code of their images."""
    codes = []
    for size, moves in games:
        room = np.empty((len(moves), len(SIZES)), np.int64)
        codes.append(room[: played_codes(empty_board(size, 7.5, 3 * size * size)[0], moves, room)])
    patterns = []
    for column in np.concatenate(codes).T:
        played, count = np.unique(column, return_counts=True)
        lowest, place = np.unique(images(played).min(0), return_inverse=True)
        patterns.append(lowest[np.bincount(place, count) >= RAREST])
        print(f"{len(patterns[-1])} patterns of {len(lowest)}", flush=True)
    return patterns


def positions(
    games: list[tuple[int, np.ndarray]], patterns: list[np.ndarray], first: np.ndarray, share: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Rows of places in θ, the first row of each position, and the place of its move."""
    pattern_table = table(patterns)
    rows, places, sizes = [], [], []
    for size, moves in games:
        mask = rng.random(len(moves)) < share
        room = np.empty((mask.sum() * size * size, NUM_FEATURES), np.int64)
        place, count = np.empty(len(moves), np.int32), np.empty(len(moves), np.int64)
        board = empty_board(size, 7.5, 3 * size * size)[0]
        num_positions, num_rows = describe_game(board, moves, mask, room, place, count)
        rows.append(np.empty((num_rows, NUM_FEATURES), np.uint16))
        place_all(pattern_table, room[:num_rows], first, rows[-1])
        places.append(place[:num_positions])
        sizes.append(count[:num_positions])
    begins = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return np.concatenate(rows), begins, np.concatenate(places)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games")
    parser.add_argument("output", type=Path)
    parser.add_argument("--share", type=float, default=0.6, help="of the positions of a game")
    parser.add_argument("--rank", type=int, default=8, help="length of the vectors")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    games = read(options.games)
    games = [games[k] for k in np.random.default_rng(42).permutation(len(games))]
    num_held = len(games) // 10
    patterns = frequent(games[num_held:])
    first = np.cumsum([0, *LEVELS, *(1 + len(some) for some in patterns)])
    validation = positions(games[:num_held], patterns, first, 0.1, rng)
    training = positions(games[num_held:], patterns, first, options.share, rng)
    theta, squares = np.zeros(first[-1]), np.ones(first[-1])
    vectors = 0.05 * rng.standard_normal((first[-1], options.rank))
    state = (theta, vectors, squares, np.ones_like(vectors))
    order, validation_order = np.arange(len(training[2])), np.arange(len(validation[2]))
    print(f"{len(order)} positions and {len(validation_order)} held out", flush=True)
    for number in range(EPOCHS):
        rng.shuffle(order)
        epoch(*training, order, *state, 1.0 if number < EPOCHS - 2 else 0.3)
        print(number, *epoch(*validation, validation_order, *state, 0.0), flush=True)
    limits = np.iinfo(np.int8).min, np.iinfo(np.int8).max
    rounded = [np.clip(np.rint(theta / THETA_UNIT), *limits), np.clip(np.rint(vectors / VECTOR_UNIT), *limits)]
    state = (rounded[0] * THETA_UNIT, rounded[1] * VECTOR_UNIT, squares, np.ones_like(vectors))
    print("rounded", *epoch(*validation, validation_order, *state, 0.0))
    arrays = {"theta": rounded[0].astype(np.int8), "vectors": rounded[1].astype(np.int8), "first": first}
    arrays |= {f"patterns{size}": some for size, some in zip(SIZES, patterns, strict=True)}
    save(options.output, "weights of a prior", {"rank": options.rank}, arrays)
    print("digest", hashlib.sha256(options.output.read_bytes()).hexdigest()[:16])


if __name__ == "__main__":
    main()
