"""Runs a search, or a program by GTP, over the problems, and prints the share solved of each kind.

python solve.py 'puct_rave(rollout=heavy,prior=game)' -n 5000 --seed 1
python solve.py 'gtp:./pachi -t =5000 threads=1 pass_all_alive' --part report --failures
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from problems import FILE, KOMI, SIZE, Problem, beside, load, name, regions

import engram
from engram.drivers.limit import Limit
from engram.gtp.client import GtpProgram
from engram.intervals import wilson


def by_search(preset: str, simulations: int, seed: int) -> Callable[[Problem], str]:
    game = engram.game(f"go:{SIZE},komi={KOMI}")
    search = engram.Search(game, preset)

    def move(problem: Problem) -> str:
        search.clear()
        result = search.run(game.parse_state(problem.diagram), Limit(simulations=simulations), seed=seed)
        if result.stopped == "interrupted":
            raise KeyboardInterrupt
        return game.action_name(result.action)

    return move


def by_gtp(command: str) -> Callable[[Problem], str]:
    program = GtpProgram(command, 60.0)
    program.ask(f"boardsize {SIZE}")

    def move(problem: Problem) -> str:
        for line in ("clear_board", f"komi {KOMI}", *set_up(problem)):
            program.ask(line)
        return program.ask(f"genmove {'bw'[problem.mover]}").strip().replace("PASS", "pass")

    return move


def set_up(problem: Problem) -> list[str]:
    """Moves that build the position: each chain grows from a stone beside one of its liberties, so nothing is taken."""
    stones, lines = problem.stones, []
    for colour in (1, 2):
        for chain in regions({cell for cell in range(81) if stones[cell] == colour}):
            order = [next(cell for cell in sorted(chain) if any(stones[free] == 0 for free in beside({cell})))]
            while len(order) < len(chain):
                order.append(min(beside(set(order)) & chain))
            lines += [f"play {'bw'[colour - 1]} {name(cell)}" for cell in order]
    return lines


KINDS = ("live", "kill", "ladder", "semeai", "seki", "tactics")


def table(problems: list[Problem], solved: list[bool]) -> str:
    """A row of a table: problems solved of each kind, and of all with the 95 % interval of their share."""
    cells = []
    for kind in KINDS:
        some = [success for problem, success in zip(problems, solved, strict=True) if problem.kind == kind]
        cells.append(f"{sum(some)} of {len(some)}")
    share = sum(solved) / len(solved)
    low, high = wilson(share, len(solved))
    return " | ".join([*cells, f"{share:.1%} [{100 * low:.1f}, {100 * high:.1f}]"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("players", nargs="+", help="presets, or gtp: and a command")
    parser.add_argument("-n", "--simulations", type=int, nargs="+", default=[5000], help="budgets of presets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=("tune", "report"), help="only odd or only even numbers")
    parser.add_argument("--file", type=Path, default=FILE, help="another file of problems")
    parser.add_argument("--failures", action="store_true", help="print numbers and moves of unsolved problems")
    options = parser.parse_args()
    problems = [problem for problem in load(options.file) if options.part in (None, problem.part)]
    print(f"| player | simulations | {' | '.join(KINDS)} | all |\n|{'---|' * (len(KINDS) + 3)}")
    for player in options.players:
        program = player.startswith("gtp:")
        for simulations in [0] if program else options.simulations:
            move = by_gtp(player[4:]) if program else by_search(player, simulations, options.seed)
            answers = [move(problem) for problem in problems]
            solved = [answer in problem.right for answer, problem in zip(answers, problems, strict=True)]
            print(f"| `{player}` | {simulations or ''} | {table(problems, solved)} |", flush=True)
            if options.failures:
                pairs = zip(problems, answers, strict=True)
                print(
                    *(
                        f"{problem.number}:{problem.kind}:{answer}"
                        for problem, answer in pairs
                        if answer not in problem.right
                    )
                )


if __name__ == "__main__":
    main()
