"""Opening a study, and the check that it is still the same search."""

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import optuna
from optuna.exceptions import StorageInternalError

from leakdet.config import TuneConfig
from leakdet.config.differences import differences
from leakdet.errors import SettingsError
from leakdet.storage.file_lock import locked
from leakdet.tuning.samplers_pruners import make_pruner, make_sampler
from leakdet.tuning.space import grid, to_json
from leakdet.tuning.storages import first_line, open_storage, shown_address
from leakdet.tuning.study_plots import INSTALL, has_plotly
from leakdet.tuning.trials import finished

STUDY_FINGERPRINT = "leakdet"  # study attribute: settings that a continued study must share


def introduction(config: TuneConfig, study: optuna.Study) -> str:
    """The first lines of a study: its progress, search space, method and folder."""
    tune, done = config.tune, len(finished(study.get_trials(deepcopy=False)))
    lines = [
        f"study    {tune.study}: {done} of {tune.n_trials} trials are finished",
        f"search   {', '.join(config.search)}",
        f"method   {tune.sampler} sampler, {tune.pruner} pruner, best {tune.objective} on val, "
        f"{tune.workers} worker{'s' if tune.workers > 1 else ''}",
        f"folder   {tune.folder}",
    ]
    if not has_plotly():
        lines.append(f"note     plotly is not installed: tune.html will have no plots ({INSTALL})")
    return "\n".join(lines)


def open_study(config: TuneConfig) -> optuna.Study:
    """Create the study or open it.

    Raises `SettingsError` where space, direction or training settings differ from the stored ones,
    or the storage cannot be written.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tune = config.tune
    try:
        with locked(Path(tune.folder) / "draw.lock"):
            return _study(config, _direction(config))
    except StorageInternalError as error:
        where = shown_address(tune.storage or tune.folder)
        raise SettingsError(
            f"tune.storage={where} cannot be written: {first_line(error.__cause__ or error)}. "
            "Name one that you may write, or none: the study is then kept in tune.folder."
        ) from error


def _study(config: TuneConfig, direction: Literal["maximize", "minimize"]) -> optuna.Study:
    tune = config.tune
    study = optuna.create_study(
        study_name=tune.study,
        storage=open_storage(tune),
        direction=direction,
        sampler=make_sampler(tune, 0),
        pruner=make_pruner(config),
        load_if_exists=True,
    )
    fresh = STUDY_FINGERPRINT not in study.user_attrs and not study.get_trials(deepcopy=False)
    if fresh and study.direction.name.lower() == direction:
        study.set_user_attr(STUDY_FINGERPRINT, fingerprint(config))
        if tune.sampler == "grid":
            _enqueue_grid(study, config)
    else:
        check_unchanged(study, config)
    return study


def _direction(config: TuneConfig) -> Literal["maximize", "minimize"]:
    return "maximize" if config.tune.maximises else "minimize"


def fingerprint(config: TuneConfig) -> dict[str, Any]:
    """Settings without which values of trials could not be compared, as plain JSON values."""
    training = asdict(config.training())
    for name in ("logger", "log", "threads"):
        del training[name]
    settings = {
        "direction": _direction(config),
        "objective": config.tune.objective,
        "repeats": config.tune.repeats,
        "folds": config.tune.folds,
        "space": to_json(config.search),
        "training": training,
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def check_unchanged(study: optuna.Study, config: TuneConfig) -> None:
    """Raise `SettingsError` where the study was started with another search."""
    stored = study.user_attrs.get(STUDY_FINGERPRINT, {"direction": study.direction.name.lower()})
    changed = [
        f"{name}: {json.dumps(old)} / {json.dumps(new)}"
        for name, old, new in differences(stored, fingerprint(config))
    ]
    if changed:
        raise SettingsError(
            f"The study {config.tune.study!r} was started with another search, and its trials "
            "cannot be compared with new ones (stored / now): "
            f"{'; '.join(changed[:6])}{' ...' if len(changed) > 6 else ''}. "
            "Name a new study, tune.study=NAME, or go back to the stored settings."
        )


def _enqueue_grid(study: optuna.Study, config: TuneConfig) -> None:
    combinations = grid(config.search)
    # Shuffled, so that the first trials cover the grid and not a corner of it.
    random.Random(config.tune.seed).shuffle(combinations)
    for drawn in combinations[: config.tune.n_trials]:
        study.enqueue_trial(drawn)
