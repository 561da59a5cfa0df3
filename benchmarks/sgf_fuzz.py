"""Random SGF files, whole and damaged, by every door: each is read as it was written, or refused in one sentence.

    python -m benchmarks.sgf_fuzz 10000 [--seed 0]

The doors are `read_sgf`, GTP's `loadsgf` and `engram move FILE`, which must agree. What they read is played again on
sgfmill's own boards, from the file's own bytes, which must end with the same stones.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from sgfmill import boards, sgf
from typer.testing import CliRunner

from benchmarks.gtp_fuzz import marks, shown_marks
from engram.cli.app import app
from engram.errors import IllegalAction, InvalidFile
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.go.rules import go, stones
from engram.games.go.sgf import GameFile, Move, Note, annotated, in_utf_8, play_as, read_sgf, write_sgf
from engram.games.state import State
from engram.gtp.engine import GtpEngine
from engram.gtp.session import Session

PIECES = (
    b";", b"(", b")", b"[", b"]", b"\\", b";B[aa]", b";W[]", b"AB[aa:cc]", b"AW[bb]", b"AE[aa]", b"SZ[9]", b"SZ[9:13]",
    b"KM[x]", b"KM[1e9]", b"KM[inf]", b"GM[2]", b"PL[W]", b"HA[3]", b"CA[UTF-16]", b"CA[base64]", b"CA[\xff]",
    b"FF[1]", b"C[", b"\x00", b"\xff\xfe", b"(;B[bb](;W[cc]", b";B[zz]W[aa]", b"RE[", b"\r\n", b"SZ[", b"B[tt]",
    b"SZ[99999999999999999999]", b"SZ[0]", b"SZ[-9]", b"HA[99999999999999999999]", b"HA[-1]",
    b"HA[" + b"9" * 5000 + b"]", b"CA[undefined]", b"CA[utf-7]",
    b"KM[-1e308]", b"KM[0." + b"0" * 400 + b"1]", b"KM[nan]", b"AB[aa:zz]", b"AB[cc:aa]", b"AB[]", b"AW[zz]", b"PL[]",
    b";B[yy]", b";W[a]", b";B[aaa]", b";B[Aa]", b";B[\xe9\xe9]", b";B[aa];W[aa]", b"AB[aa]AB[aa]", b"GM[]", b"KM[]",
    b"(" * 3000, b"(;" * 3000, b")" * 3000, b"C[" + b"\\" * 999, b"CA[idna]", b"CA[rot13]",
    b"KM[-0]", b"KM[123456.5]", b"KM[7,5]",
)  # fmt: skip
CHARSETS = ("UTF-8", "ISO-8859-1", "Shift_JIS", "GB18030", "EUC-KR", "KOI8-R")
COMMENTS = ("value +0.5", "]\\[;(", "\u00e9\u4e2d\n", ":", "\u8868 \u30bd", "\ud55c", "\u0434\u0430", "(;B[aa])")


def random_game(choose: random.Random) -> tuple[Game, State, list[Move]]:
    """A game of random size, komi, set-up stones or handicap and moves, passes and moves out of turn among them."""
    size = choose.choice((2, 3, 5, 5, 9, 9, 13, 19, 25))
    game = go(size, choose.choice((0.0, 0.5, 6.5, 7.0, 7.5, -5.5)))
    start = game.initial_state()
    if choose.random() < 0.3:
        start = _played(game, start, choose, choose.randrange(size * size))[0]
        side = choose.choice(("X to play", "O to play"))
        start = game.parse_state("\n".join([*game.render(start).splitlines()[1:-2], side]))
    elif choose.random() < 0.3:
        board = boards.Board(size)
        points = choose.sample(range(size * size), choose.randrange(2, min(size * size, 10)))
        board.apply_setup([divmod(point, size) for point in points], [], [])
        start = game.parse_state("\n".join([*marks(board), "O to play"]))
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


def dressed(raw: bytes, choose: random.Random) -> bytes:
    """The same main line as other programs write it: variations, comments in any encoding, passes of old, no PL."""
    charset = choose.choice(CHARSETS)
    file = sgf.Sgf_game.from_bytes(raw, override_encoding=charset)
    root, line = file.get_root(), file.get_main_sequence()
    if len(line) > 1 and root.has_property("PL") and choose.random() < 0.5:
        root.unset("PL")
    for node in line:
        if choose.random() < 0.2:
            text = choose.choice(COMMENTS).encode(charset, "replace")
            node.set_raw("C", text.replace(b"\\", b"\\\\").replace(b"]", b"\\]"))
        colour, point = node.get_move()
        if colour is not None and point is None and file.get_size() <= 19 and choose.random() < 0.3:
            node.set_raw(colour.upper(), b"tt")
        if choose.random() < 0.1 and node is not line[-1]:
            # A variation need not make sense: nobody reads it.
            node.new_child().set_raw(choose.choice("BW"), b"zz")
    return choose.choice((b"", b"\n ", b"\xef\xbb\xbf", b"From: a@b\n\n")) + bytes(file.serialise())


def damaged(raw: bytes, choose: random.Random) -> bytes:
    """The file with some bytes cut off, changed, left out, doubled, swapped or put in."""
    for _ in range(choose.choice((1, 1, 2, 5))):
        place = choose.randrange(len(raw) + 1)
        end = min(len(raw), place + choose.randrange(12))
        far = choose.randrange(end, len(raw) + 1)
        raw = choose.choice(
            (
                raw[:place],
                raw[place:],
                raw[:place] + raw[end:],
                raw[:end] + raw[place:],
                raw[:place] + raw[end:far] + raw[place:end] + raw[far:],
                raw[:place] + choose.choice(PIECES) + raw[place:],
                raw[:place] + choose.randbytes(end - place) + raw[end:],
            )
        )
    return raw


class Doors:
    """All ways in for a file, side by side.

    Args:
      folder: where files are written for the doors that read no bytes.
    """

    def __init__(self, folder: Path):
        self.file = folder / "game.sgf"
        self.written: list[str] = []
        self.engine = GtpEngine(Session(game_of("go:5"), simulations=1, waiting=lambda: True), self.written.append)
        self.runner = CliRunner()

    def read(self, raw: bytes) -> GameFile | None:
        """What all doors say that the bytes hold; None where all refuse them.

        Raises:
          AssertionError: they differ, a sentence is none, or sgfmill's board ends with other stones.
        """
        self.file.write_bytes(raw)
        try:
            game_file = read_sgf(raw)
        except InvalidFile as error:
            assert is_sentence(str(error)), error
            game_file = None
        loaded = self.say(f"loadsgf {self.file}")
        done = self.runner.invoke(app, ["move", str(self.file), "-n", "1"])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        if game_file is None:
            assert loaded.startswith("? cannot load file: ") and is_sentence(loaded.strip()), loaded
            assert done.exit_code == 2 and is_sentence(done.stderr.strip()), done.output
            return None
        # A damaged file may say nothing of its bytes' encoding; either reading is right then.
        readings = []
        for text in dict.fromkeys((raw, in_utf_8(raw))):
            with suppress(ValueError):
                readings.append(marks(last_board(text)))
        state, named = game_file.position(), game_of(game_file.game.name)
        assert (named.name, named.initial_state()["komi"]) == (game_file.game.name, state["komi"])
        here = ["".join(".XO"[mark] for mark in row) for row in stones(state)]
        assert here in readings
        assert loaded == "=\n\n" and shown_marks(self.say("showboard")) == here, loaded
        if game_file.game.is_over(state):
            assert done.exit_code == 2 and is_sentence(done.stderr.strip()), done.output
        else:
            assert done.exit_code == 0 and done.stdout.startswith(game_file.game.render(state)), done.output
        notes = {
            number: Note(COMMENTS[number % len(COMMENTS)], 1 + number % 2, number % 4)
            for number in range(len(game_file.moves) + 1)
        }
        noted = read_sgf(annotated(raw, notes))
        assert (noted.moves, noted.game.name) == (game_file.moves, game_file.game.name)
        assert (stones(noted.position()) == stones(state)).all() and "comments" in noted.extras
        return game_file

    def say(self, line: str) -> str:
        self.written.clear()
        self.engine.answer(line)
        return "".join(self.written)


def is_sentence(text: str) -> bool:
    """Whether a refusal is one line that people can read."""
    return 0 < len(text) < 400 and text.isprintable() and "Traceback" not in text


def last_board(raw: bytes) -> boards.Board:
    """The board after the main line, all of it read and played by sgfmill."""
    encoding = "ISO-8859-1"  # a damaged file may name none that exists
    try:
        file = sgf.Sgf_game.from_bytes(raw, override_encoding=encoding)
    except ValueError:  # an empty size is the default
        file = sgf.Sgf_game.from_bytes(re.sub(rb"SZ\s*\[\s*\]", b"", raw), override_encoding=encoding)
    board = boards.Board(file.get_size())
    for node in file.get_main_sequence():
        for name in {"B", "W", "AB", "AW", "AE"} & set(node.properties()):  # spaces in a point are no part of it
            node.set_raw_list(name, [b"".join(value.split()) for value in node.get_raw_list(name)])
        board.apply_setup(*node.get_setup_stones())
        colour, point = node.get_move()
        if point is not None:
            board.play(*point, colour)
    return board


def check_one(seed: int, doors: Doors) -> bool:
    """One random game written and read, dressed up and read, then damaged and read; whether the damaged one was read.

    Raises:
      AssertionError: another game came back, or other stones, or no clear refusal; the seed stands first.
    """
    choose = random.Random(seed)
    try:
        game, start, moves = random_game(choose)
        comments = {choose.randrange(len(moves) + 1): choose.choice(COMMENTS)}
        players = (choose.choice(("Ann", "a]b\\")), "\u4e2d")
        raw = write_sgf(game, start, moves, result=choose.choice((None, "B+3.5")), players=players, comments=comments)
        full = dressed(raw, choose)
        for back in (read_sgf(raw), doors.read(full)):
            assert back is not None and back.game.name == game.name and list(back.moves) == moves
            assert (stones(back.position(0)) == stones(start)).all()
        return doors.read(damaged(choose.choice((raw, full)), choose)) is not None
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=int, help="Files, half of them whole and half damaged.")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start, games, read = time.perf_counter(), (options.files + 1) // 2, 0
    with tempfile.TemporaryDirectory() as folder:
        doors = Doors(Path(folder))
        for number in range(games):
            read += check_one(options.seed + number, doors)
            if number % 500 == 499:
                print(f"{2 * number + 2:,} files, {time.perf_counter() - start:.0f} s, no wrong answer", flush=True)
    print(f"{games:,} whole files read as written; {games:,} damaged: {read:,} read, {games - read:,} refused")


if __name__ == "__main__":
    main()
