"""Files copied to the machines of a cluster: a user's code and data, in a folder named by their digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engram import user_files
from engram.native.cache import private_folder


@dataclass(frozen=True)
class Luggage:
    """Files of the head, by their paths below a common folder.

    Attributes:
      root: that folder. working: the head's working directory below it. contents: of each file.
    """

    root: str
    working: str
    contents: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, files: Sequence[Path]) -> Luggage:
        """Reads the files."""
        working, places = os.getcwd(), sorted({str(file.expanduser().resolve()) for file in files})
        root = os.path.commonpath([os.path.realpath(working), *map(os.path.dirname, places)])
        contents = tuple((os.path.relpath(place, root), Path(place).read_bytes()) for place in places)
        return cls(root, os.path.relpath(os.path.realpath(working), root), contents)

    def unpack(self) -> None:
        """Writes the files below a private folder, and makes it this process's working directory.

        Relative paths then name the files, and so do absolute paths of code. The folder is kept for later fleets, so
        that they find compiled code in its cache.
        """
        if not self.contents:
            return user_files.move(None)
        digest = hashlib.sha256()
        for name, content in self.contents:
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        folder = private_folder(f"files-{digest.hexdigest()[:20]}")
        for name, content in self.contents:
            place = folder / name
            if place.is_file() and place.stat().st_size == len(content) and place.read_bytes() == content:
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            part = place.with_name(f"{place.name}.{os.getpid()}")
            part.write_bytes(content)
            part.replace(place)
        working = folder / self.working
        working.mkdir(parents=True, exist_ok=True)
        os.chdir(working)
        user_files.move((Path(self.root), folder))
