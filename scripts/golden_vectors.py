"""Ten sounds with all that a model makes of them, for whoever writes the front end anew.

python scripts/golden_vectors.py MODEL DIR

DIR, a new folder, gets of each sound NAME.sound.npy (float32), NAME.mel.npy (float16, [window,
segment, band, frame] in dB), NAME.window_prob.npy and NAME.window_live.npy, and golden.json with
hashes and verdicts. The log-mel of a sound shorter than a window is that of predict, which decides
nothing by it.
"""

import sys
from pathlib import Path

import numpy as np
import torch

from leakdet.acoustics.audio import ArrayRecording
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.core.files import publish, staged_folder, write_json
from leakdet.exporting.equality import reference_verdicts, seeded_sounds
from leakdet.scoring.detector import Detector, load_detector


def write_golden(detector: Detector, folder: Path) -> None:
    """Write all files, or nothing."""
    model = detector.mel_detector
    signal = model.signal
    if signal is None:
        raise SystemExit(f"{detector.path}: it cannot take sound.")
    with staged_folder(folder) as staged:
        for name, sound in seeded_sounds(signal).items():
            blocks = list(MelStream(ArrayRecording(sound, signal.sample_rate_hz), LogMel(signal)))
            mel = torch.cat([block.mel for block in blocks])
            np.save(staged / f"{name}.sound.npy", sound)
            np.save(staged / f"{name}.mel.npy", mel.numpy())
            np.save(staged / f"{name}.window_prob.npy", model.window_prob(mel).numpy())
            live = np.concatenate([block.live for block in blocks])
            np.save(staged / f"{name}.window_live.npy", live)
        card = {
            "model": model.file_hash,
            "signal": model.card["signal"],
            "decision_rule": model.rule.to_json(),
            "mel": "[window, segment, band, frame] in dB, float16",
            "sounds": reference_verdicts(detector),
        }
        write_json(staged / "golden.json", card)
        publish(staged, folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    write_golden(load_detector(sys.argv[1], "cpu"), Path(sys.argv[2]))
