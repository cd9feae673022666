"""Damaged files of every kind that leakdet reads, and what becomes of each.

`python scripts/mutations.py [--count N] [--kind wav …] [--out TABLE.md]` makes N mutations of a file
of each kind: a byte, a run of bytes, a cut, an insertion. Two processes read them, each with a time
limit. Exits with 1 if one ends in a traceback, a hang or a crash, or changes a verdict unnoticed.
"""

import argparse
import ast
import io
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
from contextlib import suppress
from pathlib import Path
from typing import Any

from mutation_kinds import (
    FLAGGED,
    OTHER,
    OUTCOMES,
    SAME,
    SENTENCE,
    WRONG,
    Kind,
    kinds,
    make,
    read_sound,
)

LIMIT_S, START_S, MEMORY_BYTES, PROCESSES = 20, 120, 8 << 30, 2


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

    readers = [Reader(materials, number) for number in range(PROCESSES)]
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="mutations of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--kind", nargs="*", help="names of kinds; default: all")
    parser.add_argument("--seconds", type=float, default=570, help="begin none after so long")
    parser.add_argument("--store", type=Path, help="a store of the demo; default: one is built")
    parser.add_argument("--run", type=Path, help="a training on it; default: one is run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, trained = arguments.store or folder / "demo", arguments.run or folder / "trained"
        for missing, *verb in (
            (arguments.store is None, "build", "source=demo", f"out={store}"),
            (
                arguments.run is None,
                "train",
                "experiment=smoke",
                f"data.store={store}",
                f"hydra.run.dir={trained}",
            ),
        ):
            if missing:
                subprocess.run([sys.executable, "-m", "leakdet", *map(str, verb)], check=True)
        (folder / "materials").mkdir()
        make(folder / "materials", store, trained)
        table = run(arguments, folder / "materials")
    print(table_text(table))
    return int(any(counts[WRONG] for counts in table.values()))


if __name__ == "__main__":
    sys.exit(main())
