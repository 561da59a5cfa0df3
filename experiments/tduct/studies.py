"""The studies of METHODS §3, in slices: the same command again goes on where it was stopped.

    python experiments/tduct/studies.py STUDY --work FOLDER [--seeds 5] [--episodes N] [--positions FILE]

Tables and the database of points lie in the work folder; `points.json`, pictures and pages go beside this file.
STUDY is one of random, minimax, minimax_6, minimax_steady, tic_tac_toe, multiples, ablations.
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
from engram.games.line.solver.solver import LimitReached, Solver
from engram.memory.values.table import Table
from engram.rng import derive_seed
from engram.storage import whole
from engram.training.history import Point
from engram.training.td.curves import draw_small_multiples
from engram.training.td.settings import EvaluationPlan, TdConfiguration, parse_opponents
from engram.training.td.training import train

HERE = Path(__file__).parent


def keep(name: str, curves: dict[str, list[Point]], seconds: float) -> None:
    """Writes a study's points, so that a picture can be drawn again without training."""
    data = {"seconds": round(seconds), "points": {key: [asdict(p) for p in points] for key, points in curves.items()}}
    with whole(HERE / f"{name}.json") as part:
        part.write_text(json.dumps(data, indent=0), encoding="utf-8")


def by_opponent(curves: dict[str, list[Point]]) -> dict[str, dict[str, list[Point]]]:
    """The same curves, a panel an opponent."""
    return {
        where: {label: [p for p in points if p.opponent == where] for label, points in curves.items()}
        for where in sorted({p.opponent for points in curves.values() for p in points})
    }


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


RANDOM = (
    ("td_uct", 100, 0),
    ("td_uct", 100, None),
    ("td_uct(all_children=true)", 700, 0),  # as the thesis expands: 100 times, a rollout from each of 7 children
)


def against_random(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """Without any learning, e = 1, l = 0.9: 200 games a seed, from the fixed start and from openings."""
    start, rows = time.monotonic(), []
    for search, simulations, openings in RANDOM:
        for seed in range(seeds):
            played = engram.match("connect_four", search, "random", games=200, simulations=simulations,
                                  opening_moves=openings, seed=seed, workers=1,
                                  database=str(work / "matches.sqlite"))  # fmt: skip
            row = {"search": search, "simulations": simulations, "opening_moves": openings, "seed": seed,
                   "games": played.games, "wins": played.wins, "draws": played.draws,
                   "distinct_games": played.distinct_games}  # fmt: skip
            rows.append(row)
            print(row, flush=True)
    text = json.dumps({"seconds": round(time.monotonic() - start), "rows": rows}, indent=0)
    with whole(HERE / "random.json") as part:
        part.write_text(text, encoding="utf-8")


STEADY: dict[str, dict[str, object]] = {
    "self-play": {},
    "against it": {"opponent": "minimax(depth=4,ties=first)"},
}


def against_steady_minimax(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """The same with a minimax that always answers alike, from the fixed start: what can be learnt by heart."""
    start, curves = time.monotonic(), {}
    base = TdConfiguration("connect_four", opening_moves=0)
    opponents = parse_opponents("minimax(depth=4,ties=first,opening_moves=0)", base.made_game)
    plan = EvaluationPlan(opponents, every=100, games=40)
    for number, (label, changes) in enumerate(STEADY.items()):
        changed = replace(base, **changes)  # type: ignore[arg-type]
        curves[label] = curve(work, f"steady_{number}", changed, plan, episodes or 300, range(seeds))
        keep("minimax_steady", curves, time.monotonic() - start)
    title = "Connect-4, 1000 simulations, against a minimax of depth 4 that always answers alike"
    draw_small_multiples(HERE / "minimax_steady.png", title, by_opponent(curves))


def against_minimax(
    work: Path, seeds: int, episodes: int | None, positions: Path | None, depth: int = 4, name: str = "minimax"
) -> None:
    """1000 simulations against minimax with the naive heuristic, from the fixed start and from openings."""
    start, curves = time.monotonic(), {}
    base = TdConfiguration("connect_four")
    minimax = f"minimax(depth={depth})"
    learners: dict[str, dict[str, object]] = {
        "self-play": {},
        "against it, heavy rollouts": {"opponent": minimax, "rollout": "heavy", "discount": 1.0, "opening_moves": 4},
    }
    opponents = parse_opponents(
        f"minimax(depth={depth},opening_moves=0),minimax(depth={depth},opening_moves=4)", base.made_game
    )
    plan = EvaluationPlan(opponents, every=100, games=40)
    for number, (label, changes) in enumerate(learners.items()):
        changed = replace(base, **changes)  # type: ignore[arg-type]
        curves[label] = curve(work, f"{name}_{number}", changed, plan, episodes or 300, range(seeds))
        keep(name, curves, time.monotonic() - start)
    title = f"Connect-4, 1000 simulations, against minimax of depth {depth}"
    draw_small_multiples(HERE / f"{name}.png", title, by_opponent(curves))


def tic_tac_toe(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """200 simulations, e = 1 and 0.5, self-play, against alpha-beta of depth 6.

    The thesis prints neither of its two heuristics in full; `potential` stands for the improved one.
    """
    start, curves = time.monotonic(), {}
    base = TdConfiguration("tic_tac_toe", simulations=200, capacity=10_000)
    against = [
        f"alpha_beta(depth=6,heuristic={heuristic},opening_moves={moves})"
        for heuristic in ("naive", "potential")
        for moves in (0, 2)
    ]
    plan = EvaluationPlan(parse_opponents(",".join(against), base.made_game), every=500, games=40)
    for number, exploration in enumerate((1.0, 0.5)):
        changed = replace(base, exploration=exploration)
        label = f"tic_tac_toe_{number}"
        curves[f"e={exploration:g}"] = curve(work, label, changed, plan, episodes or 3000, range(seeds))
        keep("tic_tac_toe", curves, time.monotonic() - start)
    draw_small_multiples(HERE / "tic_tac_toe.png", "tic-tac-toe, 200 simulations", by_opponent(curves))


MULTIPLES = {
    "min_step": (0.0005, 0.005),
    "discount": (0.9, 1.0),
    "trace_decay": (0.5, 0.9),
    "exploration": (0.5, 1.0),
}


def multiples(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """The effect of α's floor, γ, λ and e: Connect-4, 400 simulations, against UCT with 100 each, from openings."""
    start = time.monotonic()
    base = TdConfiguration("connect_four", simulations=400, opening_moves=4)
    plan = EvaluationPlan(parse_opponents("uct(simulations=100)", base.made_game), every=200, games=100)
    panels: dict[str, dict[str, list[Point]]] = {}
    for parameter, values in MULTIPLES.items():
        panels[parameter] = {}
        for value in values:
            changed = replace(base, **{parameter: value})
            label = "base" if changed == base else f"{parameter}_{value:g}"
            panels[parameter][f"{value:g}"] = curve(work, label, changed, plan, episodes or 200, range(seeds))
    keep("multiples", {f"{p}={v}": points for p, of in panels.items() for v, points in of.items()},
         time.monotonic() - start)  # fmt: skip
    draw_small_multiples(HERE / "multiples.png", "Connect-4, trained at 400 simulations, against uct at 100", panels)


def solved(work: Path, positions: Path) -> list[tuple[str, float, list[int], bool]]:
    """Early positions of a file: moves, value for the mover, actions that keep it, and whether some action does not.

    Those of 10 to 12 moves whose every move the solver settles in two seconds; kept in the work folder.
    """
    file = work / f"{positions.name}.json"
    if not file.exists():
        solver, game, rows = Solver(6, 7, 4, True, max_seconds=2.0), engram.game("connect_four"), []
        for line in positions.read_text(encoding="utf-8").splitlines():
            moves = line.split()[0]
            if not 10 <= len(moves) <= 12:
                continue
            state, values = game.play_moves(moves), {}
            try:
                for action in game.legal_actions(state):
                    after = game.play(state, action)
                    won = game.is_over(after)
                    values[action] = 1 if won else -solver.value(int(after["mine"]), int(after["stones"]))
            except LimitReached:
                continue
            best = max(values.values())
            keeping = [action for action, value in values.items() if value == best]
            rows.append((moves, best, keeping, len(keeping) < len(values)))
        with whole(file) as part:
            part.write_text(json.dumps(rows), encoding="utf-8")
    return [tuple(row) for row in json.loads(file.read_text(encoding="utf-8"))]


def mistakes(positions: list[tuple[str, float, list[int], bool]], simulations: int, configuration: TdConfiguration,
             table: Table) -> dict[str, float]:  # fmt: skip
    """Share of solved positions whose chosen move gives value away, and the root value's error; the table as it is."""
    game = configuration.made_game
    search = engram.Search(game, configuration.preset(table, learn=False))
    key = game.canonical_hash if configuration.symmetric else game.hash
    wrong, squares, visits = 0, 0.0, []
    for moves, value, keeping, _ in positions:
        search.clear()
        state = game.play_moves(moves)
        result = search.run(state, engram.Limit(simulations=simulations), seed=derive_seed(moves))
        wrong += result.action not in keeping
        squares += (result.value - value) ** 2
        visits.append(table.get(np.array([key(state)], np.uint64))[1][0])
    return {
        "mistakes": wrong / sum(spoilable for *_, spoilable in positions),
        "rmse": (squares / len(positions)) ** 0.5,
        "known": float(np.mean(np.array(visits) > 0)),
    }


ABLATIONS: dict[str, dict[str, object]] = {
    "base": {},
    "replay": {"replay": 0.5},
    "no_symmetry": {"symmetric": False},
    "more_room": {"capacity": 16_000_000},
}


def ablations(work: Path, seeds: int, episodes: int | None, positions: Path | None) -> None:
    """Mistakes on solved early positions by episode, with replay, and with mirror images learned apart."""
    if positions is None:
        raise SystemExit("ablations need --positions, a file of Connect-4 positions")
    rows = solved(work, positions)
    print(len(rows), "positions,", sum(spoilable for *_, spoilable in rows), "where a mistake is possible", flush=True)
    start, curves = time.monotonic(), {}
    measure = partial(mistakes, rows, 100)
    measure.__name__ = f"mistakes_{positions.name}"  # type: ignore[attr-defined]
    base = TdConfiguration("connect_four", simulations=200, discount=1.0, opening_moves=12, capacity=4_000_000)
    episodes = episodes or 1000
    for label, changes in ABLATIONS.items():
        changed = replace(base, **changes)  # type: ignore[arg-type]
        plan = EvaluationPlan(every=500, measure=measure)
        curves[label] = curve(work, f"ablation_{label}", changed, plan, episodes, range(seeds))
        keep("ablations", curves, time.monotonic() - start)


STUDIES: dict[str, Callable[[Path, int, int | None, Path | None], None]] = {
    "random": against_random,
    "minimax": against_minimax,
    "minimax_6": partial(against_minimax, depth=6, name="minimax_6"),
    "minimax_steady": against_steady_minimax,
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
    arguments = options.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    STUDIES[arguments.study](arguments.work, arguments.seeds, arguments.episodes, arguments.positions)
