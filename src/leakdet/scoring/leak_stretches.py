"""The suspected seconds of a recording: windows that reach the threshold, joined."""

from typing import NamedTuple

from leakdet.scoring.verdict import Verdict


class Stretch(NamedTuple):
    """Neighbouring windows that reach the threshold, and the highest leak_prob among them."""

    start_s: float
    end_s: float
    leak_prob: float
    peak_s: float  # middle of the highest window


def leak_stretches(verdict: Verdict) -> list[Stretch]:
    """The live windows of a recording that reach the threshold, in order.

    Windows that touch or overlap are one stretch. Dead windows, as of silence, never count.
    """
    found: list[Stretch] = []
    live = verdict.live
    for number, window in enumerate(verdict.windows):
        if window.leak_prob < verdict.threshold or (live is not None and not live[number]):
            continue
        start_s, end_s, prob = window
        peak_s = (start_s + end_s) / 2
        if found and start_s <= found[-1].end_s:
            before = found.pop()
            start_s = before.start_s
            if before.leak_prob >= prob:
                prob, peak_s = before.leak_prob, before.peak_s
        found.append(Stretch(start_s, end_s, prob, peak_s))
    return found


def most_suspected(verdict: Verdict, most_s: float) -> Stretch | None:
    """The stretch with the highest window, of at most `most_s` seconds around that; None of none.

    Of equal ones the longest.
    """
    stretches = leak_stretches(verdict)
    if not stretches:
        return None
    highest = max(stretches, key=lambda one: (one.leak_prob, one.end_s - one.start_s))
    start_s, end_s, prob, peak_s = highest
    if end_s - start_s > most_s:
        start_s = max(start_s, min(peak_s - most_s / 2, end_s - most_s))
        end_s = start_s + most_s
    return Stretch(start_s, end_s, prob, peak_s)
