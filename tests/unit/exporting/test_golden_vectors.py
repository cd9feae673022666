import json

import numpy as np
import torch

from leakdet.exporting.golden_vectors import golden_sounds, write_golden


def test_ten_sounds_with_all_that_the_model_makes_of_them(detector, tmp_path) -> None:
    inner = detector.mel_detector
    inner.card = {"signal": {"sample_rate_hz": 4000}}
    write_golden(inner, tmp_path / "golden")
    told = json.loads((tmp_path / "golden" / "golden.json").read_text())
    assert len(told["sounds"]) == 10
    for sound in told["sounds"]:
        read = lambda kind: np.load(tmp_path / "golden" / f"{sound['name']}.{kind}.npy")  # noqa: E731, B023
        verdict = detector.predict((read("sound"), 4000))
        mel, prob = read("mel"), read("window_prob")
        assert mel.dtype == np.float16
        again = inner.window_prob(torch.from_numpy(mel)).numpy()
        np.testing.assert_allclose(again, prob, atol=1e-6)
        np.testing.assert_allclose(prob, [w.leak_prob for w in verdict.windows], atol=1e-6)
        assert sound["decision"] == verdict.decision
        assert (sound["leak_prob"] is None) == (sound["name"] == "short")
    states = [np.load(path).all() for path in (tmp_path / "golden").glob("*.window_live.npy")]
    assert states.count(False) == 1


def test_the_sounds_are_the_same_every_time(detector) -> None:
    signal = detector.mel_detector.signal
    for one, other in zip(
        golden_sounds(signal).values(), golden_sounds(signal).values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)
