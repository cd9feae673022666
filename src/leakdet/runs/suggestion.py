"""Pages of predict to hear and tick recordings: the most telling ones, and the most suspicious.

`--suggest` names those whose truth would teach the model most, in a table and a page; `--page`
shows those that are most likely a leak.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappush, heappushpop
from pathlib import Path

from leakdet.core.errors import InputError, counted
from leakdet.core.files import from_here
from leakdet.core.locations import absolute_name, excerpt, parse_location
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
from leakdet.storage.model_card import training_store
from leakdet.tables.schema import Verdict, confirm_row
from leakdet.tables.write import check_output, is_regular, write_csv

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
        write_csv(self.table, rows, list(rows[0]), for_people=True)
        sentence = (
            f"{self._suggester.sentence(len(chosen))}. They are near the threshold, unlike the "
            "training recordings, or unlike each other: the truth about them teaches most."
        )
        title = f"{counted(len(chosen), 'recording')} to confirm"
        _write_page(self.page, detector, title, sentence, chosen, self.table.name)
        LOG.info(f"suggest  {self._suggester.sentence(len(chosen))}")
        log_results(
            (
                f"page     {self.page}: hear them, tick what they were, save",
                f"table    {self.table}: or fill in its column label",
            )
        )


PAGE_CARDS = 50  # recordings of a page of suspects
MARK = b'content="leakdet predict"'  # by which such a page is known again


class SuspectsRun:
    """The page of the most suspicious recordings of one run of predict, most suspicious first."""

    def __init__(self, page: Path) -> None:
        """Check that the page may be written."""
        check_output(page, PAGE_BYTES)
        if page.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"--page {page}: end the name with .html.")
        if page.exists() and MARK not in page.read_bytes()[:4096]:
            raise InputError(
                f"--page {page}: predict would replace it, and did not write it; give another name."
            )
        self.page = page
        self._suspects: list[tuple[float, int, Verdict]] = []  # a heap, the least suspicious first
        self._scored = self._total = 0

    def add(self, verdict: Verdict) -> None:
        """Take the next verdict; those without a score are on no page."""
        self._total += 1
        if verdict.error or verdict.leak_prob is None:
            return
        self._scored += 1
        entry = (verdict.leak_prob, -self._total, replace(verdict, windows=[], features=None))
        if len(self._suspects) < PAGE_CARDS:
            heappush(self._suspects, entry)
        else:
            heappushpop(self._suspects, entry)

    def write(self, detector: Detector) -> None:
        """Read the recordings of the page again and write it."""
        suspects = [verdict for *_, verdict in sorted(self._suspects, reverse=True)]
        if not suspects:
            log_result(f"page     none of {counted(self._total, 'recording')} has a score to show")
            return
        sentence = (
            f"{len(suspects)} of {counted(self._total, 'recording')}, the most suspicious first"
            f"{'' if self._scored == self._total else f' ({self._scored} have a score)'}."
        )
        chosen = [Suggestion(verdict, _suspicion(verdict)) for verdict in suspects]
        title = f"The most suspicious of {counted(self._total, 'recording')}"
        _write_page(self.page, detector, title, sentence, chosen, f"{self.page.stem}.confirm.csv")
        log_result(f"page     {self.page}: the most suspicious first, to look at and hear")


def _suspicion(verdict: Verdict) -> str:
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return f"{verdict.shown_decision}{reason}: leak probability {verdict.leak_prob:.2f}"


def _write_page(
    page: Path,
    detector: Detector,
    title: str,
    sentence: str,
    chosen: Sequence[Suggestion],
    table: str,
) -> None:
    """Write the page of these recordings, whose ticks are saved as `table`."""
    rows, shown = [_values(suggestion) for suggestion in chosen], []
    player, cards = Player(detector.mel_detector, len(chosen)), Cards()
    with ProgressCounter("pictures and sounds", len(chosen), "recordings") as progress:
        for suggestion, values in zip(chosen, rows, strict=True):
            shown.append(ReviewRow(_card(suggestion, values, player, cards), values))
            progress.step()
    sentences = [
        f"The model: {detector.verdict}",
        sentence,
        "Tick only what was confirmed. A label that is not known stays empty. What was ticked is "
        f"learnt by: {_learn_command(detector, Path(table))}",
    ]
    if cards.left_out:
        sentences.append(
            f"{cards.left_out} of them have no sound here, since the page is full: their files "
            "play in any player."
        )
    kicker = f"model {detector.mel_detector.file_hash}"
    write_review_page(page, ReviewPage(title, kicker, sentences, table, list(rows[0]), shown))


def _learn_command(detector: Detector, table: Path) -> str:
    """The command that learns the table, with the store of the model's training if it is there."""
    words = [str(detector.path), table.name]
    if store := training_store(detector.mel_detector.card):
        words.append(f"data.store={from_here(store)}")
    return f"leakdet learn {shlex.join(words)}"


def _values(suggestion: Suggestion) -> dict[str, str]:
    """The row of the table. The path is absolute: the table may be saved anywhere."""
    verdict = suggestion.verdict
    return confirm_row(verdict, absolute_name(str(verdict.path)), suggestion.why)


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
    playback = player.play(excerpt(path, verdict.span), verdict.channel)
    media = vars(playback) if playback else {}
    return cards.card(path.name, verdict.threshold, why=suggestion.why, facts=facts, **media)
