import sys
from pathlib import Path

import pytest

from leakdet.core.errors import SettingsError
from leakdet.core.plugins import import_named, own_code


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that lies in the current folder."""
    name = "own_module_of_this_test"
    (tmp_path / f"{name}.py").write_text("class Network: ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_a_module_of_the_current_folder_is_found_after_installed_ones(own_module: str) -> None:
    assert import_named("network.name", f"{own_module}:Network").__name__ == "Network"
    assert sys.path[-1] == str(Path.cwd())
    Path("json.py").write_text("dumps = None\n")
    assert import_named("network.name", "json:dumps") is not None


def test_what_cannot_be_imported_is_one_sentence_with_the_setting(own_module: str) -> None:
    with pytest.raises(SettingsError, match=r"network\.name: nowhere:Net cannot be imported.*No"):
        import_named("network.name", "nowhere:Net")
    with pytest.raises(SettingsError, match=rf"{own_module} has no Netwrk; did you mean .*:Networ"):
        import_named("network.name", f"{own_module}:Netwrk")
    Path("broken_module_of_this_test.py").write_text("def (:\n")
    with pytest.raises(SettingsError, match=r"broken.*invalid syntax"):
        import_named("network.name", "broken_module_of_this_test:Net")


def test_a_module_that_fails_is_one_sentence(own_module: str) -> None:
    Path(f"{own_module}.py").write_text("width = undefined\n")
    with pytest.raises(SettingsError, match=r"network\.name: .* NameError: name 'undefined'"):
        import_named("network.name", f"{own_module}:Network")


def test_the_place_in_code_of_ones_own_is_named(own_module: str) -> None:
    Path(f"{own_module}.py").write_text("import json\ndef Network(): json.loads('{')\n")
    made = import_named("network.name", f"{own_module}:Network")
    said = (
        rf"network\.name={own_module}:Network: .* JSONDecodeError: .*{own_module}\.py, line 2: def"
    )
    with (
        pytest.raises(SettingsError, match=said),
        own_code("network.name", f"{own_module}:Network"),
    ):
        made()
    with pytest.raises(SettingsError, match=r"^as it is$"), own_code("network.name", "x:y"):
        raise SettingsError("as it is")
