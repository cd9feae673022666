"""An AILH data set of three .H5 files trains and evaluates as it is."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

FIVE = ["BACKGROUND", "CRACK", "LEAK", "NORMAL", "UNCLASSIFIED"]
SETTINGS = {"sample_rate": 4096, "duration_sec": 1, "long_window": 1024, "short_window": 512}
SETTINGS |= {"n_mels": 32}


def ailh_store(folder: Path, names: list[str], axes: int, config: bool = True) -> Path:
    """An AILH data set of recordings of 4 windows; leaks are louder in one band."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for file_name, recordings in (("TRAINING", 40), ("VALIDATION", 20), ("TESTING", 20)):
        # Sorted by class, as such files are.
        labels = np.sort(rng.permutation(np.arange(recordings) % len(names)))
        mel = rng.normal(-60, 6, (recordings, 4, 2, 32, 1))
        mel[labels == names.index("LEAK"), :, :, 12:20] += 9
        mel = mel.astype(np.float16)
        with h5py.File(folder / f"{file_name}_DATASET.H5", "w") as file:
            file["segments_mel"] = mel[:, :, :, None] if axes == 6 else mel
            file["labels"] = labels.astype(np.int16)
            file.attrs["labels_json"] = json.dumps(names)
            if config:
                file.attrs["config_json"] = json.dumps(SETTINGS)
    return folder


@pytest.mark.parametrize(
    ("names", "axes", "mode"),
    [
        (FIVE, 6, "multiclass"),
        (["LEAK", "NOLEAK"], 5, "binary"),
    ],
)
def test_an_ailh_data_set_trains_and_evaluates(
    tmp_path: Path, door, names: list[str], axes: int, mode: str
):
    store = ailh_store(tmp_path / "old", names, axes)
    arguments = ("experiment=ailh", f"labels={mode}", "logger=none", f"data.store={store}")
    arguments += ("log=full", "trainer.max_epochs=8", "data.batch_size=64", "optimizer.lr=3e-3")
    result = door("train", *arguments, "hydra.run.dir=run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "cannot be checked" in result.stdout
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    # The leaks, wherever their label stands in the list.
    assert metrics["test"]["recording"]["positives"] == 20 // len(names)
    assert metrics["test"]["recording"]["auroc"] > 0.9
    result = door("evaluate", "run/model.safetensors", store, "--out", "eval", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "eval" / "metrics.json").read_text())["test"] == metrics["test"]


def test_without_signal_settings_it_scores_stores_but_no_audio(tmp_path: Path, door, write_sound):
    store = ailh_store(tmp_path / "old", FIVE, 5, config=False)
    arguments = ("experiment=ailh", "trainer.max_epochs=1", "logger=none", f"data.store={store}")
    assert door("train", *arguments, "hydra.run.dir=run", cwd=tmp_path).returncode == 0
    result = door("predict", "run/model.safetensors", write_sound("x.wav"), cwd=tmp_path)
    assert result.returncode == 2
    assert "cannot score audio" in result.stderr
