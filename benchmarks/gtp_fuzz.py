"""Random GTP commands, garbage among them, every answer checked against sgfmill's boards and a superko kept beside.

    python benchmarks/gtp_fuzz.py 1000000 [--seed 0]

Checked: that each line gets one well-formed answer with its number; which moves are legal; the boards; the
score as the stones lie; that a move made up by the engine is legal; that lines known to be wrong are refused.
"""

from __future__ import annotations

import argparse
import random
import re
import time

from sgfmill import boards

from engram.games.catalogue import game
from engram.gtp.engine import GtpEngine
from engram.gtp.session import Session

LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
ANSWER = re.compile(r"([=?])(\d*)(?: (.*)|(\n.+))?\n\n", re.DOTALL)
"""Success or failure, the number of the command, and the text in the same line or from the next one on."""
WRONG = (
    "play", "play b", "play b z9", "play w i5", "play b a0", "play b a99", "play green a1", "play b a1 a2",
    "boardsize", "boardsize x", "boardsize 26", "boardsize 1", "boardsize -3", "boardsize 9 9", "boardsize 1e9",
    "boardsize 99999999999999999999", "komi", "komi x", "komi 3.3", "komi nan", "komi inf", "komi 1 2", "genmove",
    "genmove x", "genmove b w", "reg_genmove", "time_left b", "time_left b x 0", "time_settings 1 2",
    "time_settings 1 -2 3", "loadsgf", "loadsgf /nowhere/at/all.sgf", "loadsgf / 3", "loadsgf a\ufffdb x",
    "final_status_list", "final_status_list well", "kata-analyze avoid x c3 1", "lz-analyze b b", "lz-analyze x 3",
    "lz-genmove_analyze 5 5", "lz-genmove_analyze interval nan", "printsgf /nowhere/at/all.sgf", "Play b a1",
    "gogui-setup b", "gogui-setup b pass", "gogui-setup_player green", "gogui-play_sequence b", "gg-undo x",
    "gogui-play_sequence b z9", "gg-undo 999999", "engram-show_search green",
    "gen move", "\u00e9\u4e2d", "=", "? what", "-1 name", "((((((((", "\udcff",
)  # fmt: skip


class Oracle:
    """What the engine ought to hold, kept by sgfmill: boards, positions so far, moves."""

    def __init__(self, size: int, komi: float):
        self.size, self.komi = size, komi
        self.boards = [boards.Board(size)]

    @property
    def board(self) -> boards.Board:
        return self.boards[-1]

    def over(self) -> bool:
        return len(self.boards) > 3 * self.size**2

    def after(self, colour: str, vertex: str) -> boards.Board | None:
        """The board after a move; None where it is illegal."""
        if self.over():
            return None
        if vertex.lower() == "pass":
            return self.board
        row, column = int(vertex[1:]) - 1, LETTERS.index(vertex[0].upper())
        if self.board.get(row, column) is not None:
            return None
        board = self.board.copy()
        board.play(row, column, colour)
        if board.get(row, column) is None or any(key(board) == key(past) for past in self.boards):
            return None
        return board

    def score(self) -> str:
        lead = self.board.area_score() - self.komi
        return f"{'B' if lead > 0 else 'W'}+{abs(lead):g}" if lead else "0"


def key(board: boards.Board) -> str:
    return str(board.board)


def marks(board: boards.Board) -> list[str]:
    """The rows of a board, top row first, as `showboard` draws them."""
    shown = {"b": "X", "w": "O", None: "."}
    return ["".join(shown[cell] for cell in row) for row in reversed(board.board)]


def shown_marks(answer: str) -> list[str]:
    rows = re.findall(r"^ *\d+ ((?:[.XO] )+)\d+$", answer, re.MULTILINE)
    return [row.replace(" ", "") for row in rows]


class Fuzzer:
    """A session of random commands.

    Args:
      seed: of all choices; the same seed gives the same session.
    """

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.written: list[str] = []
        session = Session(game("go:5"), simulations=8, seed=seed, waiting=lambda: True)
        self.engine = GtpEngine(session, self.written.append)
        self.oracle = Oracle(5, 7.5)
        self.colour = "b"
        self.counts: dict[str, int] = {}

    def run(self, commands: int) -> dict[str, int]:
        """Gives so many commands; how often each kind was given.

        Raises:
          AssertionError: an answer is wrong; the sentence says where.
        """
        kinds = {
            self.play: 700, self.undo: 60, self.showboard: 40, self.score: 20, self.genmove: 20, self.analyse: 3,
            self.komi: 8, self.boardsize: 3, self.clear_board: 4, self.clock: 3, self.wrong: 70, self.garbage: 50,
            self.blank: 20, self.printsgf: 2, self.resign: 5, self.handicap: 4, self.sequence: 10, self.undo_many: 5,
            self.setup: 4, self.show_search: 2,
        }  # fmt: skip
        choices = self.random.choices(list(kinds), list(kinds.values()), k=commands)
        for number, kind in enumerate(choices):
            try:
                kind()
            except Exception as error:
                raise AssertionError(f"command {number} ({kind.__name__}): {error!r}") from error
            self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
        return self.counts

    def say(self, text: str) -> tuple[bool, str]:
        """Gives a command in one of its spellings; whether it was carried out, and the answer's text."""
        number = self.random.choice(("", "", str(self.random.randrange(10**6))))
        line = f"{number} {text}" if number else text
        if self.random.random() < 0.1:
            place = self.random.randrange(len(line) + 1)
            line = line[:place] + self.random.choice("\x00\x01\x07\x1f\x7f\r") + line[place:]
        line = self.random.choice(("", " ", "\t")) + line.replace(" ", self.random.choice((" ", "  ", "\t")))
        line += self.random.choice(("\n", "\r\n", "", " \n", " # a comment\n", "#\n"))
        self.written.clear()
        self.engine.answer(line)
        answer = "".join(self.written)
        match = ANSWER.fullmatch(answer)
        assert match and match[2] == number, (line, answer)
        body = match[3] or match[4] or ""
        assert "\n\n" not in body and (match[1] == "=" or body), (line, answer)
        return match[1] == "=", body

    def expect(self, text: str, legal: bool) -> str:
        done, body = self.say(text)
        assert done == legal, (text, body, self.oracle.size, marks(self.oracle.board))
        return body

    def advance(self, board: boards.Board) -> None:
        self.oracle.boards.append(board)
        self.colour = "w" if self.colour == "b" else "b"

    def play(self) -> None:
        if self.random.random() < 0.1:
            self.colour = self.random.choice("bw")
        size = self.oracle.size
        vertex = f"{LETTERS[self.random.randrange(size)]}{1 + self.random.randrange(size)}"
        if self.random.random() < 0.06:
            vertex = "pass"
        word = self.random.choice(("b", "B", "black") if self.colour == "b" else ("w", "W", "White"))
        board = self.oracle.after(self.colour, vertex)
        self.expect(f"play {word} {self.random.choice((vertex, vertex.lower()))}", board is not None)
        if board is not None:
            self.advance(board)
        elif self.oracle.over():
            self.clear_board()

    def undo(self) -> None:
        for _ in range(self.random.choice((1, 1, 2, 5))):
            self.expect("undo", len(self.oracle.boards) > 1)
            self.oracle.boards = self.oracle.boards[:-1] or self.oracle.boards

    def showboard(self) -> None:
        assert shown_marks(self.expect("showboard", True) + "\n") == marks(self.oracle.board)

    def score(self) -> None:
        assert self.expect("final_score", True) == self.oracle.score()
        stones = sum(row.count("X") + row.count("O") for row in marks(self.oracle.board))
        assert len(self.expect("final_status_list alive", True).split()) == stones
        assert self.expect("final_status_list dead", True) == ""

    def genmove(self) -> None:
        colour = self.random.choice("bw")
        if self.random.random() < 0.3:
            vertex = self.expect(f"reg_genmove {colour}", not self.oracle.over())
            assert self.oracle.over() or self.oracle.after(colour, vertex) is not None, vertex
            return
        self.made(colour, self.expect(f"genmove {colour}", not self.oracle.over()))

    def analyse(self) -> None:
        if self.random.random() < 0.5:
            body = self.expect(f"kata-analyze {self.random.choice('bw')} interval 1", not self.oracle.over())
            assert self.oracle.over() or body.startswith("\ninfo move "), body
            return
        body = self.expect(f"lz-genmove_analyze {self.colour} 1", not self.oracle.over())
        self.made(self.colour, body.rpartition("play ")[2])

    def made(self, colour: str, vertex: str) -> None:
        if self.oracle.over():
            return
        board = self.oracle.after(colour, vertex)
        assert board is not None, (colour, vertex, marks(self.oracle.board))
        self.colour = colour
        self.advance(board)

    def komi(self) -> None:
        self.oracle.komi = self.random.choice((0.0, 0.5, 5.5, 7.0, 7.5, -3.0))
        self.expect(f"komi {self.oracle.komi}", True)

    def boardsize(self) -> None:
        size = self.random.choice((2, 3, 4, 5, 5, 6, 7, 9))
        self.expect(f"boardsize {size}", True)
        self.oracle = Oracle(size, self.oracle.komi)

    def clear_board(self) -> None:
        self.expect("clear_board", True)
        self.oracle = Oracle(self.oracle.size, self.oracle.komi)

    def handicap(self) -> None:
        empty = self.oracle.board.is_empty()
        if self.random.random() < 0.8 and not empty:
            self.clear_board()
            empty = True
        size = self.oracle.size
        number = self.random.randrange(1, min(size * size, 12) + 1)
        legal = empty and 2 <= number < size * size
        points = self.random.sample(range(size * size), number)
        vertices = [f"{LETTERS[point % size]}{1 + point // size}" for point in points]
        if self.random.random() < 0.5:
            self.expect(f"set_free_handicap {' '.join(vertices)}", legal)
        else:
            vertices = self.expect(f"place_free_handicap {number}", legal).split()
            assert not legal or len(set(vertices)) == number
        if legal:
            board = boards.Board(size)
            board.apply_setup([(int(name[1:]) - 1, LETTERS.index(name[0])) for name in vertices], [], [])
            self.oracle.boards = [board]
            self.colour = "w"

    def sequence(self) -> None:
        """GoGui's moves in one go: all of them or none."""
        size, line, history = self.oracle.size, [], list(self.oracle.boards)
        for _ in range(self.random.randrange(5)):
            colour = self.random.choice("bw")
            line.append((colour, f"{LETTERS[self.random.randrange(size)]}{1 + self.random.randrange(size)}"))
        legal = True
        for colour, vertex in line:
            board = self.oracle.after(colour, vertex) if legal else None
            legal = board is not None
            if board is not None:
                self.oracle.boards.append(board)
        self.expect(f"gogui-play_sequence {' '.join(' '.join(move) for move in line)}".rstrip(), legal)
        if not legal:
            self.oracle.boards = history

    def undo_many(self) -> None:
        number = self.random.randrange(6)
        legal = number < len(self.oracle.boards)
        self.expect(f"gg-undo {number}", legal)
        if legal and number:
            del self.oracle.boards[-number:]

    def setup(self) -> None:
        if not self.oracle.board.is_empty():
            self.clear_board()
        size = self.oracle.size
        points = self.random.sample(range(size * size), self.random.randrange(size * size))
        stones = [(self.random.choice("bw"), divmod(point, size)) for point in points]
        board = boards.Board(size)
        sides = [[point for colour, point in stones if colour == side] for side in "bw"]
        legal = board.apply_setup(*sides, [])
        words = " ".join(f"{colour} {LETTERS[column]}{1 + row}" for colour, (row, column) in stones)
        self.expect(f"gogui-setup {words}".rstrip(), legal)
        if legal:
            self.oracle.boards = [board]
        self.expect(f"gogui-setup_player {self.random.choice('bw')}", True)

    def show_search(self) -> None:
        body = self.expect(f"engram-show_search {self.random.choice('bw')}", not self.oracle.over())
        assert self.oracle.over() or body.startswith("VAR ")

    def clock(self) -> None:
        self.expect(self.random.choice(("time_settings 0 1 0", "time_left b 3 0", "time_left w 1 2")), True)

    def wrong(self) -> None:
        self.expect(self.random.choice(WRONG), False)

    def garbage(self) -> None:
        letters = "abz019 \t.,;:()[]{}'\"\\/%$\x7f\x80\u20ac"
        word = "x" + "".join(self.random.choices(letters, k=self.random.randrange(60)))
        self.expect(word, False)
        assert self.expect(f"known_command {self.random.choice(('x', 'undo2', 'gen'))}", True) == "false"

    def blank(self) -> None:
        self.written.clear()
        self.engine.answer(self.random.choice(("", "\n", "\r\n", "  \t ", "# play b a1\n", "\x00\x01\n", " #\n")))
        assert not self.written

    def printsgf(self) -> None:
        assert "SZ[" in self.expect("printsgf", True)

    def resign(self) -> None:
        self.expect("play w resign", True)
        assert self.expect("final_score", True) == "B+R"
        # Whatever changes the game takes the resignation back.
        for self.oracle.komi in (100.0, 0.5):
            self.expect(f"komi {self.oracle.komi}", True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start, done = time.perf_counter(), 0
    total: dict[str, int] = {}
    while done < options.commands:
        count = min(20_000, options.commands - done)
        for kind, number in Fuzzer(options.seed + done).run(count).items():
            total[kind] = total.get(kind, 0) + number
        done += count
        print(f"{done:,} commands, {time.perf_counter() - start:.0f} s, no wrong answer", flush=True)
    print(", ".join(f"{kind} {number:,}" for kind, number in sorted(total.items())))


if __name__ == "__main__":
    main()
