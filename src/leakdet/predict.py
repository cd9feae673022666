"""`python -m leakdet.predict MODEL PATH…`: a verdict for every recording, with its evidence; one row a file."""

import argparse
import csv
import glob
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from leakdet._arguments import add_device, chosen_device
from leakdet._exit_codes import DONE, EXPLAINED, PARTLY, guarded
from leakdet.errors import InputError

if TYPE_CHECKING:
    from leakdet.acoustics.mel import LogMel
    from leakdet.detection.detector import MelDetector

COLUMNS = (
    "path", "decision", "leak_prob", "threshold", "windows", "leak_windows", "duration_s", "source_rate_hz", "flags", "error",
)  # fmt: skip
WINDOW_COLUMNS = ("path", "window_start_s", "window_end_s", "leak_prob")
BATCH_WINDOWS = 64  # windows of one recording that are scored together


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="leakdet predict",
        description="Give every recording a verdict, leak or no_leak, with its evidence. Folders are searched for audio.",
        epilog=EXPLAINED,
    )
    made.add_argument(
        "model", type=Path, help="a model file (.safetensors) or a training checkpoint (.ckpt)"
    )
    made.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="audio files, folders or quoted globs; after -- any name is a path",
    )
    made.add_argument(
        "--out", type=Path, default=None, help="write to this file (default: standard output)"
    )
    made.add_argument(
        "--format", choices=("csv", "jsonl"), default="csv", help="csv or jsonl (default: csv)"
    )
    made.add_argument(
        "--windows",
        action="store_true",
        help="the timeline too: leak_prob of every window, in jsonl as `timeline`, with csv in OUT's name + .windows.csv",
    )
    made.add_argument(
        "--workers", type=int, default=0, help="files scored at a time (default: one per core)"
    )
    add_device(made)
    return made


@dataclass
class Prediction:
    """One row, and the timeline behind it: (start_s, end_s, leak_prob) per window."""

    row: dict[str, Any]
    timeline: list[tuple[float, float, float]] = field(default_factory=list)


def score_file(path: Path, detector: "MelDetector", log_mel: "LogMel") -> Prediction:
    """Score one recording in bounded memory; a file that cannot be scored gives a row with an error."""
    import numpy as np

    try:
        return _scored(path, detector, log_mel)
    except InputError as error:
        reason = str(error)
    # one file must never stop the others, whatever a decoder does with it
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    blank = dict.fromkeys(COLUMNS, "")
    return Prediction(
        {
            **blank,
            "path": str(path),
            "threshold": np.round(detector.rule.threshold, 6).item(),
            "error": reason,
        }
    )


def _scored(path: Path, detector: "MelDetector", log_mel: "LogMel") -> Prediction:
    import numpy as np

    from leakdet.acoustics.windows import MelStream

    stream = MelStream(path, log_mel)
    probs, starts = [], []
    for mel, start_s in _batches(stream):
        probs.append(detector.window_prob(mel).numpy())
        starts.append(start_s)
    prob, start = np.concatenate(probs), np.concatenate(starts)
    rule, facts = detector.rule, stream.facts
    score = rule.score(prob, np.array([0, len(prob)]))
    ends = np.minimum(start + log_mel.signal.window_s, facts.duration_s)
    row = {
        "path": str(path),
        "decision": "leak" if rule.decide(score)[0] else "no_leak",
        "leak_prob": round(float(score[0]), 6),
        "threshold": round(rule.threshold, 6),
        "windows": len(prob),
        "leak_windows": int((prob >= rule.threshold).sum()),
        "duration_s": round(facts.duration_s, 3),
        "source_rate_hz": facts.source_rate_hz,
        "flags": ",".join(facts.flags),
        "error": "",
    }
    timeline = [
        (round(float(a), 3), round(float(b), 3), round(float(p), 6))
        for a, b, p in zip(start, ends, prob, strict=True)
    ]
    return Prediction(row, timeline)


def _batches(stream: Any) -> Iterator[tuple[Any, Any]]:
    """Blocks of a recording joined to about BATCH_WINDOWS windows. Depends on this recording alone, so its score does too."""
    import numpy as np
    import torch

    held: list[Any] = []
    for block in stream:
        held.append(block)
        if sum(len(b.mel) for b in held) >= BATCH_WINDOWS:
            yield torch.cat([b.mel for b in held]), np.concatenate([b.window_start_s for b in held])
            held = []
    if held:
        yield torch.cat([b.mel for b in held]), np.concatenate([b.window_start_s for b in held])


def found_files(paths: Sequence[str]) -> Iterator[Path]:
    """Files as they are named, audio in folders, and matches of globs, each once. A name that exists is never a glob."""
    from leakdet.acoustics.audio import is_audio_name

    seen: set[str] = set()
    for name in paths:
        for path in _expanded(name):
            inside = _walk(path) if path.is_dir() else iter([path])
            for file in inside:
                if (file is path or is_audio_name(file)) and str(file) not in seen:
                    seen.add(str(file))
                    yield file


def _expanded(name: str) -> list[Path]:
    if os.path.lexists(name) or not glob.has_magic(name):
        return [Path(name)]
    matches = glob.glob(name, recursive=True)  # noqa: PTH207  names must stay as they are typed
    return [Path(match) for match in sorted(matches)]


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders.sort()
        yield from (Path(root, file) for file in sorted(files))


class Writer:
    """Rows as CSV or JSON lines, written as they come; a named file appears under its name when it is complete."""

    def __init__(self, out: Path | None, kind: str, windows: bool, stack: ExitStack) -> None:
        self.kind, self.windows = kind, windows
        stack.callback(self.publish)
        self._targets: list[tuple[Path, Path]] = []
        self._main = stack.enter_context(self._open(out)) if out else sys.stdout
        if out is None and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="surrogateescape")
        if kind == "csv":
            self._rows = csv.DictWriter(self._main, COLUMNS)
            self._rows.writeheader()
            if windows and out:
                self._timeline = csv.writer(
                    stack.enter_context(self._open(out.with_name(out.stem + ".windows.csv")))
                )
                self._timeline.writerow(WINDOW_COLUMNS)

    def _open(self, path: Path) -> TextIO:
        partial = path.with_name(f".{path.name}.partial")
        self._targets.append((partial, path))
        try:
            return partial.open("w", newline="", encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise InputError(f"--out {path}: cannot be written ({error.strerror}).") from error

    def write(self, prediction: Prediction) -> None:
        if self.kind == "csv":
            self._rows.writerow(prediction.row)
            if self.windows:
                self._timeline.writerows(
                    (prediction.row["path"], *entry) for entry in prediction.timeline
                )
        else:
            row = {
                key: value if value != "" or key in ("flags", "error") else None
                for key, value in prediction.row.items()
            }
            if self.windows:
                row["timeline"] = prediction.timeline
            self._main.write(json.dumps(row, ensure_ascii=False) + "\n")

    def publish(self) -> None:
        """Called when the files are closed, also after an interruption: what was scored is kept."""
        for partial, path in self._targets:
            if partial.exists():
                os.replace(partial, path)


def predict(arguments: argparse.Namespace) -> int:
    if arguments.windows and arguments.format == "csv" and arguments.out is None:
        raise InputError(
            "--windows with csv writes a second file next to the first, so it needs --out; or take --format jsonl."
        )
    from leakdet._parallel import in_order
    from leakdet._progress import Advance
    from leakdet.acoustics.mel import LogMel
    from leakdet.storage.model_file import load_mel_detector

    total = sum(1 for _ in found_files(arguments.paths))
    if not total:
        raise InputError(f"no audio found in {' '.join(arguments.paths)}.")
    detector = load_mel_detector(arguments.model, chosen_device(arguments.device))
    if detector.signal is None:
        raise InputError(
            f"{arguments.model}: it was trained on a store that does not say how its mel was made; it cannot score audio."
        )
    log_mel = LogMel(detector.signal)
    leaks = failed = done = 0
    with ExitStack() as stack:
        writer = Writer(arguments.out, arguments.format, arguments.windows, stack)
        progress = stack.enter_context(Advance("scoring", total, "files"))
        work = lambda path: score_file(path, detector, log_mel)  # noqa: E731  a closure is all that the threads need
        for _, prediction in in_order(work, found_files(arguments.paths), arguments.workers):
            writer.write(prediction)
            progress.step()
            done += 1
            leaks += prediction.row["decision"] == "leak"
            failed += bool(prediction.row["error"])
    print(
        f"{done} files: {leaks} leak, {done - leaks - failed} no_leak, {failed} failed",
        file=sys.stderr,
    )
    return PARTLY if failed else DONE


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    return guarded(lambda: predict(arguments))


if __name__ == "__main__":
    sys.exit(main())
