import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.synth import demo_recording, write_demo
from leakdet.config import DemoConfig

RATE_HZ = 16000
SHORT = DemoConfig(sites=2, recordings_per_site=3, duration_s=0.3)


def test_written_demo_is_what_the_manifest_says(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    manifest = write_demo(tmp_path / "demo", SHORT, lambda done, total: calls.append((done, total)))
    assert manifest == tmp_path / "demo" / "manifest.csv"
    assert calls == [(done, 6) for done in range(1, 7)]
    rows = list(csv.DictReader(manifest.read_text(encoding="utf-8").splitlines()))
    assert [row["path"] for row in rows] == [
        f"audio/site-{site:02d}/{i:04d}.wav" for site in range(2) for i in range(3)
    ]
    for row, (site, index) in zip(rows, np.ndindex(2, 3), strict=True):
        recording = demo_recording(SHORT, site, index)
        facts = (recording.label, recording.site_id, recording.sensor_id, recording.material)
        assert tuple(row[name] for name in ("label", "site", "sensor", "material")) == facts
        assert soundfile.info(manifest.parent / row["path"]).subtype == "PCM_16"
        samples, rate_hz = soundfile.read(manifest.parent / row["path"], dtype="float32")
        assert rate_hz == RATE_HZ
        np.testing.assert_allclose(samples, recording.samples, atol=1 / 32768)
    assert sorted(path.name for path in manifest.parent.iterdir()) == ["audio", "manifest.csv"]


def test_writing_again_gives_identical_bytes(tmp_path: Path) -> None:
    folder = write_demo(tmp_path, SHORT).parent
    first = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_demo(tmp_path, SHORT)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == first


def test_an_interrupted_demo_has_no_manifest(tmp_path: Path) -> None:
    write_demo(tmp_path, SHORT)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_demo(tmp_path, replace(SHORT, seed=1), stop)
    assert not (tmp_path / "manifest.csv").exists()
