"""The flags of recordings: what is odd about a file or its sound. They decide nothing."""

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

FLAGS: dict[Flag, str] = {
    "short": "shorter than one window; its segments repeat to fill it",
    "silent": "every window is silent: its level, without the mean, is below -90 dBFS",
    "stuck": "a window holds one value other than zero for more than a tenth of its length",
    "dropouts": "a window holds zeros for more than a tenth of its length, or is silent while "
    "others are not",
    "truncated": "the file ends before what its header or its pages announce",
    "damaged": "bytes in it cannot be explained or decoded; what could be decoded is used",
    "header_mended": "the sizes in its header are not those of its content; it was read to the end",
    "several_streams": "holds more than one sound side by side; the first is used",
    "unchecked": "a rare container whose sizes are not compared: cuts and strays are not seen",
    "channels_cancel": "its channels are in opposite phase, so that `signal.channels=mean` cancels",
    "clipped": "more than one sample point in a thousand is at full scale",
    "over_full_scale": "a float file holds values beyond ±1; they are kept",
    "narrow_band": "its rate is too low for the highest mel bands, which are empty",
    "surrogate": "a surrogate recording that `build` made",
    "converted": "from an AILH file, whose sound is not known",
    "met_in_training": "`predict`: the model was trained or chosen on this sound; no evidence",
}
