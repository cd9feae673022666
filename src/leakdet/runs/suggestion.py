"""`predict --suggest`: a table of recordings to confirm next, and a page to hear and tick them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakdet.core.errors import counted
from leakdet.core.locations import absolute_name, parse_location
from leakdet.core.messages import LOG, log_result, log_results
from leakdet.core.progress import ProgressCounter
from leakdet.reporting.recording_card import Card, Cards
from leakdet.reporting.review_page import (
    ReviewPage,
    ReviewRow,
    check_unlabelled,
    write_review_page,
)
from leakdet.scoring.detector import Detector
from leakdet.scoring.playback import Player
from leakdet.scoring.suggest import Suggester, Suggestion
from leakdet.tables.schema import LABEL, WHY, Verdict, texts_for_people
from leakdet.tables.write import check_output, is_regular, write_csv

COPIED_COLUMNS = (
    "leak_prob", "threshold", "decision", "reason", "familiarity", "duration_s", "source_rate_hz",
    "flags", "model",
)  # fmt: skip
PAGE_BYTES = 12_000_000  # about as much at most, with pictures


class SuggestionRun:
    """Suggests recordings of one run of predict; `add` takes its verdicts, `write` ends it."""

    def __init__(self, most: int, out: Path | None) -> None:
        """Name the files beside `out` (None: in the current folder) and check them to be free."""
        beside = out if out and is_regular(out) else None
        name = f"{beside.stem}.confirm" if beside else "confirm"
        folder = beside.parent if beside else Path()
        self.table, self.page = folder / f"{name}.csv", folder / f"{name}.html"
        self._suggester = Suggester(most)
        for path in (self.table, self.page):
            check_output(path, PAGE_BYTES)
        check_unlabelled(self.table, "--suggest")

    def add(self, verdict: Verdict) -> None:
        """Take the next verdict."""
        self._suggester.add(verdict)

    def write(self, detector: Detector) -> None:
        """Choose, read the chosen recordings again, and write the table and the page."""
        chosen = self._suggester.choose()
        if not chosen:
            log_result(f"confirm  {self._suggester.sentence(0)}: nothing to suggest")
            return
        rows = [_values(suggestion) for suggestion in chosen]
        columns = list(rows[0])
        write_csv(self.table, rows, columns, for_people=True)
        player, cards = Player(detector.mel_detector, len(chosen)), Cards()
        with ProgressCounter("pictures and sounds", len(chosen), "recordings") as progress:
            shown = []
            for suggestion, values in zip(chosen, rows, strict=True):
                shown.append(ReviewRow(_card(suggestion, values, player, cards), values))
                progress.step()
        sentences = [
            f"{self._suggester.sentence(len(chosen))}. They are near the threshold, unlike the "
            "training recordings, or unlike each other: the truth about them teaches most.",
            "Tick only what was confirmed. A label that is not known stays empty. What was ticked "
            f"is learnt by: leakdet learn model={detector.path} data.store=STORE learn.new="
            f"{self.table.name}",
        ]
        if cards.left_out:
            sentences.append(
                f"{cards.left_out} of them have no sound here, since the page is full: their "
                "files play in any player."
            )
        title = f"{counted(len(chosen), 'recording')} to confirm"
        kicker = f"model {detector.mel_detector.file_hash}"
        write_review_page(
            self.page, ReviewPage(title, kicker, sentences, self.table.name, columns, shown)
        )
        LOG.info(f"suggest  {self._suggester.sentence(len(chosen))}")
        log_results(
            (
                f"page     {self.page}: hear them, tick what they were, save",
                f"table    {self.table}: or fill in its column label",
            )
        )


def _values(suggestion: Suggestion) -> dict[str, str]:
    """The row of the table. The path is absolute: the table may be saved anywhere."""
    row = suggestion.verdict.to_dict()
    row["path"] = absolute_name(row["path"])
    first: dict[str, Any] = {name: row[name] for name in ("path", "channel") if name in row}
    copied = {name: row[name] for name in COPIED_COLUMNS}
    columns = suggestion.verdict.columns  # site, time …: learn takes them as groups and dates
    values = {**first, LABEL: "", WHY: suggestion.why, **columns, **copied}
    return texts_for_people(values)


def _card(suggestion: Suggestion, values: Mapping[str, str], player: Player, cards: Cards) -> Card:
    verdict, path = suggestion.verdict, parse_location(values["path"])
    facts = {
        **verdict.columns,
        "leak probability": values["leak_prob"][:5],
        "decision": verdict.shown_decision,
        "reason": verdict.reason,
        "familiarity": values["familiarity"],
        "seconds": values["duration_s"],
        "channel": values.get("channel", ""),
        "flags": values["flags"].replace(",", ", "),
        "folder": str(path.parent),
    }
    playback = player.play(path, verdict.channel)
    media = vars(playback) if playback else {}
    return cards.card(path.name, verdict.threshold, why=suggestion.why, facts=facts, **media)
