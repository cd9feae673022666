"""Lines of cards."""

from leakdet.cli.card_lines import changed_settings, line, rates_text, signal_text

TABLE = {
    "n": 12,
    "positives": 6,
    "f1": 0.912,
    "auroc": None,
    "recall": 0.83,
    "intervals": {"f1": [0.8, 1.0], "auroc": None, "recall": None},
}


def test_a_long_text_goes_on_below_in_whole_words() -> None:
    text = f"{'word ' * 30}/a/path/that-is-too-long-for-one-line/{'x' * 90}"
    lines = line("from", text)
    assert " ".join(found.strip() for found in lines) == f"from     {text}"
    assert all(len(found) <= 80 for found in lines[:-1])
    assert all(found.startswith(" " * 9) for found in lines[1:])


def test_rates_have_their_intervals_and_undefined_ones_are_left_out() -> None:
    text = rates_text(TABLE)
    assert text.replace("\u00a0", " ") == (
        "12 recordings, 6 with a leak: f1 0.91 [0.80, 1.00], recall 0.83"
    )
    assert rates_text({"n": 2, "positives": 0}) == (
        "2 recordings, 0 with a leak; no rate is defined"
    )


def test_a_rate_stays_beside_its_interval() -> None:
    lines = line("test", rates_text(TABLE) * 3)
    assert not any(found.rstrip().endswith(("0.80,", "0.91")) for found in lines)


def test_settings_are_those_that_differ() -> None:
    assert changed_settings({"seed": 0}, {"seed": 0}) == "the defaults"
    assert changed_settings({"seed": 3, "new": 1}, {"seed": 0}) == "the defaults, but seed=3"
    assert changed_settings({}, {"seed": 0}).startswith("unknown")


def test_a_signal_in_words() -> None:
    signal = {
        "sample_rate_hz": 16000,
        "window_samples": 16000,
        "window_hop_samples": 8000,
        "n_mels": 64,
        "fmin_hz": 300.0,
        "fmax_hz": "auto",
    }
    assert signal_text(signal) == (
        "16 kHz, windows of 1 s every 0.5 s, 64 mel bands from 300 to auto"
    )
    assert signal_text(None).startswith("unknown")
