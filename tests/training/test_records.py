"""Records of games: what is read, what is left out, and that a drawn position is the one that was played."""

from __future__ import annotations

import lzma
import math
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from engram.errors import InvalidFile, InvalidParameter
from engram.games.catalogue import game as game_of
from engram.training.records import RecordSampler, read, strength, value_of
from engram.training.validation import why_records_cannot_teach

DATA = Path(os.environ.get("ENGRAM_DATA", Path(__file__).parents[3] / "shared" / "data"))


def letters(actions, size):
    return "".join("zz" if a == size**2 else chr(97 + a % size) + chr(97 + a // size) for a in actions)


def random_games(size, number, seed=0, moves=30):
    game, rng = game_of(f"go:{size}"), np.random.default_rng(seed)
    played = []
    for _ in range(number):
        state, actions = game.initial_state(), []
        while len(actions) < moves and (legal := game.legal_actions(state)):
            passed = actions[-1:] == [size**2]  # two passes would be judged
            actions.append(int(rng.choice((passed and legal[:-1]) or legal)))
            state = game.play(state, actions[-1])
        played.append(actions)
    return played


def row(actions, size=5, komi="7.5", result="B+3.5", black="3d", white="1k", source="here"):
    return "\t".join([str(size), komi, result, black, white, source, letters(actions, size)])


def write(path, rows):
    text = "".join(line + "\n" for line in rows)
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())
    return path


@pytest.fixture
def games():
    return random_games(5, 12)


def test_positions_are_those_that_were_played(tmp_path, games):
    results = ["B+3.5", "W+R", "0", "W+T"]
    komis = ["7.5", "6.5", "?", "7.5", "2"]
    file = write(
        tmp_path / "games.tsv.xz",
        [row(played, komi=komis[k % 5], result=results[k % 4]) for k, played in enumerate(games)],
    )
    game = game_of("go:5,komi=7.5")
    records = read(game, [file])
    assert len(records) == 12 and records.positions == sum(map(len, games)) and records.left_out == 0
    sampler = RecordSampler(records, 4)
    at = 0
    for k, played in enumerate(games):
        komi = 7.5 if komis[k % 5] == "?" else float(komis[k % 5])
        variant = game_of(f"go:5,komi={komi}")
        state = variant.initial_state()
        wanted = {"B+3.5": 1.0, "W+R": -1.0, "0": 0.0, "W+T": math.nan}[results[k % 4]]
        wanted = math.nan if komis[k % 5] in ("?", "2") else wanted
        for number, action in enumerate(played):
            for turned in (0, 1 + (at % 7)):
                sample = sampler.at(np.array([at]), np.array([turned]))
                planes = np.zeros((11, 5, 5), np.float32)
                variant.callbacks["encode_history"].from_python(state.ctypes.data, planes.ctypes.data, 4)
                expected = np.empty((11, 25), np.float32)
                expected[:, variant.symmetries[turned].cells] = planes.reshape(11, 25)
                assert (sample.planes[0].reshape(11, 25) == expected).all()
                assert sample.policy[0] == variant.symmetries[turned].actions[action]
                mover = wanted if number % 2 == 0 else -wanted
                assert sample.value[0] == mover or (math.isnan(mover) and math.isnan(sample.value[0]))
            state = variant.play(state, action)
            at += 1


@pytest.mark.parametrize(("stone", "left_out"), [(True, 2), (False, 0)])
def test_passes_over_dead_stones_are_not_learnt_and_the_result_is_that_without_them(tmp_path, stone, left_out):
    # Black has D and F, White B and C; a white stone on E4 is dead, and the count with it alive gives White the game.
    black, white = ([7 * row + column for column in columns for row in range(7)] for columns in ((3, 5), (1, 2)))
    played = [action for pair in zip(black, white, strict=True) for action in pair]
    played += [49, 25, 49, 49] if stone else [49, 49]
    records = read(game_of("go:7"), [write(tmp_path / "games.tsv", [row(played, size=7, komi="4.5", result="W+5.5")])])
    assert records.positions == len(played) - left_out and records.value == [1.0]


def test_sampling_is_uniform_and_a_function_of_seed_and_number(tmp_path, games):
    records = read(game_of("go:5"), [write(tmp_path / "games.tsv", [row(played) for played in games])])
    sampler = RecordSampler(records, 4)
    assert sampler.draw(5, -1, 7).planes.shape[0] == 5
    first, again, other = sampler.draw(500, 3, 7), sampler.draw(500, 3, 7), sampler.draw(500, 3, 8)
    assert (first.planes == again.planes).all() and (first.policy == again.policy).all()
    assert (first.planes != other.planes).any() and (first.policy != sampler.draw(500, 4, 7).policy).any()
    # Stones on the board say how far the game had gone: early and late positions come alike.
    stones = sampler.draw(4000, 0, 0).planes[:, :2].sum((1, 2, 3))
    true = sampler.at(np.arange(records.positions)).planes[:, :2].sum((1, 2, 3))
    assert stones.mean() == pytest.approx(true.mean(), abs=0.3)


def test_the_split_is_by_game_and_does_not_change_with_the_files(tmp_path):
    games = random_games(5, 200, seed=1)
    full = write(tmp_path / "whole.tsv", [row(played) for played in games])
    half = write(tmp_path / "half.tsv", [row(played) for played in games[::2]])
    train, held_out = read(game_of("go:5"), [full]).split(0.25)
    assert 25 <= len(held_out) <= 75 and len(train) + len(held_out) == 200
    moves = lambda part: {part.actions[a:b].tobytes() for a, b in zip(part.offset, part.offset[1:], strict=False)}  # noqa: E731
    assert not moves(train) & moves(held_out)
    assert moves(read(game_of("go:5"), [half]).split(0.25)[1]) == moves(held_out) & {
        np.array(played, np.uint16).tobytes() for played in games[::2]
    }
    assert RecordSampler(train, 0).records.positions == train.positions == len(train.actions)


def test_ranks_results_and_boards_are_filtered(tmp_path, games):
    rows = [row(games[0], black="2k", white="4d"), row(games[1], black="?", white="9d"), row(games[2], black="9p")]
    rows += [row(games[3], size=6), row([0, 1, 0]), row([0, 1, 25, 25, 2], black="1d", white="1d")]
    file = write(tmp_path / "games.tsv", rows)
    every = read(game_of("go:5"), [file])
    assert len(every) == 4 and every.left_out == 1  # a stone on a stone
    assert every.offset[-1] - every.offset[-2] == 2  # two passes end a game, and these come too early
    counts = {rank: len(read(game_of("go:5"), [f"{file}:{rank}"])) for rank in ("2k", "1k", "1d")}
    assert counts == {"2k": 3, "1k": 2, "1d": 1}
    with pytest.raises(InvalidParameter, match="no game of go:5"):
        read(game_of("go:5"), [f"{file}:9d"])
    assert [strength(rank) for rank in ("20k", "1k", "1d", "9d", "1p", "q2100", "?")] == [-19, 0, 1, 9, 10, None, None]
    assert value_of(6.5, "W+12.5") == -1.0 and value_of(6.5, "B+R") == 1.0 and value_of(7.0, "0") == 0.0
    assert all(math.isnan(value_of(*pair)) for pair in [(6.5, "B+T"), (6.5, "W+F"), (0.5, "B+R"), (math.nan, "B+R")])


def test_sgf_folders(tmp_path, games):
    (tmp_path / "sub").mkdir()
    body = "".join(f";{'BW'[k % 2]}[{'' if a == 25 else letters([a], 5)}]" for k, a in enumerate(games[0]))
    (tmp_path / "sub" / "one.sgf").write_text(f"(;GM[1]FF[4]SZ[5]KM[6.5]RE[W+2.5]BR[1d]WR[2d]{body})")
    (tmp_path / "other.sgf").write_text(f"(;GM[1]SZ[5]KM[6.5]RE[W+2.5]AB[aa]{body})")
    for number, start in enumerate(("GM[1]HA[2]", "GM[2]", "GM[1];AB[aa]", "GM[1];AE[aa]")):
        (tmp_path / f"{number}.sgf").write_text(f"(;SZ[5]KM[6.5]RE[W+2.5]{start}{body})")
    records = read(game_of("go:5"), [tmp_path])
    assert len(records) == 1 and records.actions.tolist() == games[0] and records.value.tolist() == [-1.0]
    assert float(records.starts[0]["komi"]) == 6.5
    (tmp_path / "sub" / "one.sgf").write_text(f"(;GM[]HA[]SZ[5]KM[250000]RE[W+2.5]{body})")  # no komi
    assert float(read(game_of("go:5"), [tmp_path]).starts[0]["komi"]) == float(game_of("go:5").initial_state()["komi"])
    (tmp_path / "bad.sgf").write_text("(;GM[1]SZ[5];B[zz])")
    with pytest.raises(InvalidFile, match="a move off the board"):
        read(game_of("go:5"), [tmp_path])
    (tmp_path / "bad.sgf").write_text("not sgf")
    with pytest.raises(InvalidFile, match=r"bad\.sgf"):
        read(game_of("go:5"), [tmp_path])


def test_what_is_no_record_is_refused(tmp_path):
    with pytest.raises(InvalidFile, match="there is no file"):
        read(game_of("go:5"), [tmp_path / "none.tsv.xz"])
    (tmp_path / "bad.tsv.xz").write_bytes(b"no xz")
    with pytest.raises(InvalidFile, match="cannot be read"):
        read(game_of("go:5"), [tmp_path / "bad.tsv.xz"])
    with pytest.raises(InvalidFile, match="line 1"):
        read(game_of("go:5"), [write(tmp_path / "bad.tsv", ["what is this"])])
    with pytest.raises(InvalidParameter, match="of Go"):
        read(game_of("connect_four"), [])


@pytest.mark.skipif(not (DATA / "go9_strong.tsv.xz").is_file(), reason="the strong 9×9 games are not here")
def test_the_strong_games_are_read_whole():
    records = read(game_of("go:9"), [DATA / "go9_strong.tsv.xz"])
    assert len(records) + records.left_out == 12_192 and records.left_out < 200
    assert records.positions > 700_000 and np.isfinite(records.value).mean() > 0.9


@pytest.mark.parametrize("moves", ["aaAcbb", "aa`cbb", "aa{cbb"])
def test_a_move_that_is_no_pair_of_small_letters_is_no_move(tmp_path, moves):
    line = row([0, 1, 2]).rsplit("\t", 1)[0] + f"\t{moves}"
    with pytest.raises(InvalidFile, match="this is not a game"):
        read(game_of("go:5"), [write(tmp_path / "bad.tsv", [line])])


def test_a_komi_that_go_does_not_have_teaches_no_value(tmp_path):
    for komi, value in (("7.5", 1.0), ("3.75", np.nan), ("375", np.nan), ("1e9", np.nan)):
        (tmp_path / "A.SGF").write_text(f"(;GM[1]SZ[5]KM[{komi}]RE[B+R];B[aa];W[bb];B[cc])")
        np.testing.assert_array_equal(read(game_of("go:5"), [str(tmp_path)]).value, [value])


def test_moves_of_a_table_are_on_the_board_or_passes(tmp_path):
    file = tmp_path / "games.tsv"
    for move, action in (("zz", 25), ("tt", 25), ("ee", 24)):
        file.write_text(f"5\t7.5\tB+R\t?\t?\tx\taabb{move}\n")
        assert read(game_of("go:5"), [str(file)]).actions.tolist() == [0, 6, action]
    file.write_text("5\t7.5\tB+R\t?\t?\tx\taabbff\n")
    with pytest.raises(InvalidFile, match="not a game"):
        read(game_of("go:5"), [str(file)])


def test_all_games_of_a_file_are_read_but_those_of_other_games(tmp_path):
    game = b"(;GM[1]SZ[9]KM[%s]RE[B+1];B[cc];W[gg];B[ee])"
    others = b"(;GM[11];B[c3];W[d4])(;GM[1]SZ[19];B[cc];W[dd])(;GM[1]SZ[9];B[zz])"
    file = tmp_path / "many.sgf"
    file.write_bytes(game % b"7.5" + others + game % b"6,5" + game % b"")
    records = read(game_of("go:9"), [str(file)])
    assert len(records) == 3
    file.write_bytes(game % b"7.5" + b"(;GM[1")
    assert len(read(game_of("go:9"), [str(file)])) == 1
    file.write_bytes(b"(;GM[1]SZ[9];B[zz])" + game % b"7.5")
    with pytest.raises(InvalidFile, match="not SGF"):
        read(game_of("go:9"), [str(file)])


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path):
    with lzma.open(tmp_path / "bomb.tsv.xz", "wt") as file:
        for _ in range(40):
            file.write("a" * 1_000_000)
    tracemalloc.start()
    with pytest.raises(InvalidFile, match="line 1: it has 1,048,576 characters or more"):
        read(game_of("go:5"), [tmp_path / "bomb.tsv.xz"])
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_games_with_an_illegal_move_are_named(tmp_path, games):
    twice = [games[0][0], games[0][0], *games[0][1:]]
    mixed = write(tmp_path / "mixed.tsv", [row(actions) for actions in games] + [row(twice)] * 3)
    records = read(game_of("go:5"), [mixed])
    assert "3 of 15 games have an illegal move and are left out" in why_records_cannot_teach(records)
    none = read(game_of("go:5"), [write(tmp_path / "none.tsv", [row(twice)])])
    with pytest.raises(InvalidParameter, match="1 have an illegal move"):
        RecordSampler(none, None)
