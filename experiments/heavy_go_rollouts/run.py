"""Heavy Go rollouts of two checkouts on the same positions: squared errors and rollouts a second of processor time.

python run.py positions RECORDS.tsv.xz positions.npz
PYTHONPATH=CHECKOUT/src python run.py errors positions.npz SEED errors.npy      # once a checkout and seed
python run.py difference NEW.npy OLD.npy [NEW.npy OLD.npy ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numba
import numpy as np

import engram
from engram.games.go import heavy
from engram.games.go.board import board_dtype
from engram.games.go.rules import copy
from engram.native.intrinsics import call
from engram.native.jit import compiled
from engram.rng import new_rng

ROLLOUTS, POSITIONS, DRAWN = 100, 5000, 8000
copy_state, play_out = compiled(copy), compiled(heavy.heavy_rollout)


@compiled
def play_all(play, states, actions):
    for action in actions:
        call(play, (states.ctypes.data, np.int64(action)))


def positions(records_file: str, file: str) -> None:
    """Saves the positions that `benchmarks/rollout_accuracy.py` would draw, and who won."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from rollout_accuracy import drawn

    from engram.training.records import read

    game = engram.game("go:9")
    records = read(game, [records_file])
    games, lengths = drawn(records, DRAWN)
    states = np.zeros(POSITIONS, board_dtype)
    for k in range(POSITIONS):
        first = records.offset[games[k]]
        states[k] = records.starts[records.start[games[k]]]
        play_all(game.address("play"), states[k : k + 1], records.actions[first : first + lengths[k]])
    np.savez(file, states=states, won=records.value[games[:POSITIONS]])


@numba.njit(nogil=True, error_model="numpy")
def means(states, scratch, rng, result):
    for k in range(len(states)):
        total = 0.0
        for _ in range(ROLLOUTS):
            copy_state(scratch[0], states[k])
            total += play_out(scratch[0], rng[0])
        result[k] = total / ROLLOUTS


def errors(file: str, seed: str, result: str) -> None:
    """Saves the squared error at each position, freed of the noise of a finite number of rollouts."""
    stored = np.load(file)
    states = stored["states"]
    scratch, rng, mean = np.zeros(1, board_dtype), new_rng(int(seed)), np.zeros(len(states))
    means(states[:1], scratch, new_rng(0), mean)
    start = time.process_time()
    means(states, scratch, rng, mean)
    speed = len(states) * ROLLOUTS / (time.process_time() - start)
    error = (mean - stored["won"]) ** 2 - (1.0 - mean**2) / (ROLLOUTS - 1)
    np.save(result, error)
    print(f"squared error {error.mean():.4f} ± {1.96 * error.std() / len(error) ** 0.5:.4f}   {speed:,.0f}/s")


def difference(*files: str) -> None:
    """Prints the mean difference of errors, new less old, with its 95 % interval over positions."""
    pairs = zip(files[::2], files[1::2], strict=True)
    change = np.mean([np.load(new) - np.load(old) for new, old in pairs], 0)
    print(f"{change.mean():+.4f} ± {1.96 * change.std() / len(change) ** 0.5:.4f}")


if __name__ == "__main__":
    {"positions": positions, "errors": errors, "difference": difference}[sys.argv[1]](*sys.argv[2:])
