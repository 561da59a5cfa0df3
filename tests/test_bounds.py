"""Everything once with Numba's bounds checks on, in a process and a cache of its own.

An exception in a function called by its address is printed and not raised: any word on stderr fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
import sys
import numpy as np
from engram.native.jit import compiled
from engram.games.line.one_word import line
from engram.search import backup as backups
from engram.search import selection as selections
from engram.search.evaluation import Evaluation
from engram.search.expansion import Expansion
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.search.extension import Extension
from engram.search.preset import Preset
from engram.search.columns import Advice
from engram.presets import puct, uct
from engram.drivers.search import Search
from tests.games_for_tests import arms, pick
from tests.search.test_search import ADVICE, note_leaf, note_value
from tests.search.test_reference import halfway


@compiled
def read(values, k):
    return values[k]


try:
    read(np.zeros(2), 5)
    print("bounds are not checked")
except IndexError:
    pass


class Evaluator:
    def __init__(self, num_actions):
        self.num_actions = num_actions

    def evaluate(self, states):
        shape = len(states), self.num_actions
        return Evaluation(np.full(shape[0], 0.1), np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape))


games = {
    "tic_tac_toe": line(3, 3, 3),
    "connect_four": line(6, 7, 4, gravity=True),
    "narrow": line(2, 2, 2, gravity=True),
    "one word": line(7, 8, 5),
    "wide": line(9, 9, 5),
    "wide with gravity": line(9, 12, 5, gravity=True),
    "widest": line(24, 24, 3),
    "pick": pick(),
    "arms": arms(0.5, -0.5, 1.0),
}
searched = 0


def play(game, preset, simulations=150, moves=3, **bounds):
    """Some moves of a game, each searched, with the tree reused."""
    global searched
    search = Search(game, preset, **bounds)
    state = game.initial_state()
    for move in range(moves):
        if game.is_over(state):
            break
        result = search.run(state, Limit(simulations=simulations), seed=move)
        searched += result.simulations
        state = game.play(state, result.action)
        search.advance(result.action)


for game in games.values():
    play(game, uct(), moves=60 if game.num_actions < 20 else 4)
    play(game, uct(all_children=True), simulations=40)
    game.hash(game.initial_state())
    if game.planes_shape:
        planes = np.zeros(game.planes_shape, np.float32)
        game.callbacks["encode"].from_python(game.initial_state().ctypes.data, planes.ctypes.data)

rules = [
    selections.ucb1(),
    selections.ucb1(first_play_urgency=0.3),
    selections.puct(),
    selections.puct(first_play_urgency=0.3),
    selections.epsilon_greedy(epsilon=0.5),
    selections.epsilon_greedy(epsilon=0.5, first_play_urgency=0.0),
    selections.greedy(),
    selections.greedy(first_play_urgency=0.1),
]
ways = [
    backups.average(),
    backups.erwa(0.2),
    backups.td(),
    backups.td(bootstrap="best"),
    backups.trace_step_mix(mix=halfway(weight=0.5)),
]
for selection in rules:
    for backup in ways:
        for after in (0, 2):
            for game in ("tic_tac_toe", "wide with gravity"):
                play(games[game], Preset(selection=selection, backup=backup, expansion=Expansion(after=after)), 60, 2)

for bound in (10, 11, 64):
    play(games["tic_tac_toe"], uct(), max_nodes=bound)
    play(games["tic_tac_toe"], puct(evaluator=Evaluator(9), num_leaves=8), max_nodes=bound)
play(games["connect_four"], uct(), simulations=6000, moves=2)

stores = np.zeros(4), np.zeros(4)
hooks = {"on_leaf": note_leaf(store=stores[0]), "after_backup": note_value(store=stores[1])}
memory = Extension("noted", **hooks, advice=Advice(ADVICE, 20.0))
play(games["pick"], Preset(selection=selections.ucb1(), extensions=(memory,)), moves=5)
play(games["pick"], Preset(selection=selections.puct(), extensions=[memory], evaluator=Evaluator(9), num_leaves=4), 5)

for leaves in (1, 8):
    for name in ("tic_tac_toe", "connect_four", "wide", "arms"):
        game = games[name]
        play(game, puct(evaluator=Evaluator(game.num_actions), num_leaves=leaves), 300, 4)
together = Lockstep(games["connect_four"], puct(evaluator=Evaluator(7), num_leaves=2), 5)
together.run([games["connect_four"].play_moves([k]) for k in range(4)], Limit(simulations=60), range(4))
Lockstep(games["wide"], uct(), 3).run([games["wide"].initial_state()] * 3, Limit(simulations=50), range(3))
print("searched", searched)
'''


@pytest.mark.timeout(3000)
def test_bounds_checks_find_nothing(tmp_path):
    environment = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "ENGRAM_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr[-3000:]
    assert done.returncode == 0
    searched = done.stdout.split()
    assert searched[0] == "searched", done.stdout
    assert int(searched[1]) > 50_000
