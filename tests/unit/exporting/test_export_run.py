from dataclasses import replace

import pytest

from leakdet.errors import InputError
from leakdet.exporting import export_run
from leakdet.exporting.equality import Equality
from leakdet.exporting.export_run import export_model
from leakdet.scoring.audio_detector import Detector, load_detector


def test_a_file_that_differs_is_not_written(classes_detector, tmp_path, monkeypatch) -> None:
    differing = lambda *args: Equality(1e-4, 3, 0.2, "tone", 1)  # noqa: E731
    monkeypatch.setattr(export_run, "compare", differing)
    loaded = classes_detector.mel_detector
    monkeypatch.setattr(export_run, "onnx_graph", lambda *args: None)
    monkeypatch.setattr(export_run, "onnx_content", lambda *args, **more: b"graph")
    monkeypatch.setattr(export_run, "load_onnx_detector", lambda path: loaded)
    (tmp_path / "a.onnx").write_text("the file before")
    with pytest.raises(InputError, match=r"most in tone.*nothing was written.*report this"):
        export_model(classes_detector, tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx").read_text() == "the file before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.onnx"]


def test_models_that_take_no_sound_and_onnx_files_are_refused(
    classes_detector, exported, tmp_path
) -> None:
    silent = replace(classes_detector.mel_detector, signal=None)
    with pytest.raises(InputError, match="cannot take sound"):
        export_model(Detector(silent, classes_detector.path), tmp_path / "a.onnx")
    with pytest.raises(InputError, match=r"an .onnx file already"):
        export_model(load_detector(exported), tmp_path / "a.onnx")
