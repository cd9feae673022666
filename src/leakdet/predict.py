"""`leakdet predict MODEL PATH…`: gives a verdict on every recording, with its evidence."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from leakdet._exit_codes import DONE, EXPLAINED, PARTLY, guarded
from leakdet._messages import LOG, log_results
from leakdet.cli.arguments import Parser, add_decision, add_model_options, add_rows, add_workers


def parser() -> argparse.ArgumentParser:
    about = "Give every recording a verdict, leak or no_leak, with its evidence."
    command = Parser("leakdet predict", description=about, epilog=EXPLAINED)
    add = command.add_argument
    add("model", type=Path, help="a .safetensors, .onnx or .ckpt file, or the folder of a training")
    paths = "audio files, folders searched for audio, quoted globs; after -- any name is a path"
    add("paths", nargs="+", metavar="PATH", help=paths)
    add_rows(command)
    add_workers(command, "files scored at a time")
    add_decision(command)
    add_model_options(command)
    return command


def predict(arguments: argparse.Namespace) -> int:
    from leakdet.cli.arguments import decision_of
    from leakdet.scoring.earlier_rows import check_replaceable
    from leakdet.scoring.file_list import check_files, list_files
    from leakdet.scoring.output_file import check_output
    from leakdet.scoring.row_writers import ROW_BYTES, check_windows, format_of
    from leakdet.scoring.site_table import read_site_table
    from leakdet.storage.model_place import require_model

    rule = decision_of(arguments)
    out = None if arguments.out == Path("-") else arguments.out
    kind = format_of(out, arguments.format)
    check_windows(out, kind, arguments.windows)
    places = read_site_table(arguments.sites) if arguments.sites else None
    listed = list_files(arguments.paths)
    check_files(listed.files, arguments.model, out)
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

        suggestion = SuggestionRun(arguments.suggest, out)
        observers.append(suggestion.add)
    detector = load_detector(arguments.model, arguments.device, arguments.trust_network, **rule)
    LOG.info(model_text(detector.mel_detector, detector.decided_anew))
    drift = SiteDrift(detector.mel_detector, places)
    observers.append(drift.add)
    rows = (out, kind, arguments.windows)
    counts = write_verdicts(detector, arguments.paths, listed, *rows, arguments.workers, observers)
    if suggestion:
        suggestion.write(detector)
    LOG.info(str(counts))
    drift.log()
    log_results(listed.sentences())
    return DONE if listed.complete and not counts.failed else PARTLY


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    return guarded(lambda: predict(arguments), arguments.quiet, all_to_stderr=True)


if __name__ == "__main__":
    sys.exit(main())
