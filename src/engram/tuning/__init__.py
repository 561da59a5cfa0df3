"""Tuning: numbers, words and backup functions of a search, from noisy matches by Bayesian optimisation."""

from engram.errors import MissingPackage


def require() -> None:
    """Raises `MissingPackage` if the packages of tuning are not installed."""
    try:
        import botorch  # noqa: F401
        import optuna  # noqa: F401
    except ImportError as error:
        raise MissingPackage(f"tuning needs Optuna and BoTorch ({error}): pip install 'engram[tune]'") from None
