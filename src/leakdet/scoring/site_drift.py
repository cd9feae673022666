"""Drift in one run of predict: which sites sound or score otherwise than before or in training."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from leakdet._messages import LOG, log_results
from leakdet.acoustics.mel import band_centres_hz
from leakdet.detection.detector import MelDetector
from leakdet.detection.drift import FEWEST, Drift, Move, find_drift
from leakdet.errors import counted
from leakdet.scoring.site_table import SitePlace
from leakdet.scoring.verdict import Verdict

MOST = 200_000  # recordings that are compared, about 60 MB; later ones are not
UNKNOWN = np.datetime64("NaT", "s")


class SiteDrift:
    """Takes verdicts one by one, and then says which sites moved.

    `places` tells sites and times by absolute path; None: the site is the folder of a file, and
    the times are unknown.
    """

    def __init__(self, detector: MelDetector, places: Mapping[str, SitePlace] | None) -> None:
        self._detector, self._places = detector, places
        self._bands: list[np.ndarray] = []
        self._scores: list[float] = []
        self._sites: list[str] = []
        self._times: list[np.datetime64] = []
        self._unlisted = self._beyond = 0

    def add(self, verdict: Verdict) -> None:
        """Take the next verdict; those without a live window tell nothing of a site."""
        if verdict.features is None or verdict.leak_prob is None or verdict.path is None:
            return
        place = self._place(verdict.path)
        if place is None:
            self._unlisted += 1
            return
        if len(self._scores) == MOST:
            self._beyond += 1
            return
        channel = f" channel {verdict.channel}" if verdict.channel else ""
        self._bands.append(verdict.features[: len(verdict.features) // 2].copy())
        self._scores.append(verdict.leak_prob)
        self._sites.append(place.site and f"{place.site}{channel}")
        self._times.append(place.recorded_at)

    def _place(self, path: str) -> SitePlace | None:
        if self._places is None:
            return SitePlace(str(Path(path).parent), UNKNOWN)
        return self._places.get(os.path.abspath(path))  # noqa: PTH100  links stay

    def log(self) -> None:
        """Log a sentence for each site that moved, and on what was compared."""
        moved, notes = self.sentences()
        log_results(f"drift    {sentence}" for sentence in moved)
        for note in notes:
            LOG.info(f"drift    {note}")

    def sentences(self) -> tuple[list[str], list[str]]:
        """Sentences on the sites that moved, and on what was compared and what was not."""
        reference, noun = self._detector.reference, "folder" if self._places is None else "site"
        training = None if reference is None else reference.distribution
        if training is None:
            unknown = "the model file does not say how its training recordings are distributed"
            return [], [f"{noun}s were not compared: {unknown}"] if self._places else []
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
        told = [_summary(drift, noun)] if drift.judged or self._places else []
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
        """Sentences on recordings that were not compared."""
        counts = ((self._unlisted, "not in the table of sites"), (self._beyond, f"beyond {MOST:,}"))
        return [f"{count} recordings were not compared: {why}" for count, why in counts if count]


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
