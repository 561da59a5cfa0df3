"""Mutants of search/, trees/, memory/ and arena/statistics.py, each with the tests of its file: which ones survive?

    python -m benchmarks.mutation [FILE ...] [--minutes 10] [--most 15] [--seed 0] [--rows mutation.json]

A mutant is a copy of the sources with one change at a random place (the operators are those of cosmic-ray). It is
killed if a test fails, or does not end. The same command again goes on; with `--again` the survivors alone are tried
once more, after better tests. Mutants that change annotations alone are left out.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from functools import cache
from itertools import product
from pathlib import Path

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from engram import storage

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "engram"
SLOWEST_S = 400
FIRST_S = 4 * SLOWEST_S
"""The longest run of tests: of a mutant, and of those that first compile everything."""
TESTS = {
    "arena/statistics.py": "arena/test_statistics.py",
    "memory/theory.py": "memory/test_features_theory.py",
    "memory/features.py": "memory/test_features_theory.py memory/test_neighbours.py",
    "memory/arithmetic.py": "memory/test_arithmetic.py memory/test_store.py",
    "memory/layout.py": "memory/test_store.py memory/test_files.py",
    "memory/store.py": "memory/test_store.py memory/test_neighbours.py",
    "memory/files.py": "memory/test_files.py tests/test_user_files.py",
    "memory/similar_positions.py": "memory/test_memory_search.py memory/test_memory_saved.py",
    "memory/neighbours/": "memory/test_neighbours.py memory/test_store.py",
    "memory/values/positions.py": "training/test_distil.py",
    "memory/values/": "memory/test_table.py memory/test_td_table.py",
    "memory/map.py": "memory/test_map.py",
    "search/selection.py": "search/test_ranges.py search/test_selection.py search/test_reference.py "
    "search/test_widening.py search/test_rivals.py",
    "search/backup.py": "search/test_ranges.py search/test_backup.py search/test_reference.py search/test_rules.py",
    "search/mixes.py": "search/test_ranges.py search/test_rules.py search/test_rivals.py",
    "search/entropy/": "search/test_ranges.py search/test_rivals.py search/test_reference.py search/test_returns.py",
    "search/decision.py": "search/test_result.py search/test_search.py",
    "drivers/limit.py": "search/test_result.py search/test_search.py",
    "drivers/lockstep.py": "search/test_groups.py search/test_reference.py",
    "drivers/result.py": "search/test_result.py search/test_search.py",
    "trees/comparison.py": "cli/test_tree.py trees/test_tree_file.py",
    "trees/visible.py": "trees/test_visible.py",
    "trees/": "trees/test_tree_file.py search/test_ask_tell.py test_crafted_files.py",
    "search/threads.py": "search/test_parallel.py",
    "search/evaluation.py": "search/test_endings.py search/test_search.py memory/test_memory_search.py",
    "search/extensions/rave.py": "search/test_rave.py search/test_rivals.py",
    "search/extensions/proofs.py": "search/test_proof.py",
    "search/extensions/transpositions.py": "search/test_transpositions.py",
    "search/extensions/pools.py": "search/test_transpositions.py search/test_bias_correction.py",
    "search/extensions/bias_correction.py": "search/test_ranges.py search/test_bias_correction.py",
    "search/extensions/implicit_minimax.py": "search/test_ranges.py search/test_rivals.py",
    "search/extensions/move_history.py": "search/test_rivals.py memory/test_moves.py",
    "search/extension.py": "search/test_extensions.py search/test_returns.py games/test_nature.py",
    "search/columns.py": "search/test_extensions.py search/test_rules.py search/test_parallel.py "
    "memory/test_memory_search.py",
    "search/operators.py": "search/test_rules.py search/test_extensions.py",
    "search/preset.py": "search/test_rules.py search/test_extensions.py search/test_search.py search/test_parallel.py",
    "search/schedules.py": "search/test_rules.py search/test_backup.py search/test_reference.py",
    "search/extensions/gumbel.py": "search/test_ranges.py search/test_gumbel.py",
    "search/extensions/known_differences.py": "search/test_known_differences.py",
    "search/extensions/local_bounds.py": "search/test_sarsa.py",
    "search/extensions/": "search/test_ranges.py search/test_rivals.py",
    "search/returns.py": "search/test_returns.py games/test_nature.py",
    "search/nature.py": "search/test_returns.py games/test_nature.py search/test_known_differences.py",
    "search/expansion.py": "search/test_search.py search/test_priors.py search/test_parallel.py games/test_nature.py",
    "search/tree.py": "search/test_search.py trees/test_tree_file.py search/test_returns.py search/test_reference.py",
    "search/": "search/test_search.py search/test_reference.py search/test_priors.py",
}
"""The fast tests that hold a file, or all files of a folder; the first entry that fits counts."""


class _Plain(ast.NodeTransformer):
    """Without annotations, which do nothing at run time."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(0)
        return self.generic_visit(node)


def meaning(code: str) -> str:
    return ast.dump(_Plain().visit(ast.parse(code)))


def mutants(code: str, rng: random.Random, most: int) -> list[tuple[str, str]]:
    """(what it changes, mutated code) at random places that an operator can change."""
    tree, places = parso.parse(code), dict[tuple[object, object], list[tuple[str, int]]]()
    for name in sorted(name for name in operator_names() if "Variable" not in name):  # these need names
        operator, occurrence = get_operator(name)(), 0
        for node in ast_nodes(tree):
            for place in operator.mutation_positions(node):
                places.setdefault(place, []).append((name, occurrence))
                occurrence += 1
    order = sorted(places)
    rng.shuffle(order)
    mutations = []
    for place in order:
        if len(mutations) == most:
            break
        name, occurrence = rng.choice(places[place])
        mutated = mutate_code(code, get_operator(name)(), occurrence)
        try:
            if mutated is not None and meaning(mutated) != meaning(code):
                line = f"{place[0][0]}: {name.removeprefix('core/')}"
                mutations.append((line, mutated))
        except SyntaxError:
            continue
    return mutations


def survives(file: str, mutated: str, copy: Path) -> bool:
    """Whether the tests of a file pass with its mutant."""
    tests = next(tests for start, tests in TESTS.items() if file.startswith(start))
    check_sound(tests, copy)
    place = copy / "engram" / file
    original = place.read_text()
    try:
        write(place, mutated)
        return result_of(tests, copy).returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        write(place, original)


def write(place: Path, code: str) -> None:
    """Writes a source with a time of its own, by which Python knows that its compiled file is another's."""
    place.write_text(code)
    stamp = time.time_ns() // 10**8 % 2**31
    os.utime(place, (stamp, stamp))


@cache
def check_sound(tests: str, copy: Path) -> None:
    """Checks that tests pass without a mutant, which compiles all that the mutants leave alone."""
    done = result_of(tests, copy, FIRST_S)
    assert done.returncode == 0, f"{tests} fail without a mutant: {done.stdout[-2000:]}"


def result_of(tests: str, copy: Path, longest_s: float = SLOWEST_S) -> subprocess.CompletedProcess[str]:
    """The end of a run of tests with the sources of the copy."""
    words = ["-n0", "-q", "-x", "-p", "no:cacheprovider"]
    words += [f"tests/{test.removeprefix('tests/')}" for test in tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(copy), "ENGRAM_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, env=environment, capture_output=True, check=False,
        timeout=longest_s, text=True,
    )  # fmt: skip
    assert done.returncode not in (4, 5), f"there are no such tests: {tests}"
    return done


def changed(before: str, after: str) -> str:
    """The lines that a mutant changes."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join(line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="below src/engram; default all of the above")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--most", type=int, default=15, help="mutants of a file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=Path, default=Path("mutation.json"))
    parser.add_argument("--again", action="store_true", help="try the survivors of the rows once more")
    options = parser.parse_args()
    every = [path for room in ("search", "trees", "memory") for path in (SOURCES / room).rglob("*.py")]
    every.append(SOURCES / "arena/statistics.py")
    names = options.files or sorted(str(path.relative_to(SOURCES)) for path in every if path.stat().st_size > 500)
    rows: dict[str, dict[str, str]] = json.loads(options.rows.read_text()) if options.rows.exists() else {}
    mutations: dict[str, list[tuple[str, str]]] = {}
    ends = time.monotonic() + 60 * options.minutes
    copy = options.rows.resolve().with_suffix("") / "src"  # the same place each time: compiled code is kept by place
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for number, name in product(range(options.most), names):
        if time.monotonic() > ends:
            break
        if name not in mutations:
            rng = random.Random(f"{options.seed} {name}")
            mutations[name] = mutants((SOURCES / name).read_text(), rng, options.most)
        if number >= len(mutations[name]):
            continue
        line, mutated = mutations[name][number]
        old = rows.get(name, {}).get(line, "")
        if old == "killed" or (old and not options.again):
            continue
        lives = survives(name, mutated, copy)
        what = changed((SOURCES / name).read_text(), mutated) if lives else "killed"
        rows.setdefault(name, {})[line] = what
        print(f"{name}:{line}: {what}", flush=True)
        with storage.whole(options.rows) as part:
            part.write_text(json.dumps(rows, indent=1))
    for name, results in rows.items():
        killed = sum(result == "killed" for result in results.values())
        print(f"{name}: {killed} of {len(results)} killed")


if __name__ == "__main__":
    main()
