"""What cannot be trained is refused before torch is imported, and leaves no folder."""

import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from leakdet.cli import checks
from leakdet.cli.checks import (
    check_build,
    check_inputs,
    refuse_other_signal,
    refuse_used_folder,
    remove_unused,
)
from leakdet.config import (
    BuildConfig,
    CrossvalConfig,
    CrossvalSettings,
    DataConfig,
    LearnConfig,
    LearnSettings,
    SignalConfig,
    TrainConfig,
    TuneConfig,
    TuneSettings,
)
from leakdet.core.errors import InputError, SettingsError


@pytest.mark.parametrize("name", ["resume", "init_from"])
def test_a_path_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name}=nowhere: .*no such"):
        check_inputs(replace(TrainConfig(), **{name: "nowhere"}))
    check_inputs(replace(TrainConfig(), resume="auto"))


def test_negatives_are_made_up_none_or_a_folder(tmp_path: Path) -> None:
    for value in ("synthetic", "none", None, str(tmp_path)):
        check_inputs(TrainConfig(data=DataConfig(negatives=value)))
    said = r"data\.negatives=synthetik: there is no such .* It takes synthetic, none, or a folder"
    with pytest.raises(InputError, match=said):
        check_inputs(TrainConfig(data=DataConfig(negatives="synthetik")))


def test_a_start_may_be_the_folder_of_a_run_and_a_folder_of_runs_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.safetensors").touch()
    check_inputs(TrainConfig(init_from=str(tmp_path / "a")))
    for name in ("init_from", "resume"):
        said = f"{name}={tmp_path}: a folder of runs, .* named: {tmp_path / 'a'}"
        with pytest.raises(InputError, match=said):
            check_inputs(TrainConfig(**{name: str(tmp_path)}))


def test_what_is_read_from_a_disk_is_no_url() -> None:
    url = "s3://town/night"
    for config, name in (
        (TrainConfig(resume=url), "resume"),
        (TrainConfig(data=DataConfig(negatives=url)), "data.negatives"),
        (LearnConfig(model=url), "model"),
        (LearnConfig(model="m", learn=LearnSettings(new=url)), "learn.new"),
    ):
        with pytest.raises(InputError, match=rf"^{name}={url}: .*copy it"):
            check_inputs(config)


def test_a_folder_without_a_checkpoint_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no checkpoint"):
        check_inputs(TrainConfig(resume=str(tmp_path)))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    check_inputs(TrainConfig(resume=str(tmp_path)))


def test_what_the_trainer_cannot_do_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    flags = {"accelerator": "cpu", "devices": 99}
    with pytest.raises(SettingsError, match=r"trainer\.devices=99: .*at most 2"):
        check_inputs(TrainConfig(trainer=flags))


def test_a_missing_gpu_or_package_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainConfig(trainer={"accelerator": "gpu"}, logger={"csv": {}})
    monkeypatch.setattr(checks, "has_gpu", lambda: True)
    check_inputs(config)
    monkeypatch.setattr(checks, "has_gpu", lambda: False)
    with pytest.raises(SettingsError, match=r"no GPU.*trainer=cpu"):
        check_inputs(config)
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="pip install wandb"):
        check_inputs(TrainConfig(logger={"wandb": {}}))
    with pytest.raises(SettingsError, match=r"tune\.sampler=cmaes .* pip install cmaes"):
        check_inputs(TuneConfig(tune=TuneSettings(sampler="cmaes")))
    check_inputs(TuneConfig())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"group_by": "sit"}, r"crossval\.group_by: 'sit' .* it has .*site.* Did you mean site\?"),
        ({"where": {"sites": "s0"}}, r"crossval\.where: 'sites' .* Did you mean site\?"),
        ({"protocols": {"a": {"group_by": "zzz"}}}, r"crossval\.protocols\.a\.group_by: 'zzz'"),
    ],
)
def test_columns_are_compared_with_those_of_the_store(
    settings: dict[str, Any], said: str, demo_store: Path
) -> None:
    data = DataConfig(store=str(demo_store))
    with pytest.raises(InputError, match=said):
        check_inputs(CrossvalConfig(data=data, crossval=CrossvalSettings(**settings)))
    for known in ({"group_by": ["site", "sensor"]}, {"group_by": "recording"}, {}):
        known["where"] = {"label": ["LEAK", "NOLEAK"]}
        check_inputs(CrossvalConfig(data=data, crossval=CrossvalSettings(**known)))


def test_another_runs_folder_is_left_alone(tmp_path: Path) -> None:
    refuse_used_folder(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    refuse_used_folder(tmp_path)
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    with pytest.raises(SettingsError, match=r"already \(last.ckpt\).*resume="):
        refuse_used_folder(tmp_path)
    with pytest.raises(SettingsError, match=r"begins anew: name another folder") as refused:
        refuse_used_folder(tmp_path, resumes=False)
    assert "resume=" not in str(refused.value)


def test_a_learning_that_was_stopped_is_repeated_in_its_folder(tmp_path: Path) -> None:
    for name in ("checkpoints", "added"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    refuse_used_folder(tmp_path, resumes=False)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(SettingsError, match=r"already \(last.ckpt\)"):
        refuse_used_folder(tmp_path, resumes=False)


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


def test_the_working_folder_is_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs" / "here" / ".hydra").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "runs" / "here")
    remove_unused(tmp_path / "runs" / "here")
    remove_unused(Path())
    (tmp_path / "runs" / "here" / "new").mkdir()
    remove_unused(Path("new"))
    assert list(tmp_path.rglob("*")) == [tmp_path / "runs", tmp_path / "runs" / "here"]


def test_what_is_to_be_learnt_is_looked_for_first(tmp_path: Path) -> None:
    model = tmp_path / "model.safetensors"
    with pytest.raises(InputError, match=r"model\.safetensors: .*no such model file"):
        check_inputs(LearnConfig(model=str(model), learn=LearnSettings(new=str(tmp_path))))
    model.touch()
    check_inputs(LearnConfig(model=str(model), learn=LearnSettings(new=str(tmp_path))))
    check_inputs(LearnConfig(model=str(model), learn=LearnSettings(publish="link")))
    with pytest.raises(SettingsError, match=r"learn\.new .*given"):
        check_inputs(LearnConfig(model=str(model)))
    with pytest.raises(InputError, match=r"learn\.new=none\.csv: .*no such"):
        check_inputs(LearnConfig(model=str(model), learn=LearnSettings(new="none.csv")))
    with pytest.raises(InputError, match=rf"models come first.*learn {model} confirm\.csv$"):
        check_inputs(LearnConfig(model="confirm.csv", learn=LearnSettings(new=str(model))))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("train", "data.store=typo"), "typo: .*no such file .*recordings"),
        (("learn", "model=typo", "learn.new=."), "typo: .*no such model"),
        (("predict", "typo", "x.wav"), "typo: .*no such model"),
        (("evaluate", "typo", "store"), "typo: .*no such model"),
        (("build", "source=typo", "out=s"), "typo: no such .*source="),
        (("build", "source=x.wav", "add_to=typo"), "typo: .*no such store"),
        (("predict", "typo", ".", "--policy", "max_fp=0.1"), "policy max_fp=0.1: allowed"),
        (("export", "typo", "--threshold", "2"), "threshold 2: .*0 to 1"),
    ],
)
def test_what_is_refused_imports_no_torch_and_makes_no_folder(
    words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    (tmp_path / "x.wav").touch()
    code = (
        "import sys, runpy\n"
        f"sys.argv = {list(words)}\n"
        f"try: runpy.run_module('leakdet.{words[0]}', run_name='__main__')\n"
        "except SystemExit as stop: print(stop.code, 'torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout == "2 False\n"
    assert re.search(told, run.stderr)
    assert "loading" not in run.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "x.wav"]


def test_an_own_store_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "build.json").touch()
    out = str(tmp_path)
    check_build(BuildConfig(source="demo", out=out, overwrite=True))
    with pytest.raises(InputError, match="holds a store already"):
        check_build(BuildConfig(source="demo", out=out))


PAPER = SignalConfig(
    sample_rate_hz=8192,
    window_samples=2048,
    window_hop_samples=1024,
    segment_samples=512,
    segment_hop_samples=256,
    fmin_hz=0.0,
)


def store_of(folder: Path, signal: SignalConfig) -> str:
    """A store as far as these checks read it, with the highest frequency resolved."""
    content = {
        "settings": {"source": "my sounds", "split": {"group_by": ["site"]}},
        "signal": {**asdict(signal), "fmax_hz": signal.top_hz},
    }
    (folder / "train.h5").touch()
    (folder / "build.json").write_text(json.dumps(content))
    return str(folder)


def asking(store: str, signal: SignalConfig, **more: str) -> TrainConfig:
    return TrainConfig(data=DataConfig(store=store), signal=signal, **more)


@pytest.mark.parametrize(
    ("stored", "asked", "words"),
    [
        (SignalConfig(), PAPER, ["signal=paper"]),
        (SignalConfig(), PAPER, ["experiment=paper"]),
        (SignalConfig(), PAPER, []),
        (PAPER, SignalConfig(), ["signal=field"]),
        (SignalConfig(), SignalConfig(fmax_hz=4000.0), ["signal.fmax_hz=4000"]),
    ],
)
def test_a_store_of_another_signal_than_asked_for_is_refused_with_the_build_command(
    tmp_path: Path, stored: SignalConfig, asked: SignalConfig, words: list[str]
) -> None:
    config = asking(store_of(tmp_path, stored), asked)
    with pytest.raises(InputError) as refused:
        check_inputs(config, ["seed=1", *words])
    text = str(refused.value)
    assert f"leakdet build 'my sounds' {tmp_path}-other signal" in text
    assert "'split.group_by=[site]'" in text
    field = "fmax_hz: 4000.0 / 8000.0" if words == ["signal.fmax_hz=4000"] else "sample_rate_hz: "
    assert field in text
    assert all(f"without {word}" in text for word in words)


def test_a_recipes_signal_is_spelt_out_for_the_build(tmp_path: Path) -> None:
    config = asking(store_of(tmp_path, SignalConfig()), PAPER)
    with pytest.raises(
        InputError, match=r"signal\.sample_rate_hz=8192 signal\.window_samples=2048 "
    ):
        refuse_other_signal(config, ["experiment=paper"])


def test_a_store_of_the_same_or_an_unnamed_signal_is_used(tmp_path: Path) -> None:
    store = store_of(tmp_path, PAPER)
    refuse_other_signal(asking(store, PAPER), ["signal=paper"])
    refuse_other_signal(asking(store, SignalConfig()), ["seed=1"])
    refuse_other_signal(asking(store, SignalConfig(), resume="runs/1"), ["signal=field"])
    (tmp_path / "build.json").unlink()
    refuse_other_signal(asking(store, SignalConfig()), ["signal=field"])
