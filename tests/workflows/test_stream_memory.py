"""The memory of a stream grows neither with the store nor from epoch to epoch."""

import subprocess
import sys
from pathlib import Path

import pytest

STREAMING = """
import json, sys, zlib
from dataclasses import asdict
from pathlib import Path

import h5py, numpy as np

from leakdet.config import DataConfig, SignalConfig
from leakdet.storage.opening import open_split
from leakdet.loading.samples import SplitSamples
from leakdet.loading.stream import StreamLoader

folder, recordings = Path(sys.argv[1]), int(sys.argv[2])
signal, windows = SignalConfig(fmax_hz=8000), 80
mel = np.zeros((windows, *signal.mel_shape), np.float16)
with h5py.File(folder / "train.h5", "w") as file:
    file.attrs["schema_version"] = 1
    file.attrs["signal"] = json.dumps(asdict(signal))
    file.attrs["label_names"] = json.dumps(["LEAK", "NORMAL"])
    file.attrs["leak_labels"] = '["LEAK"]'
    data = file.create_dataset("mel", (recordings * windows, *signal.mel_shape), np.float16)
    for row in range(recordings):
        data[row * windows : (row + 1) * windows] = mel
    file["recording_offsets"] = np.arange(recordings + 1) * windows
    file["label_id"] = np.arange(recordings) % 2
    file["mel_crc32"] = np.full(recordings, zlib.crc32(mel.tobytes()), np.uint32)
    names = [str(row) for row in range(recordings)]
    file.create_dataset("recording_id", data=names, dtype=h5py.string_dtype())

def peak_kib():
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0])

split = open_split(folder, "train")
data = DataConfig(batch_size=512, buffer_mb=16)
stream = StreamLoader(SplitSamples(split, split.label_id, "window"), data, 0)
peaks, samples = [], 0
for epoch in range(3):
    samples += sum(len(batch.class_id) for batch in stream.batches(epoch))
    peaks.append(peak_kib())
assert samples == 3 * recordings * windows
print(*peaks)
"""


def _peaks_kib(folder: Path, recordings: int) -> list[int]:
    folder.mkdir()
    command = [sys.executable, "-c", STREAMING, str(folder), str(recordings)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return [int(value) for value in process.stdout.split()]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_ten_times_larger_store_takes_no_more_memory(tmp_path: Path) -> None:
    """25 MB and 246 MB of mel: in memory they would differ by half of what the process takes."""
    small, large = _peaks_kib(tmp_path / "small", 80), _peaks_kib(tmp_path / "large", 800)
    assert large[-1] < 1.1 * small[-1]
    assert large[2] < 1.05 * large[0]
