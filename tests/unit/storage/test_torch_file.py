from pathlib import Path

import pytest
import torch

from leakdet.errors import InputError
from leakdet.storage.torch_file import read_torch, write_torch


class ExecutedError(Exception):
    pass


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return ExecutedError, ("code in the file was executed",)


def test_plain_containers_and_tensors_come_back(tmp_path: Path):
    path = tmp_path / "plain.ckpt"
    write_torch({"epoch": 3, "state_dict": {"weight": torch.arange(4)}}, path)
    content = read_torch(path, "training checkpoint")
    assert content["epoch"] == 3
    assert torch.equal(content["state_dict"]["weight"], torch.arange(4))


def test_what_is_cut_off_or_executable_is_refused_with_its_kind(tmp_path: Path):
    path = tmp_path / "x.ckpt"
    torch.save({"bomb": Bomb()}, path)
    whole = path.read_bytes()
    for content in (whole, whole[: len(whole) // 2], b"", b"hello"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"x\.ckpt: not a whole training checkpoint \(.+\)"):
            read_torch(path, "training checkpoint")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named():
    with pytest.raises(OSError, match="No space left"):
        write_torch({"weight": torch.zeros(1000)}, Path("/dev/full"))
