"""SGF files in and out."""

from __future__ import annotations

import pytest

from benchmarks.sgf_fuzz import Doors, check_one
from engram.errors import InvalidFile, InvalidState
from engram.games.go.rules import go, stones
from engram.games.go.sgf import Note, annotated, read_sgf, write_sgf


def test_random_files_come_back_and_damaged_ones_are_refused_or_right(tmp_path):
    doors = Doors(tmp_path)
    read = sum(check_one(seed, doors) for seed in range(60))
    assert 0 < read < 60


def test_the_main_line_with_its_set_up_stones():
    file = read_sgf(b"(;GM[1]SZ[9]KM[6.5]AB[dd][ee]AW[ff];W[cc];B[aa](;B[bb];W[])(;W[hh]))")
    assert file.game.name == "go:9,komi=6.5"
    assert file.moves == ((1, 20), (0, 0), (0, 10), (1, 81))
    assert stones(file.position(2)).sum() == 2 + 2 + 2 + 1
    with pytest.raises(InvalidState, match="4 moves"):
        file.position(5)


def test_notes_join_what_the_file_has():
    raw = b"(;SZ[5]KM[0.5]CA[GB2312]PB[a\\]b];B[cc]C[\xba\xc3]LB[cc:A](;W[aa];AB[ee];B[])(;W[bb]C[x]))"
    notes = {0: Note("by [uct]"), 1: Note("B: 50 %"), 2: Note("W: 20 %", 2, better=7), 3: Note("-", 1, better=25)}
    noted = annotated(raw, notes).replace(b"\n", b"")
    assert b"(;C[by [uct\\]]CA[GB2312]" in noted and b"PB[a\\]b]" in noted and b"LB[cc:A]" in noted
    assert b"C[\xba\xc3B: 50 %]" in noted and b"(;BM[2]C[W: 20 %]W[aa];AB[ee](;B[]BM[1]" in noted
    assert noted.endswith(b"(;C[x]W[bb])(;W[cb]))"), "the new variation follows the old"
    assert read_sgf(noted).moves == read_sgf(raw).moves
    praised = annotated(b"(;SZ[5];B[cc]TE[1])", {1: Note("x", 2, 7)})
    assert b"BM" not in praised and b"TE[1]" in praised, "SGF allows one judgement of a move"
    again = annotated(noted, notes)
    assert again.count(b"W[cb]") == 1 and annotated(b"(;SZ[5]B[cc])", {1: Note("x", 1, 7)}).count(b"B[") == 1


def test_unknown_properties_are_named_once():
    file = read_sgf(b"(;GM[1]SZ[9]XB[1]AP[x];B[aa]KGSB[2]XB[3](;W[bb])(;W[cc]ZZ[4]))")
    assert file.unknown == ("KGSB", "XB")  # those of the main line
    assert file.warning.endswith("passed over: KGSB, XB")
    assert not read_sgf(b"(;GM[1]SZ[9]C[x]TM[300];B[aa]BL[9.5])").warning
    names = b"".join(b"X%c[1]" % letter for letter in range(65, 77))
    assert read_sgf(b"(;SZ[9]" + names + b")").warning.endswith("XI, XJ, …")


def test_stones_that_are_set_up_during_the_game():
    file = read_sgf(b"(;SZ[9]AB[dd];W[cc];B[aa];AW[ab]AE[dd]AB[ee]PL[B];B[ba];AE[ee];W[])")
    assert [number for number, _ in file.setups] == [0, 2, 3]
    assert [int((stones(file.position(number)) > 0).sum()) for number in range(5)] == [1, 2, 4, 4, 4]
    turns = [file.game.to_play(file.position(number)) for number in range(5)]
    assert turns == [1, 0, 0, 1, 0]
    assert stones(file.position(2))[0, 0] == 1 and stones(file.position(2))[1, 0] == 2
    start, moves = file.since_setup(3)
    assert moves == () and stones(start)[4, 4] == 0
    assert stones(file.since_setup(1)[0])[3, 3] == 1 and file.since_setup(1)[1] == ((1, 20),)


def test_a_word_about_the_turn_alone_keeps_the_ko():
    ko = b"(;SZ[5]AB[ba][ab][bc]AW[ca][db][cc][bb];B[cb];PL[W]"
    with pytest.raises(InvalidFile, match="move 2 cannot be played"):
        read_sgf(ko + b";W[bb])")
    assert len(read_sgf(ko + b";AW[ee];W[bb])").moves) == 2  # boards from before a set-up do not count


def test_komi_has_one_name():
    assert read_sgf(b"(;SZ[9]KM[-0])").game.name == read_sgf(b"(;SZ[9])").game.name == "go:9,komi=0"
    in_points = {"375": 7.5, "3.75": 7.5, "3.25": 6.5, "650": 6.5, "6.5": 6.5, "550": 5.5, "376": 376, "7": 7}
    for text, points in in_points.items():
        assert read_sgf(f"(;SZ[9]KM[{text}])".encode()).game.name == f"go:9,komi={points:g}"
    assert read_sgf(b"(;SZ[9]KM[-99999.5])").game.name == "go:9,komi=-99999.5"


def test_another_komi_than_the_files_is_named():
    file = b"(;SZ[9]KM[6.5])"
    assert "komi is 6.5, and the game is go:9,komi=7.5" in read_sgf(file, go(9)).warning
    assert not read_sgf(file, go(9, 6.5)).warning and not read_sgf(file).warning
    assert not read_sgf(b"(;SZ[9])", go(9)).warning


@pytest.mark.parametrize("komi", [6.5, 275, 375, 650])
def test_a_komi_of_our_own_files_is_in_points(komi):
    game = go(9, komi)
    assert read_sgf(write_sgf(game, game.initial_state(), [])).game.name == game.name


@pytest.mark.parametrize(
    ("charset", "name", "ending"),
    [("Shift_JIS", "ソ表", b"\\"), ("Big5", "功許", b"\\"), ("GBK", "誠", b"\\"), ("Shift_JIS", "ゾ曽", b"]"),
     ("Big5", "包魔", b"]"), ("GBK", "閉誡", b"]")],
)  # fmt: skip
def test_a_character_whose_second_byte_is_a_backslash_or_bracket_hides_no_move(charset, name, ending):
    raw = f"(;CA[{charset}]PB[{name}]SZ[9];B[cc]C[{name}];W[dd];B[ee])".encode(charset)
    assert ending + b"]" in raw
    assert [action for _, action in read_sgf(raw).moves] == [2 * 9 + 2, 3 * 9 + 3, 4 * 9 + 4]


def test_a_file_that_mixes_two_encodings_loses_no_move():
    comment = "好".encode()  # its last byte and the bracket after it are one character of GB18030
    raw = b"(;SZ[9]CA[GB18030]PB[" + "李昌镐".encode("gb18030") + b"];B[ee]C[" + comment + b"];W[cc];B[gg];W[gc])"
    assert len(read_sgf(raw).moves) == 4
    ambiguous = "(;CA[Shift_JIS]SZ[9];B[ee]C[変化‐;W[gg];W[cc];B[dd])".encode("shift_jis")
    assert [action for _, action in read_sgf(ambiguous).moves] == [40, 20, 30]


@pytest.mark.parametrize("charset", ["Shift_JIS", "Big5", "GBK", "GB18030"])
@pytest.mark.parametrize("text", ["你好吗", "围棋", "あいう", "棋譜", "plain"])
@pytest.mark.parametrize("ending", ["\\]", "\\\\", ""])
def test_a_file_of_utf_8_that_names_another_encoding_is_read(charset, text, ending):
    raw = f"(;CA[{charset}]SZ[9];B[cc]C[{text}{ending}];W[dd];B[ee])".encode()
    assert len(read_sgf(raw).moves) == 3


def test_an_empty_number_is_the_default():
    file = read_sgf(b"(;SZ[9]HA[]KM[];B[cc])")
    assert file.game.name == "go:9,komi=0" and file.moves == ((0, 20),)
    assert read_sgf(b"(;SZ[9]HA[2.0]KM[7,5]AB[cc][gg];W[dd])").moves[0][0] == 1


@pytest.mark.parametrize(
    ("root", "move"),
    [
        (b"SZ[9:9]", b"B[cc]"),
        (b"SZ[ 9 ]CA[GB]", b"B[cc]"),
        (b"SZ[9]CA[rot13]AP[x]", b"B[cc]C[d]"),
        (b"SZ[9]CA[]", b"B[c\nc]"),
        (b"SZ[9]PL[Black]", b"B[cc]"),
    ],
)
def test_what_other_programs_write_is_read(root, move):
    file = read_sgf(b"(;GM[1]" + root + b";" + move + b")")
    assert file.game.name == "go:9,komi=0" and file.moves == ((0, 20),)
    assert read_sgf(b"(;GM[1]SZ[];B[cc])").game.name == "go:19,komi=0"
    assert read_sgf(b"(;SZ[9]mn[3];B[cc]a[1])").moves == ((0, 20),)


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (b"", "no SGF"), (b"(;SZ[9:13])", "9:13"), (b"(;SZ[26])", "26"), (b"(;KM[6.3])", "6.3"),
        (b"(;GM[2])", r"GM\[2\]"), (b"(;KM[7;5])", "KM is not a number, but '7;5'"),
        (b"(;CA[\x16\x1b])", "encoding: \ufffd\ufffd"),
        (b"(;HA[" + b"9" * 5000 + b"])", "HA is not a number"), (b"(;KM[123456.5])", "between -100,000 and 100,000"),
        (b"(;SZ[9];B[aa];W[aa])", "move 2"), (b"(;SZ[9];B[zz])", "malformed"), (b"(;SZ[13])", "13×13, not 9×9"),
        (b"(;SZ[9];B[aa]AW[bb])", "both a move and"), (b"(;SZ[9];B[aa]W[bb])", "two moves"),
        (b"(;SZ[9];B[aa][bb])", "two moves"), (b"(;SZ[2]AB[aa][ab][ba][bb])", "without liberty"),
        (b"(;SZ[9];B[aa];AW[ab][ba])", "without liberty"), (b"(;SZ[9];B[ccc])", "a value is malformed"),
        (b"(;gm[1]sz[9];b[dd])", "without a capital letter"),
        (b"CA[ " * 120_000, "no SGF"), (b"(;SZ[2]" + b";AB[aa]" * 401 + b")", "more than 400 positions"),
    ],
)  # fmt: skip
def test_what_is_no_game_is_refused(raw, word):
    with pytest.raises(InvalidFile, match=word):
        read_sgf(raw, go(9) if b"13]" in raw else None)
