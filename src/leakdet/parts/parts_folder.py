"""The folder of parts: whose it is, what it was begun with, and what of it is whole."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import leakdet
from leakdet._messages import LOG
from leakdet.errors import InputError, counted, first_few
from leakdet.parts.batch import BATCH_FILES
from leakdet.parts.part_file import part_bytes
from leakdet.parts.part_rows import part_files
from leakdet.parts.recordings_db import RecordingsDb
from leakdet.scoring.summary import VerdictCounts
from leakdet.storage.atomic import whole_file
from leakdet.storage.disk_space import require_folder
from leakdet.storage.file_lock import locked
from leakdet.storage.json_file import read_json, write_json

FACTS, LIST, LOCK = "parts.json", "recordings.sqlite", "lock"
KIND = "parts of leakdet predict"
OUTCOME = "outcome"  # key in parts.json: null until all is scored
BEGINNING = {LIST, f"{LIST}-journal", LOCK}  # of a start that came no further
ANEW = "Name another folder."


@dataclass
class PartsFolder:
    """A folder of parts that this process alone may write."""

    path: Path
    db: RecordingsDb
    facts: dict[str, Any] = field(default_factory=dict)  # of parts.json; empty: not begun
    is_finished: bool = False  # parts.json tells the outcome

    def check_same(self, model_hash: str, settings: Mapping[str, Any]) -> None:
        """Check that the model and the settings are those that the folder was begun with.

        Raises:
            InputError: says what differs.
        """
        if not self.facts:
            return
        was, of_model = self.facts["settings"], self.facts["model"]
        differences = []
        if of_model["hash"] != model_hash:
            differences.append(
                f"the model was {of_model['hash']} ({of_model['path']}), and is {model_hash} now"
            )
        differences += [
            f"--{name} was {_given(was.get(name))}, and is {_given(value)} now"
            for name, value in settings.items()
            if was.get(name) != value
        ]
        if differences:
            raise InputError(
                f"--parts {self.path}: {'; '.join(differences)}. Rows of both would not go "
                "together: go on with what the folder was begun with, or name another one."
            )
        if self.facts["created_by"] != f"leakdet {leakdet.__version__}":
            LOG.warning(
                f"{self.path} was begun by {self.facts['created_by']}, and goes on with "
                f"{leakdet.__version__}: scores may differ in their last digits"
            )

    def check_columns(self, columns: Sequence[str]) -> None:
        """Check that rows have the columns of those that are there.

        Raises:
            InputError: says which they have not.
        """
        was = self.facts.get("columns", columns)
        if list(was) != list(columns):
            other = sorted({*was} ^ {*columns}) or ["in another order"]
            raise InputError(
                f"--parts {self.path}: its parts have other columns than rows have now "
                f"({', '.join(other)}; begun by {self.facts['created_by']}). {ANEW}"
            )

    def write_facts(self, **outcome: Any) -> None:
        """Write parts.json: what the folder was begun with, and the outcome, once it has one."""
        write_json(
            self.path / FACTS, {"kind": KIND, **self.facts, OUTCOME: outcome or None}, seal=True
        )

    def publish(self, number: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the part of a batch: it is there under its name when it is whole and recorded."""
        kind, counts = self.facts["settings"]["format"], VerdictCounts()
        for row in rows:
            counts.add_row(row)
        content = part_bytes(rows, self.facts["columns"], kind)
        path = self.path / f"part-{number:05}.{kind}"
        try:
            with whole_file(path) as partial:
                partial.write_bytes(content)
                self.db.record(number, _sha256(content), counts.state())
        except OSError as error:  # a full disk does not say which
            error.filename = error.filename or str(path)
            raise

    def repair(self) -> None:
        """Have the batches scored again whose parts are gone, or are not as they were written.

        What lies under the name of such a part is kept under another one.
        """
        for left in self.path.glob(".part-*"):  # of a killed process
            left.unlink()
        hashes, aside = self.db.hashes(), list[str]()
        for number, path in part_files(self.path):
            if hashes.get(number) == _sha256(path.read_bytes()):
                del hashes[number]
            else:
                aside.append(_set_aside(path).name)
        if aside:
            LOG.warning(
                f"{self.path}: {counted(len(aside), 'part')} damaged or edited, kept as "
                f"{first_few(aside, 3)}; the files are scored again"
            )
        for number in hashes:
            self.db.forget(number)
        if gone := len(hashes) - len(aside):
            LOG.info(f"parts    {gone} not finished or removed: the files are scored again")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _given(value: object) -> str:
    return "not given" if value is None else str(value)


def _set_aside(path: Path) -> Path:
    taken = len(list(path.parent.glob(f"{path.name}.changed*")))
    return path.rename(path.with_name(f"{path.name}.changed{taken or ''}"))


@contextmanager
def parts_folder(path: Path) -> Iterator[PartsFolder]:
    """The folder, made if need be, and held by this process alone until the block ends.

    Of a folder that was not begun in the block nothing is left.

    Raises:
        InputError: it is none of ours, another process writes it, or what it holds is damaged.
    """
    require_folder(path, f"--parts {path}")
    _check_ours(path)
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    with _held(path):
        try:
            facts = _facts(path)
            if not facts:
                _remove_beginning(path)
            batch_files = facts.get("batch_files", BATCH_FILES)
            with closing(RecordingsDb(path / LIST, batch_files)) as db:
                yield PartsFolder(path, db, facts, bool(facts.pop(OUTCOME, None)))
        finally:
            if not (path / FACTS).exists():
                _remove_beginning(path)
                (path / LOCK).unlink(missing_ok=True)
                if is_new:
                    with suppress(OSError):  # it was removed, or others put files there
                        path.rmdir()


def _check_ours(path: Path) -> None:
    names = {file.name for file in path.iterdir()} if path.exists() else set()
    if FACTS not in names and names - BEGINNING:
        raise InputError(
            f"--parts {path}: holds other files ({first_few(sorted(names - BEGINNING), 3)}) and no "
            f"{FACTS}; name a new folder, an empty one, or one that predict --parts began."
        )


def _facts(path: Path) -> dict[str, Any]:
    """What parts.json says; empty where the folder is not begun."""
    if not (path / FACTS).exists():
        return {}
    facts = read_json(path / FACTS, "the description of a folder of parts", ANEW)
    if facts.pop("kind", None) != KIND:
        raise InputError(f"{path / FACTS}: not the description of a folder of parts. {ANEW}")
    if not (path / LIST).exists():
        raise InputError(
            f"{path / LIST}: the list of recordings is gone, so nobody knows what is scored. Copy "
            "it back, or name another folder."
        )
    return facts


@contextmanager
def _held(path: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path / LOCK, wait=False))
        except BlockingIOError as error:
            raise InputError(
                f"--parts {path}: another process writes parts there; wait until it has ended, or "
                "name another folder."
            ) from error
        yield


def _remove_beginning(path: Path) -> None:
    for name in BEGINNING - {LOCK}:
        (path / name).unlink(missing_ok=True)
