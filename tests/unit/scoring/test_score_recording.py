from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unittest import mock

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakdet.acoustics.audio import ArrayRecording, SoundSource
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream, window_starts
from leakdet.config import SignalConfig
from leakdet.core.errors import InputError
from leakdet.detection.detector import MelDetector
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.met import MetRecordings
from leakdet.detection.networks import band_features, window_moments
from leakdet.detection.source_rates import SourceRates
from leakdet.scoring import score_recording as module
from leakdet.scoring.detector import Detector
from leakdet.scoring.prediction import VerdictCounts
from leakdet.scoring.score_recording import (
    Pieces,
    embed_source,
    in_batches,
    score_recording,
    score_source,
)
from leakdet.storage.model_file import load_mel_detector
from leakdet.tables.schema import InputRecording, Verdict

SIGNAL = SignalConfig(4000, 100, 40, 50, 25, n_mels=4, fmin_hz=300.0)


@pytest.mark.parametrize("lead", [0, 1, 3])
@pytest.mark.parametrize("length", [*range(100, 700, 7), 1000, 1021, 1051])
def test_windows_of_pieces_are_those_of_the_whole(lead: int, length: int) -> None:
    sound = np.arange(length, dtype=np.float32)
    pieces = Pieces(SIGNAL, lead, most=5)
    cut = [piece for part in np.array_split(sound, 9) for piece in pieces.add(part)]
    starts = []
    for piece, skip in [*cut, pieces.last()]:
        own = window_starts(len(piece), SIGNAL)
        assert len(own) > skip  # each piece has a window of its own
        starts += (piece[0] + own[skip:]).tolist()
        assert skip == (lead if piece[0] > 0 else skip)
        assert len(own) - skip <= 5 + 3
    assert starts == window_starts(length, SIGNAL).tolist()


NOISE = np.random.default_rng(0).normal(0, 0.1, 8000)


@pytest.fixture
def detector(example_files) -> MelDetector:
    return load_mel_detector(example_files.model)


@pytest.fixture
def log_mel(detector: MelDetector) -> LogMel:
    assert detector.signal is not None
    return LogMel(detector.signal)


def verdicts_on(source: SoundSource, detector: MelDetector, log_mel: LogMel) -> list[Verdict]:
    """The verdicts on a file or array, alone."""
    (verdicts,) = in_batches([score_source(source, detector, log_mel)], detector)
    return verdicts


def test_a_verdict_is_the_rule_on_the_networks_windows(
    example_files, detector: MelDetector, log_mel: LogMel
) -> None:
    mel = torch.cat([block.mel for block in MelStream(example_files.recording, log_mel)])
    prob = detector.window_prob(mel).numpy()
    verdict = score_recording(example_files.recording, detector, log_mel)
    assert verdict.path == str(example_files.recording)
    np.testing.assert_allclose([window.leak_prob for window in verdict.windows], prob, atol=1e-6)
    assert verdict.leak_prob == pytest.approx(prob.mean(), abs=1e-6)
    assert verdict.decision == ("leak" if prob.mean() >= detector.rule.threshold else "no_leak")
    assert verdict.leak_windows == (prob >= detector.rule.threshold).sum()
    assert (verdict.duration_s, verdict.source_rate_hz, verdict.error) == (2.0, 4000, "")
    assert [window.start_s for window in verdict.windows] == [n * 0.125 for n in range(15)]
    assert [window.end_s for window in verdict.windows][-1] == 2.0


def test_the_quiet_tenth_its_level_and_the_hum_are_told(
    detector: MelDetector, log_mel: LogMel
) -> None:
    rng, time_s = np.random.default_rng(0), np.arange(24_000) / 8000
    sound = rng.normal(0.0, 0.05, 24_000) * (1.0 + (time_s > 1.0))
    hum = 0.05 * np.sin(2 * np.pi * 60.0 * time_s)
    plain, louder, humming = (
        score_recording(ArrayRecording(samples, 8000), detector, log_mel)
        for samples in (sound, 2.0 * sound, sound + hum)
    )
    prob = [window.leak_prob for window in plain.windows]
    assert plain.p10_prob == pytest.approx(np.percentile(prob, 10.0), abs=1e-6)
    assert plain.quiet_level_dbfs == pytest.approx(20.0 * np.log10(0.05), abs=0.3)
    assert louder.quiet_level_dbfs == pytest.approx(plain.quiet_level_dbfs + 6.02, abs=0.02)
    assert louder.mains_hum_db == plain.mains_hum_db
    assert humming.mains_hum_db > plain.mains_hum_db + 10.0


def test_what_a_recording_does_not_tell_is_none(detector: MelDetector, log_mel: LogMel) -> None:
    silent = score_recording(ArrayRecording(np.zeros(16_000), 8000), detector, log_mel)
    assert (silent.p10_prob, silent.quiet_level_dbfs, silent.mains_hum_db) == (None, None, None)
    short = score_recording(ArrayRecording(NOISE[:3000], 8000), detector, log_mel)
    assert short.quiet_level_dbfs is not None
    assert short.mains_hum_db is None


def test_a_window_ends_where_its_recording_ends(detector: MelDetector, log_mel: LogMel) -> None:
    verdict = score_recording(ArrayRecording(np.ones(600) / 2, 4000), detector, log_mel)
    assert [window[:2] for window in verdict.windows] == [(0.0, 0.15)]
    assert verdict.path is None
    assert verdict.flags == ["short", "stuck"]
    assert (verdict.decision, verdict.reason, verdict.leak_prob) == ("undecided", "stuck", None)


@pytest.mark.parametrize(
    ("sound", "reason"),
    [
        (np.zeros(8000), "silent"),
        (np.full(8000, 0.3), "stuck"),
        (NOISE[:600], "short"),
        (np.where(np.arange(8000) % 800 < 500, NOISE, 0.0), "dropouts"),
    ],
)
def test_what_cannot_be_judged_is_undecided(
    detector: MelDetector, log_mel: LogMel, sound: np.ndarray, reason: str
) -> None:
    verdict = score_recording(ArrayRecording(sound, 4000), detector, log_mel)
    assert (verdict.decision, verdict.reason, verdict.error) == ("undecided", reason, "")
    assert (verdict.leak_prob is None) == (reason != "short")
    assert verdict.leak_windows == 0 or reason == "short"


def test_dead_windows_are_never_pooled(detector: MelDetector, log_mel: LogMel) -> None:
    alive = score_recording(ArrayRecording(NOISE, 4000), detector, log_mel)
    sound = np.concatenate([NOISE, np.zeros(72000)])
    died = score_recording(ArrayRecording(sound, 4000), detector, log_mel)
    assert died.flags == ["dropouts"]
    assert died.decision == alive.decision
    assert died.leak_prob == pytest.approx(alive.leak_prob, abs=1e-6)
    assert len(died.windows) > len(alive.windows)


def reference(log_mel: LogMel, level: float) -> SpectralReference:
    """Of 20 recordings of noise, coloured by `level`."""
    rng = np.random.default_rng(1)
    features = []
    for _ in range(20):
        sound = rng.normal(0, 0.1, 8000)
        sound[1:] += level * sound[:-1]
        mel = torch.cat([b.mel for b in MelStream(ArrayRecording(sound, 4000), log_mel)])
        features.append(band_features(window_moments(mel).mean(axis=0)))
    made = SpectralReference.of(np.array(features), np.arange(20) < 10)
    assert made is not None
    return made


def test_what_sounds_unlike_training_is_undecided(detector: MelDetector, log_mel: LogMel) -> None:
    noise = ArrayRecording(NOISE, 4000)
    assert score_recording(noise, detector, log_mel).familiarity is None
    known = replace(detector, reference=reference(log_mel, 0.0))
    familiar = score_recording(noise, known, log_mel)
    assert familiar.familiarity is not None
    assert 0 < familiar.familiarity <= 1
    assert (familiar.decision != "undecided", familiar.reason) == (True, "")
    foreign = replace(detector, reference=reference(log_mel, 0.9))
    strange = score_recording(noise, foreign, log_mel)
    assert strange.familiarity is not None
    assert strange.familiarity > 1
    assert (strange.decision, strange.reason) == ("undecided", "unfamiliar")
    assert strange.leak_prob == familiar.leak_prob
    off = replace(foreign, rule=replace(detector.rule, unfamiliar="off"))
    assert score_recording(noise, off, log_mel).decision == familiar.decision
    assert score_recording(noise, off, log_mel).familiarity == strange.familiarity
    silent = score_recording(ArrayRecording(np.zeros(8000), 4000), foreign, log_mel)
    assert (silent.reason, silent.familiarity) == ("silent", None)
    half = ArrayRecording(np.concatenate([NOISE, np.zeros(8000)]), 4000)
    dropped = score_recording(half, known, log_mel)  # dead windows are no part of the sound
    assert dropped.familiarity == pytest.approx(familiar.familiarity, abs=0.05)


def test_the_first_reason_that_holds_is_told(detector: MelDetector, log_mel: LogMel) -> None:
    noise, silence = ArrayRecording(NOISE, 4000), ArrayRecording(np.zeros(8000), 4000)
    score = score_recording(noise, detector, log_mel).leak_prob
    assert score is not None
    every = replace(
        detector,
        reference=reference(log_mel, 0.9),
        sources=SourceRates({48000: (9, 9), 4000: (7, 0)}),
        rule=replace(detector.rule, threshold=score, doubt=0.2),
    )

    def reasons(changed: MelDetector, source: ArrayRecording = noise) -> list[str]:
        rules = ({}, {"source": "off"}, {"source": "off", "unfamiliar": "off"}, {"doubt": 0.0})
        return [
            score_recording(source, replace(changed, rule=replace(every.rule, **rule)), log_mel)
            .reason for rule in rules
        ]  # fmt: skip

    assert reasons(every) == ["other_source", "unfamiliar", "doubt", "other_source"]
    assert reasons(every, silence) == ["silent"] * 4
    assert reasons(every, ArrayRecording(NOISE[:500], 4000)) == ["short"] * 4
    known = replace(every, sources=SourceRates({4000: (4, 4)}), reference=None)
    assert reasons(known) == ["doubt", "doubt", "doubt", ""]
    assert reasons(replace(known, sources=None)) == ["doubt", "doubt", "doubt", ""]
    assert reasons(every, ArrayRecording(NOISE, 4000, resampled=True))[0] == "unfamiliar"
    doubtful = score_recording(noise, known, log_mel)
    assert (doubtful.decision, doubtful.leak_prob) == ("undecided", score)


def test_what_the_model_has_met_is_flagged(
    example_files, detector: MelDetector, log_mel: LogMel
) -> None:
    stream = MelStream(example_files.recording, log_mel)
    list(stream)
    detector.met = MetRecordings.of({"train": [stream.facts.content_sha256]}, {})
    verdict = score_recording(example_files.recording, detector, log_mel)
    assert verdict.flags == ["met_in_training"]
    assert verdict.decision in ("leak", "no_leak")
    assert verdict.model == detector.file_hash
    assert len(detector.file_hash) == 12
    detector.met = MetRecordings.of({"train": ["0" * 64]}, {})
    assert score_recording(example_files.recording, detector, log_mel).flags == []


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 30_000),
    st.integers(400, 16_000),
    st.sampled_from(["WAV", "FLAC"]),
    st.sampled_from(["mean", "each", "loudest"]),
)
def test_seconds_score_as_the_file_that_another_program_cuts(
    example_files,
    tmp_path_factory: pytest.TempPathFactory,
    start: int,
    length: int,
    kind: str,
    channels: Literal["mean", "each", "loudest"],
) -> None:
    folder = tmp_path_factory.mktemp("seconds")
    whole, cut = folder / f"whole.{kind}", folder / f"cut.{kind}"
    sound = np.random.default_rng(0).normal(0, 0.1, (48_000, 2))
    soundfile.write(whole, sound, 8000)
    samples, _ = soundfile.read(whole, dtype="int16")
    soundfile.write(cut, samples[start : start + length], 8000)
    detector = load_mel_detector(example_files.model)
    assert detector.signal is not None
    signal = replace(detector.signal, channels=channels)
    detector = replace(detector, signal=signal)
    begin_s, end_s = start / 8000, (start + length) / 8000
    columns = {"start_s": repr(begin_s), "end_s": repr(end_s), "site": "x"}
    listed = [InputRecording(whole, columns), InputRecording(cut, {"site": "x"})]
    predict = Detector(detector, example_files.model).predict_listed
    ours, theirs = (list(predict([recording], 1)) for recording in listed)
    assert len(ours) == len(theirs) == (2 if channels == "each" else 1)
    for verdict, expected in zip(ours, theirs, strict=True):
        row, other = verdict.to_dict(), expected.to_dict()
        assert (row.pop("start_s"), row.pop("end_s")) == (begin_s, end_s)
        assert (row.pop("path"), other.pop("path")) == (str(whole), str(cut))
        for name in ("start_s", "end_s"):
            shifted = [begin_s + getattr(window, name) for window in expected.windows]
            at_s = [getattr(window, name) for window in verdict.windows]
            np.testing.assert_allclose(at_s, shifted, atol=1e-3)
        probs, others = ([w[2] for w in values.pop("timeline")] for values in (row, other))
        assert (row, probs) == (other, others)


def test_all_of_a_file_that_was_met_in_part_is_met(example_files, detector: MelDetector) -> None:
    files = {"source_file": np.array([str(example_files.recording)])}
    detector.met = MetRecordings.of({}, {"train": files})
    columns = {"start_s": "0.5", "end_s": "1.5"}
    listed = InputRecording(example_files.recording, columns)
    (verdict,) = Detector(detector, example_files.model).predict_listed([listed], 1)
    assert verdict.flags == ["met_in_training"]


def test_batches_do_not_change_the_numbers(
    example_files, detector: MelDetector, log_mel: LogMel, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = score_recording(example_files.recording, detector, log_mel)
    (features,) = embed_source(example_files.recording, detector, log_mel)
    monkeypatch.setattr(module, "BATCH_WINDOWS", 1)
    assert score_recording(example_files.recording, detector, log_mel) == whole
    np.testing.assert_allclose(
        embed_source(example_files.recording, detector, log_mel)[0], features, atol=1e-5
    )


@pytest.mark.parametrize("most", [1, 7, 128])
def test_a_verdict_does_not_depend_on_its_neighbours(
    example_files,
    detector: MelDetector,
    log_mel: LogMel,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
) -> None:
    sounds = [NOISE[: 1500 * number] * number for number in range(1, 5)]
    sources = [ArrayRecording(sound, 4000) for sound in sounds]
    mixed = [sources[0], Path("none.wav"), *sources[1:], example_files.recording]
    alone = [verdicts_on(source, detector, log_mel) for source in mixed]
    assert [bool(verdict.error) for (verdict,) in alone] == [False, True, *[False] * 4]
    monkeypatch.setattr(module, "BATCH_WINDOWS", most)
    for order in (mixed, mixed[::-1], mixed * 3):
        tasks = (score_source(source, detector, log_mel) for source in order)
        verdicts = [verdict for (verdict,) in in_batches(tasks, detector)]
        assert verdicts == [alone[mixed.index(source)][0] for source in order]


def test_a_failure_of_the_network_is_said_of_each_recording_of_the_batch(
    example_files, detector: MelDetector, log_mel: LogMel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(detector), "window_scores", mock.Mock(side_effect=MemoryError("full")))
    sources = [example_files.recording, Path("none.wav"), example_files.recording]
    tasks = (score_source(source, detector, log_mel) for source in sources)
    errors = [verdict.error for (verdict,) in in_batches(tasks, detector)]
    assert [error == "MemoryError: full" for error in errors] == [True, False, True]


def test_features_lead_to_the_windows_probabilities(
    example_files, detector: MelDetector, log_mel: LogMel
) -> None:
    (features,) = embed_source(example_files.recording, detector, log_mel)
    assert features.shape == (15, 12)  # of the linear network: the mean of each band
    with torch.inference_mode():
        logits = detector.network.cls_head(torch.from_numpy(features))
    prob = logits.softmax(1)[:, detector.labels.leaks[0]]
    windows = score_recording(example_files.recording, detector, log_mel).windows
    np.testing.assert_allclose([window.leak_prob for window in windows], prob, atol=1e-5)


def test_a_bad_file_is_a_verdict_with_an_error_but_has_no_features(
    tmp_path: Path, detector: MelDetector, log_mel: LogMel
) -> None:
    (tmp_path / "empty.wav").touch()
    for path, reason in ((tmp_path / "empty.wav", "0 bytes"), (tmp_path / "none.wav", "No such")):
        verdict = score_recording(path, detector, log_mel)
        assert reason in verdict.error
        assert (verdict.decision, verdict.leak_prob, verdict.windows) == (None, None, [])
        assert verdict.path == str(path)
        with pytest.raises(InputError, match=f"{path.name}: .*{reason}"):
            embed_source(path, detector, log_mel)


def test_whatever_goes_wrong_in_a_recording_stays_in_its_verdict(
    example_files, detector: MelDetector, log_mel: LogMel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: object) -> None:
        raise RuntimeError("decoder crashed")

    monkeypatch.setattr(MelStream, "__iter__", failing)
    verdict = score_recording(example_files.recording, detector, log_mel)
    assert verdict.error == "RuntimeError: decoder crashed"


def test_a_channel_that_cannot_be_reached_is_that_channel_and_no_further_file(
    example_files, detector: MelDetector, log_mel: LogMel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending_early(source: Path, _: object) -> Iterator[tuple[Path, int]]:
        yield source, 1
        raise OSError("the network is gone")

    monkeypatch.setattr(module, "recordings_in", ending_early)
    verdicts = verdicts_on(example_files.recording, detector, log_mel)
    assert [(verdict.channel, verdict.error) for verdict in verdicts] == [
        (1, ""),
        (2, "OSError: the network is gone"),
    ]
    counts = VerdictCounts()
    for verdict in verdicts:
        counts.add(verdict.to_dict())
    assert str(counts).startswith("2 channels of 1 file:")


def test_every_channel_has_a_verdict_where_the_model_was_trained_so(
    tmp_path: Path, detector: MelDetector, log_mel: LogMel
) -> None:
    other = NOISE[::-1].copy()
    other[3] = np.nan
    path = tmp_path / "both.wav"
    soundfile.write(path, np.stack([NOISE, 0 * NOISE, other], 1), 4000, subtype="FLOAT")
    assert [verdict.channel for verdict in verdicts_on(path, detector, log_mel)] == [0]
    each = LogMel(replace(log_mel.signal, channels="each"))
    first, silent, broken = verdicts_on(path, detector, each)
    assert {verdict.path for verdict in (first, silent, broken)} == {str(path)}
    assert [verdict.channel for verdict in (first, silent, broken)] == [1, 2, 3]
    alone = score_recording(ArrayRecording(NOISE.astype(np.float32), 4000), detector, log_mel)
    assert (first.windows, first.decision) == (alone.windows, alone.decision)
    assert (silent.decision, silent.reason) == ("undecided", "silent")
    assert (broken.decision, "NaN" in broken.error) == (None, True)

    (mono,) = verdicts_on(ArrayRecording(NOISE, 4000), detector, each)
    assert (mono.channel, mono.windows) == (
        1,
        score_recording(ArrayRecording(NOISE, 4000), detector, log_mel).windows,
    )
    (refused,) = verdicts_on(ArrayRecording(np.stack([NOISE] * 2, 1), 4000), detector, each)
    assert "the array has 2 channels" in refused.error
    (unread,) = verdicts_on(tmp_path / "none.wav", detector, each)
    assert (unread.channel, "No such file" in unread.error) == (0, True)
    soundfile.write(path, np.stack([NOISE, 0 * NOISE], 1), 4000)
    assert [len(of_one) for of_one in embed_source(path, detector, each)] == [len(mono.windows)] * 2
