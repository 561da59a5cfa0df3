"""The log on standard error, of this process and of its workers."""

from __future__ import annotations

import logging
import os

from engram.errors import InvalidParameter

LEVELS = ("debug", "info", "warning", "error")


def log_to_stderr(level: str) -> None:
    """Writes engram's log to standard error, in this process and in the workers that it starts.

    Raises:
      InvalidParameter: the level is not debug, info, warning or error.
    """
    if level.lower() not in LEVELS:
        raise InvalidParameter(f"a level of the log is {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, not {level!r}")
    handler, logger = logging.StreamHandler(), logging.getLogger("engram")
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(name)s %(levelname)s: %(message)s"))
    logger.handlers[1:] = [handler]  # after the one of `import engram`, which is silent
    logger.setLevel(level.upper())
    os.environ["ENGRAM_LOG"] = level
