"""Drift in one run of predict: which sites sound or score otherwise than before or in training."""

from pathlib import Path

import numpy as np

from leakdet.acoustics.mel import band_centres_hz
from leakdet.core.messages import LOG, log_results
from leakdet.detection.detector import MelDetector
from leakdet.detection.drift import find_drift
from leakdet.tables.schema import RECORDED_AT, Verdict
from leakdet.tables.values import time_of

MOST = 200_000  # recordings that are compared, about 60 MB; later ones are not


class SiteDrift:
    """Collects verdicts one by one, and compares their sites at the end.

    Site and time are the columns site and recorded_at of a verdict. Without a site, it is the
    folder of the file; times that are blank or not understood are unknown.
    """

    def __init__(self, detector: MelDetector) -> None:
        self._detector, self._has_sites = detector, False
        self._bands: list[np.ndarray] = []
        self._scores: list[float] = []
        self._sites: list[str] = []
        self._times: list[np.datetime64] = []
        self._beyond = 0

    def add(self, verdict: Verdict) -> None:
        """Take the next verdict; those without a live window tell nothing of a site."""
        if verdict.features is None or verdict.leak_prob is None or verdict.path is None:
            return
        if len(self._scores) == MOST:
            self._beyond += 1
            return
        channel = f" channel {verdict.channel}" if verdict.channel else ""
        self._bands.append(verdict.features[: len(verdict.features) // 2].copy())
        self._scores.append(verdict.leak_prob)
        site = verdict.columns.get("site")
        self._has_sites |= bool(site)
        self._sites.append(f"{site or Path(verdict.path).parent}{channel}")
        self._times.append(time_of(verdict.columns.get(RECORDED_AT, "")))

    def log(self) -> None:
        """Log a sentence for each site that moved, and on what was compared."""
        moved, notes = self.sentences()
        log_results(f"drift    {sentence}" for sentence in moved)
        for note in notes:
            LOG.info(f"drift    {note}")

    def sentences(self) -> tuple[list[str], list[str]]:
        """Sentences on the sites that moved, and on what was compared and what was not."""
        detector, noun = self._detector, "site" if self._has_sites else "folder"
        training = None if detector.reference is None else detector.reference.distribution
        if training is None:
            unknown = "the model file does not say how its training recordings are distributed"
            return [], [f"{noun}s were not compared: {unknown}"] if self._has_sites else []
        beyond = []
        if self._beyond:
            beyond = [f"{self._beyond} recordings were not compared: beyond {MOST:,}"]
        if not self._scores:
            return [], beyond
        drift = find_drift(
            np.stack(self._bands).astype(np.float64),
            np.array(self._scores),
            np.array(self._sites),
            np.array(self._times),
            training[:, : training.shape[1] // 2],
            None if detector.validation is None else detector.validation.scores,
        )
        assert detector.signal is not None  # it has scored sound
        centres_hz = band_centres_hz(detector.signal).tolist()
        moved = [f"{move.sentence(centres_hz)}. {move.remedy}" for move in drift.moves]
        summary = [drift.summary(noun)] if drift.judged or self._has_sites else []
        return moved, summary + beyond
