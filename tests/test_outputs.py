"""Outputs of notebooks and reports: their numbers are those of the objects, and no text of others becomes HTML."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import engram
from engram.arena.league import league, rated_players
from engram.cli import typed
from engram.drivers.recollection import explain_memory
from engram.errors import IllegalAction, InvalidFile, InvalidParameter
from engram.games.scene import Scene, cell_places
from engram.memory.similar_positions import position_memory
from engram.pictures.board import Heat, board
from engram.pictures.bundle import bundle
from engram.pictures.chart import Chart, Series
from engram.pictures.markup import Markup, notebook, safe, table, whisker
from engram.pictures.report import section, write_report
from engram.trees.saved import SavedTree
from engram.trees.visible import visible

EVIL = "</script><script>alert(1)</script><img src=x onerror='alert(2)' title=\"\u202e"


class Tags(HTMLParser):
    """The elements of a text, and its words."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data


def evil_game():
    """A game of two moves whose every text is HTML."""
    state = np.zeros(1, np.dtype([("moves", np.int64)]))

    def legal_actions(state, actions):
        for action in range(2):
            actions[action] = action
        return 2 if state.moves < 2 else 0

    def play(state, action):
        state.moves += 1
        return np.int64(state.moves == 2)

    scene = Scene(
        "squares", 1, 2, marks=lambda state: "X." if state["moves"] else "..", places=cell_places(2),
        column_names=(EVIL, "b"), row_names=(EVIL,), players=(EVIL, EVIL), note=lambda state: EVIL,
    )  # fmt: skip
    return engram.Game(
        EVIL, state=state, num_actions=2, max_moves=2, legal_actions=legal_actions, play=play,
        outcome=lambda state: 0.0, to_play=lambda state: state.moves % 2, hash=lambda state: np.uint64(state.moves),
        action_names=[EVIL, "other"], scene=scene, render=lambda state: EVIL,
    )  # fmt: skip


def harmless(text: str) -> Tags:
    """The tags of a text in which nothing evil has become an element or an attribute."""
    document = Tags(text)
    for tag, attributes in document.tags:
        assert tag not in ("script", "img", "iframe", "link", "object")
        assert not any(name.startswith("on") or name in ("src", "href") for name in attributes)
    return document


def test_texts_of_others_are_no_html_in_any_output():
    game = evil_game()
    state = game.initial_state()
    search = engram.Search(game)
    result = search.run(state, engram.Limit(simulations=20))
    for thing in (state, game.play(state, 0), result, search, search.saved_tree()):
        shown = harmless(thing._repr_html_())
        words = shown.words + "".join(str(attributes.get("aria-label")) for _, attributes in shown.tags)
        assert "alert(1)" in words
        assert "\u202e" not in words
    assert "alert" in harmless(notebook(EVIL, safe(EVIL), table([EVIL], [[EVIL]], caption=EVIL))).words


def test_a_position_shows_its_stones_and_the_player_to_move():
    game = engram.game("connect_four")
    shown = game.play_moves("4 4 3")._repr_html_()
    (svg,) = re.findall(r"<svg.*?</svg>", shown)
    circles = [circle.get("class") for circle in ElementTree.fromstring(svg).iter("circle")]
    assert [circles.count(f"piece {colour} ") for colour in ("red", "yellow")] == [2, 1]
    assert circles.count("hole") == 42
    assert "connect_four: Yellow to move" in shown
    won = game.play_moves("1 2 1 2 1 2 1")
    assert "Red wins" in won._repr_html_()
    assert "<pre>" in engram.game("p_game:branching=2,depth=4").initial_state()._repr_html_()


def test_a_result_of_a_python_game_shows_its_position_in_letters():
    game = engram.game(f"{Path(__file__).parents[1] / 'examples' / 'nim.py'}:nim")
    result = engram.Search(game).run(game.initial_state(), engram.Limit(simulations=20))
    assert f"<pre>{game.render(result.root)}</pre>" in result._repr_html_()


def test_a_picture_refuses_actions_that_the_game_lacks():
    state = engram.game("connect_four").initial_state()
    for wrong in ({"last": 99}, {"last": "3"}, {"heat": {-1: Heat(0.5, "1")}}):
        with pytest.raises(IllegalAction, match="connect_four: an action must be a whole number, 0 to 6, not"):
            state.picture(**wrong)
    with pytest.raises(InvalidParameter, match=r"a Heat\(strength, text\) for each action, not 0.5"):
        state.picture(heat={3: 0.5})
    assert 'class="last"' in state.picture(last=3)  # of a column without a stone


def test_a_picture_of_a_tree_has_a_generation():
    game = engram.game("tic_tac_toe")
    search = engram.Search(game)
    search.run(game.initial_state(), engram.Limit(simulations=9))
    with pytest.raises(InvalidParameter, match="depth must be a whole number, 1 or more, not 0"):
        search.saved_tree().picture(0)


def test_a_result_shows_every_figure_of_its_moves():
    game = engram.game("connect_four")
    search = engram.Search(game, "memory_uct(keep_states=true)")
    state = game.play_moves("4 4 3")
    result = search.run(state, engram.Limit(simulations=500))
    shown = result._repr_html_()
    rows = re.findall(r"<tr.*?</tr>", shown)
    assert len(rows) == 1 + len(result.moves)
    for row, move in zip(rows[1:], result.moves, strict=True):
        words = Tags(row).words
        assert words.startswith(move.name)
        assert f"{move.visits:,}" in words and f"{move.value:+.3f}" in words and f"{move.memory:+.3f}" in words
        assert (" class=best" in row) is (move.action == result.action)
    heat = re.findall(r'class="heat" .*?--s:([\d.]+)', shown)
    assert len(heat) == len(result.moves) and max(map(float, heat)) == pytest.approx(0.92)
    assert "root" not in result.to_json()
    answer = explain_memory(search, state, 3)
    assert answer._repr_html_().count("<article") == 3 and answer._repr_html_().count("<svg") == 3
    store = position_memory(search.extensions, "memory_uct", "show").store
    assert store._repr_html_().count("<circle") == len(store)
    assert f"{len(store):,} of at most {store.capacity:,} entries" in store._repr_html_()


@pytest.mark.parametrize("text", ["go:5", "go:9", "gomoku:9", "hex:5", "othello:6", "dots_and_boxes", "p_game"])
def test_a_memory_shows_the_positions_that_it_stored(text):
    game = engram.game(text)
    search = engram.Search(game, "memory_uct(keep_states=true)")
    search.run(game.initial_state(), engram.Limit(simulations=300))
    answer = explain_memory(search, game.initial_state(), 12)
    assert len(answer.witnesses) == 12
    assert all(witness.position is not None and witness.board is not None for witness in answer.witnesses)


def test_pieces_of_players_without_a_colour_are_black_and_white():
    scene = {
        "shape": "squares", "pieces": "stones", "rows": 1, "columns": 2, "players": ("Green", '"><script>'),
        "column_names": [], "row_names": [], "cell_names": [], "places": [[0], [1]],
    }  # fmt: skip
    picture = board(scene, "XO", label="two pieces")
    assert re.findall('class="piece ([^"]*) "', picture) == ["black", "white"]
    assert "script" not in picture


def test_boxes_of_a_tree_are_as_wide_as_their_visits_and_lie_below_their_parents():
    search = engram.Search("tic_tac_toe")
    assert "no tree yet" in search._repr_html_()
    search.run(search.game.initial_state(), engram.Limit(simulations=400))
    tree = search.saved_tree()
    part = visible(tree.nodes, 0, 880, 12)
    (svg,) = re.findall(r"<svg.*?</svg>", search._repr_html_())
    boxes = list(ElementTree.fromstring(svg).iter("rect"))
    assert len(boxes) == len(part["visits"]) > 100
    place = [[float(box.get(name)) for name in ("x", "y", "width")] for box in boxes]
    for node, parent in list(enumerate(part["parent"]))[1:]:
        (x, y, width), (left, above, room) = place[node], place[parent]
        assert y == above + 26 and left - 0.1 <= x and x + width <= left + room + 1.2
        share = part["visits"][node] / part["visits"][parent]
        assert width == pytest.approx(share * room, abs=1.4)
    assert isinstance(tree, SavedTree) and tree.nodes.base is not None  # no copy


def test_a_match_and_a_league_show_their_figures(tmp_path):
    database = tmp_path / "games.sqlite"
    result = engram.match("tic_tac_toe", "uct", "random", games=8, simulations=30, workers=1, database=database)
    shown = Tags(result._repr_html_())
    for part in (result.verdict, "random", f"{100 * result.score:.1f} %", f"{result.wins}"):
        assert part in shown.words
    both = league("tic_tac_toe", ["uct", "random"], games=8, simulations=30, workers=1, database=database)
    assert [row["player"] for row in both.rows()] == re.findall(r"uct|random", Tags(both._repr_html_()).words)


def test_intervals_lie_where_their_numbers_are():
    drawn = whisker(0.5, 0.25, 2.0, least=0.0, most=1.0, middle=0.5)
    assert 'cx="60.0"' in drawn and "M32.0 8H116.0" in drawn and "M60.0 1V15" in drawn


def test_a_table_aligns_numbers_and_keeps_markup():
    shown = table(["name", "games", "line"], [["a", "1,000", "5 2 1"], ["b", 7, "4"]])
    assert '<th scope="col" class="number">games' in shown and shown.count('class="number"') == 3
    assert table(["x"], [[Markup("<b>1</b>")]]).count("<b>") == 1


def test_a_bundle_imports_and_exports_nothing():
    text = bundle("html", "board", "moves", "charts", "report")
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    assert "customElements" in text


def test_a_report_is_one_file_that_asks_for_nothing(tmp_path):
    path = tmp_path / "report.html"
    series = [Series(EVIL, [1, 2], [0.5, float("nan")], [0.4, 0.4], [0.6, 0.7], whiskers=True), Series("b", [3], [1.0])]
    picture = Chart(EVIL, series, x=EVIL, y="y", note=EVIL)
    write_report(path, EVIL, EVIL, section(EVIL, EVIL, picture, table([EVIL], [[EVIL]])),
                 command=EVIL, settings={EVIL: EVIL, "number": [1, 2], "more": None})  # fmt: skip
    text = path.read_text(encoding="utf-8")
    document = Tags(text)
    assert [tag for tag, _ in document.tags].count("script") == 3  # the data of the picture, uPlot, the elements
    for tag, attributes in document.tags:
        assert not {"src", "href"} & set(attributes) or tag == "a"
        assert tag not in ("img", "link", "iframe")
    policy = next(meta["content"] for tag, meta in document.tags if "content" in meta and meta.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    data = json.loads(re.search(r'application/json">(.*?)</script>', text)[1])
    assert data["about"] == EVIL and data["series"][2]["label"] == EVIL
    assert data["data"] == [[1, 2, 3], [0.6, 0.7, None], [0.4, 0.4, None], [0.5, None, None], [None, None, 1]]
    assert data["axes"]["low"] < 0.4 and data["axes"]["high"] > 1.0
    with pytest.raises(InvalidFile, match="cannot be written"):
        write_report(tmp_path / "no" / "report.html", "t", "q")


def test_a_report_names_the_command_without_folders_and_databases(tmp_path):
    script = f"""
import typer
from engram.cli.console import app
from engram.cli.typed import typed
captured = []
import engram.cli.train.td as module
module.typed = lambda context: captured.append(typed(context)) or captured[-1]
from engram.cli.app import main
import sys
sys.argv = ["engram", "train", "td", "-g", "tic_tac_toe", "-o", {str(tmp_path / "deep" / "t.table")!r}, "--episodes",
            "2", "--database", {str(tmp_path / "secret.sqlite")!r}, "--no-symmetric", "--workers", "1",
            "--curve", {str(tmp_path / "curve.html")!r}, "-n", "10"]
try: main()
finally: import json; print("CAPTURED" + json.dumps(captured))
"""
    (tmp_path / "deep").mkdir()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    (how,) = json.loads(done.stdout.split("CAPTURED")[1])
    assert how["command"] == (
        "engram train td --output t.table --game tic_tac_toe --simulations 10 --episodes 2 --no-symmetric "
        "--curve curve.html --workers 1"
    )
    assert how["settings"]["symmetric"] is False and how["settings"]["trace decay"] == 0.9
    assert not {"database", "workers", "output", "curve"} & set(how["settings"]) and "secret" not in str(how)
    page = (tmp_path / "curve.html").read_text()
    assert "t.table" in page and str(tmp_path) not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/me/games", "games"),
        ("/home/me/my.py:hex(size=5)", "my.py:hex(size=5)"),
        ("puct(network='/home/me/n.safetensors', rollout=heavy)", "puct(network='n.safetensors', rollout=heavy)"),
        ('gtp("../pachi -f C:\\me\\book")', 'gtp("pachi -f book")'),
        ("go:9,komi=5.5", "go:9,komi=5.5"),
        ("ray://head:10001", "ray://head:10001"),
        ("gymnasium:ALE/Pong-v5", "gymnasium:ALE/Pong-v5"),
        ("/home/Ann Smith/nets/run=3/a.safetensors", "a.safetensors"),
        ("/home/me/my.py:mine(book='/home/me/a book.sgf')", "my.py:mine(book='a book.sgf')"),
    ],
)
def test_a_text_of_a_report_names_no_folder(text, shown):
    assert typed._shown(text) == shown


def test_a_file_of_a_folder_here_appears_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rule.py").touch()
    texts = ["mine/rule.py", "mine/rule.py:first(size=5)", "puct(network='mine/rule.py')", "mine/missing.py"]
    assert typed._shown(texts) == ["rule.py", "rule.py:first(size=5)", "puct(network='rule.py')", "mine/missing.py"]


def test_ratings_open_to_one_side_say_so(tmp_path):
    result = league("connect_four", ["random", "uct"], games=8, simulations=200, workers=1, database=tmp_path / "l")
    for shown in (str(result), Tags(result._repr_html_()).words):
        assert "∞]" in shown and "count one drawn pair more" in shown
    assert str(result).startswith("connect_four: 2 players, 8 games\n  1  ")


def test_the_ratings_of_recorded_matches_are_plain_data(tmp_path):
    database, matches = tmp_path / "r.sqlite", []
    for a, b in (("uct", "random"), ("uct", "solver"), ("solver", "random")):  # not in the order of the alphabet
        matches.append(engram.match("tic_tac_toe", a, b, games=4, simulations=20, workers=1, database=database))
    ((_, rated),) = rated_players(matches)
    data = json.loads(json.dumps(rated.to_json()))
    assert data["games"] == sum(match["wins"] + match["draws"] + match["losses"] for match in data["matches"]) == 12


def test_parts_of_a_report_are_texts_charts_or_markup(tmp_path):
    curve = Chart("Score", [Series("uct", [1, 2], [0.5, 0.6])], x="x", y="y")
    write_report(tmp_path / "r.html", "T", "Q", EVIL, curve)
    text = (tmp_path / "r.html").read_text()
    assert EVIL not in text and safe(EVIL) in text
    assert text.count("<engram-curve>") == 1 and "How it was made" not in text


def test_charts_take_numpy_and_refuse_curves_that_do_not_fit():
    chart = Chart("t", [Series("a", [1], [2])], x="x", y="y", lines=np.array([0.5]), low=np.float32(0.0),
                  high=np.int64(1), dots=[(np.int64(1), np.float32(0.5), 2)])  # fmt: skip
    assert "engram-curve" in chart.markup()
    for curve, options in ((Series("a", [1, 2], [1]), {}), (Series("a", [0, 1], [1, 2]), {"log_x": True})):
        with pytest.raises(InvalidParameter, match="the curve 'a' of 't' needs"):
            Chart("t", [curve], x="x", y="y", **options)
    for options in ({"low": 0.0}, {"high": 1.0}, {"format": "zz"}, {"scale": "zz"}):
        with pytest.raises(InvalidParameter, match=next(iter(options))):
            Chart("t", [], x="x", y="y", **options)


def test_a_pickled_result_shows_no_bare_numbers():
    game = engram.game("connect_four")
    result = engram.Search(game, "uct").run(game.play_moves("443"), engram.Limit(simulations=50))
    again = pickle.loads(pickle.dumps(result))
    assert 'class="board' in result._repr_html_()
    assert "<pre>" not in again._repr_html_() and again.moves == result.moves


def test_a_tree_of_one_player_is_in_its_units(tmp_path):
    game = engram.game("2048")
    search = engram.Search(game, "uct")
    search.run(game.play_moves("2@a4 4@b1"), engram.Limit(simulations=100), seed=1)
    search.save(tmp_path / "t.tree")
    saved = SavedTree.read(tmp_path / "t.tree")
    words = Tags(saved._repr_html_()).words
    assert "player" not in words
    root = saved.in_units(float(saved.nodes[0]["value"]))
    assert f"value {root:+.3f}" in words
