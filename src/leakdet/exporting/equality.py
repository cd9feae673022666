"""Compares an `.onnx` file with the model that it was made from, on generated sounds and on files.

Verdicts of predict with either, and the outputs of the graph itself, may differ by rounding alone.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64

from leakdet.config import SignalConfig
from leakdet.core.errors import InputError
from leakdet.core.locations import Location
from leakdet.detection.decision import doubt_limits
from leakdet.exporting.detector import OnnxDetector
from leakdet.scoring.detector import Detector
from leakdet.tables.schema import SCORED, Verdict

# Largest difference of a probability: of the numbers of float32 alone, and of fewer digits.
LIMITS = {"float32": 1e-4, "float16": 0.01}
FAMILIARITY_LIMIT = 0.005
CODES = {"leak": 1, "no_leak": 0, "undecided": -1, None: -1}


@dataclass
class Equality:
    """The largest difference in probability so far, and where; verdicts that differ.

    A recording may differ by `limit`. A window may by ten times as much: where faint bands lie
    100 dB below loud ones, the FFT of predict is in float32 no more exact than that.
    """

    limit: float
    recordings: int = 0
    largest: float = 0.0
    where: str = ""
    narrow: bool = False  # the recording of the largest difference has no upper bands
    largest_window: float = 0.0
    flipped: int = 0  # of verdicts that no difference within the limit explains
    near: int = 0  # of verdicts whose score is within the limit of a threshold
    doubt: float = 0.0  # of the rule, whose verdicts change at either end of it too

    def add(self, name: str, difference: float, narrow: bool = False) -> None:
        difference = float("inf") if np.isnan(difference) else difference
        if difference > self.largest:
            self.largest, self.where, self.narrow = difference, name, narrow

    def compare(self, name: str, own: Verdict, exported: Verdict) -> None:
        """Compare the rows of one recording."""
        self.recordings += 1
        pairs = zip(own.windows, exported.windows, strict=False)
        # what a dead window has is pooled by nobody
        if not _has_dead_windows(own):
            apart = [abs(a.leak_prob - b.leak_prob) for a, b in pairs]
            self.largest_window = max([self.largest_window, *apart])
        if own.leak_prob is not None and exported.leak_prob is not None:
            difference = abs(own.leak_prob - exported.leak_prob)
            self.add(name, difference, "narrow_band" in own.flags)
        reasons = {own.reason, exported.reason}
        same = len(reasons) == 1 or reasons == {"", "doubt"}
        same &= len(own.windows) == len(exported.windows)
        same &= (own.leak_prob is None) == (exported.leak_prob is None)
        if same and own.flags == exported.flags and own.error == exported.error:
            self._verdicts(own.decision == exported.decision, own)
        else:
            self.flipped += 1

    def _verdicts(self, equal: bool, own: Verdict) -> None:
        if equal:
            return
        edges = (own.threshold, *doubt_limits(own.threshold, self.doubt))
        prob = own.leak_prob
        near = prob is not None and any(abs(prob - edge) <= self.limit for edge in edges)
        self.near += near
        self.flipped += not near

    def graph(self, name: str, own: Verdict, outputs: dict[str, np.ndarray]) -> None:
        """Compare the outputs of the graph itself with a row."""
        undecidable = own.reason not in SCORED
        if not undecidable and own.leak_prob is not None:
            self.add(name, abs(own.leak_prob - float(outputs["leak_prob"])))
        nan = bool(np.isnan(outputs["leak_prob"]))
        equal = int(outputs["decision"]) == CODES[own.decision] and nan == undecidable
        self._verdicts(equal, own)
        if own.familiarity is not None and "familiarity" in outputs and not undecidable:
            apart = abs(own.familiarity - float(outputs["familiarity"]))
            self.flipped += apart > FAMILIARITY_LIMIT * max(1.0, own.familiarity)

    @property
    def holds(self) -> bool:
        windows_hold = self.largest_window <= 10 * self.limit
        return self.largest <= self.limit and windows_hold and not self.flipped

    def sentence(self) -> str:
        near = f", {self.near} of them within the limit of a threshold" if self.near else ""
        return (
            f"{self.recordings} recordings: largest difference in probability {self.largest:.1e} "
            f"(limit {self.limit:g}), of a window {self.largest_window:.1e}; "
            f"{self.flipped + self.near} verdicts changed{near}"
        )


def _has_dead_windows(verdict: Verdict) -> bool:
    return bool({"silent", "dropouts", "stuck"} & set(verdict.flags))


def compare(
    own: Detector, exported: Detector, precision: str, files: Sequence[Location] = ()
) -> Equality:
    """Compare on generated sounds, one of them longer than a piece, and on files."""
    equality = Equality(LIMITS[precision], doubt=own.mel_detector.rule.doubt)
    graph = exported.mel_detector
    assert isinstance(graph, OnnxDetector)
    rate_hz = graph.facts["sample_rate_hz"]
    for name, sound in _sounds(graph):
        verdict = own.predict((sound, rate_hz), resampled=True)  # as is what the graph gets
        equality.compare(name, verdict, exported.predict((sound, rate_hz), resampled=True))
        equality.graph(name, verdict, graph.sound_scores(sound))
    for one, other in zip(own.predict_each(files), exported.predict_each(files), strict=True):
        if one.error:
            raise InputError(f"--check {one.path}: {one.error}")
        equality.compare(str(one.path), one, other)
    return equality


def _sounds(detector: OnnxDetector) -> Iterator[tuple[str, np.ndarray]]:
    signal = detector.signal
    assert signal is not None
    sounds = seeded_sounds(signal)
    yield from sounds.items()
    for windows in (1.6, 2.0, 3.17):
        yield f"{windows} windows", sounds["dead_parts"][: int(windows * signal.window_samples)]
    longer = (detector.piece_windows + 2) * signal.window_hop_samples + 2 * signal.window_samples
    yield "more than a piece", np.resize(sounds["several"], longer)


def seeded_sounds(signal: SignalConfig) -> dict[str, Float32[np.ndarray, " N"]]:
    """Ten seeded sounds: of several lengths, loud and faint, with an offset, a tone, dead parts."""
    window, hop, rate_hz = signal.window_samples, signal.window_hop_samples, signal.sample_rate_hz
    rng = np.random.default_rng(20)

    def noise(windows: int | float) -> Float64[np.ndarray, " N"]:
        return rng.normal(0.0, 0.1, int(windows * window))

    sounds = {
        "one_window": noise(1),
        "no_tail": np.append(noise(1), noise(1)[: hop + window // 2 - window % 2]),
        "tail": np.append(noise(1), noise(1)[: hop + 1])[: 2 * window],
        "several": noise(7.3),
        "faint": 0.002 * noise(4),
        "loud": np.clip(9.0 * noise(4), -1.0, 1.0),
        "offset": 0.3 + 0.1 * noise(4),
        "tone": 0.01 * noise(4) + 0.2 * np.sin(np.arange(4 * window) * 0.9),
        "dead_parts": noise(12),
        "short": noise(1)[: max(1, window // 3)],
    }
    sounds["dead_parts"][2 * window : 5 * window] = 0.0
    sounds["dead_parts"][8 * window : 8 * window + rate_hz // 2] = 0.25
    return {name: sound.astype(np.float32) for name, sound in sounds.items()}


def reference_verdicts(detector: Detector) -> list[dict[str, Any]]:
    """What predict says of each seeded sound, with the hash of its float32 sample points."""
    signal = detector.mel_detector.signal
    assert signal is not None  # `export` refuses a model without one
    rows = []
    for name, sound in seeded_sounds(signal).items():
        verdict = detector.predict((sound, signal.sample_rate_hz), resampled=True)
        rows.append(
            {
                "name": name,
                "samples": len(sound),
                "sha256": hashlib.sha256(sound.astype("<f4").tobytes()).hexdigest(),
                "leak_prob": None if verdict.reason == "short" else verdict.leak_prob,
                "decision": verdict.decision,
                "reason": verdict.reason,
                "familiarity": verdict.familiarity,
                "window_prob": [window.leak_prob for window in verdict.windows],
                "window_start_s": [window.start_s for window in verdict.windows],
            }
        )
    return rows
