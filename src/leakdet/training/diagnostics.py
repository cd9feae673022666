"""What is wrong with a training, as pure functions of its numbers: each gives the cause and the next step, or nothing.

A finding is a pair of its kind and a sentence for the person who started the run.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from leakdet.detection.networks import Output

BINS = 10
CONSTANT_STD = 0.01  # of leak_prob over the validation samples
LOW_F1 = 0.1
AUX_RATIO = 3.0
HEAD_CORRELATION = 0.5
OFF_CHANCE = 2.0
FPR_BUDGETS = (0.0001, 0.001, 0.01, 0.1)

Finding = tuple[str, str]


def sample_sums(output: Output, leak_index: int, blend: float) -> Float[Tensor, " K"]:
    """Sums over a batch from which `SampleSummary.of` makes its numbers; those of several batches and processes add up."""
    by_class = output.class_logits.float().softmax(-1)
    classes, leaks = by_class[:, leak_index], output.leak_logit.float().sigmoid()
    prob = blend * classes + (1.0 - blend) * leaks if blend != 1.0 else classes
    predicted = (by_class.argmax(-1) == leak_index).float()
    moments = [torch.ones_like(prob), prob, prob.square(), predicted, classes, leaks]
    moments += [classes.square(), leaks.square(), classes * leaks]
    place = (prob * BINS).long().clamp(0, BINS - 1)
    histogram = torch.nn.functional.one_hot(place, BINS).sum(0)
    return torch.cat([torch.stack(moments).double().sum(1), histogram.double()])


@dataclass(frozen=True)
class SampleSummary:
    """The leak probabilities of all validation samples in a few numbers."""

    count: int
    mean: float
    std: float
    predicted_leak_share: float  # by the class head alone
    # of the two heads; None with one head, or where one of them is constant
    head_correlation: float | None
    histogram: tuple[int, ...]  # of ten equal bins from 0 to 1

    @classmethod
    def of(cls, sums: Float[Tensor, " K"], blend: float) -> "SampleSummary":
        count, prob, squares, predicted, a, b, aa, bb, ab, *histogram = sums.double().tolist()
        mean = prob / count
        spread = math.sqrt(
            max(0.0, aa / count - (a / count) ** 2) * max(0.0, bb / count - (b / count) ** 2)
        )
        together = ab / count - a * b / count**2
        return cls(
            count=int(count),
            mean=mean,
            std=math.sqrt(max(0.0, squares / count - mean**2)),
            predicted_leak_share=predicted / count,
            head_correlation=together / spread if blend != 1.0 and spread > 1e-9 else None,
            histogram=tuple(int(found) for found in histogram),
        )


def collapse(
    samples: SampleSummary,
    f1: float,
    auroc: float | None,
    positives: int,
    negatives: int,
    class_loss: float,
    aux_loss: float,
    score_range: tuple[float, float],
) -> list[Finding]:
    """A network that says the same of everything, ranks the wrong way round, or listens to its auxiliary head only.

    `aux_loss` is weighted as it enters the total, `score_range` the lowest and highest score of a recording.
    Of several findings with one cause only the cause is named.
    """
    if samples.std < CONSTANT_STD:
        return [
            (
                "constant",
                f"leak_prob hardly differs between samples (mean {samples.mean:.3f}, deviation {samples.std:.4f}): the network "
                "has learnt nothing or collapsed. Look at train/loss; try another optimizer.lr (find_lr=true), and "
                "network.standardise=true.",
            )
        ]
    if auroc is not None and auroc < 0.5 - 2 * auroc_error(positives, negatives):
        return [
            (
                "inverted",
                f"recordings rank the wrong way round (AUROC {auroc:.3f}): leaks get lower scores than the rest. Compare "
                "labels.leak and the class names of train and val; listen to the worst-ranked recordings.",
            )
        ]
    if aux_loss > AUX_RATIO * class_loss:
        return [
            (
                "auxiliary",
                f"the weighted auxiliary loss ({aux_loss:.3f}) is more than {AUX_RATIO:g} times the class loss "
                f"({class_loss:.3f}): the class head is hardly trained. Lower loss.aux_weight (0.05 to 0.3 is usual).",
            )
        ]
    found: list[Finding] = []
    if samples.predicted_leak_share in (0.0, 1.0):
        which = "leak" if samples.predicted_leak_share else "no leak"
        found.append(
            (
                "one_class",
                f"every sample is predicted as {which} (leak_prob {samples.mean:.3f} +- {samples.std:.3f}, recordings "
                f"from {score_range[0]:.3f} to {score_range[1]:.3f}). Look at the class balance that the run prints; "
                "data.sampling=balanced evens it.",
            )
        )
    elif f1 < LOW_F1 and positives > 0:
        found.append(
            (
                "low_f1",
                f"recording F1 is {f1:.3f} although {positives} recordings are leaks. See decision.policy and the threshold; "
                "with decision.policy=max_f1 it is fitted on val.",
            )
        )
    if samples.head_correlation is not None and samples.head_correlation < HEAD_CORRELATION:
        found.append(
            (
                "heads",
                f"the class head and the leak head disagree (correlation {samples.head_correlation:.2f}), though both tell "
                "leak from rest. Lower loss.aux_weight or set it to 0.",
            )
        )
    return found


def auroc_error(positives: int, negatives: int) -> float:
    """Standard error of the AUROC of a score that knows nothing (Mann-Whitney)."""
    return math.sqrt((positives + negatives + 1) / (12 * max(1, positives) * max(1, negatives)))


def first_batch(loss: float, chance: float, largest_logit: float) -> list[Finding]:
    """The class loss of untrained weights against that of a network that knows nothing."""
    if not chance / OFF_CHANCE <= loss <= chance * OFF_CHANCE:
        return [
            (
                "first_batch",
                f"before the first step the class loss is {loss:.3f}, chance is {chance:.3f} (largest logit "
                f"{largest_logit:.3g}): the input is badly scaled. Set network.standardise=true and "
                "network.input_norm=level_free.",
            )
        ]
    return []


def gradients(norms: Float[np.ndarray, " N"], clipped_at: float | None) -> list[Finding]:
    """The gradient norms of an epoch's optimiser steps, before clipping."""
    bad = int((~np.isfinite(norms)).sum())
    clip = "" if clipped_at else " or set trainer.gradient_clip_val=1"
    if bad:
        return [
            (
                "gradient",
                f"{bad} of {len(norms)} gradients were not finite. Lower optimizer.lr{clip}; with "
                "trainer.precision=16-mixed a few at the start are normal, else try bf16-mixed.",
            )
        ]
    mean = float(norms.mean()) if len(norms) else 1.0
    if mean > 1e4:
        return [
            (
                "gradient",
                f"gradients explode: their mean norm is {mean:.3g}. Lower optimizer.lr{clip}; look at the weights of the loss.",
            )
        ]
    if mean < 1e-8:
        return [
            (
                "gradient",
                f"gradients vanish: their mean norm is {mean:.3g}. Is the loss weighted to nothing, or the input constant?",
            )
        ]
    return []


def overfit(train_losses: list[float], tprs: list[float | None], checks: int = 3) -> list[Finding]:
    """Train loss falling while TPR at the smallest resolvable FPR falls, `checks` times in a row."""
    recent, rates = train_losses[-checks - 1 :], tprs[-checks - 1 :]
    if len(recent) <= checks or any(rate is None for rate in rates):
        return []
    falling = all(b < a for a, b in itertools.pairwise(recent))
    worse = all(b < a for a, b in itertools.pairwise(rates))  # type: ignore[operator]
    if not (falling and worse):
        return []
    return [
        (
            "overfit",
            f"train loss fell in {checks} checks ({recent[0]:.3f} to {recent[-1]:.3f}) while the leaks found at the smallest "
            f"measurable false-alarm rate fell too ({rates[0]:.3f} to {rates[-1]:.3f}): the network learns the training "
            "recordings by heart. Raise network.dropout, augment.eq_db or optimizer.weight_decay, or bring more recordings.",
        )
    ]


def tpr_at_least_fpr(
    scores: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"]
) -> float | None:
    """TPR at the smallest FPR of FPR_BUDGETS that so many negatives can resolve; None where there is none."""
    negatives = np.sort(scores[~is_leak])[::-1]
    budgets = [budget for budget in FPR_BUDGETS if budget * len(negatives) >= 1]
    if not budgets or not is_leak.any():
        return None
    allowed = int(budgets[0] * len(negatives))
    return float((scores[is_leak] > negatives[allowed]).mean())
