"""`td_uct` on top of a table: twin in plain Python, frozen and learning, mirror images, files."""

from __future__ import annotations

import math

import numpy as np
import pytest

import engram
from engram.errors import EngramError, InvalidFile, InvalidParameter, OperatorError
from engram.games.python_game import PythonGame
from engram.memory.values import table_files
from engram.memory.values.table import Table
from engram.native.jit import compiled
from engram.presets.catalogue import preset
from engram.presets.values import with_table
from engram.search import backup as backups
from engram.search.extensions.transpositions import exact_parents
from engram.search.extensions.uncertainty import uncertainty
from engram.search.preset import Preset
from engram.search.selection import puct
from tests.games_for_tests import Heap
from tests.reference import Backup, LinePosition, ReferenceSearch, ucb1

GAMES = {"connect_four": (6, 7, 4, True), "tic_tac_toe": (3, 3, 3, False)}


def nodes(search):
    return search.tree.nodes[: search.tree.num_nodes].tobytes()


def searched(game, variant, simulations=800, seed=1):
    search = engram.Search(game, variant)
    search.run(game.initial_state(), engram.Limit(simulations=simulations), seed=seed)
    return search


def content(table):
    return {int(e["key"]): (float(e["value"]), int(e["visit_count"])) for e in table.entries[table.used]}


class TableTwin:
    """The table in plain Python: a dictionary of float32 values; a reference search goes through it."""

    def __init__(self, game, rule, learn):
        self.game, self.rule, self.learn = game, rule, learn
        self.entries: dict[int, tuple[float, int]] = {}

    def key(self, moves):
        return self.game.canonical_hash(self.game.play_moves(moves)) or 1

    def search(self, shape, **options):
        twin = self

        class Search(ReferenceSearch):
            def simulate(self, rng):
                self.moves_of = {id(self.root): ()}
                super().simulate(rng)

            def expand(self, node, position, weights=None):
                result = super().expand(node, position, weights)
                moves = moves_to(self.root, node)
                count = 0
                for at, child in enumerate(list(node.children)):
                    after = twin.game.play_moves([*moves, child.action])
                    entry = twin.entries.get(twin.key([*moves, child.action]), (0.0, 0))
                    if twin.game.is_over(after) or entry[1] == 0:
                        continue
                    front, other = node.children[count], node.children[at]
                    front.action, other.action = other.action, front.action
                    front.value = front.mean = entry[0]
                    front.visit_count, front.player = entry[1], twin.game.to_play(after)
                    count += 1
                node.num_visited = count
                return result

        def recall(path, position):
            moves = [node.action for node in path[1:]]
            if twin.learn:
                twin.entries.setdefault(twin.key(moves), (0.0, 0))
            value, visits = twin.entries.get(twin.key(moves), (0.0, 0))
            if path[-1].visit_count == 0 and visits:
                path[-1].value = path[-1].mean = value
                path[-1].visit_count = visits

        def backup(path, value):
            moves = [node.action for node in path[1:]]
            keys = [twin.key(moves[:at]) for at in range(len(path))]
            for node, key in zip(path, keys, strict=True):
                mean, visits = twin.entries.get(key, (0.0, 0))
                if twin.learn and visits and not node.terminal:
                    node.value = node.mean = mean
                    node.visit_count = visits
            twin.rule(path, value)
            for node, key in zip(path, keys, strict=True):
                if twin.learn and key in twin.entries and not node.terminal:
                    twin.entries[key] = float(np.float32(node.value)), node.visit_count

        return Search(LinePosition(*shape), ucb1(1.0), backup=backup, recall=recall, **options)


def moves_to(root, wanted):
    def below(node, moves):
        if node is wanted:
            return moves
        for child in node.children:
            path = below(child, (*moves, child.action))
            if path is not None:
                return path
        return None

    return below(root, ())


def flat(node):
    level, members = [node], []
    while level:
        members += level
        level = [child for parent in level for child in parent.children]
    return sorted(
        (member.action, member.visit_count, round(member.value, 9), member.player, member.num_visited)
        for member in members
    )


def flat_tree(tree):
    used = tree.nodes[: tree.num_nodes]
    used = used[np.arange(len(used)) >= 0]
    return sorted(
        (int(n["action"]) if at else -1, int(n["visit_count"]), round(float(n["value"]), 9), int(n["flags"]) & 1,
         int(n["num_visited"]))
        for at, n in enumerate(used)
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(GAMES))
@pytest.mark.parametrize("bootstrap", ["taken", "best"])
def test_the_twin_in_plain_python_learns_the_same_table(name, bootstrap):
    game = engram.game(name)
    rule = Backup(0.7, 0.9, bootstrap, min_step=0.05)
    twin = TableTwin(game, rule, learn=True)
    table = Table(5000)
    options = {"trace_decay": 0.7, "discount": 0.9, "bootstrap": bootstrap, "min_step": 0.05}
    for seed in range(2):  # the second search begins from what the first has learned
        variant = engram.presets.td_uct(table=table, learn=True, **options)
        search = searched(game, variant, 120, seed)
        reference = twin.search(GAMES[name])
        reference.run(120, seed)
        assert content(table) == twin.entries
        assert flat_tree(search.tree) == flat(reference.root)
    before = content(table)
    frozen = searched(game, engram.presets.td_uct(table=table, **options), 150, 7)
    twin.learn = False
    reference = twin.search(GAMES[name])
    reference.run(150, 7)
    assert flat_tree(frozen.tree) == flat(reference.root)
    assert content(table) == before == twin.entries


@pytest.mark.parametrize("name", sorted(GAMES))
def test_an_empty_frozen_table_is_the_search_without_bit_for_bit(name):
    game, table = engram.game(name), Table(1000)
    with_table = searched(game, engram.presets.td_uct(table=table))
    assert nodes(with_table) == nodes(searched(game, "td_uct")) and len(table) == 0
    thesis = engram.presets.td_uct(table=table, all_children=True)
    assert nodes(searched(game, thesis)) == nodes(searched(game, "td_uct(all_children=true)"))


def test_entries_without_visits_change_nothing():
    game, table = engram.game("tic_tac_toe"), Table(1000)
    start = game.initial_state()
    children = [game.play(start, action) for action in game.legal_actions(start)]
    keys = np.array([game.canonical_hash(state) for state in (start, *children)], np.uint64)
    table.put(keys, np.full(len(keys), 0.5), np.zeros(len(keys)))
    assert nodes(searched(game, engram.presets.td_uct(table=table))) == nodes(searched(game, "td_uct"))


def test_a_frozen_table_does_not_change_and_helps_from_the_first_simulation():
    game, table = engram.game("tic_tac_toe"), Table(10_000)
    searched(game, engram.presets.td_uct(table=table, learn=True), 5000)
    before = table.entries.tobytes()
    first = searched(game, engram.presets.td_uct(table=table), 1)
    root = game.canonical_hash(game.initial_state())
    values, visits = table.get(np.array([root], np.uint64))
    assert first.tree.nodes[0]["visit_count"] == visits[0] + 1 == 5001
    # Nine children, three up to symmetry: all are there with their values before any rollout from them.
    second = searched(game, engram.presets.td_uct(table=table), 2)
    assert second.tree.nodes[0]["num_visited"] == 9
    assert len(np.unique(second.tree.children()["value"].round(6))) <= 4
    assert math.isclose(first.tree.nodes[0]["value"], values[0], abs_tol=0.011)  # one step of at most 0.005·2
    assert table.entries.tobytes() == before


def test_mirror_images_share_an_entry_unless_told_otherwise():
    game = engram.game("connect_four")
    sizes = {}
    for symmetric in (True, False):
        table = Table(50_000)
        searched(game, engram.presets.td_uct(table=table, learn=True, symmetric=symmetric), 4000)
        left, right = (game.play_moves(moves) for moves in ("1", "7"))
        keys = [game.canonical_hash(state) if symmetric else game.hash(state) for state in (left, right)]
        values, visits = table.get(np.array(keys, np.uint64))
        assert visits.min() > 20 and (values[0] == values[1]) == symmetric
        sizes[symmetric] = len(table)
    assert sizes[True] < sizes[False]


def test_a_full_table_goes_on():
    game, table = engram.game("connect_four"), Table(100)
    search = engram.Search(game, engram.presets.td_uct(table=table, learn=True))
    search.run(game.initial_state(), engram.Limit(simulations=3000), seed=0)
    assert table.num_replaced > 1000 and len(table) <= 132
    assert (np.abs(table.entries["value"]) <= 1).all()
    # The root was visited most, and stays.
    root = np.array([game.canonical_hash(game.initial_state())], np.uint64)
    assert table.get(root)[1][0] == 3000


def test_trust_bounds_the_visits_that_are_believed():
    game, table = engram.game("tic_tac_toe"), Table(10_000)
    searched(game, engram.presets.td_uct(table=table, learn=True), 3000)
    search = searched(game, engram.presets.td_uct(table=table, trust=10), 2)
    assert search.tree.nodes[0]["visit_count"] == 12
    assert search.tree.children()["visit_count"].max() <= 11


def test_rules_through_the_table():
    game = engram.game("tic_tac_toe")
    values = {}
    for rule in (backups.sarsa(0.2), backups.q_learning(0.2), backups.average()):
        table = Table(10_000)
        searched(game, engram.presets.td_uct(table=table, learn=True, backup=rule), 3000)
        root = np.array([game.canonical_hash(game.initial_state())], np.uint64)
        values[repr(rule)] = float(table.get(root)[0][0])
    assert len(set(values.values())) == 3
    for rule in (backups.softmax(), uncertainty(), exact_parents()):
        for learn in (False, True):
            with pytest.raises(InvalidParameter, match="without a mix and columns"):
                engram.presets.td_uct(table=Table(10), learn=learn, backup=rule)


def test_a_known_child_leaves_the_likeliest_of_the_others_the_next():
    game, table = engram.game("connect_four"), Table(1000)

    @compiled
    def prior(state, actions, count, weights):
        for k in range(count):
            weights[k] = 7.0 - actions[k]
        return 0

    last = game.play(game.initial_state(), 6)
    learner = engram.presets.td_uct(table=table, learn=True, symmetric=False)
    engram.Search(game, learner).run(last, engram.Limit(simulations=1))
    rule = backups.average()
    extension = with_table(table, rule, symmetric=False)
    preset = Preset(selection=puct(), backup=rule, prior=prior, extensions=(extension,))
    search = engram.Search(game, preset)
    search.run(game.initial_state(), engram.Limit(simulations=2))
    assert search.tree.children()["action"].tolist() == [6, 0, 1, 2, 3, 4, 5]


def test_from_a_file_every_game_begins_alike_and_the_file_stays(tmp_path):
    game, table, path = engram.game("tic_tac_toe"), Table(10_000), tmp_path / "t.table"
    searched(game, engram.presets.td_uct(table=table, learn=True, discount=0.8), 2000)
    table_files.save(path, table, {"game": game.name, "symmetric": True, "discount": 0.8})
    data = path.read_bytes()
    for learn in ("true", "false"):
        search = engram.Search(game, f"td_uct(table='{path}', learn={learn})")
        trees = []
        for _ in range(2):
            search.run(game.initial_state(), engram.Limit(simulations=300), seed=3)
            trees.append(nodes(search))
            search.clear()
        assert trees[0] == trees[1]
    assert path.read_bytes() == data
    played = engram.match(game.name, f"td_uct(table='{path}')", "random", games=6, simulations=30, database=":memory:")
    assert played.score >= 0.5
    with pytest.raises(InvalidFile, match="game tic_tac_toe, not connect_four"):
        engram.Search("connect_four", f"td_uct(table='{path}')")
    with pytest.raises(InvalidFile, match=r"discount 0.8, not 0.9"):
        engram.Search(game, f"td_uct(table='{path}', discount=0.9)")
    with pytest.raises(InvalidFile, match="symmetric True, not False"):
        engram.Search(game, f"td_uct(table='{path}', symmetric=false)")


@pytest.mark.parametrize(
    "options", ["learn=true", "trust=3", "symmetric=true", "table='no_such.table'", "table=3", "bootstrap=worst"]
)
def test_wrong_options_are_refused(options):
    with pytest.raises(EngramError):
        preset(f"td_uct({options})")


def test_a_table_does_not_go_with_an_evaluator():
    from engram.presets.values import with_table

    class Flat:
        def evaluate(self, states):
            return engram.Evaluation(np.zeros(len(states)))

    rule = backups.td()
    variant = Preset(selection=preset("puct").selection, evaluator=Flat(), extensions=(with_table(Table(10), rule),))
    with pytest.raises(InvalidParameter, match="evaluator"):
        engram.Search("tic_tac_toe", variant)


class Countdown(Heap):
    """From 10 down by 1 to 3; who says 0 wins."""

    start, most = 10, 3

    def hash(self):
        if self.left == 4:
            raise ValueError("four")
        return self.left * 2 + self.player


class Unbroken(Countdown):
    def hash(self):
        return self.left * 2 + self.player


def test_a_python_game_learns_too_and_its_exceptions_are_heard():
    table = Table(100)
    game = PythonGame("countdown", Unbroken, num_actions=3, max_moves=10)
    search = searched(game, engram.presets.td_uct(table=table, learn=True, discount=1.0), 2000)
    assert len(table) == 18 and search.run(Unbroken(), engram.Limit(simulations=100)).action == 1
    broken = PythonGame("countdown", Countdown, num_actions=3, max_moves=10)
    with pytest.raises((ValueError, OperatorError), match="four"):
        searched(broken, engram.presets.td_uct(table=Table(100), learn=True), 500)


def test_a_node_leaves_the_entry_of_another_position_alone():
    """Another position takes the root's slot, as in a full table, while the root still links to it."""
    game, table = engram.game("connect_four"), Table(5000)
    search = searched(game, engram.presets.td_uct(table=table, learn=True), 50)
    slot = int(search.tree.rows(search.tree.columns[0])["slot"][0]) - 1
    assert table.entries["key"][slot] == game.canonical_hash(game.initial_state())
    table.entries[slot] = (table.entries["key"][slot] ^ np.uint64(1), 0.75, 7)
    before = table.entries[slot].copy()
    search.run(game.initial_state(), engram.Limit(simulations=50), seed=2)
    assert table.entries[slot] == before
    assert search.tree.nodes[0]["visit_count"] == 100 and search.tree.nodes[0]["value"] != 0.75
