from pathlib import Path

import pytest

from leakdet._door import with_experiment_file


@pytest.mark.parametrize("prefix", ["", "+"])
def test_a_file_anywhere_becomes_an_experiment(tmp_path: Path, prefix: str) -> None:
    file = tmp_path / "field = 2.yaml"
    file.write_text("# @package _global_\nseed: 7\n")
    first, option, searched = with_experiment_file(["seed=1", f"{prefix}experiment={file}"])
    assert (first, option) == ("seed=1", "experiment=file_field___2")
    folder = Path(searched.removeprefix("hydra.searchpath=[file://").removesuffix("]"))
    assert (folder / "experiment" / "file_field___2.yaml").read_text() == file.read_text()


def test_a_name_stays_a_name_and_a_missing_file_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert with_experiment_file(["experiment=smoke", "-m"]) == ["experiment=smoke", "-m"]
    with pytest.raises(SystemExit) as stop:
        with_experiment_file([f"experiment={tmp_path / 'none.yaml'}"])
    assert stop.value.code == 2
    assert "no such file" in capsys.readouterr().err
