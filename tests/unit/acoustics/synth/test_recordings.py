import csv
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.synth import LEAK, NOLEAK, DemoRecording, demo_recording, write_demo
from leakdet.acoustics.synth.recordings import is_leak
from leakdet.acoustics.synth.sounds import KINDS
from leakdet.acoustics.synth.waveforms import rms
from leakdet.config import DemoConfig, SignalConfig

RATE_HZ = 16000
SHORT = DemoConfig(sites=2, recordings_per_site=3, duration_s=0.3)


@dataclass
class Corpus:
    """The default demo with recordings of 1.3 s: all draws but the noise are the default's."""

    recordings: list[DemoRecording]
    leak: np.ndarray
    site: np.ndarray

    def auroc(self, score: list[float] | np.ndarray) -> float:
        return float(roc_auc_score(self.leak, score))


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    demo = DemoConfig(duration_s=1.3)
    recordings = [
        demo_recording(demo, site, i)
        for site in range(demo.sites)
        for i in range(demo.recordings_per_site)
    ]
    leak = np.array([recording.label == LEAK for recording in recordings])
    return Corpus(recordings, leak, np.array([recording.site_id for recording in recordings]))


@pytest.fixture(scope="module")
def spectra(corpus: Corpus) -> np.ndarray:
    """Level-free log-mel of the first second, averaged over time, [R, mels]."""
    seconds = torch.from_numpy(
        np.stack([recording.samples[:RATE_HZ] for recording in corpus.recordings])
    )
    mel = LogMel(SignalConfig())(seconds).mean(dim=(1, 3))
    return (mel - mel.mean(dim=1, keepdim=True)).numpy()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**63), site=st.integers(0, 500), index=st.integers(0, 500))
def test_a_recording_depends_on_its_own_place_only(seed: int, site: int, index: int) -> None:
    demo = replace(SHORT, seed=seed)
    first = demo_recording(demo, site, index)
    again = demo_recording(replace(demo, sites=700, recordings_per_site=900), site, index)
    np.testing.assert_array_equal(first.samples, again.samples)
    assert replace(first, samples=again.samples) == again


def test_recordings_sites_and_seeds_differ() -> None:
    sounds = [
        demo_recording(replace(SHORT, seed=seed), site, i).samples[:3000]
        for seed, site, i in np.ndindex(2, 2, 2)
    ]
    assert len({sound.tobytes() for sound in sounds}) == len(sounds)


@pytest.mark.parametrize("rate_hz", [1000, 4096, 8192, 44100])
@pytest.mark.parametrize("index", range(4))
def test_any_rate_gives_finite_sound_of_the_asked_length(rate_hz: int, index: int) -> None:
    recording = demo_recording(replace(SHORT, sample_rate_hz=rate_hz), 0, index)
    assert recording.sample_rate_hz == rate_hz
    assert recording.samples.dtype == np.float32
    assert recording.samples.ndim == 1
    assert 0.8 * 0.3 - 1e-3 <= recording.samples.size / rate_hz <= 1.2 * 0.3 + 1e-3
    assert np.isfinite(recording.samples).all()
    assert np.abs(recording.samples).max() <= 1


def test_difficulty_moves_the_leak_and_nothing_else() -> None:
    easy, hard = replace(SHORT, difficulty=0.0), replace(SHORT, difficulty=2.0)
    for index in range(4):
        one, other = demo_recording(easy, 1, index), demo_recording(hard, 1, index)
        if one.label == NOLEAK:
            np.testing.assert_array_equal(one.samples, other.samples)
            assert one.leak_distance_m is one.leak_to_noise_db is None
        else:
            assert one.leak_to_noise_db is not None
            assert other.leak_to_noise_db == pytest.approx(one.leak_to_noise_db - 20)
            assert one.leak_distance_m == other.leak_distance_m


@given(
    share=st.floats(0, 1), site=st.integers(0, 50), count=st.integers(1, 60), seed=st.integers(0, 9)
)
def test_every_prefix_of_a_site_holds_its_share_of_leaks(
    share: float, site: int, count: int, seed: int
) -> None:
    demo = DemoConfig(leak_fraction=share, seed=seed)
    leaks = sum(is_leak(demo, site, index) for index in range(count))
    assert abs(leaks - share * count) < 2


def test_sites_share_loggers_and_materials_evenly(corpus: Corpus) -> None:
    sensor_of, material_of = (
        {r.site_id: getattr(r, name) for r in corpus.recordings}
        for name in ("sensor_id", "material")
    )
    assert sorted(Counter(sensor_of.values()).values()) == [4] * 6
    assert sorted(Counter(material_of.values()).values()) == [6] * 4
    assert all(corpus.leak[corpus.site == site].sum() == 10 for site in np.unique(corpus.site))


@pytest.mark.parametrize("trait", ["rms", "peak", "length", "offset", "hum", "order"])
def test_no_easy_trait_gives_the_label_away(corpus: Corpus, trait: str) -> None:
    sounds = [recording.samples for recording in corpus.recordings]
    scores = {
        "rms": lambda: [20 * np.log10(rms(sound)) for sound in sounds],
        "peak": lambda: [float(np.abs(sound).max()) for sound in sounds],
        "length": lambda: [float(sound.size) for sound in sounds],
        "offset": lambda: [float(sound.mean()) for sound in sounds],
        "hum": lambda: [
            abs(sound[:RATE_HZ] @ np.exp(2j * np.pi * 50 / RATE_HZ * np.arange(RATE_HZ)))
            for sound in sounds
        ],
        "order": lambda: [float(i % 20) for i in range(len(sounds))],
    }
    assert 0.4 < corpus.auroc(scores[trait]()) < 0.6


def test_interference_and_other_background_fall_on_both_classes_alike(corpus: Corpus) -> None:
    for present in (
        lambda r: bool(r.interference),
        lambda r: "flow" in r.background,
        lambda r: "pump" in r.background,
    ):
        shares = [
            np.mean([present(r) for r in corpus.recordings if r.label == label])
            for label in (LEAK, NOLEAK)
        ]
        assert min(shares) > 0.15
        assert abs(shares[0] - shares[1]) < 0.12
    assert {kind for r in corpus.recordings for kind in r.interference} == set(KINDS)


def test_sound_keeps_headroom_and_is_never_silent(corpus: Corpus) -> None:
    peaks = np.array([np.abs(recording.samples).max() for recording in corpus.recordings])
    assert np.mean(peaks < 0.9) > 0.99
    quietest = min(rms(part) for r in corpus.recordings for part in np.array_split(r.samples, 10))
    assert quietest > 4 / 32768  # some steps of 16-bit audio
    levels = np.array([20 * np.log10(rms(recording.samples)) for recording in corpus.recordings])
    assert levels.std() > 3  # the level is kept: no recording is normalised


def test_leaks_range_from_faint_to_clear(corpus: Corpus) -> None:
    ratios = np.array(
        [r.leak_to_noise_db for r in corpus.recordings if r.leak_to_noise_db is not None]
    )
    assert np.percentile(ratios, 5) < 5
    assert np.percentile(ratios, 95) > 14


def test_leaks_lift_the_middle_of_the_spectrum(corpus: Corpus, spectra: np.ndarray) -> None:
    lift_db = spectra[corpus.leak].mean(axis=0) - spectra[~corpus.leak].mean(axis=0)
    assert lift_db.argmax() in range(10, 50)
    assert lift_db.max() > 2
    assert lift_db[0] < -2


def test_solvable_not_trivial_and_harder_at_new_sites(corpus: Corpus, spectra: np.ndarray) -> None:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000))

    def score(splitter: GroupKFold | StratifiedKFold) -> float:
        folds = list(
            splitter.split(
                spectra, corpus.leak, corpus.site if isinstance(splitter, GroupKFold) else None
            )
        )
        return corpus.auroc(
            cross_val_predict(model, spectra, corpus.leak, cv=folds, method="predict_proba")[:, 1]
        )

    by_recording = score(StratifiedKFold(5, shuffle=True, random_state=0))
    by_site = score(GroupKFold(5))
    assert 0.90 < by_site < by_recording < 0.999


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
