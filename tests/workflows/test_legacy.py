"""A predecessor's directory of three .H5 files trains and evaluates as it is."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

FIVE = ["BACKGROUND", "CRACK", "LEAK", "NORMAL", "UNCLASSIFIED"]


def legacy_store(folder: Path, names: list[str], axes: int, config: bool = True) -> Path:
    """Recordings of 4 windows in which a leak is a raised band."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for file_name, recordings in (("TRAINING", 40), ("VALIDATION", 20), ("TESTING", 20)):
        labels = np.sort(
            rng.permutation(np.arange(recordings) % len(names))
        )  # sorted by class, as the old files are
        mel = rng.normal(-60, 6, (recordings, 4, 2, 32, 1))
        mel[labels == names.index("LEAK"), :, :, 12:20] += 9
        mel = mel.astype(np.float16)
        with h5py.File(folder / f"{file_name}_DATASET.H5", "w") as file:
            file["segments_mel"] = mel[:, :, :, None] if axes == 6 else mel
            file["labels"] = labels.astype(np.int16)
            file.attrs["labels_json"] = json.dumps(names)
            if config:
                file.attrs["config_json"] = json.dumps(
                    {
                        "sample_rate": 4096,
                        "duration_sec": 1,
                        "long_window": 1024,
                        "short_window": 512,
                        "n_mels": 32,
                    }
                )
    return folder


@pytest.mark.parametrize(
    ("names", "axes", "mode"),
    [
        (FIVE, 5, "binary"),
        (FIVE, 6, "multiclass"),
        (["LEAK", "NOLEAK"], 6, "binary"),
        (["LEAK", "NOLEAK"], 5, "multiclass"),
    ],
)
def test_it_trains_and_evaluates(tmp_path: Path, door, names: list[str], axes: int, mode: str):
    store = legacy_store(tmp_path / "old", names, axes)
    arguments = (
        "experiment=ailh",
        f"labels={mode}",
        "trainer.max_epochs=8",
        "data.batch_size=64",
        "logger=none",
    )
    done = door(
        "train",
        *arguments,
        f"data.store={store}",
        "hydra.run.dir=run",
        "optimizer.lr=3e-3",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "whether the splits share them cannot be checked" in done.stdout
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test"]["recording"]["positives"] == 20 // len(
        names
    )  # the leaks, wherever they stood in the vocabulary
    assert metrics["test"]["recording"]["auroc"] > 0.9
    done = door("evaluate", "run/model.safetensors", store, "--out", "eval", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "eval" / "metrics.json").read_text())["test"] == metrics["test"]


def test_without_its_settings_it_scores_stores_but_no_audio(tmp_path: Path, door, write_sound):
    store = legacy_store(tmp_path / "old", FIVE, 5, config=False)
    arguments = (
        "experiment=ailh",
        "trainer.max_epochs=1",
        "logger=none",
        f"data.store={store}",
        "hydra.run.dir=run",
    )
    assert door("train", *arguments, cwd=tmp_path).returncode == 0
    done = door("predict", "run/model.safetensors", write_sound("x.wav"), cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot score audio" in done.stderr
