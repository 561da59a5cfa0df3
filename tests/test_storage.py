"""Durable files: what was saved comes back, and nothing else is believed."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram import storage as durable
from engram.errors import InvalidFile
from engram.storage import whole
from engram.user_files import digest_of

RECORD = np.dtype([("small", np.int16, (3,)), ("key", np.uint64), ("value", np.float64)], align=True)


def some_arrays(seed=0):
    rng = np.random.default_rng(seed)
    records = np.zeros((4, 5), RECORD)
    records["key"] = rng.integers(0, 2**63, (4, 5))
    records["value"] = rng.normal(size=(4, 5))
    return {"records": records, "plain": rng.normal(size=(7, 2)).astype(np.float32), "none": np.zeros(0, RECORD)}


def test_what_was_saved_comes_back(tmp_path):
    file = tmp_path / "a.engram"
    durable.save(file, "thing", {"game": "go:9", "numbers": [1, 2.5]}, some_arrays())
    about, arrays = durable.load(file, "thing")
    assert about == durable.about(file, "thing") == {"game": "go:9", "numbers": [1, 2.5]}
    for name, array in some_arrays().items():
        assert arrays[name].dtype == array.dtype and arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
    assert os.listdir(tmp_path) == ["a.engram"]


PAIR = np.dtype([("first", np.float64), ("second", np.int8)], align=True)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3, dtype=">f4"),
        np.ones((2, 3), [("black", PAIR), ("white", PAIR, (2,))]),
        np.array(4.5),
        np.zeros((), RECORD),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
    ],
)
def test_every_order_and_shape_comes_back(tmp_path, array):
    durable.save(tmp_path / "a", "thing", {}, {"it": array})
    loaded = durable.load(tmp_path / "a", "thing")[1]["it"]
    assert loaded.dtype == array.dtype.newbyteorder("=") and loaded.shape == array.shape
    assert (loaded == array).all()


@pytest.mark.parametrize("dtype", [object, [("it", object)], complex, "U3", [], [("a", "f4", (0,))]])
def test_an_array_that_no_file_holds_is_refused_before_it_is_written(tmp_path, dtype):
    with pytest.raises(InvalidFile, match="cannot hold it: its type must be numbers of up to 64 bits, or records"):
        durable.save(tmp_path / "a", "thing", {}, {"it": np.zeros(2, dtype)})
    assert not os.listdir(tmp_path)


def test_equal_contents_are_equal_bytes(tmp_path):
    contents = set()
    for _ in range(20):
        durable.save(tmp_path / "a", "thing", {"naïve": ["ü", 1]}, some_arrays())
        contents.add((tmp_path / "a").read_bytes())
    assert len(contents) == 1


def test_arrays_can_be_written_to_afterwards(tmp_path):
    durable.save(tmp_path / "a", "thing", {}, some_arrays())
    _, arrays = durable.load(tmp_path / "a", "thing")
    for array in arrays.values():
        array[...] = np.zeros((), array.dtype)


def test_foreign_files_are_refused_in_one_sentence(tmp_path):
    file = tmp_path / "a.engram"
    durable.save(file, "thing", {}, some_arrays())
    with pytest.raises(InvalidFile, match="holds a thing, not a memory"):
        durable.load(file, "memory")
    with pytest.raises(InvalidFile, match="more than the 100"):
        durable.load(file, "thing", max_bytes=100)
    for wrong in (b"", b"hello", b"\xff" * 64, b"\x08\0\0\0\0\0\0\0{}      "):
        (tmp_path / "b").write_bytes(wrong)
        with pytest.raises(InvalidFile):
            durable.load(tmp_path / "b", "thing")
    with pytest.raises(InvalidFile, match="there is no file"):
        durable.load(tmp_path / "c", "thing")
    with pytest.raises(InvalidFile, match="cannot be written"):
        durable.save(tmp_path / "no" / "such", "thing", {}, some_arrays())


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        for read in (durable.contents, lambda path: durable.load(path, "thing")):
            with pytest.raises(InvalidFile, match="not a regular file"):
                read(place)
    with open(tmp_path / "long", "wb") as long:
        long.truncate((1 << 24) + 1)
    with pytest.raises(InvalidFile, match="16,777,217 bytes, more than the 16,777,216"):
        durable.contents(tmp_path / "long")
    with pytest.raises(InvalidFile, match="cannot be read"):
        durable.contents("a\0b")
    (tmp_path / "short").write_bytes(b"abc")
    assert durable.contents(tmp_path / "short") == b"abc"


def test_another_format_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "FORMAT", 99)
    durable.save(tmp_path / "a", "thing", {}, some_arrays())
    monkeypatch.undo()
    with pytest.raises(InvalidFile, match="format 99"):
        durable.load(tmp_path / "a", "thing")


@settings(max_examples=150, deadline=None)
@given(cut=st.floats(0, 1), flip=st.one_of(st.none(), st.floats(0, 1)), bit=st.integers(0, 7))
def test_damage_is_noticed(tmp_path_factory, cut, flip, bit):
    folder = tmp_path_factory.mktemp("damage")
    durable.save(folder / "a", "thing", {"game": "go:9"}, some_arrays())
    content_of = (folder / "a").read_bytes()
    content = bytearray(content_of[: max(1, int(cut * len(content_of)))] if flip is None else content_of)
    if flip is not None:
        content[int(flip * (len(content) - 1))] ^= 1 << bit
    (folder / "b").write_bytes(content)
    if bytes(content) == content_of:
        durable.load(folder / "b", "thing")
        return
    with pytest.raises(InvalidFile):
        durable.load(folder / "b", "thing")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "a"
    durable.save(file, "thing", {"turn": 1}, some_arrays())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "save_file", full)
    with pytest.raises(InvalidFile, match="No space left"):
        durable.save(file, "thing", {"turn": 2}, some_arrays(1))
    assert durable.about(file, "thing") == {"turn": 1}
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_written_whole_takes_the_place_of_the_old_or_leaves_it(tmp_path):
    file = tmp_path / "a"
    file.write_text("old")
    with pytest.raises(ZeroDivisionError), whole(file) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert file.read_text() == "old"
    with whole(file) as part:
        part.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_file_is_flushed_by_a_descriptor_that_may_write(tmp_path, monkeypatch):
    """Windows flushes no other."""

    def flush(descriptor):
        os.write(descriptor, b"")

    monkeypatch.setattr(durable.os, "fsync", flush)
    durable.write_text(tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text"


def test_writers_of_one_file_in_one_process_tear_nothing(tmp_path):
    """Threads, and processes of two containers, may have one process number."""
    file, torn = tmp_path / ("é" * 120), []  # 240 bytes
    durable.save(file, "thing", {}, {"x": np.zeros(1)})

    def write(value):
        for _ in range(30):
            durable.save(file, "thing", {}, {"x": np.full(50_000 * value, value)})

    writers = [threading.Thread(target=write, args=(value,)) for value in (1, 2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        values = np.unique(durable.load(file, "thing")[1]["x"])
        torn += [values] if len(values) > 1 else []
    assert not torn and [entry.name for entry in tmp_path.iterdir()] == [file.name]


def test_what_a_link_leads_to_is_written(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with whole(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_place_is_checked_before_long_work(tmp_path, monkeypatch):
    writable = tmp_path / "open"
    writable.mkdir()
    (tmp_path / "link").symlink_to(writable / "file")
    os.mkfifo(tmp_path / "pipe")
    access = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: str(place) != str(tmp_path) and access(place, mode))
    with pytest.raises(InvalidFile, match="file cannot be written: its folder is read-only"):
        durable.check_place(tmp_path / "file")
    with pytest.raises(InvalidFile, match="a cannot be written: File name too long"):
        durable.check_place(writable / ("a" * 300))
    for place in (tmp_path / "link", tmp_path / "pipe", os.devnull, "/dev/stdout"):
        durable.check_place(place)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole(pipe) as part:
        part.write_text("heard")
    assert os.read(reader, 100) == b"heard"
    durable.save(pipe, "thing", {}, {"numbers": np.arange(3)})  # its writer would replace the pipe by a file
    (tmp_path / "copy").write_bytes(os.read(reader, 1 << 16))
    assert durable.load(tmp_path / "copy", "thing")[1]["numbers"].tolist() == [0, 1, 2]
    assert pipe.is_fifo() and len(list(tmp_path.iterdir())) == 2
    os.close(reader)


def test_a_pipe_has_no_digest(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidFile, match="a pipe"):
        digest_of([tmp_path / "pipe"])


def test_a_working_folder_that_was_removed_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidFile, match="the working folder was removed"):
        durable.check_place("file")
