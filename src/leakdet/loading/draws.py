"""How often an epoch draws each sample of a split that is streamed: arithmetic instead of a list, whatever the split's size."""

import numpy as np

from leakdet.config import DataConfig
from leakdet.loading.samples import SplitSamples
from leakdet.loading.sampling import epoch_draws


class Draws:
    """How often an epoch draws each sample, in closed form: nothing is held per sample.

    A class of n samples and d draws: sample j is drawn floor((j + 1 + shift)·d/n) − floor((j + shift)·d/n) times. These add up
    to d, differ by one at most, and lie evenly over the class; `shift` moves with the epoch, so that in time all are drawn.
    """

    def __init__(self, samples: SplitSamples, data: DataConfig, seed: int, epoch: int) -> None:
        self._class = samples.class_of_recording
        size = np.diff(samples.offsets)
        self._count = samples.class_counts()
        self._drawn = epoch_draws(self._count, data.sampling, epoch, data.curriculum_epochs)
        rng = np.random.default_rng([seed, epoch, 1])
        self._shift = rng.integers(0, np.maximum(1, self._count))
        # samples of the class before this recording
        self._within_class = np.zeros(len(size), np.int64)
        for number in range(len(self._count)):
            members = np.flatnonzero(self._class == number)
            self._within_class[members] = np.cumsum(size[members]) - size[members]
        self.of_recording = self._up_to(size, np.arange(len(size))) - self._up_to(
            0, np.arange(len(size))
        )

    def _up_to(self, sample: np.ndarray | int, recording: np.ndarray) -> np.ndarray:
        """Draws of the recording's class before its `sample`-th one, up to a constant of the class."""
        kind = self._class[recording]
        place = self._within_class[recording] + sample + self._shift[kind]
        return np.asarray(place * self._drawn[kind] // np.maximum(1, self._count[kind]))

    def of_samples(self, recording: np.ndarray, within: np.ndarray) -> np.ndarray:
        """Draws of the samples that are the `within`-th of their `recording`, int64 [n]."""
        return np.asarray(self._up_to(within + 1, recording) - self._up_to(within, recording))

    @property
    def once(self) -> bool:
        """Every sample exactly once: there is nothing to count."""
        return bool((self._drawn == self._count).all())
