"""Physically motivated demo recordings, to try leakdet without any audio.

NOLEAK is the background of a site (ambient noise, water use, pumps, hum, interference); LEAK is
the same kind of background plus the steady turbulence of a jet. Nothing else depends on the label.
Formulas, reasons and measurements: `docs/demo.md`.
"""

from leakdet.acoustics.synth.recordings import (
    LEAK,
    NOLEAK,
    DemoRecording,
    demo_recording,
    write_demo,
)

__all__ = ["LEAK", "NOLEAK", "DemoRecording", "demo_recording", "write_demo"]
