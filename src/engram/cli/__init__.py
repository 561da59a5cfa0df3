"""The command line; Ctrl-C while it still loads ends it with one word instead of a traceback."""

import sys
from typing import Any


def _excepthook(kind: type[BaseException], *error: Any) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("engram: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, *error)


sys.excepthook = _excepthook
