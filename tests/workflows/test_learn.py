"""`leakdet learn` as a crew uses it: rows of predict, a label written in, a better model."""

import csv
from pathlib import Path

from tests.conftest import lines_told

from leakdet.acoustics.synth import write_demo
from leakdet.config import DemoConfig


def test_a_crew_confirms_and_the_next_predict_uses_the_new_model(
    trained, door, tmp_path: Path
) -> None:
    demo = DemoConfig(sites=1, recordings_per_site=8, duration_s=2.0, seed=7)
    manifest = write_demo(tmp_path / "night", demo)
    with manifest.open(newline="", encoding="utf-8") as file:
        truth = {f"night/{row['path']}": row["label"] for row in csv.DictReader(file)}
    broken = tmp_path / "night" / "audio" / "broken.wav"
    broken.write_bytes(b"RIFF nothing")
    result = door("predict", trained.model, "night/audio", "--out", "night.csv", cwd=tmp_path)
    assert result.returncode == 1, result.stderr
    with (tmp_path / "night.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        known = truth.get(row["path"], "")
        row |= {
            "label": "" if number == 1 else "dry_hole" if known == "NOLEAK" else "leak",
            "site": "new-site",
        }
    with (tmp_path / "confirmed.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)

    settings = ("learn.new=confirmed.csv", "learn.steps=20", "learn.folds=2")
    settings += ("learn.unverified=true", "learn.rounds=1")
    link = "learn.publish=current.safetensors"
    told = (f"model={trained.model}", f"data.store={trained.store}", link)
    before = trained.model.read_bytes()
    result = door("learn", *told, *settings, "hydra.run.dir=learnt", cwd=tmp_path)
    assert result.returncode == 1, result.stderr  # broken.wav
    assert "broken.wav" in result.stdout
    assert (
        len(lines_told(result.stdout + result.stderr)) <= 8 + 3
    )  # left out, published, to go back
    assert "Too few to tell: 7 confirmed recordings" in result.stdout
    assert trained.model.read_bytes() == before
    names = {path.name for path in (tmp_path / "learnt").iterdir()}
    assert {"model.safetensors", "rounds.csv", "metrics.json", "report.html", "added"} <= names
    with (tmp_path / "learnt" / "rounds.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert int(row["unverified, predicted leak"]) + int(row["unverified, predicted normal"]) == 1
    assert (tmp_path / "learnt" / "added" / "unverified.h5").exists()
    result = door("predict", "current.safetensors", "night/audio", cwd=tmp_path)
    assert result.returncode == 1
    shown = door("info", "current.safetensors", cwd=tmp_path).stdout
    assert "learnt   1. " in shown
    assert "and 1 not verified" in " ".join(shown.split())
    back = door("learn", f"model={trained.model}", link, cwd=tmp_path)
    assert back.returncode == 0, back.stderr
    assert (tmp_path / "current.safetensors").resolve() == trained.model.resolve()
    assert not (tmp_path / "runs").exists()  # publishing alone leaves no folder


def test_what_learn_cannot_do_is_said_at_once(trained, door, tmp_path: Path) -> None:
    known = (f"model={trained.model}", f"data.store={trained.store}")
    for words, told in (
        ((*known, "learn.new=none.csv"), "learn.new=none.csv: "),
        (known, "learn.new must be"),
        (("learn.new=none.csv",), "model must be"),
        ((*known, "learn.from=head"), "one of auto, target, joint"),
    ):
        result = door("learn", *words, cwd=tmp_path)
        assert (result.returncode, told in result.stderr) == (2, True), result.stderr
        assert not (tmp_path / "runs").exists()
