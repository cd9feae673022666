"""New recordings without a label, extracted into a file of their own beside the confirmed ones.

They are no confirmed recordings: whoever opens that store later does not get them.
"""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from leakdet._parallel import in_order
from leakdet._progress import ProgressCounter
from leakdet.acoustics.mel import LogMel
from leakdet.building.extraction import Extractor
from leakdet.building.header_scan import scan_headers
from leakdet.building.sources import LeftOut, Source, SourceRecording
from leakdet.config import BuildConfig, SignalConfig
from leakdet.learning.vocabulary import Vocabulary
from leakdet.storage.store import open_leakdet_split
from leakdet.storage.views import SplitView, pooled
from leakdet.storage.writer import SplitWriter

NAME = "unverified"


def extract_unverified(
    recordings: Sequence[SourceRecording],
    store: Path,
    signal: SignalConfig,
    vocabulary: Vocabulary,
    known: Sequence[str],
) -> tuple[SplitView | None, list[LeftOut]]:
    """Write `unverified.h5` into `store`; None where nothing could be read.

    Sounds whose contents are `known`, the confirmed ones, are left out. All have the label of no
    leak until a model predicts one.
    """
    if not recordings:
        return None, []
    config = BuildConfig(source=NAME, out=str(store), signal=signal)
    scan = scan_headers(Source(list(recordings), []), config)
    extract = Extractor(LogMel(signal), "none", store, store)
    left_out, contents = list(scan.left_out), set(known)
    with ExitStack() as stack:
        writer = SplitWriter(store, NAME, signal)
        stack.callback(writer.discard)
        progress = stack.enter_context(ProgressCounter(NAME, len(scan.readable), "recordings"))
        for recording, extracted in in_order(extract, scan.readable, 0):
            progress.step()
            if isinstance(extracted, LeftOut):
                left_out.append(extracted)
                continue
            with closing(extracted):
                if extracted.row.content_sha256 in contents:
                    reason = "the same sound as another new recording"
                    left_out.append(LeftOut(recording.recording_id, reason))
                    continue
                contents.add(extracted.row.content_sha256)
                extracted.row.label = vocabulary.others[0]
                writer.add(extracted.row, extracted.mel, extracted.sound)
        if not writer.rows:
            return None, left_out
        path = store / f"{NAME}.h5"
        writer.write(path, list(vocabulary.names), list(vocabulary.leaks))
    return pooled([open_leakdet_split(store, "train", [path])]), left_out
