from contextlib import closing
from pathlib import Path

from leakdet.acoustics.mel import LogMel
from leakdet.building.extraction import Extractor
from leakdet.building.report import BuildReport
from leakdet.building.surrogate_split import write_surrogates
from leakdet.storage.store import open_leakdet_split
from leakdet.storage.writer import SplitWriter


def test_only_leaks_that_train_kept_have_surrogates(tmp_path: Path, signal, recording_of, config):
    recordings = [
        recording_of("a.wav"),
        recording_of("b.wav", label="NOLEAK"),
        recording_of("left-out.wav"),
    ]
    folder = tmp_path / "building"
    folder.mkdir()
    extract = Extractor(LogMel(signal), "none", folder, tmp_path / "store")
    train = SplitWriter(folder, "train", signal)
    for recording in recordings[:2]:
        with closing(extract(recording)) as extracted:
            train.add(extracted.row, extracted.mel, None)
    report = BuildReport(tmp_path / "store", signal, ["LEAK", "NOLEAK"], ["LEAK"])
    write_surrogates(recordings, train, extract, config(surrogates=2), report)
    train.discard()
    split = open_leakdet_split(folder, "surrogates", [folder / "surrogates.h5"])
    assert split.recording_ids.tolist() == ["a.wav#surrogate1", "a.wav#surrogate2"]
    assert split.texts("surrogate_of").tolist() == ["a.wav", "a.wav"]
    assert report.surrogates == 2
    assert report.rows == []
    assert [path.name for path in folder.iterdir()] == ["surrogates.h5"]
