"""Drift in one run of predict: which sites sound or score otherwise than before or in training."""

from pathlib import Path

import numpy as np

from leakdet.acoustics.mel import band_centres_hz
from leakdet.core.errors import counted
from leakdet.core.messages import LOG, log_results
from leakdet.detection.detector import MelDetector
from leakdet.detection.drift import FEWEST, Drift, Move, find_drift
from leakdet.tables.read import time_of
from leakdet.tables.schema import Verdict

MOST = 200_000  # recordings that are compared, about 60 MB; later ones are not


class SiteDrift:
    """Takes verdicts one by one, and then says which sites moved.

    Site and time are the columns site and recorded_at of a verdict. Where no site is told, it is
    the folder of the file; times that are not told or not understood are unknown.
    """

    def __init__(self, detector: MelDetector) -> None:
        self._detector, self._told = detector, False
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
        self._told |= bool(site)
        self._sites.append(f"{site or Path(verdict.path).parent}{channel}")
        self._times.append(time_of(verdict.columns.get("recorded_at", "")))

    def log(self) -> None:
        """Log a sentence for each site that moved, and on what was compared."""
        moved, notes = self.sentences()
        log_results(f"drift    {sentence}" for sentence in moved)
        for note in notes:
            LOG.info(f"drift    {note}")

    def sentences(self) -> tuple[list[str], list[str]]:
        """Sentences on the sites that moved, and on what was compared and what was not."""
        reference, noun = self._detector.reference, "site" if self._told else "folder"
        training = None if reference is None else reference.distribution
        if training is None:
            unknown = "the model file does not say how its training recordings are distributed"
            return [], [f"{noun}s were not compared: {unknown}"] if self._told else []
        if not self._scores:
            return [], self._left_out()
        validation = self._detector.validation
        drift = find_drift(
            np.stack(self._bands).astype(np.float64),
            np.array(self._scores),
            np.array(self._sites),
            np.array(self._times),
            training[:, : training.shape[1] // 2],
            None if validation is None else validation.scores,
        )
        told = [_summary(drift, noun)] if drift.judged or self._told else []
        return [self._sentence(move) for move in drift.moves], told + self._left_out()

    def _sentence(self, move: Move) -> str:
        more = f", and {move.more} more bands moved" if move.more > 0 else ""
        if move.since is None:
            return (
                f"{move.site} sounds unlike the training recordings: its {self._band(move)} is "
                f"{_shifted(move.shift)} theirs{more}. Confirm some of its recordings before you "
                "rely on its verdicts"
            )
        since = f"since {move.since} ({move.recordings} recordings)"
        if move.band is None:
            return (
                f"{move.site} scores otherwise {since}: the median leak_prob is "
                f"{move.before + move.shift:.2f}, before it was {move.before:.2f}. A leak or "
                "another sound: confirm one"
            )
        return (
            f"{move.site} sounds otherwise {since}: its {self._band(move)} is "
            f"{_shifted(move.shift)} before{more}. Find out what changed (sensor, pump, leak), and "
            "confirm some recordings"
        )

    def _band(self, move: Move) -> str:
        signal = self._detector.signal
        assert signal is not None  # it has scored sound
        return f"band at {band_centres_hz(signal)[move.band]:,.0f} Hz"

    def _left_out(self) -> list[str]:
        """A sentence on recordings that were not compared."""
        return [f"{self._beyond} recordings were not compared: beyond {MOST:,}"] * (
            self._beyond > 0
        )


def _shifted(shift_db: float) -> str:
    return f"{abs(shift_db):.1f} dB {'stronger' if shift_db > 0 else 'weaker'} than"


def _summary(drift: Drift, noun: str) -> str:
    if not drift.judged:
        return f"{noun}s were not compared: none has {FEWEST} recordings with sound"
    sites = counted(drift.judged, noun)
    parts = [f"{sites} compared with training, {len(drift.moves) or 'none'} moved"]
    if drift.undated and noun == "site":
        parts.append(f"{drift.undated} of them without enough times to tell since when")
    if drift.too_few:
        parts.append(f"{drift.too_few} with fewer than {FEWEST} recordings not compared")
    return "; ".join(parts)
