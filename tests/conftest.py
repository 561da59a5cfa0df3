"""The suite's own settings, before NumPy and PyTorch are imported."""

import os

# The processes of the suite share the processors: each computes in one thread, and starts others where a test says so.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("ENGRAM_WORKERS", "1")
# The first, guarded run of new code costs a second each; the tests in `test_guard.py` turn it on.
os.environ.setdefault("ENGRAM_GUARD", "0")
os.environ.setdefault("ENGRAM_QUIET", "1")
