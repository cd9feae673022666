"""The names that each door's command line may use."""

import subprocess
import sys

import pytest

from leakdet.cli.door_settings import DOORS, known_settings


@pytest.mark.parametrize("door", DOORS)
def test_each_door_knows_only_its_own_groups(door: str) -> None:
    groups = known_settings(door).groups
    assert ("search" in groups) == (door == "tune")
    assert ("network" in groups) == (door != "build")


def test_other_doors_settings_are_known_as_such() -> None:
    known = known_settings("train")
    assert "tune.n_trials" not in known.settings
    assert known.elsewhere["tune.n_trials"] == "tune"
    assert known.settings["data.unit"].choices == ("window", "segment")
    assert known.settings["trainer.max_epochs"].kind is object
    assert "-1 for no limit" in known.settings["trainer.max_epochs"].allowed


def test_names_are_known_without_hydra_and_torch() -> None:
    code = (
        "import sys; from leakdet.cli.door_settings import known_settings; known_settings('train')\n"
        "print({'hydra', 'torch', 'numpy'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
