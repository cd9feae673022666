"""Demo recordings as 16-bit WAV files, with a manifest that `build` reads like any other."""

import csv
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import soundfile

from leakdet.acoustics.synth.places import site_name
from leakdet.acoustics.synth.recording import demo_recording
from leakdet.config import DemoConfig

COLUMNS = ("path", "label", "site", "sensor", "material")


def _write_recording(folder: Path, demo: DemoConfig, site: int, index: int) -> dict[str, str]:
    """Write one file and return its row of the manifest; its name does not give the label away."""
    recording = demo_recording(demo, site, index)
    path = folder / "audio" / site_name(site) / f"{index:04d}.wav"
    pcm = np.clip(np.rint(recording.samples * 32768), -32768, 32767).astype(np.int16)
    soundfile.write(path, pcm, recording.sample_rate_hz, subtype="PCM_16", format="WAV")
    values = (
        path.relative_to(folder).as_posix(),
        recording.label,
        recording.site_id,
        recording.sensor_id,
        recording.material,
    )
    return dict(zip(COLUMNS, values, strict=True))


def write_demo(
    folder: Path, demo: DemoConfig, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Write all recordings under `folder` and return the path of the manifest.

    `progress(done, total)` is called in the caller's thread. The manifest is removed before any
    audio changes and written last, atomically: a folder with a manifest is complete.
    """
    manifest = folder / "manifest.csv"
    manifest.unlink(missing_ok=True)
    for site in range(demo.sites):
        (folder / "audio" / site_name(site)).mkdir(parents=True, exist_ok=True)
    jobs = [
        (site, index) for site in range(demo.sites) for index in range(demo.recordings_per_site)
    ]
    # threads suffice: FFT, ufuncs and libsndfile release the interpreter lock
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        futures = [pool.submit(_write_recording, folder, demo, *job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if progress is not None:
                    progress(done, len(jobs))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    partial = folder / f".manifest-{os.getpid()}.csv"
    with partial.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        rows.writeheader()
        rows.writerows(future.result() for future in futures)
    partial.replace(manifest)
    return manifest
