"""Files of arrays with a description, written completely or not at all.

The container is safetensors: a JSON header and numbers, no code. An array of records is stored as its bytes, with the
names and types of its fields in the header. A checksum covers everything, so that truncated, damaged and foreign files
are refused with one sentence.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from engram.errors import EngramError, InvalidFile

FORMAT = 1
LARGEST_BYTES = 1 << 24
"""The most bytes in a text that people write, such as an SGF file."""
_WRONG_FORM = ArithmeticError, AttributeError, LookupError, RuntimeError, SyntaxError, TypeError, ValueError
_PLAIN = {"bool", "float16", "float32", "float64"}
_PLAIN |= {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
TYPES = "numbers of up to 64 bits, or records without objects"


def check_regular(path: str | Path, max_bytes: int | None = None) -> None:
    """Checks, before a file is read, that a path is a regular file: a pipe or a device may never answer or end.

    Raises:
      InvalidFile: there is no such file, it is not a regular file, or it has more than `max_bytes`.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise InvalidFile(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise InvalidFile(f"{path} cannot be read: {_reason(error)}") from None
    if not stat.S_ISREG(status.st_mode):
        raise InvalidFile(f"{path} is a folder, a pipe or a device, not a regular file")
    if max_bytes is not None and status.st_size > max_bytes:
        raise InvalidFile(f"{path} has {status.st_size:,} bytes, more than the {max_bytes:,} allowed here")


def contents(path: str | Path, max_bytes: int = LARGEST_BYTES) -> bytes:
    """The bytes of a regular file of at most `max_bytes`.

    Raises:
      InvalidFile: as `check_regular`; or the file cannot be read.
    """
    check_regular(path, max_bytes)
    try:
        with open(path, "rb") as file:
            return file.read(max_bytes)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {_reason(error)}") from None


def _is_stream(path: str | Path) -> bool:
    """Whether a path is written in place: a pipe, a device, or a link in /dev to a file that others have open."""
    is_link = Path(path).absolute().is_relative_to("/dev") and os.path.islink(path)
    return is_link or (os.path.exists(path) and not os.path.isfile(path))


@contextmanager
def whole(path: str | Path) -> Iterator[Path]:
    """A temporary file that replaces `path` when the block ends, and is deleted if the block fails.

    A reader sees the complete old file or the complete new one, even after a crash. A pipe or a device stays, and
    receives the bytes of the finished file; for a symbolic link, the target is replaced.

    Raises:
      OSError: the file cannot be written; the old one is unchanged.
    """
    if _is_stream(path):
        with tempfile.TemporaryDirectory() as folder:  # some writers would replace the device with a file
            part = Path(folder) / Path(path).name
            part.touch()
            yield part
            with open(part, "rb") as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
        return
    path = Path(os.path.realpath(path))
    name = os.fsdecode(os.fsencode(path.name)[:200])  # file systems allow 255 bytes
    part = path.with_name(f"{name}.{uuid4().hex[:12]}.part")  # each writer has its own name, threads included
    try:
        part.touch()
        mode = part.stat().st_mode  # the mode of the user's umask; some writers are stricter
        yield part
        part.chmod(mode)
        with open(part, "r+b") as file:  # Windows does not flush a file that is open only for reading
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def writing(path: str | Path) -> Iterator[Path]:
    """`whole`, with a sentence for its errors.

    Raises:
      InvalidFile: the file cannot be written; the old one is unchanged.
    """
    try:
        with whole(path) as part:
            yield part
    except (OSError, SafetensorError) as error:
        raise InvalidFile(f"{path} cannot be written: {getattr(error, 'strerror', None) or _reason(error)}") from None


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, if they are missing.

    Raises:
      InvalidFile: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidFile(f"the folder {path} cannot be made: {error.strerror}") from None


def write_text(path: str | Path, text: str) -> None:
    """Writes a text as `writing` does.

    Raises:
      InvalidFile: it cannot be written; the old file is unchanged.
    """
    with writing(path) as part:
        part.write_text(text, encoding="utf-8")


def can_hold(dtype: np.dtype) -> bool:
    """Whether a file can hold arrays of this type."""
    return dtype.name in _PLAIN or (dtype.names is not None and not dtype.hasobject and dtype.itemsize > 0)


def save(path: str | Path, kind: str, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a file, completely or not at all (`whole`).

    Args:
      path: an existing file is replaced.
      kind: of the contents, a word or two such as `memory`; `load` checks it.
      about: plain data (JSON) about the arrays.
      arrays: numbers or records of any shape; `load` returns numbers in this machine's byte order.

    Raises:
      InvalidFile: it cannot be written, or an array holds something else; the old file is unchanged.
    """
    check_place(path)
    path = Path(path)
    for name, array in arrays.items():
        if not can_hold(array.dtype):
            raise InvalidFile(f"{path} cannot hold {name}: its type must be {TYPES}, not {array.dtype}")
    records = {name: array.dtype for name, array in arrays.items() if array.dtype.fields is not None}
    stored = {
        name: np.asarray(array, None if name in records else array.dtype.newbyteorder("="), order="C")
        for name, array in arrays.items()
    }
    stored |= {name: stored[name][..., None].view(np.uint8) for name in records}  # (…, bytes a record)
    descriptions = {name: _description(dtype) for name, dtype in records.items()}
    contents = {"kind": kind, "format": FORMAT, "about": dict(about), "records": descriptions}
    manifest = json.dumps(contents, sort_keys=True)
    metadata = {"engram": manifest, "sha256": _digest(manifest, stored)}
    with writing(path) as part:
        save_file(stored, part, metadata)
        _sort_header(part)


def _sort_header(path: Path) -> None:
    """Sorts the header of a file, which safetensors writes in random order, so that digests compare contents."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        file.seek(8)
        file.write(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(size))


def hold(lock: Path, refusal: str) -> AbstractContextManager[Any]:
    """Takes a lock file without waiting; returns a context manager that releases it.

    Args:
      refusal: the message if another process holds the lock.

    Raises:
      InvalidFile: it is held, or cannot be written.
    """
    from filelock import FileLock, Timeout

    try:
        return FileLock(lock).acquire(timeout=0)
    except Timeout:
        raise InvalidFile(refusal) from None
    except OSError as error:
        raise InvalidFile(f"{lock} cannot be written: {error.strerror or error}") from None


def identity(path: Path) -> tuple[int, int] | None:
    """Device and number of the file that now has this name; None if there is no such file."""
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def without_nan(data: Any) -> Any:
    """Plain data for JSON, with None for numbers that are not finite."""
    if isinstance(data, dict):
        return {key: without_nan(value) for key, value in data.items()}
    return None if isinstance(data, float) and not math.isfinite(data) else data


def check_place(path: str | Path) -> None:
    """Checks, before long work, that `save` could write a file to a path.

    Raises:
      InvalidFile: it is a folder, its name is too long, or its folder does not exist or is read-only.
    """
    try:
        folder = Path(os.path.realpath(path)).parent
    except OSError:
        raise InvalidFile(f"{path} cannot be written: the working folder was removed") from None
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.stat(path)
    except OSError as error:  # a name that is too long
        raise InvalidFile(f"{path} cannot be written: {error.strerror}") from None
    for holds, reason in (
        (os.path.isdir(path), "it is a folder"),
        (not folder.is_dir(), "its folder does not exist"),
        (not (_is_stream(path) or os.access(folder, os.W_OK | os.X_OK)), "its folder is read-only"),
    ):
        if holds:
            raise InvalidFile(f"{path} cannot be written: {reason}")


def about(path: str | Path, kind: str) -> dict[str, Any]:
    """The description of a file, without reading its arrays.

    Raises:
      InvalidFile: see `load`; damage to the arrays is not detected.
    """
    with _opened(Path(path)) as file:
        return dict(_manifest(Path(path), kind, file.metadata())["about"])


def load(path: str | Path, kind: str, *, max_bytes: int = 1 << 36) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays of a file.

    Args:
      path: of the file. kind: as in `save`.
      max_bytes: a larger file is refused before it is read.

    Raises:
      InvalidFile: no such file, not one of engram's, of another kind or format, too large, or damaged.
    """
    path = Path(path)
    with _opened(path, max_bytes) as file:
        metadata = file.metadata()
        manifest = _manifest(path, kind, metadata)
        with reading(path):
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            if metadata["sha256"] != _digest(metadata["engram"], stored):
                raise InvalidFile(f"{path} is damaged: its checksum does not match")
            for name, description in manifest["records"].items():
                stored[name] = stored[name].view(_dtype(description)).reshape(stored[name].shape[:-1])
    return manifest["about"], stored


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """A block that reads a file's contents: contents of a wrong form are reported as damage, in one sentence.

    Raises:
      InvalidFile: the block raised one of Python's errors. engram's own errors pass unchanged.
    """
    try:
        yield
    except EngramError:
        raise
    except (*_WRONG_FORM, SafetensorError) as error:
        raise InvalidFile(f"{path} is damaged: {_reason(error)}") from error


def check_form(arrays: Mapping[str, np.ndarray], like: Mapping[str, np.ndarray]) -> None:
    """Checks names, types and shapes of arrays against those of others; an empty array leaves the number of rows open.

    Raises:
      KeyError, ValueError: an array is missing, has another form, or holds a number that is not finite.
    """
    for name, model in like.items():
        array = arrays[name]
        rows = array.shape[:1] if len(model) == 0 else model.shape[:1]
        if array.dtype != model.dtype or array.shape != (*rows, *model.shape[1:]):
            raise ValueError(f"{name} has another form")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} holds numbers that are not finite")


def _description(dtype: np.dtype) -> dict[str, Any]:
    assert dtype.fields is not None  # records only
    names = list(dtype.names or ())
    parts = [(dtype[name].base, dtype[name].shape) for name in names]
    return {
        "names": names,
        "formats": [[base.str if base.fields is None else _description(base), shape] for base, shape in parts],
        "offsets": [dtype.fields[name][1] for name in names],
        "itemsize": dtype.itemsize,
    }


def _dtype(description: dict[str, Any]) -> np.dtype:
    formats = [
        (base if isinstance(base, str) else _dtype(base), tuple(shape)) for base, shape in description["formats"]
    ]
    return np.dtype({**description, "formats": formats})  # type: ignore[call-overload]


def _digest(manifest: str, stored: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(manifest.encode())
    for name in sorted(stored):
        digest.update(f"\0{name}\0{stored[name].dtype.str}{stored[name].shape}\0".encode())
        digest.update(stored[name].data if stored[name].size else b"")
    return digest.hexdigest()


def _opened(path: Path, max_bytes: int | None = None) -> Any:
    check_regular(path, max_bytes)
    try:
        return safe_open(path, framework="np")
    except (SafetensorError, OSError) as error:
        raise InvalidFile(f"{path} is cut short or not a file of engram: {_reason(error)}") from error


def _manifest(path: Path, kind: str, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((metadata or {})["engram"])
        actual, version, _ = manifest["kind"], manifest["format"], dict(manifest["about"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise InvalidFile(f"{path} is not a file of engram") from None
    if actual != kind:
        raise InvalidFile(f"{path} holds a {actual}, not a {kind}")
    if version != FORMAT:
        raise InvalidFile(f"{path} is of format {version}, and this engram reads format {FORMAT}")
    if not all(isinstance(manifest.get(part), dict) for part in ("about", "records")):
        raise InvalidFile(f"{path} is damaged: its description is incomplete")
    return manifest


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
