"""The user's own callbacks, named by `callbacks.extra`."""

from collections.abc import Sequence

from lightning.pytorch.callbacks import Callback

from leakdet._imports import import_named
from leakdet.errors import SettingsError

SETTING = "callbacks.extra"


def own_classes(names: Sequence[str]) -> list[type[Callback]]:
    """The classes `package.module:Class`.

    Raises:
        SettingsError: one cannot be imported or is no Lightning callback.
    """
    return [_callback_class(name) for name in names]


def _callback_class(name: str) -> type[Callback]:
    kind = import_named(SETTING, name)
    if not (isinstance(kind, type) and issubclass(kind, Callback)):
        raise SettingsError(
            f"{SETTING}: {name} is no callback; it must be a subclass of "
            "lightning.pytorch.callbacks.Callback."
        )
    return kind


def own_callbacks(names: Sequence[str]) -> list[Callback]:
    """An instance of each class, made without arguments. Errors are those of `own_classes`."""
    return [_instance(name, kind) for name, kind in zip(names, own_classes(names), strict=True)]


def _instance(name: str, kind: type[Callback]) -> Callback:
    try:
        return kind()
    except TypeError as error:
        raise SettingsError(
            f"{SETTING}: {name} is made without arguments, and that failed ({error}). Give its "
            "arguments defaults, or name a subclass that sets them."
        ) from error
