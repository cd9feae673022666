import csv
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import soundfile

from leakdet.config import NetworkConfig, SignalConfig
from leakdet.core.errors import InputError
from leakdet.detection.decision import DecisionRule
from leakdet.exporting.equality import Equality
from leakdet.runs import export
from leakdet.runs.export import export_model
from leakdet.scoring.detector import Detector, load_detector
from leakdet.scoring.score_recording import DEAD
from pages import blocks

NARROW = Equality(1e-4, 3, 3e-4, "8 kHz", narrow=True)


@pytest.mark.parametrize(
    ("equality", "remedy"),
    [
        (Equality(1e-4, 3, 0.2, "tone"), r"most in tone.*nothing was written.*report this"),
        (NARROW, r"most in 8 kHz.*nothing was written.*narrow_band.*out of --check"),
        (replace(NARROW, flipped=1), r"report this"),
    ],
)
def test_a_file_that_differs_is_not_written(
    classes_detector, tmp_path, monkeypatch, equality: Equality, remedy: str
) -> None:
    differing = lambda *args: equality  # noqa: E731
    monkeypatch.setattr(export, "compare", differing)
    loaded = classes_detector.mel_detector
    monkeypatch.setattr(export, "onnx_graph", lambda *args: None)
    monkeypatch.setattr(export, "onnx_content", lambda *args, **more: b"graph")
    monkeypatch.setattr(export, "load_onnx_detector", lambda path: loaded)
    (tmp_path / "a.onnx").write_text("the file before")
    with pytest.raises(InputError, match=remedy):
        export_model(classes_detector, tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx").read_text() == "the file before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.onnx"]


# Every kind of each part, since a graph takes six seconds; test_network.py compares all combinations,
# and the network that is a single layer, without writing a graph.
GRAPHS = {
    "paper": ({"highpass_hz": 150.0, "detrend": "linear"}, "segment", "vote"),
    "dual_head": ({"detrend": "mean"}, "window", "logit_mean"),
    "compact": ({"highpass_hz": 90.0}, "segment", "mean"),
}


@pytest.mark.parametrize("network", GRAPHS)
def test_graphs_of_every_part_give_what_predict_gives(
    made, small_signal: SignalConfig, tmp_path, network: str
) -> None:
    """On the generated sounds, each window and verdict; a graph that differs is an error."""
    changes, unit, pooling = GRAPHS[network]
    rule = DecisionRule(
        pooling=pooling, vote_fraction=0.4, threshold=0.47, unfamiliar="strict", doubt=0.01
    )
    settings = NetworkConfig(network, conv_channels=4, dense=8, time_pool=1)
    detector = made(replace(small_signal, **changes), settings, rule, unit)
    equality = export_model(detector, tmp_path / "a.onnx").equality
    assert equality.recordings == 14
    assert equality.largest <= 1e-4
    assert equality.flipped == 0


def test_models_that_take_no_sound_and_onnx_files_are_refused(
    classes_detector, exported, tmp_path
) -> None:
    silent = replace(classes_detector.mel_detector, signal=None)
    with pytest.raises(InputError, match="cannot take sound"):
        export_model(Detector(silent, classes_detector.path), tmp_path / "a.onnx")
    with pytest.raises(InputError, match=r"an .onnx file already"):
        export_model(load_detector(exported), tmp_path / "a.onnx")


DOCS = Path(__file__).parents[3] / "docs"
SCRIPT = DOCS / "onnx_predict.py"
WITHOUT = """
import runpy, sys
for name in ("leakdet", "torch", "onnx", "scipy"):
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_the_script_of_the_docs_needs_neither_leakdet_nor_torch(
    classes_detector, exported, tmp_path
) -> None:
    """Short, dead, unlike training, of several pieces, in doubt or not, and of another rate."""
    rng, paths = np.random.default_rng(0), []
    for name, seconds, rate_hz, channels in (
        ("short", 0.1, 4000, 1), ("one", 3.0, 4000, 1), ("long", 40.3, 4000, 1),
        ("stereo", 2.0, 11025, 2), ("silent", 1.0, 4000, 1),
        ("tone", 3.0, 4000, 1), ("stuck", 3.0, 4000, 1), ("dropouts", 3.0, 4000, 1),
    ):  # fmt: skip
        sound = 0.1 * rng.standard_normal((int(seconds * rate_hz), channels))
        sound[rate_hz // 2 : rate_hz] = 0.0
        if name == "tone":
            sound = 0.1 * np.sin(1.5 * np.arange(len(sound)))[:, None]
        if name == "stuck":
            sound[:] = 0.25
        if name == "dropouts":
            sound[np.arange(len(sound)) % 400 < 200] = 0.0
        paths.append(tmp_path / f"{name}.wav")
        soundfile.write(paths[-1], sound * (name != "silent"), rate_hz)
    command = [sys.executable, "-c", WITHOUT, str(SCRIPT), str(exported), *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = list(csv.DictReader(run.stdout.splitlines()))
    assert [row["path"] for row in rows] == [str(path) for path in paths]
    reasons = [verdict.reason for verdict in classes_detector.predict(paths)]
    assert reasons == [
        *("short", "", "doubt", "other_source", "silent", "unfamiliar", "stuck", "dropouts")
    ]
    assert [verdict.reason for verdict in load_detector(exported).predict(paths)] == reasons
    for row, verdict in zip(rows, classes_detector.predict(paths), strict=True):
        assert row["decision"] == verdict.decision
        no_sound = verdict.reason in ("short", *DEAD)
        assert row["reason"] == ("no_sound" if no_sound else verdict.reason)
        if no_sound:
            assert row["leak_prob"] == "nan"
        else:
            assert float(row["leak_prob"]) == pytest.approx(verdict.leak_prob, abs=1e-4)
    sound[5] = np.nan
    soundfile.write(paths[0], sound, rate_hz, subtype="FLOAT")
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith(f"{paths[0]}: ")
    assert "NaN" in run.stderr
    assert len(SCRIPT.read_text().splitlines()) <= 105


def test_the_script_of_the_docs_picks_no_channel_that_it_was_not_told(tmp_path) -> None:
    blocks = runpy.run_path(str(SCRIPT))["blocks"]
    for channels in (1, 2):
        soundfile.write(tmp_path / f"{channels}.wav", np.ones((400, channels)) / 4, 4000)
    facts = {"channels": "loudest", "sample_rate_hz": 4000}
    np.testing.assert_allclose(np.concatenate(list(blocks(tmp_path / "1.wav", facts))), 0.25)
    with pytest.raises(SystemExit, match="channels=loudest is for leakdet predict"):
        next(blocks(tmp_path / "2.wav", facts))


def test_the_quantising_of_the_docs_changes_the_network_alone(
    classes_detector, exported, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recordings").mkdir()
    (tmp_path / "model.onnx").write_bytes(exported.read_bytes())
    rng = np.random.default_rng(1)
    for name in "abc":
        sound = rng.normal(0.0, 0.1, 12000)
        soundfile.write(tmp_path / "recordings" / f"{name}.wav", sound, 4000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(DOCS))
    page = blocks((DOCS / "export.md").read_text(encoding="utf-8"))
    [recipe] = [block.text for block in page if block.language == "python"]
    exec(compile(recipe, "export.md", "exec"), names := {})
    graph = onnx.load("int8.onnx").graph
    rounded = [w.name for w in graph.initializer if w.data_type == onnx.TensorProto.INT8]
    assert any("cls_head" in name for name in rounded)
    assert not any("front_end" in name for name in rounded)
    files = sorted((tmp_path / "recordings").iterdir())
    for path, verdict in zip(files, classes_detector.predict(files), strict=True):
        leak_prob, decision, _ = names["predict"](path, names["integers"], names["facts"])
        assert 0.0 < abs(leak_prob - verdict.leak_prob) < 0.1
        assert decision == verdict.decision
