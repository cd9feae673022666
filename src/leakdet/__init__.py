"""leakdet: from labelled recordings of pipes to a verdict, leak or no leak, for each new recording.

The names below are what programs and notebooks use; docs/api.md shows them at work. They load when
they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakdet.cli.composition import compose
    from leakdet.errors import InputError, LeakdetError, SettingsError
    from leakdet.evaluation_run import evaluate_model
    from leakdet.scoring.audio_detector import Detector, load_detector
    from leakdet.scoring.verdict import Verdict, Window
    from leakdet.storage.store_arrays import SplitArrays, Store, open_store
    from leakdet.training_run import FitResult, fit

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
    "Window",
    "compose",
    "evaluate_model",
    "fit",
    "load_detector",
    "open_store",
]

# Where each name lives; a type checker reads the imports above.
_MODULES = {
    "Detector": "scoring.audio_detector",
    "FitResult": "training_run",
    "InputError": "errors",
    "LeakdetError": "errors",
    "SettingsError": "errors",
    "SplitArrays": "storage.store_arrays",
    "Store": "storage.store_arrays",
    "Verdict": "scoring.verdict",
    "Window": "scoring.verdict",
    "compose": "cli.composition",
    "evaluate_model": "evaluation_run",
    "fit": "training_run",
    "load_detector": "scoring.audio_detector",
    "open_store": "storage.store_arrays",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'leakdet' has no attribute {name!r}")
    return getattr(import_module(f"leakdet.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
