from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.core.errors import SettingsError
from leakdet.scoring.listing import NamePattern, Tally, list_files


def test_a_tally_of_any_length_names_the_first_few() -> None:
    tally = Tally()
    for number in range(1_000):
        tally.add(f"{number // 2}")
    assert (tally.count, tally.first) == (1_000, ["0", "1", "2", "3", "4"])
    assert str(tally) == "0, 1, 2, 3, 4 …"


TIMED = "{site}_{recorded_at:%Y%m%d_%H%M}"


@pytest.mark.parametrize(
    ("pattern", "name", "told"),
    [
        (TIMED, "in/mill_7_20261120_0230.wav", "mill_7 2026-11-20T02:30:00"),
        ("{site}_{recorded_at:%d.%m.%y}", "mill_20.11.26.flac", "mill 2026-11-20"),
        ("{recorded_at}_{site}", "2026-11-20T02:30_mill.wav", "2026-11-20T02:30:00 mill"),
        ("{recorded_at}_{site}", "night1_mill.wav", "night1 mill"),
        ("{site}/{recorded_at:%Y%m%d}/{}", "in/mill/20261120/x.wav", "2026-11-20 mill"),
        ("{site}~{}~{recorded_at:%Y%m%dT%H%M%S%z}", "m~g~20261120T023000Z.wav", None),
        ("{{{site}}}", "{mill}.wav", "mill"),
        (TIMED, "mill_20260231_0230.wav", None),
        (TIMED, "mill_20261120_0230_b.wav", None),
        (TIMED, "_20261120_0230.wav", None),
        ("{site}/{logger}", "x.wav", None),
    ],
)
def test_a_name_tells_what_its_pattern_says(pattern: str, name: str, told: str | None) -> None:
    found = NamePattern(pattern).read(Path(name))
    if "%z" in pattern:
        assert found == {"site": "m", "recorded_at": "2026-11-20T02:30:00+00:00"}
    elif told is None:
        assert found is None
    else:
        assert found is not None
        assert set(found.values()) == set(told.split())
        assert tuple(found) == NamePattern(pattern).columns


@given(
    site=st.from_regex(r"[^/\0]+", fullmatch=True).filter(lambda text: not text.startswith(".")),
    time=st.datetimes(),
)
def test_what_is_written_by_a_pattern_is_read_by_it(site: str, time: datetime) -> None:
    found = NamePattern(TIMED).read(Path(f"night/{site}_{time.year:04}{time:%m%d_%H%M}.wav"))
    minute = time.replace(second=0, microsecond=0)
    assert found == {"site": site, "recorded_at": minute.isoformat()}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "it has no field"),
        ("mill", "it has no field"),
        ("{}_{}", "it has no field"),
        ("{site", "expected '}'"),
        ("{site}_{site}", "site occurs twice"),
        ("{label}", "column label itself"),
        ("{my site}", "'my site' is no name"),
        ("{site!r}", "'site' is no name"),
        ("{recorded_at:%Q}", "%Q is none of %Y"),
        ("{recorded_at:8}", "'8' is no format"),
        ("{:%Y}", "'a field' is no name"),
        ("{recorded_at:%Y%m%Y}", "%Y occurs twice in '%Y%m%Y'"),
        ("{a}{b}{c}{d}", "two fields of text touch"),
        ("{a}_{}{b}", "two fields of text touch"),
    ],
)
def test_a_wrong_pattern_is_refused_with_what_is_allowed(pattern: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as refused:
        NamePattern(pattern)
    assert "{recorded_at:%Y%m%d_%H%M}" in str(refused.value)


def test_a_file_under_two_spellings_is_scored_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.wav").touch()
    listed = list_files(["in", str(tmp_path / "in"), "./in/../in/a.wav"])
    assert listed.files == [Path("in/a.wav")]
    assert listed.listing.repeated.first == ["in/../in/a.wav"]  # walks say what they met again
