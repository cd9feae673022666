"""The estimated size of a store is near that of the files."""

from dataclasses import replace
from pathlib import Path

import h5py
import pytest

from leakdet.building.builder import build_store
from leakdet.building.sources import SourceRecording
from leakdet.building.store_size import build_bytes, recording_bytes
from leakdet.config import BuildConfig, DemoConfig, SignalConfig

SIGNAL = SignalConfig(fmax_hz=8000.0)


@pytest.mark.parametrize("waveform", ["none", "int16"])
def test_a_recording_takes_about_as_much_as_is_estimated(tmp_path: Path, waveform: str) -> None:
    demo = DemoConfig(sites=5, recordings_per_site=2, duration_s=3.0)
    config = BuildConfig(source="demo", out=str(tmp_path / "s"), demo=demo, waveform=waveform)
    build_store(config)
    stored = estimated = 0
    for path in (tmp_path / "s").glob("*.h5"):
        with h5py.File(path) as file:
            stored += file["mel"].nbytes + (file["waveform"].nbytes if "waveform" in file else 0)
            lengths_s = file["duration_s"][...].tolist()
        estimated += sum(recording_bytes(length_s, SIGNAL, waveform) for length_s in lengths_s)
    assert estimated == pytest.approx(stored, rel=0.1)


def test_at_most_the_spools_and_the_largest_split_lie_side_by_side() -> None:
    def recording(name: str, label: str) -> SourceRecording:
        return SourceRecording(name, Path(name), label)

    assigned = [
        (recording("a", "leak"), "train"),
        (recording("b", "none"), "train"),
        (recording("c", "none"), "test"),
    ]
    about_s = dict.fromkeys(map(Path, "abc"), 2.0)
    config = BuildConfig(source="x", out="y")
    one = recording_bytes(2.0, SIGNAL, "none")
    assert build_bytes(assigned, about_s, SIGNAL, config, ["leak"]) == 5 * one
    config = replace(config, surrogates=4)
    assert build_bytes(assigned, about_s, SIGNAL, config, ["leak"]) == (3 + 4 + 4) * one
