"""Every option has a file or is stored, and all of them are found."""

from hydra.core.config_store import ConfigStore

from leakdet.cli.config_groups import OPTIONS, conf_folder, option_names, store_options


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
