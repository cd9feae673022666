from pathlib import Path

import pytest
from tests.conftest import Planted

from leakdet.cli.words import built, recordings_apart, with_names
from leakdet.core.errors import SettingsError


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("store", "a, b", "a=b", "models"):
        Path(name).mkdir()


@pytest.mark.parametrize(
    ("door", "typed", "named"),
    [
        ("build", ["store", "new"], ["source='store'", "out='new'"]),
        ("build", ["workers=2", "store", "workers"], ["workers=2", "source='store'", "out='workers'"]),
        ("train", ["store"], ["data.store='store'"]),
        ("train", ["-m", "a, b", "seed=1,2"], ["-m", "data.store='a, b'", "seed=1,2"]),
        ("train", ["./a=b"], ["data.store='./a=b'"]),
        ("train", ["-cd", "store", "--cfg", "job"], ["-cd", "store", "--cfg", "job"]),
        ("train", ["~callbacks", "+trainer.max_time=1", "a@b=c"], ["~callbacks", "+trainer.max_time=1", "a@b=c"]),
        ("train", ["store", "--doubt", "0.1"], ["data.store='store'", "--doubt", "0.1"]),
        ("tune", ["s3://bucket/store"], ["data.store='s3://bucket/store'"]),
        ("learn", ["models", "store"], ["model='models'", "learn.new='store'"]),
    ],
)  # fmt: skip
def test_words_stand_for_settings_in_their_order(
    door: str, typed: list[str], named: list[str]
) -> None:
    assert with_names(door, typed) == named


@pytest.mark.parametrize(
    ("door", "typed", "facts"),
    [
        ("train", ["sead"], r"^sead: .*seed=.*leakdet train STORE"),
        ("train", ["store", "models"], r"^models: .*one path.*leakdet train STORE"),
        ("build", ["store", "a", "b"], r"^b: .*two paths.*leakdet build RECORDINGS STORE"),
        ("crossval", ["data.store=x", "store"], r"^store: data\.store=.*leakdet crossval STORE"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_line(
    door: str, typed: list[str], facts: str
) -> None:
    with pytest.raises(SettingsError, match=facts):
        with_names(door, typed)


def apart(*typed: str) -> tuple[Path | None, list[str], list[str]]:
    return recordings_apart(typed, with_names("train", typed))


def test_recordings_are_told_from_stores_and_settings_go_where_they_belong(write_store) -> None:
    store = write_store(train=[Planted("leak", 0)])
    assert apart(str(store), "seed=1") == (None, [f"data.store='{store}'", "seed=1"], [])
    assert apart(str(store.parent))[0] is None  # a folder of stores, of which the user is told
    typed = ("store", "split.ratios=[1,1,1]", "labels.leak=x", "seed=1", "-m")
    assert apart(*typed) == (
        Path("store"),
        ["labels.leak=x", "seed=1", "-m"],
        ["split.ratios=[1,1,1]", "labels.leak=x"],
    )
    of_build = ["labels.ignore=[x]", "labels.rename={a: b}"]  # unknown labels in the made store
    assert apart("store", *of_build) == (Path("store"), [], of_build)
    with pytest.raises(SettingsError, match=r"out=x: .*leakdet build RECORDINGS STORE out=x"):
        apart("store", "out=x")


def test_a_store_of_recordings_is_kept_until_one_of_them_changes(thirty_recordings: Path) -> None:
    settings = ["signal.window_samples=8000", "labels.leak=LEAK", "verify=off"]
    first = built(thirty_recordings, settings)
    written = (first / "build.json").stat().st_mtime_ns
    assert built(thirty_recordings, [*settings, "workers=1"]) == first
    assert (first / "build.json").stat().st_mtime_ns == written
    assert built(thirty_recordings, [*settings, "split.seed=1"]) != first
    sound = next(thirty_recordings.glob("LEAK/*.wav"))
    sound.touch()
    assert built(thirty_recordings, settings) != first
