"""Random SGF files, whole and damaged: each is read as it was written, or refused in one sentence.

    python benchmarks/sgf_fuzz.py 10000 [--seed 0]

Every file that is read is played again on sgfmill's own boards, which must end with the same stones.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np
from sgfmill import boards

from engram.errors import IllegalAction, InvalidFile
from engram.games.game import Game, State
from engram.games.go import go, stones
from engram.games.sgf import GameFile, Move, play_as, read_sgf, write_sgf

PIECES = (
    b";", b"(", b")", b"[", b"]", b"\\", b";B[aa]", b";W[]", b"AB[aa:cc]", b"AW[bb]", b"AE[aa]", b"SZ[9]", b"SZ[9:13]",
    b"KM[x]", b"KM[1e9]", b"KM[inf]", b"GM[2]", b"PL[W]", b"HA[3]", b"CA[UTF-16]", b"CA[base64]", b"CA[\xff]",
    b"FF[1]", b"C[", b"\x00", b"\xff\xfe", b"(;B[bb](;W[cc]", b";B[zz]W[aa]", b"RE[", b"\r\n", b"SZ[", b"B[tt]",
)  # fmt: skip


def random_game(choose: random.Random) -> tuple[Game, State, list[Move]]:
    """A game of random size, komi, set-up stones and moves, passes and moves out of turn among them."""
    size = choose.choice((2, 3, 5, 5, 9, 9, 13, 19, 25))
    game = go(size, choose.choice((0.0, 0.5, 6.5, 7.0, 7.5, -5.5)))
    start = game.initial_state()
    if choose.random() < 0.3:
        start = _played(game, start, choose, choose.randrange(size * size))[0]
        side = choose.choice(("X to play", "O to play"))
        start = game.parse_state("\n".join([*game.render(start).splitlines()[1:-2], side]))
    moves = _played(game, start, choose, choose.randrange(min(60, 2 * size * size)))[1]
    return game, start, moves


def _played(game: Game, state: State, choose: random.Random, count: int) -> tuple[State, list[Move]]:
    moves: list[Move] = []
    for _ in range(count):
        player = game.to_play(state) if choose.random() < 0.95 else choose.randrange(2)
        action = choose.randrange(game.num_actions)
        try:
            state = play_as(game, state, player, action)
        except IllegalAction:
            continue
        moves.append((player, action))
    return state, moves


def damaged(raw: bytes, choose: random.Random) -> bytes:
    """The file with some bytes cut off, changed, left out, doubled or put in."""
    for _ in range(choose.choice((1, 1, 2, 5))):
        place = choose.randrange(len(raw) + 1)
        end = min(len(raw), place + choose.randrange(12))
        raw = choose.choice(
            (
                raw[:place],
                raw[place:],
                raw[:place] + raw[end:],
                raw[:end] + raw[place:],
                raw[:place] + choose.choice(PIECES) + raw[place:],
                raw[:place] + choose.randbytes(end - place) + raw[end:],
            )
        )
    return raw


def check_boards(file: GameFile) -> None:
    """Plays the file on sgfmill's board.

    Raises:
      AssertionError: it ends with other stones.
    """
    marks = stones(file.start)
    size = len(marks)
    board = boards.Board(size)
    for row, column in zip(*np.nonzero(marks), strict=True):
        board.play(size - 1 - int(row), int(column), "bw"[marks[row, column] - 1])
    for player, action in file.moves:
        if action < size * size:
            board.play(size - 1 - action // size, action % size, "bw"[player])
    there = [["bw".find(cell or " ") + 1 for cell in row] for row in reversed(board.board)]
    assert stones(file.position()).tolist() == there


def check_one(seed: int) -> bool:
    """One random game written and read, then damaged and read; whether the damaged one was read.

    Raises:
      AssertionError: another game came back, or other stones.
    """
    choose = random.Random(seed)
    game, start, moves = random_game(choose)
    comments = {choose.randrange(len(moves) + 1): choose.choice(("value +0.5", "]\\[;(", "é中\n", ":"))}
    players = (choose.choice(("Ann", "a]b\\")), "中")
    raw = write_sgf(game, start, moves, result=choose.choice((None, "B+3.5")), players=players, comments=comments)
    back = read_sgf(raw)
    assert back.game.name == game.name and list(back.moves) == moves, seed
    assert (stones(back.start) == stones(start)).all(), seed
    check_boards(back)
    try:
        other = read_sgf(damaged(raw, choose))
    except InvalidFile as error:
        assert "\n" not in str(error), seed
        return False
    check_boards(other)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=int, help="Games, each read whole and damaged.")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun = time.perf_counter()
    read = sum(check_one(options.seed + number) for number in range(options.files))
    print(
        f"{options.files:,} files read as written; damaged: {read:,} read, {options.files - read:,} refused; "
        f"{time.perf_counter() - begun:.0f} s"
    )


if __name__ == "__main__":
    main()
