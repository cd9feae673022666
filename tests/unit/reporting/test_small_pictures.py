import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from leakdet.reporting.small_pictures import (
    LEVELS,
    frequency_ticks,
    mel_png,
    palette_png,
    time_ticks,
    timeline_paths,
)


def test_a_palette_png_decodes_to_the_colours_of_its_levels():
    index = np.random.default_rng(0).integers(0, LEVELS, (64, 100)).astype(np.uint8)
    decoded = imread(io.BytesIO(palette_png(index)))
    colours = mpl.colormaps["cividis"](np.linspace(0, 1, LEVELS))[:, :3]
    assert decoded[..., :3] == pytest.approx(colours[index], abs=1 / 255)


def test_a_mel_picture_has_low_bands_at_the_bottom_and_at_most_400_columns():
    level_db = np.full((8, 1000), -80.0)
    level_db[0] = -20.0
    decoded = imread(io.BytesIO(mel_png(level_db)))
    assert decoded.shape[:2] == (8, 400)
    assert decoded[-1].mean() > decoded[0].mean() + 0.2


def test_timeline_bars_part_at_the_threshold():
    below, above = timeline_paths(np.array([0.2, 0.5, 0.9]), 0.5)
    assert below == "M0.1 100v-20h.8V100"
    assert above == "M1.1 100v-50h.8V100M2.1 100v-90h.8V100"


def test_frequencies_stand_beside_their_bands():
    band_hz = np.array([250.0, 500.0, 1000.0, 2000.0])
    ticks = {tick.text: tick.percent for tick in frequency_ticks(band_hz)}
    assert ticks == {"500 Hz": 37.5, "1 kHz": 62.5, "2 kHz": 87.5}


def test_texts_of_an_axis_do_not_touch():
    percents = [tick.percent for tick in frequency_ticks(np.linspace(10.0, 22_050.0, 64))]
    assert min(np.diff(percents)) >= 11.0
    assert frequency_ticks(np.linspace(510.0, 990.0, 8)) == []


@pytest.mark.parametrize(
    ("duration_s", "last", "percent"),
    [
        (0.25, "0.25 s", 100.0),
        (4.9, "4 s", 400 / 4.9),
        (20.0, "20 s", 100.0),
        (90.0, "80 s", 800 / 9),
    ],
)
def test_seconds_are_round_and_few(duration_s, last, percent):
    ticks = time_ticks(duration_s)
    assert (ticks[0].percent, ticks[0].text) == (0.0, "0 s")
    assert (ticks[-1].percent, ticks[-1].text) == (pytest.approx(percent), last)
    assert 3 <= len(ticks) <= 7
