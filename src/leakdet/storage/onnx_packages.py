"""The packages that write and run `.onnx` files, which are of the extra `export`."""

import importlib.util
from collections.abc import Iterable

from leakdet.errors import InputError

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
TO_RUN = ("onnx", "onnxruntime")
INSTALL = "pip install 'leakdet[export]'"


def require_packages(packages: Iterable[str] = PACKAGES) -> None:
    """Raise `InputError` with the command that installs what is missing of the extra `export`."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f".onnx files need {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} "
            f"not installed: {INSTALL}"
        )
