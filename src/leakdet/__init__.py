"""leakdet: from labelled recordings of pipes to a verdict, leak or no leak, for each new recording.

The names below are what programs and notebooks use; docs/api.md shows them at work. They load when
they are first used, so that importing the package costs nothing.
"""

import random
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakdet.cli.compose import compose
    from leakdet.core.errors import InputError, LeakdetError, SettingsError
    from leakdet.runs.evaluation import evaluate_model
    from leakdet.runs.training import FitResult, fit
    from leakdet.scoring.detector import Detector, load_detector
    from leakdet.storage.opening import SplitArrays, Store, open_store
    from leakdet.tables.schema import Verdict, Verdicts, Window

__version__ = "0.1.0"

__all__ = [
    "Detector",
    "FitResult",
    "InputError",
    "LeakdetError",
    "SettingsError",
    "SplitArrays",
    "Store",
    "Verdict",
    "Verdicts",
    "Window",
    "compose",
    "evaluate_model",
    "fit",
    "load_detector",
    "open_store",
]

# Where each name lives; a type checker reads the imports above.
_MODULES = {
    "Detector": "scoring.detector",
    "FitResult": "runs.training",
    "InputError": "core.errors",
    "LeakdetError": "core.errors",
    "SettingsError": "core.errors",
    "SplitArrays": "storage.opening",
    "Store": "storage.opening",
    "Verdict": "tables.schema",
    "Verdicts": "tables.schema",
    "Window": "tables.schema",
    "compose": "cli.compose",
    "evaluate_model": "runs.evaluation",
    "fit": "runs.training",
    "load_detector": "scoring.detector",
    "open_store": "storage.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'leakdet' has no attribute {name!r}")
    drawn = random.getstate()
    try:
        with warnings.catch_warnings():  # libraries that are imported add filters for all
            return getattr(import_module(f"leakdet.{_MODULES[name]}"), name)
    finally:
        random.setstate(drawn)  # and draw random numbers


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
