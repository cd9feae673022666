import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.serving.conftest import HOST, TOKEN

from leakdet.scoring.detector import load_detector
from leakdet.tables.schema import COLUMNS, InputRecording

LAST_DIGIT = 1.01e-6  # of probabilities, which have six


def rows_of_predict(door: Any, model: Path, files: list[Path], folder: Path) -> dict[str, Any]:
    words = ("--format", "jsonl", "--windows", "--device", "cpu", "--quiet", "--out", "rows.jsonl")
    result = door("predict", model, *files, *words, cwd=folder)
    assert result.returncode == 0, result.stderr
    lines = (folder / "rows.jsonl").read_text().splitlines()
    return {Path(row["path"]).name: row for row in map(json.loads, lines)}


def test_predict_answers_the_row_of_the_command_for_each_reason(
    client: Any,
    example_files: Any,
    write_sound: Callable[..., Path],
    sounds: list[Path],
    door,
    tmp_path: Path,
) -> None:
    odd = [
        write_sound("odd/short.wav", 0.1, 4000),
        write_sound("odd/silent.wav", samples=np.zeros(4000), rate_hz=4000),
        write_sound("odd/stuck.wav", samples=np.full(4000, 0.25), rate_hz=4000),
        write_sound("odd/other.flac", 0.5, 8000),
        write_sound(
            "odd/stereo.wav",
            samples=np.random.default_rng(0).normal(0, 0.1, (3000, 2)),
            rate_hz=4000,
        ),
    ]
    expected = rows_of_predict(door, example_files.model, [*sounds, *odd], tmp_path)
    reasons = set()
    for file in [*sounds, *odd]:
        answer = client.ask("/v1/predict", file.read_bytes(), name=file.name)
        assert answer.status == 200, answer.body
        row, wanted = answer.json, expected[file.name]
        reasons.add(row["reason"])
        assert row.pop("path") == file.name
        wanted.pop("path")
        assert row.pop("timeline") == [
            pytest.approx(window, abs=LAST_DIGIT) for window in wanted.pop("timeline")
        ]
        assert row == pytest.approx(wanted, abs=LAST_DIGIT)
    assert reasons >= {"", "short", "silent", "stuck"}
    assert list((tmp_path / "work/uploads").iterdir()) == []


def test_a_form_gives_the_same_row_as_a_body(client: Any, sounds: list[Path]) -> None:
    content = sounds[0].read_bytes()
    head = b'--xx\r\nContent-Disposition: form-data; name="sound"; filename="a.wav"\r\n\r\n'
    kind = {"content-type": "multipart/form-data; boundary=xx"}
    of_form = client.ask("/v1/predict", head + content + b"\r\n--xx--\r\n", headers=kind)
    assert of_form.json == client.ask("/v1/predict", content, name="a.wav").json
    without = client.ask(
        "/v1/predict", head.replace(b'; filename="a.wav"', b"") + b"\r\n--xx--\r\n", headers=kind
    )
    assert (without.status, "holds no file" in without.error) == (400, True)


@pytest.mark.parametrize(
    ("body", "status", "fact"),
    [
        (b"", 400, "empty"),
        (b"RIFF nothing", 422, "a.wav: not readable as audio"),
        (b"no sound at all", 422, "a.wav: "),
    ],
)
def test_what_is_no_sound_is_refused_in_a_sentence(
    client: Any, body: bytes, status: int, fact: str
) -> None:
    answer = client.ask("/v1/predict", body, name="../../a.wav")
    assert answer.status == status
    assert fact in answer.error
    assert str(client.service.bench.folder) not in answer.error


def test_a_small_file_of_hours_is_refused_before_it_is_decoded(
    client: Any, write_sound: Callable[..., Path]
) -> None:
    long = write_sound("long.flac", samples=np.zeros(3 * 3600 * 1000, np.int16), rate_hz=1000)
    assert long.stat().st_size < 1_000_000
    answer = client.ask("/v1/predict", long.read_bytes(), name="long.flac")
    assert answer.status == 413
    assert "180 min" in answer.error


def test_model_health_and_openapi(client: Any, example_files: Any) -> None:
    detector = load_detector(example_files.model, device="cpu")
    facts = client.ask("/v1/model").json
    assert facts["model"]["hash"] == detector.mel_detector.file_hash
    assert facts["decision_rule"]["threshold"] == detector.threshold
    assert facts["synthetic"] is False
    assert client.ask("/health", headers={"cookie": ""}).json == {"status": "ok"}
    described = client.ask("/v1/openapi.json").json
    assert set(described["paths"]) == {"/health", "/v1/model", "/v1/predict"}
    assert set(described["components"]["schemas"]["Row"]["properties"]) == {
        *(c.name for c in COLUMNS),
        "timeline",
    }


def test_without_a_model_machines_are_told_to_wait(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakdet.serving.jobs.Jobs.start", lambda *_: None)  # which trains the demo
    client = serving(model=None)
    assert client.ask("/health").json == {"status": "preparing"}
    answer = client.ask("/v1/predict", b"sound")
    assert (answer.status, "demo" in answer.error) == (503, True)


def test_a_body_that_does_not_come_is_not_waited_for(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakdet.serving.machines.PATIENCE_S", 0.05)
    raw = [(b"host", HOST.encode()), (b"authorization", f"Bearer {TOKEN}".encode())]
    scope = client.scope("POST", "/v1/predict", b"", raw)
    answer = client.loop.run_until_complete(client.answer(scope, [b"half a sound"], whole=None))
    assert (answer.status, "did not arrive" in answer.error) == (408, True)


def test_what_nobody_waits_for_is_not_scored(client: Any, example_files: Any) -> None:
    engine = client.service.engine
    detector, engine._detector = engine._detector, None
    gone = engine.submit(InputRecording(example_files.recording), urgent=True)
    gone.cancel()
    engine.use(detector)
    waits = engine.submit(InputRecording(example_files.recording), urgent=True)
    assert [verdict.error for verdict in waits.result(30)] == [""]


def test_many_that_wait_are_told_so(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakdet.serving.machines.MOST_REQUESTS", 0)
    answer = client.ask("/v1/predict", b"sound")
    assert (answer.status, "waiting" in answer.error) == (503, True)
