"""Go against counts from the literature, another library, and slow rules written here on their own."""

import random
from itertools import product

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from sgfmill import boards

from engram.errors import IllegalAction, InvalidSpecification, InvalidState
from engram.games.go.board import MAX_MOVES, point_of
from engram.games.go.rollout import _turn, list_empty
from engram.games.go.rules import go, stones
from engram.native.intrinsics import call, call_float
from engram.rng import new_rng, random_below, random_word

GAMES = {}


def game_of(size, komi=0.5, move_limit=None):
    key = size, komi, move_limit
    if key not in GAMES:
        GAMES[key] = go(size, komi, move_limit)
    return GAMES[key]


@numba.njit
def _random_games(legal_actions, play, state, start, rng, actions, moves, legal, colours):
    """One random game through the addresses: moves, the legal set before and the stones after each."""
    state[0] = start[0]
    width = np.int64(state[0].width)
    address = state.ctypes.data
    count = 0
    while True:
        num_legal = call(legal_actions, (address, actions.ctypes.data))
        if num_legal == 0:
            return count
        for index in range(num_legal):
            legal[count, actions[index]] = True
        # Passes are rare, so that games go on into captures and repetitions.
        if num_legal > 1 and random_below(rng[0], 100) != 0:
            num_legal -= 1
        action = np.int64(actions[random_below(rng[0], num_legal)])
        call(play, (address, action))
        moves[count] = action
        for row in range(width):
            for column in range(width):
                colours[count, row * width + column] = state[0].chain[(row + 1) * (width + 1) + column + 1] & 3
        count += 1


def random_game(game, rng, start=None):
    """(moves, legal sets before each move, stones after each move, final state)."""
    start = game.initial_state() if start is None else start
    state = start.copy().reshape(1)
    size = game.planes_shape[1]
    limit = game.max_moves
    moves = np.zeros(limit, np.int32)
    legal = np.zeros((limit, game.num_actions), np.bool_)
    colours = np.zeros((limit, size * size), np.int8)
    count = _random_games(
        game.address("legal_actions"),
        game.address("play"),
        state,
        start.reshape(1),
        rng,
        np.zeros(game.num_actions, np.int32),
        moves,
        legal,
        colours,
    )
    return moves[:count].tolist(), legal[:count], colours[:count], state.reshape(())


# ------------------------------------------------------------------------------ slow rules


class SlowGo:
    """The rules again, on a plain list, with every earlier board kept whole."""

    def __init__(self, size, board=None, colour=1):
        self.size = size
        self.board = board or (0,) * (size * size)
        self.colour = colour
        self.before = {self.board: 0}
        self.moves = 0
        self.ko = None

    def neighbours(self, point):
        row, column = divmod(point, self.size)
        steps = ((row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column))
        return [r * self.size + c for r, c in steps if 0 <= r < self.size and 0 <= c < self.size]

    def chain(self, board, point):
        chain, border, queue = {point}, set(), [point]
        while queue:
            for other in self.neighbours(queue.pop()):
                if board[other] != board[point]:
                    border.add(other)
                elif other not in chain:
                    chain.add(other)
                    queue.append(other)
        return chain, border

    def has_liberty(self, board, point):
        return any(board[other] == 0 for other in self.chain(board, point)[1])

    def after(self, point):
        """The board after a move, None where it is suicide or the point is taken; superko not asked."""
        if self.board[point]:
            return None
        board = list(self.board)
        board[point] = self.colour
        for other in self.neighbours(point):
            if board[other] == 3 - self.colour and not self.has_liberty(board, other):
                for stone in self.chain(board, other)[0]:
                    board[stone] = 0
        return tuple(board) if self.has_liberty(board, point) else None

    def legal(self):
        boards_after = {point: self.after(point) for point in range(self.size**2)}
        possible = {point for point, board in boards_after.items() if board is not None}
        repeated = {point for point in possible if boards_after[point] in self.before}
        return possible - repeated, repeated

    def play(self, point):
        """Plays a legal move; `ko` is then the point of a lone stone taken by a lone stone in its one liberty."""
        self.ko = None
        if point < self.size**2:
            before, self.board = self.board, self.after(point)
            prisoners = [other for other, cell in enumerate(before) if cell and not self.board[other]]
            members, border = self.chain(self.board, point)
            if len(prisoners) == len(members) == 1 and [near for near in border if not self.board[near]] == prisoners:
                self.ko = prisoners[0]
            self.before[self.board] = self.moves + 1
        self.moves += 1
        self.colour = 3 - self.colour

    def area(self, board=None):
        board = self.board if board is None else board
        total = board.count(1) - board.count(2)
        done = set()
        for point, cell in enumerate(board):
            if cell == 0 and point not in done:
                region, border = self.chain(board, point)
                done |= region
                owners = {board[other] for other in border}
                total += len(region) * ((owners == {1}) - (owners == {2}))
        return total


# ------------------------------------------------------------------------------ counts of positions


def positions(size):
    """All boards whose diagram the game reads."""
    game = game_of(size)
    grids = set()
    for cells in product((0, 1, 2), repeat=size * size):
        text = "".join(".XO"[cell] for cell in cells)
        diagram = "\n".join(text[row * size : (row + 1) * size] for row in range(size))
        try:
            state = game.parse_state(diagram)
        except InvalidState:
            continue
        assert stones(state).reshape(-1).tolist() == list(cells)
        grids.add(cells)
    return grids


@pytest.mark.parametrize("size, count", [(2, 57), (3, 12675)])
def test_number_of_legal_positions(size, count):
    """Tromp and Farnebäck, "Combinatorics of Go", 2006, table of L(n, n)."""
    legal = positions(size)
    assert len(legal) == count
    reached = set()
    rng = new_rng(size)
    for _ in range(400):
        _, _, colours, _ = random_game(game_of(size, move_limit=60), rng)
        reached.update(map(tuple, colours.tolist()))
    assert reached <= legal
    assert len(reached) > (40 if size == 2 else 3000)


# ------------------------------------------------------------------------------ another library


@pytest.mark.parametrize(
    "size, games",
    [(2, 3000), (3, 3000), (4, 1500), (5, 1200), (6, 600), (7, 450), (8, 200), (9, 120), (13, 40), (19, 12)],
)
def test_agrees_with_sgfmill(size, games):
    game = game_of(size)
    rng = new_rng(100 + size)
    code = {None: 0, "b": 1, "w": 2}
    for _ in range(games):
        moves, _, colours, state = random_game(game, rng)
        board = boards.Board(size)
        for number, action in enumerate(moves):
            if action < size * size:
                row, column = divmod(action, size)
                board.play(size - 1 - row, column, "bw"[number % 2])
            cells = [code[cell] for line in reversed(board.board) for cell in line]
            assert cells == colours[number].tolist(), (moves[: number + 1], game.render(state))
        margin = board.area_score() - 0.5
        assert game.outcome(state) == (1.0 if margin > 0 else -1.0)
        assert SlowGo(size).area(tuple(colours[-1].tolist())) == board.area_score()


def test_the_library_sees_ten_thousand_games():
    marks = test_agrees_with_sgfmill.pytestmark[0].args[1]
    assert sum(games for _, games in marks) >= 10_000


# ------------------------------------------------------------------------------ superko


@pytest.mark.parametrize(
    "size, games, limit, least", [(2, 300, 60, 300), (3, 120, 400, 300), (4, 20, 1000, 100), (5, 10, 1800, 30)]
)
def test_superko_and_suicide_against_slow_rule(size, games, limit, least):
    game = game_of(size, move_limit=limit)
    rng = new_rng(200 + size)
    repetitions = 0
    for _ in range(games):
        moves, legal, colours, _ = random_game(game, rng)
        slow = SlowGo(size)
        for number, action in enumerate(moves):
            allowed, repeated = slow.legal()
            # Simple ko would forbid only what lay there one move ago.
            repetitions += sum(slow.moves + 1 - slow.before[slow.after(point)] > 2 for point in repeated)
            assert set(np.flatnonzero(legal[number]).tolist()) == allowed | {size * size}, (number, moves)
            slow.play(action)
            assert slow.board == tuple(colours[number].tolist())
    assert repetitions > least, "the games never came near a repetition, so nothing was tested"


def test_superko_forbids_sending_two_returning_one():
    game = game_of(5)
    state = game.parse_state("""
        . X . X .
        O O X X .
        . . O . .
        . . . . .
        . . . . .
        X to play
    """)
    position = game.play_moves("A5 C5", state)
    assert stones(position)[0].tolist() == [0, 0, 2, 1, 0]
    assert int(position["ko"]) == 0, "two stones were taken, which simple ko does not mind"
    assert "B5" not in names(game, position)
    assert "A5" in names(game, position)
    assert "B5" in names(game, game.play_moves("E1 A1", position))


def test_superko_ends_every_game_without_passes():
    for size, seed in product((2, 3), range(5)):
        game, generator = game_of(size, move_limit=MAX_MOVES), random.Random(seed)
        state = game.initial_state()
        for _ in range(MAX_MOVES):
            legal = [action for action in game.legal_actions(state) if action < size * size]
            if not legal:
                break
            state = game.play(state, generator.choice(legal))
        assert not legal
        assert int(state["num_past"]) == int(state["num_moves"]) + 1
        past = state["past"].reshape(-1)[: int(state["num_past"])].tolist()
        assert len(set(past)) == len(past)


def test_pass_repeats_nothing():
    game = game_of(3)
    state = game.play_moves("pass B2 pass A1")
    assert not game.is_over(state)
    assert game.to_play(state) == 0


# ------------------------------------------------------------------------------ diagrams


def names(game, state):
    return [game.action_name(action) for action in game.legal_actions(state)]


KO = """
5 . . . . .
4 . X O . .
3 X O . O .
2 . X O . .
1 . . . . .
"""


def test_ko():
    game = game_of(5)
    state = game.play_moves("C3", game.parse_state(KO))
    assert game.render(state).splitlines()[3] == " 3 X . X O . 3"
    assert "B3" not in names(game, state)
    elsewhere = game.play_moves("A1 E1", state)
    assert "B3" in names(game, elsewhere)
    retaken = game.play_moves("B3", elsewhere)
    assert game.render(retaken).splitlines()[3] == " 3 X O . O . 3"
    assert "C3" not in names(game, retaken)


def test_ko_is_part_of_the_hash_only_while_it_forbids():
    game = game_of(5)
    position = game.play_moves("C3", game.parse_state(KO))
    same_stones = game.parse_state(game.render(position))
    assert game.to_play(same_stones) == game.to_play(position) == 1
    assert game.hash(same_stones) != game.hash(position)
    assert game.hash(game.play_moves("A1 E1", position)) == game.hash(game.play_moves("A1 E1", same_stones))


def test_snapback():
    """Taking one stone lays the taker's two bare: they may be taken at once, two for one is no ko."""
    game = game_of(5)
    snap = game.parse_state("""
        . . . . .
        . O O X .
        O X . O X
        . O O X .
        . . . . .
    """)
    thrown = game.play_moves("C3", snap)
    assert stones(thrown)[2].tolist() == [2, 1, 1, 0, 1]
    back = game.play_moves("D3", thrown)
    assert stones(back)[2].tolist() == [2, 0, 0, 2, 1]
    assert "C3" in names(game, back), "two stones were taken: taking the one back repeats nothing"


def test_suicide_of_one_and_of_many():
    game = game_of(4)
    state = game.parse_state("""
        . X . .
        X . X O
        . X . X
        . . X .
        O to play
    """)
    legal = names(game, state)
    assert "A4" not in legal and "B3" not in legal
    many = game.parse_state("""
        . O O X
        O O X .
        X X . .
        . . . .
        O to play
    """)
    assert "A4" not in names(game, many)
    assert "A4" in names(game, game.parse_state(game.render(many).replace("O to play", "X to play")))
    position = game.play_moves("A4", game.parse_state(game.render(many).replace("O to play", "X to play")))
    assert (stones(position) == 2).sum() == 0 and (stones(position) == 1).sum() == 5


def test_one_move_takes_four_chains():
    game = game_of(5)
    state = game.parse_state("""
        . . X . .
        . X O X .
        X O . O X
        . X O X .
        . . X . .
    """)
    after = game.play_moves("C3", state)
    assert (stones(after) == 2).sum() == 0
    assert (stones(after) == 1).sum() == 9
    assert len(game.legal_actions(after)) == 13, "the four points just emptied are suicide for White"
    assert game.outcome(game.play_moves("pass pass", after)) == 1.0


def test_two_passes_end_the_game():
    game = game_of(3)
    state = game.play_moves("pass")
    assert not game.is_over(state)
    state = game.play_moves("B2 pass", state)
    assert not game.is_over(state)
    state = game.play_moves("pass", state)
    assert game.is_over(state)
    assert game.legal_actions(state) == []
    with pytest.raises(IllegalAction):
        game.play(state, 0)


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_move_limit(limit):
    game = game_of(3, move_limit=limit)
    state = game.initial_state()
    for number in range(limit):
        assert not game.is_over(state)
        assert int(state["num_moves"]) == number
        state = game.play(state, game.legal_actions(state)[0])
    assert game.is_over(state)
    assert game.outcome(state) in (-1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    "rows, area",
    [
        (("...", "...", "..."), 0),
        (("...", ".X.", "..."), 9),
        (("X..", "...", "..O"), 0),
        (("XX.", "OX.", ".OX"), 3),
        ((".XO", "XX.", ".XO"), 4),
        ((".O.", "OOO", ".O."), -9),
        (("X.O", "X.O", "X.O"), 0),
    ],
)
@pytest.mark.parametrize("komi", [-3, 0, 3, 6.5])
def test_area_scoring_with_komi(rows, area, komi):
    game = game_of(3, komi)
    state = game.play_moves("pass pass", game.parse_state("\n".join(rows)))
    assert SlowGo(3).area(tuple(".XO".index(mark) for mark in "".join(rows))) == area
    assert game.outcome(state) == np.sign(area - komi)
    assert game.outcome(state, player=1) == -np.sign(area - komi)


# ------------------------------------------------------------------------------ text


def test_action_names():
    game = game_of(9)
    assert game.action_name(0) == "A9" and game.action_name(80) == "J1" and game.action_name(81) == "pass"
    assert game.parse_action("d4") == 5 * 9 + 3
    assert game.parse_action("PASS") == 81
    assert all(not name.startswith("I") for name in map(game.action_name, range(82)))
    assert [game.parse_action(game.action_name(action)) for action in range(82)] == list(range(82))
    assert game_of(25).action_name(624) == "Z1"
    with pytest.raises(IllegalAction):
        game.parse_action("I4")


@pytest.mark.parametrize("size", [2, 5, 10, 23, 25])
def test_diagram_round_trip(size):
    game = game_of(size, move_limit=2 * size * size - 1)
    _, _, colours, state = random_game(game, new_rng(size))
    state["passes"] = 0
    read = game.parse_state(game.render(state).replace("the game is over", "O to play"))
    assert stones(read).reshape(-1).tolist() == colours[-1].tolist()
    assert int(read["key"]) == int(state["key"]) and int(read["balance"]) == int(state["balance"])
    assert game.render(game.parse_state(game.render(read))) == game.render(read)


def test_a_diagram_keeps_the_passes_that_it_shows():
    game = go(5, 0)
    passed = game.play_moves("C3 pass")
    again = game.parse_state(game.render(passed))
    assert game.is_over(game.play(again, "pass")) and not game.is_over(again)
    assert game.is_over(game.parse_state(game.render(game.play(passed, "pass"))))


def test_what_a_diagram_must_be():
    game = game_of(3)
    with pytest.raises(InvalidState, match="3 lines of 3"):
        game.parse_state("X.\n..")
    with pytest.raises(InvalidState, match="without liberty"):
        game.parse_state("XO.\nO..\n...")
    with pytest.raises(InvalidState, match="without liberty"):
        game.parse_state("XXX\nXXX\nXXX")


@pytest.mark.parametrize(
    "arguments",
    [{"size": 1}, {"size": 26}, {"size": True}, {"size": 9, "komi": 0.3}, {"size": 9, "komi": float("nan")}],
)
def test_numbers_out_of_range(arguments):
    with pytest.raises(InvalidSpecification):
        go(**arguments)


@pytest.mark.parametrize("limit", [0, MAX_MOVES + 1])
def test_move_limit_out_of_range(limit):
    with pytest.raises(InvalidSpecification):
        go(9, move_limit=limit)


# ------------------------------------------------------------------------------ the record


def splitmix(word):
    mask = (1 << 64) - 1
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & mask
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & mask
    return word ^ (word >> 31)


def key_of(board, size):
    key = 0
    for action, cell in enumerate(board):
        if cell:
            point = (action // size + 1) * (size + 1) + action % size + 1
            index = point * 4 + (cell - 1) + 1
            key ^= splitmix((0x60B0A7D5EED50001 + 0x9E3779B97F4A7C15 * index) % (1 << 64))
    return key


def check_record(state, slow, history):
    """Every incremental field of the record against its definition."""
    size = slow.size
    board = slow.board
    points = [(action // size + 1) * (size + 1) + action % size + 1 for action in range(size * size)]
    action_of = {point: action for action, point in enumerate(points)}
    chain = state["chain"].reshape(-1)
    used = (size + 1) * (size + 2) + 1
    assert all(chain[point] == 3 for point in range(used) if point not in action_of)
    for action, point in enumerate(points):
        word = int(chain[point])
        assert word & 3 == board[action]
        if board[action]:
            members, _ = slow.chain(board, action)
            head = word >> 2
            assert {int(chain[points[other]]) for other in members} == {word}
            assert action_of[head] in members
            liberties = sum(board[near] == 0 for other in members for near in slow.neighbours(other))
            assert int(state["liberties"].reshape(-1)[head]) == liberties
            ring, stone = set(), head
            for _ in members:
                ring.add(action_of[stone])
                stone = int(state["following"].reshape(-1)[stone])
            assert ring == members and stone == head
    assert int(state["ko"]) == (0 if slow.ko is None else points[slow.ko])
    assert int(state["balance"]) == board.count(1) - board.count(2)
    keys = [key_of(earlier, size) for earlier in history]
    assert state["past"].reshape(-1)[: int(state["num_past"])].tolist() == keys
    assert int(state["key"]) == keys[-1]
    words = state["seen"].reshape(-1).tolist()
    assert sum(word.bit_count() for word in words) == len({key & 4095 for key in keys})
    assert all(words[key >> 6 & 63] >> (key & 63) & 1 for key in keys)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 7), st.lists(st.integers(0, 10_000), max_size=70))
def test_incremental_record_equals_recomputation(size, choices):
    game, slow = game_of(size), SlowGo(size)
    state = game.initial_state()
    history = [slow.board]
    for choice in choices:
        legal = game.legal_actions(state)
        if not legal:
            break
        action = legal[choice % len(legal)]
        state = game.play(state, action)
        slow.play(action)
        if action < size * size:
            history.append(slow.board)
    check_record(state, slow, history)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.lists(st.integers(0, 10_000), max_size=60))
def test_hash_tells_stones_side_passes_and_ko(size, choices):
    game = game_of(size)
    state = game.initial_state()
    entries = {}
    for choice in choices:
        what = (stones(state).tobytes(), int(state["colour"]), int(state["passes"]), int(state["ko"]))
        assert entries.setdefault(game.hash(state), what) == what
        legal = game.legal_actions(state)
        if not legal:
            break
        state = game.play(state, legal[choice % len(legal)])
    assert len(set(entries.values())) == len(entries)


def test_hash_tells_passes():
    game = game_of(3)
    states = [game.play_moves(moves) for moves in ("", "pass", "pass pass", "B2", "B2 pass", "B2 pass pass")]
    states += [game.parse_state(game.render(states[3])), game.parse_state("...\n.X.\n...\nX to play")]
    hashes = list(map(game.hash, states))
    assert hashes[3] == hashes[6]
    assert len(set(hashes)) == 7


@numba.njit
def _call_two(address, first, other):
    call(address, (first.ctypes.data, other.ctypes.data))


@pytest.mark.parametrize("size", [2, 5, 9, 19])
def test_copy_onto_another_game_plays_on_alike(size):
    """The target held a longer game of another size: nothing of it may shine through."""
    rng = new_rng(size)
    game = game_of(size)
    source = random_game(game_of(size, move_limit=size * size), rng)[3]
    source["move_limit"] = 3 * size * size
    target = random_game(game_of(7), rng)[3].reshape(1)
    target["listed"] = 65535
    _call_two(game.address("copy"), target, source.reshape(1))
    target = target.reshape(())
    for field in target.dtype.names:
        used = {"past": int(source["num_past"]), "listed": 0}.get(field, (size + 1) * (size + 2) + 1)
        assert (target[field].reshape(-1)[:used] == source[field].reshape(-1)[:used]).all(), field
    assert game.hash(target) == game.hash(source)
    first, other = (random_game(game, new_rng(3), state) for state in (source, target))
    assert first[0] == other[0]
    assert (first[1] == other[1]).all() and (first[2] == other[2]).all()
    assert rollout(game, source, new_rng(4))[0] == rollout(game, target, new_rng(4))[0]


def test_encode():
    game = game_of(5)
    state = game.play_moves("C3", game.parse_state(KO))
    planes = np.full((4, 5, 5), 7, np.float32)
    _call_two(game.address("encode"), state.reshape(1), planes)
    assert (planes[0] == (stones(state) == 2)).all()
    assert (planes[1] == (stones(state) == 1)).all()
    assert planes[2].sum() == 1 and planes[2, 2, 1] == 1
    assert (planes[3] == 1).all()


# ------------------------------------------------------------------------------ rollouts


@numba.njit
def _one_rollout(address, state, rng):
    return call_float(address, (state.ctypes.data, rng.ctypes.data))


def rollout(game, state, rng):
    """(value, final state) of a rollout."""
    end = state.copy().reshape(1)
    return _one_rollout(game.address("rollout"), end, rng), end.reshape(())


@pytest.mark.parametrize("size, komi", [(2, 2), (3, 3.5), (4, 0), (5, 1), (9, 7.5), (13, 0.5), (19, 0.5), (25, 0.5)])
def test_rollout_value_is_the_score_of_its_last_position(size, komi):
    rng = new_rng(size)
    game = game_of(size, komi)
    slow = SlowGo(size)
    for number in range(max(6, 400 // size**2 * 10)):
        before = random_game(game_of(size, komi, 1 + number * 7 % (2 * size * size)), rng)[3]
        before["move_limit"] = 3 * size * size
        before["passes"] = number % 2
        value, end = rollout(game, before, rng)
        board = tuple(stones(end).reshape(-1).tolist())
        assert value == np.sign(slow.area(board) - komi)
        assert value == game.outcome(end) and game.is_over(end)
        assert int(end["num_moves"]) <= int(before["num_moves"]) + 3 * size * size
        assert (int(end["num_moves"]) - int(before["num_moves"])) % 2 == int(before["colour"]) ^ int(end["colour"])
        for point, cell in enumerate(board):
            assert cell == 0 or slow.has_liberty(board, point)


def test_rollout_of_a_finished_game_plays_nothing():
    game = game_of(5)
    over = game.play_moves("C3 pass pass")
    value, end = rollout(game, over, new_rng(1))
    assert value == 1.0 and (stones(end) == stones(over)).all()


def test_rollout_counts_the_pass_before_it():
    """Both sides can only pass here: the second pass in a row is the last move."""
    game = game_of(3)
    for side, value in (("X", 1.0), ("O", 1.0)):
        state = game.parse_state(f".X.\nXXX\nX.X\n{side} to play")
        for before, moves in ((state, 2), (game.play_moves("pass", state), 1)):
            result, end = rollout(game, before, new_rng(1))
            assert int(end["num_moves"]) - int(before["num_moves"]) == moves
            assert result == value


def test_rollout_starts_under_the_ko_of_its_position():
    """The ban changes what the first draw can be, so the same seeds give other games without it."""
    game = game_of(5)
    banned = game.play_moves("C3", game.parse_state(KO))
    free = game.parse_state(game.render(banned))
    assert int(banned["ko"]) != 0 and int(free["ko"]) == 0
    ends = [[stones(rollout(game, state, new_rng(seed))[1]).tolist() for seed in range(60)] for state in (banned, free)]
    assert ends[0] != ends[1]


def eye_of(slow, point, colour):
    """An own eye by its definition in words."""
    if any(slow.board[other] != colour for other in slow.neighbours(point)):
        return False
    row, column = divmod(point, slow.size)
    corners = [(row + r, column + c) for r in (-1, 1) for c in (-1, 1)]
    inside = [r * slow.size + c for r, c in corners if 0 <= r < slow.size and 0 <= c < slow.size]
    enemies = sum(slow.board[other] == 3 - colour for other in inside)
    return enemies < (2 if len(inside) == 4 else 1)


def playable(slow):
    """What a rollout may choose from."""
    points = [point for point in range(slow.size**2) if slow.after(point) is not None and point != slow.ko]
    return [point for point in points if not eye_of(slow, point, slow.colour)]


@numba.njit
def _first_moves(start, state, rng, counts, kos):
    for _ in range(200_000):
        state[0] = start[0]
        board = state[0]
        stride = board.width + np.uint64(1)
        empty = list_empty(board, stride)
        draw = random_word(rng[0]) >> np.uint64(32)
        a = random_word(rng[0])
        b = random_word(rng[0])
        gain, _, ko, _, _, _, _ = _turn(board, board.colour, stride, empty, board.ko, draw, a, b)
        if gain == 0:
            counts[0] += 1
            continue
        for point in range(counts.shape[0]):
            if board.chain[point] != start[0].chain[point] and start[0].chain[point] == 0:
                counts[point] += 1
                kos[point] = ko


FIRST = {
    "eyes, a false eye, suicides": """
        . X . X O .
        X X X . X O
        . X . X O O
        X X X O O .
        O . X . O O
        . O O O . .
        X to play""",
    "single stones to take, one of them in a ko": """
        . X O . . .
        X O . O X .
        . X O . O X
        . . . . X .
        . . . . . .
        O X . . . .
        X to play""",
    "a quiet middle": """
        . . . . . .
        . X O . . .
        . . O X . .
        . X . . O .
        . . . . . .
        . . . . . .
        O to play""",
}


@pytest.mark.parametrize("name", FIRST)
def test_rollouts_choose_uniformly(name):
    game = game_of(6)
    state = game.parse_state(FIRST[name])
    check_uniform(game, state, None)


def test_rollouts_choose_uniformly_under_ko():
    game = game_of(5)
    check_uniform(game, game.play_moves("C3", game.parse_state(KO)), 11)


def check_uniform(game, state, ko):
    size = game.planes_shape[1]
    slow = SlowGo(size, tuple(stones(state).reshape(-1).tolist()), int(state["colour"]) + 1)
    slow.ko = ko
    expected = playable(slow)
    counts = np.zeros((size + 1) * (size + 2) + 2, np.int64)
    kos = np.zeros_like(counts)
    _first_moves(state.reshape(1), state.copy().reshape(1), new_rng(7), counts, kos)
    points = [point_of(action, size) for action in expected]
    assert counts.sum() == 200_000
    assert set(np.flatnonzero(counts).tolist()) == set(points)
    assert chisquare(counts[points]).pvalue > 1e-4
    for action, point in zip(expected, points, strict=True):
        after = SlowGo(size, slow.board, slow.colour)
        after.play(action)
        assert kos[point] == (0 if after.ko is None else point_of(after.ko, size))


def slow_rollout(size, generator):
    slow = SlowGo(size)
    passes = moves = 0
    while passes < 2 and moves < 3 * size * size:
        choices = playable(slow)
        passes = 0 if choices else passes + 1
        slow.play(generator.choice(choices) if choices else size * size)
        moves += 1
    return slow.area(), moves


def test_rollouts_are_those_of_the_slow_rule_on_average():
    size, games = 4, 600
    generator = random.Random(11)
    slow = np.array([slow_rollout(size, generator) for _ in range(games)])
    game, rng = game_of(size), new_rng(12)
    ends = [rollout(game, game.initial_state(), rng)[1] for _ in range(20 * games)]
    fast = np.array(
        [(SlowGo(size).area(tuple(stones(end).reshape(-1).tolist())), int(end["num_moves"])) for end in ends]
    )
    error = (slow.var(axis=0) / len(slow) + fast.var(axis=0) / len(fast)) ** 0.5
    assert (abs(slow.mean(axis=0) - fast.mean(axis=0)) < 4 * error).all(), (slow.mean(axis=0), fast.mean(axis=0))
    assert abs(slow.std(axis=0) / fast.std(axis=0) - 1).max() < 0.15


def test_rollouts_repeat_with_their_seed():
    game = game_of(9)
    first, other, third = (
        [rollout(game, game.initial_state(), rng)[1]["num_moves"] for _ in range(20)]
        for rng in (new_rng(5), new_rng(5), new_rng(6))
    )
    assert first == other != third
