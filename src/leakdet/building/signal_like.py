"""The signal of a model or a store, for recordings that are to be used with it (`like=`)."""

from dataclasses import replace
from pathlib import Path

from leakdet.config import BuildConfig, SignalConfig
from leakdet.errors import InputError, SettingsError
from leakdet.storage.model_card import read_card
from leakdet.storage.model_place import model_in, model_kind
from leakdet.storage.opening import open_split, split_names


def with_like(config: BuildConfig) -> BuildConfig:
    """The settings with the signal of `config.like`; as they are where it names nothing.

    Raises:
        InputError: there is no such model or store, or it does not say its signal.
        SettingsError: other signal settings are given too.
    """
    if not config.like:
        return config
    signal = signal_like(Path(config.like))
    if config.signal != SignalConfig() and (differing := signal.differences(config.signal)):
        raise SettingsError(
            f"like={config.like}: its signal differs from the one that is given (like / given): "
            f"{'; '.join(differing)}. Leave out signal=, or like=."
        )
    return replace(config, signal=signal)


def signal_like(path: Path) -> SignalConfig:
    """The signal of a model file, the folder of a run, or a store.

    Raises:
        InputError: there is none, or it does not say its signal.
    """
    if path.is_dir() and any(path.glob("*.[hH]5")):
        return signal_of_store(path)
    model = model_in(path)
    if model_kind(model) != ".safetensors":
        if model.exists():
            raise InputError(
                f"{model}: like= takes a .safetensors file, a run's folder or a store."
            )
        raise InputError(f"{model}: there is no such model or store.")
    signal = read_card(model)["signal"]
    if signal is None:
        raise InputError(f"{model}: it does not say by which signal its recordings became mel.")
    return SignalConfig.from_dict(signal, str(model))


def signal_of_store(store: Path) -> SignalConfig:
    """The signal by which a store was built. Raises `InputError` where it does not say it."""
    names = split_names(store)
    signal = open_split(store, names[0]).signal if names else None
    if signal is None:
        raise InputError(f"{store}: it does not say by which signal its recordings became mel.")
    return signal
