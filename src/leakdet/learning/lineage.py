"""The chain of models: what each learnt and from which one, and the link to the one in use."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakdet.core.errors import SettingsError
from leakdet.core.files import replace_link

LINEAGE = "lineage"  # of the card: a step per learning, the first one first


def lineage_of(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps by which a model was learnt; none for one of a plain training."""
    return list(card.get(LINEAGE, ()))


def extended(
    card: Mapping[str, Any], parent: Path, parent_hash: str, **learnt: Any
) -> list[dict[str, Any]]:
    """The steps of a new model: those of its parent, and one on what it `learnt`."""
    step = {
        "parent": parent_hash,
        "parent_path": str(parent.resolve()),
        "parent_made": card.get("created_at"),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return [*lineage_of(card), {**step, **learnt}]


def round_rows(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of rounds.csv, the first learning first: what was learnt, and before and after.

    A learning of unverified recordings has a row for each of its rounds, with the six cases; the
    last one has before and after.
    """
    rows = []
    for number, step in enumerate(steps, 1):
        row = {"learning": number, "at": step["at"], "parent": step["parent"], "from": step["from"]}
        *first, last = step.get("rounds") or [{"round": 1}]
        rows += [row | account for account in first]
        row |= last | {"leak": step["leak"], "no_leak": step["no_leak"], "judged": step["judged"]}
        for difference in step["differences"]:
            name = difference["metric"]
            row |= {f"{name}_before": difference["a"], f"{name}_after": difference["b"]}
        rows.append(row | {"verdict": step["verdict"]})
    return rows


def check_link(link: Path) -> None:
    """Refuse a place where a link to a model cannot be put."""
    try:
        _require_free(link)
        trial = link.with_name(f".{link.name}.{os.getpid()}")
        replace_link(trial, link.name)  # the only sure way to know
        trial.unlink()
    except OSError as error:
        raise SettingsError(
            f"learn.publish={link}: no link can be put there ({error.strerror}). Name a "
            "place in a folder that you may write to, on a file system with symbolic links."
        ) from error


def _require_free(link: Path) -> None:
    if link.exists() and not link.is_symlink():
        raise SettingsError(
            f"learn.publish={link}: there is a {'folder' if link.is_dir() else 'file'} of that "
            "name, and only a link is ever replaced. Give the link another name, or move the file "
            "away and publish it first: leakdet learn model=FILE learn.publish=LINK"
        )
    if not link.absolute().parent.is_dir():
        raise SettingsError(
            f"learn.publish={link}: the folder {link.parent} does not exist. Make it first, or "
            "name a place in a folder that is there."
        )


def publish(model: Path, link: Path) -> Path | None:
    """Point `link` to the model file in one atomic step; return what it pointed to before."""
    check_link(link)
    before = Path(os.path.realpath(link)) if link.is_symlink() else None
    replace_link(link, model.resolve())
    return before
