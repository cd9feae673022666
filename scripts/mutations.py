"""Damaged files of every kind that leakdet reads, and what becomes of each.

`python scripts/mutations.py [--count N] [--kind wav …]` makes N mutations of a file of each kind: a
byte, a run of bytes, a cut, an insertion. Processes read them, each file within a time limit. Exits
with 1 if one ends in a traceback, a hang or a crash, or changes a verdict unnoticed.
"""

import argparse
import ast
import io
import json
import multiprocessing
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SENTENCE, SAME, FLAGGED, OTHER, WRONG = OUTCOMES = ("sentence", "same", "flagged", "other", "WRONG")
SOUNDS = {"wav": "PCM_16", "flac": "PCM_16", "mp3": "MPEG_LAYER_III", "ogg": "VORBIS"}


@dataclass(frozen=True)
class Kind:
    """A kind of file: where it lies, how it is read to something comparable, and who vouches.

    `checked`: it has a checksum, so that nothing else than what was written may be read. Of sound
    the verdict alone counts; text is what people edit, so another number is another setting.
    """

    name: str
    file: Path  # within the materials
    read: Callable[[Path, Path], Any]  # of the file and the folder of the materials
    checked: bool = False


# ---------------------------------------------------------------------------- readers


@cache
def detector_of(folder: Path) -> Any:
    from leakdet.scoring.detector import load_detector

    return load_detector(folder / "run" / "model.safetensors", device="cpu", doubt=0.0)


def read_sound(path: Path, folder: Path) -> Any:
    verdict = detector_of(folder).predict(path)
    if verdict.error:
        return SENTENCE
    # that is no sign of damage
    return verdict.decision, [verdict.reason, *sorted({*verdict.flags} - {"met_in_training"})]


def read_store(path: Path, folder: Path) -> Any:
    """Everything of a split that training and evaluation read."""
    from leakdet.storage.integrity import check_contents
    from leakdet.storage.opening import open_split, split_names
    from leakdet.storage.overlap import check_no_overlap

    split = open_split(path.parent, split_names(path.parent)[0])
    check_no_overlap([split])
    groups = {name: values.tolist() for name, values in split.groups.items()}
    facts = [split.label_id, split.recording_ids, split.recording_offsets, check_contents(split)]
    weight = split.numbers("weight", 1.0).tolist()
    return [fact.tolist() for fact in facts], groups, weight, split.label_names, repr(split.signal)


def read_weights(path: Path, folder: Path) -> Any:
    """The network's answer to a fixed input, and its rule."""
    import torch

    from leakdet.storage.model_file import load_mel_detector
    from leakdet.training.checkpoints import read_checkpoint

    if path.suffix == ".ckpt":
        read_checkpoint(path)
    detector = load_mel_detector(path)
    mel = torch.randn(4, *detector.mel_shape, generator=torch.Generator().manual_seed(0)).half()
    return detector.window_prob(mel).tolist(), repr(detector.rule), detector.labels.names


def read_manifest(path: Path, folder: Path) -> Any:
    from leakdet.building.sources import from_manifest

    return repr(from_manifest(path))


def read_history(path: Path, folder: Path) -> Any:
    from leakdet.reporting.training_figures import read_history as read

    return repr(read(path))


def read_card(path: Path, folder: Path) -> Any:
    """What `leakdet info` says of the folder that a file lies in."""
    from leakdet.cli.cards import card_text
    from leakdet.cli.describe import describe

    run = path.parent.parent if path.parent.name == ".hydra" else path.parent
    return card_text(describe(run))


def read_fold(path: Path, folder: Path) -> Any:
    from leakdet.crossvalidation import fold_runs

    return fold_runs.read_fold(path)


def read_settings(path: Path, folder: Path) -> Any:
    from leakdet.cli.compose import as_hydra_reads, composed, typed
    from leakdet.config import TrainConfig

    words = as_hydra_reads("train", [f"experiment={path}"])
    return repr(typed(composed("train", words), TrainConfig))


def kinds() -> list[Kind]:
    sounds = [Kind(name, Path("sounds") / f"x.{name}", read_sound) for name in SOUNDS]
    return [
        *sounds,
        Kind("store", Path("store/train.h5"), read_store, checked=True),
        Kind("packed store", Path("packed/train.h5"), read_store, checked=True),
        Kind("unsealed store", Path("unsealed/train.h5"), read_store),
        Kind("AILH store", Path("ailh/TRAINING_DATASET.H5"), read_store),
        Kind("model", Path("run/model.safetensors"), read_weights, checked=True),
        Kind("unsealed model", Path("unsealed/model.safetensors"), read_weights),
        Kind("checkpoint", Path("run/checkpoints/last.ckpt"), read_weights, checked=True),
        Kind("manifest.csv", Path("sounds/manifest.csv"), read_manifest),
        Kind("history.csv", Path("run/history.csv"), read_history),
        Kind("fold.json", Path("crossval/folds/f.json"), read_fold, checked=True),
        Kind("build.json", Path("store/build.json"), read_card),
        Kind("metrics.json", Path("evaluation/metrics.json"), read_card),
        Kind("result.json", Path("tune/result.json"), read_card),
        Kind("overrides.yaml", Path("run/.hydra/overrides.yaml"), read_card),
        Kind("experiment.yaml", Path("experiment/best.yaml"), read_settings),
    ]


# ---------------------------------------------------------------------------- materials


def make(folder: Path, store: Path, run: Path) -> None:
    """Copy a store of the demo and a run to `folder`, and make what else is damaged."""
    import h5py
    import numpy as np
    import soundfile
    from safetensors import safe_open
    from safetensors.torch import save_file

    from leakdet.crossvalidation.fold_runs import write_fold
    from leakdet.scoring.detector import load_detector
    from leakdet.storage.hdf5 import seal_h5
    from leakdet.storage.model_card import CARD_KEY

    shutil.copytree(store, folder / "store", ignore=shutil.ignore_patterns("audio"))
    shutil.copytree(run, folder / "run")
    for name in ("unsealed", "packed", "ailh", "sounds", "evaluation", "tune", "experiment"):
        (folder / name).mkdir()
    with h5py.File(store / "train.h5") as file:
        with h5py.File(folder / "unsealed/train.h5", "w") as unsealed:
            unsealed.attrs.update(file.attrs)
            for name in file:
                file.copy(name, unsealed)
        mel = file["mel"][...]
        with h5py.File(folder / "ailh/TRAINING_DATASET.H5", "w") as ailh:
            ailh["segments_mel"], ailh["labels"] = (
                mel[:60].reshape(30, 2, *mel.shape[1:]),
                np.arange(30) % 2,
            )
            ailh.attrs["labels_json"] = json.dumps(["LEAK", "NOLEAK"])
    shutil.copyfile(folder / "store/train.h5", folder / "packed/train.h5")
    with h5py.File(folder / "packed/train.h5", "r+") as file:
        del file["mel"]
        file.create_dataset("mel", data=mel, compression="gzip", chunks=(4, *mel.shape[1:]))
    seal_h5(folder / "packed/train.h5")
    with safe_open(run / "model.safetensors", "pt") as model:
        tensors = {name: model.get_tensor(name) for name in model.keys()}  # noqa: SIM118
        save_file(
            tensors, folder / "unsealed/model.safetensors", {CARD_KEY: model.metadata()[CARD_KEY]}
        )
    detector = load_detector(run / "model.safetensors", device="cpu", doubt=0.0)
    verdicts = detector.predict_each(sorted((store / "audio").rglob("*.wav")))
    decided = next(verdict for verdict in verdicts if verdict.decision == "leak")
    sound, rate_hz = soundfile.read(decided.path)
    for name, subtype in SOUNDS.items():
        soundfile.write(folder / f"sounds/x.{name}", sound, rate_hz, subtype, format=name.upper())
    rows = [f"x.{name},{label},site {name}" for name in SOUNDS for label in ("leak",)]
    (folder / "sounds/manifest.csv").write_text("\n".join(["path,label,site", *rows]) + "\n")
    (folder / "crossval/folds").mkdir(parents=True)
    scores = {f"{number}.wav": number / 30 for number in range(30)}
    rule = {"threshold": 0.5, "pooling": "mean"}
    more = {"fold": "fold 1", "seed": 0, "windows": {name: [s] for name, s in scores.items()}}
    more["reasons"] = dict.fromkeys(scores, "")
    write_fold(folder / "crossval/folds/f.json", {"scores": scores, "decision_rule": rule, **more})
    shutil.copyfile(run / "metrics.json", folder / "evaluation/metrics.json")
    trials = {"complete": 3, "pruned": 1, "fail": 0}
    best = {"trial": 2, "value": 0.75, "params": {"optimizer.lr": 0.001, "network.dropout": 0.25}}
    result = {"trials": trials, "best": best, "objective": "recording F1"}
    (folder / "tune/result.json").write_text(json.dumps(result, indent=2))
    settings = "# @package _global_\noptimizer:\n  lr: 0.001\n  weight_decay: 0.01\ndata:\n  batch_size: 64\n"
    (folder / "experiment/best.yaml").write_text(settings)


LIMIT_S, START_S, MEMORY_BYTES = 20, 120, 8 << 30


def mutated(content: bytes, seed: str) -> bytes:
    """The content with a byte or a run of bytes changed, an end cut off, or bytes inserted."""
    draw = random.Random(seed)
    # half of them where the facts are, in the first bytes
    end = len(content) if draw.random() < 0.5 else min(len(content), 8192)
    at, how = draw.randrange(end), draw.choice(["byte", "byte", "run", "zeros", "cut", "insert"])
    size = draw.randint(1, 64)
    match how:
        case "byte":
            return (
                content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]
            )
        case "run":
            return content[:at] + draw.randbytes(size) + content[at + size :]
        case "zeros":
            return content[:at] + bytes(size) + content[at + size :]
        case "cut":
            return content[:at]
        case _:
            return content[:at] + draw.randbytes(draw.randint(1, 8)) + content[at:]


# ---------------------------------------------------------------------------- processes


def child(connection: Any, folder: Path) -> None:
    """Read what the parent asks for, with little memory; answer with the result or the error."""
    import resource

    from leakdet.core.errors import LeakdetError

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    sys.stdout = sys.stderr = io.StringIO()
    known = {kind.name: kind for kind in kinds()}
    while True:
        name, path = connection.recv()
        try:
            answer = known[name].read(path, folder)
            connection.send((SENTENCE, "") if answer == SENTENCE else (SAME, repr(answer)))
        except LeakdetError as error:
            named = path.name in str(error) or path.parent.name in str(error)
            connection.send((SENTENCE, "") if named else (WRONG, f"names no file: {error}"))
        except BaseException as error:
            connection.send((WRONG, f"traceback: {error!r}"))


class Reader:
    """A process that reads files in its copy of the materials; replaced when it hangs or dies."""

    def __init__(self, materials: Path, number: int) -> None:
        self.folder = materials.with_name(f"{materials.name}-{number}")
        shutil.copytree(materials, self.folder)
        self.process: Any = None
        self.warm: set[Kind] = set()  # kinds that the process has read
        self.references: dict[Kind, tuple[str, str]] = {}  # what is read of undamaged files

    def outcome(self, kind: Kind, seed: str) -> tuple[str, str]:
        """What becomes of one mutation, with a note where it is WRONG."""
        path, whole = self.folder / kind.file, (self.folder / kind.file).read_bytes()
        facts = path.stat()
        if kind not in self.references:
            self.references[kind] = self.read(kind)
        reference = self.references[kind]
        if reference[0] != SAME:
            return WRONG, f"undamaged: {reference}"
        path.write_bytes(mutated(whole, seed))
        # another time for each, within the minute that is shown
        os.utime(
            path, ns=(facts.st_atime_ns, facts.st_mtime_ns + random.Random(seed).getrandbits(20))
        )
        answer, text = self.read(kind)
        path.write_bytes(whole)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        if answer != SAME or text == reference[1]:
            return answer, text if answer == WRONG else ""
        if kind.read is read_sound:
            (decision, notes), (own, own_notes) = map(ast.literal_eval, (text, reference[1]))
            changed = f"{own} became {decision} without a flag"
            return (FLAGGED, "") if notes != own_notes else (WRONG, changed)
        return (WRONG, "read as something else") if kind.checked else (OTHER, "")

    def read(self, kind: Kind) -> tuple[str, str]:
        path = self.folder / kind.file
        if self.process is None:
            spawn = multiprocessing.get_context("spawn")
            self.pipe, theirs = spawn.Pipe()
            self.process = spawn.Process(target=child, args=(theirs, self.folder), daemon=True)
            self.process.start()
            theirs.close()
        limit_s = LIMIT_S if kind in self.warm else START_S
        try:
            self.pipe.send((kind.name, path))
            if self.pipe.poll(limit_s):
                self.warm.add(kind)
                return self.pipe.recv()  # type: ignore[no-any-return]
            answer = WRONG, f"hang: over {limit_s} s"
        except (EOFError, OSError):
            answer = WRONG, "crash: the process is gone"
        self.close()
        return answer

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
        self.process, self.warm = None, set()


def run(arguments: argparse.Namespace, materials: Path) -> dict[str, Counter[str]]:
    """The outcomes of each kind; what is WRONG is printed with its seed."""
    tasks: queue.SimpleQueue[tuple[Kind, str]] = queue.SimpleQueue()
    chosen = [kind for kind in kinds() if not arguments.kind or kind.name in arguments.kind]
    for kind in chosen:
        for number in range(arguments.first, arguments.first + arguments.count):
            tasks.put((kind, f"{kind.name} {number}"))
    table: dict[str, Counter[str]] = {kind.name: Counter() for kind in chosen}
    end = time.monotonic() + arguments.seconds

    def work(reader: Reader) -> None:
        while not tasks.empty() and time.monotonic() < end:
            with suppress(queue.Empty):
                kind, seed = tasks.get_nowait()
                outcome, note = reader.outcome(kind, seed)
                table[kind.name][outcome] += 1
                if outcome == WRONG:
                    print(f"WRONG {seed}: {note}", flush=True)
        reader.close()

    readers = [Reader(materials, number) for number in range(arguments.processes)]
    threads = [threading.Thread(target=work, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return table


def table_text(table: dict[str, Counter[str]]) -> str:
    rows = [
        f"| kind | mutations | {' | '.join(OUTCOMES)} |",
        f"|---|{'---|' * (1 + len(OUTCOMES))}",
    ]
    for kind, counts in table.items():
        numbers = " | ".join(str(counts[outcome]) for outcome in OUTCOMES)
        rows.append(f"| {kind} | {counts.total()} | {numbers} |")
    return "\n".join(rows)


def leakdet(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "leakdet", *words], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="mutations of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--kind", nargs="*", help="names of kinds; default: all")
    parser.add_argument("--processes", type=int, default=2, help="that read the files")
    parser.add_argument("--seconds", type=float, default=570, help="begin none after so long")
    parser.add_argument("--store", type=Path, help="a store of the demo; default: one is built")
    parser.add_argument("--run", type=Path, help="a training on it; default: one is run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, trained = arguments.store or folder / "demo", arguments.run or folder / "trained"
        if arguments.store is None:
            leakdet("build", "source=demo", f"out={store}")
        if arguments.run is None:
            leakdet("train", "experiment=smoke", f"data.store={store}", f"hydra.run.dir={trained}")
        (folder / "materials").mkdir()
        make(folder / "materials", store, trained)
        table = run(arguments, folder / "materials")
    print(table_text(table))
    return int(any(counts[WRONG] for counts in table.values()))


if __name__ == "__main__":
    sys.exit(main())
