"""What every preset grows from a fixed seed: a change of these numbers is a change of the search."""

from __future__ import annotations

import pytest

from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.games.line.one_word import line
from engram.presets.catalogue import PRESETS

GAMES = {"connect_four": line(6, 7, 4, gravity=True), "tic_tac_toe": line(3, 3, 3)}

# (preset, game): number of nodes, then the root's visits by action; 1000 simulations, seed 0.
NAMES = sorted(PRESETS)

SIGNATURES: dict[tuple[str, str], tuple[int, ...]] = {
    ("bts", "connect_four"): (2024, 126, 111, 139, 199, 121, 142, 161),
    ("bts", "tic_tac_toe"): (1901, 160, 33, 181, 36, 177, 72, 136, 44, 160),
    ("dents", "connect_four"): (1842, 161, 137, 148, 203, 121, 133, 96),
    ("dents", "tic_tac_toe"): (1779, 126, 14, 110, 65, 274, 95, 118, 86, 111),
    ("epsilon_greedy", "connect_four"): (1898, 17, 6, 203, 190, 537, 22, 24),
    ("epsilon_greedy", "tic_tac_toe"): (852, 17, 46, 11, 11, 837, 20, 17, 18, 22),
    ("greedy", "connect_four"): (1540, 1, 1, 3, 3, 646, 344, 1),
    ("greedy", "tic_tac_toe"): (208, 2, 2, 1, 4, 980, 5, 1, 2, 2),
    ("history_uct", "connect_four"): (2787, 136, 199, 3, 616, 30, 4, 11),
    ("history_uct", "tic_tac_toe"): (1653, 2, 69, 771, 2, 2, 2, 61, 4, 86),
    ("memory_puct", "connect_four"): (2752, 23, 15, 54, 823, 44, 30, 10),
    ("memory_puct", "tic_tac_toe"): (1869, 44, 13, 7, 18, 575, 19, 147, 11, 165),
    ("memory_uct", "connect_four"): (2122, 175, 27, 440, 178, 53, 98, 28),
    ("memory_uct", "tic_tac_toe"): (1802, 62, 28, 30, 54, 595, 34, 60, 60, 76),
    ("ments", "connect_four"): (1968, 131, 15, 124, 527, 37, 22, 143),
    ("ments", "tic_tac_toe"): (1095, 792, 5, 4, 6, 161, 11, 4, 9, 7),
    ("puct", "connect_four"): (2864, 18, 20, 6, 861, 18, 42, 34),
    ("puct", "tic_tac_toe"): (1570, 667, 10, 88, 21, 10, 5, 156, 28, 14),
    ("puct_rave", "connect_four"): (2157, 31, 36, 106, 564, 163, 80, 19),
    ("puct_rave", "tic_tac_toe"): (1669, 24, 40, 26, 25, 717, 23, 41, 36, 67),
    ("rave", "connect_four"): (2276, 1, 68, 1, 831, 93, 5, 0),
    ("rave", "tic_tac_toe"): (1184, 40, 1, 207, 0, 697, 1, 39, 6, 8),
    ("rents", "connect_four"): (2003, 3, 38, 5, 918, 7, 2, 26),
    ("rents", "tic_tac_toe"): (695, 5, 945, 1, 10, 3, 8, 8, 10, 9),
    ("sarsa_uct", "connect_four"): (1891, 101, 77, 49, 534, 183, 9, 46),
    ("sarsa_uct", "tic_tac_toe"): (1776, 87, 18, 18, 116, 367, 55, 109, 53, 176),
    ("td_uct", "connect_four"): (1975, 47, 37, 182, 457, 160, 19, 97),
    ("td_uct", "tic_tac_toe"): (1749, 125, 20, 126, 80, 335, 21, 137, 20, 135),
    ("tents", "connect_four"): (1933, 5, 5, 181, 787, 7, 7, 7),
    ("tents", "tic_tac_toe"): (963, 243, 3, 8, 6, 709, 12, 6, 5, 7),
    ("uct", "connect_four"): (1933, 83, 4, 21, 642, 37, 197, 15),
    ("uct", "tic_tac_toe"): (1701, 29, 41, 4, 55, 535, 90, 103, 21, 121),
    ("uct_prior", "connect_four"): (1933, 83, 4, 21, 642, 37, 197, 15),
    ("uct_prior", "tic_tac_toe"): (1701, 29, 41, 4, 55, 535, 90, 103, 21, 121),
}


def signature(name: str, game_name: str) -> tuple[int, ...]:
    game = GAMES[game_name]
    result = Search(game, name).run(game.initial_state(), Limit(simulations=1000), seed=0)
    return (result.nodes, *(move.visits for move in sorted(result.moves, key=lambda move: move.action)))


@pytest.mark.parametrize("game_name", sorted(GAMES))
@pytest.mark.parametrize("name", NAMES)
def test_signature(name, game_name):
    assert (name, game_name) in SIGNATURES, f"a new preset: add its signature {signature(name, game_name)}"
    assert signature(name, game_name) == SIGNATURES[name, game_name], (
        "the search signature changed: say so in the commit"
    )


def test_no_signature_is_left_behind():
    assert {name for name, _ in SIGNATURES} == set(NAMES)
