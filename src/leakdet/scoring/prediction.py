"""One run of predict: verdicts on all recordings, their rows, their counts, and the sidecar."""

from collections.abc import Callable, Sequence
from pathlib import Path

from leakdet._progress import ProgressCounter
from leakdet.scoring.audio_detector import Detector
from leakdet.scoring.file_list import FileList
from leakdet.scoring.output_file import is_regular
from leakdet.scoring.row_writers import columns_by, verdict_writer
from leakdet.scoring.sidecar import now, write_sidecar
from leakdet.scoring.summary import VerdictCounts
from leakdet.scoring.verdict import Verdict


def write_verdicts(
    detector: Detector,
    paths: Sequence[str],
    listed: FileList,
    out: Path | None = None,
    kind: str = "csv",
    windows: bool = False,
    workers: int = 0,
    observers: Sequence[Callable[[Verdict], None]] = (),
) -> VerdictCounts:
    """Score the files that `paths` gave, write their rows, and count their verdicts.

    `kind` and `windows` as for `verdict_writer`. Each of `observers` is called with every verdict.
    Beside a whole file of rows a sidecar is written.

    Raises:
        InputError: as `verdict_writer`.
    """
    verdicts = detector.predict_listed(listed.recordings, workers)
    counts, started_at = VerdictCounts(), now()
    header = columns_by(detector.mel_detector, listed.listing.columns)
    with (
        verdict_writer(out, kind, windows, header) as write,
        ProgressCounter("scoring", len(listed.recordings), "files") as progress,
    ):
        for verdict in verdicts:
            write(verdict)
            progress.step(int(verdict.channel <= 1))  # once a file
            counts.add(verdict)
            for observe in observers:
                observe(verdict)
    if out is not None and is_regular(out):
        write_sidecar(
            out,
            detector,
            counts,
            inputs=paths,
            left_out=listed.listing.sentences(),
            settings={"format": kind, "windows": windows, "workers": workers},
            started_at=started_at,
        )
    return counts
