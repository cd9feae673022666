from pathlib import Path
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest

from leakdet.training.callbacks.history import History
from leakdet.training.module import LeakModule


@pytest.mark.parametrize(("first_process", "written"), [(True, ["history.csv"]), (False, [])])
def test_the_first_process_writes_a_row_for_each_check(
    tmp_path: Path, first_process: bool, written: list[str]
) -> None:
    module = Mock(spec=LeakModule, history=[{"epoch": 0.0, "a": 1.5}, {"epoch": 1.0, "b": 2.0}])
    trainer = Mock(spec=pl.Trainer, is_global_zero=first_process)
    History(tmp_path).on_validation_end(trainer, module)
    assert [path.name for path in tmp_path.iterdir()] == written
    if written:
        lines = (tmp_path / "history.csv").read_text().splitlines()
        assert lines == ["epoch,a,b", "0.0,1.5,", "1.0,,2.0"]


def test_a_sanity_check_before_training_writes_nothing(tmp_path: Path) -> None:
    trainer = Mock(spec=pl.Trainer, is_global_zero=True)
    History(tmp_path).on_validation_end(trainer, Mock(spec=LeakModule, history=[]))
    assert list(tmp_path.iterdir()) == []
