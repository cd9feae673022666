"""The latest run is linked, and a run is continued by its folder alone."""

import shutil
from pathlib import Path

import pytest

from leakdet.cli.past_runs import NOTED, command_to_continue, keep_note, point_latest, resumed
from leakdet.core.errors import InputError, SettingsError


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "train" / "1"
    (folder / ".hydra").mkdir(parents=True)
    notes = "- network=linear\n- data.store='a b'\n- hydra.run.dir=x\n- seed=3\n"
    (folder / ".hydra" / "overrides.yaml").write_text(notes)
    return folder


def test_latest_is_the_newest_run(run_folder: Path) -> None:
    point_latest(run_folder)
    other = run_folder.parent / "2"
    other.mkdir()
    point_latest(other)
    assert (run_folder.parent / "latest").resolve() == other
    assert sorted(path.name for path in run_folder.parent.iterdir()) == ["1", "2", "latest"]


def test_a_folder_of_ones_own_choice_gets_no_neighbour(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    point_latest(tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_real_folder_called_latest_stays(run_folder: Path) -> None:
    (run_folder.parent / "latest").mkdir()
    point_latest(run_folder)
    assert not (run_folder.parent / "latest").is_symlink()


def test_the_folder_is_enough(run_folder: Path) -> None:
    kept = ["network=linear", "data.store='a b'", "seed=3"]
    assert resumed(["resume=runs/train/1"]) == [*kept, "resume=runs/train/1"]
    point_latest(run_folder)
    assert resumed(["resume=latest"]) == [*kept, "resume=runs/train/1"]
    checkpoint = "resume=runs/train/1/checkpoints/last.ckpt"
    assert resumed([checkpoint]) == [*kept, checkpoint]


def test_the_command_that_goes_on_names_code_of_its_own(run_folder: Path) -> None:
    given = ["network.name=my.nets:Net", "callbacks.extra=[my.calls:Call]", "seed=1"]
    assert command_to_continue(run_folder, given[2:]) == "leakdet train resume=runs/train/1"
    trusted = "trust_network=[my.calls:Call,my.nets:Net]"
    assert command_to_continue(run_folder, given) == (
        f"leakdet train resume=runs/train/1 '{trusted}'"
    )
    (run_folder / NOTED).write_text("".join(f"- {word}\n" for word in given))
    assert resumed(["resume=runs/train/1", trusted])[:3] == given


def test_the_settings_of_a_run_are_noted_again_where_they_were_lost(run_folder: Path) -> None:
    noted = (run_folder / NOTED).read_bytes()
    before = resumed(["resume=runs/train/1"])
    shutil.rmtree(run_folder)
    keep_note(run_folder, noted)
    assert resumed(["resume=runs/train/1"]) == before
    keep_note(run_folder, b"others")
    assert (run_folder / NOTED).read_bytes() == noted


def test_where_the_run_began_is_past(run_folder: Path) -> None:
    """resume continues a run, init_from begins one: together they are refused."""
    notes = run_folder / ".hydra" / "overrides.yaml"
    notes.write_text("- network=linear\n- init_from=old.ckpt\n- init_reset=[]\n")
    assert resumed(["resume=runs/train/1"]) == ["network=linear", "resume=runs/train/1"]


def test_what_is_given_anew_counts(run_folder: Path) -> None:
    arguments = ["seed=4", "resume=runs/train/1", "+trainer.max_time=1"]
    assert resumed(arguments) == [
        "network=linear",
        "data.store='a b'",
        "seed=4",
        "+trainer.max_time=1",
        "resume=runs/train/1",
    ]


@pytest.mark.parametrize("arguments", [["seed=1"], ["resume=auto", "seed=1"], ["resume=null"]])
def test_other_commands_stay_as_they_are(run_folder: Path, arguments: list[str]) -> None:
    assert resumed(arguments) == arguments


def test_what_cannot_be_continued_is_told(run_folder: Path) -> None:
    with pytest.raises(InputError, match="has no latest run"):
        resumed(["resume=latest"])
    with (run_folder / ".hydra" / "overrides.yaml").open("a") as notes:
        notes.write("- experiment=file_mine\n- hydra.searchpath=[file:///gone]\n")
    with pytest.raises(SettingsError, match="command with resume=runs/train/1"):
        resumed(["resume=runs/train/1"])
    assert resumed(["resume=elsewhere"]) == ["resume=elsewhere"]


@pytest.mark.parametrize("content", [b"- [", b"seed: 3\n", b"\xff", b"- seed=3\n\x00"])
def test_damaged_notes_of_hydra_are_named(run_folder: Path, content: bytes) -> None:
    (run_folder / ".hydra" / "overrides.yaml").write_bytes(content)
    with pytest.raises(InputError, match=r"overrides\.yaml: not what Hydra noted .*settings anew"):
        resumed([f"resume={run_folder}"])


@pytest.mark.parametrize(
    "setting",
    [
        "network.name=nets:Mine",
        "loss.name='nets:Mine'",
        "callbacks.extra=[nets:Mine]",
        "network={name: nets:Mine}",
    ],
)
def test_code_that_a_run_names_is_imported_only_where_the_command_names_it(
    setting: str, run_folder: Path
) -> None:
    (run_folder / ".hydra" / "overrides.yaml").write_text(f'- seed=3\n- "{setting}"\n')
    resume = f"resume={run_folder}"
    with pytest.raises(SettingsError, match=r"nets:Mine.* add trust_network=nets:Mine$"):
        resumed([resume, "trust_network=nets:Other"])
    trusted = resumed([resume, "trust_network=[nets:Mine]"])
    assert setting in trusted
    again = f"{setting.partition('=')[0]}=nets:Mine"
    assert again in resumed([resume, again])  # the command names it itself


def test_what_a_run_noted_names_no_folder_of_settings_and_hides_no_code(run_folder: Path) -> None:
    noted = run_folder / ".hydra" / "overrides.yaml"
    noted.write_text("- --config-dir=elsewhere\n- +hydra.callbacks.x=1\n- seed=3\n")
    assert resumed([f"resume={run_folder}"]) == ["seed=3", f"resume={run_folder}"]
    noted.write_text("- network.name=\\${data.cache}:Mine\n- data.cache=nets\n")
    with pytest.raises(SettingsError, match=r"code .* \$\{data\.cache\}:Mine"):
        resumed([f"resume={run_folder}"])


def test_a_name_of_code_may_have_any_letters(run_folder: Path) -> None:
    (run_folder / ".hydra" / "overrides.yaml").write_text("- network.name=сети:Моя\n", "utf-8")
    with pytest.raises(SettingsError, match=r"сети:Моя"):
        resumed([f"resume={run_folder}"])
