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


def test_a_changed_byte_of_a_tensor_is_noticed(tmp_path: Path):
    """torch loads it without a word."""
    path = tmp_path / "x.ckpt"
    write_torch({"weight": torch.full((1000,), 7.0)}, path)
    whole = bytearray(path.read_bytes())
    whole[whole.index(torch.full((1,), 7.0).numpy().tobytes() * 9) + 2] ^= 1
    path.write_bytes(whole)
    assert not torch.equal(torch.load(path)["weight"], torch.full((1000,), 7.0))
    with pytest.raises(InputError, match=r"x\.ckpt: .*data/0 is not what was written.*Copy it"):
        read_torch(path, "training checkpoint")


def test_files_of_the_first_format_of_torch_have_no_checksums_and_load(tmp_path: Path):
    content, path = {"weight": torch.arange(4)}, tmp_path / "x.pth"
    torch.save(content, path, _use_new_zipfile_serialization=False)
    assert torch.equal(read_torch(path, "file of weights")["weight"], content["weight"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named():
    with pytest.raises(OSError, match="No space left"):
        write_torch({"weight": torch.zeros(1000)}, Path("/dev/full"))
