"""Training: networks, with PyTorch, and tables of values (`td`), without it."""

from __future__ import annotations

from importlib.util import find_spec

from engram.errors import MissingPackage


def require_torch() -> None:
    """Checks that PyTorch is installed, and the package that logs a training.

    Raises:
      MissingPackage: a package is missing; the error names the extra that installs it.
    """
    for package, name in {"torch": "PyTorch", "tensorboard": "TensorBoard"}.items():
        if find_spec(package) is None:
            raise MissingPackage(f"training needs {name}: pip install 'engram[learn]'")
