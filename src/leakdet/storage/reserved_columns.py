"""Columns that leakdet writes itself, or that a table to learn from has."""

# of recordings.csv, of the rows of predict, and of tables of recordings to confirm
_RESERVED = frozenset(
    "recording_id path split label weight windows live_windows duration_s source_rate_hz rms_dbfs "
    "dc_offset clipped_fraction flags content_sha256 mel_crc32 mains_hum_50_db mains_hum_60_db "
    "surrogate_of decision reason leak_prob threshold leak_windows familiarity model error class "
    "channel source_file p10_prob quiet_level_dbfs mains_hum_db why_suggested timeline".split()
)


def is_reserved(column: str) -> bool:
    """True of a column that makes no group of recordings, and that no table of them can add."""
    return column in _RESERVED or column.startswith("prob_")
