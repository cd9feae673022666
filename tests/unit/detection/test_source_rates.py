import numpy as np
import pytest

from leakdet.detection.source_rates import SourceRates


def rates(*counts: tuple[int, int, int]) -> SourceRates | None:
    """Of so many recordings of a rate in Hz with and without a leak."""
    rate_hz = np.concatenate([np.full(leaks + others, rate) for rate, leaks, others in counts])
    is_leak = np.concatenate([np.arange(leaks + others) < leaks for _, leaks, others in counts])
    return SourceRates.of(rate_hz.astype(float), is_leak)


def test_a_rate_is_known_from_eight_recordings_of_both_kinds() -> None:
    found = rates((8000, 1, 7), (16000, 4, 3), (44100, 9, 0), (48000, 0, 9))
    assert found is not None
    assert found.known_hz == [8000]
    assert SourceRates.from_json(found.to_json()) == found
    assert SourceRates.from_json(None) is None
    assert rates((8000, 3, 4), (16000, 20, 0)) is None  # none becomes known
    assert SourceRates.of(np.full(20, np.nan), np.arange(20) < 9) is None


@pytest.mark.parametrize(
    ("rate_hz", "recordings", "words"),
    [
        (8000, 12, "12 recordings have 8000 Hz, training had 40000 and 48000: another logger?"),
        (8000, 1, "1 recording has 8000 Hz"),
        (16000, 3, "and too few of 16000 (2 with a leak and 0 without): another"),
    ],
)
def test_the_sentence_names_the_rates_and_what_to_do(rate_hz, recordings, words) -> None:
    found = rates((40000, 5, 5), (48000, 4, 4), (16000, 2, 0))
    assert found is not None
    sentence = found.sentence(rate_hz, recordings)
    assert words in sentence
    assert "--source off; else learn from at least 8 of them, with and without a leak" in sentence
    decided = found.sentence(rate_hz, recordings, decided=True)
    assert "decided all the same" in decided
    assert "--source" not in decided
    (unknown,) = found.unknown_sentences()
    assert unknown.startswith("16000 Hz stays unknown")
    assert "2 with a leak and 0 without" in unknown
