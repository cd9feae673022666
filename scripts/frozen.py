"""Keep what the commands of leakdet compute and print, and compare it with what was kept before.

    python scripts/frozen.py keep FOLDER [--only NAME …] [--rig FOLDER]
    python scripts/frozen.py compare A B [--only NAME …]

`keep` runs the commands of whichever leakdet this Python imports, PYTHONPATH included, in a folder
of its own, one thread each. FOLDER/numbers gets every table, JSON file, model and store that they
write, FOLDER/texts what they print and their pages. Left out of both are paths, times, speeds,
versions, processes and the hashes of model files, which hold a time. `compare` ends with 1 where
numbers differ, with 2 where only texts do, else with 0.

The rig's recordings are not part of this repository: they are expected in ../shared/data/rig, or
where RIG points; without them its part is skipped.
"""

import argparse
import csv
import difflib
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import soundfile

RIG = os.environ.get("RIG", Path(__file__).resolve().parents[2] / "shared" / "data" / "rig")
VERBS = "build train tune crossval learn evaluate predict worklist export info settings".split()
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
SET = {**THREADS, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "100", "TZ": "UTC", "PYTHONUTF8": "1"}
SHOWN = 12  # differences of a file that are shown
# fields of JSON and columns of tables that hold times, versions, processes or a seal of these
UNKEPT = """created_at created_by started_at finished_at listed_at parent_made at seconds versions
    owner leakdet_blake2b""".split()
UNKEPT_FILES = re.compile(r"/logs/|/\.hydra/hydra\.yaml$")
DIGEST = re.compile(r"\b[0-9a-f]{12}(?:[0-9a-f]{52})?\b")
VARYING = {  # of texts: what another run prints otherwise
    r"(?m)^.*: \d+/\d+ [\w ]+, \d+ [\w ]+/(?:s|min|h), .* left\n": "",  # progress
    r'(?m)^.*"kind": "progress".*\n': "",
    # what a busy machine makes callbacks tell, also as wrapped by info
    r"(?m)^\S* *epoch \d+, (?:loader|callbacks|validation|memory): .*\n(?: {9}.*\n)*": "",
    r"(?m)^epoch \d+, batch \d+: waited .*\n": "",
    r"(?m)^speed    .*$": "speed    <speed>",
    r", \d+ (?:s|min|h); \d+ (?:s|min|h) left\b": ", <s>; <left>",  # of folds
    r"(?m)^( +\d+/\d+(?: +\S+){5}) +\S+ +(?:-|[\d.]+ (?:s|min|h))(?= |$)": r"\1 <s> <left>",
    r"(?m)^( +\d+ +(?:complete|pruned|fail) .*?) +\d+ +(?:-|\d+ s)$": r"\1 <rate> <left>",
    r"\d[\d.]* [kMGT]B\b": "<size>",
    r"(leakdet|torch|lightning|onnxruntime) \d+\.\d+[\w.+]*": r"\1 <version>",
    r"(?m)^.*/warnings\.txt\n": "",  # of a list of files; there may be none but the above
    r"tfevents\.\S+": "tfevents.<run>",
    r'"key": "leakdet [0-9a-f]{16}"': '"key": "<of paths and model>"',
}


class Keeper:
    """Runs commands in a work folder, and keeps what they print and write."""

    def __init__(self, folder: Path, work: Path, rig: Path) -> None:
        self.folder, self.work, self.rig, self.part = folder, work, rig, ""
        self._known: dict[Path, int] = {}  # files of the work folder, with their times
        self._models: dict[str, str] = {}  # digests of model files
        package = find_spec("leakdet")
        if package is None or package.origin is None:
            sys.exit("this Python cannot import leakdet")
        self.package = Path(package.origin).parent
        self._places = {str(work.resolve()): "<work>", str(work): "<work>", str(rig): "<rig>"}
        self._places |= {str(self.package.parents[1]): "<checkout>"}
        days = "|".join(str(datetime.now(UTC).date() + timedelta(n)) for n in (-1, 0, 1))
        clock = r"[T _]\d\d[:.-]\d\d(?:[:.-]\d\d)?(?:[.,]\d+)?(?:Z| UTC|[+-]\d\d:\d\d)?"
        self._times = re.compile(rf"(?:{days})(?:{clock})?")
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        imported = os.pathsep.join(str(Path(path).absolute()) for path in given if path)
        self._environment = {**os.environ, **SET, "PYTHONPATH": imported}

    def keep(self, part: str) -> None:
        """Run the commands of a part, and keep what they print and the files that they write."""
        self.part, listed, sounds = part, list[str](), dict[str, str]()
        for kind in ("numbers", "texts"):
            shutil.rmtree(self.folder / kind / part, ignore_errors=True)
        if part in PREPARED:
            PREPARED[part](self.work)
        for _, line in filter(lambda line: line[0] == part, LINES):
            self._run(line)
        for path in sorted(self.work.rglob("*")):
            name, changed = str(path.relative_to(self.work)), path.lstat().st_mtime_ns
            if (path.is_dir() and not path.is_symlink()) or self._known.get(path) == changed:
                continue
            self._known[path] = changed
            listed.append(f"{name} -> {path.readlink()}\n" if path.is_symlink() else f"{name}\n")
            if path.suffix in (".wav", ".npy"):
                sounds[name] = _sha256(path.read_bytes())
            elif not path.is_symlink() and not UNKEPT_FILES.search(f"/{name}"):
                self._file(path, name)
        self._text("files.txt", "".join(listed))
        self._numbers("sounds", sounds)

    def _run(self, line: str) -> None:
        """Run a line of a part, and keep what it prints."""
        name, _, told = line.partition(": ")
        told, _, code = told.partition(" = ")
        told, _, file = told.partition(" > ")
        for short, long in SHORTHAND.items():
            told = told.replace(short, long)
        words = ["leakdet", *(path for word in told.split() for path in self._expanded(word))]
        process = subprocess.run(
            [sys.executable, "-m", *words], cwd=self.work, env=self._environment,
            stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        told, out = f"$ {' '.join(words)}\nends with {process.returncode}", process.stdout
        if process.returncode != int(code or 0) or "Traceback" in process.stderr:
            sys.exit(f"{told}, not {code or 0}\n{out}\n{process.stderr}")
        if file:
            _write(self.work / file, out)
            out = f"(in {file})\n"
        for path in sorted(self.work.rglob("*")):
            if path.suffix in (".safetensors", ".onnx", ".ckpt") and not path.is_symlink():
                for digest in (full := _sha256(path.read_bytes()), full[:12]):
                    self._models.setdefault(digest, f"<hash of {path.relative_to(self.work)}>")
        self._text(f"{name}.txt", f"{told}\n--- stdout\n{out}--- stderr\n{process.stderr}")

    def _expanded(self, word: str) -> list[str]:
        """The word, with the rig's folder, or the paths that a shell makes of a glob."""
        setting, equals, place = word.replace("RIG/", f"{self.rig}/").rpartition("=")
        found = sorted(self.work.glob(place)) if "*" in place else []
        places = [str(path.relative_to(self.work)) for path in found] or [place]
        return [f"{setting}{equals}{path}" for path in places]

    def _same(self, text: str) -> str:
        """The text without what each run has otherwise, be it of numbers or texts."""
        for path, name in self._places.items():
            text = text.replace(path, name)
        return DIGEST.sub(lambda found: self._models.get(found[0], found[0]), text)

    def _text(self, name: str, text: str) -> None:
        text = self._times.sub("<time>", self._same(text))
        for pattern, put in VARYING.items():
            text = re.sub(pattern, put, text)
        if text:
            _write(self.folder / "texts" / self.part / name, text)

    def _numbers(self, name: str, content: Any) -> None:
        """Keep a value of JSON, a line for each number and text in it: its place, a tab, itself."""
        lines = "\n".join(f"{place}\t{value}" for place, value in self._leaves(content))
        _write(self.folder / "numbers" / self.part / f"{name}.txt", f"{lines}\n")

    def _leaves(self, value: Any, place: str = "") -> Iterator[tuple[str, str]]:
        inside = dict(enumerate(value)) if isinstance(value, list) else value
        if value and place.rpartition("/")[2] in UNKEPT:
            yield place, "not kept"
        elif isinstance(inside, dict) and inside:
            for key, one in inside.items():
                yield from self._leaves(one, f"{place}/{self._same(str(key))}")
        else:
            yield place, repr(self._same(value) if isinstance(value, str) else value)

    def _file(self, path: Path, name: str) -> None:
        """Keep a file, if it is of a kind that holds numbers or texts."""
        if path.suffix in (".txt", ".yaml", ".html", ".json", ".geojson", ".jsonl"):
            text = path.read_text(encoding="utf-8")
        match path.suffix:
            case ".csv":
                self._numbers(name, _rows(path))
            case ".json" | ".geojson":
                self._numbers(name, json.loads(text))
            case ".jsonl":
                self._numbers(name, list(map(json.loads, text.splitlines())))
            case ".parquet":
                import pyarrow.parquet

                table = pyarrow.parquet.read_table(path)
                self._numbers(name, [str(table.schema), *table.to_pylist()])
            case ".h5":
                self._numbers(name, self._store(path))
            case ".safetensors":
                self._numbers(name, _safetensors(path.read_bytes()))
            case ".onnx":
                self._numbers(name, _graph(path))
            case ".txt" | ".yaml" | ".html":
                text = _page_text(text) if path.suffix == ".html" else text
                self._text(f"{name.removesuffix('.txt')}.txt", text)

    def _store(self, path: Path) -> dict[str, Any]:
        """Attributes and data sets of an HDF5 file."""
        found: dict[str, Any] = {}

        def add(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                texts = item.dtype.kind == "O"
                values = [self._same(one.decode()) for one in item[:]] if texts else item[()]
                data = np.ascontiguousarray(values).tobytes()
                found[name] = [str(item.dtype), list(item.shape), _sha256(data)]

        with h5py.File(path) as file:
            file.visititems(add)
            return {**{key: str(value) for key, value in file.attrs.items()}, "data sets": found}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


def _safetensors(content: bytes) -> dict[str, Any]:
    """Card and tensors of a model file."""
    size = 8 + int.from_bytes(content[:8], "little")
    head = json.loads(content[8:size])
    card = json.loads(head.pop("__metadata__")["leakdet"])
    for tensor in head.values():
        begin, end = tensor.pop("data_offsets")
        tensor["sha256"] = _sha256(content[size + begin : size + end])
    return {"card": card, "tensors": head}


def _graph(path: Path) -> dict[str, Any]:
    """Operators, the whole graph and descriptions of an `.onnx` file."""
    import onnx

    model = onnx.load(path)
    described = ("leakdet", "leakdet_host", "test_vectors")
    told = {e.key: json.loads(e.value) for e in model.metadata_props if e.key in described}
    operators = dict(Counter(node.op_type for node in model.graph.node))
    return {"operators": operators, "graph": _sha256(model.graph.SerializeToString()), **told}


def _page_text(page: str) -> str:
    """The words of a page, and the JSON in it, a line for each element."""
    page = re.sub(r"(?is)<(style|svg)\b.*?</\1>", "", page)
    page = re.sub(r'(?is)<script(?! type="application/json").*?</script>', "", page)
    page = re.sub(r"data:[\w/;-]+,[\w+/=]+", "<data>", re.sub(r"(?s)<[^>]*>", "\n", page))
    page = html.unescape(page).replace("], [", "],\n[").replace("}, {", "},\n{")
    lines = [" ".join(line.split()) for line in page.splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def _write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


# PART NAME: WORD… [> FILE] [= EXIT CODE]; FILE gets the standard output
COMMANDS = """
smoke train: train TRAIN experiment=smoke data.cache=smoke-demo RUN=smoke
smoke info: info smoke smoke/model.safetensors smoke-demo/demo-*
smoke card: info --markdown smoke/model.safetensors
sounds build: build source=demo out=sounds waveform=int16 DEMO demo.sites=9 demo.seed=7
sounds info: info sounds sounds/train.h5
build folders: build source=folders out=store labels.leak=[LEAK] workers=2 = 1
build table: build source=first.csv out=first split.group_by=[site] like=sounds
build added: build source=later.csv add_to=first
build ailh: build source=heard.csv out=ailh signal=ailh compression=gzip
build info: info store first ailh
variants linear: train TRAIN SHORT data.store=sounds network=linear LOSS RUN=runs/linear
variants classes: train TRAIN SHORT data.store=store labels=multiclass network=compact RUN=runs/classes
variants dual: train TRAIN SHORT data.store=ailh experiment=ailh data.residency=stream RUN=runs/dual
variants info: info runs runs/linear runs/classes runs/dual
variants card: info --markdown runs/classes/model.safetensors
demo train: train TRAIN demo.sites=12 demo.recordings_per_site=5 EPOCHS=5 RUN=trained
demo info: info trained
predict rows: predict smoke new NAMED --out rows.csv --windows --suggest 6 --labels l --clips c = 1
predict lines: predict smoke heard.csv --format jsonl --windows --log json > lines.jsonl
predict policy: predict smoke heard.csv --policy min_tpr=0.95 --unfamiliar strict > policy.csv
predict parts: predict smoke new NAMED --parts parts = 1
predict again: predict smoke new NAMED --parts parts --new-only
predict parquet: predict smoke heard.csv --parts parquet --format parquet --threshold 0.3
predict classes: predict runs/classes new --labels t --labels-format audacity > classes.csv = 1
evaluate one: evaluate smoke sounds --split train --group-by site --out evaluated
evaluate two: evaluate smoke runs/linear sounds --out compared
evaluate classes: evaluate runs/classes store --out judged
evaluate info: info evaluated
crossval folds: crossval TRAIN SHORT data.store=sounds crossval.folds=3 RUN=folds
crossval info: info folds
tune study: tune TRAIN SHORT DEMO demo.sites=6 search=small tune.n_trials=3 tune.folder=study
tune info: info study
learn target: learn TRAIN LEARN model=smoke learn.from=target learn.publish=used.safetensors RUN=new
learn joint: learn TRAIN LEARN SHORT model=new learn.from=joint learn.unverified=true RUN=joint
learn info: info new joint used.safetensors
export float32: export smoke --out model.onnx --check new/stereo.flac --licence MIT
export rows: predict model.onnx new > onnx.csv = 1
export evaluate: evaluate model.onnx smoke sounds --out as-onnx
export info: info model.onnx
export card: info --markdown model.onnx
worklist nights: worklist nights.csv --out list.html --dig-cost 2000 --leak-cost 15000
worklist scored: predict smoke heard.csv --parts scored --workers 2
worklist heard: worklist scored --out ranked.html --old-odds 1 --top 5
worklist points: worklist nights.csv scored --out both.geojson
rig build: build source=RIG/recordings.csv out=rig labels.leak=[leak] workers=2
rig train: train TRAIN data.store=rig EPOCHS=4 RUN=rig-run
rig predict: predict rig-run RIG/recordings.csv --out rig.csv --workers 2
rig info: info rig rig-run
help leakdet: --help
help version: --version
help completion: completion bash
help train-cfg: train --cfg job
help wrong-verb: trian = 2
help wrong-setting: train optimiser.lr=1 = 2
help wrong-value: tune patience=0 = 2
help wrong-option: predict --up = 2
help wrong-path: info nowhere = 2
"""
COMMANDS += "".join(f"help {verb}: {verb} --help\n" for verb in VERBS)
COMMANDS += "".join(f"help settings-{verb}: settings {verb}\n" for verb in VERBS[:5])
LINES = [line.split(" ", 1) for line in COMMANDS.splitlines() if line]
PARTS = list(dict.fromkeys(part for part, _ in LINES))
# what others need, each what stands before it; these need nothing
FIRST, ALONE = PARTS[:4], {"smoke", "sounds", "demo", "tune", "rig", "help"}
SHORTHAND = {
    "LOSS": "loss=focal data.sampling=natural",
    "RUN=": "hydra.run.dir=",
    "SHORT": "EPOCHS=2 stop.name=val",
    "EPOCHS=": "trainer.max_epochs=",
    "TRAIN": "data.cache=cache seed=0 threads=1",
    "DEMO": "demo.recordings_per_site=4 demo.duration_s=2.0",
    "NAMED": "--name-pattern {site}_{recorded_at:%Y%m%d_%H%M} --workers 2",
    "LEARN": "learn.new=confirmed.csv data.store=smoke-demo/demo-* learn.steps=20 learn.folds=2",
}


def write_sources(work: Path) -> None:
    """The sounds as a table, in folders by label and as new recordings, with odd files."""
    rows = _rows(work / "sounds/manifest.csv")
    for number, row in enumerate(rows):
        day, row["path"] = 1 + number % 4, f"sounds/{row['path']}"
        row |= {"recorded_at": f"2019-05-{day:02}T02:30", "lat": f"50.{number // 4}", "lon": "8.7"}
        places = [f"folders/{'pump' if number % 9 == 4 else row['label']}/{number}.wav"]
        places += [f"new/{row['site']}_2019050{day}_0230.wav"] * (number < 16)
        for place in places:
            (work / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(work / row["path"], work / place)
    for name, some in (("heard", rows), ("first", rows[:28]), ("later", rows[28:])):
        _write_rows(work / f"{name}.csv", some)
    noise = 0.1 * np.random.default_rng(0).standard_normal((3 * 44100, 2))
    for folder in (work / "new", work / "folders/NOLEAK"):
        soundfile.write(folder / "stereo.flac", noise, 44100)
        soundfile.write(folder / "low.wav", noise[:16000, 0], 4000)
        soundfile.write(folder / "short.wav", noise[:6000, 0], 16000)
        soundfile.write(folder / "silent.wav", np.zeros(32000), 16000)
        soundfile.write(folder / "clipped.wav", np.clip(90 * noise[:32000, 1], -1, 1), 16000)
        (folder / "cut.wav").write_bytes((folder / "clipped.wav").read_bytes()[:50001])
        (folder / "broken.wav").write_bytes(b"RIFF nothing")


def write_confirmed(work: Path) -> None:
    """What recordings turned out to be; of every fourth nobody knows."""
    rows = _rows(work / "heard.csv")
    for number, row in enumerate(rows):
        row["label"] = "" if number % 4 == 3 else "leak" if row["label"] == "LEAK" else "dry_hole"
    _write_rows(work / "confirmed.csv", rows)


def write_nights(work: Path) -> None:
    """Rows of 16 sites over 24 nights: some leak, one always hums, one logger falls silent."""
    rng, since, rows = np.random.default_rng(0), {0: 18, 1: 20, 2: 8, 3: 0, 4: 21}, []
    for night, site in np.ndindex(24, 16):
        leaks = night >= since.get(site, 99)
        score = 1 / (1 + np.exp(-rng.normal(2.5 if leaks else -2.5, 1.0)))
        row = {"path": f"{night}/{site}.wav", "site": f"S{site}", "logger": f"L{site % 4}"}
        row |= {"recorded_at": f"2019-05-{1 + night:02}T02:30", "model": "made up"}
        row |= {"decision": "leak" if score >= 0.5 else "no_leak", "leak_prob": f"{score:.6f}"}
        row |= {"quiet_level_dbfs": f"{rng.normal(-60 if leaks else -70, 1.5):.2f}"}
        row |= {"threshold": "0.5", "lat": f"50.{site:02}" if site != 7 else "", "lon": "8.7"}
        rows += [row] * (site != 5 or night < 15)
    _write_rows(work / "nights.csv", rows)


PREPARED = {"build": write_sources, "learn": write_confirmed, "worklist": write_nights}


def keep(folder: Path, only: list[str], rig: Path) -> int:
    """Keep the parts asked for, and those that they need; gives the exit code."""
    wanted = set(only or PARTS)
    for part in wanted - ALONE:
        wanted |= set(FIRST[: FIRST.index(part)] if part in FIRST else FIRST)
    if "rig" in wanted and not (rig / "recordings.csv").is_file():
        print(f"skipped  rig: there is no {rig / 'recordings.csv'}")
        wanted.remove("rig")
    for kind in ("numbers", "texts") if not only else ():
        shutil.rmtree(folder / kind, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="frozen-") as work:
        keeper = Keeper(folder, Path(work), rig)
        print(f"leakdet  {keeper.package}", flush=True)
        for name in (name for name in PARTS if name in wanted):
            began = time.monotonic()
            keeper.keep(name)
            print(f"{name:<9}{time.monotonic() - began:.0f} s", flush=True)
    return 0


def compare(a: Path, b: Path, only: list[str]) -> int:
    """Print how two kept folders differ; gives the exit code."""
    differ = {"texts": 0, "numbers": 0}
    for kind in differ:
        was, now = (_files(kept / kind, only) for kept in (a, b))
        if not (was and now):
            sys.exit(f"{a if not was else b} holds no {kind} of these parts")
        for name in sorted(was.keys() | now.keys()):
            old, new = was.get(name), now.get(name)
            if old != new:
                differ[kind] += 1
                print(f"\n{kind}/{name}")
                if old is None or new is None:
                    print(f"only in {b if old is None else a}")
                else:
                    (_tell_numbers if kind == "numbers" else _tell_texts)(old, new)
    print(", ".join(f"{kind}: {count} files differ" for kind, count in differ.items()))
    return 1 if differ["numbers"] else 2 if differ["texts"] else 0


def _files(kept: Path, only: list[str]) -> dict[str, str]:
    paths = [path for part in only or [""] for path in (kept / part).rglob("*") if path.is_file()]
    return {str(path.relative_to(kept)): path.read_text(encoding="utf-8") for path in paths}


def _tell_texts(was: str, now: str) -> None:
    lines = was.splitlines(), now.splitlines()
    print("\n".join(difflib.unified_diff(*lines, "before", "after", lineterm="")))


def _tell_numbers(was: str, now: str) -> None:
    """Print the first differences, by place."""
    old, new = (dict(line.split("\t", 1) for line in text.splitlines()) for text in (was, now))
    places = [place for place in {**old, **new} if old.get(place) != new.get(place)]
    for place in places[:SHOWN]:
        print(f"{place}: {old.get(place, 'nothing')} became {new.get(place, 'nothing')}")
    print(f"{len(places)} differ" if places else "the order differs")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keeping, comparing = commands.add_parser("keep"), commands.add_parser("compare")
    keeping.add_argument("folder", type=Path)
    keeping.add_argument("--rig", type=Path, default=Path(RIG))
    comparing.add_argument("a", type=Path)
    comparing.add_argument("b", type=Path)
    for command in (keeping, comparing):
        command.add_argument("--only", nargs="+", choices=PARTS, default=[], metavar="NAME")
    given = parser.parse_args()
    if given.command == "compare":
        return compare(given.a, given.b, given.only)
    return keep(given.folder.absolute(), given.only, given.rig.absolute())


if __name__ == "__main__":
    sys.exit(main())
