from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from leakdet.core import errors
from leakdet.core.errors import InputError, LeakdetError, SettingsError, first_few, memory_sentence


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (1, "a"), (3, "a, b, c"), (4, "a, b, c and 1 more")]
)
def test_long_lists_are_cut_with_their_length(count: int, text: str):
    assert first_few(["a", "b", "c", "d"][:count], most=3) == text


def test_both_kinds_are_caught_as_one():
    assert issubclass(SettingsError, LeakdetError)
    assert issubclass(InputError, LeakdetError)
    assert not issubclass(InputError, SettingsError)


OF_CUDA = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.15 GiB of "
    "which 12.19 GiB is free. Process 7 has 66.96 GiB memory in use. Of the allocated memory …"
)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            torch.OutOfMemoryError(OF_CUDA),
            "out of memory on GPU 1, which has 79.15 GiB, 12.19 GiB of them free: 20.00 GiB more "
            "were wanted",
        ),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling …"), "out of memory on the GPU"),
        (RuntimeError("CUDA error: out of memory"), "out of memory on the GPU"),
        (MemoryError(), "out of memory"),
        (RuntimeError("expected a tensor"), None),
        (ValueError("out of memory"), None),
    ],
)
def test_sentences(error: BaseException, sentence: str | None) -> None:
    assert memory_sentence(error) == sentence


def test_those_that_torch_and_numpy_really_raise() -> None:
    with pytest.raises(RuntimeError) as of_torch:
        torch.empty(2**60, dtype=torch.uint8)
    assert memory_sentence(of_torch.value) == "out of memory: 1152921504.61 GB more were wanted"
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(2**60, np.uint8)
    assert memory_sentence(of_numpy.value) == "out of memory: 1.00 EiB more were wanted"


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ('{"url": "file://FOLDER/my%20leakdet", "dir_info": {}}', "FOLDER/my leakdet"),
        ('{"url": "file://FOLDER/gone.whl"}', "leakdet"),
        ('{"url": "https://example.com/x.whl"}', "leakdet"),
        (None, "leakdet"),
    ],
)
def test_an_extra_is_installed_from_where_leakdet_came(
    told: str | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my leakdet").mkdir()
    text = told and told.replace("FOLDER", str(tmp_path))
    monkeypatch.setattr(errors, "distribution", lambda _: Mock(read_text=lambda _: text))
    expected = f"pip install '{name.replace('FOLDER', str(tmp_path))}[export]'"
    assert errors.install_command("export") == expected
