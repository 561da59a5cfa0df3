"""Columns and extensions: rows against a dictionary, several extensions at once, a rule of a user's file."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram.drivers.limit import Limit
from engram.drivers.lockstep import RootNoise
from engram.errors import InvalidFile, InvalidParameter, InvalidSpecification, OperatorError
from engram.memory.similar_positions import PositionMemory, remembering
from engram.memory.values.table import Table
from engram.presets import Preset, puct, rave, td_uct, uct
from engram.presets.values import with_table
from engram.rng import new_rng
from engram.search import operators
from engram.search.backup import average, monotone, trace_step_mix
from engram.search.columns import Advice, advice_dtype
from engram.search.decision import DECISIONS
from engram.search.extension import Extension
from engram.search.extensions.bias_correction import bias_correction
from engram.search.extensions.known_differences import kvda
from engram.search.extensions.proofs import proofs
from engram.search.extensions.rave import AMAF, amaf, update_amaf
from engram.search.operators import (
    HOOKS,
    Column,
    Parameter,
    after_backup,
    backup,
    column_of,
    on_entered,
    on_expanded,
    on_leaf,
    selection,
)  # fmt: skip
from engram.search.selection import ucb1
from engram.search.tree import EXPAND, Tree, nodes_of, swap_rows, zero_rows

number = np.dtype([("mark", np.int64)])
wide = np.dtype([("mark", np.int64), ("more", np.float64)])


# ------------------------------------------------------------------------------------------- rows
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=6),
    st.lists(st.tuples(st.sampled_from(["expand", "swap", "grow", "descend"]), st.integers(0, 10**6)), max_size=30),
)
def test_rows_follow_their_nodes_as_a_dictionary_does(kinds, steps):
    """Every node is named by a number, and each column holds it; whatever the tree does, the two agree."""
    columns = [Column(wide if large else number, f"c{k}", follows) for k, (large, follows) in enumerate(kinds)]
    tree = Tree(3, 4000, columns)
    names = {0: 1000}  # node to name

    def write(node):
        for column in columns:
            tree.rows(column)[node]["mark"] = names[node]

    write(0)
    tree.nodes[0]["visit_count"] = 1
    for kind, draw in steps:
        leaves = [node for node in names if tree.nodes[node]["num_children"] == 0]
        if kind == "expand" and leaves and tree.num_nodes + 3 <= len(tree.nodes):
            node, first = leaves[draw % len(leaves)], tree.num_nodes
            for column in columns:  # what an earlier search left there
                tree.rows(column)[first : first + 3]["mark"] = -1
            zero_rows(tree.header[0], first, 3)
            assert all((tree.rows(column)[first : first + 3]["mark"] == 0).all() for column in columns)
            tree.nodes[node]["first_child"], tree.nodes[node]["num_children"] = first, 3
            tree.nodes["visit_count"][first : first + 3], tree.nodes["num_children"][first : first + 3] = 1, 0
            tree.nodes["action"][first : first + 3] = range(3)
            tree.nodes["first_child"][first : first + 3] = 0
            tree.header["num_nodes"] = first + 3
            for child in range(first, first + 3):
                names[child] = 1000 + draw + child
                write(child)
        elif kind == "swap" and tree.num_nodes > 2:
            a, b = 1, 2
            before = {column: tree.rows(column)["mark"][[a, b]].tolist() for column in columns}
            swap_rows(tree.header[0], a, b)
            for column in columns:
                expected = before[column][::-1] if column.follows_action else before[column]
                assert tree.rows(column)["mark"][[a, b]].tolist() == expected
            swap_rows(tree.header[0], a, b)
        elif kind == "grow":
            tree.grow()
        elif kind == "descend" and tree.nodes[0]["num_children"]:
            child = 1 if tree.nodes[0]["first_child"] == 1 else int(tree.nodes[0]["first_child"])
            order, at = [child], 0
            while at < len(order):
                node = tree.nodes[order[at]]
                order += range(int(node["first_child"]), int(node["first_child"]) + int(node["num_children"]))
                at += 1
            assert tree.descend(0)
            names = {place: names[node] for place, node in enumerate(order)}
    for column in columns:
        rows = tree.rows(column)
        assert len(rows) == len(tree.nodes)
        assert all(rows[node]["mark"] == name for node, name in names.items())
    assert list(tree.arrays()) == ["nodes", *(column.name for column in tree.columns)]


# ------------------------------------------------------------------------------------ order of hooks
order = Column(np.dtype([("places", np.int64)]), "order")


@on_expanded(order=order)
def note_expanded(tree, node, state, parameters):
    root = column_of(tree, parameters.order, order.dtype)[0]
    root.places = root.places * 10 + 1
    return 0


@on_entered(order=order)
def note_entered(tree, path, depth, state, parameters):
    root = column_of(tree, parameters.order, order.dtype)[0]
    root.places = root.places * 10 + 2
    return 0


@on_leaf(order=order)
def note_leaf(tree, path, depth, state, embedding, parameters):
    root = column_of(tree, parameters.order, order.dtype)[0]
    root.places = root.places * 10 + 3
    return 0


@after_backup(order=order)
def note_backup(tree, path, depth, value, moves, parameters):
    root = column_of(tree, parameters.order, order.dtype)[0]
    root.places = root.places * 10 + 5
    return 0


@after_backup(order=order)
def note_backup_again(tree, path, depth, value, moves, parameters):
    root = column_of(tree, parameters.order, order.dtype)[0]
    root.places = root.places * 10 + 6
    return 0


follower = Column(np.dtype([("places", np.int64)]), "follower", follows_action=True)


@on_expanded(follower=follower)
def note_actions(tree, node, state, parameters):
    parent = nodes_of(tree)[node]
    for child in range(parent.first_child, parent.first_child + parent.num_children):
        column_of(tree, parameters.follower, follower.dtype)[child].places = nodes_of(tree)[child].action
    return 0


@after_backup(amaf=AMAF)
def read_amaf(tree, path, depth, value, moves, parameters):
    return 0


def test_hooks_are_called_in_the_order_of_a_simulation_and_of_the_extensions():
    first = Extension(
        on_expanded=note_expanded(), on_entered=note_entered(), on_leaf=note_leaf(), after_backup=note_backup()
    )
    second = Extension(after_backup=note_backup_again())
    game = engram.game("connect_four")
    search = engram.Search(game, Preset(selection=uct().selection, extensions=[first, second]))
    search.run(game.initial_state(), Limit(simulations=3))
    # The root alone: leaf, backups. Then it gets children: expanded, entered, leaf, backups. Then the next child.
    assert search.tree.rows(order)["places"][0] == int("356" + "12356" + "2356")
    assert first.name == "the extension note_expanded and note_entered and note_leaf and note_backup"


# ------------------------------------------------------------------------------- several at once
def trees(game, preset, simulations=600, seed=3):
    search = engram.Search(game, preset)
    search.run(game.initial_state(), Limit(simulations=simulations), seed=seed)
    return search


def bytes_of(search):
    return search.tree.nodes[: search.tree.num_nodes].tobytes()


@pytest.mark.parametrize(
    "base", [uct, rave, lambda: uct(backup=bias_correction()), lambda: uct(solver=True, transpositions=True)]
)
def test_memories_beside_other_extensions_have_a_weight_each(base):
    """Two memories of positions, with λ = 0 for the first, the second, both: silent ones change nothing."""
    game, plain = engram.game("connect_four"), base()

    def with_memories(*equivalences):
        memories = tuple(remembering(capacity=300, dimension=64, equivalence=k) for k in equivalences)
        return trees(game, replace(plain, extensions=(*plain.extensions, *memories)))

    both_silent, alone = with_memories(0.0, 0.0), bytes_of(trees(game, plain))
    assert bytes_of(both_silent) == alone
    second, first, both = with_memories(0.0, 30.0), with_memories(30.0, 0.0), with_memories(30.0, 30.0)
    assert bytes_of(second) == bytes_of(first) == bytes_of(with_memories(30.0)) != alone
    assert bytes_of(both) != bytes_of(first)
    stores = [part.store for part in both.extensions if isinstance(part, PositionMemory)]
    assert len(stores) == 2 and all(len(store) == 300 for store in stores)
    assert {"memory", "memory.2", "memory_link", "memory_link.2"} <= set(both.tree.arrays())


def test_a_search_with_several_extensions_goes_on_from_a_file_bit_for_bit(tmp_path):
    game = engram.game("connect_four")
    preset = replace(rave(solver=True), extensions=tuple(remembering(capacity=200, dimension=64) for _ in range(2)))
    full, first, second = (engram.Search(game, preset) for _ in range(3))
    full.run(game.initial_state(), Limit(simulations=700), seed=5)
    first.run(game.initial_state(), Limit(simulations=300), seed=5)
    first.save(tmp_path / "tree")
    second.load(tmp_path / "tree")
    second.run(second.root, Limit(simulations=400), seed=None)
    for name, rows in full.tree.arrays().items():
        used = slice(full.tree.num_nodes)
        if not name.endswith("table"):
            assert rows[used].tobytes() == second.tree.arrays()[name][used].tobytes(), name


# ------------------------------------------------------------------------------- what is refused
def test_what_does_not_go_together_is_said_in_one_sentence():
    game = engram.game("connect_four")
    store = engram.Search(game, replace(uct(), extensions=(remembering(capacity=100),))).extensions[0].store
    twice = [remembering(store=store) for _ in range(2)]
    column = Column(np.dtype([("value", np.float64), ("count", np.float64)]), "shared")
    advising = Extension(name="a", advice=Advice(column))
    base = {"selection": uct().selection}
    for preset, match in (
        (Preset(**base, extensions=[advising, Extension(name="b", advice=Advice(column))]), "a column of its own"),
        (Preset(**base, extensions=twice), "two extensions of one kind have one store"),
        (Preset(**base, extensions=["memory"]), "an engram.Extension"),
        (
            Preset(**base, extensions=[Extension(after_backup=note_backup()) for _ in range(9)]),
            "up to 8 extensions with after_backup",
        ),
        (replace(rave(), extensions=(amaf, amaf)), "RAVE occurs twice with equal numbers, which would count all twice"),
        (Preset(**base, extensions=[advising, advising]), "occurs twice"),
        (Preset(**base, extensions=[Extension(embedding_size=8)]), "no evaluator"),
        (Preset(**base, extensions=[proofs()], threads=2), "the solver is written to by one thread"),
        (Preset(**base, extensions=[Extension(after_backup=note_backup())], threads=2), "note_backup"),
        ("puct(selection=weighted_puct)", "add that rule"),
        (td_uct(table=Table(100), learn=True, transpositions=True), "sharing between transpositions would not see"),
        (Preset(selection=kvda(), extensions=[with_table(Table(100), average())]), "known differences would not see"),
    ):
        with pytest.raises(InvalidParameter, match=match) as refusal:
            engram.Search(game, preset)
        assert str(refusal.value).count(". ") == 0
    with pytest.raises(InvalidParameter, match="on_leaf must be an operator of that kind"):
        Extension(on_leaf=note_backup())
    with pytest.raises(InvalidParameter, match="none', 'root' or 'tree"):
        Extension(threads="many")
    with pytest.raises(InvalidParameter, match="equivalence must be 0 or more"):
        Advice(column, math.nan)
    with pytest.raises(InvalidParameter, match="holds no advice"):
        Advice(order)
    for make, match in (
        (lambda: Advice(None), "None holds no advice"),
        (lambda: Advice(column, "3"), "equivalence must be 0 or more, not '3'"),
        (lambda: Advice(column, bias="3"), "bias must be 0 or more, not '3'"),
        (lambda: Extension(rollout_decay=None), r"rollout_decay is in \[0, 1\]"),
        (lambda: Extension(rollout_discount=math.nan), r"rollout_discount is in \[0, 1\]"),
        (lambda: Parameter(1.0, low=None), "a number as its default, low and high"),
        (lambda: selection()(3), r"@selection\(\) needs a function"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            make()
    with pytest.raises(InvalidParameter, match=r"advice must be an Advice\(column\)"):
        Extension(advice=column)
    with pytest.raises(InvalidParameter, match="must be a tuple of extensions"):
        Preset(**base, extensions=advising)
    for dtype in (np.dtype([]), np.dtype(object)):
        with pytest.raises(InvalidParameter, match="holds numbers"):
            Column(dtype)
    for array in (np.zeros(8, np.uint8)[::-1], np.frombuffer(b"\0" * 16, np.uint8)):
        with pytest.raises(InvalidParameter, match=r"written to|must be an array"):
            update_amaf(first_player=array)
    with pytest.raises(InvalidParameter, match="make each column once"):
        engram.Lockstep(game, Preset(**base, extensions=[with_a_column_for_each]), 2).run(
            [game.initial_state()] * 2, Limit(simulations=5), [1, 2]
        )


def with_a_column_for_each(game):
    column = Column(np.dtype([("places", np.int64)]))
    return Extension(after_backup=note_backup(order=column), store=column, fork=lambda: with_a_column_for_each(game))


# ------------------------------------------------------------------- found by an attack on the rebuilt search
def test_a_refused_budget_leaves_the_last_numbers_in_place():
    game = engram.game("connect_four")
    search = engram.Search(game, uct(backup=monotone(knots=[2.0])))
    search.run(game.initial_state(), Limit(simulations=500))
    for _ in range(3):
        with pytest.raises(InvalidParameter, match="budget"):
            search.run(game.initial_state(), Limit(seconds=0.01))
        assert search.run(game.initial_state(), Limit(simulations=500)).simulations == 500


def test_a_path_to_replay_does_not_outlive_its_tree():
    game = engram.game("connect_four")
    search = engram.Search(game, uct(all_children=True))
    state = game.initial_state()
    for seed in range(30):
        search.run(state, Limit(simulations=37 + seed), seed=seed)
        if search._workspace.slots["replay"][0] >= 3:
            break
    assert search._workspace.slots["replay"][0] >= 3
    search.advance(search.run(state, Limit(simulations=1), seed=None).action)
    search.run(search.root, Limit(simulations=300), seed=None)
    children = search.tree.children()
    assert children["visit_count"].sum() + 1 == search.tree.nodes[0]["visit_count"]


def test_a_replaced_rule_with_a_mix_and_a_reader_of_a_kept_column():
    game = engram.game("connect_four")
    plain = Preset(selection=uct().selection, extensions=(Extension(backup=average()),), backup=bias_correction())
    assert bytes_of(trees(game, plain)) == bytes_of(trees(game, uct()))
    # An extension that reads AMAF does not keep it: RAVE's keeper comes all the same, once.
    reading = Extension(after_backup=read_amaf())
    search = trees(game, Preset(selection=rave().selection, extensions=(reading,)))
    assert [part.name for part in search.extensions] == ["the extension read_amaf", "RAVE"]
    assert bytes_of(search) == bytes_of(trees(game, rave()))
    assert trees(game, Preset(selection=rave().selection, extensions=(amaf,))).extensions[0].name == "RAVE"


def test_noise_at_the_root_turns_columns_with_their_actions():
    class Flat:
        def evaluate(self, states):
            return engram.Evaluation(np.zeros(len(states)), np.ones((len(states), 7)))

    game = engram.game("connect_four")
    noisy = Preset(selection=puct().selection, evaluator=Flat(), extensions=(Extension(on_expanded=note_actions()),))
    together = engram.Lockstep(game, noisy, 1)
    together.run([game.initial_state()], Limit(simulations=2), [5], noise=RootNoise(0.5, 3.0))
    tree = together._groups[0].trees[0]
    actions = tree.children()["action"]
    assert actions.tolist() != sorted(actions, reverse=True) and actions.tolist() != sorted(actions)
    assert (tree.rows(follower)["places"][1:8] == actions).all()


def test_a_file_that_one_of_two_memories_refuses_changes_neither(tmp_path):
    game = engram.game("connect_four")

    def two(dimension):
        memories = tuple(remembering(capacity=300, dimension=size) for size in (64, dimension))
        return Preset(selection=uct().selection, extensions=memories)

    trees(game, two(64)).save(tmp_path / "tree")
    other = engram.Search(game, two(32))
    with pytest.raises(InvalidFile):
        other.load(tmp_path / "tree")
    assert [len(part.store) for part in other.extensions] == [0, 0]
    spoilt = trees(game, two(64))
    spoilt.tree.arrays()["memory.2"]["value"][:] = 1e9
    with pytest.raises(InvalidParameter, match="no search would load it: advice"):  # no reader would take it
        spoilt.save(tmp_path / "tree")


# ---------------------------------------------------------------------------------- faults of a user
@after_backup()
def write_too_much(tree, path, depth, value, moves, parameters):
    nodes_of(tree)[path[depth]].value = 1.5
    return 0


advised = Column(advice_dtype)


@on_leaf(advice=advised)
def advise_nothing(tree, path, depth, state, embedding, parameters):
    row = column_of(tree, parameters.advice, advice_dtype)[path[depth]]
    row.value, row.count = math.nan, 3.0
    return 0


@pytest.mark.parametrize(
    ("extension", "name"),
    [
        (Extension(after_backup=write_too_much()), "after_backup .* write_too_much"),
        (Extension(on_leaf=advise_nothing(), advice=Advice(advised)), "on_leaf .* advise_nothing"),
    ],
)
def test_a_hook_that_spoils_a_node_is_named_and_not_the_game(extension, name):
    search = engram.Search("tic_tac_toe", replace(uct(), extensions=(extension,)))
    with pytest.raises(OperatorError, match=rf"{name} wrote a value or advice that is not in \[-1, 1\]"):
        search.run(search.game.initial_state(), Limit(simulations=3000))


@backup()
def too_large(tree, path, depth, value, parameters):
    nodes = nodes_of(tree)
    for at in range(depth + 1):
        node = nodes[path[at]]
        node.visit_count += 1
        node.value += (1.6 * value - node.value) / node.visit_count
    return 0


def test_a_backup_rule_that_spoils_nodes_is_named_beside_the_hooks():
    preset = replace(uct(), backup=too_large(), extensions=(Extension(after_backup=note_backup()),))
    search = engram.Search("tic_tac_toe", preset)
    with pytest.raises(OperatorError, match=r"note_backup or the backup rule .* too_large wrote a value"):
        search.run(search.game.initial_state(), Limit(simulations=3000))


class Words:
    """A store of a user: what it saves is given."""

    def __init__(self, state, rows=None, *, refuses=False):
        self.parts, self._refuses = (state, rows or {}), refuses

    def state_dict(self):
        return self.parts

    def load_state_dict(self, about, arrays, path):
        if self._refuses:
            raise KeyError("missing")
        self.parts = (dict(about), dict(arrays))


def with_stores(*stores):
    parts = [Extension(after_backup=hook(), store=object(), persistence=store)
             for hook, store in zip((note_backup, note_backup_again), stores, strict=False)]  # fmt: skip
    search = engram.Search("tic_tac_toe", replace(uct(), extensions=tuple(parts)))
    search.run(search.game.initial_state(), Limit(simulations=20))
    return search


@pytest.mark.parametrize(
    "store",
    [
        Words({"v": {1}}),
        Words({}, {"v": [1]}),
        Words({}, {1: np.ones(2)}),
        Words({}, {"v": np.array(["a"])}),
        Words({}, {"v": np.zeros(1, [("it", object)])}),
    ],
)
def test_a_store_that_no_file_can_hold_is_refused_in_a_sentence(store, tmp_path):
    with pytest.raises(InvalidParameter, match="state_dict gives a dictionary of plain data"):
        with_stores(store).save(tmp_path / "tree")
    assert not list(tmp_path.iterdir())


def test_a_store_that_cannot_load_leaves_the_others_as_they_were(tmp_path):
    with_stores(Words({"v": 1}), Words({"v": 2})).save(tmp_path / "tree")
    first, second = Words({"v": 3}), Words({"v": 4}, refuses=True)
    search = with_stores(first, second)
    with pytest.raises(InvalidFile, match="cannot load its part"):
        search.load(tmp_path / "tree")
    assert first.parts[0] == {"v": 3} and search.tree.nodes[0]["visit_count"] == 20


def test_a_class_is_no_extension():
    with pytest.raises(InvalidParameter, match="is a class"):
        replace(uct(), extensions=(Extension,))


# --------------------------------------------------------------------------------- a user's file
def test_the_example_with_a_column_holds_the_sum_of_squares_and_plays():
    from examples.ucb1_tuned import mine, squares, ucb1_tuned

    game = engram.game("connect_four")
    search = trees(game, mine(), 2000)
    nodes, totals = search.tree.nodes[: search.tree.num_nodes], search.tree.rows(squares)["total"]
    # Outcomes are -1, 0 and 1: the sum of squares counts the games that were not drawn, never more than the visits.
    assert (totals[: len(nodes)] <= nodes["visit_count"]).all() and 0.9 * 2000 < totals[0] <= 2000
    children = search.tree.children()
    first = int(nodes[0]["first_child"])
    bounds = []
    for child, row in zip(children, totals[first : first + len(children)], strict=True):
        visits, value = int(child["visit_count"]), float(child["value"])
        logarithm = math.log(2000)
        variance = max(row / visits - value**2, 0.0) + 4 * math.sqrt(2 * logarithm / visits)
        bounds.append(value + math.sqrt(logarithm / visits * min(1.0, variance)))
    rule = ucb1_tuned()
    bound = rule.bind(columns=search.tree.columns)
    assert rule.address
    header, rng = search.tree.header.ctypes.data, new_rng(0).ctypes.data
    answer = rule.definition.callback.from_python(header, 0, rng, bound.address)
    assert answer == first + int(np.argmax(bounds))
    played = engram.match("tic_tac_toe", mine(), "random", games=20, simulations=200, workers=1, database=":memory:")
    assert played.score > 0.8


# ---------------------------------------------------------------------------- presets made in Python
def test_presets_made_in_python_are_told_apart_by_their_texts(tmp_path):
    game = engram.game("connect_four")

    def made(**changes):
        return Preset(**{"selection": uct().selection, **changes})

    presets = [
        made(), made(selection=ucb1(exploration=0.5)), made(backup=monotone(knots=[1.0])),
        made(backup=monotone(knots=[2.0])), made(backup=trace_step_mix(steps=np.array([1.0, 0.5]))),
        made(backup=trace_step_mix(steps=np.array([1.0, 0.25]))), made(extensions=(remembering(),)),
        made(extensions=(remembering(temperature=0.2),)), made(extensions=(remembering(seed=3),)), made(solver=True),
        replace(uct(), extensions=(remembering(),), decision="max"), uct(), uct(backup=trace_step_mix(steps=[1, 0.5])),
        uct(backup=trace_step_mix(steps=[1, 0.25])),
    ]  # fmt: skip
    texts = [preset.text for preset in presets]
    assert len(set(texts)) == len(texts) and texts[-3] == "uct"
    assert texts[0].startswith("custom(<ucb1 and trace_step_mix, ") and not any(" at 0x" in text for text in texts)
    assert made(extensions=(remembering(),)).text == texts[6]
    search = trees(game, presets[0], 50)
    search.save(tmp_path / "tree")
    with pytest.raises(InvalidFile, match="tree of the preset custom"):
        engram.Search(game, presets[1]).load(tmp_path / "tree")
    assert engram.Search(game, uct(), threads=2).preset.text == "uct"
    code = (
        "from engram.presets import Preset, uct\nfrom engram.memory.similar_positions import remembering\n"
        "print(Preset(selection=uct().selection, extensions=(remembering(),)).text)"
    )
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert again.stdout.strip() == texts[6]


def test_a_table_that_a_move_of_the_root_would_empty_is_refused():
    with pytest.raises(InvalidParameter, match="column mine: a move of the root empties a table"):
        Column(np.dtype(np.int32), "mine", new_nodes=False)


@pytest.mark.parametrize("kind", ["selection", "backup", "mix", *HOOKS])
def test_a_decorator_has_its_name_and_its_text(kind):
    decorator = getattr(operators, kind)
    assert decorator.__name__ == decorator.__qualname__ == kind and decorator.__doc__.startswith("Decorator of `")


@pytest.mark.parametrize("name", ["threads", "check", "policy", "evidence", "chance", "rewards"])
def test_a_parameter_with_the_name_of_the_decorator_s_own_is_refused_in_a_sentence(name):
    words = "check, policy, evidence, threads, chance, rewards"
    with pytest.raises(InvalidParameter, match=f"own_name: {words} are the decorator's"):

        @selection(**{name: Parameter(1.0)})
        def own_name(tree, node, rng, parameters):
            return EXPAND


def test_a_parameter_may_be_called_self_and_none_may_hide_another():
    @after_backup(self=Parameter(1.0))
    def of_self(tree, path, depth, value, moves, parameters):
        return 0

    assert of_self(**{"self": 0.5}).values == {"self": 0.5}
    with pytest.raises(InvalidParameter, match="steps_size belongs to another parameter"):

        @after_backup(steps=np.zeros(1), steps_size=Parameter(1.0))
        def twice(tree, path, depth, value, moves, parameters):
            return 0


def test_a_named_preset_says_where_its_other_parts_are_set():
    """`extensions` looks like an option, and the nearest option is of no help."""
    with pytest.raises(InvalidSpecification, match=r"a part of its preset: dataclasses.replace\(uct\(\.\.\.\), extens"):
        uct(extensions=(proofs(),))
    assert replace(uct(), extensions=(proofs(),)).extensions


@pytest.mark.parametrize("fault", ["another", "nothing", "itself"])
def test_a_fork_that_is_no_second_extension_is_refused(fault):
    game = engram.game("tic_tac_toe")
    first = Extension(
        after_backup=note_backup(), store=object(),
        fork=lambda: {"another": Extension(name="other"), "nothing": None, "itself": first}[fault],
    )  # fmt: skip
    with pytest.raises(InvalidParameter, match="fork must return"):
        engram.Lockstep(game, replace(uct(), extensions=(first,)), 2)


def test_columns_of_any_names_are_all_saved():
    record = np.dtype([("x", np.float64)])
    columns = [Column(record, name) for name in ("memory.2", "memory", "memory", "nodes")]
    assert len(Tree(3, 100, columns).arrays()) == 5


@pytest.mark.parametrize("answer", [99, -1, 1.7, math.nan, None])
def test_a_decision_that_names_no_move_is_refused(answer):
    DECISIONS["astray"] = lambda value, visits: answer
    try:
        search = engram.Search("tic_tac_toe", "uct(decision='astray')")
        with pytest.raises(InvalidParameter, match="the decision astray gave"):
            search.run(search.game.initial_state(), Limit(simulations=30))
    finally:
        DECISIONS.pop("astray")


def test_functions_that_take_other_arguments_are_named_with_their_place():
    def nothing():
        return Extension()

    with pytest.raises(InvalidParameter, match=r"test_extensions\.py:\d+ nothing must take \(game\)"):
        engram.Search("tic_tac_toe", replace(uct(), extensions=(nothing,)))
    for option in ("new_game", "fork"):
        with pytest.raises(InvalidParameter, match=rf"{option} of .* must take \(\)"):
            Extension(**{option: lambda game: None})
    with pytest.raises(InvalidParameter, match="persistence needs state_dict"):
        Extension(persistence=object())
    with pytest.raises(InvalidParameter, match="without its parentheses"):
        Extension(after_backup=_count)


@after_backup(weight=np.float32(2.0))
def _count(tree, path, depth, value, moves, parameters):
    return 0


def test_parameters_are_numbers_of_any_kind_and_nothing_else():
    assert _count(weight=np.int64(3)).values["weight"] == 3.0
    with pytest.raises(InvalidParameter, match=r"weights must be a number, .* not \[1.0, 2.0\]"):

        @after_backup(weights=[1.0, 2.0])
        def odd(tree, path, depth, value, moves, parameters):
            return 0


def test_numpy_numbers_stand_in_a_text():
    assert uct(expand_after=np.int64(2)).text == uct(expand_after=2).text != uct(expand_after=np.int64(8)).text
