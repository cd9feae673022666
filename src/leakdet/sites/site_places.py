"""Where each site is, as its latest rows tell it."""

import numpy as np
from jaxtyping import Float, Int

from leakdet.errors import counted, first_few
from leakdet.sites.row_columns import RowColumns

APART_DEG = 0.001  # about 100 m; recordings of one site farther apart contradict each other


def find_places(
    columns: RowColumns, rows: Int[np.ndarray, " K"]
) -> tuple[Float[np.ndarray, "S 2"], list[str]]:
    """Latitude and longitude of each site in degrees, NaN where unknown, and remarks.

    `rows` are in the order of time. 0, 0 is what a receiver without a fix writes, and unknown.
    """
    site = columns.ids["site"][rows]
    lat, lon = columns.numbers["lat"][rows], columns.numbers["lon"][rows]
    told = ~np.isnan(lat) | ~np.isnan(lon)
    with np.errstate(invalid="ignore"):
        good = (np.abs(lat) <= 90.0) & (np.abs(lon) <= 180.0) & ((lat != 0.0) | (lon != 0.0))
    place = np.full((len(columns.texts["site"]), 2), np.nan)
    least, most = np.full_like(place, np.inf), np.full_like(place, -np.inf)
    both = np.stack([lat, lon], axis=1)[good]
    place[site[good]] = both
    np.minimum.at(least, site[good], both)
    np.maximum.at(most, site[good], both)
    notes = []
    if bad := int((told & ~good).sum()):
        swapped = (np.abs(lat) > 90.0) & (np.abs(lat) <= 180.0) & (np.abs(lon) <= 90.0)
        hint = " Lat and lon may be the wrong way round." if swapped.any() else ""
        notes.append(
            f"{counted(bad, 'recording')} with a lat or lon that is no place count as without one."
            f"{hint}"
        )
    apart = np.flatnonzero((most - least > APART_DEG).any(axis=1))
    if len(apart):
        names = first_few([columns.texts["site"][one] for one in apart], 3)
        notes.append(
            f"{counted(len(apart), 'site')} with places that contradict each other ({names}): the "
            "latest is shown; correct lat and lon in the manifest."
        )
    used = np.unique(site)
    unknown = int(np.isnan(place[used, 0]).sum())
    if 0 < unknown < len(used):
        notes.append(f"{counted(unknown, 'site')} without a place: on no map.")
    return place, notes
