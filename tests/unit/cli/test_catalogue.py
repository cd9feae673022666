import subprocess
import sys

import pytest
from hydra.core.config_store import ConfigStore

from leakdet.cli.catalogue import (
    DOORS,
    OPTIONS,
    conf_folder,
    known_settings,
    option_names,
    store_options,
)


def test_an_option_is_a_file_or_stored_and_never_both():
    names = option_names()
    files = [(path.parent.name, path.stem) for path in conf_folder().rglob("*/*.yaml")]
    stored = [(group, option) for group, options in OPTIONS.items() for option in options]
    assert len({*files, *stored}) == len(files) + len(stored)
    assert sorted([*files, *stored]) == sorted((g, o) for g in names for o in names[g])


def test_storing_twice_is_storing_once():
    for _ in range(2):
        store_options()
    for group, options in OPTIONS.items():
        assert set(ConfigStore.instance().list(group)) == {f"{name}.yaml" for name in options}


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
        "import sys; from leakdet.cli.catalogue import known_settings; known_settings('train')\n"
        "print({'hydra', 'torch', 'numpy'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
