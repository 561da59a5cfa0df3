"""Does a backup rule keep its contract? `check_backup` runs it in real searches and checks their trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engram.drivers.search import Search
from engram.errors import InvalidParameter, OperatorError
from engram.games.line.one_word import line
from engram.presets.rollouts import uct
from engram.search.limit import Limit
from engram.search.operators import Operator
from engram.search.tree import Tree


@dataclass(frozen=True)
class BackupReport:
    """The result of `check_backup`: simulations run, and the range of the values in the trees."""

    rule: str
    simulations: int
    lowest: float
    highest: float

    def __str__(self) -> str:
        values = f"values in [{self.lowest:+.3f}, {self.highest:+.3f}]"
        return f"{self.rule}: {self.simulations} simulations, {values}; sound"


def check_backup(rule: Operator, simulations: int = 1000, seed: int = 0) -> BackupReport:
    """Runs a backup rule in searches of two games and checks their trees.

    Every value is in [-1, 1]. A simulation adds one visit to each node of its path, so a node has one visit more than
    its children together. A leaf with one visit has the value of its return. The same seed gives the same tree.

    Args:
      rule: a backup operator with its numbers. simulations: in each game, ≥ 2.

    Raises:
      InvalidParameter: one of these does not hold; the sentence says which.
    """
    name = rule.definition.name
    _check_leaf(rule, simulations)
    lowest, highest, total = 1.0, -1.0, 0
    for game in (line(3, 3, 3), line(4, 5, 3, gravity=True)):
        trees = []
        for _ in range(2):
            search = Search(game, uct(backup=rule))
            try:
                result = search.run(game.initial_state(), Limit(simulations=simulations), seed=seed)
            except OperatorError:
                raise InvalidParameter(f"{name}: it failed, or gave a value outside [-1, 1]") from None
            total += result.simulations
            trees.append(search.tree.nodes[: search.tree.num_nodes])
        _check_nodes(name, trees[0], simulations)
        fields = ("visit_count", "value", "action")
        if len(trees[0]) != len(trees[1]) or any((trees[0][field] != trees[1][field]).any() for field in fields):
            raise InvalidParameter(f"{name}: the same seed gave two different trees")
        values = trees[0]["value"][trees[0]["visit_count"] > 0]
        lowest, highest = min(lowest, values.min()), max(highest, values.max())
    return BackupReport(str(rule), total, float(lowest), float(highest))


def _check_leaf(rule: Operator, budget: int) -> None:
    """A tree of one node gets one return."""
    path = np.zeros(1, np.int32)
    for value in (-0.75, 0.5):
        tree = Tree(1, 4, rule.columns)
        numbers = rule.bind(budget, tree.columns)
        status = rule.definition.callback.from_python(
            tree.header.ctypes.data, path.ctypes.data, 0, value, numbers.address
        )
        if status < 0 or tree.nodes[0]["visit_count"] != 1 or abs(tree.nodes[0]["value"] - value) > 1e-12:
            raise InvalidParameter(
                f"{rule.definition.name}: a leaf with the return {value} has the value {tree.nodes[0]['value']}"
                f" and {tree.nodes[0]['visit_count']} visits"
            )


def _check_nodes(name: str, nodes: np.ndarray, simulations: int) -> None:
    """Visit counts and values of a whole tree."""
    visited = nodes[nodes["visit_count"] > 0]
    if not len(visited) or nodes[0]["visit_count"] != simulations:
        raise InvalidParameter(f"{name}: the root has {nodes[0]['visit_count']} visits after {simulations} simulations")
    if not np.isfinite(visited["value"]).all() or np.abs(visited["value"]).max() > 1.0 + 1e-9:
        raise InvalidParameter(f"{name}: a value is outside [-1, 1]")
    for node in nodes[nodes["num_visited"] > 0]:
        children = nodes[node["first_child"] : node["first_child"] + node["num_visited"]]
        if int(children["visit_count"].sum()) + 1 != int(node["visit_count"]) or not children["visit_count"].all():
            raise InvalidParameter(f"{name}: a node's visit count is not one more than that of its children")
