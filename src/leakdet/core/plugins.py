"""Imports user code that the settings name as package.module:name."""

import difflib
import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakdet.core.errors import LeakdetError, SettingsError


def import_named(setting: str, name: str) -> Any:
    """The object `package.module:name`, also of the current folder, which is searched last."""
    module_name, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        module = importlib.import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise SettingsError(
            f"{setting}: {name} cannot be imported ({error}). Its module must be installed or lie "
            f"in the current folder, {folder}."
        ) from error
    except Exception as error:
        raise SettingsError(
            f"{setting}: {name} cannot be imported, since its module fails with "
            f"{type(error).__name__}: {error}."
        ) from error
    if not hasattr(module, attribute):
        close = difflib.get_close_matches(attribute, dir(module), 1)
        raise SettingsError(
            f"{setting}: {module_name} has no {attribute}"
            + (f"; did you mean {module_name}:{close[0]}?" if close else ".")
        )
    return getattr(module, attribute)


@contextmanager
def own_code(setting: str, name: str) -> Iterator[None]:
    """Raise `SettingsError` for any error in the block, which runs `package.module:name`.

    The error names the setting, and the line of that module.
    """
    try:
        yield
    except LeakdetError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        file = getattr(sys.modules.get(name.partition(":")[0]), "__file__", None)
        own = [frame for frame in frames if frame.filename == file]
        place = (own or frames)[-1]
        raise SettingsError(
            f"{setting}={name}: its code fails with {type(error).__name__}: {error} "
            f"({place.filename}, line {place.lineno}: {place.line})."
        ) from error
