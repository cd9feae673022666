"""The Python API: docs/api.md runs, names load lazily, and a type checker knows them."""

import logging
import random
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

import leakdet

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

CLIENT = """
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import leakdet
from leakdet.config import BuildConfig, CrossvalConfig, TrainConfig, TuneConfig

detector = leakdet.load_detector(Path("runs/first"), device="cpu", trust_network=["nets:Mine"])
assert_type(detector, leakdet.Detector)
sound = (np.zeros(8000, np.int16), 8000)
assert_type(detector.predict(sound), leakdet.Verdict)
verdicts = detector.predict([Path("a.wav"), "b.wav", sound], progress=True)
assert_type(verdicts, leakdet.Verdicts)
rows: list[dict[str, Any]] = verdicts.rows()
worth: str = detector.verdict.label
assert_type(detector.embed(sound), npt.NDArray[np.float32])
assert_type(detector.embed(["a.wav"]), list[npt.NDArray[np.float32]])

verdict: leakdet.Verdict = detector.predict("a.wav")
row: dict[str, Any] = verdict.to_dict()
window: leakdet.Window = verdict.windows[0]
seconds: float = window.end_s - window.start_s
for each in detector.predict_each(["folder"]):
    text: str = each.error or each.decision or ""

assert_type(leakdet.compose("build", ["source=a", "out=b"]), BuildConfig)
assert_type(leakdet.compose("train"), TrainConfig)
assert_type(leakdet.compose("tune"), TuneConfig)
assert_type(leakdet.compose("crossval"), CrossvalConfig)
result: leakdet.FitResult = leakdet.fit(leakdet.compose("train"), "runs/first")
metrics: dict[str, Any] = leakdet.evaluate_model(result.model, "store", split="val")

store: leakdet.Store = leakdet.open_store("store")
split: leakdet.SplitArrays = store["test"]
mel: npt.NDArray[np.float16] = split.mel("a.wav")
names: list[str] = list(split)
try:
    pass
except (leakdet.InputError, leakdet.SettingsError) as error:
    general: leakdet.LeakdetError = error
"""


def test_the_page_runs_from_top_to_bottom(
    example_files, demo_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo_store
) -> None:
    shutil.copytree(example_files.folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "recordings").mkdir()
    shutil.copy(example_files.recording, tmp_path / "recordings" / "a.wav")
    (tmp_path / "recordings" / "b.wav").touch()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "leakdet").symlink_to(demo_cache)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        if block.startswith("# my_nets.py"):
            (tmp_path / "my_nets.py").write_text(block)
        else:
            exec(compile(block, "docs/api.md", "exec"), names)
    sys.modules.pop("my_nets", None)
    assert [Path(path).name for path in names["failed"]] == ["b.wav"]
    assert names["features"].shape == (len(names["verdict"].windows), 12)
    assert names["result"].model == Path("runs/bands/model.safetensors")
    assert names["result"].metrics["test"]["recording"]["auroc"] > 0.6
    assert names["metrics"]["val"] == names["result"].metrics["val"]
    assert names["detector"].mel_detector.network.dense.out_features == 24


def test_fit_is_silent_and_leaves_what_the_command_leaves(
    example_files, trained, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = [f"data.store={example_files.store}", "network=linear", "trainer.max_epochs=1"]
    result = leakdet.fit(leakdet.compose("train", settings), tmp_path / "run")
    assert capfd.readouterr() == ("", "")
    commands_own = {".hydra", "warnings.txt"}
    left = {path.name for path in result.folder.iterdir()} - commands_own
    assert left == {path.name for path in trained.folder.iterdir()} - commands_own
    with pytest.raises(leakdet.SettingsError, match="holds a run already"):
        leakdet.fit(leakdet.compose("train", settings), tmp_path / "run")


def test_what_a_training_noticed_is_in_its_result(example_files, tmp_path: Path) -> None:
    settings = [f"data.store={example_files.store}", "network=linear", "optimizer.lr=0"]
    settings += ["trainer.max_epochs=3", "logger=none"]
    result = leakdet.fit(leakdet.compose("train", settings), str(tmp_path / "run"))
    assert any("learning_rate" in warning for warning in result.warnings)


# Of the package and what it uses a client sees types alone.
MYPY = """
[mypy]
strict = true
[mypy-leakdet.*]
follow_imports = silent
[mypy-torch.*,lightning.*,scipy.*,matplotlib.*,optuna.*,hydra.*,omegaconf.*,torchmetrics.*,h5py.*]
follow_imports = skip
"""


@pytest.mark.slow
def test_a_type_checker_sees_every_public_name(tmp_path: Path) -> None:
    for name in leakdet.__all__:
        assert f"leakdet.{name}" in CLIENT
    (tmp_path / "mypy.ini").write_text(MYPY)
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "wrong.py").write_text(CLIENT.replace("verdict.to_dict()", "verdict.todict()"))
    command = [sys.executable, "-m", "mypy", "--config-file", str(tmp_path / "mypy.ini")]
    command += ["--cache-dir", str(tmp_path / "cache")]
    process = subprocess.run(
        [*command, str(tmp_path / "client.py"), str(tmp_path / "wrong.py")],
        cwd=REPOSITORY / "src",
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in process.stdout.splitlines() if " error: " in line]
    assert len(errors) == 1, process.stdout
    assert "wrong.py" in errors[0]
    assert 'has no attribute "todict"' in errors[0]


def test_every_public_name_is_listed_and_there() -> None:
    assert set(leakdet.__all__) <= set(dir(leakdet))
    for name in leakdet.__all__:
        assert getattr(leakdet, name).__name__ == name
    with pytest.raises(AttributeError, match="'leakdet' has no attribute 'lode_detector'"):
        leakdet.lode_detector  # noqa: B018


def test_what_a_library_does_when_it_is_imported_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As rich, which draws random numbers, and Lightning, which adds filters of warnings."""

    def imported(name: str) -> SimpleNamespace:
        random.random()
        warnings.simplefilter("ignore")
        return SimpleNamespace(Window=name)

    monkeypatch.setattr(leakdet, "import_module", imported)
    state, filters = random.getstate(), list(warnings.filters)
    assert leakdet.__getattr__("Window") == "leakdet.tables.schema"
    assert random.getstate() == state
    assert warnings.filters == filters


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY / "src",
    )


def test_importing_loads_nothing_but_the_standard_library() -> None:
    """Without `site`, whose .pth files import what they like."""
    code = "import sys; sys.path.insert(0, '.'); import leakdet; print(*sys.modules)"
    loaded = python("-S", "-c", code).stdout.split()
    assert {name.split(".")[0] for name in loaded} <= {
        *sys.stdlib_module_names,
        "leakdet",
        "__main__",
    }
    assert [name for name in loaded if name.startswith("leakdet")] == ["leakdet"]


def test_importing_loads_one_module_of_the_package_and_no_library() -> None:
    code = "import sys; before = {*sys.modules}; import leakdet; print(*{*sys.modules} - before)"
    loaded = {name.split(".")[0] for name in python("-c", code).stdout.split()}
    assert loaded - sys.stdlib_module_names == {"leakdet"}
    assert "leakdet." not in python("-c", code).stdout


def test_the_package_is_typed() -> None:
    assert (Path(leakdet.__file__).parent / "py.typed").is_file()
