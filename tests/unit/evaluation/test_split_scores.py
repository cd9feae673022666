"""Scoring names the recording where a store is damaged."""

from pathlib import Path
from typing import Any

import h5py
import pytest
import torch

from leakdet.core.errors import InputError
from leakdet.detection.detector import MelDetector, WindowScores
from leakdet.detection.labels import BINARY_NAMES, LabelMap
from leakdet.evaluation.split_scores import is_synthetic, score_split, split_group_by
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.opening import open_split
from leakdet.storage.views import pooled


class NeverLeak(MelDetector):
    """A detector that never predicts a leak."""

    def __init__(self, mel_shape: tuple[int, int, int]) -> None:
        self.signal, self.mel_shape = None, mel_shape
        self.labels = LabelMap("binary", BINARY_NAMES, (1,))

    def window_scores(self, mel: torch.Tensor) -> WindowScores:
        return WindowScores(torch.zeros(len(mel)), None)


def damage_chunk(path: Path, window: int) -> None:
    """Pack the mel a window to a chunk, and spoil that window's."""
    with h5py.File(path, "r+") as file:
        mel = file["mel"][...]
        del file["mel"]
        file.create_dataset("mel", data=mel, compression="gzip", chunks=(1, *mel.shape[1:]))
    seal_h5(path)
    with h5py.File(path) as file:
        chunk = file["mel"].id.get_chunk_info(window)
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset + chunk.size // 2)
        raw.write(b"\xff" * 8)


@pytest.mark.parametrize("view", [False, True], ids=["split", "fold"])
def test_scoring_names_the_recording_of_a_damaged_chunk(
    write_store: Any, planted: Any, view: bool
) -> None:
    store = write_store(test=[planted("leak", number, windows=4) for number in range(4)])
    damage_chunk(store / "test.h5", window=9)
    split = open_split(store, "test")
    if view:
        split = pooled([split])
    with pytest.raises(InputError, match=r"recording 0002\.wav .*test\.h5: .*HDF5 .*Build"):
        score_split(NeverLeak(split.mel.shape[1:]), split)


@pytest.mark.parametrize(
    ("build", "synthetic", "group_by"),
    [
        ('{"settings": {"source": "demo", "split": {"group_by": ["site"]}}}', True, ["site"]),
        ('{"settings": {"source": "calls.csv", "split": {}}}', False, []),
        ('{"settings": []}', None, []),
        ("{", None, []),
        (None, None, []),
    ],
)
def test_a_store_tells_from_its_build_whether_it_is_synthetic(
    build: str | None, synthetic: bool | None, group_by: list[str], tmp_path: Path
) -> None:
    if build is not None:
        (tmp_path / "build.json").write_text(build, encoding="utf-8")
    assert is_synthetic(tmp_path) is synthetic
    assert split_group_by(tmp_path) == group_by
