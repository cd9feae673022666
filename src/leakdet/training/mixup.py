"""Mixup of a batch with itself: blended samples, and the two targets that each of them has."""

from torch import Tensor

from leakdet.acoustics.augment import draw_mixup
from leakdet.loading.samples import Batch


def mixup(mel: Tensor, batch: Batch, alpha: float) -> tuple[Tensor, list[Batch]]:
    """Blend each sample of `mel` [B, U, M, T] with another one by a share from Beta(alpha, alpha).

    Returns the blended samples and two batches of targets, whose losses add up: weighted by the
    share and by the rest of it.
    """
    partner, share = draw_mixup(len(mel), alpha, mel.device)
    own = share[:, None, None, None]
    first = batch._replace(weight=batch.weight * share)
    second = batch._replace(
        class_id=batch.class_id[partner], weight=batch.weight[partner] * (1 - share)
    )
    return own * mel + (1 - own) * mel[partner], [first, second]
