"""Training and validating a network, with recording-level metrics at each validation check."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from typing import Any, NoReturn

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from leakdet.acoustics.augment import augmented, draw_mixup
from leakdet.core.errors import LeakdetError
from leakdet.detection.decision import DecisionRule, rule_for_scores
from leakdet.detection.losses import LossParts, class_weights, loss_parts
from leakdet.detection.networks import Network, Output
from leakdet.evaluation.metrics import auroc
from leakdet.loading.samples import Batch
from leakdet.storage.model_card import CARD_KEY
from leakdet.storage.model_file import make_card
from leakdet.storage.store import StoreSplit
from leakdet.training import log_names
from leakdet.training.checkpoints import inherit_optimizer, inherit_schedule
from leakdet.training.compilation import compiled_for
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.optimizer import make_optimizer, step_divisor, steps_of, warmup_cosine
from leakdet.training.resume import RESUME_KEY, store_fingerprint
from leakdet.training.sounds import divided, negatives_loss, with_negatives
from leakdet.training.validation import (
    CheckMetrics,
    LossSums,
    SampleSummary,
    Selection,
    ValidationAccumulator,
    ValidationResult,
    class_numbers,
    require_finite,
    right_samples,
    sum_over_ranks,
)


def seed_batch(place: Sequence[int], device: torch.device) -> None:
    """Seed torch on the CPU and on `device` for the batch at `place`: seed, epoch, batch, rank."""
    seed = int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1)
    # not torch.manual_seed, which seeds every kind of accelerator: 2 ms a step
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def mixup(mel: Tensor, batch: Batch, alpha: float) -> tuple[Tensor, list[Batch]]:
    """Blend each sample of `mel` [B, U, M, T] with another one by a share from Beta(alpha, alpha).

    Returns the blended samples and two batches of targets, whose losses add up: weighted by the
    share and by the rest of it.
    """
    partner, share = draw_mixup(len(mel), alpha, mel.device)
    blend = share[:, None, None, None]
    first = batch._replace(weight=batch.weight * share)
    second = batch._replace(
        class_id=batch.class_id[partner], weight=batch.weight[partner] * (1 - share)
    )
    return blend * mel + (1 - blend) * mel[partner], [first, second]


class LeakModule(pl.LightningModule):
    """A network under training. `rule` is the decision rule of the latest validation check.

    At every check the rule is fitted on the validation recordings by the configured policy, and F1
    and the confusion matrix are those of its decisions: the printed number is the one that the
    stored model gives again.
    """

    weights: Tensor

    def __init__(
        self,
        data: LeakDataModule,
        network: Network,
        interference: Tensor | None = None,
        inherited: dict[str, Any] | None = None,
    ) -> None:
        """`data` is set up, and its settings are the module's.

        `interference` [K, U, M, T] is mixed into training samples. `inherited` holds the state of
        the optimiser and schedule that `init_from` keeps.
        """
        super().__init__()
        config = data.config
        self.save_hyperparameters(asdict(config))
        self.config, self.data, self.network = config, data, network
        self.run_network = network.__call__  # of training steps; may become a compiled one
        self.interference, self.inherited = interference, inherited or {}
        self.negatives = data.negatives.mel if data.negatives else None
        # computed now: the store's files may be gone when a checkpoint is written
        self.fingerprint = store_fingerprint(data)
        self.leaks = data.labels.leaks
        self.blend = 0.5 if config.loss.aux_weight > 0 else 1.0
        self.rule = DecisionRule(
            pooling=config.decision.pooling, vote_fraction=config.decision.vote_fraction
        )
        self.latest: ValidationResult | None = None
        self.history: list[dict[str, float]] = []  # a row per validation check
        self._noted: dict[str, float] = {}
        self.configure_losses()
        self.configure_metrics()

    @classmethod
    def load_from_checkpoint(cls, *_: Any, **__: Any) -> NoReturn:
        """Raise `LeakdetError`: a module needs its store, which no checkpoint holds."""
        raise LeakdetError(
            "LeakModule cannot be loaded from a checkpoint, which does not hold its store. To "
            "score recordings: leakdet.load_detector(CHECKPOINT). To continue training: "
            "resume=CHECKPOINT."
        )

    def configure_losses(self) -> None:
        """Set the class weights: `weights` of the final mix, and those of the current epoch."""
        self.register_buffer("weights", self._weights_of(self.data.train_mix), persistent=False)
        self._epoch_weights: tuple[int, Tensor] | None = None

    def configure_metrics(self) -> None:
        """Set the metrics of recordings, and what is collected from batches until a check."""
        labels = self.data.labels
        self.leak_metrics = CheckMetrics()
        self.class_metrics = CheckMetrics(len(labels.names)) if labels.tells_classes else None
        self.train_losses = LossSums()
        self.validation = self._accumulator(self.data.splits.val)

    def _accumulator(self, split: StoreSplit) -> ValidationAccumulator:
        return ValidationAccumulator(
            split.windows_per_recording,
            self.config.decision,
            self.leaks,
            self.blend,
            self.data.labels.tells_classes,
        )

    # ------------------------------------------------------------------------ training

    def on_fit_start(self) -> None:
        for name in ("interference", "negatives"):
            if (sounds := getattr(self, name)) is not None:
                setattr(self, name, sounds.to(self.device).float())
        if self.config.compile:
            self.run_network = compiled_for(self.network, self.config, self.data, self.trainer)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """A resumed run draws the same random numbers as an uninterrupted one."""
        place = (self.config.seed, self.current_epoch, batch_idx, self.global_rank)
        seed_batch(place, self.device)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        trainer: Any = self.trainer
        augment, profiled = self.config.augment, trainer.profiler.profile
        with profiled("augmentation"):
            mel, targets = augmented(batch.mel.float(), augment, self.interference), [batch]
            if augment.mixup_alpha > 0:
                mel, targets = mixup(mel, batch, augment.mixup_alpha)
        with profiled("forward"):
            output = self.run_network(with_negatives(mel, self.negatives, augment))
        count, weights = step_divisor(self.trainer, batch_idx), self._current_weights()
        output, of_negatives = divided(output, len(mel))
        losses = (self.loss(output, target, weights, count) for target in targets)
        parts = reduce(lambda total, part: LossParts(*map(torch.add, total, part)), losses)
        right = right_samples(output, targets)
        self.train_losses.update(parts, count, len(batch.class_id), right)
        if self.negatives is None:
            return parts.total
        counted = len(of_negatives.leak_logit) * count / len(mel)
        return parts.total + negatives_loss(of_negatives, self.config, weights, self.leaks, counted)

    def loss(
        self, output: Output, batch: Batch, weights: Tensor, count: float | None = None
    ) -> LossParts:
        """The losses of a batch under class weights; see `loss_parts`."""
        true, config = (batch.class_id, batch.weight), self.config.loss
        return loss_parts(output, *true, config, weights, self.leaks, count)

    def _weights_of(self, mix: np.ndarray) -> Tensor:
        """Class weights for a mix of classes, [classes]."""
        return class_weights(self.config.loss, torch.from_numpy(mix).float(), self.leaks)

    def _current_weights(self) -> Tensor:
        """Class weights of this epoch, which follow the mix of a curriculum."""
        # at a step, not when an epoch starts: a run that is resumed within one does not start it
        epoch = self.current_epoch
        if self._epoch_weights is None or self._epoch_weights[0] != epoch:
            weights = self._weights_of(self.data.mix_of_epoch(epoch))
            self._epoch_weights = (epoch, weights.to(self.device))
        return self._epoch_weights[1]

    # ------------------------------------------------------------------------ validation

    def on_validation_epoch_start(self) -> None:
        self.validation.reset()

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        self._collect(batch, self.validation)

    def _collect(self, batch: Batch, accumulator: ValidationAccumulator) -> None:
        output = self.network.infer(batch.mel)
        unweighted = batch._replace(weight=torch.ones_like(batch.weight))
        parts = self.loss(output, unweighted, self.weights)
        accumulator.update(output, parts, batch.recording)

    def on_validation_epoch_end(self) -> None:
        if self.trainer.sanity_checking:  # a few batches: their metrics are not meaningful
            return
        val = sum_over_ranks(self.trainer, self.validation.losses.compute())
        train = sum_over_ranks(self.trainer, self.train_losses.compute())
        self.train_losses.reset()
        require_finite(float(val[0]), self.current_epoch, self.config.optimizer.lr)
        sums, is_leak = self.validation.compute(), self.data.val_is_leak
        scores = sum_over_ranks(self.trainer, sums.scores).numpy()
        self.rule = rule_for_scores(scores, is_leak, self.config.decision, fitted_on="val")
        decided = self.rule.decide(scores)[sums.rows]
        f1, confusion = self.leak_metrics.of_check(decided, is_leak[sums.rows])
        metrics = {log_names.VAL_F1: self.leak_metrics.f1}
        drawn = self.data.mix_of_epoch(self.current_epoch)
        self.latest = ValidationResult(
            epoch=self.current_epoch,
            step=self.global_step,
            f1=f1,
            auroc=auroc(scores, is_leak),
            threshold=self.rule.threshold,
            confusion=tuple(confusion.flatten().tolist()),
            train_loss=tuple((train[:3] / train[3].clamp(min=1)).tolist()),
            val_loss=tuple((val[:3] / val[3]).tolist()),
            leaks_drawn=float(drawn[list(self.leaks)].sum()),
            scores=scores,
            is_leak=is_leak,
            samples=SampleSummary.of(sum_over_ranks(self.trainer, sums.samples), self.blend),
            window_prob=sum_over_ranks(self.trainer, sums.window_prob).numpy(),
            windows_per_recording=self.data.splits.val.windows_per_recording,
            train_accuracy=float(train[4] / train[3]),
            selection=Selection.of(self.config),
        )
        if self.class_metrics is not None:
            true = self.data.val_samples.class_of_recording[sums.rows]
            table = self.class_metrics.of_check(sums.class_prob.argmax(axis=1), true)
            metrics[log_names.VAL_CLASS_F1] = self.class_metrics.f1
            self.note(class_numbers(self.data.labels.names, *table))
        self._log_check(metrics, self.latest.logged())
        self.history.append({**self.latest.row(), **self._noted})
        self._noted = {}

    def _log_check(self, metrics: Mapping[str, Metric], numbers: dict[str, float]) -> None:
        """Log a row in every logger, and each number for callbacks that monitor one.

        `log_dict` does the same, and takes most of a check: a millisecond for each number.
        """
        if self.trainer.state.fn != "fit":  # Trainer.validate returns what Lightning has logged
            self.log_dict({**metrics, **numbers})
            return
        self.log_dict(metrics, logger=False)
        numbers = {name: float(metric.compute()) for name, metric in metrics.items()} | numbers
        values = torch.tensor(list(numbers.values()))
        for known in (self.trainer.callback_metrics, self.trainer.logged_metrics):
            known.update(zip(numbers, values.unbind(), strict=True))
        row = dict(zip(numbers, values.tolist(), strict=True)) | {"epoch": self.current_epoch}
        for logger in self.trainer.loggers:
            logger.log_metrics(row, max(0, self.global_step - 1))  # as Lightning numbers its rows
            logger.save()

    def note(self, numbers: dict[str, float]) -> None:
        """Add a callback's numbers to the history's row of the next check."""
        self._noted |= numbers

    # ------------------------------------------------------------------------ test

    def on_test_epoch_start(self) -> None:
        self.testing = self._accumulator(self.data.test_samples.split)

    def test_step(self, batch: Batch, batch_index: int) -> None:
        self._collect(batch, self.testing)

    def on_test_epoch_end(self) -> None:
        """Log what the rule of the latest check, or of the loaded checkpoint, is worth on test."""
        losses = sum_over_ranks(self.trainer, self.testing.losses.compute())
        sums, is_leak = self.testing.compute(), self.data.test_is_leak
        scores = sum_over_ranks(self.trainer, sums.scores).numpy()
        decided = self.rule.decide(scores)[sums.rows]
        _, confusion = self.leak_metrics.of_check(decided, is_leak[sums.rows])
        self.log(log_names.TEST_F1, self.leak_metrics.f1)
        counts = map(float, confusion.flatten().tolist())
        numbers = {log_names.TEST_LOSS: float(losses[0] / losses[3])}
        if (area := auroc(scores, is_leak)) is not None:
            numbers[log_names.TEST_AUROC] = area
        self.log_dict(numbers | dict(zip(log_names.TEST_CONFUSION, counts, strict=True)))

    # ------------------------------------------------------------------------ optimiser

    def configure_optimizers(self) -> Any:
        settings = self.config.optimizer
        optimizer = make_optimizer(self.network, settings)
        if "optimizer" in self.inherited:
            inherit_optimizer(optimizer, self.inherited["optimizer"][0], settings.lr)
        scheduler = warmup_cosine(optimizer, settings, *steps_of(self.trainer))
        if "schedule" in self.inherited:
            inherit_schedule(optimizer, scheduler, self.inherited["schedule"][0])
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    # ------------------------------------------------------------------------ checkpoints

    def card(self) -> dict[str, Any]:
        """The model file's description of this network as it is now."""
        return make_card(
            signal=self.data.splits.train.signal,
            labels=self.data.labels,
            network=self.config.network,
            mel_shape=self.data.mel_shape,
            unit=self.config.data.unit,
            blend=self.blend,
            rule=self.rule,
            training={"settings": asdict(self.config), "epoch": self.current_epoch},
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[CARD_KEY] = json.dumps(self.card())
        checkpoint[RESUME_KEY] = {
            "store": self.fingerprint,
            "history": self.history,
            "trained": self.train_losses.compute().tolist(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        resumed = checkpoint[RESUME_KEY]
        self.history = list(resumed["history"])
        self.train_losses.load(resumed["trained"])
        self.rule = DecisionRule.from_json(json.loads(checkpoint[CARD_KEY])["decision_rule"])
