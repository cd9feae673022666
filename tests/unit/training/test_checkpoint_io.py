"""A checkpoint is whole or it is not there."""

from pathlib import Path

import pytest
import torch

from leakdet.errors import InputError
from leakdet.training.checkpoint_io import AtomicCheckpointIO, read_checkpoint

WHOLE = {"state_dict": {"w": torch.ones(3)}, "loops": {}}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    AtomicCheckpointIO().save_checkpoint(WHOLE, tmp_path / "new" / "a.ckpt")
    found = AtomicCheckpointIO().load_checkpoint(tmp_path / "new" / "a.ckpt")
    assert torch.equal(found["state_dict"]["w"], torch.ones(3))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.ckpt"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    AtomicCheckpointIO().save_checkpoint(WHOLE, path)
    with pytest.raises(Exception, match="pickle"):
        AtomicCheckpointIO().save_checkpoint({"unpicklable": lambda: None}, path)
    assert torch.equal(read_checkpoint(path)["state_dict"]["w"], torch.ones(3))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["missing", "cut", "text", "other"])
def test_what_is_no_checkpoint_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.ckpt"
    if damage == "cut":
        torch.save(WHOLE, path)
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "text":
        path.write_text("no")
    elif damage == "other":
        torch.save({"a": 1}, path)
    with pytest.raises(InputError, match=r"a\.ckpt"):
        read_checkpoint(path)
