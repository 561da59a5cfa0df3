"""The entry point: while the command line is imported, Ctrl-C ends the process without a traceback."""

import signal

_is_pythons = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _is_pythons:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Runs the `engram` command."""
    from engram.cli import app

    if _is_pythons:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app.main()
