"""A trained model as an `.onnx` file: export, predict, info and evaluate as a user runs them."""

import csv

import pytest

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason="the extra `export` is not installed")


def test_an_exported_model_stands_where_the_model_does(door, trained, tmp_path) -> None:
    audio = sorted((trained.store / "audio").rglob("*.wav"))[:3]
    wrong = door("export", trained.folder, "--check", tmp_path / "none.wav", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "none.wav: " in wrong.stderr
    stated = ("--licence", "BSD-3-Clause")
    made = door(
        "export", trained.folder, "--out", "a.onnx", "--check", *audio, *stated, cwd=tmp_path
    )
    assert made.returncode == 0, made.stderr
    assert "0 verdicts changed" in made.stdout
    assert "written  a.onnx" in made.stdout
    rows = []
    for model in (trained.model, tmp_path / "a.onnx"):
        scored = door("predict", model, *audio, cwd=tmp_path)
        assert scored.returncode == 0, scored.stderr
        rows.append(list(csv.DictReader(scored.stdout.splitlines())))
    for own, other in zip(*rows, strict=True):
        for name in ("leak_prob", "p10_prob"):
            assert float(other[name]) == pytest.approx(float(own[name]), abs=1e-4)
        for name in own.keys() - {"leak_prob", "p10_prob", "familiarity", "model"}:
            assert other[name] == own[name]
    told = door("info", "a.onnx", cwd=tmp_path)
    assert "verdict, float32" in told.stdout
    card = door("info", "a.onnx", "--markdown", cwd=tmp_path)
    assert card.stdout.startswith('---\nlicense: "BSD-3-Clause"\n')
    compared = door("evaluate", "a.onnx", trained.model, trained.store, cwd=tmp_path)
    assert compared.returncode == 0, compared.stderr
    assert "No measurable difference" in compared.stdout
