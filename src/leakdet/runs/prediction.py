"""A whole run of `leakdet predict`: what is named, the model, the rows, and what follows them."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet.cli.arguments import CLIP_S, check_window_files
from leakdet.core.locations import Location, RemoteFile
from leakdet.core.messages import LOG, log_results
from leakdet.core.process import DONE, PARTLY

if TYPE_CHECKING:
    from leakdet.runs.suggestion import SuggestionRun, SuspectsRun
    from leakdet.scoring.detector import Detector
    from leakdet.scoring.extras import LeakClips
    from leakdet.tables.schema import Verdict


def predict(arguments: argparse.Namespace) -> int:
    """Do what the arguments of `leakdet predict` ask for; gives the exit code."""
    from leakdet.cli.arguments import check_parts, decision_of
    from leakdet.scoring.prediction import local_rows

    rule = decision_of(arguments)
    check_parts(arguments)
    check_window_files(arguments)
    if arguments.parts:
        from leakdet.scoring.parts import predict_parts

        return predict_parts(arguments, rule)
    with local_rows(
        None if arguments.out == Path("-") else arguments.out, arguments.windows
    ) as out:
        return _predict_rows(arguments, rule, out)


def _predict_rows(arguments: argparse.Namespace, rule: dict[str, Any], out: Path | None) -> int:
    """Write the rows of all recordings to `out`; None: standard output."""
    from leakdet.scoring.listing import check_files, list_files
    from leakdet.scoring.prediction import check_replaceable
    from leakdet.storage.model_card import missing_sounds, require_model
    from leakdet.tables.write import ROW_BYTES, check_output, check_windows, format_of

    kind = format_of(out, arguments.format)
    check_windows(out, kind, arguments.windows)
    listed = list_files(arguments.paths, arguments.name_pattern)
    files = listed.files
    remote = arguments.out if isinstance(arguments.out, RemoteFile) else None
    check_files([*files, *listed.listing.tables], arguments.model, remote or out)
    if out:
        check_output(out, ROW_BYTES * len(files))
        check_replaceable(out, arguments.windows and kind == "csv")
    if arguments.clips:
        from leakdet.scoring.extras import check_clips

        check_clips(files, arguments.clips, arguments.clip_seconds or CLIP_S)
    require_model(arguments.model)
    LOG.info(f"files    {len(files)}: loading torch")
    from leakdet.scoring.detector import load_detector
    from leakdet.scoring.drift import SiteDrift
    from leakdet.scoring.prediction import model_text, write_verdicts

    observers: list[Callable[[Verdict], None]] = []
    pages: list[SuggestionRun | SuspectsRun] = []
    if arguments.suggest or arguments.page:
        from leakdet.runs import suggestion

        if arguments.suggest:
            beside = None if remote else out
            pages.append(suggestion.SuggestionRun(arguments.suggest, beside))
        if arguments.page:
            pages.append(suggestion.SuspectsRun(arguments.page))
        observers += [page.add for page in pages]
    detector = load_detector(arguments.model, arguments.device, arguments.trust_network, **rule)
    LOG.info(model_text(detector.mel_detector, detector.decided_anew))
    drift = SiteDrift(detector.mel_detector)
    observers.append(drift.add)
    rows = (out, kind, arguments.windows)
    workers = arguments.workers
    with _window_files(arguments, files, detector) as (more, clips):
        observers += more
        counts = write_verdicts(detector, arguments.paths, listed, *rows, workers, observers)
    for page in pages:
        page.write(detector)
    counts.log(detector.mel_detector.rule, detector.mel_detector.sources)
    drift.log()
    if line := missing_sounds(detector.mel_detector.card):
        LOG.info(line)
    log_results(listed.listing.sentences())
    whole = listed.listing.complete and not counts.failed and not (clips and clips.lost)
    return DONE if whole else PARTLY


@contextmanager
def _window_files(
    arguments: argparse.Namespace, files: Sequence[Location], detector: "Detector"
) -> Iterator[tuple[list[Callable[["Verdict"], None]], "LeakClips | None"]]:
    """What writes the labels and clips that are asked for, and the clips."""
    from leakdet.scoring.extras import label_files, leak_clips

    observers: list[Callable[[Verdict], None]] = []
    clips, signal = None, detector.mel_detector.signal
    with ExitStack() as stack:
        if arguments.labels and signal:  # a model without one is refused with the first file
            kind = arguments.labels_format or "raven"
            labels = label_files(arguments.labels, kind, list(map(str, files)), signal)
            observers.append(stack.enter_context(labels))
        if arguments.clips:
            most_s = arguments.clip_seconds or CLIP_S
            clips = stack.enter_context(leak_clips(arguments.clips, most_s))
            observers.append(clips.add)
        yield observers, clips
