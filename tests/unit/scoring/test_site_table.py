"""The table of sites: what it tells, and what is wrong with it."""

from pathlib import Path

import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.scoring.site_table import read_site_table


def test_paths_are_found_beside_the_table_or_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "a.wav").touch()
    table = tmp_path / "beside" / "sites.csv"
    table.write_text(
        "path,site,recorded_at\n"
        "a.wav,north,2026-05-17T01:30+02:00\n"
        "b.wav, south ,2026-05-17\n"
        f"{tmp_path}/c.wav,south,\n"
    )
    monkeypatch.chdir(tmp_path)
    places = read_site_table(table)
    assert list(places) == [str(tmp_path / name) for name in ("beside/a.wav", "b.wav", "c.wav")]
    assert [place.site for place in places.values()] == ["north", "south", "south"]
    first, second, third = (place.recorded_at for place in places.values())
    assert first == np.datetime64("2026-05-16T23:30:00")
    assert second == np.datetime64("2026-05-17T00:00:00")
    assert np.isnat(third)


@pytest.mark.parametrize(
    ("encoding", "end"), [("utf-8-sig", "\r\n"), ("cp1252", "\n"), ("utf-16", "\r\n")]
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_of_spreadsheets_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, encoding: str, end: str, delimiter: str
) -> None:
    lines = ["path,site,recorded_at", "s\u00fcd/a.wav,M\u00fchle,2026-05-17T01:30", "b.wav,,", ",,"]
    text = end.join(line.replace(",", delimiter) for line in lines)
    table = tmp_path / "sites.csv"
    table.write_bytes(text.encode(encoding))
    places = read_site_table(table)
    first, second = places.values()
    assert next(iter(places)).endswith("s\u00fcd/a.wav")
    assert (first.site, first.recorded_at) == ("M\u00fchle", np.datetime64("2026-05-17T01:30:00"))
    assert (second.site, np.isnat(second.recorded_at)) == ("", True)
    assert ("was read as Windows-1252" in caplog.text) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,place\na.wav,x\n", "site missing in"),
        ("", r"path and site missing in \[\]"),
        ("path,site\n", "without a row"),
        (
            "path,site,recorded_at\na.wav,x,17.5.2026\n",
            "line 2: recorded_at '17.5.2026' is no time",
        ),
        ("path,site\n\na.wav\n", "line 3: it has 1 fields, not 2; mend that line"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "sites.csv"
    table.write_text(text)
    with pytest.raises(InputError, match=message):
        read_site_table(table)
    with pytest.raises(InputError, match="No such file"):
        read_site_table(tmp_path / "nowhere.csv")
