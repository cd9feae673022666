"""A run stops for want of a better F1, or for a rising loss beside it."""

from leakdet.config import TrainerFlags
from leakdet.training.callbacks.early_stopping import LossStop, SelectionStop
from leakdet.training.validation import Selection

F1 = Selection("f1")


def test_the_loss_stop_waits_while_f1_rises_or_the_loss_stands() -> None:
    stop = LossStop(2, TrainerFlags(), F1)
    assert [stop.update(loss, 0.5) for loss in (1.0, 1.005, 1.2, 1.3)] == [
        False,
        False,
        False,
        True,
    ]
    stop = LossStop(2, TrainerFlags(), F1)
    assert [
        stop.update(*pair) for pair in ((1.0, 0.5), (1.2, 0.5), (1.3, 0.6), (1.4, 0.6), (0.9, 0.6))
    ] == [False] * 5
    resumed = LossStop(2, TrainerFlags(), F1)
    resumed.load_state_dict({"waited": 1, "lowest": 1.0, "best_f1": 0.5})
    assert resumed.update(1.5, 0.5)


def test_stops_watch_what_select_names() -> None:
    loss, rate = Selection("loss"), Selection("tpr_at_fpr", 0.01)
    assert SelectionStop(2, TrainerFlags(), F1).monitor == "val/rank"
    assert SelectionStop(2, TrainerFlags(), rate).monitor == "val/selection"
    assert LossStop(2, TrainerFlags(), F1).monitor == "val/recording_f1"
    assert LossStop(2, TrainerFlags(), loss).monitor == "val/selection"


def test_the_state_is_found_under_the_name_that_older_checkpoints_have() -> None:
    key = SelectionStop(2, TrainerFlags(), F1).state_key
    assert key == "F1Stop{'monitor': 'val/rank', 'mode': 'max'}"
