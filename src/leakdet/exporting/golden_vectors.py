"""Ten sounds with all that a model makes of them, for whoever writes the front end anew."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64

from leakdet.acoustics.audio import ArrayRecording
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.config import SignalConfig
from leakdet.core.files import publish, staged_folder, write_json
from leakdet.detection.detector import MelDetector
from leakdet.scoring.score_recording import score_recording

Sounds = dict[str, Float32[np.ndarray, " N"]]


def golden_sounds(signal: SignalConfig) -> Sounds:
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


def golden_rows(detector: MelDetector) -> list[dict[str, Any]]:
    """What predict says of each sound, with the hash of its float32 sample points."""
    log_mel = LogMel(_signal(detector))
    rows = []
    for name, sound in golden_sounds(log_mel.signal).items():
        verdict = score_recording(ArrayRecording(sound, _rate(detector)), detector, log_mel)
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


def write_golden(detector: MelDetector, folder: Path) -> None:
    """Write NAME.sound.npy, NAME.mel.npy, NAME.window_prob.npy and golden.json into a new folder.

    The log-mel of a sound shorter than a window is that of predict, which decides nothing by it.
    """
    signal = _signal(detector)
    log_mel = LogMel(signal)
    with staged_folder(folder) as staged:
        for name, sound in golden_sounds(signal).items():
            blocks = list(MelStream(ArrayRecording(sound, signal.sample_rate_hz), log_mel))
            mel = torch.cat([block.mel for block in blocks])
            live = np.concatenate([block.live for block in blocks])
            for kind, values in (
                ("sound", sound),
                ("mel", mel.numpy()),
                ("window_prob", detector.window_prob(mel).numpy()),
                ("window_live", live),
            ):
                np.save(staged / f"{name}.{kind}.npy", values)
        card = {
            "model": detector.file_hash,
            "signal": detector.card["signal"],
            "decision_rule": detector.rule.to_json(),
            "mel": "[window, segment, band, frame] in dB, float16",
            "sounds": golden_rows(detector),
        }
        write_json(staged / "golden.json", card)
        publish(staged, folder)


def _signal(detector: MelDetector) -> SignalConfig:
    assert detector.signal is not None  # `export` refuses a model without one
    return detector.signal


def _rate(detector: MelDetector) -> int:
    return _signal(detector).sample_rate_hz
