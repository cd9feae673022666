"""Refuses a run that cannot begin, before torch is imported: paths, packages, accelerator."""

import ctypes
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leakdet.config import (
    BuildConfig,
    CrossvalConfig,
    CrossvalSettings,
    LearnConfig,
    MeasuredTrainConfig,
    SignalConfig,
    TrainConfig,
    TrainerFlags,
    TuneConfig,
)
from leakdet.config.conflicts import check_trainer
from leakdet.config.fields import MISSING
from leakdet.config.train import SYNTHETIC
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.files import check_free
from leakdet.core.locations import Location, is_url, parse_location
from leakdet.core.process import is_child
from leakdet.storage.folder import (
    build_facts,
    group_columns,
    holds_stores,
    require_store,
    unknown_column,
)
from leakdet.storage.model_card import (
    MODEL_SUFFIXES,
    find_model,
    model_in,
    model_kind,
    refuse_several,
    require_model,
)

# packages that only some settings need, by the setting
LOGGER_PACKAGES = {name: name for name in ("wandb", "mlflow")}
SAMPLER_PACKAGES = {"cmaes": "cmaes"}
NEGATIVES = "data.negatives"


def check_inputs(config: TrainConfig, named: Sequence[str] = ()) -> None:
    """Look for everything that the settings name; `named` are words of the command line."""
    if config.data.store is not None:
        require_store(Path(config.data.store), isinstance(config, MeasuredTrainConfig))
    for store in config.data.stores:
        require_store(Path(store))
    _check_own_settings(config)
    refuse_other_signal(config, named)
    if config.init_from is not None:
        model_in(Path(config.init_from), "init_from=")
    for name, path in (
        ("resume", None if config.resume == "auto" else config.resume),
        ("init_from", config.init_from),
        ("augment.interference", config.augment.interference),
        (NEGATIVES, config.data.negatives),
    ):
        _refuse_url(name, path)
        made_up = name == NEGATIVES and path == SYNTHETIC
        if path is not None and not made_up and not Path(path).exists():
            takes = f" It takes {SYNTHETIC}, none, or a folder of sounds." * (name == NEGATIVES)
            raise InputError(f"{name}={path}: there is no such file or folder.{takes}")
    if config.resume not in (None, "auto"):
        _check_resumable(Path(str(config.resume)))
    needed = {f"logger={name}": LOGGER_PACKAGES.get(name) for name in config.logger}
    if isinstance(config, TuneConfig):
        sampler = config.tune.sampler
        needed[f"tune.sampler={sampler}"] = SAMPLER_PACKAGES.get(sampler)
    for setting, package in needed.items():
        if package and find_spec(package) is None:
            raise SettingsError(
                f"{setting} needs a package that is not installed: pip install {package}"
            )
    check_trainer(config)
    if TrainerFlags.of(config.trainer).accelerator in ("gpu", "cuda") and not has_gpu():
        raise SettingsError(
            "trainer=gpu: this machine has no GPU, or no driver for it. Train with trainer=cpu."
        )


def check_build(config: BuildConfig) -> None:
    """Look for the source of a build, and for what lies where its store is to be made."""
    from leakdet.building.listing import require_source

    if config.source not in ("demo", MISSING):
        require_source(parse_location(config.source))
    if config.add_to:
        require_store(Path(config.add_to))
    if config.out not in ("", MISSING):
        check_free(Path(config.out).absolute(), config.overwrite)


def check_models_and_store(models: Sequence[Location], store: Path) -> None:
    """Look for what `evaluate` names: one or two models, and then the store."""
    for model in models:
        if isinstance(model, Path) and holds_stores(model) and not find_model(model):
            right = shlex.join(map(str, [store, *(m for m in models if m != model), model]))
            raise InputError(
                f"{model}: this is a store, and models come first. Write: leakdet evaluate {right}"
            )
    if len(models) > 2:
        allowed = "allowed are one, or two to be compared, and then the store."
        raise InputError(f"{len(models)} models were given; {allowed}")
    for model in models:
        require_model(model)
    require_store(store)


def _refuse_url(name: str, path: str | None) -> None:
    if is_url(path):
        raise InputError(f"{name}={path}: this is read from a disk; copy it there first.")


def _check_own_settings(config: TrainConfig) -> None:
    """Check what only one verb has: the columns of crossval, what learn starts from and learns."""
    if isinstance(config, LearnConfig):
        _check_learning(config)
    elif isinstance(config, CrossvalConfig) and config.data.store is not None:
        _check_columns(config.crossval, Path(config.data.store))


def _check_columns(crossval: CrossvalSettings, store: Path) -> None:
    """Raise `InputError` where a cross-validation names columns that a store does not have."""
    columns = group_columns(store)
    for name, protocol in crossval.by_name().items() if columns else ():
        place = f"crossval.protocols.{name}" if crossval.protocols else "crossval"
        for setting, more in (("group_by", "recording"), ("where", "label")):
            for column in getattr(protocol, setting):
                if column not in (*columns, more):
                    raise unknown_column(column, columns, f"{place}.{setting}")


def _check_learning(config: LearnConfig) -> None:
    """Raise where a model to learn from is missing, or what it is to learn."""
    for name, path in (("model", config.model), ("learn.new", config.learn.new)):
        _refuse_url(name, path)
    if config.learn.new and _is_model(Path(config.learn.new)) and not _is_model(Path(config.model)):
        right = shlex.join([config.learn.new, config.model])
        raise InputError(
            f"{config.learn.new}: this is a model, and models come first. Write: leakdet learn "
            f"{right}"
        )
    require_model(Path(config.model))
    if config.learn.new is None:
        config.learn.published_alone()
    elif not Path(config.learn.new).exists():
        raise InputError(
            f"learn.new={config.learn.new}: there is no such file or folder. It takes a CSV with "
            "path and label, a folder by label, or a store."
        )
    elif Path(config.learn.new).is_file():
        from leakdet.building.listing import require_labelled

        require_labelled(Path(config.learn.new), config.learn.min_per_class)


def _is_model(path: Path) -> bool:
    return model_kind(path) in MODEL_SUFFIXES or find_model(path) is not None


def _check_resumable(place: Path) -> None:
    """Raise `InputError` where a folder is none of a run that can be resumed."""
    kept = (*place.glob("*.ckpt"), *place.glob("checkpoints/*.ckpt"))
    if place.is_dir() and not kept:
        refuse_several(place, "resume=")
        raise InputError(f"resume={place}: this folder holds no checkpoint of a run.")


def refuse_other_signal(config: TrainConfig, named: Sequence[str] = ()) -> None:
    """Raise `InputError` where a store was built with another signal than the one asked for.

    It is asked for by `signal=` among the words `named`, or by a recipe whose signal is not the
    default. A run that is resumed keeps its store, and a store without build.json says nothing.
    """
    words = [word for word in named if word.startswith(("signal=", "signal.", "experiment="))]
    explicit = [word for word in words if word.startswith("signal")]
    asked_for = explicit or _differs(config.signal, asdict(SignalConfig()))
    if config.data.is_demo or config.resume or not asked_for:
        return
    store = Path(config.data.store or config.data.stores[0])  # several have one signal
    try:
        build = build_facts(store)
        stored, how = dict(build["signal"]), dict(build["settings"])
    except (ValueError, KeyError, TypeError):
        return
    if differing := _differs(config.signal, stored):
        asked = " ".join(words) or "these settings"
        build_words = ["build", str(how.get("source")), f"{store}-other"]
        build_words += explicit or _signal_words(config.signal)
        group_by = ",".join(how.get("split", {}).get("group_by", []))
        build_words += [f"split.group_by=[{group_by}]"] if group_by else []
        raise InputError(
            f"{store}: was built with another signal than {asked} (asked / store): "
            f"{'; '.join(differing)}. A store keeps its signal. Build one with the other: "
            f"leakdet {shlex.join(build_words)}; or train on this one without {asked}."
        )


def _differs(signal: SignalConfig, stored: dict[str, Any]) -> list[str]:
    """`name: asked / stored` of the fields that differ."""
    asked = asdict(signal)
    if asked["fmax_hz"] == "auto":  # a store has the number that the recordings gave
        del asked["fmax_hz"]
    return [
        f"{name}: {value} / {stored[name]}"
        for name, value in asked.items()
        if name in stored and value != stored[name]
    ]


def _signal_words(signal: SignalConfig) -> list[str]:
    """The settings of `build` that give this signal."""
    asked, default = asdict(signal), asdict(SignalConfig())
    return [f"signal.{name}={asked[name]}" for name in asked if asked[name] != default[name]]


def refuse_used_folder(folder: Path, place: str = "hydra.run.dir", resumes: bool = True) -> None:
    """Raise `SettingsError` where a new run would overwrite another run's checkpoints.

    `place` is the setting that names the folder; `resumes`: the command can continue a run. A
    `learn` that was stopped is repeated in its folder.
    """
    # the checkpoint there may be one that this run's first process has just copied
    if is_child():
        return
    if not resumes and (folder / "added").is_dir() and not (folder / "model.safetensors").exists():
        return
    kept = sorted((folder / "checkpoints").glob("*.ckpt"))
    if kept:
        another = f"name another folder ({place}=)"
        way_out = f"Continue it with resume={folder}, or {another}"
        if not resumes:
            way_out = f"This command begins anew: {another}, or remove this one"
        raise SettingsError(f"{folder}: holds a run already ({kept[0].name}). {way_out}.")


def remove_unused(folder: Path) -> None:
    """Remove a run folder in which nothing but Hydra's notes lies, and its empty parents."""
    if {path.name for path in folder.iterdir()} <= {".hydra"}:
        shutil.rmtree(folder / ".hydra", ignore_errors=True)
        remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove an empty folder, its parent and the parent of that, as far as they are empty too.

    The working folder stays: `build` and `hydra.run.dir=.` run in it.
    """
    with suppress(OSError):  # not empty
        for place in (folder, folder.parent, folder.parent.parent):
            if Path.cwd().is_relative_to(place.resolve()):
                return
            place.rmdir()


def has_gpu() -> bool:
    """True if a driver of NVIDIA, AMD or Apple is there; asks the system: torch takes seconds."""
    if sys.platform == "darwin" or Path("/dev/kfd").exists():
        return True
    for library in ("libcuda.so.1", "nvcuda.dll"):
        try:
            cuda, count = ctypes.CDLL(library), ctypes.c_int()
        except OSError:
            continue
        return (
            cuda.cuInit(0) == 0
            and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
            and count.value > 0
        )
    return False
