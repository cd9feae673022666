"""Training and validating a network: losses, optimiser, schedule, and the recording-level metrics of each check."""

import json
import math
from dataclasses import asdict
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor
from torchmetrics.classification import BinaryConfusionMatrix, BinaryF1Score

from leakdet.acoustics.augment import augmented, draw_mixup
from leakdet.config import TrainConfig
from leakdet.detection.decision import DecisionRule, rule_for_scores
from leakdet.detection.detector import window_mean
from leakdet.detection.losses import LossParts, class_weights, loss_parts
from leakdet.detection.networks import leak_probability, make_network
from leakdet.detection.pooling import pool
from leakdet.errors import SettingsError
from leakdet.evaluation.metrics import auroc
from leakdet.storage.model_file import CARD_KEY, make_card
from leakdet.training import log_names
from leakdet.training.datamodule import Batch, LeakDataModule
from leakdet.training.diagnostics import SampleSummary, sample_sums
from leakdet.training.model_selection import require_finite, selection_rank
from leakdet.training.optimizer import adamw, step_divisor, warmup_cosine
from leakdet.training.resume_compatibility import RESUME_KEY, store_fingerprint
from leakdet.training.validation_result import Check
from leakdet.training.warm_start import inherit_optimizer, inherit_schedule


class LeakModule(pl.LightningModule):
    """A network under training. `rule` is the decision rule of the latest validation check.

    At every check the rule is fitted on the validation recordings by the configured policy, and F1 and the confusion matrix
    are those of its decisions: the number that is printed is the number that the stored model gives back.
    """

    weights: Tensor

    def __init__(self, config: TrainConfig, data: LeakDataModule) -> None:
        super().__init__()
        self.save_hyperparameters(asdict(config))
        self.config, self.data = config, data
        # once: its files may be gone when a checkpoint is written
        self.fingerprint = store_fingerprint(data)
        self.network = make_network(config.network, data.sample_shape, len(data.labels.names))
        self.blend = 0.5 if config.loss.aux_weight > 0 else 1.0
        self.rule = DecisionRule(
            pooling=config.decision.pooling, vote_fraction=config.decision.vote_fraction
        )
        mix = torch.from_numpy(data.train_mix).float()
        self.register_buffer(
            "weights", class_weights(config.loss, mix, data.labels.leak_index), persistent=False
        )
        self.f1 = BinaryF1Score()
        self.confusion = BinaryConfusionMatrix()
        self.interference: Tensor | None = None  # [K, S, M, T] log-mel to mix in, set by `fit`
        # optimiser and schedule state of init_from, set by `fit`
        self.inherited: dict[str, Any] = {}
        self.check: Check | None = None  # the latest validation check
        # what callbacks add to the next check's row of the history
        self.measured: dict[str, float] = {}
        self.history: list[dict[str, float]] = []  # a row of numbers per check
        self._epoch_weights: tuple[int, Tensor] | None = None
        self._heard: list[tuple[Tensor, Tensor]] = []
        self._losses: list[Tensor] = []
        self._samples: list[Tensor] = []
        self._trained = torch.zeros(
            4, dtype=torch.float64
        )  # sums of the loss parts and samples since the last check
        self._seen: list[Tensor] = []

    # ------------------------------------------------------------------------------------------ training

    def _weights_of_epoch(self) -> Tensor:
        """Under a curriculum the mix moves, and class weights with it; validation keeps those of the mix that it ends with.

        Asked for at each step rather than set when an epoch starts: a run that is resumed within one does not start it.
        """
        if self._epoch_weights is None or self._epoch_weights[0] != self.current_epoch:
            mix = torch.from_numpy(self.data.mix_of_epoch(self.current_epoch)).float()
            weights = class_weights(self.config.loss, mix, self.data.labels.leak_index)
            self._epoch_weights = (self.current_epoch, weights.to(self.device))
        return self._epoch_weights[1]

    def on_fit_start(self) -> None:
        if self.interference is not None:
            self.interference = self.interference.to(self.device).float()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Chance depends on the place in the run alone, so that a resumed run draws what the uninterrupted one draws."""
        place = [self.config.seed, self.current_epoch, batch_idx, self.global_rank]
        seed = int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1)
        # not torch.manual_seed, which prepares the generators of every kind of accelerator: 2 ms a step
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        augment = self.config.augment
        mel = augmented(batch.mel.float(), augment, self.interference)
        count = step_divisor(self.trainer, batch_idx)
        weights = self._weights_of_epoch()
        if augment.mixup_alpha > 0:
            partner, part = draw_mixup(len(mel), augment.mixup_alpha, mel.device)
            own = part[:, None, None, None]
            output = self.network(own * mel + (1 - own) * mel[partner])
            one = self._loss(output, batch._replace(weight=batch.weight * part), weights, count)
            mixed = batch._replace(
                class_id=batch.class_id[partner], weight=batch.weight[partner] * (1 - part)
            )
            parts = LossParts(*map(torch.add, one, self._loss(output, mixed, weights, count)))
        else:
            parts = self._loss(self.network(mel), batch, weights, count)
        # Sums over samples; they stay on the device until the next check.
        sums = torch.stack([part.detach() * count for part in parts])
        self._seen.append(torch.cat([sums, sums.new_full((1,), float(len(batch.class_id)))]))
        return parts.total

    def _loss(
        self, output: Any, batch: Batch, weights: Tensor, count: float | None = None
    ) -> LossParts:
        return loss_parts(
            output,
            batch.class_id,
            batch.weight,
            self.config.loss,
            weights,
            self.data.labels.leak_index,
            count,
        )

    def _sum_trained(self) -> Tensor:
        """Sums of the loss parts and of the samples since the last check, on this rank."""
        if self._seen:
            self._trained = self._trained + torch.stack(self._seen).double().sum(0).cpu()
            self._seen = []
        return self._trained

    # ------------------------------------------------------------------------------------------ validation

    def on_validation_epoch_start(self) -> None:
        self._heard, self._losses, self._samples = [], [], []

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        output = self.network.infer(batch.mel)
        parts = self._loss(
            output, batch._replace(weight=torch.ones_like(batch.weight)), self.weights
        )
        self._losses.append(torch.stack([*parts, parts.total.new_ones(())]) * len(batch.class_id))
        leak_index = self.data.labels.leak_index
        self._heard.append((leak_probability(output, leak_index, self.blend), batch.recording))
        self._samples.append(sample_sums(output, leak_index, self.blend))

    def on_validation_epoch_end(self) -> None:
        if (
            self.trainer.sanity_checking
        ):  # two batches are no validation set: nothing of it may count as a result
            return
        val = self._sum_over_ranks(torch.stack(self._losses).double().sum(0))
        train = self._sum_over_ranks(self._sum_trained())
        self._trained = torch.zeros_like(self._trained)
        require_finite(float(val[0]), self.current_epoch, self.config)
        scores, is_leak, here = self._recording_scores()
        self.rule = rule_for_scores(scores, is_leak, self.config.decision, fitted_on="val")
        decisions = torch.from_numpy(self.rule.decide(scores)[here]).long().to(self.device)
        truth = torch.from_numpy(is_leak[here]).long().to(self.device)
        self.f1(decisions, truth)
        self.confusion(decisions, truth)
        self.log(log_names.VAL_F1, self.f1)
        f1 = float(self.f1.compute())
        cells = self.confusion.compute().flatten().tolist()
        self.confusion.reset()
        self.check = Check(
            epoch=self.current_epoch,
            step=self.global_step,
            f1=f1,
            auroc=auroc(scores, is_leak),
            threshold=self.rule.threshold,
            confusion=(int(cells[0]), int(cells[1]), int(cells[2]), int(cells[3])),
            train_loss=tuple((train[:3] / train[3].clamp(min=1)).tolist()),
            val_loss=tuple((val[:3] / val[3]).tolist()),
            scores=scores,
            is_leak=is_leak,
            samples=SampleSummary.of(
                self._sum_over_ranks(torch.stack(self._samples).sum(0)), self.blend
            ),
        )
        values = self.check.logged()
        values[log_names.TRAIN_DRAWN] = float(
            self.data.mix_of_epoch(self.current_epoch)[self.data.labels.leak_index]
        )
        values[log_names.VAL_RANK] = selection_rank(f1, values[log_names.VAL_LOSS])
        self.history.append(
            {
                "epoch": float(self.current_epoch),
                "step": float(self.global_step),
                log_names.VAL_F1: f1,
                **values,
                **self.check.bins(),
                **self.measured,
            }
        )
        self.measured = {}
        self.log_dict(values)

    def _recording_scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Score and truth of every recording, on every rank, and the rows that this rank heard."""
        split, decision = self.data.val_split, self.config.decision
        prob = torch.cat([prob for prob, _ in self._heard])
        recording = torch.cat([recording for _, recording in self._heard]).cpu().numpy()
        here = np.unique(recording)
        window_prob = window_mean(prob, int(split.windows_per_recording[here].sum())).cpu().numpy()
        offsets = np.concatenate([[0], np.cumsum(split.windows_per_recording[here])])
        scores = torch.zeros(split.recordings, dtype=torch.float64)
        scores[torch.from_numpy(here)] = torch.from_numpy(
            pool(window_prob, offsets, decision.pooling, decision.vote_fraction)
        )
        return self._sum_over_ranks(scores).numpy(), self.data.val_is_leak, here

    def _sum_over_ranks(self, value: Tensor) -> Tensor:
        if self.trainer.world_size == 1:
            return value.cpu()
        reduced: Tensor = self.trainer.strategy.reduce(value.to(self.device), reduce_op="sum")
        return reduced.cpu()

    # ------------------------------------------------------------------------------------------ optimising

    def configure_optimizers(self) -> Any:
        settings = self.config.optimizer
        optimizer = adamw(self.network, settings)
        if "optimizer" in self.inherited:
            inherit_optimizer(optimizer, self.inherited["optimizer"][0], settings.lr)
        total = self.trainer.estimated_stepping_batches
        if total == math.inf:
            raise SettingsError(
                "trainer.max_epochs=-1: the learning rate falls towards the end of a run, and this one has none. Give "
                "trainer.max_epochs, or +trainer.max_steps."
            )
        # which the estimate leaves out where +trainer.max_steps alone ends the run
        self.trainer.fit_loop.setup_data()
        per_epoch = float(
            math.ceil(self.trainer.num_training_batches / self.trainer.accumulate_grad_batches)
        )
        scheduler = warmup_cosine(optimizer, settings, int(total), per_epoch)
        if "schedule" in self.inherited:
            inherit_schedule(optimizer, scheduler, self.inherited["schedule"][0])
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    # ------------------------------------------------------------------------------------------ what is kept

    def card(
        self, metrics: dict[str, Any] | None = None, training: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The model file's description of this network as it is now."""
        return make_card(
            signal=self.data.train_split.signal,
            labels=self.data.labels,
            network=self.config.network,
            mel_shape=self.data.mel_shape,
            unit=self.config.data.unit,
            blend=self.blend,
            rule=self.rule,
            training={
                "settings": asdict(self.config),
                "epoch": self.current_epoch,
                **(training or {}),
            },
            metrics=metrics,
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[CARD_KEY] = json.dumps(self.card())
        checkpoint[RESUME_KEY] = {
            "store": self.fingerprint,
            "history": self.history,
            "trained": self._sum_trained().tolist(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        kept = checkpoint[RESUME_KEY]
        self.history = list(kept["history"])
        self._trained = torch.tensor(kept["trained"], dtype=torch.float64)
        self.rule = DecisionRule.from_json(json.loads(checkpoint[CARD_KEY])["decision_rule"])
