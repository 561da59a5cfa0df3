"""What a user's function gets wrong for the compiler, in one sentence with file and line and the remedy."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba import int64

from engram.errors import CompileError
from engram.native.jit import Callback, compiled

MOVES = [1, 2, 3]
COUNTS = np.zeros(3, np.int64)
WEIGHTS = {1: 0.5}
record = numba.from_dtype(np.dtype([("left", np.int64), ("cell", np.int64, (9,))]))


def helper(x):
    return x + 1


def plain_helper(state, action):
    return helper(action)


def a_list(state, action):
    return [action]


def a_global_list(state, action):
    return MOVES[action]


def a_global_dict(state, action):
    return WEIGHTS[action]


def a_text(state, action):
    return "first"


def half(state, action):
    if action < 3:
        return 0
    return action / 2


def nothing(state, action):
    if action > 3:
        return 1


def recursive(state, action):
    return recursive(state, action - 1)


def catching(state, action):
    try:
        return action // state.left
    except ZeroDivisionError:
        return 0


def too_few(state):
    return 0


def float_index(state, action):
    return state.cell[action / 2]


def three_indices(state, action):
    planes = np.zeros(4, np.float32)
    planes[0, 0, action] = 1.0
    return 0


def a_field(state, action):
    return state.lift


def a_name(state, action):
    return actoin  # noqa: F821


def two_kinds(state, action):
    number = 1
    if action > 2:
        number = "two"
    return number


def an_import(state, action):
    import math

    return math.sqrt(action)


def sorting(state, action):
    return np.lexsort((state.cell,))[0]


def writing(state, action):
    COUNTS[0] += 1
    return 0


def an_entry(state, action):
    return state.left[0]


def a_number(state, action):
    return int("1")


@compiled
def sum_of(first, second):
    return first + second


def too_few_for_a_helper(state, action):
    return sum_of(action)


def yielding(state, action):
    yield action
    return 0


def an_enclosed_list():
    order = [0, 1]

    def enclosed(state, action):
        return order[action]

    return enclosed


# fmt: off
def first_line(state, action): return 1
def text_below(state, action): return "text"
# fmt: on


@pytest.mark.parametrize(
    ("function", "offset", "sentence"),
    [
        (plain_helper, 1, "helper is a plain Python function: write @compiled above it"),
        (a_list, 1, "it must return a number, and here it returns a list"),
        (a_global_list, 1, "compiled code cannot read a list or set of the module: make MOVES a tuple or an array"),
        (a_global_dict, 1, "compiled code cannot read WEIGHTS (a dict): use numbers, tuples and NumPy arrays"),
        (a_text, 1, "it must return a number, and here it returns a text"),
        (half, 3, "it must return a whole number, and here it returns a float: use //, or"),
        (nothing, 1, "it must return a number on every path, and on one path it returns nothing"),
        (recursive, 1, "compiled code does not call itself: use a loop"),
        (catching, 3, "compiled code cannot tell exceptions apart: test with `if` before"),
        (too_few, 0, "it takes 1 arguments, but is called with 2"),
        (writing, 1, "compiled code cannot write to an array of the module: keep it in the state's record or in a"),
        (an_entry, 1, "a whole number has no entries"),
        (a_number, 1, "compiled code cannot make a number from a text"),
        (too_few_for_a_helper, 1, "a call here does not fit (first, second): missing a required argument: 'second'"),
        (yielding, 0, "it must return a number, and a function that yields has none"),
        (float_index, 1, "an index is a float: / gives one, and so does a variable that takes int64 and uint64"),
        (three_indices, 2, "an array of one dimension takes one index"),
        (a_field, 1, "a record has no field 'lift'; did you mean 'left'?"),
        (a_name, 1, "actoin is not defined"),
        (two_kinds, 4, "number is a whole number in one place and a text in another"),
        (an_import, 1, "an import belongs to the top of the file"),
        (sorting, 1, "Numba does not compile numpy.lexsort: write a loop"),
        (an_enclosed_list(), 1, "compiled code cannot read a list or set from outside the function: make it a tuple"),
        (text_below, 0, "it must return a number, and here it returns a text"),
    ],
)
def test_an_error_of_the_compiler_is_one_sentence(function, offset, sentence):
    with pytest.raises(CompileError) as error:
        _ = Callback(function, int64, (record, int64)).address
    text = str(error.value)
    assert sentence in text and "\n" not in text
    line = function.__code__.co_firstlineno + offset
    assert text.startswith("test_messages.py:") and abs(int(text.split(":")[1].split(maxsplit=1)[0]) - line) <= 1, text
    assert text.split(" ")[1] == f"{function.__name__}:"


def planes_of_a_shape(planes, action):
    planes[0, action] = 1.0
    return 0


def the_weights(weights, action):
    return weights


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (planes_of_a_shape, "an array of one dimension takes one index; the planes of `encode` are such an array"),
        (the_weights, "it must return a number, and here it returns a buffer"),
    ],
)
def test_an_error_about_a_buffer_is_one_sentence(function, sentence):
    with pytest.raises(CompileError, match=f"{function.__name__}: {sentence}"):
        _ = Callback(function, int64, (numba.types.CPointer(numba.float32), int64)).address
