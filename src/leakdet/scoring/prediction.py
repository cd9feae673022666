"""One verdict after the other into rows that replace nothing unasked, their summary and note."""

import csv
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leakdet
from leakdet.core.errors import InputError, counted
from leakdet.core.files import write_json
from leakdet.core.locations import Location, RemoteFile, errors_naming
from leakdet.core.messages import LOG, log_results
from leakdet.core.progress import ProgressCounter
from leakdet.detection.decision import DecisionRule
from leakdet.detection.source_rates import SourceRates
from leakdet.scoring.listing import FileList
from leakdet.storage.model_card import ModelVerdict
from leakdet.tables.read import read_table
from leakdet.tables.schema import (
    LABEL,
    ROW_MARKS,
    WINDOW_COLUMNS,
    Verdict,
    is_formula,
    row_columns,
)
from leakdet.tables.workbooks import is_workbook
from leakdet.tables.write import PARTIAL, is_regular, row_writer, windows_file

if TYPE_CHECKING:
    from leakdet.detection.detector import MelDetector
    from leakdet.scoring.detector import Detector


def verdict_text(file_hash: str, card: Mapping[str, Any]) -> str:
    """A model by its hash, and what its own evaluation said of it."""
    verdict = ModelVerdict.of(card)
    text = f"model    {file_hash}: {verdict}"
    if card.get("verdict") and verdict.grade != "good":
        text += "\nnote     confirm its verdicts by other evidence before you dig"
    return text


def model_text(detector: "MelDetector", decided_anew: str = "") -> str:
    """The model, what its own evaluation said of it, and by which other threshold it decides."""
    lines = [verdict_text(detector.file_hash, detector.card)]
    if detector.reference is None:
        lines.append(
            "note     the file does not say what its training recordings sound like: sounds unlike "
            "them (rain, taps, another sensor) are decided as any other"
        )
    elif detector.rule.unfamiliar == "off":
        lines.append(
            "note     familiarity was not judged (unfamiliar is off): sounds unlike the training "
            "recordings (rain, taps, another sensor) are decided as any other; the column "
            "familiarity tells them"
        )
    if detector.sources is None and detector.rule.source == "rate":
        lines.append(
            "note     the file knows no sample rate of training recordings: those of another "
            "logger are decided as any other"
        )
    if decided_anew:
        lines.append(f"note     {decided_anew}")
    return "\n".join(lines)


def columns_by(detector: "MelDetector", listed: Sequence[str] = ()) -> list[str]:
    """The columns of rows by this model, with those of a list."""
    signal, labels = detector.signal, detector.labels
    by_channel = signal is not None and signal.channels == "each"
    return row_columns(by_channel, labels.names if labels.tells_classes else (), listed)


NAMED = 3  # recordings that failed


class VerdictCounts:
    """Counts of recordings by verdict and flag, and of the undecided ones by reason."""

    def __init__(self, defused: bool = False) -> None:
        self._defused = defused  # no cell of the rows is read as a formula
        self._decisions = Counter({"leak": 0, "no_leak": 0, "undecided": 0, "failed": 0})
        self._reasons: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        self._classes: Counter[str] = Counter()
        self._other_rates: Counter[str] = Counter()  # Hz, of reason other_source
        self._decided_rates: Counter[str] = Counter()
        self._channels = self._spans = self._files = self._formulas = 0
        self._failures: list[str] = []  # the first of them, with their reasons

    def add(self, row: Mapping[str, Any]) -> None:
        """Count the verdict of a row, as `Verdict.to_dict` gives it."""
        self._decisions[row["decision"] or "failed"] += 1
        if not row["decision"] and len(self._failures) < NAMED:
            self._failures.append(f"{row['path']}: {row['error']}")
        self._reasons[row["reason"]] += 1
        self._flags.update(flag for flag in row["flags"].split(",") if flag)
        if row["reason"] == "other_source":
            self._other_rates[str(row["source_rate_hz"])] += 1
        elif row["decision"] in ("leak", "no_leak") and row.get("source_rate_hz"):
            self._decided_rates[str(row["source_rate_hz"])] += 1
        if row.get("class") is not None:
            self._classes[row["class"]] += 1
        channel = row.get("channel", 0)
        self._channels += channel > 0
        self._files += channel <= 1
        self._spans += row.get("end_s") is not None
        self._formulas += 0 if self._defused else sum(map(is_formula, row.values()))

    def state(self) -> dict[str, Any]:
        """Plain values, which `merge` takes."""
        return {
            "decisions": self._decisions,
            "reasons": self._reasons,
            "flags": self._flags,
            "classes": self._classes,
            "other_rates": self._other_rates,
            "decided_rates": self._decided_rates,
            "channels": self._channels,
            "spans": self._spans,
            "files": self._files,
            "formulas": self._formulas,
        }

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add what was counted elsewhere."""
        self._decisions.update(state["decisions"])
        self._reasons.update(state["reasons"])
        self._flags.update(state["flags"])
        self._classes.update(state["classes"])
        self._other_rates.update(state.get("other_rates", {}))
        self._decided_rates.update(state.get("decided_rates", {}))
        self._channels += state["channels"]
        self._spans += state.get("spans", 0)
        self._files += state["files"]
        self._formulas += state.get("formulas", 0)  # parts of older versions lack it

    def log(self, rule: DecisionRule, sources: SourceRates | None) -> None:
        """Log the counts in words, as JSON in numbers too, and what to do about the undecided."""
        LOG.info(str(self), extra={"facts": {"kind": "counts", **self.to_json()}})
        if self._formulas:
            LOG.warning(
                f"{counted(self._formulas, 'cell')} of the rows would be a formula in a "
                "spreadsheet: import them as text there (SECURITY.md)"
            )
        log_results([*self._failed_sentences(), *self.undecided_sentences(rule, sources)])

    def _failed_sentences(self) -> list[str]:
        lines = [f"failed   {failure}" for failure in self._failures]
        if more := self.failed - len(lines) if lines else 0:
            lines.append(f"         and {more} more, with the reason in the column error")
        return lines

    def undecided_sentences(self, rule: DecisionRule, sources: SourceRates | None) -> list[str]:
        """Sentences on what is too close to call, and on what other loggers recorded."""
        sentences = []
        if count := self._reasons["doubt"]:
            are = "is" if count == 1 else "are"
            sentences.append(
                f"doubt    {count} of {self.total} {are} too close to call ({rule.doubt_text()}): "
                f"listen to {'it' if count == 1 else 'these'} first."
            )
        if sources is not None:
            rates = self._other_rates.most_common()
            sentences += [f"source   {sources.sentence(int(rate), n)}" for rate, n in rates]
            sentences += [
                f"source   {sources.sentence(int(rate), n, decided=True)}"
                for rate, n in self._decided_rates.most_common()
                if int(rate) not in sources.known_hz
            ]
        return sentences

    @property
    def failed(self) -> int:
        return self._decisions["failed"]

    @property
    def total(self) -> int:
        return self._decisions.total()

    def __str__(self) -> str:
        why = ", ".join(f"{count} {reason}" for reason, count in self._reasons.items() if reason)
        decisions = {name: f"{count} {name}" for name, count in self._decisions.items()}
        decisions["undecided"] += f" ({why})" if why else ""
        kind = "channel" if self._channels else "recording" if self._spans else "file"
        what = counted(self.total, kind)
        what += f" of {counted(self._files, 'file')}" if self._channels else ""
        text = f"{what}: {', '.join(decisions.values())}"
        for kind, counts in (("classes", self._classes), ("flags", self._flags)):
            if counts:
                listed = (f"{count} {name}" for name, count in counts.most_common())
                text += f"\n{kind}: {', '.join(listed)}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Plain values: how many recordings, and how many by decision, reason and flag."""
        reasons = {reason: count for reason, count in self._reasons.items() if reason}
        return {
            "recordings": self.total,
            "decisions": dict(self._decisions),
            "reasons": reasons,
            "flags": dict(self._flags.most_common()),
            **({"classes": dict(self._classes.most_common())} if self._classes else {}),
        }


def sidecar_path(out: Path) -> Path:
    """`verdicts.csv.json` beside `verdicts.csv`."""
    return out.with_name(f"{out.name}.json")


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_sidecar(
    out: Path,
    detector: "Detector",
    counts: "VerdictCounts",
    *,
    inputs: Sequence[str],
    left_out: Sequence[str],
    settings: Mapping[str, Any],
    started_at: str,
) -> None:
    """Write the sidecar of the rows in `out` atomically.

    `left_out` says what of `inputs` was not listed, `settings` are those of the command.
    """
    content = {
        "rows": out.name,
        "started_at": started_at,
        "finished_at": now(),
        **run_facts(detector, settings),
        "inputs": list(inputs),
        "left_out": list(left_out),
        **counts.to_json(),
    }
    write_json(sidecar_path(out), content)


def run_facts(detector: "Detector", settings: Mapping[str, Any]) -> dict[str, Any]:
    """What makes rows: version, model with its own verdict, decision rule, signal, settings."""
    model, path = detector.mel_detector, detector.path
    return {
        "created_by": f"leakdet {leakdet.__version__}",
        "model": {
            "path": str(path.resolve() if isinstance(path, Path) else path),  # not a link to it
            "hash": model.file_hash,
            "created_by": model.card.get("created_by"),
            "created_at": model.card.get("created_at"),
            "verdict": model.card.get("verdict"),
        },
        "decision_rule": model.rule.to_json(),
        "source_rates": model.sources.to_json() if model.sources else None,
        "decided_anew": detector.decided_anew or None,
        "signal": asdict(model.signal) if model.signal else None,
        "settings": {**settings, "device": model.device},
    }


def check_replaceable(out: Path, windows: bool) -> None:
    """Check that predict itself wrote what lies where `out` and the files beside it will be."""
    if not is_regular(out):
        return
    own: list[tuple[Path, Callable[[Path], bool]]] = [(out, _are_rows)]
    own.append((sidecar_path(out), lambda path: _json(path).get("rows") == out.name))
    if windows:
        own.append((windows_file(out), lambda path: {*WINDOW_COLUMNS} <= {*_header(path)}))
    for path, is_own in own:
        if path.is_file() and path.stat().st_size and not is_own(path):
            raise InputError(
                f"--out {out}: {path} would be replaced, and predict did not write it, or it was "
                "edited since; choose another name."
            )


def _are_rows(path: Path) -> bool:
    if is_workbook(path):
        columns = {*read_table(path).columns}
        return columns >= ROW_MARKS and LABEL not in columns
    columns = {*_json(path, first_line=True)} or {*_header(path)}
    if len(columns) < 2 and not any(mark in name for name in columns for mark in "\0{["):
        return True  # no table, no JSON, no binary file: as with a shell's own output
    return columns >= ROW_MARKS and LABEL not in columns  # a manifest has it


def _header(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        return next(csv.reader([file.readline(1 << 16)]), [])


def _json(path: Path, first_line: bool = False) -> dict[str, object]:
    """The object that the file holds, or its first line; empty if it is none."""
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.readline() if first_line else file.read()
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


@contextmanager
def local_rows(out: Location | None, windows: bool = False) -> Iterator[Path | None]:
    """The local file to write rows to; at the end it is put to `out` with those beside it.

    An empty `NAME.partial` there shows beforehand that files may be written, and is removed in the
    end. Where the work or the transfer fails, the rows that were written stay on this machine.
    """
    if not isinstance(out, RemoteFile):
        yield out
        return
    folder = Path(tempfile.mkdtemp(prefix="leakdet-rows-"))
    local, marker = folder / out.name, out.parent / (out.name + PARTIAL)
    try:
        _check_place(out, marker, folder, windows)
        with errors_naming(out, local):
            yield local
        _put(out, local)
    except BaseException:
        if not any(path.stat().st_size for path in folder.iterdir() if path.is_file()):
            shutil.rmtree(folder)  # it holds no rows
        raise
    finally:
        with suppress(InputError):
            marker.remove()
    shutil.rmtree(folder)


def _check_place(out: RemoteFile, marker: RemoteFile, folder: Path, windows: bool) -> None:
    """Look at what is there by copies of it, and try whether files may be written."""
    earlier = folder / "earlier"
    earlier.mkdir()
    copy = earlier / (out.name or "none")
    try:
        if not out.name or out.url.endswith("/"):
            raise InputError("this is a folder; name a file in it")
        for file in (copy, sidecar_path(copy), *[windows_file(copy)] * windows):
            earlier_file = out.parent / file.name
            if earlier_file.exists():
                if earlier_file.is_folder():
                    raise InputError("this is a folder; name a file in it")
                file.write_bytes(earlier_file.read_bytes())
        (earlier / "empty").touch()
        marker.put(earlier / "empty")
    except InputError as error:
        raise InputError(f"--out {out}: {error}.") from error
    with errors_naming(out.parent, earlier):
        check_replaceable(copy, windows)
    shutil.rmtree(earlier)


def _put(out: RemoteFile, local: Path) -> None:
    for file in (windows_file(local), local, sidecar_path(local)):  # it tells of the others
        if file.exists():
            try:
                (out.parent / file.name).put(file)
            except InputError as error:
                raise InputError(
                    f"--out {out}: cannot be written ({error}). The rows are whole in {local}; "
                    "copy them from there."
                ) from error


def write_verdicts(
    detector: "Detector",
    paths: Sequence[str],
    listed: FileList,
    out: Path | None = None,
    kind: str = "csv",
    windows: bool = False,
    workers: int = 0,
    observers: Sequence[Callable[[Verdict], None]] = (),
) -> VerdictCounts:
    """Score the files that `paths` gave, write their rows, and count their verdicts.

    `kind` and `windows` as for `row_writer`. Each of `observers` is called with every verdict.
    Beside a whole file of rows a sidecar is written.
    """
    verdicts = detector.predict_listed(listed.recordings, workers)
    counts, started_at = VerdictCounts(defused=kind == "xlsx"), now()
    header = columns_by(detector.mel_detector, listed.listing.columns)
    with (
        row_writer(out, kind, windows, header) as write,
        ProgressCounter("scoring", len(listed.recordings), "files") as progress,
    ):
        for verdict in verdicts:
            row = verdict.to_dict()
            write(row)
            counts.add(row)
            progress.step(int(verdict.channel <= 1))  # once a file
            for observe in observers:
                observe(verdict)
    if out is not None and is_regular(out):
        write_sidecar(
            out,
            detector,
            counts,
            inputs=paths,
            left_out=listed.listing.sentences(),
            settings={"format": kind, "windows": windows, "workers": workers},
            started_at=started_at,
        )
    return counts
