"""Files of settings become options of Hydra's group, and run nothing."""

from pathlib import Path

import pytest

from leakdet.cli.composition import as_hydra_reads, compose, composed
from leakdet.cli.recipe_files import with_experiment_file
from leakdet.errors import InputError, LeakdetError, SettingsError


@pytest.mark.parametrize("prefix", ["", "+"])
def test_a_file_anywhere_becomes_an_experiment(tmp_path: Path, prefix: str) -> None:
    file = tmp_path / "field = 2.yaml"
    file.write_text("# @package _global_\nseed: 7\n")
    first, option, searched = with_experiment_file(["seed=1", f"{prefix}experiment={file}"])
    assert (first, option) == ("seed=1", "experiment=file_field___2")
    folder = Path(searched.removeprefix("hydra.searchpath=[file://").removesuffix("]"))
    assert "seed: 7" in (folder / "experiment" / "file_field___2.yaml").read_text()


def test_a_sweep_may_go_over_several_files(tmp_path: Path) -> None:
    for place, seed in (("a", 7), ("b", 8)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "my.yaml").write_text(f"# @package _global_\nseed: {seed}\n")
    words = ["-m", f"experiment={tmp_path}/a/my.yaml,paper,{tmp_path}/b/my.yaml"]
    flag, options, searched = as_hydra_reads("train", words)
    assert (flag, options) == ("-m", "experiment=file_my,paper,file_my_1")
    seeds = [
        composed("train", [f"experiment={name}", searched]).seed
        for name in options.partition("=")[2].split(",")
    ]
    assert seeds == [7, 0, 8]
    with pytest.raises(InputError, match=r"experiment=none\.yaml: there is no such file"):
        as_hydra_reads("train", ["-m", "experiment=none.yaml,paper"])


def test_a_name_stays_a_name_and_a_missing_file_is_told(tmp_path: Path) -> None:
    assert with_experiment_file(["experiment=smoke", "-m"]) == ["experiment=smoke", "-m"]
    with pytest.raises(InputError, match=r"none\.yaml: there is no such file"):
        with_experiment_file([f"experiment={tmp_path / 'none.yaml'}"])


@pytest.mark.parametrize("content", [b"a: [", b"- 1\n", b"\xff\xfe: 1", b"7", b"a: ${"])
def test_a_damaged_file_of_settings_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(LeakdetError, match=r"x\.yaml: not a YAML file of settings \(.+\)"):
        with_experiment_file([f"experiment={tmp_path / 'x.yaml'}"])


def test_a_heading_that_is_cut_off_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("# @pack\nseed: 1\n")
    with pytest.raises(InputError, match=r"x\.yaml: not .*'# @pack' should be # @package _global_"):
        compose("train", [f"experiment={tmp_path / 'x.yaml'}"])


@pytest.mark.parametrize("start", ["", "\ufeff", "# mine\n", "# mine\n# @package _global_\n"])
def test_a_file_needs_no_heading(tmp_path: Path, start: str) -> None:
    (tmp_path / "x.yaml").write_text(f"{start}optimizer: {{lr: 0.002}}\n", encoding="utf-8")
    assert compose("train", [f"experiment={tmp_path / 'x.yaml'}"]).optimizer.lr == 0.002


@pytest.mark.parametrize(
    "content",
    [
        "hydra: {callbacks: {x: {_target_: os.getcwd}}}",
        "hydra: {job_logging: {handlers: {x: {(): os.getcwd}}}}",
        "logger: {csv: [{_target_: os.getcwd}]}",
        "defaults: [override /hydra/launcher: joblib]",
        "defaults: [{/experiment@hydra.callbacks: file_x}]",
        "# @package hydra\ncallbacks: {x: 1}",
        "# mine\u2028# @package hydra.callbacks\nx: 1",
    ],
)
def test_a_file_that_would_run_code_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(LeakdetError, match=r"x\.yaml: .*(run code|should be # @package _global_)"):
        compose("train", [f"experiment={tmp_path / 'x.yaml'}"])


@pytest.mark.parametrize(
    "content",
    [
        "network: {name: 'mine:Net'}",
        "loss: {name: 'mine:Net'}",
        "callbacks: {extra: ['mine:Net']}",
        "init_from: mine\nnetwork: {name: '${init_from}:Net'}",
    ],
)
def test_code_that_a_file_names_is_named_by_the_command_too(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.yaml").write_text(content)
    words = [f"experiment={tmp_path / 'x.yaml'}"]
    with pytest.raises(SettingsError, match=r"mine:Net, which .* add trust_network=\[mine:Net\]"):
        as_hydra_reads("train", words)
    assert as_hydra_reads("train", [*words, "trust_network=[mine:Net]"])
