"""Verdicts on recordings by a file of `leakdet export`, without leakdet and without torch.

python onnx_predict.py model.onnx recording.wav …
pip install numpy onnxruntime soundfile soxr
"""

import json
import sys
from fractions import Fraction
from math import ceil

import numpy as np
import onnxruntime
import soundfile
import soxr

DECISIONS = {1: "leak", 0: "no_leak", -1: "undecided"}


def load(path):
    """The session, and what its metadata say of rate, windows and rule."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, json.loads(session.get_modelmeta().custom_metadata_map["leakdet_host"])


def blocks(path, facts):
    """The mono sound of a file at the model's rate, ten seconds at a time."""
    with soundfile.SoundFile(path) as file:
        if file.channels > 1 and facts["channels"] not in ("mean", "first"):
            raise SystemExit(f"{path}: channels={facts['channels']} is for leakdet predict")
        rate = soxr.ResampleStream(file.samplerate, facts["sample_rate_hz"], 1, dtype="float32")
        for block in file.blocks(10 * file.samplerate, dtype="float32", always_2d=True):
            if not np.isfinite(block).all():
                raise SystemExit(f"{path}: it holds NaN or infinite values")
            first = facts["channels"] == "first"
            mono = block[:, 0] if first else block.mean(axis=1, dtype=np.float32)
            same = file.samplerate == facts["sample_rate_hz"]
            yield mono.copy() if same else rate.resample_chunk(mono.copy())
        if file.samplerate != facts["sample_rate_hz"]:
            yield rate.resample_chunk(np.empty(0, np.float32), last=True)


def pieces(path, facts):
    """Some seconds at a time, and the windows at its start that the piece before has had."""
    window, hop = facts["window_samples"], facts["window_hop_samples"]
    pending, skip = np.empty(0, np.float32), 0
    for block in blocks(path, facts):
        pending = np.concatenate([pending, block])
        while len(pending) >= (skip + facts["piece_windows"]) * hop + window:
            done = skip + facts["piece_windows"]
            yield pending[: (done - 1) * hop + window], skip
            kept = max(0, done - facts["lead_windows"])
            pending, skip = pending[kept * hop :], done - kept
    yield pending, skip


def pooled(prob, facts):
    """The score of several pieces' live windows, as the file gives it for one."""
    if facts["pooling"] == "mean":
        return prob.mean()
    if facts["pooling"] == "vote":
        share = Fraction(facts["vote_fraction"]).limit_denominator(1_000_000)
        return np.sort(prob)[-max(1, ceil(share * len(prob)))]
    inside = np.clip(prob, 2.0**-25, 1.0 - 2.0**-25)
    return 1.0 / (1.0 + np.exp(-np.mean(np.log(inside) - np.log1p(-inside))))


def predict(path, session, facts):
    """leak_prob (NaN: no live window), decision and reason of a recording of any length."""
    names = [output.name for output in session.get_outputs()]
    prob, inputs = [], {}
    for sound, skip in pieces(path, facts):
        inputs |= {"sound": sound[None], "lead_windows": np.array([skip])}
        outputs = dict(zip(names, session.run(names, inputs), strict=True))
        inputs["earlier_moments"] = outputs["moments"]  # of all windows up to here
        prob.append(outputs["window_prob"][outputs["window_live"]])
    scores = np.concatenate(prob).astype(np.float64)
    if not len(scores):
        return float("nan"), "undecided", "no_sound"  # of predict: silent, short, stuck, dropouts
    known_hz, one_piece = facts.get("known_source_rates_hz"), len(prob) == 1
    score = float(outputs["leak_prob"] if one_piece else pooled(scores, facts))
    low, high = facts.get("doubt_between") or (1.0, 0.0)
    if known_hz is not None and soundfile.info(path).samplerate not in known_hz:
        return score, "undecided", "other_source"
    if float(outputs.get("familiarity", 0.0)) > (facts["unfamiliar_above"] or np.inf):
        return score, "undecided", "unfamiliar"
    if one_piece:  # which the file has pooled and decided
        decision = DECISIONS[int(outputs["decision"])]
    else:
        decision = "leak" if score >= facts["threshold"] else "no_leak"
        decision = "undecided" if low < score < high else decision
    return score, decision, "doubt" if decision == "undecided" else ""


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    session, facts = load(sys.argv[1])
    print("path,leak_prob,decision,reason")
    for name in sys.argv[2:]:
        leak_prob, decision, reason = predict(name, session, facts)
        print(f"{name},{leak_prob:.6f},{decision},{reason}")
