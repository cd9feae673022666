"""A whole run of `leakdet predict`: what is named, the model, the rows, and what follows them."""

import argparse
from pathlib import Path
from typing import Any

from leakdet._exit_codes import DONE, PARTLY
from leakdet._messages import LOG, log_results
from leakdet._remote import RemoteFile


def predict(arguments: argparse.Namespace) -> int:
    """Do what the arguments of `leakdet predict` ask for; gives the exit code."""
    from leakdet.cli.arguments import check_parts, decision_of
    from leakdet.scoring.remote_output import local_rows

    rule = decision_of(arguments)
    check_parts(arguments)
    if arguments.parts:
        from leakdet.parts.parts_run import predict_parts

        return predict_parts(arguments, rule)
    with local_rows(
        None if arguments.out == Path("-") else arguments.out, arguments.windows
    ) as out:
        return _predict_rows(arguments, rule, out)


def _predict_rows(arguments: argparse.Namespace, rule: dict[str, Any], out: Path | None) -> int:
    """Write the rows of all recordings to `out`; None: standard output."""
    from leakdet.scoring.earlier_rows import check_replaceable
    from leakdet.scoring.file_list import check_files, list_files
    from leakdet.scoring.output_file import check_output
    from leakdet.scoring.row_writers import ROW_BYTES, check_windows, format_of
    from leakdet.storage.model_place import require_model

    kind = format_of(out, arguments.format)
    check_windows(out, kind, arguments.windows)
    listed = list_files(arguments.paths, arguments.name_pattern)
    remote = arguments.out if isinstance(arguments.out, RemoteFile) else None
    check_files([*listed.files, *listed.listing.tables], arguments.model, remote or out)
    if out:
        check_output(out, ROW_BYTES * len(listed.files))
        check_replaceable(out, arguments.windows and kind == "csv")
    require_model(arguments.model)
    LOG.info(f"files    {len(listed.files)}: loading torch")
    from leakdet.scoring.audio_detector import load_detector
    from leakdet.scoring.prediction import write_verdicts
    from leakdet.scoring.site_drift import SiteDrift
    from leakdet.scoring.summary import model_text

    observers, suggestion = [], None
    if arguments.suggest:
        from leakdet.suggestion_run import SuggestionRun

        suggestion = SuggestionRun(arguments.suggest, None if remote else out)
        observers.append(suggestion.add)
    detector = load_detector(arguments.model, arguments.device, arguments.trust_network, **rule)
    LOG.info(model_text(detector.mel_detector, detector.decided_anew))
    drift = SiteDrift(detector.mel_detector)
    observers.append(drift.add)
    rows = (out, kind, arguments.windows)
    counts = write_verdicts(detector, arguments.paths, listed, *rows, arguments.workers, observers)
    if suggestion:
        suggestion.write(detector)
    counts.log()
    drift.log()
    log_results(listed.listing.sentences())
    return DONE if listed.listing.complete and not counts.failed else PARTLY
