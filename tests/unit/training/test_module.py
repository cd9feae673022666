import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score
from torch.nn.functional import cross_entropy

from leakdet.config import TrainConfig
from leakdet.core.errors import InputError, LeakdetError
from leakdet.evaluation.split_scores import score_split
from leakdet.loading.samples import Batch
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_split
from leakdet.training import log_names
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import make_module, result_checkpoint
from leakdet.training.module import LeakModule, mixup, seed_batch

CPU = torch.device("cpu")


def drawn(*place: int) -> float:
    seed_batch(place, CPU)
    return float(torch.rand(()))


def test_equal_places_draw_the_same_and_others_do_not() -> None:
    places = list(itertools.product(range(3), repeat=4))
    numbers = [drawn(*place) for place in places]
    assert numbers == [drawn(*place) for place in places]
    assert len(set(numbers)) > len(places) - 3  # float32 may meet by chance


def test_the_two_targets_make_the_loss_of_the_mixed_label() -> None:
    """The sum of the two weighted losses is the cross-entropy with the blended one-hot target."""
    count, classes = 16, 3
    class_id = torch.randint(classes, (count,))
    mel = class_id.float()[:, None, None, None].expand(-1, 2, 4, 1)
    batch = Batch(mel.half(), class_id, torch.ones(count), torch.arange(count))
    blended, (first, second) = mixup(mel, batch, 0.4)
    torch.testing.assert_close(first.weight + second.weight, torch.ones(count))
    labels = first.weight * first.class_id + second.weight * second.class_id
    torch.testing.assert_close(blended[:, 0, 0, 0], labels)
    logits = torch.randn(count, classes)
    parts = [cross_entropy(logits, each.class_id, reduction="none") * each.weight
             for each in (first, second)]  # fmt: skip
    targets = sum(
        each.weight[:, None] * torch.nn.functional.one_hot(each.class_id, classes)
        for each in (first, second)
    )
    torch.testing.assert_close(sum(parts).mean(), cross_entropy(logits, targets))


def test_the_weights_of_the_samples_stay() -> None:
    weight = torch.tensor([0.5, 2.0])
    batch = Batch(torch.zeros(2, 1, 1, 1).half(), torch.tensor([0, 1]), weight, torch.arange(2))
    for _ in range(5):
        _, (first, second) = mixup(torch.zeros(2, 1, 1, 1), batch, 1.0)
        own = first.weight / weight
        assert ((own >= 0) & (own <= 1)).all()
        partner = second.weight / (1 - own)
        assert all(min(abs(value - 0.5), abs(value - 2.0)) < 1e-5 for value in partner.tolist())


Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]
Fitted = Callable[..., pl.Trainer]


def test_what_the_constructor_returns_scores_and_describes_itself(
    configured: Configured, opened: Opened
) -> None:
    config = configured()
    data = opened(config)
    module = make_module(data)
    mel = torch.cat(list(data.standardisation_batches()))[:3]
    assert module.network.eval().infer(mel).class_logits.shape == (3, 2)
    card = module.card()
    assert card["training"]["settings"]["seed"] == config.seed
    assert card["decision_rule"]["fitted_on"] is None
    assert module.latest is None


def test_loading_from_a_checkpoint_names_what_to_call_instead(
    fitted: Fitted, tmp_path: Path
) -> None:
    fitted(tmp_path, "trainer.max_epochs=1")
    with pytest.raises(LeakdetError, match=r"load_detector\(CHECKPOINT\).*resume=CHECKPOINT"):
        LeakModule.load_from_checkpoint(tmp_path / "checkpoints" / "last.ckpt")


def test_the_history_has_a_row_per_check_with_the_numbers_noted_for_it(
    fitted: Fitted, tmp_path: Path
) -> None:
    module = fitted(tmp_path, "trainer.max_epochs=3").lightning_module
    assert isinstance(module, LeakModule)
    assert [row["epoch"] for row in module.history] == [0, 1, 2]
    for row in module.history:
        mean = row[log_names.GRADIENT_MEAN]
        assert row[log_names.GRADIENT_MAX] >= mean >= row[log_names.GRADIENT_MIN] > 0
        assert 0 <= row[log_names.TRAIN_ACCURACY] <= 1
    assert module.latest is not None
    assert module.history[-1] == module.latest.row() | {
        name: module.history[-1][name]
        for name in (log_names.GRADIENT_MEAN, log_names.GRADIENT_MIN, log_names.GRADIENT_MAX)
    }


def test_lightnings_test_gives_what_the_checkpoint_is_worth_as_a_detector(
    fitted: Fitted, demo_store: Path, tmp_path: Path
) -> None:
    trainer = fitted(tmp_path, "trainer.max_epochs=2", "stop.name=val")
    best = result_checkpoint(trainer)
    module: Any = trainer.lightning_module
    tested = partial(trainer.test, module, ckpt_path=best, weights_only=True, verbose=False)
    (numbers,) = tested(datamodule=module.data)
    detector = load_mel_detector(best)
    scored = score_split(detector, open_split(demo_store, "test"))
    score = detector.rule.score(scored.window_prob, scored.split.recording_offsets)
    decided = detector.rule.decide(score)
    assert numbers[log_names.TEST_F1] == pytest.approx(f1_score(scored.is_leak, decided))
    assert numbers[log_names.TEST_AUROC] == pytest.approx(roc_auc_score(scored.is_leak, score))
    counts = confusion_matrix(scored.is_leak, decided).flatten()
    assert [numbers[name] for name in log_names.TEST_CONFUSION] == counts.tolist()
    assert numbers[log_names.TEST_LOSS] > 0
    module.data.splits = replace(module.data.splits, test=None)
    del module.data.test_samples
    with pytest.raises(InputError, match="no test split"):
        tested(datamodule=module.data)


def test_class_weights_follow_the_mix_of_a_curriculum(
    configured: Configured, opened: Opened
) -> None:
    """Balanced at first, so that both weigh 1; later as the natural mix asks."""
    config = configured(
        "data.sampling=curriculum",
        "data.curriculum_epochs=2",
        "loss=weighted_ce",
        "loss.allow_several_balances=true",
        "demo.leak_fraction=0.3",
    )
    data = opened(config)
    module = make_module(data)
    module.trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    module.trainer.fit_loop.epoch_progress.current.processed = 0
    torch.testing.assert_close(module._current_weights(), torch.ones(2))
    module.trainer.fit_loop.epoch_progress.current.processed = 2
    torch.testing.assert_close(module._current_weights(), module.weights)
    share = torch.from_numpy(data.train_mix).float()
    torch.testing.assert_close(module.weights, (1 / share) / (1 / share).mean())


def test_the_loss_of_training_weighs_samples_and_that_of_validation_does_not(
    configured: Configured, opened: Opened
) -> None:
    config = configured("network.dropout=0")
    module = make_module(opened(config))
    mel = torch.randn(4, *module.data.sample_shape)
    batch = Batch(
        mel.half(), torch.tensor([0, 1, 0, 1]), torch.tensor([0.0, 0, 0, 4]), torch.arange(4)
    )
    output = module.network.eval()(batch.mel.float())
    weighted = module.loss(output, batch, module.weights)
    last = Batch(*(part[3:] for part in batch))._replace(weight=torch.ones(1))
    only = module.loss(type(output)(*(part[3:] for part in output)), last, module.weights)
    torch.testing.assert_close(weighted.total, only.total)
    module.on_validation_epoch_start()
    module.validation_step(batch._replace(recording=torch.zeros(4, dtype=torch.int64)), 0)
    unweighted = module.loss(output, batch._replace(weight=torch.ones(4)), module.weights)
    mean = module.validation.losses.compute()[0] / 4
    torch.testing.assert_close(mean, unweighted.total.double(), rtol=1e-6, atol=0)
