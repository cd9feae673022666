import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.errors import InputError
from leakdet.storage.json_file import read_json, write_json


def test_an_object_comes_back(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"f1": 0.5}')
    assert read_json(tmp_path / "a.json", "a result") == {"f1": 0.5}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_what_is_damaged_is_named(tmp_path: Path, content: bytes):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: not a result.* Remove it\.$"):
        read_json(tmp_path / "a.json", "a result", "Remove it.")
    with pytest.raises(InputError, match=r"none\.json: not a result \(No such file"):
        read_json(tmp_path / "none.json", "a result")


@given(content=st.binary(max_size=60))
def test_any_bytes_are_an_object_or_refused(tmp_path_factory, content: bytes):
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert isinstance(read_json(path, "a result"), dict)


def test_undefined_values_are_null_and_never_nan(tmp_path: Path):
    path = tmp_path / "a.json"
    write_json(path, {"f1": None})
    assert read_json(path, "a result") == {"f1": None}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"f1": float("nan")})
    assert read_json(path, "a result") == {"f1": None}


def test_a_sealed_object_comes_back_and_a_changed_digit_is_noticed(tmp_path: Path):
    path = tmp_path / "a.json"
    write_json(path, {"f1": 0.25}, seal=True)
    assert read_json(path, "a result") == {"f1": 0.25}
    path.write_text(path.read_text().replace("0.25", "0.75"))
    with pytest.raises(InputError, match=r"a\.json: damaged: its bytes are not .*Remove it\."):
        read_json(path, "a result", "Remove it.")
