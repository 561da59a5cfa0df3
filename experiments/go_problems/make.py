"""Makes problems of local fights on 9×9 boards that are settled elsewhere, and keeps those that the solver proves.

python make.py shard NAME SECONDS WEAK [MAKER ...]      # appends problems to shard_NAME.txt, by some makers or all
python make.py join shard_*.txt                         # joins shards without doubles to problems.txt
python make.py check                                    # numbers of problems without a fresh proof: none

WEAK is the number of simulations of plain UCT that must err on a problem; 0 keeps every fight that is proved.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from problems import FILE, LETTERS, NEIGHBOURS, PASS, SIZE, Fight, Problem, beside, load, name, regions, settled
from solve import by_search
from solver import MAX_CELLS, grow

MARGIN = 1
"""Points to spare of each proof; fights that decide less are endgames."""
LEAST_NODES = 150
"""Positions that the proofs of all moves take; fights that need fewer are captures at hand."""
SCREENING, BUDGET, WALK = 60_000, 200_000, 8
WEAK: list = []
MOST_RIGHT, LEAST_WRONG = 3, 0.6
PER_KIND = {"live": 75, "kill": 75, "ladder": 60, "semeai": 140, "seki": 60, "tactics": 75}
Marks = dict[int, int]


def corners(cell: int) -> list[int]:
    row, column = divmod(cell, SIZE)
    return [SIZE * y + x for y in (row - 1, row + 1) for x in (column - 1, column + 1) if 0 <= y < 9 and 0 <= x < 9]


def shape(rng: random.Random, size: int, start: int, room: set[int]) -> set[int]:
    """A random connected shape in some cells."""
    cells = {start}
    while len(cells) < size:
        edge = sorted(beside(cells) & room)
        if not edge:
            break
        cells.add(rng.choice(edge))
    return cells


def start(rng: random.Random) -> int:
    """A cell in a corner, at a side or in the centre."""
    row, column = rng.choice((rng.randrange(2), rng.randrange(2, 5))), rng.choice((rng.randrange(2), rng.randrange(9)))
    row, column = (row, column) if rng.random() < 0.5 else (column, row)
    row, column = (row if rng.random() < 0.5 else 8 - row), (column if rng.random() < 0.5 else 8 - column)
    return SIZE * row + column


# Fights: the marks of the region (0 empty, 1 Black, 2 White), and the colours of settled stones that touch it.


def eye_space(rng: random.Random) -> tuple[Marks, Marks]:
    """A group of Black around an eye space, within settled stones of White."""
    eye = shape(rng, rng.randint(4, 9), start(rng), set(range(81)))
    ring = beside(eye)
    ring |= {cell for part in eye for cell in corners(part) if cell not in eye and rng.random() < 0.6}
    marks = {cell: 2 if rng.random() < 0.2 else 0 for cell in eye}
    marks |= {cell: 0 if rng.random() < 0.1 else 1 for cell in ring}
    for cell in beside(set(marks)):
        if rng.random() < 0.22:
            marks[cell] = rng.choice((0, 0, 2, 1))
    return marks, dict.fromkeys(beside(set(marks)), 2)


def race(
    rng: random.Random, outside: float = 0.45, sizes: tuple[int, int] = (4, 9), holes: float = 0.12
) -> tuple[Marks, Marks]:
    """A group of each side, one beside the other, each within settled stones of its enemy."""
    first = shape(rng, rng.randint(*sizes), start(rng), set(range(81)))
    near = sorted(beside(first))
    second = shape(rng, rng.randint(*sizes), rng.choice(near), set(range(81)) - first)
    marks = dict.fromkeys(first, 1) | dict.fromkeys(second, 2)
    for cell in sorted(beside(first) | beside(second)):
        both = bool(first & set(NEIGHBOURS[cell])) and bool(second & set(NEIGHBOURS[cell]))
        if cell not in marks and (both or rng.random() < outside):
            marks[cell] = 0
    for cell in list(first | second):
        if rng.random() < holes:
            marks[cell] = 0
    fence: Marks = {}
    for cell in beside(set(marks)):
        colours = {3 - marks[other] for other in NEIGHBOURS[cell] if marks.get(other)}
        if len(colours) == 2:
            return {}, {}
        if colours:
            fence[cell] = colours.pop()
    return marks, fence


def close_race(rng: random.Random) -> tuple[Marks, Marks]:
    """A group of each side with shared liberties, eyes, and few liberties outside: here a seki is near."""
    return race(rng, 0.06, (3, 6), 0.05)


def skirmish(rng: random.Random) -> tuple[Marks, Marks]:
    """Stones of both sides at random, within settled stones of both."""
    cells = shape(rng, rng.randint(13, 22), start(rng), set(range(81)))
    marks = {cell: rng.choice((0, 0, 1, 1, 2, 2)) for cell in cells}
    angle, fence = rng.random() * 6.3, {}
    middle = rng.choice(sorted(cells))
    for cell in beside(cells):
        height = (cell // 9 - middle // 9) * np.cos(angle) + (cell % 9 - middle % 9) * np.sin(angle)
        fence[cell] = 1 if height > 0 else 2
    return marks, fence


def staircase(rng: random.Random) -> tuple[Marks, Marks]:
    """A stone of Black with two liberties in a staircase between settled stones of White; its end is anything."""
    length, first = rng.randint(3, 5), rng.randrange(0, 6)
    shift = rng.randrange(-3, 4)
    band = {}
    for row in range(first, first + length + 1):
        for offset in range(-1, 3):
            column = row + shift + offset - 1
            if 0 <= row < 9 and 0 <= column < 9:
                band[SIZE * row + column] = (row - first, offset)
    marks = {cell: 0 for cell, (step, offset) in band.items() if not (step == 0 and offset == -1)}
    heads = [cell for cell, (step, offset) in band.items() if step == 0 and offset in (0, 1)]
    if not heads:
        return {}, {}
    head = heads[0]
    marks[head] = 1
    for cell, (step, offset) in band.items():
        if cell in marks and offset in (-1, 2) and step and rng.random() < 0.25:
            marks[cell] = 2
        elif cell in marks and not marks[cell] and rng.random() < 0.04:
            marks[cell] = rng.choice((1, 2))
    fence: Marks = {}
    sides, end = {-1: rng.choice((1, 2)), 2: rng.choice((1, 2))}, rng.choice((1, 2, 0))
    for cell in beside(set(marks)):
        step, offset = max(band[other] for other in NEIGHBOURS[cell] if other in marks)
        fence[cell] = 2 if step == 0 else sides[-1 if offset < 1 else 2] if step < length else end or rng.choice((1, 2))
    turned = rng.random() < 0.5
    if turned:  # the other diagonal
        marks = {cell // 9 * 9 + 8 - cell % 9: mark for cell, mark in marks.items()}
        fence = {cell // 9 * 9 + 8 - cell % 9: mark for cell, mark in fence.items()}
    if rng.random() < 0.5:
        marks, fence = ({80 - cell: mark for cell, mark in marks_.items()} for marks_ in (marks, fence))
    return marks, fence


MAKERS = {"life": eye_space, "race": race, "seki": close_race, "skirmish": skirmish, "staircase": staircase}


# The rest of the board


def zones(rng: random.Random, marks: Marks, fence: Marks, base: int | None) -> Marks | None:
    """Colours of all cells outside the fight, Black's minus White's being `base`; None if it does not work out."""
    rest = set(range(81)) - set(marks)
    colours = dict(fence)
    for colour in (1, 2):
        if colour not in colours.values():
            free = sorted(rest - set(colours))
            if not free:
                return None
            colours[rng.choice(free)] = colour
    edge = sorted(beside(set(colours)) & rest)
    while edge:
        cell = rng.choice(edge)
        colours[cell] = rng.choice([colours[other] for other in NEIGHBOURS[cell] if other in colours])
        edge = sorted(beside(set(colours)) & rest)
    if len(colours) != len(rest):
        return None
    for _ in range(300):
        balance = sum(3 - 2 * colour for colour in colours.values())
        if base is None or balance == base:
            break
        if (balance - base) % 2:
            return None
        giver = 1 if balance > base else 2
        cells = [cell for cell in rest - set(fence) if colours[cell] == giver]
        cells = [cell for cell in cells if any(colours.get(other) == 3 - giver for other in NEIGHBOURS[cell])]
        if not cells:
            return None
        cell = rng.choice(sorted(cells))
        before = len(regions({other for other in rest if colours[other] == giver}))
        if len(regions({other for other in rest if colours[other] == giver and other != cell})) <= before:
            colours[cell] = 3 - giver
    else:
        return None
    return colours


def eyes(rng: random.Random, colours: Marks) -> set[int] | None:
    """Cells of settled zones to leave empty, so that each chain has two eyes or more; None if one has no room."""
    empty: set[int] = set()
    for colour in (1, 2):
        for zone in regions({cell for cell in colours if colours[cell] == colour}):
            holes: set[int] = set()
            for cell in rng.sample(sorted(zone), len(zone)):
                stones = zone - holes - {cell}
                wide = all(set(NEIGHBOURS[hole]) & stones for hole in holes | {cell})
                if set(NEIGHBOURS[cell]) <= zone and wide and len(regions(stones)) == 1:
                    holes.add(cell)
            if len(regions(holes)) < 2:
                return None
            empty |= holes
    return empty


def board(rng: random.Random, marks: Marks, fence: Marks, base: int | None, tries: int) -> np.ndarray | None:
    for _ in range(tries):
        colours = zones(rng, marks, fence, base)
        if colours is None:
            continue
        empty = eyes(rng, colours)
        if empty is None:
            continue
        stones = np.array(
            [marks.get(cell, 0 if cell in empty else colours.get(cell, 0)) for cell in range(81)], np.int8
        )
        own = settled(stones)
        if set(colours) <= own[0] | own[1]:
            return stones
    return None


# Proofs


def breathes(stones: np.ndarray) -> bool:
    chains = [part for kind in (1, 2) for part in regions({cell for cell in range(81) if stones[cell] == kind})]
    return all(any(stones[cell] == 0 for cell in beside(chain)) for chain in chains)


def score(fight: Fight, words: list, mover: int) -> int | None:
    """Black's points of the region by best play, proved from both sides; None without a proof."""
    low, high = -len(fight.cells), len(fight.cells) + 1  # Black has `low`; `high` is more than Black can have
    while high - low > 1:
        middle = (low + high) // 2
        if fight.proves(0, words, mover, 0, middle):
            low = middle
        elif fight.complete:
            high = middle
        else:
            return None
    return low if fight.proves(1, words, mover, 0, -low) else None


def is_seki(fight: Fight, words: list, mover: int) -> bool:
    """Whether best play ends with chains of both sides that share liberties which neither may fill.

    Both sides play for points, a move before a pass. So neutral points that are left at the end cost their filler.
    """
    passes, best = 0, score(fight, words, mover)
    if best is None:
        return False
    for _ in range(40):
        for move, after in fight.moves(words, mover)[::-1]:
            if move != PASS and fight.proves(mover, after, 1 - mover, 0, -best if mover else best):
                words, passes = after, 0
                break
        else:
            passes += 1
        mover = 1 - mover
        if passes == 2:
            break
    else:
        return False
    stones = fight.stones.copy()
    for index, cell in enumerate(fight.cells):
        stones[cell] = int(words[0]) >> index & 1 or 2 * (int(words[1]) >> index & 1)
    black, white = settled(stones)
    free = {cell for cell in range(81) if stones[cell] == 0 and cell not in black | white}
    return any({1, 2} <= {int(stones[cell]) for cell in beside(part)} for part in regions(free))


def canonical(stones: np.ndarray, fight: Fight, mover: int) -> str:
    """The fight and its fence as the least text of all symmetries and places, the mover's stones first."""
    cells = set(fight.cells)
    black, white = settled(stones)
    near = {}
    for cell in cells:
        row, column = divmod(cell, 9)
        near[row, column] = "." if not stones[cell] else ("A" if stones[cell] == 1 + mover else "B")
        for y, x in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            other = 9 * y + x
            if not (0 <= y < 9 and 0 <= x < 9):
                near[y, x] = "#"
            elif other not in cells:
                near[y, x] = "a" if other in (black, white)[mover] else "b"
    texts = []
    for turn in range(8):
        turned = {}
        for (y, x), mark in near.items():
            down, across = (x, y) if turn & 1 else (y, x)
            turned[-down if turn & 2 else down, -across if turn & 4 else across] = mark
        top, left = min(y for y, _ in turned), min(x for _, x in turned)
        texts.append(" ".join(f"{y - top}{x - left}{mark}" for (y, x), mark in sorted(turned.items())))
    return min(texts)


def problems(rng: random.Random, maker: str, tries: Counter) -> Iterator[tuple[Problem, str]]:
    """Problems of one fight as it stands and after random moves, each with its canonical form."""
    marks, fence = MAKERS[maker](rng)
    if not marks or len(marks) > 30 or not 3 <= sum(not mark for mark in marks.values()) <= 24:
        return
    if rng.random() < 0.5:
        marks, fence = ({cell: 3 - mark if mark else 0 for cell, mark in some.items()} for some in (marks, fence))
    base = None if maker == "staircase" else odd(8 + rng.randrange(-4, 5), marks)
    if maker == "seki":
        base = odd(8 + rng.choice((-1, 1)) * rng.randint(3, max(3, len(marks) // 2)), marks)
    stones = board(rng, marks, fence, base, 12)
    tries[maker, "boards"] += 1
    if stones is None or not breathes(stones):
        return
    tries[maker, "fights"] += 1
    mover = rng.randrange(2)
    if maker == "staircase":
        fight = Fight(stones, 0, BUDGET)
        if not is_ladder(fight, 0) and not is_ladder(fight, 1):
            return
        tries[maker, "ladders"] += 1
        scores = [score(fight, fight.words, side) for side in (0, 1)]
        tries[maker, "scored"] += None not in scores
        if None in scores or scores[0] - scores[1] < 3:
            return
        tries[maker, "swing"] += 1
        for side in (0, 1):
            at = odd(8 - scores[side], marks)
            for base in (at, at + 2, at - 2):
                new = board(rng, marks, fence, base, 12)
                if new is not None:
                    yield from finished(rng, maker, new, side, fence, tries)
        return
    margin = 0 if maker == "staircase" else MARGIN
    walk = Fight(stones, margin, SCREENING * (4 if maker == "staircase" else 1))
    words = walk.words
    for _ in range(WALK):
        for side in (mover, 1 - mover):
            # The other side must win after a pass, and the mover must not be lost.
            if walk.proves(1 - side, words, 1 - side, 0) and not walk.proves(1 - side, words, side, 0):
                if not walk.complete:
                    return
                tries[maker, "open"] += 1
                yield from finished(rng, maker, placed(walk, words), side, fence, tries)
        moves = walk.moves(words, mover)[1:]
        if not walk.complete or not moves:
            return
        words, mover = rng.choice(moves)[1], 1 - mover


def odd(base: int, marks: Marks) -> int:
    """A base that the number of cells outside the marks allows."""
    return base + (base + len(marks) + 1) % 2


def placed(fight: Fight, words: list) -> np.ndarray:
    stones = fight.stones.copy()
    for index, cell in enumerate(fight.cells):
        stones[cell] = int(words[0]) >> index & 1 or 2 * (int(words[1]) >> index & 1)
    return stones


def finished(
    rng: random.Random, maker: str, stones: np.ndarray, mover: int, fence: Marks, tries: Counter
) -> Iterator[tuple[Problem, str]]:
    rows = tuple("".join(".XO"[mark] for mark in stones[9 * row : 9 * row + 9]) for row in range(9))
    first_glance = glance(Problem(0, "", mover, rows, ())) if WEAK else PASS
    fight = Fight(stones, 0 if maker == "staircase" else MARGIN, 3 * BUDGET if maker == "staircase" else BUDGET)
    if not fight.cells:
        return
    after = dict(fight.moves(fight.words, mover)).get(first_glance, fight.words)
    if not fight.proves(1 - mover, after, 1 - mover, 0):
        return
    tries[maker, "hard"] += 1
    answers = fight.answers(mover)
    if answers is None:
        tries[maker, "unproved" if fight.complete else "budget"] += 1
        return
    right, wrong = answers
    if not 1 <= len(right) <= MOST_RIGHT or len(wrong) < LEAST_WRONG * (len(right) + len(wrong)):
        return
    tries[maker, "proved"] += 1
    names = tuple(name(move) for move in sorted(right))
    if fight.total < LEAST_NODES:
        return
    kind = kind_of(fight, maker, mover, right, fence)
    if kind is not None:
        tries[maker, kind] += 1
        yield Problem(0, kind, mover, rows, names), canonical(stones, fight, mover)


def glance(problem: Problem) -> int:
    """The move of a weak search. Only fights where it errs are kept: most others need no more than a look."""
    answer = WEAK[0](problem)
    return PASS if answer == "pass" else LETTERS.index(answer[0]) + 9 * (9 - int(answer[1]))


def kind_of(fight: Fight, maker: str, mover: int, right: list[int], fence: Marks) -> str | None:
    after = dict(fight.moves(fight.words, mover))[right[0]]
    if is_seki(fight, after, 1 - mover) or is_seki(fight, fight.words, 1 - mover):
        return "seki"
    if maker == "life":
        attacker = next(iter(fence.values())) - 1
        return "kill" if mover == attacker else "live"
    if maker == "staircase":
        return "ladder" if is_ladder(fight, mover) else None
    return {"race": "semeai", "seki": "semeai", "skirmish": "tactics"}[maker]


def is_ladder(fight: Fight, mover: int) -> bool:
    """Whether a chain can be chased by three ataris in a row, each but the last answered by an extension."""
    longest = 0
    for side in (0, 1):
        for index in range(len(fight.cells)):
            if int(fight.words[side]) >> index & 1:
                words = fight.words
                if side == mover:
                    places = liberties(fight, words, side, index)
                    lines = [fight.play(words, side, place) for place in places] if len(places) == 1 else []
                else:
                    lines = [words]
                longest = max([longest, *(chase(fight, line, side, index) for line in lines if line)])
    return longest >= 3


def liberties(fight: Fight, words: list, side: int, index: int) -> list[int]:
    bit = np.uint64(1 << index)
    cells, reach = grow(bit, np.uint64(words[side]), fight.shape[side])
    if int(cells) & int(fight.shape[side][MAX_CELLS]):
        return [0] * 9
    free = int(reach) & ~int(words[0]) & ~int(words[1])
    return [place for place in range(len(fight.cells)) if free >> place & 1]


def chase(fight: Fight, words: list, side: int, index: int) -> int:
    """Most ataris in a row against a chain with two liberties that extends each time."""
    longest, places = 0, liberties(fight, words, side, index)
    if len(places) != 2:
        return 0
    for place in places:
        after = fight.play(words, 1 - side, place)
        left = liberties(fight, after, side, index) if after else []
        if len(left) == 1:
            extended = fight.play(after, side, left[0])
            longest = max(longest, 1 + (chase(fight, extended, side, index) if extended else 0))
    return longest


def join(files: list[str]) -> None:
    """Writes the set: no fight twice, in no symmetry, and at most `PER_KIND` of a kind."""
    rng, forms, kinds = random.Random(25), set(), defaultdict(list)
    for problem in (problem for file in files for problem in load(Path(file))):
        form = canonical(problem.stones, Fight(problem.stones), problem.mover)
        if form not in forms and is_proved(problem):
            forms.add(form)
            kinds[problem.kind].append(problem)
    selection = [
        problem for kind in sorted(kinds) for problem in rng.sample(kinds[kind], min(len(kinds[kind]), PER_KIND[kind]))
    ]
    FILE.write_text("".join(str(replace(problem, number=number + 1)) for number, problem in enumerate(selection)))
    print({kind: len(kinds[kind]) for kind in sorted(kinds)})


def is_proved(problem: Problem) -> bool:
    """Whether a fresh solver, without tables of earlier positions, proves the same right moves."""
    answers = Fight(problem.stones, budget=1_000_000).answers(problem.mover)
    return answers is not None and {name(move) for move in answers[0]} == set(problem.right)


def shard(seed: str, seconds: float) -> None:
    file, end, forms = Path(__file__).with_name(f"shard_{seed}.txt"), time.monotonic() + seconds, set()
    rng, tries = random.Random(), Counter()
    makers = sys.argv[5:] or list(MAKERS)
    weak = int(sys.argv[4])
    if weak:
        WEAK.append(by_search("uct", weak, 0))
    while time.monotonic() < end:
        number = 0
        for problem, form in problems(rng, rng.choice(makers), tries):
            if form not in forms and number < 2:
                number += 1
                forms.add(form)
                with file.open("a") as out:
                    out.write(str(problem))
    print(*(f"{maker} {what} {number};" for (maker, what), number in sorted(tries.items())))


if __name__ == "__main__":
    if sys.argv[1] == "join":
        join(sys.argv[2:])
    elif sys.argv[1] == "check":
        print([problem.number for problem in load() if not is_proved(problem)])
    else:
        shard(sys.argv[2], float(sys.argv[3]))
