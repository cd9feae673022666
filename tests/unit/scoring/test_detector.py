import copy
import re
import shutil
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest
import soundfile
import torch
from matplotlib.figure import Figure
from tests.remote_stores import FlakyStore

from leakdet.acoustics.audio import ArrayRecording
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.locations import RemoteFile
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.source_rates import SourceRates
from leakdet.detection.stored_scores import ValidationScores
from leakdet.scoring import detector as module
from leakdet.scoring.detector import (
    Detector,
    chosen_device,
    grouped,
    is_single,
    load_detector,
    sources_of,
)
from leakdet.scoring.listing import list_recordings
from leakdet.storage.model_file import save_model
from leakdet.tables.schema import TIMELINE, Verdict

SOUND = (np.zeros(100, np.float32), 8000)


def test_files_folders_and_arrays(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    (tmp_path / "b.txt").touch()
    assert list(sources_of(tmp_path)) == list(sources_of([tmp_path / "a.wav"]))
    assert list(sources_of(f"file://{tmp_path}/a.wav")) == [tmp_path / "a.wav"]
    assert isinstance(next(sources_of([SOUND, "x.wav"])), ArrayRecording)
    assert is_single(SOUND)
    assert is_single("x.wav")
    assert not is_single(tmp_path)
    assert not is_single([SOUND])
    with pytest.raises(TypeError, match="is of type int"):
        list(sources_of([3]))


def test_urls_of_files_and_folders(flaky: type[FlakyStore]) -> None:
    store = fsspec.filesystem("flaky")
    store.pipe_file("/net/night/a.wav", b"")
    store.pipe_file("/net/night/odd", b"")
    night = RemoteFile("flaky://net/night")
    assert list(sources_of(night)) == list(sources_of([str(night / "a.wav")])) == [night / "a.wav"]
    assert not is_single("flaky://net/night")
    assert is_single(night / "odd")
    flaky.requests.clear()
    assert is_single(night / "a.wav")
    assert not flaky.requests


@pytest.fixture
def detector(example_files) -> Detector:
    return load_detector(str(example_files.model), device="cpu")


@pytest.fixture
def folder(tmp_path: Path, example_files) -> Path:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    shutil.copy(example_files.recording, tmp_path / "in" / "b.wav")
    shutil.copy(example_files.recording, tmp_path / "in" / "deep" / "c.wav")
    (tmp_path / "in" / "a.wav").write_text("no sound")
    (tmp_path / "in" / "notes.txt").write_text("no audio file")
    return tmp_path / "in"


def test_verdicts_on_a_list_have_its_columns_whatever_the_workers(
    detector: Detector, folder: Path
) -> None:
    (folder / "night.csv").write_text("path,site\nb.wav,north\nnone.wav,south\na.wav,\n")
    listing = list_recordings([str(folder / "night.csv")])
    verdicts = list(detector.predict_listed(listing, workers=1))
    assert list(detector.predict_listed(listing, workers=3)) == verdicts
    assert [verdict.columns["site"] for verdict in verdicts] == ["north", "south", ""]
    assert [bool(verdict.error) for verdict in verdicts] == [False, True, True]
    assert "no such file" in verdicts[1].error
    assert list(verdicts[0].to_dict())[:3] == ["path", "site", "decision"]
    assert verdicts[0] == replace(detector.predict(folder / "b.wav"), columns={"site": "north"})


def test_groups_are_small_at_first_and_keep_large_files_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sounds = [ArrayRecording(np.zeros(100), 8000)] * 300
    sizes = [len(group) for group, are_short in grouped(iter(sounds), workers=1) if are_short]
    assert sizes[:4] == [1, 1, 1, 2]
    assert max(sizes) == 32
    assert sum(sizes) == 300
    (tmp_path / "large.wav").write_bytes(bytes(5 << 20))
    files = [tmp_path / "none.wav", tmp_path / "large.wav", RemoteFile("memory://x.wav")] * 100
    groups = list(grouped(files, workers=1))[-20:]
    assert {(len(group), are_short) for group, are_short in groups} == {(1, False), (2, False)}
    monkeypatch.setattr(module, "GROUP_S", -1.0)  # as where each came slowly
    assert {len(group) for group, _ in grouped(sounds, workers=1)} == {1}


def test_one_path_gives_one_verdict_several_or_a_folder_a_list(
    detector: Detector, folder: Path
) -> None:
    one = detector.predict(folder / "b.wav")
    assert isinstance(one, Verdict)
    assert detector.predict(str(folder / "b.wav")) == one
    assert detector.predict([folder / "b.wav"]) == [one]
    several = detector.predict(iter([folder / "b.wav", str(folder / "deep")]))
    assert several == [one, replace(one, path=str(folder / "deep" / "c.wav"))]
    verdicts = detector.predict(folder)
    assert [Path(verdict.path).name for verdict in verdicts] == ["a.wav", "b.wav", "c.wav"]
    assert [bool(verdict.error) for verdict in verdicts] == [True, False, False]
    assert detector.predict([folder]) == verdicts
    assert list(detector.predict_each(folder, workers=1)) == verdicts


def test_a_missing_file_raises_alone_and_is_a_verdict_among_others(
    detector: Detector, example_files, tmp_path: Path
) -> None:
    assert detector.predict(tmp_path) == []
    with pytest.raises(InputError, match=r"none\.wav: "):
        detector.predict(tmp_path / "none.wav")
    missing, there = detector.predict([tmp_path / "none.wav", example_files.recording])
    assert "No such file" in missing.error
    assert not there.error
    (tmp_path / "empty.wav").touch()
    assert detector.predict(tmp_path / "empty.wav").error  # it is there, and cannot be scored


def test_a_verdict_is_shown_in_a_notebook(
    detector: Detector, example_files, tmp_path: Path
) -> None:
    odd = tmp_path / "<b>a&.wav"
    shutil.copy(example_files.recording, odd)
    samples, rate_hz = soundfile.read(odd)
    for source in (odd, (samples, rate_hz)):
        verdict = detector.predict(source)
        shown = verdict._repr_html_()
        assert shown is not None
        assert "<b>a&" not in shown
        assert shown.count("<audio") == shown.count("<img") == 1
        assert len(repr(verdict)) < 200
    assert "&lt;b&gt;a&amp;.wav" in detector.predict(odd)._repr_html_()
    of_list, again = detector.predict([(samples, rate_hz), odd])
    assert "<audio" not in of_list._repr_html_()  # of many, arrays are not kept
    assert "<audio" in again._repr_html_()
    assert copy.copy(again) == again
    assert copy.copy(again)._repr_html_() is None
    odd.unlink()
    assert "<audio" not in again._repr_html_()


def test_a_verdict_draws_its_windows_and_the_threshold(detector: Detector, example_files) -> None:
    verdict = detector.predict(example_files.recording)
    axes = Figure().subplots()
    assert verdict.plot(axes) is axes
    assert len(axes.collections) == len(verdict.windows)
    (line,) = axes.lines
    assert set(line.get_ydata()) == {verdict.threshold}


def test_several_verdicts_are_rows_and_show_progress_when_asked(
    detector: Detector, example_files, capfd: pytest.CaptureFixture[str]
) -> None:
    several = [example_files.recording] * 2
    assert detector.predict(several).rows() == [
        {name: value for name, value in verdict.to_dict().items() if name != TIMELINE}
        for verdict in detector.predict_each(several)
    ]
    assert capfd.readouterr() == ("", "")
    verdicts = detector.predict(several, progress=True)
    assert "2/2 recordings" in capfd.readouterr().err
    assert repr(verdicts).count("\n") == 1


def test_a_detector_says_what_its_model_is_worth(detector: Detector) -> None:
    assert detector.verdict.grade == "unknown"  # its file does not say it
    known = {"grade": "bad", "label": "No", "sentence": "Luck.", "split": "test", "cautions": ["x"]}
    card = {**detector.mel_detector.card, "verdict": known}
    other = Detector(replace(detector.mel_detector, card=card), detector.path)
    assert str(other.verdict) == "No (own evaluation on test). Luck."
    assert other.verdict.cautions == ("x",)


@pytest.mark.parametrize(
    ("dtype", "subtype"),
    [("int16", "PCM_16"), ("int32", "PCM_32"), ("float32", "FLOAT"), ("float64", "DOUBLE")],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_an_array_is_scored_as_the_file_of_its_samples(
    dtype: str, subtype: str, channels: int, detector: Detector, tmp_path: Path
) -> None:
    sound = np.random.default_rng(channels).uniform(-0.9, 0.9, (11025, channels))
    scale = 1.0 if dtype.startswith("float") else np.iinfo(dtype).max
    samples = (sound * scale).astype(dtype)
    soundfile.write(tmp_path / "a.wav", samples, 11025, subtype=subtype)
    of_file = detector.predict(tmp_path / "a.wav")
    of_array = detector.predict((samples, 11025))
    assert of_array == replace(of_file, path=None)
    assert len(of_array.windows) > 1
    np.testing.assert_array_equal(
        detector.embed((samples, 11025)), detector.embed(tmp_path / "a.wav")
    )
    if channels == 1:
        assert detector.predict((samples[:, 0], 11025)) == of_array


def test_unfamiliar_replaces_the_models_setting(
    detector: Detector, example_files, tmp_path: Path
) -> None:
    mel_detector = detector.mel_detector
    features = np.random.default_rng(0).normal(0, 1e-3, (20, 24))
    reference = SpectralReference.of(features, np.arange(20) < 10)
    path = tmp_path / "model.safetensors"
    weights = mel_detector.network.state_dict()
    save_model(path, weights, mel_detector.card, reference=reference)
    recording = example_files.recording
    for unfamiliar, reason in ((None, "unfamiliar"), ("strict", "unfamiliar"), ("off", "")):
        loaded = load_detector(path, unfamiliar=unfamiliar)
        assert loaded.predict(recording).reason == reason
    anew = load_detector(path, threshold=0.3, unfamiliar="off")
    assert (anew.threshold, anew.predict(recording).reason) == (0.3, "")
    assert load_detector(path, threshold=0.3).mel_detector.rule.unfamiliar == "normal"
    with pytest.raises(SettingsError, match="allowed are off, normal, strict"):
        load_detector(path, unfamiliar="very")


def test_doubt_and_source_replace_the_models_settings(
    detector: Detector, example_files, tmp_path: Path
) -> None:
    inner, recording = detector.mel_detector, example_files.recording
    score = detector.predict(recording).leak_prob
    path = tmp_path / "model.safetensors"
    rule = replace(inner.rule, threshold=score, doubt=0.2)
    card = {**inner.card, "decision_rule": rule.to_json()}
    rates = SourceRates({16000: (4, 4)})
    scores = ValidationScores(np.linspace(0, 1, 9), np.arange(9) > 4)
    save_model(path, inner.network.state_dict(), card, validation=scores, sources=rates)
    for settings, reason in (
        ({}, "other_source"),
        ({"source": "off"}, "doubt"),
        ({"source": "off", "doubt": 0.0}, ""),
        ({"source": "off", "threshold": 0.0}, ""),
        ({"source": "off", "policy": "min_cost=10"}, ""),  # a person chose: no doubt
    ):
        assert load_detector(path, **settings).predict(recording).reason == reason
    new = load_detector(path, doubt=0.0, source="off").predict(recording)
    del card["decision_rule"]["doubt"], card["decision_rule"]["source"]
    save_model(tmp_path / "old.safetensors", inner.network.state_dict(), card)  # as 0.1.0 wrote it
    old = load_detector(tmp_path / "old.safetensors")
    assert replace(old.predict(recording), model=new.model) == new
    typed = load_detector(path, policy="min_tpr=0.9", doubt=0.1).mel_detector.rule
    assert (typed.policy, typed.doubt) == ("min_tpr", 0.1)
    assert load_detector(path, policy="max_f1").mel_detector.rule.doubt == 0.2
    samples, rate_hz = soundfile.read(recording)
    assert load_detector(path).predict((samples, rate_hz)).reason == "other_source"
    assert load_detector(path).predict((samples, rate_hz), resampled=True).reason == "doubt"
    with pytest.raises(SettingsError, match=r"doubt is 0.5; it must lie in 0 \(none\) to below"):
        load_detector(path, doubt=0.5)


def test_arrays_and_paths_mix_in_a_list(detector: Detector, example_files) -> None:
    samples, rate_hz = soundfile.read(example_files.recording, dtype="int16")
    of_array, of_file = detector.predict([(samples, rate_hz), example_files.recording])
    assert of_array == replace(of_file, path=None)


def test_bad_samples_are_an_error_in_the_verdict(detector: Detector) -> None:
    verdict = detector.predict((np.array([0.0, np.nan] * 4000), 4000))
    assert "NaN" in verdict.error


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        (5, TypeError, "path or .*of type int"),
        (np.zeros(4000), TypeError, "of type ndarray"),
        (
            (torch.zeros(4000), 4000),
            TypeError,
            "NumPy array .*of type Tensor",
        ),
        (b"a.wav", TypeError, "of type bytes"),
        ([None], TypeError, "of type NoneType"),
        ((np.zeros((2, 4000)), 4000), InputError, "transpose"),
        ((np.zeros(4000), -1), InputError, "rate is -1 Hz"),
        ((np.zeros(4000, np.int64), 4000), InputError, "int64"),
    ],
)
def test_wrong_arguments_raise(
    argument: object, error: type[Exception], message: str, detector: Detector
) -> None:
    for call in (detector.predict, detector.embed):
        with pytest.raises(error, match=message):
            call(argument)


def test_features_come_for_the_same_inputs(detector: Detector, folder: Path) -> None:
    one = detector.embed(folder / "b.wav")
    assert one.shape == (15, 12)
    assert one.dtype == np.float32
    (again,) = detector.embed([folder / "b.wav"])
    np.testing.assert_array_equal(again, one)
    assert len(detector.embed(folder / "deep")) == 1
    with pytest.raises(InputError, match=r"a\.wav: not readable"):
        detector.embed(folder)


def test_the_callers_threads_stay(detector: Detector, folder: Path) -> None:
    threads = torch.get_num_threads()
    detector.predict(folder)
    for _ in detector.predict_each([folder, folder], workers=2):
        break
    assert torch.get_num_threads() == threads


def test_a_model_of_unknown_signal_loads_but_cannot_score_sound(
    detector: Detector, example_files
) -> None:
    deaf = Detector(replace(detector.mel_detector, signal=None), Path("deaf.safetensors"))
    with pytest.raises(InputError, match=r"deaf\.safetensors: .*cannot score audio"):
        deaf.predict(example_files.recording)
    with pytest.raises(InputError, match="cannot score audio"):
        deaf.predict_each([example_files.recording])


def test_auto_is_a_device_of_this_machine_and_others_are_refused() -> None:
    assert chosen_device("auto") in ("cpu", "cuda")
    assert chosen_device("cpu") == "cpu"
    with pytest.raises(InputError, match="device cuda:99: not available"):
        chosen_device("cuda:99")
    for name in ("gpu", "cuda:", "0", ""):
        with pytest.raises(InputError, match=rf"device {name}: .*auto, cpu, cuda, cuda:N"):
            chosen_device(name)


def test_a_detector_names_its_model_and_threshold(detector: Detector, example_files) -> None:
    assert detector.threshold == 0.5
    assert repr(detector) == f"Detector('{example_files.model}', threshold=0.5)"


def test_a_threshold_of_ones_own_decides_and_is_told(example_files) -> None:
    own = load_detector(example_files.model, device="cpu")
    changed = load_detector(example_files.model, device="cpu", threshold=0.9)
    assert (own.decided_anew, own.threshold, changed.threshold) == ("", 0.5, 0.9)
    assert re.search(r"0\.9 .*own 0\.5", changed.decided_anew)
    surer = load_detector(
        example_files.model, device="cpu", doubt=0.3, source=own.mel_detector.rule.source
    )
    assert re.search(r"doubt=0\.3 .*own doubt=[\d.]+, for", surer.decided_anew)
    both = load_detector(example_files.model, device="cpu", threshold=0.9, doubt=0.3)
    assert both.decided_anew == f"{changed.decided_anew} {surer.decided_anew}"
    verdict = changed.predict(example_files.recording)
    assert verdict.threshold == 0.9
    assert verdict.leak_prob == own.predict(example_files.recording).leak_prob
    with pytest.raises(SettingsError, match="keeps no scores"):
        load_detector(example_files.model, device="cpu", policy="max_fpr=0.05")
