"""SameGame: a move takes n ≥ 2 neighbouring tiles of one colour for (n-2)² points, and the tiles above fall down.

One player. Empty columns close up to the left. The game ends when no two neighbours have the same colour; clearing the
board earns another 1,000 points. An action is the lowest cell of a group in its leftmost column: column·rows + height.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engram.errors import InvalidSpecification, InvalidState, check_whole
from engram.games.contract import functions_of
from engram.games.game import Game
from engram.games.record import note, nowhere
from engram.games.scene import EMPTY, Scene
from engram.native.jit import compiled
from engram.rng import GOLDEN, mix, new_rng, random_below

BONUS = 1000
MOST_SIDE, MOST_COLOURS = 20, 9
CELLS = MOST_SIDE**2
LETTERS = "abcdefghijklmnopqrst"
BOARDS = Path(__file__).with_name("same_game_boards.txt")
"""The 20 boards of the literature, 15 × 15 with five colours: one per line, row by row from the top."""

state_dtype = np.dtype(
    [
        ("cells", np.int8, (CELLS,)),  # colours from 1, column by column from the bottom; 0: empty
        ("rows", np.int64),
        ("columns", np.int64),
        ("colours", np.int64),
        ("left", np.int64),  # tiles
        ("score", np.int64),  # of the last move
    ]
)


@compiled(inline=True)
def _is_like_next(state, cell):
    """Whether the tile above or to the right of a tile has its colour."""
    colour = state.cells[cell]
    above, right = cell + 1, cell + state.rows
    if above % state.rows != 0 and state.cells[above] == colour:
        return True
    return right < state.rows * state.columns and state.cells[right] == colour


@compiled
def _fill(state, cell, marks, stack):
    """Marks the group of a tile in `marks`; returns its size."""
    rows, total = state.rows, state.rows * state.columns
    colour = state.cells[cell]
    marks[cell] = 1
    stack[0] = cell
    waiting = 1
    size = 0
    while waiting > 0:
        waiting -= 1
        at = stack[waiting]
        size += 1
        height = at % rows
        for neighbour, is_inside in (
            (at + 1, height + 1 < rows), (at - 1, height > 0), (at + rows, at + rows < total), (at - rows, at >= rows),
        ):  # fmt: skip
            if is_inside and state.cells[neighbour] == colour and marks[neighbour] == 0:
                marks[neighbour] = 1
                stack[waiting] = neighbour
                waiting += 1
    return size


@compiled
def _groups(state, tabu, actions):
    """Writes the actions of all groups whose colour is not `tabu` (0: no colour is); returns their number."""
    marks = np.zeros(CELLS, np.int8)
    stack = np.empty(CELLS, np.int64)
    count = 0
    for column in range(state.columns):
        for cell in range(column * state.rows, (column + 1) * state.rows):
            colour = state.cells[cell]
            if colour == 0:
                break
            if colour != tabu and marks[cell] == 0 and _is_like_next(state, cell):
                _fill(state, cell, marks, stack)
                actions[count] = cell
                count += 1
    return count


@compiled
def _take(state, action):
    """Removes a group, lets the tiles above fall, and closes empty columns."""
    marks = np.zeros(CELLS, np.int8)
    size = _fill(state, action, marks, np.empty(CELLS, np.int64))
    rows = state.rows
    target = 0
    for column in range(state.columns):
        height = 0
        for cell in range(column * rows, (column + 1) * rows):
            colour = state.cells[cell]
            state.cells[cell] = 0
            if colour != 0 and marks[cell] == 0:
                state.cells[target * rows + height] = colour
                height += 1
        if height > 0:
            target += 1
    state.left -= size
    state.score = (size - 2) ** 2 + (BONUS if state.left == 0 else 0)


@compiled
def _is_over(state):
    for column in range(state.columns):
        for cell in range(column * state.rows, (column + 1) * state.rows):
            if state.cells[cell] == 0:
                break
            if _is_like_next(state, cell):
                return False
    return True


def legal_actions(state, actions):
    return _groups(state, 0, actions)


def play(state, action):
    _take(state, action)
    return np.int64(_is_over(state))


def to_play(state):
    return np.int64(0)


def outcome(state):
    return 0.0


def reward(state):
    return np.float64(state.score)


def position_hash(state):
    word = GOLDEN
    for cell in range(state.rows * state.columns):
        word = mix(word ^ np.uint64(state.cells[cell]))
    return word


def copy(target, source):
    for cell in range(source.rows * source.columns):
        target.cells[cell] = source.cells[cell]
    target.rows, target.columns, target.colours = source.rows, source.columns, source.colours
    target.left, target.score = source.left, source.score
    return 0


@compiled(inline=True)
def _play_out(state, rng, tabu, moves, writes):
    actions = np.empty(CELLS, np.int32)
    room = np.int64(moves[0]) if writes else 0
    written = np.int64(0)
    total = 0.0
    while True:
        count = _groups(state, tabu, actions)
        if count == 0 and tabu != 0:
            count = _groups(state, 0, actions)
        if count == 0:
            if writes:
                moves[0] = written
            return total
        action = np.int64(actions[np.int64(random_below(rng, count))])
        if writes:
            written = note(moves, written, room, action, 0)
        _take(state, action)
        total += state.score


def rollout(state, rng):
    return _play_out(state, rng, 0, nowhere(), False)


def rollout_moves(state, rng, moves):
    return _play_out(state, rng, 0, moves, True)


@compiled(inline=True)
def _favourite(state):
    """The colour with the most tiles."""
    numbers = np.zeros(MOST_COLOURS + 1, np.int64)
    for cell in range(state.rows * state.columns):
        if state.cells[cell] != 0:
            numbers[state.cells[cell]] += 1
    return np.argmax(numbers)


def heavy_rollout(state, rng):
    """Plays uniformly, but leaves groups of the colour with the most tiles to grow until no other group is left.

    Source: "TabuColorRandom" of Schadd, Winands, van den Herik, Chaslot and Uiterwijk, "Single-player Monte-Carlo tree
    search", 2008.
    """
    return _play_out(state, rng, _favourite(state), nowhere(), False)


def heavy_rollout_moves(state, rng, moves):
    return _play_out(state, rng, _favourite(state), moves, True)


def same_game(position: int = 1, seed: int = 0, rows: int = 15, columns: int = 15, colours: int = 5) -> Game:
    """SameGame for one player: the 20 boards of the literature by number, or random boards by seed.

    Args:
      position: the number of a standard board, 1 to 20; these are 15 × 15 with 5 colours.
      seed: 0 for a standard board; else the seed of a board whose tiles have uniformly random colours.
      rows, columns: of a random board, 2 to 20. colours: 1 to 9.

    The bounds are 0 and the score if each colour were one group. Few games come close, so a search does better with
    `bounds=learnt`.

    Raises:
      InvalidSpecification: a number out of range, or a size without a seed.

    Source: the rules of Schadd et al., "Single-player Monte-Carlo tree search", 2008, and their successors, without
    points for remaining tiles; the standard boards of `acatai/SameGame`.
    """
    position, rows, columns, colours, seed = (
        check_whole(f"same_game: {name}", number, low, high, InvalidSpecification)
        for name, number, low, high in (
            ("position", position, 1, 20), ("rows", rows, 2, MOST_SIDE), ("columns", columns, 2, MOST_SIDE),
            ("colours", colours, 1, MOST_COLOURS), ("seed", seed, 0, 2**63 - 1),
        )
    )  # fmt: skip
    if seed == 0 and (rows, columns, colours) != (15, 15, 5):
        raise InvalidSpecification("same_game: standard boards are 15 × 15 with 5 colours; for others add seed=1")
    if seed == 0:
        colours_of_tiles = [int(colour) for colour in BOARDS.read_text("ascii").splitlines()[position - 1]]
    else:
        rng = new_rng(seed)
        colours_of_tiles = [1 + int(random_below(rng[0], colours)) for _ in range(rows * columns)]
    board = np.array(colours_of_tiles, np.int8)  # rows from the top
    tiles = np.reshape(board, (columns, rows))
    if not ((tiles[1:] == tiles[:-1]).any() or (tiles[:, 1:] == tiles[:, :-1]).any()):
        raise InvalidSpecification(f"same_game: the board of seed={seed} has no group to remove; take another seed")
    most = _highest_score(board, colours)
    state = _state(board, rows, columns, colours)
    name = "same_game" if position == 1 else f"same_game:position={position}"
    if seed != 0:
        name = f"same_game:seed={seed},rows={rows},columns={columns},colours={colours}"

    def parse(diagram: str) -> np.ndarray:
        return _parse(diagram, rows, columns, colours, most)

    def sound(state: np.ndarray) -> bool:
        twin = parse(_render(state))
        twin["score"] = state["score"]
        return bool(twin.tobytes() == state.tobytes() and int(state["score"]) >= 0)

    numbers = [str(row) for row in range(rows, 0, -1)]
    places = [[(rows - 1 - cell % rows) * columns + cell // rows] for cell in range(rows * columns)]
    return Game(
        name,
        state=state,
        num_actions=rows * columns,
        max_moves=rows * columns // 2,
        players=1,
        bounds=(0.0, float(most)),
        constants=("rows", "columns", "colours"),
        action_names=[f"{LETTERS[cell // rows]}{cell % rows + 1}" for cell in range(rows * columns)],
        render=_render,
        parse_state=parse,
        sound=sound,
        scene=Scene(
            "squares", rows, columns, _marks, places, LETTERS[:columns], numbers, "tiles", ("Player", "Nature"), _note
        ),
        **functions_of(globals()),
    )


def _highest_score(board: np.ndarray, colours: int) -> int:
    """The score of a board if each of its colours were one group."""
    return BONUS + sum(max(0, int((board == colour).sum()) - 2) ** 2 for colour in range(1, colours + 1))


def _state(board: np.ndarray, rows: int, columns: int, colours: int) -> np.ndarray:
    """The position of a board, rows from the top."""
    state = np.zeros((), state_dtype)
    state["cells"][: rows * columns] = board.reshape(rows, columns)[::-1].T.ravel()
    state["rows"], state["columns"], state["colours"] = rows, columns, colours
    state["left"] = np.count_nonzero(board)
    return state


def _rows(state: np.ndarray) -> np.ndarray:
    """The colours of a position, (rows, columns), row 0 on top."""
    rows, columns = int(state["rows"]), int(state["columns"])
    return np.asarray(state["cells"])[: rows * columns].reshape(columns, rows).T[::-1]


def _marks(state: np.ndarray) -> str:
    return "".join(str(colour) if colour else EMPTY for colour in _rows(state).ravel().tolist())


def _note(state: np.ndarray) -> str:
    left = int(state["left"])
    return f"{left} tile{'s' * (left != 1)} left, the last move scored {int(state['score']):,}"


def _render(state: np.ndarray) -> str:
    """Diagram with coordinates, colours from 1 and dots."""
    rows, columns = int(state["rows"]), int(state["columns"])
    marks = _marks(state)
    lines = [f"{rows - k:>2} {' '.join(marks[k * columns : (k + 1) * columns])}" for k in range(rows)]
    return "\n".join([*lines, "   " + " ".join(LETTERS[:columns])])


def _parse(diagram: str, rows: int, columns: int, colours: int, most: int) -> np.ndarray:
    """The position of a diagram: a row of colours and dots in each line, with or without coordinates."""
    words = [line.split()[-columns:] for line in diagram.splitlines() if line.strip()]
    words = [line for line in words if not "".join(line).isalpha()]
    kinds = {EMPTY, *map(str, range(1, colours + 1))}
    if len(words) != rows or any(len(line) != columns or not kinds.issuperset(line) for line in words):
        raise InvalidState(f"same_game: a diagram has {rows} rows of {columns} colours from 1 to {colours}, or dots")
    board = np.array([[0 if word == EMPTY else int(word) for word in line] for line in words], np.int8)
    filled = board > 0
    heights = filled.sum(axis=0)
    falls = (filled[:-1] & ~filled[1:]).any() or (heights[1:] > 0)[heights[:-1] == 0].any()
    if falls:
        raise InvalidState("same_game: the diagram has tiles with nothing below or to their left")
    if _highest_score(board, colours) > most:
        raise InvalidState("same_game: the diagram has more tiles of a colour than this game's bounds allow")
    return _state(board.ravel(), rows, columns, colours)
