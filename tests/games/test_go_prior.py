"""Go's own prior against a plain reading of the diagram, and rollouts that answer the move before them."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import InvalidParameter
from engram.games.catalogue import game as game_of
from engram.games.go import prior as go_prior
from engram.games.go import prior_weights as weights
from engram.games.go.board import MAX_POINTS, point_of
from engram.games.go.patterns import CLASS, NUM_CLASSES
from engram.games.go.rules import stones
from engram.native.intrinsics import call_float
from engram.native.jit import compiled
from engram.presets import puct
from engram.presets.catalogue import preset
from engram.rng import new_rng
from engram.search.evaluation import Evaluation
from engram.storage import load


def beside(at, cells):
    steps = [(at[0] - 1, at[1]), (at[0], at[1] - 1), (at[0], at[1] + 1), (at[0] + 1, at[1])]
    return [point for point in steps if point in cells]


def chain_at(at, cells):
    """The stones of a chain and its liberties."""
    stones, todo = {at}, [at]
    while todo:
        fresh = {point for point in beside(todo.pop(), cells) if cells[point] == cells[at]} - stones
        stones |= fresh
        todo += fresh
    return frozenset(stones), {free for stone in stones for free in beside(stone, cells) if cells[free] == 0}


def after(cells, point, colour):
    """The board after a move, without ko, and the number of captured stones; None for suicide."""
    board, num_captured = {**cells, point: colour}, 0
    for at in beside(point, board):
        if board[at] == 3 - colour and not chain_at(at, board)[1]:
            dead = chain_at(at, board)[0]
            board.update(dict.fromkeys(dead, 0))
            num_captured += len(dead)
    return (board, num_captured) if chain_at(point, board)[1] else None


def exposes(cells, point, colour):
    """Whether a move captures nothing and leaves its chain at most one liberty."""
    move = after(cells, point, colour)
    return move is None or (move[1] == 0 and len(chain_at(point, move[0])[1]) < 2)


def chains_beside(chain, cells, colour):
    return {chain_at(at, cells)[0] for stone in chain for at in beside(stone, cells) if cells[at] == colour}


def has_prey(stone, cells):
    """Whether an enemy chain beside a chain is in atari."""
    prey = chains_beside(chain_at(stone, cells)[0], cells, 3 - cells[stone])
    return any(len(chain_at(next(iter(chain)), cells)[1]) == 1 for chain in prey)


def pursuit(stone, cells):
    """The fewest ataris that catch a chain, its enemy to move; -1 if the chain escapes."""
    colour, free = cells[stone], sorted(chain_at(stone, cells)[1])
    if len(free) != 2:
        return 0 if len(free) < 2 else -1
    lengths = []
    for atari, way_out in (free, free[::-1]):
        if exposes(cells, atari, 3 - colour):
            continue
        board, _ = after(cells, atari, 3 - colour)
        if has_prey(stone, board):
            continue
        move = after(board, way_out, colour)
        if move is None or len(chain_at(stone, move[0])[1]) < 2:
            return 1
        lengths.append(pursuit(stone, move[0]))
    return min((1 + length for length in lengths if length >= 0), default=-1)


def is_pursued(stone, cells):
    """Whether a ladder catches a chain, its enemy to move."""
    return pursuit(stone, cells) >= 0


def kind_of(stone, cells):
    """What `survey` says of a chain."""
    free = chain_at(stone, cells)[1]
    if len(free) > 2:
        return go_prior.FREE
    if len(free) == 2:
        return go_prior.LADDER if is_pursued(stone, cells) else go_prior.SHORT
    move = after(cells, min(free), cells[stone])
    lost = not has_prey(stone, cells) and (move is None or is_pursued(stone, move[0]))
    return go_prior.LOST if lost else go_prior.RUNS


def makes_one_eye(shape):
    """Whether the points of a captured chain make only one eye."""
    links = [len([at for at in shape if abs(at[0] - p[0]) + abs(at[1] - p[1]) == 1]) for p in shape]
    pairs = sum(links) // 2
    return len(shape) <= 3 or (len(shape), max(links), pairs) in [
        (4, 3, 3), (4, 2, 4), (5, 4, 4), (5, 3, 5), (5, 2, 5), (6, 4, 6),
    ]  # fmt: skip


PAIRS = [(low, high) for high in range(9) for low in range(high + 1)]


def offset(a, b):
    """The number of an offset of at most eight lines, whatever its direction; 0: there is no other point."""
    return 0 if b is None else 1 + PAIRS.index(tuple(sorted(min(abs(x - y), 8) for x, y in zip(a, b, strict=True))))


NEAREST = sorted(
    [(i, j) for i in range(-3, 4) for j in range(-3, 4) if i or j],
    key=lambda cell: (abs(cell[0]) + abs(cell[1]) + max(abs(cell[0]), abs(cell[1])), cell),
)[:28]


def pattern_of(cells, point, colour, last, number):
    """The lowest code of a large pattern's eight images."""
    size = (12, 20, 28)[number - 1]
    codes = []
    for turned in (False, True):
        for down, right in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            code = number << 60
            for k, cell in enumerate(NEAREST[:size]):
                step = (cell[1], cell[0]) if turned else cell
                at = (point[0] + down * step[0], point[1] + right * step[1])
                code |= {0: 0, None: 3, colour: 1}.get(cells.get(at), 2) << (2 * k)
                code |= (k + 1) << 24 if number == 1 and at == last else 0
            codes.append(code)
    return min(codes)


KNOWN = [
    {int(code): number for number, code in enumerate(load(weights.FILE, "weights of a prior")[1][f"patterns{size}"], 1)}
    for size in (12, 20, 28)
]


EIGHT = [(row, column) for row in range(3) for column in range(3) if (row, column) != (1, 1)]


def class_of(cells, point, colour):
    """The number of the 3×3 surroundings among all that boards can show, the mover's stones as 1."""
    square = [[cells.get((point[0] + i, point[1] + j), 3) for j in (-1, 0, 1)] for i in (-1, 0, 1)]
    square = [[{0: 0, 3: 3, colour: 1}.get(kind, 2) for kind in row] for row in square]
    codes = []
    for _ in range(4):
        square = [list(row) for row in zip(*square[::-1], strict=True)]
        for image in (square, [row[::-1] for row in square]):
            flat = [image[row][column] for row, column in EIGHT]
            codes.append(sum(kind << (2 * k) for k, kind in enumerate(flat)))
    return CLASS[min(codes)]


def levels_of(cells, colour, point, last, before, num_moves, size):
    """The level of each feature of a legal move; `cells` holds 0, or 1 or 2 for a stone, by (row, column)."""
    contact = {chain_at(at, cells)[0]: kind_of(at, cells) for at in beside(point, cells) if cells[at]}
    capture, escape, atari, extension = [0], [0], [0], [0]
    for chain, kind in contact.items():
        stone, several = next(iter(chain)), min(len(chain), 2)
        if cells[stone] == colour:
            if kind in (go_prior.LOST, go_prior.RUNS):
                escape.append({go_prior.LOST: 0, go_prior.RUNS: 2}[kind] + several)
            elif kind != go_prior.FREE:
                extension.append({go_prior.SHORT: 0, go_prior.LADDER: 2}[kind] + several)
        elif kind in (go_prior.LOST, go_prior.RUNS):
            kinds = [kind_of(next(iter(mine)), cells) for mine in chains_beside(chain, cells, colour)]
            saves = any(mine in (go_prior.LOST, go_prior.RUNS, go_prior.LADDER) for mine in kinds)
            capture.append((4 if saves else {go_prior.LOST: 0, go_prior.RUNS: 2}[kind]) + several)
        elif kind != go_prior.FREE:
            atari.append({go_prior.SHORT: 0, go_prior.LADDER: 2}[kind] + several)
    exposed = exposes(cells, point, colour)
    captures = any(cells[min(chain)] != colour and kind <= go_prior.RUNS for chain, kind in contact.items())
    group, free = chain_at(point, {**cells, point: colour})
    liberties = min(len(free), 3)
    corners = [(point[0] + i, point[1] + j) for i in (-1, 1) for j in (-1, 1)]
    enemies = sum(cells.get(at) == 3 - colour for at in corners) + any(at not in cells for at in corners)
    is_eye = all(cells[at] == colour for at in beside(point, cells)) and enemies < 2
    shape = 0 if not exposed else 1 if len(group) == 1 else 2 if makes_one_eye(group) else 3
    near = last is not None and max(abs(point[0] - last[0]), abs(point[1] - last[1])) == 1
    lines = tuple(sorted(min(at, size - 1 - at, 4) for at in point))
    return [
        class_of(cells, point, colour) + (0 if near else NUM_CLASSES),
        offset(point, last),
        offset(point, before),
        6 * PAIRS.index(lines) + min(81 * num_moves // (10 * size * size), 5),
        max(capture),
        0 if exposed else max(escape),
        max(atari) + 4 * (max(atari) > 0 and liberties < 2),
        max(extension) + 4 * (max(extension) > 0 and liberties < 3),
        shape,
        int(is_eye),
        min(liberties + captures, 3),
        *(KNOWN[k].get(pattern_of(cells, point, colour, last, k + 1), 0) for k in range(3)),
    ]


def glance(*position):
    places = weights.FIRST[:-1] + levels_of(*position)
    total = weights.VECTORS[places].astype(np.float64).sum(0)
    return math.exp(weights.THETA[places].astype(np.float64).sum() + 0.5 * total @ total)


@pytest.mark.parametrize(("size", "seed"), [(5, 1), (5, 3), (7, 3), (9, 5)])
def test_the_prior_is_what_a_glance_at_the_diagram_says(size, seed):
    game, rng = game_of(f"go:{size}"), random.Random(seed)
    state, points = game.initial_state(), [None, None]
    buffer, priors = game.new_buffer(), np.zeros(game.num_actions, np.float32)
    counters = [Counter() for _ in weights.FIRST[:-1]]
    for num_moves in range(6 * size):
        legal = np.array(game.legal_actions(state), np.int32)
        game.write(buffer, state)
        call = game.callbacks["prior"].from_python
        assert call(buffer.ctypes.data, legal.ctypes.data, len(legal), priors.ctypes.data) == 0
        cells = {divmod(at, size): int(kind) for at, kind in enumerate(stones(state).ravel())}
        total = eyes = 0.0
        for action in legal[:-1].tolist():
            position = (cells, 1 + game.to_play(state), divmod(action, size), points[-1], points[-2], num_moves, size)
            weight = glance(*position)
            assert priors[action] == pytest.approx(weight, rel=1e-4), (game.render(state), game.action_name(action))
            levels = levels_of(*position)
            if levels[go_prior.EYE]:
                eyes += weight
            else:
                total += weight
            for counter, level in zip(counters, levels, strict=True):
                counter[level] += 1
        after = game.play(state, int(legal[-1]))
        wins = game.is_over(after) and game.outcome(after) == 1 - 2 * game.to_play(state)
        share = go_prior.WINS if wins else go_prior.PASS
        assert priors[legal[-1]] == pytest.approx(share * total + eyes if len(legal) > 1 else 1.0, rel=1e-4)
        if len(legal) > 1 and rng.random() < 0.95:
            action = int(rng.choice(legal[:-1]))
            if rng.random() < 0.5:  # toward contact, where chains get short
                action = int(legal[np.argmax(priors[legal[:-1]])])
        else:
            action = int(legal[-1])
        state = game.play(state, action)
        points.append(divmod(action, size) if action < size * size else None)
        if game.is_over(state):
            break
    assert [len(counter) > 1 for counter in counters[4:13]] == [True] * 9


def board_of(game, diagram):
    return np.asarray(game.parse_state(diagram)).reshape(-1)[0]


# Black's stone on E5 is in atari; its ladder runs to the right edge, unless a black stone stands on the way.
@pytest.mark.parametrize(("ladder_breaker", "is_lost"), [("", True), ("G3", False)])
def test_a_ladder_is_read_to_its_end(ladder_breaker, is_lost):
    rows = {"E5": "X", "E6": "O", "D5": "O", "D4": "O", "F5": "O"} | ({ladder_breaker: "X"} if ladder_breaker else {})
    diagram = "\n".join("".join(rows.get(f"{letter}{row}", ".") for letter in "ABCDEFGHJ") for row in range(9, 0, -1))
    game = game_of("go:9")
    board = board_of(game, diagram)
    status = np.zeros(MAX_POINTS, np.uint8)
    go_prior.survey(board, status)
    assert status[point_of(game.parse_action("E5"), 9)] == (go_prior.LOST if is_lost else go_prior.RUNS)


def after_tactics(game, state, policy):
    buffer, weights = game.new_buffer(), policy.astype(np.float32)
    game.write(buffer, state)
    game.callbacks["tactics"].from_python(buffer.ctypes.data, weights.ctypes.data)
    return weights


def hopeless_extensions(cells, colour):
    """Points that extend a chain in atari, capture nothing, and are followed by a ladder of six ataris or more."""
    points = set()
    for at, kind in cells.items():
        liberties = chain_at(at, cells)[1] if kind == colour else ()
        if len(liberties) == 1 and not has_prey(at, cells):
            board, num_captured = after(cells, min(liberties), colour) or (cells, 1)
            if not num_captured and pursuit(at, board) >= 6:
                points |= liberties
    return points


def random_ladder(size, rng, most):
    """A diagram where a ladder begins somewhere, in some direction, among fewer than `most` stones at random."""
    row, column, step, side = rng.randrange(2, size - 3), rng.randrange(2, size - 3), *rng.choices((-1, 1), k=2)
    diagram = [["."] * size for _ in range(size)]
    for _ in range(rng.randrange(most)):
        at = rng.randrange(size), rng.randrange(size)
        if max(abs(at[0] - row), abs(at[1] - column)) > 2:
            diagram[at[0]][at[1]] = rng.choice("XO")
    for down, right, colour in [(0, 0, "X"), (-1, 0, "O"), (0, -1, "O"), (1, -1, "O"), (0, 1, "O")]:
        diagram[row + down * step][column + right * side] = colour
    return "\n".join("".join(line) for line in diagram)


def statuses_when_turned(game, lines):
    """How many chains of each status there are, in all eight images of a board."""
    turned = []
    for _ in range(4):
        lines = ["".join(column) for column in zip(*lines[::-1], strict=True)]
        for image in (lines, lines[::-1]):
            board, status = board_of(game, "\n".join(image)), np.zeros(MAX_POINTS, np.uint8)
            go_prior.survey(board, status)
            turned.append(Counter(status.tolist()))
    return turned


def test_a_chain_that_can_be_chased_both_ways_again_and_again_has_one_verdict():
    game, state = position({"O": "N13 F12 G7", "X": "K10"})
    lines = ["".join(".XO"[kind] for kind in row) for row in stones(state)]
    turned = statuses_when_turned(game, lines)
    assert turned == turned[:1] * 8 and turned[0][go_prior.LADDER] == 1  # of twelve ataris


@pytest.mark.parametrize("most", [12, 30])
def test_a_ladder_has_the_same_verdict_when_the_board_is_turned(most):
    """Of two ataris that both go on either may be the one that captures."""
    game, rng, statuses = game_of("go:13"), random.Random(most), Counter()
    for _ in range(200):
        lines = random_ladder(13, rng, most).split()
        turned = statuses_when_turned(game, lines)
        assert turned == turned[:1] * 8, "\n".join(lines)
        statuses += turned[0]
    assert len(statuses) == 6  # no chain, and all five


@pytest.mark.parametrize(("size", "least"), [(19, 8), (13, 8), (10, 4), (9, 0)])
def test_tactics_take_the_weight_from_extensions_into_long_ladders(size, least):
    game, rng, num_ruled_out = game_of(f"go:{size}"), random.Random(size), Counter()
    for _ in range(60):
        state = game.parse_state(random_ladder(size, rng, 12))
        cells = {divmod(at, size): int(kind) for at, kind in enumerate(stones(state).ravel())}
        points = hopeless_extensions(cells, 1 + game.to_play(state))
        policy = np.full(game.num_actions, 0.02)
        policy[-1] = 0.0  # the pass: rollouts would judge a likely one
        expected = policy.astype(np.float32)
        expected[[row * size + column for row, column in points] if size > 9 else []] = 0.0
        np.testing.assert_array_equal(after_tactics(game, state, policy), expected)
        num_ruled_out[bool(points) and size > 9] += 1
    assert num_ruled_out[True] >= least and num_ruled_out[False] >= least


def position(stones_by_colour, size=13):
    rows = {point: colour for colour, points in stones_by_colour.items() for point in points.split()}
    letters = "ABCDEFGHJKLMNOPQRST"[:size]
    game = game_of(f"go:{size}")
    lines = ["".join(rows.get(f"{letter}{row}", ".") for letter in letters) for row in range(size, 0, -1)]
    return game, game.parse_state("\n".join(lines))


LADDER = {"X": "E7", "O": "E8 D7 D6 F7"}
"""Black's stone is in atari; its ladder runs to the right edge."""


@pytest.mark.parametrize(
    ("stones_by_colour", "point", "share", "is_ruled_out"),
    [
        (LADDER, "E6", 0.5, True),
        (LADDER, "E6", 0.0009, False),  # not worth reading
        (LADDER | {"X": "E7 K3"}, "E6", 0.5, False),  # Black waits on the way
        # The capture of eight stones, from a chain that is caught all the same.
        ({"X": "B6 D7 E7 F7 G7 H7 J7 K7 L7 D5 E5 F5 G5 H5 J5 K5 L5 M6",
          "O": "B7 A6 B5 C7 C5 D6 E6 F6 G6 H6 J6 K6 L6"}, "C6", 0.5, False),
        ({"X": "C1", "O": "B1 F1 B2 C2 D2 E2 F2"}, "D1", 0.5, False),  # the vital point of an eye
        ({"X": "L7", "O": "L8 K7 K6 M7"}, "L6", 0.5, False),  # a short ladder
    ],
)  # fmt: skip
def test_only_long_ladders_are_ruled_out(stones_by_colour, point, share, is_ruled_out):
    game, state = position(stones_by_colour)
    policy = np.full(game.num_actions, (1 - share) / (game.num_actions - 2))
    policy[-1] = 0.0
    policy[game.parse_action(point)] = share
    expected = policy.astype(np.float32)
    if is_ruled_out:
        expected[game.parse_action(point)] = 0.0
    np.testing.assert_array_equal(after_tactics(game, state, policy), expected)


@pytest.mark.parametrize(("ladder_breaker", "is_hopeless"), [("", True), (" K3", False)])
def test_a_search_does_not_extend_into_a_long_ladder(ladder_breaker, is_hopeless):
    game, state = position(LADDER | {"X": "E7" + ladder_breaker})
    extension = game.parse_action("E6")

    class Runner:
        """Nine tenths of the policy for the extension; all values are 0."""

        def evaluate(self, states):
            policy = np.full((len(states), game.num_actions), 0.1 / 169, np.float32)
            policy[:, extension] = 0.9
            return Evaluation(np.zeros(len(states), np.float32), policy)

    def visits(**options):
        result = Search(game, puct(evaluator=Runner(), **options)).run(state, Limit(simulations=200))
        return {move.action: move.visits for move in result.moves}.get(extension, 0)

    assert visits() > 100  # an evaluator of one's own is believed
    assert (visits(tactics=True) < 20) == is_hopeless
    assert visits(tactics=True, endings=False) > 100


def test_networks_of_puct_and_memory_puct_have_tactics():
    tactics = {text: preset(text).tactics for text in (
        "puct", "puct(network='go9')", "puct(network='go9',tactics=false)", "memory_puct(network='go9')",
        "puct_rave(network='go9')", "uct_prior(network='go19-predictor')",
    )}  # fmt: skip
    assert list(tactics.values()) == [False, True, False, True, False, False]


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ("E5 E6 F6 D5 F5 D6", "D4"),  # hane at the head of two stones
        ("E4 E5 D5 A9 F5", "E6"),  # the way out of atari
        ("D4 D5 C5 A7 E5 A6", "D6"),  # the capture
    ],
)
def test_the_prior_favours_the_natural_move(moves, expected):
    game = game_of("go:9")
    state, priors = game.play_moves(moves), np.zeros(game.num_actions, np.float32)
    legal, buffer = np.array(game.legal_actions(state), np.int32), game.new_buffer()
    game.write(buffer, state)
    game.callbacks["prior"].from_python(buffer.ctypes.data, legal.ctypes.data, len(legal), priors.ctypes.data)
    assert game.action_name(int(np.argmax(priors))) == expected


@compiled
def play_out(address, state, rng, moves):
    return call_float(address, (state, rng, moves))


def test_a_rollout_answers_the_move_before_it():
    """Black has just put a stone into atari: White runs at once. Where nobody knows what was last, he seldom does."""
    game = game_of("go:9")
    played = game.play_moves("E4 E5 D5 A9 F5")
    shown = game.parse_state(game.render(played))
    runs = game.parse_action("E6")

    def first_moves(state):
        rng, counts = new_rng(3), Counter()
        for _ in range(100):
            buffer, moves = game.new_buffer(), np.zeros(2000, np.int32)
            game.write(buffer, state)
            moves[0] = 1999
            play_out(game.address("heavy_rollout_moves"), buffer.ctypes.data, rng.ctypes.data, moves.ctypes.data)
            counts[int(moves[1]) >> 1] += 1
        return counts

    assert first_moves(played)[runs] > 80 and first_moves(shown)[runs] < 30


def test_a_search_takes_the_game_s_prior_or_refuses():
    game = game_of("go:7")
    root = game.play_moves("D4 D5 C5 A7 E5")  # White's stone on D5 is in atari
    search = Search(game, "rave(rollout=heavy, prior=game)")
    moves = search.run(root, Limit(simulations=200), seed=1).moves
    assert max(moves, key=lambda move: move.prior).name == "D6"
    assert Search(game, "uct_prior(prior=game)").run(root, Limit(simulations=60), seed=1).simulations == 60
    texts = "puct(prior=game)", "puct"
    guided, plain = (Search(game, text).run(root, Limit(simulations=60), seed=1).moves for text in texts)
    assert len({move.prior for move in plain}) == 1 < len({move.prior for move in guided})
    with pytest.raises(InvalidParameter, match="tic_tac_toe has no prior of its own; leave prior='game' out"):
        Search("tic_tac_toe", "rave(prior=game)").run(game_of("tic_tac_toe").initial_state(), Limit(simulations=5))
    with pytest.raises(InvalidParameter, match="prior must be 'game' or a compiled function, not 'gme'"):
        preset("rave(prior=gme)")
