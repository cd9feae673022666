"""What an augmentation does to one sample, drawn: the log-mel before and after, and what was added to it."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

COLUMNS = ("before", "after", "after minus before")


def before_after(
    before: Float[np.ndarray, "M columns"],
    after: Float[np.ndarray, "M columns"],
    title: str,
    seconds: float,
) -> Figure:
    """Both under one colour scale in dB; the difference under its own, white where nothing was changed."""
    figure = Figure((10.5, 3.4), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    low, high = np.percentile(np.concatenate([before, after], axis=1), [1, 99.5])
    change = after - before
    most = max(1.0, float(np.percentile(np.abs(change), 99.5)))
    looks = [
        (before, "cividis", low, high),
        (after, "cividis", low, high),
        (change, "RdBu_r", -most, most),
    ]
    extent = (0.0, seconds, 0.0, float(len(before)))
    for panel, name, (picture, colours, least, greatest) in zip(axes, COLUMNS, looks, strict=True):
        image = panel.imshow(
            picture,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
            extent=extent,
            cmap=colours,
            vmin=float(least),
            vmax=float(greatest),
        )
        panel.set(title=name, xlabel="s")
        if panel is not axes[0]:
            figure.colorbar(image, ax=panel, label="dB")
    axes[0].set_ylabel("mel band")
    figure.suptitle(title)
    return figure
