import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from leakdet.reporting.small_pictures import LEVELS, mel_png, palette_png, timeline_paths


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
    assert below == "M0.5 100v-20"
    assert above == "M1.5 100v-50M2.5 100v-90"
