"""Files that somebody sends: whole and with a valid checksum, but with contents that no search has written; or damaged.

A crafted file is refused in a sentence, or a search goes on from it. The fuzz runs in a child process, so that a crash
of compiled code is a failure here; a child that hangs is one too.

    python -m tests.test_crafted_files KIND FOLDER CRAFTED DAMAGED SEED
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from types import NoneType

import numpy as np
import pytest
from typer.testing import CliRunner

import engram
from engram import storage
from engram.cli.app import app
from engram.drivers.recollection import explain_memory
from engram.errors import EngramError, InvalidFile
from engram.memory import files
from engram.memory.store import Store
from engram.memory.values import table_files
from engram.memory.values.table import Table
from engram.training.memory_build import build
from engram.training.td.settings import EvaluationPlan, TdConfiguration
from engram.training.td.training import train
from engram.trees.comparison import compare
from engram.trees.saved import SavedTree
from tests.games_for_tests import pick, pick_dtype

LIMIT = engram.Limit(simulations=150)
TREES = [
    ("connect_four", "uct", "4 4 3"),
    ("go:5", "rave", "C3 B2 pass C2 B3"),
    ("tic_tac_toe", "uct(all_children=true)", "b2"),
    ("connect_four", "memory_uct(capacity=60, dimension=16, keep_states=true)", "4"),
    ("connect_four", "uct(transpositions=true, backup=bias_correction)", "1 2"),
    ("line:rows=9,columns=9,run=5", "history_uct(solver=true)", "e5 e6"),
]
CHECKPOINTS = ("games", "learner", "table", "positions")
KINDS = [
    *(f"tree {number}" for number in range(len(TREES))),
    *("leaves", "memory", "table", "network", "database", "study", "log"),
    *(f"checkpoint {name}" for name in CHECKPOINTS),
]
CELLS = [None, "", "x", "A", "1 2", "4 99999", -1, 0, 3, 2**62, 0.5, 1e308, float("inf"), b"\xff\x00", "{}", "9" * 5000]
NUMBERS = [0, 1, -1, 2, 255, 65535, -(2**31), 2**31 - 1, 2**62, -(2**63), 2**64 - 1, 0.5, 1e300, np.nan, np.inf]


# ------------------------------------------------------------------------------------------- crafting
def spoilt(value, rng):
    """Plain data with another value somewhere."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = list(value)[int(rng.integers(len(value)))]
        return {**value, key: spoilt(value[key], rng)}
    others = [None, True, "", "x", [], {}, -1, 0, 3, 10**9, 2**62, 2**80, 0.5, 1e308]
    return others[int(rng.integers(len(others)))]


def write_anything(array, rng):
    """Writes one number, or all of a field, as no search would."""
    if array.dtype.names:
        array = array[array.dtype.names[int(rng.integers(len(array.dtype.names)))]]
    flat = array.reshape(-1).copy()
    if not flat.size:
        return
    places = rng.integers(flat.size, size=int(rng.integers(1, 4)))
    how = int(rng.integers(5))
    if how == 0:
        flat[places] = flat[rng.integers(flat.size)]
    elif how == 1:
        rng.shuffle(flat)
    elif how == 2:
        flat[places] = flat[places] + flat.dtype.type(1)
    elif how == 3:
        raw = flat.view(np.uint8).reshape(flat.size, -1)
        raw[places] = rng.integers(0, 256, raw[places].shape)
    else:
        with np.errstate(all="ignore"):
            flat[places] = np.array(NUMBERS[int(rng.integers(len(NUMBERS)))]).astype(flat.dtype)
    array[...] = flat.reshape(array.shape)


def craft(path, source, kind, rng):
    about, arrays = storage.load(source, kind)
    for _ in range(int(rng.integers(1, 3))):
        name = list(arrays)[int(rng.integers(len(arrays)))]
        choice = rng.random()
        if choice < 0.8:
            write_anything(arrays[name], rng)
        elif choice < 0.9:
            about = spoilt(about, rng) if rng.random() < 0.9 else about
            about = about if isinstance(about, dict) else {}
        elif choice < 0.95:
            arrays[name] = arrays[name][: int(rng.integers(len(arrays[name]) + 1))]
        else:
            arrays[name] = arrays[name].astype(np.float64) if arrays[name].dtype.names is None else arrays[name][:0]
    storage.save(path, kind, about, arrays)


def craft_database(path, source, kind, rng):
    """Writes another value into some cells of a database."""
    shutil.copyfile(source, path)
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("select name from sqlite_master where type = 'table' order by name").fetchall()
        own = [name for (name,) in names if "version" not in name]  # another version is always refused
        tables = [name for name in own if connection.execute(f"select 1 from {name}").fetchone()]
        for _ in range(int(rng.integers(1, 3))):
            table = tables[int(rng.integers(len(tables)))]
            fields = connection.execute(f"pragma table_info({table})").fetchall()
            field = fields[int(rng.integers(len(fields)))][1]
            rows = connection.execute(f"select rowid, {field} from {table} order by rowid").fetchall()
            place, value = rows[int(rng.integers(len(rows)))]
            if isinstance(value, str) and value.startswith(("{", "[")) and rng.random() < 0.7:
                value = json.dumps(spoilt(json.loads(value), rng))
            else:
                value = CELLS[int(rng.integers(len(CELLS)))]
            with suppress(sqlite3.IntegrityError):
                connection.execute(f"update {table} set {field} = ? where rowid = ?", (value, place))
        connection.commit()


def craft_log(path, source, kind, rng):
    """Writes another value into some lines of a log."""
    lines = Path(source).read_text().splitlines()
    for place in rng.integers(len(lines), size=int(rng.integers(1, 4))):
        lines[place] = json.dumps(spoilt(json.loads(lines[place]), rng))
    Path(path).write_text("\n".join(lines))


def damage(path, source, kind, rng):
    """Changes some bytes, cuts the file, or adds to it."""
    raw = bytearray(Path(source).read_bytes())
    choice = rng.random()
    if choice < 0.7:
        for place in rng.integers(min(len(raw), 10 ** int(rng.integers(2, 9))), size=int(rng.integers(1, 5))):
            raw[place] = int(rng.integers(256))
    elif choice < 0.9:
        del raw[int(rng.integers(len(raw))) :]
    else:
        place = int(rng.integers(len(raw)))
        raw[place:place] = rng.bytes(int(rng.integers(1, 100)))
    Path(path).write_bytes(raw)


def go_on(search, state):
    result = search.run(state, LIMIT, seed=None)
    search.advance(result.action)
    if search.root is not None and not search.game.is_over(search.root):
        search.run(search.root, LIMIT, seed=1)


def tree(number, folder):
    """(kind, written file, reader that uses what it read) of a tree."""
    name, preset, moves = TREES[number]
    game = engram.game(name)
    search = engram.Search(game, preset)
    search.run(game.play_moves(moves), LIMIT, seed=3)
    search.save(folder / "whole")
    expected = SavedTree.read(folder / "whole")

    def use(path):
        other = engram.Search(game, preset)
        compare(SavedTree.read(path), expected, depth=20)
        other.load(path)
        go_on(other, other.root)

    return "tree", folder / "whole", use


def leaves(folder):
    """A search with leaves in flight."""
    game = engram.game("connect_four")

    def on(search, rounds):
        for _ in range(rounds):
            for leaf in search.ask(5, state=game.play_moves("4")):
                search.tell(leaf, 0.01 * len(leaf.moves), {leaf.legal[-1]: 1.0})

    def use(path):
        other = engram.Search(game, "puct", leaves=8)
        other.load(path)
        waiting = other.leaves
        for leaf in waiting[::2]:
            other.tell(leaf, 0.5)
        for leaf in waiting[1::2]:
            other.forget(leaf)
        on(other, 10)

    search = engram.Search(game, "puct", leaves=8)
    on(search, 20)
    search.ask(8)
    search.save(folder / "whole")
    return "tree", folder / "whole", use


def memory(folder):
    game = engram.game("connect_four")
    search = engram.Search(game, "memory_uct(capacity=400, dimension=16, keep_states=true, neighbours=simhash)")
    search.run(game.initial_state(), LIMIT, seed=3)
    belongs_to = files.identity(search.extensions[0].features)
    files.save(folder / "whole", search.extensions[0].store, belongs_to)

    def use(path):
        files.merge([files.load(path), files.prune(files.load(path, belongs_to), keep=5)])
        other = engram.Search(game, f"memory_uct(memory='{path}', keep_states=true, dimension=16)")
        go_on(other, game.initial_state())
        explain_memory(other, game.initial_state())

    return files.KIND, folder / "whole", use


def table(folder):
    game, values = engram.game("tic_tac_toe"), Table(500)
    search = engram.Search(game, engram.presets.td_uct(table=values, learn=True))
    search.run(game.initial_state(), LIMIT, seed=3)
    table_files.save(folder / "whole", values, {"game": game.name, "symmetric": True, "discount": 0.9})

    def use(path):
        table_files.merge([table_files.load(path)[0], values])
        go_on(engram.Search(game, f"td_uct(table='{path}', learn=true)"), game.initial_state())

    return table_files.KIND, folder / "whole", use


def network(folder):
    from engram.networks.architectures import architecture
    from engram.networks.network import KIND, save_network
    from engram.networks.torch_backend import NetworkModule

    game = engram.game("tic_tac_toe")
    net = NetworkModule(architecture("residual(blocks=1,filters=4)", game)).network
    save_network(folder / "whole", net)

    def use(path):
        search = engram.Search(game, f"puct(network='{path}')")
        search.run(game.initial_state(), engram.Limit(simulations=10), seed=1)

    return KIND, folder / "whole", use


def database(folder):
    played = ["-g", "tic_tac_toe", "--a", "random", "--games", "6", "--workers", "1"]

    def use(path):
        results = []
        show = ["results", "-d", str(path)]
        for command in (show, [*show, "1", "--games"], [*show, "1", "--json"], ["match", *played, "-d", str(path)]):
            results.append(CliRunner().invoke(app, command))
            if not isinstance(results[-1].exception, (SystemExit, NoneType)):
                raise results[-1].exception
        if any(result.exit_code for result in results):
            raise InvalidFile("refused")

    assert CliRunner().invoke(app, ["match", *played, "-d", str(folder / "whole")]).exit_code == 0
    return "database", folder / "whole", use


def study(folder):
    """The database of a tuning, which goes on and confirms its best."""
    from engram.tuning.objective import MatchObjective
    from engram.tuning.space import space
    from engram.tuning.study import Study, recorded_study

    where = space("uct", tune=["exploration=0.2:3:log"])

    def opened(path, games):
        objective = MatchObjective("tic_tac_toe", where, "random", 20, None, None, None, 1, str(path))
        return Study(objective, max_games=games, confirm_games=4, trial_games=20)

    def use(path):
        going_on = opened(path, 48)
        going_on.search()
        going_on.confirm()
        recorded_study(str(path), going_on.optuna.study_name)

    def stop(progress):
        if progress.games >= 40:
            raise InterruptedError  # one trial is still open

    with suppress(InterruptedError):
        opened(folder / "played", 48).search(stop)
    with closing(sqlite3.connect(folder / "played")) as played, closing(sqlite3.connect(folder / "whole")) as copy:
        played.backup(copy)
        copy.execute("pragma journal_mode = delete")
    return "study", folder / "whole", use


def log(folder):
    """The log of a training, of which a report leaves damaged lines out."""
    from engram.training import curves

    lines = [
        {"done": step, "losses": {"value_loss": 1 / step}, "validation": {"value_loss": 2 / step}, "draws": 3}
        for step in range(10, 60, 10)
    ]
    (folder / "whole").write_text("\n".join(map(json.dumps, lines)))

    def use(path):
        shutil.copyfile(path, folder / curves.LOG)
        curves.report(folder, "a training", "ends", [])
        if "left out" in (folder / curves.REPORT).read_text():
            raise InvalidFile("damaged lines")

    return "log", folder / "whole", use


def self_play_checkpoint(name, folder):
    """A training by self-play, from which a file of its checkpoint is taken."""
    from engram.training.self_play import SelfPlayOptions
    from engram.training.self_play_training import SelfPlayPlan, train_self_play

    games = SelfPlayOptions(num_games=4, simulations=8, fast_simulations=4, full_share=0.5)
    plan = SelfPlayPlan(
        game="tic_tac_toe", network="residual(blocks=1,filters=4)", steps=40, batch=8, first=20, refresh=5, window=100,
        options=games,
    )  # fmt: skip
    train_self_play(plan, folder / "run", stop_at=10)
    place = next((folder / "run").glob("checkpoint-*"))

    def use(path):
        shutil.rmtree(folder / "again", ignore_errors=True)
        shutil.copytree(folder / "run", folder / "again")
        shutil.copyfile(path, folder / "again" / place.name / name)
        train_self_play(plan, folder / "again", stop_at=16)

    return {"learner": "training"}.get(name, name), place / name, use


def table_checkpoint(folder):
    from engram.training.td.episodes import TdLearner
    from engram.training.td.settings import TdConfiguration

    configuration = TdConfiguration("tic_tac_toe", simulations=20, capacity=500, replay=0.5)
    learner = TdLearner(configuration)
    for _ in range(20):
        learner.episode()
    learner.save(folder / "whole")

    def use(path):
        other = TdLearner(configuration)
        other.load(path)
        for _ in range(3):
            other.episode()
        other.save(folder / "again")

    return table_files.KIND, folder / "whole", use


def positions_checkpoint(folder):
    from engram.networks.encoding import Encoder
    from engram.training import position_groups as groups

    sampling = groups.Sampling("tic_tac_toe", simulations=80)

    def go_on(sampler, positions):
        while sampler.positions < positions:
            sampler.play()
        result = sampler.groups()
        result.planes(np.arange(len(result)), Encoder(engram.game("tic_tac_toe"), None))
        result.split(0.5)
        return sampler

    def use(path):
        other = groups.GroupSampler(sampling)
        other.load(path)
        go_on(other, other.positions + 1).save(folder / "again")

    go_on(groups.GroupSampler(sampling), 5 * groups.MEMBERS).save(folder / "whole")
    return groups.KIND, folder / "whole", use


def checkpoint(name, folder):
    if name in ("games", "learner"):
        return self_play_checkpoint(name, folder)
    return {"table": table_checkpoint, "positions": positions_checkpoint}[name](folder)


MAKERS = {
    "leaves": leaves, "memory": memory, "table": table, "network": network, "database": database, "study": study,
    "log": log,
}  # fmt: skip
CRAFTS = {"database": craft_database, "study": craft_database, "log": craft_log}


def fuzz(kind, folder, num_crafted, num_damaged, seed):
    """Uses so many crafted files and so many damaged ones; prints how many of each were refused."""
    name, _, part = kind.partition(" ")
    if name == "checkpoint":
        kind, source, use = checkpoint(part, folder)
    else:
        kind, source, use = tree(int(part), folder) if name == "tree" else MAKERS[name](folder)
    use(source)
    for spoil, count in ((CRAFTS.get(name, craft), num_crafted), (damage, num_damaged)):
        rng = np.random.default_rng(seed)
        refused = 0
        for number in range(count):
            print(spoil.__name__, number, flush=True)
            spoil(folder / "crafted", source, kind, rng)
            try:
                use(folder / "crafted")
            except EngramError:
                refused += 1
            for left in folder.glob("crafted*"):  # a database may still be open, and has files beside it
                left.unlink()
        print("refused", refused)


@pytest.mark.parametrize("kind", KINDS)
def test_crafted_and_damaged_files_crash_and_hang_nothing(kind, tmp_path):
    counts = {"study": (6, 6), "database": (15, 15), "log": (30, 30)}.get(kind, (40, 20))  # a study takes a second each
    done = subprocess.run(
        [sys.executable, "-m", "tests.test_crafted_files", kind, str(tmp_path), *map(str, counts), "7"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=1000, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout.splitlines()[-1:]} of {kind}: {done.stderr[-2000:]}"
    refused = [int(number) for number in re.findall(r"^refused (\d+)$", done.stdout, re.MULTILINE)]
    for number, count in zip(refused, counts, strict=True):
        assert count // 6 <= number <= count  # the rest is sound, such as a network of other weights


# ----------------------------------------------------------------------------- positions by the rules
@pytest.mark.parametrize(
    "name",
    [
        "connect_four",
        "tic_tac_toe",
        "line:rows=9,columns=9,run=5",
        "go:5",
        "go:9",
        "same_game:seed=1,rows=20,columns=20,colours=3",
        "backgammon",
        "2048",
        "hex:5",
        "hex:19",
        "othello:6",
        "breakthrough:5",
        "dots_and_boxes",
        "p_game",
        "pig",
    ],
)
def test_every_position_of_a_game_is_sound_and_none_is_with_a_field_changed(name):
    game, rng = engram.game(name), np.random.default_rng(5)
    refused = checked = 0
    for _ in range(6):
        state = game.initial_state()
        while not game.is_over(state):
            assert game.is_sound(state)
            state = game.play(state, int(rng.choice(game.legal_actions(state))))
            other = state.copy()
            write_anything(other.reshape(1), rng)
            checked += 1
            refused += not game.is_sound(other)
        assert game.is_sound(state), "finished"
    assert refused > 0.25 * checked  # the rest is history, scratch, or another sound position


@pytest.mark.parametrize("word", [7, 32767, 65535])
def test_a_border_of_a_go_board_is_its_colour_alone(word):
    """The rest of its word would be the head of a chain, and index beyond the board."""
    state = engram.game("go:5").initial_state()
    state["chain"][1] = word
    assert not engram.game("go:5").is_sound(state)


def copy_by_count(target, source):
    """Reads beyond its source if the scores are those of no game."""
    target.player = source.player
    for place in range(2):
        target.score[place] = source.score[place]
    for cell in range(max(9, source.score[0])):
        target.taken[cell] = source.taken[cell]
    return 0


def test_a_users_copy_reads_no_record_from_a_file():
    start = np.zeros((), pick_dtype)
    game = pick(copy=copy_by_count, render=lambda state: "start", parse_state=lambda diagram: start)
    record = start.copy()
    assert game.is_sound(record)
    record["score"][0] = 10**9  # a copy of it would end the process
    assert not game.is_sound(record)


def refused(search, path, about, arrays, match):
    storage.save(path, "tree", about, arrays)
    with pytest.raises(InvalidFile, match=match):
        search.load(path)


def test_a_tree_against_the_rules_of_its_game_is_refused_in_a_sentence(tmp_path):
    game = engram.game("go:5")
    search = engram.Search(game, "uct")
    search.run(game.play_moves("C3 B2"), LIMIT, seed=3)
    search.save(tmp_path / "tree")
    about, contents = storage.load(tmp_path / "tree", "tree")

    def changed(field, node, value):
        arrays = {name: array.copy() for name, array in contents.items()}
        arrays["column_nodes"][field][node] = value
        return arrays

    c3 = game.parse_action("C3")
    nodes = contents["column_nodes"]
    child = int(nodes[0]["first_child"])
    refused(search, tmp_path / "t", about, changed("action", child, c3), "node 0 breaks the rules of go:5")
    refused(search, tmp_path / "t", about, changed("flags", child, nodes[child]["flags"] ^ 1), f"node {child} breaks")
    refused(search, tmp_path / "t", about, changed("visit_count", child, 0), "visits do not fit")
    refused(search, tmp_path / "t", about, changed("prior", 2, np.nan), "impossible flags, children or a prior")
    inner = np.flatnonzero(nodes["num_children"])
    circle = changed("first_child", inner[-1], int(nodes[inner[-2]]["first_child"]))
    refused(search, tmp_path / "t", about, circle, "belong to two nodes")
    refused(search, tmp_path / "t", about, contents | {"rng": np.zeros(2, np.uint64)}, "random generator is all 0")
    root = contents["root_states"].copy()
    game.read(root)
    root.view(np.uint8)[: game.state_dtype.itemsize].view(game.state_dtype)["chain"][0, 8] = 4 * 200 + 1
    refused(search, tmp_path / "t", about, contents | {"root_states": root}, "its root is not a position of go:5")


def test_a_path_that_leads_nowhere_is_refused(tmp_path):
    game = engram.game("connect_four")
    search = engram.Search(game, "uct(all_children=true)")
    for simulations in range(40, 60):
        search.run(game.initial_state(), engram.Limit(simulations=simulations), seed=simulations)
        search.save(tmp_path / "tree")
        about, arrays = storage.load(tmp_path / "tree", "tree")
        if about["slot"]["replay"] > 1:
            break
    arrays["paths"][1] += 30
    refused(search, tmp_path / "t", about, arrays, "last path")


def test_a_file_that_asks_for_more_memory_than_there_is_is_refused(tmp_path):
    store, values = Store(4, 10), Table(10)
    store.add(1, np.ones(4))
    files.save(tmp_path / "m", store, {})
    about, arrays = storage.load(tmp_path / "m", files.KIND)
    storage.save(tmp_path / "m", files.KIND, {**about, "capacity": 1 << 30, "state_bytes": 1 << 30}, arrays)
    with pytest.raises(InvalidFile, match="GiB, more than this machine has"):
        files.load(tmp_path / "m")
    table_files.save(tmp_path / "t", values, {})
    about, arrays = storage.load(tmp_path / "t", table_files.KIND)
    for capacity in (-4, 0, 2**40, 2**80, "x", None):
        storage.save(tmp_path / "t", table_files.KIND, {**about, "capacity": capacity}, arrays)
        with pytest.raises(InvalidFile, match="damaged"):
            table_files.load(tmp_path / "t")


# -------------------------------------------------------------------------------------- damaged headers
def small(kind, path):
    """A small file of a kind, and a reader of all that it holds."""
    if kind == "memory":
        store = Store(4, 3, neighbours="exact")
        for key in (5, 9):
            store.update(store.add(key, np.ones(4)), 0.5)
        files.save(path, store, {"game": "g"})
        return lambda: (files.load(path).entries.tobytes(),)
    if kind == "table":
        values = Table(3)
        values.put(np.array([5, 9], np.uint64), np.array([0.5, -1]), np.array([3, 4]))
        table_files.save(path, values, {"game": "g"})
        return lambda: (table_files.load(path)[0].entries.tobytes(),)
    search = engram.Search("line:rows=2,columns=2,run=2", "uct")
    search.run(search.game.initial_state(), engram.Limit(simulations=5))
    search.save(path)

    def read():
        search.load(path)
        return search.tree.nodes[: search.tree.num_nodes].tobytes()

    return read


@pytest.mark.parametrize("kind", ["memory", "table", "tree"])
def test_every_flipped_bit_of_a_header_gives_a_sentence_or_changes_nothing(kind, tmp_path):
    path = tmp_path / "file"
    read = small(kind, path)
    contents, data = read(), path.read_bytes()
    length = 8 + int.from_bytes(data[:8], "little")
    for bit in range(8 * length):
        with open(path, "r+b") as file:
            file.seek(bit // 8)
            file.write(bytes([data[bit // 8] ^ 1 << bit % 8]))
        try:
            assert read() == contents, bit
        except InvalidFile as error:
            assert str(path) in str(error) and "\n" not in str(error), bit
        with open(path, "r+b") as file:
            file.seek(bit // 8)
            file.write(data[bit // 8 : bit // 8 + 1])


if __name__ == "__main__":
    fuzz(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))


@pytest.mark.parametrize("number", ["x", None, [1], -5, 1e308, True])
def test_numbers_of_a_file_that_a_training_goes_on_from_are_checked(number, tmp_path):
    memory, table = tmp_path / "m.memory", tmp_path / "t.table"
    build("tic_tac_toe", "memory_uct", memory, games=2, simulations=10)
    about, arrays = storage.load(memory, "memory")
    storage.save(memory, "memory", {**about, "games": number}, arrays)
    with pytest.raises(InvalidFile, match=r"games of .* must be a whole number"):
        build("tic_tac_toe", "memory_uct", memory, games=3, simulations=10)
    configuration = TdConfiguration("tic_tac_toe", simulations=10)
    train(configuration, table, episodes=2, plan=EvaluationPlan(every=2, games=2), database=":memory:")
    part = tmp_path / "t.seed0.table"
    about, arrays = storage.load(part, table_files.KIND)
    storage.save(part, table_files.KIND, {**about, "episodes": number}, arrays)
    with pytest.raises(InvalidFile, match=r"episodes of .* must be a whole number"):
        train(configuration, table, episodes=4, plan=EvaluationPlan(every=2, games=2), database=":memory:")
