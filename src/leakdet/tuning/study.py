"""Opening a study, and the promise that it is still the same search."""

import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import optuna
from optuna.study import StudyDirection

from leakdet.config import TuneConfig
from leakdet.errors import SettingsError
from leakdet.tuning.samplers_pruners import make_pruner, make_sampler
from leakdet.tuning.space import grid, to_json
from leakdet.tuning.storages import locked, open_storage

PROMISE = "leakdet"  # study attribute: what must not change while a study goes on


def open_study(config: TuneConfig) -> optuna.Study:
    """Create the study, or go on with it. Raises `SettingsError` where space, direction or training settings differ."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tune = config.tune
    direction = "maximize" if tune.maximises else "minimize"
    with locked(Path(tune.folder) / "draw.lock"):
        storage = open_storage(tune)
        study = optuna.create_study(
            study_name=tune.study,
            storage=storage,
            direction=StudyDirection[direction.upper()],
            sampler=make_sampler(tune, 0),
            pruner=make_pruner(config),
            load_if_exists=True,
        )
        _keep_promise(study, config, direction)
    return study


def _keep_promise(study: optuna.Study, config: TuneConfig, direction: str) -> None:
    promise = {
        "direction": direction,
        "objective": config.tune.objective,
        "repeats": config.tune.repeats,
        "folds": config.tune.folds,
        "space": to_json(config.search),
        "training": {
            k: v for k, v in asdict(config.training()).items() if k not in ("logger", "threads")
        },
    }
    promise = json.loads(json.dumps(promise))
    kept = study.user_attrs.get(PROMISE)
    if (
        kept is None
        and study.direction.name.lower() == direction
        and not study.get_trials(deepcopy=False)
    ):
        study.set_user_attr(PROMISE, promise)
        if config.tune.sampler == "grid":
            _enqueue_grid(study, config)
        return
    kept = kept or {"direction": study.direction.name.lower()}
    changed = list(_differences(kept, promise))
    if changed:
        raise SettingsError(
            f"The study {config.tune.study!r} was started with another search, and its trials cannot be compared with new "
            f"ones (stored / now): {'; '.join(changed[:6])}{' ...' if len(changed) > 6 else ''}. "
            "Name a new study, tune.study=NAME, or go back to the stored settings."
        )


def _differences(kept: Any, now: Any, path: str = "") -> Iterator[str]:
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in sorted(kept.keys() | now.keys()):
            yield from _differences(kept.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif kept != now:
        yield f"{path}: {json.dumps(kept)} / {json.dumps(now)}"


def _enqueue_grid(study: optuna.Study, config: TuneConfig) -> None:
    combinations = grid(config.search)
    # a part of a grid is then no corner of it
    random.Random(config.tune.seed).shuffle(combinations)
    for drawn in combinations[: config.tune.n_trials]:
        study.enqueue_trial(drawn)
