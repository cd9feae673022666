"""Ends every long command in ten ways, in the middle of its work, and looks at what is left.

    python scripts/kills.py                                  # all; as root, since it mounts
    python scripts/kills.py --verbs predict --ends TERM,lost

The command waits at a certain point of its work until its end is prepared, so that no machine is too
fast or too slow. Then nothing that was finished may be lost, nothing half may lie under a final name,
no process may be left, no traceback printed, and the command, repeated, must end well.
"""

import argparse
import csv
import json
import os
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

RECORDINGS = 24  # of the demo that kills.py makes
LINK = "current.safetensors"  # by which learn publishes a model


# Each returns the number of finished parts under a folder, and raises where a file under a final
# name cannot be read whole.
def whole_store(out: Path) -> int:
    from leakdet.storage.integrity import check_contents
    from leakdet.storage.store import open_leakdet_split

    if not (out / "store").exists():
        return 0
    splits = [open_leakdet_split(out / "store", name) for name in ("train", "val", "test")]
    for split in splits:
        check_contents(split)
    assert sum(split.recordings for split in splits) == RECORDINGS
    return 1


def whole_rows(out: Path) -> int:
    if not (out / "v.csv").exists():
        return 0
    with (out / "v.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == RECORDINGS
    return 1


def whole_parts(out: Path) -> int:
    from leakdet.tables.read import part_files, read_rows

    if not (out / "parts").exists() or not part_files(out / "parts"):
        return 0
    paths = read_rows(out / "parts")["path"].tolist()
    assert len(set(paths)) == len(paths) <= RECORDINGS
    return len(paths)


def whole_run(out: Path) -> int:
    """Steps of the newest checkpoint; 1,000 more once there is a model."""
    from leakdet.storage.model_file import load_mel_detector
    from leakdet.training.checkpoints import read_checkpoint

    whole_files(out)
    kept = [read_checkpoint(path)["global_step"] for path in out.rglob("*.ckpt")]
    models = [load_mel_detector(path) for path in out.rglob("model.safetensors")]
    return max(kept, default=0) + 1000 * len(models)


def whole_study(out: Path) -> int:
    import optuna
    from sqlalchemy.pool import NullPool

    whole_files(out)
    path = out / "study" / "study.db"
    if not path.exists():
        return 0
    # not kept open, so that its file system can be unmounted
    without_pool = {"poolclass": NullPool}
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs=without_pool)
    names = optuna.get_all_study_names(storage)
    trials = [
        t for name in names for t in optuna.load_study(study_name=name, storage=storage).trials
    ]
    return sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in trials)


def whole_folds(out: Path) -> int:
    whole_files(out)
    return len(list(out.rglob("folds/*.json"))) + 100 * len(list(out.rglob("metrics.json")))


def whole_learning(out: Path) -> int:
    """Models that were learnt; the link always names one that can be read."""
    from leakdet.storage.model_file import load_mel_detector

    whole_files(out)
    if (out / LINK).is_symlink():
        load_mel_detector(out / LINK)
    return len([load_mel_detector(path) for path in out.glob("run*/model.safetensors")])


def whole_files(out: Path) -> int:
    for path in out.rglob("*.json"):
        json.loads(path.read_text())
    for path in out.rglob("*.html"):
        assert path.read_text().rstrip().endswith("</html>"), path
    for path in out.rglob("*.png"):
        assert path.read_bytes().endswith(b"IEND\xaeB`\x82"), path
    return len(list(out.rglob("report.html")))


SIGNALS = ("KILL", "TERM", "HUP", "INT", "USR1")
ENDS = (*SIGNALS, "full", "lost", "memory", "readonly", "closed")
MOUNTED = ("full", "readonly")
AT, GO = "KILLS_AT", "KILLS_GO"  # environment: files by which the two processes meet
NEEDS = "KILLS_NEEDS"  # environment: bytes of memory that the command needs then
SPARE_BYTES = 64 << 20  # of memory under a limit; Python cannot even start a thread without any
LIMIT_S = 240
LEFT_S = 40  # for the children of a killed process
SMALL = ("experiment=smoke", "network=linear", "logger=none", "trainer.max_epochs=4")
SLOWED = (*SMALL, "callbacks.extra=[kills:Checks]")
DEMO = ("demo.sites=6", "demo.recordings_per_site=4", "demo.duration_s=1.5")


@dataclass
class Verb:
    """A command that writes to `out`, and the number of the step at which it waits."""

    name: str
    words: Callable[[Path], list[str]]
    step: int
    whole: Callable[[Path], int]  # finished parts; raises where one under a final name is half


# ----------------------------------------------------------------- inside the command


def meet() -> None:
    """Count a step; at the one that was asked for, wait for the other process."""
    if AT not in os.environ:
        return
    at = Path(os.environ[AT])
    with at.with_suffix(".steps").open("a") as steps:
        steps.write(".")
        count = steps.tell()
    if count >= int(os.environ["KILLS_STEP"]) and not at.exists():
        at.touch()
        until = time.monotonic() + LIMIT_S
        while not Path(os.environ[GO]).exists() and time.monotonic() < until:
            time.sleep(0.02)
        if needed := int(os.environ.get(NEEDS, 0)):
            bytearray(needed)


def run_slowed(verb: str, words: list[str]) -> None:
    """Run `leakdet VERB WORDS`, whose counted steps and results call `meet`."""
    from leakdet.core.progress import ProgressCounter

    step = ProgressCounter.step

    def counted(self: ProgressCounter, count: int = 1) -> None:
        step(self, count)
        if self.title in ("building", "scoring"):
            meet()

    ProgressCounter.step = counted  # type: ignore[method-assign]
    if verb == "parts":
        from leakdet.scoring import parts

        setattr(parts, "BATCH_FILES", 4)  # noqa: B010  it is imported there
    if verb == "evaluate":
        from leakdet.reporting import report

        write = report.write_report

        def after_meeting(path: Path, material: Any) -> Path:
            meet()
            return write(path, material)

        report.write_report = after_meeting
    door = "predict" if verb == "parts" else verb
    sys.argv = [f"leakdet {door}", *words]
    runpy.run_module(f"leakdet.{door}", run_name="__main__", alter_sys=True)


def __getattr__(name: str) -> Any:
    """`kills:Checks`, a callback that calls `meet` after every validation check."""
    if name != "Checks":
        raise AttributeError(name)
    from lightning.pytorch.callbacks import Callback

    class Checks(Callback):
        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            meet()

    return Checks


# ----------------------------------------------------------------- the ends


def verbs(base: Path) -> list[Verb]:
    store, model = base / "store", base / "model"
    audio, manifest = store / "audio", store / "manifest.csv"
    data = f"data.store={store}"
    streamed = ("data.residency=stream", "data.workers=1")
    folds = ("crossval.group_by=recording", "crossval.folds=3")
    study = (
        "search=small tune.n_trials=4 tune.pruner=none tune.finish=false tune.study=study".split()
    )
    tuned, scored = [*SLOWED, data, *study, "-m", "tune.workers=2"], [str(model), str(audio)]
    return [
        Verb("build", lambda o: [f"source={manifest}", f"out={o / 'store'}"], 5, whole_store),
        Verb("train", lambda o: [*SLOWED, data, *streamed, f"hydra.run.dir={o}"], 2, whole_run),
        Verb("tune", lambda o: [*tuned, f"tune.folder={o / 'study'}"], 6, whole_study),
        Verb("crossval", lambda o: [*SLOWED, data, *folds, f"crossval.out={o}"], 6, whole_folds),
        Verb("evaluate", lambda o: [str(model), str(store), "--out", str(o)], 1, whole_files),
        Verb("predict", lambda o: [*scored, "--out", str(o / "v.csv")], 5, whole_rows),
        Verb("parts", lambda o: [*scored, "--parts", str(o / "parts")], 10, whole_parts),
        Verb("learn", partial(learning, model, manifest), 36, whole_learning),  # in a comparison
    ]


def learning(model: Path, manifest: Path, out: Path) -> list[str]:
    """Words of `learn`: each in a folder of its own, with a link to the old model to move."""
    with suppress(OSError):  # it is there, or cannot be made
        (out / LINK).symlink_to(model / "model.safetensors")
    folder = out / f"run{len(list(out.glob('run*')))}"
    words = [f"model={model}", f"learn.new={manifest}", f"learn.publish={out / LINK}"]
    words += ["learn.steps=10", "learn.folds=2", "network=linear", "callbacks.extra=[kills:Checks]"]
    return [*words, f"hydra.run.dir={folder}"]


def start(
    words: Sequence[str], work: Path, closed: bool = False, **environment: str
) -> "subprocess.Popen[bytes]":
    """Start Python in a session of its own; what it prints is added to `work`/printed.txt."""
    here = Path(__file__).resolve()
    paths = [str(here.parents[1] / "src"), str(here.parent), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **environment}
    with (work / "printed.txt").open("ab") as printed:
        return subprocess.Popen(
            [sys.executable, *words], cwd=work, env=os.environ | environment, stdout=printed,
            stderr=printed, start_new_session=True, preexec_fn=partial(in_child, closed),
        )  # fmt: skip


def start_verb(
    verb: str, words: Sequence[str], work: Path, closed: bool = False, **meeting: str
) -> "subprocess.Popen[bytes]":
    command = [__file__, "--child", verb, *words]
    return start(command, work, closed, TMPDIR=str(work), **meeting)


def in_child(closed: bool) -> None:
    """Before the command: no standard output if `closed`, and no signal that a caller ignores."""
    for name in SIGNALS[1:]:
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_DFL)
    if closed:
        os.close(1)


def prepare_end(end: str, process: "subprocess.Popen[bytes]", out: Path) -> None:
    """Bring about the end of a command that waits."""
    if end in SIGNALS:
        process.send_signal(getattr(signal, f"SIG{end}"))
    elif end == "lost":
        out.rename(out.with_name("lost"))
        shutil.rmtree(out.with_name("lost"), ignore_errors=True)
    elif end == "full":
        with suppress(OSError), (out / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
    elif end == "memory":
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + SPARE_BYTES
        resource.prlimit(process.pid, resource.RLIMIT_AS, (most, most))


@contextmanager
def place(end: str, work: Path) -> Iterator[Path]:
    """The folder of results; of its own file system where the end needs one."""
    out = work / "out"
    out.mkdir()
    if end in MOUNTED:
        size = "size=20m" + (",ro" if end == "readonly" else "")
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "kills", out], check=True)
    try:
        yield out
    finally:
        if end in MOUNTED:
            subprocess.run(["umount", out], check=True)


def left_processes(session: int) -> list[str]:
    """Processes of the session, once they had time to end; killed then."""
    until = time.monotonic() + LEFT_S
    while True:
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "-s", str(session)], capture_output=True, text=True
        ).stdout.splitlines()
        if not listed or time.monotonic() > until:
            break
        time.sleep(0.2)
    for line in listed:
        with suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)
    return listed


def expected(end: str) -> tuple[int, ...]:
    """The exit codes that an end may have."""
    if end in SIGNALS:
        number = getattr(signal, f"SIG{end}")
        return (-number if end == "KILL" else 128 + number,)
    # a study outlives a failed trial, and a training a folder that is removed
    return {"closed": (0,), "memory": (0, 2), "lost": (0, 2)}.get(end, (2,))


def try_one(verb: Verb, end: str, work: Path) -> list[str]:
    """What was wrong with one command under one end; empty if nothing."""
    faults = []
    with place(end, work) as out:
        meeting = {AT: str(work / "at"), GO: str(work / "go"), "KILLS_STEP": str(verb.step)}
        meeting |= {NEEDS: str(16 * SPARE_BYTES)} if end == "memory" else {}
        process = start_verb(verb.name, verb.words(out), work, end == "closed", **meeting)
        until = time.monotonic() + LIMIT_S
        while process.poll() is None and not (work / "at").exists():
            if time.monotonic() > until:
                break
            time.sleep(0.02)
        before = 0
        if process.poll() is None:
            before = verb.whole(out)
            prepare_end(end, process, out)
        elif end not in ("readonly", "closed"):
            faults.append("ended before it was to")
        (work / "go").touch()
        try:
            code = process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            faults.append("hangs")
            process.kill()
            code = process.wait()
        printed = (work / "printed.txt").read_text(errors="replace")
        if code not in expected(end):
            faults.append(f"code {code}, not {expected(end)}")
        if "Traceback" in printed:
            faults.append("traceback")
        if end not in ("KILL", "closed") and not printed.strip():
            faults.append("no word")
        if left := left_processes(process.pid):
            faults.append(f"{len(left)} processes left")
        kept = look(verb, out, faults)
        if end != "lost" and kept < before:
            faults.append(f"lost {before - kept} of {before} finished")
        (work / f"printed-{end}.txt").write_text(printed)
        (out / "filler").unlink(missing_ok=True) if end == "full" else None
        if end == "readonly":
            subprocess.run(["mount", "-o", "remount,rw", out], check=True)
        out.mkdir(exist_ok=True)
        faults += repeated(verb, out, work, kept)
    return faults


def look(verb: Verb, out: Path, faults: list[str]) -> int:
    """The number of finished parts; a part that is half is a fault."""
    try:
        return verb.whole(out)
    except Exception as error:  # whatever a half file gives
        faults.append(f"half: {type(error).__name__} {error}"[:150])
        return 0


def repeated(verb: Verb, out: Path, work: Path, kept: int) -> list[str]:
    """The faults of the same command, once more; a training goes on from its checkpoint."""
    resume = [f"resume={out}", "trust_network=kills:Checks"]
    resume = resume if verb.name == "train" and any(out.rglob("*.ckpt")) else []
    overwrite = ["overwrite=true"] if verb.name == "build" and kept else []
    words = resume or [*verb.words(out), *overwrite]
    code = start_verb(verb.name, words, work).wait(timeout=LIMIT_S)
    faults = [] if code == 0 else [f"repeated: code {code}"]
    if look(verb, out, faults) <= 0:
        faults.append("repeated: not finished")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verbs", default="build,train,tune,crossval,evaluate,predict,parts,learn")
    parser.add_argument("--ends", default=",".join(ENDS))
    parser.add_argument("--folder", type=Path, help="keep everything here (default: removed)")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="kills"))
    base, bad = folder / "base", 0
    base.mkdir(parents=True, exist_ok=True)
    store, model = f"data.store={base / 'store'}", f"hydra.run.dir={base / 'model'}"
    for door, *words in (
        ("build", "source=demo", f"out={base / 'store'}", *DEMO),
        ("train", *SMALL, store, model),
    ):
        if not (base / "model").exists():
            assert start_verb(door, words, base).wait() == 0, (base / "printed.txt").read_text()
    for verb in verbs(base):
        for end in given.ends.split(",") if verb.name in given.verbs.split(",") else ():
            work = folder / f"{verb.name}-{end}"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            faults = try_one(verb, end, work)
            bad += bool(faults)
            print(f"{verb.name:<9} {end:<9} {'; '.join(faults) or 'held'}", flush=True)
    if not given.folder:
        shutil.rmtree(folder)
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_slowed(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
