"""Notices that a store was rebuilt, changed or removed while it is in use."""

from dataclasses import dataclass
from pathlib import Path

from leakdet.errors import InputError


@dataclass(frozen=True)
class StoreIdentity:
    """The files of a store as they were: device, number, size and time of change of each."""

    store: Path
    files: dict[str, tuple[int, int, int, int]]

    @classmethod
    def of(cls, store: Path) -> "StoreIdentity":
        files = {}
        for path in sorted(store.glob("*.[hH]5")):
            status = path.stat()
            facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            files[path.name] = facts
        return cls(store, files)

    def check(self, kept: str) -> None:
        """Raise `InputError` where the files are others now; `kept` says what is safe."""
        now = StoreIdentity.of(self.store).files
        if now == self.files:
            return
        names = sorted({*now, *self.files})
        changed = [name for name in names if now.get(name) != self.files.get(name)]
        raise InputError(
            f"{self.store}: the store was rebuilt, changed or removed while it was used "
            f"({', '.join(changed)}), so its recordings cannot be scored. {kept}"
        )
