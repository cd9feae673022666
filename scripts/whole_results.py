"""Looks at the results of a command: how many parts are finished, and none that is half.

Each function returns the number of finished parts under a folder, and raises where a file under a
final name cannot be read whole.
"""

import csv
import json
from pathlib import Path

RECORDINGS = 24  # of the demo that kills.py makes
LINK = "current.safetensors"  # by which learn publishes a model


def whole_store(out: Path) -> int:
    from leakdet.storage.integrity import check_contents
    from leakdet.storage.store import open_leakdet_split

    if not (out / "store").exists():
        return 0
    splits = [open_leakdet_split(out / "store", name) for name in ("train", "val", "test")]
    for split in splits:
        check_contents(split)
    assert sum(split.recordings for split in splits) == RECORDINGS
    return 1


def whole_rows(out: Path) -> int:
    if not (out / "v.csv").exists():
        return 0
    with (out / "v.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == RECORDINGS
    return 1


def whole_parts(out: Path) -> int:
    from leakdet.tables.read import part_files, read_rows

    if not (out / "parts").exists() or not part_files(out / "parts"):
        return 0
    paths = read_rows(out / "parts")["path"].tolist()
    assert len(set(paths)) == len(paths) <= RECORDINGS
    return len(paths)


def whole_run(out: Path) -> int:
    """Steps of the newest checkpoint; 1,000 more once there is a model."""
    from leakdet.storage.model_file import load_mel_detector
    from leakdet.training.checkpoints import read_checkpoint

    whole_files(out)
    kept = [read_checkpoint(path)["global_step"] for path in out.rglob("*.ckpt")]
    models = [load_mel_detector(path) for path in out.rglob("model.safetensors")]
    return max(kept, default=0) + 1000 * len(models)


def whole_study(out: Path) -> int:
    import optuna
    from sqlalchemy.pool import NullPool

    whole_files(out)
    path = out / "study" / "study.db"
    if not path.exists():
        return 0
    # not kept open, so that its file system can be unmounted
    without_pool = {"poolclass": NullPool}
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs=without_pool)
    names = optuna.get_all_study_names(storage)
    trials = [
        t for name in names for t in optuna.load_study(study_name=name, storage=storage).trials
    ]
    return sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in trials)


def whole_folds(out: Path) -> int:
    whole_files(out)
    return len(list(out.rglob("folds/*.json"))) + 100 * len(list(out.rglob("metrics.json")))


def whole_learning(out: Path) -> int:
    """Models that were learnt; the link always names one that can be read."""
    from leakdet.storage.model_file import load_mel_detector

    whole_files(out)
    if (out / LINK).is_symlink():
        load_mel_detector(out / LINK)
    return len([load_mel_detector(path) for path in out.glob("run*/model.safetensors")])


def whole_files(out: Path) -> int:
    for path in out.rglob("*.json"):
        json.loads(path.read_text())
    for path in out.rglob("*.html"):
        assert path.read_text().rstrip().endswith("</html>"), path
    for path in out.rglob("*.png"):
        assert path.read_bytes().endswith(b"IEND\xaeB`\x82"), path
    return len(list(out.rglob("report.html")))
