"""OpenSpiel's games through the adapter: the contract, the rules, names, refusals, the command line."""

from __future__ import annotations

import json
import random
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import engram
from engram.cli.app import app
from engram.drivers.limit import Limit
from engram.drivers.search import Search
from engram.errors import IllegalAction, InvalidGame, InvalidSpecification, InvalidState, MissingPackage
from engram.games.catalogue import game as game_of
from engram.games.open_spiel.adapter import OpenSpielGame, open_spiel
from engram.games.open_spiel.kinds import playable
from engram.games.record import NATURE

pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed")

BREAKTHROUGH = "openspiel:breakthrough(rows=4,columns=3)"


def run(*arguments: str, **options):
    return CliRunner().invoke(app, list(arguments), **options)


@pytest.mark.parametrize(
    "text",
    [
        "breakthrough(rows=6,columns=6)",
        "hex(board_size=4)",
        "hex(board_size=3,swap=true)",  # one move longer than OpenSpiel says
        "othello",  # a player may have to pass
        "dots_and_boxes(utility_margin=true)",  # the same player moves again; outcomes of several boxes
        "mancala",
        "nim(pile_sizes='4')",  # a text that is a number
        "nim(pile_sizes='1;2;3')",  # names hold commas, semicolons and spaces
        "ultimate_tic_tac_toe",
        "clobber(rows=3,columns=4)",
        "go(board_size=3,komi=2)",
        "misere(game=hex(board_size=3))",
        "start_at(game=tic_tac_toe,history='4;0')",
        "python_tic_tac_toe",
        "pig(winscore=20)",
        "backgammon",  # nature moves first, and says who begins
        "einstein_wurfelt_nicht",
        "catch",  # one player
        "2048(max_tile=32)",  # rewards on the way, beyond the bounds that OpenSpiel declares
        "morpion_solitaire",  # its clones read freed memory
        "deep_sea",
    ],
)
def test_games_keep_the_contract(text):
    game = game_of(f"openspiel:{text}")
    report = engram.check_game(game, games=4, seed=2)
    assert report.games == 4
    assert game_of(game.name) is game or game_of(game.name).name == game.name


@pytest.mark.parametrize(("name", "options"), [("tic_tac_toe", ""), ("connect_four", "")])
def test_the_rules_are_those_of_the_built_in_game(name, options):
    own, other = game_of(name), game_of(f"openspiel:{name}{options}")
    rng = random.Random(5)
    outcomes = set()
    for _ in range(60):
        state, twin = own.initial_state(), other.initial_state()
        while not own.is_over(state):
            legal = own.legal_actions(state)
            assert other.legal_actions(twin) == legal
            assert other.to_play(twin) == own.to_play(state)
            action = rng.choice(legal)
            state, twin = own.play(state, action), other.play(twin, action)
        assert other.is_over(twin) and other.legal_actions(twin) == []
        assert [other.outcome(twin, player) for player in (0, 1)] == [own.outcome(state, player) for player in (0, 1)]
        outcomes.add(own.outcome(state))
    assert {1.0, -1.0} <= outcomes


def test_a_rollout_is_uniformly_random_to_the_end_and_follows_from_its_seed():
    game = game_of("openspiel:tic_tac_toe")
    state = game.initial_state()
    values = [state.rollout(seed * 7919) for seed in range(4000)]
    assert values == [state.rollout(seed * 7919) for seed in range(4000)]
    assert str(state) == str(game.initial_state())
    # Of the random games 58.5 % are won by the first player and 28.8 % by the second (counted over the whole tree).
    assert abs(np.mean(values) - 0.297) < 4 * np.std(values) / 4000**0.5
    # Seen from the second player's move as well, the value is for the first.
    lost = game.play_moves("x(0,0) o(1,1) x(0,1)")
    values = [lost.rollout(seed) for seed in range(600)]
    exact = _random_value(lost.state)
    assert abs(np.mean(values) - exact) < 4 * np.std(values) / 600**0.5


def _random_value(state):
    if state.is_terminal():
        return state.returns()[0]
    return float(np.mean([_random_value(state.child(action)) for action in state.legal_actions()]))


def _solved(state, cache):
    """The game's value for OpenSpiel's player 0, by looking at everything."""
    key = str(state), state.current_player()
    if key not in cache:
        values = [_solved(state.child(action), cache) for action in state.legal_actions()]
        better = max if state.current_player() == 0 else min
        cache[key] = state.returns()[0] if state.is_terminal() else better(values)
    return cache[key]


@pytest.mark.parametrize(
    ("text", "begun"), [(BREAKTHROUGH, 0), ("openspiel:hex(board_size=3)", 0), ("openspiel:dots_and_boxes", 5)]
)
def test_a_search_finds_what_the_whole_tree_says(text, begun):
    game = game_of(text)
    cache: dict = {}
    rng = random.Random(3)
    looked = 0
    while looked < 4:
        state = game.initial_state()
        for _ in range(begun + rng.randrange(3)):
            state = game.play(state, rng.choice(game.legal_actions(state)))
        truth = _solved(state.state, cache) * (1 if state.to_play() == 0 else -1)
        replies = {_solved(state.state.child(action), cache) for action in game.legal_actions(state)}
        if len(replies) == 1:
            continue  # every move is as good
        looked += 1
        result = engram.Search(game, "uct(solver=true)").run(state, engram.Limit(simulations=8000), seed=looked)
        after = _solved(state.state.child(result.action), cache) * (1 if state.to_play() == 0 else -1)
        assert after == truth
        if result.stopped == "proven":
            assert result.value == truth


def _expected(state, cache):
    """The game's value for OpenSpiel's player 0, if all play perfectly and nature by its weights."""
    key = str(state), state.current_player(), state.move_number()
    if key not in cache:
        if state.is_terminal():
            cache[key] = state.returns()[0]
        elif state.is_chance_node():
            cache[key] = sum(share * _expected(state.child(action), cache) for action, share in state.chance_outcomes())
        else:
            better = max if state.current_player() == 0 else min
            cache[key] = better(_expected(state.child(action), cache) for action in state.legal_actions())
    return cache[key]


@pytest.mark.parametrize(
    ("text", "preset"),
    [
        ("pig(winscore=5,diceoutcomes=3,horizon=12)", "uct(exploration=0.4)"),
        ("pig(winscore=4,diceoutcomes=2,horizon=10)", "uct(exploration=0.4,backup=softmax(temperature=20.0))"),
        ("catch(rows=5,columns=5)", "uct(exploration=0.4)"),
        ("2048(max_tile=4)", "uct(bounds=learnt)"),
    ],
)
def test_values_through_chance_agree_with_expectimax(text, preset):
    game = game_of(f"openspiel:{text}")
    rng, cache = random.Random(2), {}
    for _ in range(3):
        state, moves = game.initial_state(), 0
        while not game.is_over(state) and (moves < 4 or game.to_play(state) == NATURE):
            is_chance_node = game.to_play(state) == NATURE
            state = game.play(
                state, game.drawn(state, rng.random()) if is_chance_node else game.legal_actions(state)[0]
            )
            moves += 1
        if game.is_over(state):
            continue
        result = engram.Search(game, preset).run(state, engram.Limit(simulations=20_000), seed=1)
        sign = -1.0 if game.to_play(state) == 1 else 1.0
        truth = sign * _expected(state.state, cache)
        span = result.bounds[1] - result.bounds[0]
        assert max(result.moves, key=lambda move: move.visits).value == pytest.approx(truth, abs=0.03 * span)
        after = game.play(state, result.action)
        assert sign * _expected(after.state, cache) == pytest.approx(truth, abs=0.01 * span)


@pytest.mark.parametrize("text", ["pig(winscore=4,diceoutcomes=2,horizon=10)", "2048(max_tile=4)", "catch(rows=4)"])
def test_rollouts_from_nature_and_from_a_player_have_the_mean_of_all_games(text):
    def mean(state, cache):
        key = str(state), state.current_player(), state.move_number()
        if key not in cache:
            legal = state.legal_actions()
            shares = state.chance_outcomes() if state.is_chance_node() else [(move, 1 / len(legal)) for move in legal]
            cache[key] = sum(share * mean(state.child(move), cache) for move, share in shares)
            cache[key] = state.returns()[0] if state.is_terminal() else cache[key]
        return cache[key]

    game, cache = game_of(f"openspiel:{text}"), {}
    state = game.initial_state()
    for _ in range(4):
        values = [game.user_rollout(state.copy(), seed * 7919) for seed in range(1500)]
        error = max(np.std(values) / len(values) ** 0.5, 1e-9)
        assert np.mean(values) == pytest.approx(mean(state.state, cache), abs=4 * error)
        is_chance_node = game.to_play(state) == NATURE
        state = game.play(state, game.drawn(state, 0.3) if is_chance_node else game.legal_actions(state)[0])


def test_who_moves_first_is_player_0_whatever_open_spiel_calls_them():
    chess = game_of("openspiel:chess")
    assert chess.initial_state().state.current_player() == 1
    assert chess.to_play(chess.initial_state()) == 0
    mated = chess.play_moves("f3 e5 g4 Qh4#")
    assert chess.is_over(mated)
    assert chess.outcome(mated) == -1.0
    mate = chess.parse_state("6k1/5ppp/8/8/8/8/8/R6K w - - 0 1")
    result = engram.Search(chess, "uct(solver=true)").run(mate, engram.Limit(simulations=400))
    assert (result.name, result.player, result.value) == ("Ra8#", 0, 1.0)


def test_the_outcome_of_two_players_is_1_in_a_game_for_four():
    game, draws = game_of("openspiel:maedn"), random.Random(1)
    state = game.initial_state()
    while not game.is_over(state):
        legal = game.legal_actions(state)
        state = game.play(state, draws.choice(legal))
    assert abs(game.outcome(state)) == 1.0


def test_moves_are_written_as_open_spiel_does_and_read_back():
    chess = game_of("openspiel:chess")
    state = chess.play_moves("e4 e5, Nf3 Nc6")
    assert str(state).startswith("r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w")
    bishop = chess.parse_action("Bb5", state)
    assert chess.action_name(bishop, state) == "Bb5"
    assert chess.parse_action(str(bishop)) == chess.parse_action(str(bishop), state) == bishop
    with pytest.raises(IllegalAction, match=r"'Nf9'.*did you mean 'Nf\d'.*move 3"):
        chess.play_moves("e4 e5 Nf9")
    assert chess.parse_moves("Bb5, Bc4", state, alternatives=True) == [bishop, chess.parse_action("Bc4", state)]
    some = Search(chess, "uct").run(state, Limit(simulations=60), only="Bb5 Bc4 d4")
    assert {move.name for move in some.moves} == {"Bb5", "Bc4", "d4"}
    for text in ("Bb5 a6", "", ",", "-1"):
        with pytest.raises(IllegalAction, match="no legal move"):
            chess.parse_action(text, state)
    nim = game_of("openspiel:nim(pile_sizes='1;2')")
    line = nim.move_names([nim.parse_action("pile:2, take:1;", nim.initial_state()), 0])
    assert line == ["pile:2, take:1;", "pile:1, take:1;"]
    assert nim.render(nim.play_moves(" ".join(line))) == nim.render(nim.play_moves(", ".join(line)))
    assert nim.move_names([nim.parse_action(line[0], nim.initial_state()), 5, 0]) == [line[0], "5", "0"]
    with pytest.raises(IllegalAction, match="over"):
        nim.play_moves("pile:2, take:2; pile:1, take:1; pile:1, take:1;")


def test_a_move_without_a_readable_name_has_its_number():
    large = game_of("openspiel:hex(board_size=40)")
    assert large.action_name(39, large.initial_state()) == "39"
    assert large.parse_action("39", large.initial_state()) == 39


def test_capitals_matter_only_where_they_tell_moves_apart():
    game = game_of("openspiel:connect_four")
    assert game.play_moves("X3 o3").state.history() == [3, 3]
    chess = game_of("openspiel:chess")
    both = chess.parse_state("4k3/8/8/2p5/1P6/4B3/8/4K3 w - - 0 1")
    pawn, bishop = chess.parse_action("bxc5", both), chess.parse_action("Bxc5", both)
    assert pawn != bishop
    assert chess.render(chess.play(both, pawn)).startswith("4k3/8/8/2P5/8/4B3/")
    with pytest.raises(IllegalAction, match="no legal move"):
        chess.parse_action("BXC5", both)


def test_positions_are_read_only_where_open_spiel_reads_them():
    fen = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"
    chess = game_of("openspiel:chess")
    assert chess.render(chess.parse_state(fen)) == fen
    assert chess.render(chess.parse_state(fen.replace("/", "\n"))) == fen  # as the command line gives it
    for text, diagram in [("chess", "foo"), ("hex", "foo"), ("dots_and_boxes", "foo"), ("breakthrough", "")]:
        with pytest.raises(InvalidState, match="give the moves"):
            game_of(f"openspiel:{text}").parse_state(diagram)


def test_states_of_open_spiel_are_taken_and_those_of_others_refused():
    game = game_of(BREAKTHROUGH)
    theirs = game.spiel.new_initial_state()
    theirs.apply_action(theirs.legal_actions()[0])
    state = game.state(theirs)
    theirs.apply_action(theirs.legal_actions()[0])
    assert len(state.state.history()) == 1
    assert engram.Search(game, "uct").run(state, engram.Limit(simulations=50)).player == 1
    with pytest.raises(InvalidState, match="hex"):
        game.state(pyspiel.load_game("hex").new_initial_state())
    with pytest.raises(InvalidState, match="hex"):
        game.legal_actions(game_of("openspiel:hex(board_size=3)").initial_state())


def test_equal_positions_have_one_hash_and_equal_histories_one_tree():
    game = game_of("openspiel:tic_tac_toe")
    first = game.play_moves("x(0,0) o(1,1) x(2,2)")
    other = game.play_moves("x(2,2) o(1,1) x(0,0)")
    assert game.hash(first) == game.hash(other) != game.hash(game.play_moves("x(0,0) o(1,1)"))
    assert not game.same(first, other)
    assert game.same(first, game.play_moves("x(0,0) o(1,1) x(2,2)"))
    # Sums that positions share are of use: with them the search still sees the draw.
    search = engram.Search(game, "uct(transpositions=true)")
    assert abs(search.run(other, engram.Limit(simulations=3000)).value) < 0.15


def test_planes_say_who_moves():
    game = game_of(BREAKTHROUGH)
    assert game.planes_shape == (4, 4, 3)
    for moves, mover in (([], 0.0), ([0], 1.0)):
        state = game.initial_state()
        for move in moves:
            state = game.play(state, game.legal_actions(state)[move])
        planes = state.encode().reshape(game.planes_shape)
        assert (planes[-1] == mover).all()
        assert (planes[:-1].ravel() == state.state.observation_tensor(0)).all()
    # The address that a memory calls gives the same: a memory of the game can be made and is of use.
    search = engram.Search(game, "memory_uct")
    search.run(game.initial_state(), engram.Limit(simulations=200))
    assert len(search.extensions[0].store)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("openspiel", "needs the name of a game"),
        ("openspiel:hxe", "did you mean 'hex'"),
        ("openspiel:hex(bord_size=3)", "did you mean 'board_size'"),
        ("openspiel:hex(board_size=big)", "whole number"),
        ("openspiel:hex(board_size=-1)", "1 or more"),
        ("openspiel:connect_four(rows=0)", "1 or more"),
        ("openspiel:cliff_walking(height=100000)", "height must be 1000 or less"),
        ("openspiel:cliff_walking(height=900,width=900)", "at most 4096 cells"),
        ("openspiel:gomoku(dims=4)", "at most 4096 cells"),
        ("openspiel:deep_sea(size=1000)", "at most 4096 cells"),
        ("openspiel:go(board_size=30)", "up to 19"),
        ("openspiel:misere", "Missing parameter"),
        ("openspiel:misere(game=kuhn_poker)", "hides information"),
        ("openspiel:stones_and_gems", "draws its chance moves unseen"),
        ("openspiel:solitaire", "hides information"),
        ("openspiel:phantom_ttt", "hides information"),
        ("openspiel:matrix_pd", "not played in turns, .* and is not zero-sum"),
        ("openspiel:chinese_checkers(players=3)", "is for 3 players"),
        ("openspiel:hex(board_size=999)", "at most 4096 cells"),
        ("openspiel:y(board_size=60)", "draw"),
        ("openspiel:chess(chess960=true)", "it has chance, and OpenSpiel declares none"),
        ("openspiel:hex(board_size=1)", "a position without a legal move is not over"),
        ("openspiel:nim(pile_sizes='-1;3')", "a position without a legal move is not over"),
        ("openspiel:clobber(rows=2,columns=1)", "OpenSpiel cannot play"),
        ("openspiel:nfg_game", "OpenSpiel cannot play"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_sentence(text, words, capfd):
    with pytest.raises((InvalidSpecification, InvalidGame), match=words) as refused:
        game_of(text)
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""  # OpenSpiel's own words of it are kept off the terminal
    result = run("move", "--game", text)
    assert result.exit_code == 2
    assert str(refused.value) in result.output.replace("\n", "")


def test_without_open_spiel_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(MissingPackage, match=r"pip install 'engram\[openspiel\]'"):
        open_spiel("hex")
    listed = run("games")
    assert listed.exit_code == 0
    assert "amazons" not in listed.output


def test_the_games_that_are_listed_can_be_made():
    listed = playable()
    assert {"breakthrough", "hex", "chess", "amazons", "backgammon", "pig", "2048", "deep_sea"} <= set(listed)
    assert not {"kuhn_poker", "misere", "goofspiel", "blackjack", "stones_and_gems"} & set(listed)
    assert len(listed) >= 42
    assert "breakthrough" in run("games").output
    for name in listed:
        assert game_of(f"openspiel:{name}").num_actions > 0


def test_an_exception_in_a_rollout_arrives_as_it_is():
    game = game_of("openspiel:tic_tac_toe")
    broken = OpenSpielGame(game.spiel, "broken")
    broken.new_evaluator = None
    with pytest.raises(TypeError, match="NoneType"):
        engram.Search(broken, "uct").run(broken.initial_state(), engram.Limit(simulations=5))


def test_a_match_in_other_processes(tmp_path):
    database = str(tmp_path / "results.sqlite")
    text = "openspiel:breakthrough(rows=5,columns=4)"
    result = run(
        "match", "-g", text, "--a", "uct", "--b", "random", "--games", "6", "-n", "150", "--workers", "2",
        "-d", database, "--json",
    )  # fmt: skip
    assert result.exit_code == 0
    assert json.loads(result.stdout)["wins"] >= 5
    shown = run("results", "1", "--games", "-d", database)
    assert shown.exit_code == 0
    assert "game 5" in shown.output
    game = game_of(text)
    line = shown.output.strip().splitlines()[-1].replace("[", "").replace("]", "")
    assert game.is_over(game.play_moves(line))


def test_a_game_against_a_person():
    moves = run("play", "-g", BREAKTHROUGH, "-n", "30", input="moves\nz9z9\nhint\nquit\n")
    assert moves.exit_code == 0
    assert "a4a3 a4b3 b4a3" in moves.output
    assert "no legal move is written 'z9z9'" in moves.output
    played = run("play", "-g", BREAKTHROUGH, "-n", "30", "--json", input="a4b3\nquit\n")
    assert json.loads(played.stdout)["moves"][0] == "a4b3"
    # A turn of several moves is taken back one by one.
    amazons = "openspiel:amazons(board_size=6)"
    start = game_of(amazons).initial_state()
    first = game_of(amazons).action_name(start.legal_actions()[0], start)
    undone = run("play", "-g", amazons, "-n", "5", "--json", input=f"{first}\nundo\nundo\nquit\n")
    assert json.loads(undone.stdout)["moves"] == []
    assert undone.output.count("nothing to take back") == 1
