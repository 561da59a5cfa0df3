"""What a distilled network knows of positions that it never saw: against its table, and against perfect play.

    python experiments/tduct/distilled.py --table TABLE --net FOLDER --work FOLDER --positions Test_L1_R1

FOLDER of --net is that of `engram train distil`; its plan says what was held out. Writes distilled.json beside this.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from studies import HERE, solved

import engram
from engram import storage as durable
from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.games.line.solver.solver import LimitReached, Solver
from engram.intervals import wilson
from engram.memory.values.positions import KnownPositions
from engram.networks.architectures import architecture
from engram.networks.backend import FixedBatches, open_backend
from engram.networks.by_name import NamedNetwork
from engram.networks.evaluator import NetworkEvaluator
from engram.networks.network import Network
from engram.networks.torch_backend import NetworkModule
from engram.rng import derive_seed
from engram.storage import whole
from engram.training.distil import DistilPlan, held_out, positions_of
from engram.training.learner import KIND
from engram.training.run import CHECKPOINT

SIDE_BY_SIDE = 64
SIMULATIONS = 100


def share(count: int, of: int) -> str:
    """A share with its 95 % interval, in per cent."""
    low, high = wilson(count / max(of, 1), of)
    return f"{100 * count / max(of, 1):.1f} % [{100 * low:.1f}, {100 * high:.1f}] of {of:,}"


def exact(positions: KnownPositions, most: int) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Rows of positions of 12 to 16 moves that the solver settles, their values, and the actions that keep them."""
    solver, rows, values, keeping = Solver(6, 7, 4, True, max_seconds=1.0), [], [], []
    order = np.random.default_rng(0).permutation(len(positions))
    for row in order.tolist():
        state = positions.states[row]
        if len(rows) == most:
            break
        if not 12 <= int(state["stones"]).bit_count() <= 16:
            continue
        try:
            scores = np.sign(solver.action_scores(int(state["mine"]), int(state["stones"])).astype(np.int64))
        except LimitReached:
            continue
        legal = positions.action_visits[row] >= 0
        best = int(scores[legal].max())
        rows.append(row)
        values.append(best)
        keeping.append(np.flatnonzero(legal & (scores == best)).tolist())
    return np.array(rows), np.array(values), keeping


def answers(net: Network, positions: KnownPositions) -> tuple[np.ndarray, np.ndarray]:
    """Values, and each position's legal move of the highest probability."""
    evaluation = NetworkEvaluator(FixedBatches(open_backend(net), 256), positions.game).evaluate(positions.states)
    assert evaluation.value is not None and evaluation.policy is not None
    return evaluation.value, np.where(positions.action_visits < 0, -1.0, evaluation.policy).argmax(1)


def on_held_out(positions: KnownPositions, nets: dict[str, Network], most: int) -> list[dict[str, Any]]:
    """The table's own positions, never shown to the network: its value and move beside the table's and the truth."""
    best = positions.lower_bound.argmax(1)
    rows, values, keeping = exact(positions, most)
    spoilable = [
        at for at, actions in enumerate(keeping) if len(actions) < int((positions.action_visits[rows[at]] >= 0).sum())
    ]
    predictions = {"table": (positions.value, best), **{name: answers(net, positions) for name, net in nets.items()}}
    report = []
    for name, (value, move) in predictions.items():
        wrong = sum(int(move[rows[at]]) not in keeping[at] for at in spoilable)
        report.append({
            "who": name, "positions": len(positions),
            "rmse_to_table": float(np.sqrt(((value - positions.value) ** 2).mean())),
            "same_move_as_table": share(int((move == best).sum()), len(positions)),
            "rmse_to_truth": float(np.sqrt(((value[rows] - values) ** 2).mean())),
            "right_sign": share(int((np.sign(value[rows]) == values)[values != 0].sum()), int((values != 0).sum())),
            "mistakes": share(wrong, len(spoilable)),
        })  # fmt: skip
    return report


def on_solved(searches: Sequence[str], positions: list[tuple[str, float, list[int], bool]]) -> list[dict[str, Any]]:
    """Mistakes of searches on positions of the public test set, where one is possible."""
    game = engram.game("connect_four")
    problems = [(game.play_moves(moves), keeping, moves) for moves, _, keeping, spoilable in positions if spoilable]
    report = []
    for text in searches:
        wrong = 0
        if "table" in text:
            search = engram.Search(game, text)
            for state, keeping, moves in problems:
                search.clear()
                result = search.run(state, Limit(simulations=SIMULATIONS), seed=derive_seed(moves))
                wrong += result.action not in keeping
        else:
            together = Lockstep(game, text, SIDE_BY_SIDE)
            for first in range(0, len(problems), SIDE_BY_SIDE):
                part = problems[first : first + SIDE_BY_SIDE]
                for tree in range(SIDE_BY_SIDE):
                    together.clear(tree)
                seeds = [derive_seed(moves) for *_, moves in part]
                results = together.run([state for state, *_ in part], Limit(simulations=SIMULATIONS), seeds)
                wrong += sum(
                    result.action not in keeping for result, (_, keeping, _) in zip(results, part, strict=True)
                )
        report.append({"search": text, "simulations": SIMULATIONS, "mistakes": share(wrong, len(problems))})
        print(report[-1], flush=True)
    return report


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("table", "net", "work", "positions"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--most", type=int, default=400, help="held-out positions to solve")
    options = parser.parse_args()
    plan = DistilPlan(**durable.about(options.net / CHECKPOINT, KIND)["plan"])
    positions = positions_of(plan)
    positions = positions.part(held_out(positions.keys, plan.validation))
    torch.manual_seed(plan.seed)
    nets = {
        "untrained": NetworkModule(architecture(plan.network, positions.game)).network,
        "distilled": NamedNetwork(str(options.net)).network,
    }
    rows = on_held_out(positions, nets, options.most)
    for row in rows:
        print(row, flush=True)
    searches = [
        "uct", f"td_uct(table='{options.table}')", f"uct_prior(network='{options.net}',strength=20)",
        f"puct(network='{options.net}')", f"puct(network='{options.net}',network_rollouts=true)",
    ]  # fmt: skip
    report = {"held_out": rows, "solved": on_solved(searches, solved(options.work, options.positions))}
    text = json.dumps(report, indent=1).replace(str(options.table), "c4.table").replace(str(options.net), "net")
    with whole(HERE / "distilled.json") as part:
        part.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
