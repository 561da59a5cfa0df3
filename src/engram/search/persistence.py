"""A search on disk: its tree, the state of its generator, and the names to read it without the game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram import storage
from engram.errors import InvalidFile, InvalidParameter
from engram.games.game import NATURE, SLACK, copy_state
from engram.games.python_game import PythonGame
from engram.native.intrinsics import call
from engram.native.jit import compiled
from engram.pictures.diagrams import WIDTH, icicle
from engram.pictures.markup import Markup, key, notebook, safe
from engram.search.columns import COUNT, VALUE, bounded
from engram.search.extension import Persistence
from engram.search.returns import UNKNOWN
from engram.search.tree import CHANCE, PLAYER_1, TERMINAL, Tree, node_dtype
from engram.search.visible import visible
from engram.search.workspace import FLAG_OF_PLAYER, UNBOUNDED, Workspace

KIND = "tree"
FORMAT = 2
COLUMN = "column_"
"""Prefix of the names of a tree's arrays in a file."""
NODES = COLUMN + "nodes"
_SLOT_FIELDS = ("depth", "replay", "done")


@dataclass(frozen=True)
class SavedTree:
    """A tree read from a file for inspection; `Search.load` continues it.

    Attributes:
      game, preset: their specifications.
      nodes: (number of nodes,) records; see `tree.py`; values for player 0, in [-1, 1].
      action_names: by action.
      diagram: the root's position.
      bounds: of the game's returns, to which values of -1 and 1 belong.
    """

    game: str
    preset: str
    nodes: np.ndarray
    action_names: tuple[str, ...]
    diagram: str
    bounds: tuple[float, float] = (-1.0, 1.0)

    @classmethod
    def read(cls, path: str | Path, *, max_bytes: int = 1 << 36) -> SavedTree:
        """The tree in a file.

        Raises:
          InvalidFile: no such file, not a tree of this format, larger than `max_bytes`, or damaged.
        """
        about, arrays = _read(path, max_bytes)
        names, low_high = tuple(about["action_names"]), tuple(about.get("bounds") or (-1.0, 1.0))
        return cls(about["game"], about["preset"], arrays[NODES], names, about["diagram"], low_high)

    def in_units(self, value: Any) -> Any:
        """Values of nodes in the game's units."""
        low, high = self.bounds
        return value if self.bounds == (-1.0, 1.0) else 0.5 * (low + high) + 0.5 * (high - low) * value

    def picture(self, depth: int = 12) -> Markup:
        """The tree as an SVG element: boxes as wide as their share of the visits, in the colour of their value.

        Args:
          depth: most generations, ≥ 1.
        """
        part = visible(self.nodes, 0, WIDTH, depth)
        about = f"the tree of a search of {self.game}: {len(part['visits']):,} of {len(self.nodes):,} nodes are shown"
        return icicle(part, lambda action: self.action_names[action], about=about)

    def _repr_html_(self) -> str:
        """The output of a notebook: the tree as an icicle."""
        root = self.nodes[0]
        value = f"{self.in_units(float(root['value'])):+.3f}"
        return notebook(
            Markup(f"<h4>{safe(self.game)}: {safe(self.preset)}</h4>"),
            f"{len(self.nodes):,} nodes, {root['visit_count']:,} visits, value {value} for the first player. "
            "A box is a position: its width is its share of the visits.",
            self.picture(), key(("the first player", "the second player")),
        )  # fmt: skip

    @property
    def player(self) -> int:
        """The player to move at the root, 0 or 1."""
        return int(self.nodes[0]["flags"] & PLAYER_1)


def check_save(path: str | Path, work: Workspace) -> None:
    """Rejects what `save` would reject; see `Search.check_save`."""
    _check_work(work)
    storage.check_place(path)


def _check_work(work: Workspace) -> None:
    """Rejects a workspace that no file can hold."""
    if isinstance(work.game, PythonGame):
        raise InvalidParameter(f"{work.game.name}: its positions are Python objects, which a file cannot hold")
    for extension in work.extensions[0]:
        if extension.store is not None and extension.persistence is None:
            raise InvalidParameter(f"{extension.name} of this search is shared or has no file form: no tree is saved")
    if len(work.trees) > 1 or work.threads > 1:
        raise InvalidParameter("a search with several trees or threads is not saved")


def save(path: str | Path, work: Workspace, *, asks: bool = False) -> None:
    """Writes the one tree of a workspace; see `Search.save`. `asks`: the tree grows by `ask` and `tell`."""
    check_save(path, work)
    game, tree = work.game, work.trees[0]
    about = {
        "format": FORMAT, "game": game.name, "preset": work.preset.text, "full": tree.full,
        "slot": {name: int(work.slots[0][name]) for name in _SLOT_FIELDS} | {"done": work.done(0)},
        "action_names": [game.action_name(action) for action in range(game.num_actions)],
        "diagram": game.render(game.read(work.root_states[0])),
        "discount": game.discount, "bounds": None if tree.header["learns"][0] == UNKNOWN else list(tree.bounds),
    }  # fmt: skip
    if asks:
        about["leaves"] = {
            "next": work.num_asked, "priors_left": work.slots["priors_left"].tolist(),
            "in_flight": [[number, slot, work.path(slot).tolist()] for slot, number in work.in_flight.items()],
        }  # fmt: skip
    arrays = {COLUMN + name: rows[: tree.num_nodes] for name, rows in tree.arrays().items()}
    places = {name: getattr(work, name)[0] for name in ("root_states", "paths")}
    states = {}
    for prefix, extension in _stores(work):
        states[prefix], rows = extension.state_dict()
        arrays |= {prefix + name: array for name, array in rows.items()}
    about["stores"] = states
    storage.save(path, KIND, about, arrays | places | {"rng": work.rngs["word"][0]})


def load(path: str | Path, work: Workspace, max_bytes: int) -> bool:
    """Loads the tree of a file into a workspace; see `Search.load`. A rejected file changes nothing.

    Returns whether the tree grew by `ask` and `tell`.

    Cost: a copy of a state, a move and its legal actions for each visited node, which are all played again.
    """
    _check_work(work)
    tree = work.trees[0]
    about, arrays = _read(path, max_bytes)
    _check_fit(path, work, about, arrays)
    fault = _column_fault(tree, arrays) or _rule_fault(work, arrays)
    if fault:
        raise InvalidFile(f"{path} is not sound: {fault}")
    _load_stores(path, work, about, arrays)
    count = len(arrays[NODES])
    while len(tree.nodes) < count:
        tree.grow()
    tree.clear()
    for name, rows in tree.arrays().items():
        rows[:count] = arrays[COLUMN + name]
    tree.header["num_nodes"] = count
    tree.header["full"] = about["full"]
    if work.preset.bounds == "learnt":
        tree.set_bounds(tuple(about["bounds"]) if about.get("bounds") else None)
    tree.rebuild(moved=True)
    work.root_states[0] = arrays["root_states"]
    work.paths[0] = arrays["paths"]
    work.rngs["word"][0] = arrays["rng"]
    for name in _SLOT_FIELDS:
        work.slots[name] = 0
        work.slots[0][name] = about["slot"][name]
    leaves = about.get("leaves")
    work.in_flight.clear()
    if leaves is None:
        return False
    work.start(0, UNBOUNDED, None)
    work.slots[0]["done"] = about["slot"]["done"]
    work.slots["priors_left"] = leaves["priors_left"]
    work.num_asked = leaves["next"]
    for number, slot, nodes in leaves["in_flight"]:
        work.wait_again(slot, number, nodes)
    return True


def _check_fit(path: str | Path, work: Workspace, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Rejects a sound file that does not fit the workspace."""
    game, tree = work.game, work.trees[0]
    for kind, name in (("game", game.name), ("preset", work.preset.text)):
        if about[kind] != name:
            raise InvalidFile(f"{path} holds a tree of the {kind} {about[kind]}, not of {name}")
    discount = about.get("discount", game.discount)  # older files lack it
    if discount != game.discount:
        raise InvalidFile(f"{path} holds returns with a discount of {discount:g}, not of {game.discount:g}")
    dtypes = {COLUMN + name: rows.dtype for name, rows in tree.arrays().items()}
    dtypes |= {"root_states": work.root_states.dtype, "paths": work.paths.dtype, "rng": np.dtype(np.uint64)}
    shapes = {"root_states": work.root_states[0].shape, "paths": work.paths[0].shape, "rng": (2,)}
    count, num_names = len(arrays[NODES]), len(about["action_names"])
    for name, dtype in dtypes.items():
        fits = name in arrays and arrays[name].dtype == dtype and arrays[name].shape == shapes.get(name, (count,))
        if not fits:
            raise InvalidFile(f"{path} was written by another version of engram or of {game.name}: its {name} differ")
    if num_names != game.num_actions:
        raise InvalidFile(f"{path} names {num_names:,} actions, and {game.name} has {game.num_actions}")
    if set(about["stores"]) != {prefix for prefix, _ in _stores(work)}:
        raise InvalidFile(f"{path} holds a tree with other extensions than this search has")
    bounds = tuple(about.get("bounds") or (-1.0, 1.0))
    if work.preset.bounds != "learnt" and bounds != tree.bounds:
        raise InvalidFile(f"{path} holds returns between {bounds[0]:g} and {bounds[1]:g}, unlike those of {game.name}")
    if "leaves" in about and (work.evaluator is None or len(about["leaves"]["priors_left"]) != work.sharers):
        raise InvalidFile(
            f"{path} holds a search that asks an evaluator outside: make the search with "
            f"leaves={len(about['leaves']['priors_left'])}"
        )
    if count > tree.max_nodes:
        raise InvalidFile(f"{path} holds {count:,} nodes, and this search is bounded to {tree.max_nodes:,}")


def _column_fault(tree: Tree, arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first fault in the columns, or None."""
    advised = {advice.column for advice in tree.advice}
    names = list(tree.arrays())[1:]  # of the columns, in their order; two columns may share a name
    for column, name in zip(tree.columns, names, strict=True):
        rows = arrays[COLUMN + name]
        fault = column.fault(rows) if column.fault is not None else None
        if fault:
            return fault
        if column in advised and bounded(value=VALUE, count=COUNT)(rows):
            return "advice on a node is not in [-1, 1], or has no weight"
    return None


def _rule_fault(work: Workspace, arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first fault of the root's state or of a node by the rules of the game, or None."""
    game, nodes = work.game, arrays[NODES]
    if not arrays["rng"].any():
        return "the state of its random generator is all 0"
    states = np.zeros((game.max_moves + 2, len(arrays["root_states"])), np.uint64)
    states[0] = arrays["root_states"]
    root = game.read(states[0])
    if not game.is_sound(root) or game.is_over(root):
        return f"its root is not a position of {game.name}, or is over"
    if FLAG_OF_PLAYER.get(game.to_play(root)) != int(nodes[0]["flags"] & (PLAYER_1 | CHANCE)):
        return "its root and its position have different players to move"
    node = _illegal_node(work.program["game"][0], nodes, states, np.zeros(game.num_actions + SLACK, np.int32))
    return None if node < 0 else f"its node {node} breaks the rules of {game.name}"


@compiled
def _illegal_node(game, nodes, states, actions):
    """The first node whose player, end or children are not those of the rules, or -1; `states` has a row a depth."""
    width = states.shape[1] * 8
    path = np.zeros(len(states), np.int64)
    num_passed = np.zeros(len(states), np.int64)  # children that the walk has passed, at each depth
    parents = np.zeros(game.num_actions, np.int64)
    depth = np.int64(0)
    while depth >= 0:
        index = path[depth]
        node = nodes[index]
        first = np.int64(node.first_child)
        state = states.ctypes.data + depth * width
        if num_passed[depth] == 0:
            legal = call(game.legal_actions, (state, actions.ctypes.data))
            is_over = node.flags & TERMINAL != 0
            mover = NATURE if node.flags & CHANCE else np.int64(node.flags & PLAYER_1)
            if call(game.to_play, (state,)) != mover or (legal == 0) != is_over:
                return index
            if node.num_children > 0:
                if legal != np.int64(node.num_children):
                    return index
                for k in range(legal):
                    parents[actions[k]] = index + 1
                for child in range(first, first + legal):
                    if parents[nodes[child].action] != index + 1:
                        return index
                    parents[nodes[child].action] = 0
        if num_passed[depth] == np.int64(node.num_visited):
            depth -= 1
            continue
        child = first + num_passed[depth]
        num_passed[depth] += 1
        depth += 1
        if depth == len(states):
            return index
        below = states.ctypes.data + depth * width
        if copy_state(game, below, state) < 0 or call(game.play, (below, np.int64(nodes[child].action))) < 0:
            return index
        path[depth] = child
        num_passed[depth] = 0
    return np.int64(-1)


def _load_stores(path: str | Path, work: Workspace, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Loads all stores, or none: a store that refuses its contents undoes the ones before it."""
    replaced = []
    try:
        for prefix, store in _stores(work):
            contents = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            state, rows = store.state_dict()
            before = store, state, {name: array.copy() for name, array in rows.items()}
            store.load_state_dict(about["stores"][prefix], contents, path)
            replaced.append(before)
    except InvalidFile:
        for store, state, rows in replaced:
            store.load_state_dict(state, rows, path)
        raise


def _stores(work: Workspace) -> list[tuple[str, Persistence]]:
    """The prefix of its arrays, and the persistence, of each extension with a store."""
    return [
        (f"extension_{number}_", extension.persistence)
        for number, extension in enumerate(work.extensions[0])
        if extension.persistence is not None
    ]


def _read(path: str | Path, max_bytes: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    about, arrays = storage.load(path, KIND, max_bytes=max_bytes)
    if about.get("format") != FORMAT:
        raise InvalidFile(f"{path} holds a tree of format {about.get('format')}, and this engram reads {FORMAT}")
    fault = _fault(about, arrays)
    if fault:
        raise InvalidFile(f"{path} is not sound: {fault}")
    return about, arrays


def _fault(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first fault that could crash or hang a reader, or None; a checksum shows only that the file is whole."""
    kinds = {
        "game": str, "preset": str, "diagram": str, "action_names": list, "slot": dict, "full": bool, "stores": dict,
    }  # fmt: skip
    if any(not isinstance(about.get(key), kind) for key, kind in kinds.items()):
        return "its description is incomplete"
    slot, names, states = about["slot"], about["action_names"], about["stores"].values()
    numbers = [slot.get(name) for name in _SLOT_FIELDS]
    whole = all(isinstance(number, int) and 0 <= number < 2**62 for number in numbers)
    typed = all(isinstance(name, str) for name in names) and all(isinstance(state, dict) for state in states)
    if not whole or not typed:
        return "its description is incomplete"
    discount = about.get("discount", 1.0)
    if type(discount) not in (int, float) or not 0.0 < discount <= 1.0:
        return "its discount is not a number above 0 and up to 1"
    bounds = about.get("bounds")
    if bounds is not None:
        is_pair = isinstance(bounds, list) and [type(bound) for bound in bounds] == [float, float]
        if not is_pair or not -1e300 < bounds[0] <= bounds[1] < 1e300:
            return "its bounds are not a pair of numbers, the lower first"
    nodes = arrays.get(NODES)
    if nodes is None or nodes.dtype != node_dtype or nodes.ndim != 1 or not len(nodes):
        return "it has no nodes, or nodes of another version of engram"
    first, children = nodes["first_child"].astype(np.int64), nodes["num_children"].astype(np.int64)
    num_visited, flags, prior = nodes["num_visited"], nodes["flags"], nodes["prior"]
    # Children follow one another and their parents, so that each node has one parent and no walk loops.
    parents = np.flatnonzero(children)
    parents = parents[np.argsort(first[parents], kind="stable")]
    ends = np.append(1, 1 + np.cumsum(children[parents]))
    joined = np.array_equal(first[parents], ends[:-1]) and ends[-1] == len(nodes) and (first[parents] > parents).all()
    if not joined or (first[children == 0] != 0).any():
        return "a node's children lie outside the tree, or belong to two nodes"
    parent = np.repeat(parents, children[parents])  # of nodes 1, 2, …
    visited = np.arange(1, len(nodes)) - first[parent] < num_visited[parent]
    counted = nodes["visit_count"][1:] > 0
    if (num_visited > children).any() or (counted & ~visited).any():
        return "a node's visits do not fit its children's"
    fault = _leaf_fault(about.get("leaves"), nodes, 1 + np.flatnonzero(visited & ~counted))
    if fault:
        return fault
    if children[1:][~visited].any() or (flags > 2 * CHANCE - 1).any() or not ((prior >= 0) & (prior <= VALUE)).all():
        return "a node has impossible flags, children or a prior"
    if not ((nodes["action"] >= 0) & (nodes["action"] < len(names))).all():
        return "it has an action outside the game"
    if not (np.abs(nodes["value"]) <= VALUE).all() or nodes["claim"].any():
        return "a value is not in [-1, 1], or a thread was at work"
    paths = arrays.get("paths", np.zeros(1, np.int32))
    whole = (paths.dtype, paths.ndim) == (np.dtype(np.int32), 1) and slot["replay"] <= len(paths)
    if not whole or not _is_path(nodes, paths[: slot["replay"]]):
        return "its last path is not valid"
    return None


def _leaf_fault(leaves: Any, nodes: np.ndarray, without_visits: np.ndarray) -> str | None:
    """The first fault in the leaves in flight, or None; only they are entered nodes without visits."""
    sentence = "its leaves in flight are not those of its tree"
    if leaves is None and len(without_visits):
        return "a node's visits do not fit its children's"
    if leaves is None:
        return sentence if nodes["in_flight"].any() else None
    if not isinstance(leaves, dict) or any(
        not isinstance(leaves.get(name), list) for name in ("priors_left", "in_flight")
    ):
        return sentence
    priors_left, rows = leaves["priors_left"], leaves["in_flight"]
    if any(not isinstance(row, list) or len(row) != 3 or not isinstance(row[2], list) or not row[2] for row in rows):
        return sentence
    numbers, slots, paths = ([row[place] for row in rows] for place in range(3))
    whole = [leaves.get("next"), *priors_left, *numbers, *slots, *(node for path in paths for node in path)]
    if any(type(number) is not int or not -(2**62) <= number <= 2**62 for number in whole):
        return sentence
    if len(set(numbers)) < len(rows) or len(set(slots)) < len(rows) or not 1 <= len(priors_left) <= 1024:
        return sentence
    bounds = [(number, leaves["next"]) for number in numbers] + [(slot, len(priors_left)) for slot in slots]
    if not all(0 <= number < bound for number, bound in bounds):
        return sentence
    if any(path[0] != 0 or _end(nodes, path) < 0 for path in paths):
        return sentence
    in_flight = np.zeros(len(nodes), np.int64)
    if len(priors_left) > 1:
        np.add.at(in_flight, [node for path in paths for node in path], 1)
    same = np.array_equal(nodes["in_flight"], in_flight)
    return None if same and set(without_visits.tolist()) <= {path[-1] for path in paths} else sentence


def _end(nodes: np.ndarray, path: Sequence[int]) -> int:
    """The node to which a path leads from the root through visited children, or -2."""
    at = 0
    for step in path[1:]:
        first = int(nodes[at]["first_child"])
        if not max(first, 1) <= step < first + int(nodes[at]["num_visited"]):
            return -2
        at = step
    return at


def _is_path(nodes: np.ndarray, path: np.ndarray) -> bool:
    """Whether a path leads from the root through visited children to a node with an unvisited one; or is empty."""
    if not len(path):
        return True
    end = _end(nodes, path.tolist())
    return end >= 0 and int(path[0]) == 0 and bool(nodes[end]["num_visited"] < nodes[end]["num_children"])
