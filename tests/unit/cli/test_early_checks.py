"""What cannot be trained is refused before torch is imported, and leaves no folder."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from leakdet.cli import early_checks
from leakdet.cli.early_checks import check_inputs, refuse_used_folder, remove_unused
from leakdet.config import DataConfig, TrainConfig
from leakdet.errors import InputError, SettingsError


@pytest.mark.parametrize("name", ["resume", "init_from"])
def test_a_path_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}=nowhere: there is no such file"):
        check_inputs(replace(TrainConfig(), **{name: "nowhere"}))
    check_inputs(replace(TrainConfig(), resume="auto"))


def test_a_missing_gpu_or_package_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainConfig(trainer={"accelerator": "gpu"}, logger={"csv": {}})
    monkeypatch.setattr(early_checks, "has_gpu", lambda: True)
    check_inputs(config)
    monkeypatch.setattr(early_checks, "has_gpu", lambda: False)
    with pytest.raises(SettingsError, match=r"no GPU.*trainer=cpu"):
        check_inputs(config)
    monkeypatch.setattr(early_checks, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="pip install wandb"):
        check_inputs(TrainConfig(logger={"wandb": {}}))


def test_another_runs_folder_is_left_alone(tmp_path: Path) -> None:
    refuse_used_folder(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    refuse_used_folder(tmp_path)
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    with pytest.raises(SettingsError, match=r"holds a run already \(last.ckpt\)"):
        refuse_used_folder(tmp_path)


def test_only_a_folder_without_results_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "train" / "1"
    (folder / ".hydra").mkdir(parents=True)
    (folder / "log.txt").touch()
    remove_unused(folder)
    assert folder.exists()
    (folder / "log.txt").unlink()
    (tmp_path / "kept").touch()
    remove_unused(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_refused_training_imports_no_torch_and_makes_no_folder(tmp_path: Path) -> None:
    code = (
        "import sys, runpy\n"
        "sys.argv = ['train', 'data.store=typo']\n"
        "try: runpy.run_module('leakdet.train', run_name='__main__')\n"
        "except SystemExit as stop: print(stop.code, 'torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout == "2 False\n"
    assert "typo: there is no such store" in run.stderr
    assert DataConfig().store is None
    assert list(tmp_path.iterdir()) == []
