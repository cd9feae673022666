"""The lines of predict on stderr: first the model's own verdict, last the counts of verdicts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leakdet._messages import LOG
from leakdet.errors import counted
from leakdet.scoring.verdict import Verdict

if TYPE_CHECKING:  # counts of rows are asked for before torch is imported
    from leakdet.detection.detector import MelDetector


def model_text(detector: "MelDetector", decided_anew: str = "") -> str:
    """The model, what its own evaluation said of it, and by which other threshold it decides."""
    changed = f"\nnote     {decided_anew}" if decided_anew else ""
    return _own_text(detector) + changed


def _own_text(detector: "MelDetector") -> str:
    own = detector.card.get("verdict")
    named = f"model    {detector.file_hash}"
    lines = [f"{named}: the file does not say how good it was in its own evaluation"]
    if own:
        lines = [f"{named}: {own['label']} (own evaluation on {own['split']}). {own['sentence']}"]
        if own["grade"] != "good":
            lines.append("note     confirm its verdicts by other evidence before you dig")
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
    return "\n".join(lines)


class VerdictCounts:
    """Counts of recordings by verdict and flag, and of the undecided ones by reason."""

    def __init__(self) -> None:
        self._decisions = Counter({"leak": 0, "no_leak": 0, "undecided": 0, "failed": 0})
        self._reasons: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        self._channels = self._files = 0
        self._classes: Counter[str] = Counter()

    def add(self, verdict: Verdict) -> None:
        values = verdict.decision, verdict.reason, verdict.flags, verdict.class_name
        self._add(*values, verdict.channel)

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Count the verdict of a row, as `Verdict.to_dict` gives it."""
        flags = [flag for flag in row["flags"].split(",") if flag]
        values = row["decision"], row["reason"], flags, row.get("class")
        self._add(*values, row.get("channel", 0))

    def _add(
        self,
        decision: str | None,
        reason: str,
        flags: Sequence[str],
        class_name: str | None,
        channel: int,
    ) -> None:
        self._decisions[decision or "failed"] += 1
        self._reasons[reason] += 1
        self._flags.update(flags)
        self._channels += channel > 0
        self._files += channel <= 1
        if class_name is not None:
            self._classes[class_name] += 1

    def state(self) -> dict[str, Any]:
        """Plain values, which `merge` takes."""
        return {
            "decisions": self._decisions,
            "reasons": self._reasons,
            "flags": self._flags,
            "classes": self._classes,
            "channels": self._channels,
            "files": self._files,
        }

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add what was counted elsewhere."""
        self._decisions.update(state["decisions"])
        self._reasons.update(state["reasons"])
        self._flags.update(state["flags"])
        self._classes.update(state["classes"])
        self._channels += state["channels"]
        self._files += state["files"]

    def log(self) -> None:
        """Log the counts in words; as JSON they are numbers too."""
        LOG.info(str(self), extra={"facts": {"kind": "counts", **self.to_json()}})

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
        what = counted(self.total, "channel" if self._channels else "file")
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
