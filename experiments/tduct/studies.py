"""The studies of METHODS §3, in slices: the same command again goes on where it was stopped.

    python experiments/tduct/studies.py STUDY --work FOLDER [--seeds 5] [--episodes N] [--positions FILE]

Tables and the database of points lie in the work folder; `points.json`, pictures and pages go beside this file.
STUDY is one of random, minimax, tic_tac_toe, multiples, ablations.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

import engram
from engram.arena.solver import ILLEGAL, Solver
from engram.learning.td_configuration import EvaluationPlan, TdConfiguration, parse_opponents
from engram.learning.td_curves import draw, draw_small_multiples
from engram.learning.td_results import Point
from engram.learning.td_train import train
from engram.memory.table import Table
from engram.rng import derive_seed

HERE = Path(__file__).parent


def keep(name: str, found: dict[str, list[Point]], seconds: float) -> None:
    """Writes a study's points, so that a picture can be drawn again without training."""
    data = {"seconds": round(seconds), "points": {key: [asdict(p) for p in points] for key, points in found.items()}}
    (HERE / f"{name}.json").write_text(json.dumps(data, indent=0), encoding="utf-8")


def curve(work: Path, label: str, configuration: TdConfiguration, plan: EvaluationPlan, episodes: int,
          seeds: Iterable[int]) -> list[Point]:  # fmt: skip
    """One training, told as it goes."""

    def tell(now: object) -> None:
        point = getattr(now, "point", None)
        if point is not None:
            print(label, point.seed, point.episode, point.opponent, f"{point.score:.3f}", point.measured, flush=True)
            for finding in point.findings:
                print("   ", finding, flush=True)

    return train(configuration, work / f"{label}.table", episodes=episodes, seeds=list(seeds), plan=plan,
                 database=work / "points.sqlite", progress=tell)  # fmt: skip


def against_random(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """Without any learning, 100 simulations, e = 1, l = 0.9."""
    for label, openings in (("fixed start", 0), ("varied openings", None)):
        played = engram.match("connect_four", "td_uct", "random", games=1000, simulations=100, opening_moves=openings,
                              seed=1, database=str(work / "matches.sqlite"))  # fmt: skip
        print(label, played, flush=True)


def against_minimax(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """1000 simulations against minimax of depth 4 with the naive heuristic, from the fixed start and from openings."""
    begun = time.monotonic()
    configuration = TdConfiguration("connect_four")
    opponents = parse_opponents("minimax(depth=4,opening_moves=0),minimax(depth=4,opening_moves=4)",
                                configuration.made_game)  # fmt: skip
    plan = EvaluationPlan(opponents, every=100, games=60)
    points = curve(work, "minimax", configuration, plan, episodes or 300, range(seeds))
    keep("minimax", {"minimax": points}, time.monotonic() - begun)
    for kind in ("png", "html"):
        draw(HERE / f"minimax.{kind}", "Connect-4, 1000 simulations, self-play", points)


def tic_tac_toe(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """200 simulations, e = 1 and 0.5, self-play, against alpha-beta of depth 6."""
    begun, found = time.monotonic(), {}
    for exploration in (1.0, 0.5):
        configuration = TdConfiguration("tic_tac_toe", simulations=200, exploration=exploration, capacity=10_000)
        opponents = parse_opponents("alpha_beta(depth=6,opening_moves=0),alpha_beta(depth=6,opening_moves=2)",
                                    configuration.made_game)  # fmt: skip
        plan = EvaluationPlan(opponents, every=250, games=100)
        label = f"tic_tac_toe_e{exploration:g}"
        found[f"e={exploration:g}"] = curve(work, label, configuration, plan, episodes or 3000, range(seeds))
        keep("tic_tac_toe", found, time.monotonic() - begun)
    panels = {
        where: {label: [p for p in points if p.opponent == where] for label, points in found.items()}
        for where in sorted({p.opponent for points in found.values() for p in points})
    }
    for kind in ("png", "html"):
        draw_small_multiples(HERE / f"tic_tac_toe.{kind}", "tic-tac-toe, 200 simulations", panels)


MULTIPLES = {
    "min_step": (0.0005, 0.005, 0.05),
    "discount": (0.8, 0.9, 1.0),
    "trace_decay": (0.5, 0.9, 1.0),
    "exploration": (0.3, 1.0, 2.0),
}


def multiples(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """The effect of α's floor, γ, λ and e: Connect-4, 200 simulations, against UCT with 100 each, from openings."""
    begun = time.monotonic()
    base = TdConfiguration("connect_four", simulations=200, opening_moves=4)
    plan = EvaluationPlan(parse_opponents("uct(simulations=100)", base.made_game), every=250, games=100)
    panels: dict[str, dict[str, list[Point]]] = {}
    for parameter, values in MULTIPLES.items():
        panels[parameter] = {}
        for value in values:
            changed = replace(base, **{parameter: value})
            label = "base" if changed == base else f"{parameter}_{value:g}"
            panels[parameter][f"{value:g}"] = curve(work, label, changed, plan, episodes or 500, range(seeds))
    keep("multiples", {f"{p}={v}": points for p, of in panels.items() for v, points in of.items()},
         time.monotonic() - begun)  # fmt: skip
    for kind in ("png", "html"):
        draw_small_multiples(HERE / f"multiples.{kind}", "Connect-4, trained at 200 simulations, against uct at 100",
                             panels)  # fmt: skip


def solved(positions: Path) -> list[tuple[str, set[int]]]:
    """Positions of a file with the moves that keep their value, those where no move gives it away left out."""
    solver, game, found = Solver(6, 7, 4, True), engram.game("connect_four"), []
    for line in positions.read_text(encoding="utf-8").splitlines():
        moves = line.split()[0]
        state = game.play_moves(moves)
        scores = solver.action_scores(int(state["mine"]), int(state["stones"]))
        values = np.where(scores == ILLEGAL, -2, np.sign(scores))
        if (values[values > -2] < values.max()).any():
            found.append((moves, set(np.flatnonzero(values == values.max()).tolist())))
    return found


def mistakes(known: list[tuple[str, set[int]]], simulations: int, configuration: TdConfiguration,
             table: Table) -> dict[str, float]:  # fmt: skip
    """Share of solved positions whose chosen move gives value away; the table is as it is."""
    search = engram.Search(configuration.made_game, configuration.preset(table, learn=False))
    wrong = 0
    for moves, keeping in known:
        search.clear()
        state = search.game.play_moves(moves)
        found = search.run(state, engram.Limit(simulations=simulations), seed=derive_seed(moves))
        wrong += found.action not in keeping
    return {"mistakes": wrong / len(known), "positions": len(known)}


ABLATIONS: dict[str, dict[str, object]] = {"base": {}, "replay": {"replay": 0.5}, "no_symmetry": {"symmetric": False}}


def ablations(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """Mistakes on solved positions by episode, with replay, and with mirror images learned apart."""
    if positions is None:
        raise SystemExit("ablations need --positions, a file of Connect-4 positions")
    begun, found = time.monotonic(), {}
    measure = partial(mistakes, solved(positions), 100)
    measure.__name__ = f"mistakes_{positions.name}"  # type: ignore[attr-defined]
    base = TdConfiguration("connect_four", simulations=200, discount=1.0, opening_moves=6, capacity=16_000_000)
    for label, changes in ABLATIONS.items():
        changed = replace(base, **changes)  # type: ignore[arg-type]
        plan = EvaluationPlan(parse_opponents("uct(simulations=100)", base.made_game), every=500, games=100,
                              measure=measure)  # fmt: skip
        found[label] = curve(work, f"ablation_{label}", changed, plan, episodes or 2000, range(seeds))
        keep("ablations", found, time.monotonic() - begun)
    panels = {"uct, 100 simulations": {label: [p for p in points if p.games] for label, points in found.items()}}
    for kind in ("png", "html"):
        draw_small_multiples(HERE / f"ablations.{kind}", "Connect-4, trained at 200 simulations", panels, columns=1)


STUDIES: dict[str, Callable[[Path, int, int | None, Path | None], None]] = {
    "random": against_random,
    "minimax": against_minimax,
    "tic_tac_toe": tic_tac_toe,
    "multiples": multiples,
    "ablations": ablations,
}

if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("study", choices=STUDIES)
    options.add_argument("--work", type=Path, required=True)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--episodes", type=int)
    options.add_argument("--positions", type=Path)
    given = options.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    STUDIES[given.study](given.work, given.seeds, given.episodes, given.positions)
