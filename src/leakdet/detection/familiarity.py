"""The sound of the recordings that trained a model, and how familiar another one is beside it.

Two distances between features (`band_features`): to the nearest training recording, and to the
nearer class mean after whitening by the pooled covariance (Mahalanobis). Each is divided by its
limit, which was found inside training by leaving out whole groups, so that new places stay below
it; `familiarity` is the geometric mean of both ratios. Above 1 a recording is unfamiliar.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from leakdet.detection.decision import MARGIN

MAX_KEPT = 2048  # recordings in a model file; searching more of them takes predict too long
SEARCHED = 4096  # recordings of a split at a time: 32 MB of distances
FEWEST = 10  # recordings: fewer do not tell what is familiar
MIN_GROUPS = 5  # fewer do not tell how places differ, the more so where one has its own sensor
MAX_FOLDS = 64  # of more groups, several are left out at a time
PERCENTILE = 95.0  # a limit is MARGIN times that percentile of what is left out
PREFIX = "reference."  # of the tensors in a model file
MIN_LIMIT = 1e-3  # where all training recordings are alike
QUANTILES = 101  # of each feature, which a file keeps where it does not keep all recordings


class _Search(NamedTuple):
    """A reference as its distances are computed; all but the centre are float32."""

    centre: np.ndarray  # [F] of the kept recordings, from which all else is seen
    matrix: np.ndarray  # [F, K + F]: the kept recordings, then the whitening
    half_square: np.ndarray  # [K]: half of the square lengths of the kept recordings
    white_means: np.ndarray  # [C, F]: the whitened means of the classes


@dataclass(frozen=True)
class SpectralReference:
    """Training recordings as a model file keeps them.

    `kept` are features of up to 2048 recordings that cover the rest; `means` [C, F] and `whitening`
    belong to the Mahalanobis distance. `facts` says what a reader may know: `recordings` that were
    looked at, the columns `left_out` for the limits ("recording" without any) and the number of
    `groups`, and both limits, `nearest_db` and `mahalanobis`.
    """

    kept: Float[np.ndarray, "K F"]
    means: Float[np.ndarray, "C F"]
    whitening: Float[np.ndarray, "F F"]
    facts: dict[str, Any]
    quantiles: Float[np.ndarray, "Q F"] | None = None  # of each feature, where not all are kept

    @classmethod
    def of(
        cls,
        features: Float[np.ndarray, "R F"],
        is_leak: Bool[np.ndarray, " R"],
        group: Shaped[np.ndarray, " R"] | None = None,
        column: str = "recording",
    ) -> "SpectralReference | None":
        """The reference of training recordings; None where they are fewer than ten.

        `group` is the value of `column` that no other split shares; where it is None or has fewer
        than five values, single recordings are left out.
        """
        recordings = len(features)
        if recordings < FEWEST:
            return None
        if group is None or len(np.unique(group)) < MIN_GROUPS:
            group, column = np.arange(recordings), "recording"
        groups, number = np.unique(group, return_inverse=True)
        kept = covering(features, MAX_KEPT)
        left_out = np.array(_left_out_distances(features, is_leak, number % MAX_FOLDS, kept))
        limits = MARGIN * np.percentile(left_out, PERCENTILE, axis=1)
        nearest, mahalanobis = np.maximum(MIN_LIMIT, limits).tolist()
        facts = {
            "recordings": recordings,
            "left_out": column,
            "groups": len(groups),
            "nearest_db": nearest,
            "mahalanobis": mahalanobis,
        }
        thinned = len(kept) < recordings
        shares = np.linspace(0.0, 1.0, QUANTILES)
        quantiles = np.quantile(features, shares, axis=0) if thinned else None
        return cls(features[kept], *_classes(features, is_leak), facts, quantiles)

    @property
    def distribution(self) -> Float[np.ndarray, "K F"] | None:
        """Features distributed as those of training; None where a file of old does not tell.

        The recordings that cover the rest are no sample of them: far ones are too many.
        """
        whole = len(self.kept) == self.facts["recordings"]
        return self.kept if whole else self.quantiles

    def familiarity(self, features: Float[np.ndarray, "R F"]) -> Float[np.ndarray, " R"]:
        """Distance over limit; 0 is a training recording, above 1 is unfamiliar."""
        parts = range(0, max(1, len(features)), SEARCHED)
        return np.concatenate([self._familiarity(features[i : i + SEARCHED]) for i in parts])

    def _familiarity(self, features: Float[np.ndarray, "R F"]) -> Float[np.ndarray, " R"]:
        """Both distances by one product of matrices, for which predict waits.

        The nearest recording is found in float32, its distance is measured in float64.
        """
        search = self._search
        products = (features - search.centre).astype(np.float32) @ search.matrix
        near = (search.half_square - products[:, : len(self.kept)]).argmin(1)
        apart = features - self.kept[near]
        nearest = np.einsum("rf,rf->r", apart, apart) / features.shape[1]
        white = products[:, None, len(self.kept) :] - search.white_means
        spread = np.einsum("rcf,rcf->rc", white, white).min(1).astype(np.float64)
        limits = self.facts["nearest_db"] * self.facts["mahalanobis"]
        return np.asarray(np.sqrt(np.sqrt(nearest * spread) / limits))

    @cached_property
    def _search(self) -> "_Search":
        centre = self.kept.mean(0)
        kept = (self.kept - centre).astype(np.float32)
        white_means = ((self.means - centre) @ self.whitening).astype(np.float32)
        matrix = np.concatenate([kept.T, self.whitening.astype(np.float32)], axis=1)
        return _Search(centre, matrix, np.square(kept).sum(1) / 2, white_means)

    def tensors(self) -> dict[str, Tensor]:
        """The arrays as tensors of a model file, float32; `facts` are kept beside them."""
        arrays = {"kept": self.kept, "means": self.means, "whitening": self.whitening}
        arrays |= {} if self.quantiles is None else {"quantiles": self.quantiles}
        return {f"{PREFIX}{name}": torch.tensor(value).float() for name, value in arrays.items()}

    @classmethod
    def from_file(
        cls, tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None
    ) -> "SpectralReference | None":
        """Back from a model file; None where it has none."""
        if facts is None:
            return None
        try:
            names = (f"{PREFIX}{name}" for name in ("kept", "means", "whitening"))
            kept, means, whitening = (tensors[name].double().numpy() for name in names)
            ok = min(facts["nearest_db"], facts["mahalanobis"]) > 0
        except (KeyError, TypeError) as error:
            raise ValueError(f"the spectral reference lacks {error}") from error
        size = whitening.shape[-1]
        ok = ok and whitening.shape == (size, size)
        ok = ok and all(a.ndim == 2 and a.shape[1] == size and len(a) for a in (kept, means))
        if not ok:
            raise ValueError("the parts of the spectral reference do not fit together")
        quantiles = tensors.get(f"{PREFIX}quantiles")
        if quantiles is None:
            return cls(kept, means, whitening, dict(facts))
        if quantiles.shape[1:] != (size,):
            raise ValueError("the quantiles of the spectral reference do not fit its features")
        return cls(kept, means, whitening, dict(facts), quantiles.double().numpy())


def covering(features: Float[np.ndarray, "R F"], most: int) -> Int[np.ndarray, " K"]:
    """Rows of `most` recordings that cover the rest: each next one lies farthest from the chosen.

    The distance of any recording to the nearest chosen one is at most twice what the best choice
    would give (Gonzalez 1985). The first is the one nearest to the mean.
    """
    if len(features) <= most:
        return np.arange(len(features))
    centred = (features - features.mean(0)).astype(np.float32)
    square = (centred**2).sum(1)
    chosen = [int(square.argmin())]
    remaining = np.full(len(centred), np.inf, np.float32)
    while len(chosen) < most:
        last = chosen[-1]
        remaining = np.minimum(remaining, square + square[last] - 2.0 * centred @ centred[last])
        remaining[last] = -np.inf
        chosen.append(int(remaining.argmax()))
    return np.sort(np.array(chosen))


def _left_out_distances(
    features: np.ndarray, is_leak: np.ndarray, fold: np.ndarray, kept: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both distances of each recording to the recordings of other folds."""
    nearest, mahalanobis = np.zeros(len(fold)), np.zeros(len(fold))
    for number in np.unique(fold):
        out = fold == number
        rest = kept[fold[kept] != number]
        nearest[out] = _nearest_db(features[out], features[rest])
        mahalanobis[out] = _mahalanobis(features[out], *_classes(features[~out], is_leak[~out]))
    return nearest, mahalanobis


def _nearest_db(features: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Root of the mean square difference to the nearest of `others`, in dB."""
    from scipy.spatial.distance import cdist  # slow to import, and scoring needs it not

    return np.asarray(cdist(features, others).min(1) / np.sqrt(features.shape[1]))


def _mahalanobis(features: np.ndarray, means: np.ndarray, whitening: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(features @ whitening, means @ whitening).min(1))


def _classes(features: np.ndarray, is_leak: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of the classes that are there, and the whitening of their pooled covariance."""
    classes, number = np.unique(is_leak, return_inverse=True)
    means = np.stack([features[number == index].mean(0) for index in range(len(classes))])
    covariance = shrunk_covariance(features - means[number])
    return means, np.linalg.cholesky(np.linalg.inv(covariance))


def shrunk_covariance(residuals: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "F F"]:
    """Covariance of residuals of mean 0, shrunk to a multiple of the identity.

    By the oracle approximating shrinkage of Chen et al. (2010): features outnumber recordings.
    """
    count, size = residuals.shape
    sample = residuals.T @ residuals / count
    mean_variance = max(np.trace(sample) / size, 1e-6)
    mean_square = (sample**2).mean()
    bottom = (count + 1) * (mean_square - mean_variance**2 / size)
    share = 1.0 if bottom <= 0 else min(1.0, (mean_square + mean_variance**2) / bottom)
    return np.asarray((1 - share) * sample + share * mean_variance * np.eye(size))
