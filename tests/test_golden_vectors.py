"""The files that scripts/golden_vectors.py writes, against the model that they are of."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from leakdet.scoring.detector import load_detector

REPOSITORY = Path(__file__).parents[1]


def test_ten_sounds_with_all_that_the_model_makes_of_them(trained, tmp_path: Path) -> None:
    command = [sys.executable, "scripts/golden_vectors.py", trained.model, tmp_path / "golden"]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    detector = load_detector(trained.model)
    vectors = json.loads((tmp_path / "golden" / "golden.json").read_text())
    assert len(vectors["sounds"]) == 10
    for sound in vectors["sounds"]:
        kinds = ("sound", "mel", "window_prob")
        paths = [tmp_path / "golden" / f"{sound['name']}.{kind}.npy" for kind in kinds]
        samples, mel, prob = map(np.load, paths)
        verdict = detector.predict((samples, detector.mel_detector.signal.sample_rate_hz))
        assert mel.dtype == np.float16
        again = detector.mel_detector.window_prob(torch.from_numpy(mel)).numpy()
        np.testing.assert_allclose(again, prob, atol=1e-6)
        np.testing.assert_allclose(prob, [w.leak_prob for w in verdict.windows], atol=1e-6)
        assert sound["decision"] == verdict.decision
        assert (sound["leak_prob"] is None) == (sound["name"] == "short")
    states = [np.load(path).all() for path in (tmp_path / "golden").glob("*.window_live.npy")]
    assert states.count(False) == 1
