from pathlib import Path
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch

from leakdet.errors import LeakdetError
from leakdet.training.distributed import lost_peer_explained, sum_over_ranks

GONE = "[../gloo/transport/tcp/pair.cc] Connection closed by peer [127.0.0.1]:1"


def trainer_of(world: int) -> pl.Trainer:
    strategy = Mock(root_device=torch.device("cpu"))
    strategy.reduce = lambda value, reduce_op: value * world
    return Mock(spec=pl.Trainer, world_size=world, global_rank=1, strategy=strategy)


@pytest.mark.parametrize("world", [1, 3])
def test_the_sum_is_over_all_ranks(world: int) -> None:
    value = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert sum_over_ranks(trainer_of(world), value).tolist() == [world, 2 * world]


def test_a_lost_peer_is_explained_with_the_way_to_continue(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run" / "checkpoints" / "last.ckpt"
    with (
        pytest.raises(LeakdetError, match=r"process 1 of 2 lost another one.*stands above\.$"),
        lost_peer_explained(trainer_of(2), checkpoint),
    ):
        raise RuntimeError(GONE)
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    with (
        pytest.raises(LeakdetError, match=rf"resume={tmp_path / 'run'}$"),
        lost_peer_explained(trainer_of(2), checkpoint),
    ):
        raise RuntimeError(GONE)


@pytest.mark.parametrize(("world", "text"), [(1, GONE), (2, "shapes do not match")])
def test_other_errors_pass(world: int, text: str, tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=text.split("]")[0].replace("[", r"\[")),
        lost_peer_explained(trainer_of(world), tmp_path / "last.ckpt"),
    ):
        raise RuntimeError(text)
