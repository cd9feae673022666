"""The flags of recordings: what is odd about a file or its sound. They decide nothing.

docs/files.md says what each of them means.
"""

from typing import Literal

Flag = Literal[
    "short",
    "silent",
    "stuck",
    "dropouts",
    "truncated",
    "damaged",
    "header_mended",
    "several_streams",
    "unchecked",
    "channels_cancel",
    "clipped",
    "over_full_scale",
    "narrow_band",
    "surrogate",
    "converted",
    "met_in_training",
]
