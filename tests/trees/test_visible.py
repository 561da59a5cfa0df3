"""The nodes that a picture of a tree shows, against a plain walk by generations."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import engram
from engram.search.tree import PLAYER_1, PROVEN, TERMINAL, Tree
from engram.trees.visible import HIDES, visible


def shown_plainly(nodes, top, width, depth):
    """(node, place of its parent) in the order of the picture: a node shown is at least two pixels wide."""
    least = max(1.0, 2.0 * float(nodes[top]["visit_count"]) / width)
    shown, generation = [], [(top, -1)]
    for _ in range(depth):
        start, following = len(shown), []
        shown += generation
        for place, (node, _) in enumerate(generation, start):
            first, count = int(nodes[node]["first_child"]), int(nodes[node]["num_visited"])
            children = [child for child in range(first, first + count) if nodes[child]["visit_count"] >= least]
            children.sort(key=lambda child: -int(nodes[child]["visit_count"]))
            following += [(child, place) for child in children]
        generation = following
    return shown


def assert_shows(nodes, top, width, depth):
    part, plain = visible(nodes, top, width, depth), shown_plainly(nodes, top, width, depth)
    records = nodes[[node for node, _ in plain]]
    drawn = Counter(parent for _, parent in plain)
    hides = [records["num_visited"][place] > drawn[place] for place in range(len(plain))]
    assert part["parent"] == [parent for _, parent in plain]
    assert part["action"] == records["action"].tolist() and part["visits"] == records["visit_count"].tolist()
    assert part["value"] == pytest.approx(records["value"], rel=0, abs=5.1e-8)
    flags = records["flags"] & (PLAYER_1 | TERMINAL | PROVEN)
    assert part["flags"] == (flags + np.where(hides, HIDES, 0)).tolist()
    return part


@pytest.mark.parametrize("depth", [1, 2, 4, 40])
@pytest.mark.parametrize("width", [50, 333, 100_000])
def test_a_picture_shows_what_a_plain_walk_finds(width, depth):
    game = engram.game("connect_four")
    search = engram.Search(game, "uct(solver=true)")
    search.run(game.play_moves("4 1 4 1"), engram.Limit(simulations=800), seed=2)
    nodes = search.tree.nodes[: search.tree.num_nodes]
    part = assert_shows(nodes, 0, width, depth)
    assert (max(part["parent"]) > 0) == (depth > 2)
    inner = int(nodes[0]["first_child"])
    assert_shows(nodes, inner, width, depth)


def test_two_pixels_are_wide_enough():
    tree = Tree(3, 16)
    tree.header["num_nodes"] = 4
    tree.nodes["visit_count"][:4] = 100, 4, 3, 90
    tree.nodes["first_child"][0], tree.nodes["num_children"][0], tree.nodes["num_visited"][0] = 1, 3, 3
    tree.nodes["action"][1:4] = 0, 1, 2
    part = visible(tree.nodes[:4], 0, 50, 12)
    assert part["visits"] == [100, 90, 4] and part["action"][1:] == [2, 0] and part["flags"] == [HIDES, 0, 0]
    assert visible(tree.nodes[:4], 0, 67, 12)["flags"] == [0, 0, 0, 0]
    assert visible(tree.nodes[:4], 1, 50, 12)["visits"] == [4]
