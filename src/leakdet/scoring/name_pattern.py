"""Reads columns out of the names of files: `--name-pattern '{site}_{recorded_at:%Y%m%d_%H%M}'`."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from string import Formatter

from leakdet._remote import RemoteFile
from leakdet.errors import SettingsError
from leakdet.storage.reserved_columns import is_reserved
from leakdet.storage.time_text import iso_text

# what each directive of strptime stands for in a name
DIRECTIVES = {
    "Y": r"\d{4}", "y": r"\d\d", "m": r"\d\d", "d": r"\d\d", "j": r"\d{3}",
    "H": r"\d\d", "I": r"\d\d", "M": r"\d\d", "S": r"\d\d", "f": r"\d{1,6}",
    "b": "[A-Za-z]{3}", "p": "[AaPp][Mm]", "z": r"(?:Z|[+-]\d\d:?\d\d)", "%": "%",
}  # fmt: skip
HOURS = re.compile("%[HIMSfpz]")  # a format with none of them names a day
HELP = (
    "{site} and any other {name} stand for text, {} for text that is not kept, "
    "{recorded_at:%Y%m%d_%H%M} for a time, and everything else for itself"
)


class NamePattern:
    """Columns of recordings by the names of their files, without their suffix.

    A pattern with slashes is about as many folders above, too. A field takes as little as
    possible, at least one character and no slash. Times become ISO 8601.

    Raises:
        SettingsError: says what is wrong with the pattern and what is allowed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._formats: dict[str, str] = {}
        parts = [re.escape(literal) + field for literal, field in self._fields()]
        self.columns = tuple(self._formats)
        if not self.columns:
            raise self._wrong("it has no field")
        self._depth = text.count("/") + 1
        self._match = re.compile("".join(parts)).fullmatch

    def _fields(self) -> list[tuple[str, str]]:
        try:
            parsed = list(Formatter().parse(self.text))
        except ValueError as error:
            raise self._wrong(str(error)) from error
        return [
            (literal, "" if name is None else self._field(name, form or "", conversion))
            for literal, name, form, conversion in parsed
        ]

    def _field(self, name: str, form: str, conversion: str | None) -> str:
        if not name and not form:
            return "[^/]+?"
        if not name.isidentifier() or conversion:
            raise self._wrong(f"{name or 'a field'!r} is no name of a column")
        if is_reserved(name):
            raise self._wrong(f"leakdet writes a column {name} itself")
        if name in self._formats:
            raise self._wrong(f"{name} occurs twice")
        self._formats[name] = form
        return f"(?P<{name}>{self._format(form) if form else '[^/]+?'})"

    def _format(self, form: str) -> str:
        pieces = re.split(r"%(.?)", form)
        for directive in pieces[1::2]:
            if directive not in DIRECTIVES:
                known = " ".join(f"%{letter}" for letter in DIRECTIVES)
                raise self._wrong(f"%{directive} is none of {known}")
        if len(pieces) == 1:
            raise self._wrong(f"{form!r} is no format of a time, such as %Y%m%d_%H%M")
        pieces[0::2] = map(re.escape, pieces[0::2])
        pieces[1::2] = [DIRECTIVES[directive] for directive in pieces[1::2]]
        return "".join(pieces)

    def _wrong(self, why: str) -> SettingsError:
        return SettingsError(f"--name-pattern {self.text!r}: {why}. {HELP}.")

    def read(self, path: Path | RemoteFile) -> Mapping[str, str] | None:
        """The columns that a name tells; None where it does not match, or a time is none."""
        found = self._match("/".join([*path.parts[:-1], path.stem][-self._depth :]))
        if found is None:
            return None
        try:
            return {name: _told(name, found[name], form) for name, form in self._formats.items()}
        except ValueError:  # the 31st of February
            return None


def _told(name: str, text: str, form: str) -> str:
    if not form:
        return (name == "recorded_at" and iso_text(text)) or text
    moment = datetime.strptime(text, form)  # noqa: DTZ007  as told
    return (moment if HOURS.search(form) else moment.date()).isoformat()
