"""The detector of sound, as programs use it: paths, URLs or arrays in, verdicts out."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import torch

from leakdet.acoustics.audio import ArrayRecording, SoundSource
from leakdet.acoustics.listing import LeftUnlisted, audio_files, is_audio_name
from leakdet.acoustics.mel import LogMel
from leakdet.core.errors import InputError
from leakdet.core.locations import Location, RemoteFile, errors_naming, local_copy, parse_location
from leakdet.core.messages import LOG, messages_if
from leakdet.core.parallel import in_order
from leakdet.core.progress import ProgressCounter
from leakdet.detection.detector import MelDetector
from leakdet.detection.stored_scores import redecided, undecided_anew
from leakdet.detection.thresholds import checked_policy
from leakdet.exporting.detector import load_onnx_detector
from leakdet.scoring.score_recording import (
    Task,
    embed_source,
    in_batches,
    score_listed,
    score_source,
)
from leakdet.storage.model_card import ModelVerdict, model_in, model_kind
from leakdet.storage.model_file import load_mel_detector
from leakdet.tables.schema import InputRecording, Verdict, Verdicts, View

PathLike = str | os.PathLike[str] | RemoteFile
Sound = tuple[npt.NDArray[Any], int]  # samples and their rate in Hz
Several = Iterable[PathLike | Sound]
Show = bool | None  # None: in an interactive session


def is_path(recordings: object) -> bool:
    return isinstance(recordings, str | os.PathLike | RemoteFile)


def is_single(recordings: Any) -> bool:
    """True of a file or an array: not of a folder, nor of several."""
    if not is_path(recordings):
        return is_sound(recordings)
    where = parse_location(recordings)
    if isinstance(where, RemoteFile):
        return is_audio_name(where) or not where.is_folder()
    return not where.is_dir()


def is_sound(recordings: object) -> bool:
    return (
        isinstance(recordings, tuple)
        and len(recordings) == 2
        and isinstance(recordings[0], np.ndarray)
    )


def sources_of(recordings: Any, resampled: bool = False) -> Iterator[SoundSource]:
    """Files and arrays, in order; of a folder the audio below it. `resampled` is of arrays."""
    several = isinstance(recordings, Iterable) and not isinstance(recordings, np.ndarray | bytes)
    single = is_path(recordings) or is_sound(recordings) or not several
    for recording in [recordings] if single else recordings:
        if is_sound(recording):
            samples, rate_hz = recording
            yield ArrayRecording(samples, rate_hz, resampled)
        elif is_path(recording):
            unlisted = LeftUnlisted()
            yield from audio_files(parse_location(recording), unlisted)
            for sentence in unlisted.sentences():
                LOG.warning(sentence)
        else:
            raise TypeError(
                "a recording is a path or (samples, rate_hz) with a NumPy array of samples; "
                f"this one is of type {type(recording).__name__}"
            )


Input = TypeVar("Input", SoundSource, InputRecording)
TaskOf = Callable[[Input, MelDetector, LogMel], Task[list[Verdict]]]
# of a group: more recordings gain nothing, longer ones keep other threads waiting, and so does a
# slow list of recordings
GROUP_RECORDINGS, GROUP_BYTES, GROUP_S = 32, 4 << 20, 0.1
# Sounds of fewer bytes are scored by one thread at a time: most of their work holds the
# interpreter's lock, for which two threads would wait longer than they gain.
SHORT_BYTES = 100_000
_short_sounds = Lock()


def grouped(inputs: Iterable[Input], workers: int = 0) -> Iterator[tuple[list[Input], bool]]:
    """Cut recordings into groups for a thread each, and tell of each whether all in it are short.

    They are small at first, so that every thread has one. A large file is in a group by itself,
    and so is one behind a URL.
    """
    share = 4 * (workers or os.cpu_count() or 1)
    group, sizes, begun = list[Input](), list[int](), time.monotonic()
    for taken, item in enumerate(inputs, 1):
        group.append(item)
        sizes.append(_about_bytes(item))
        whole = sum(sizes) >= GROUP_BYTES or len(group) >= min(GROUP_RECORDINGS, 1 + taken // share)
        if whole or time.monotonic() > begun + GROUP_S:
            yield group, max(sizes) < SHORT_BYTES
            group, sizes, begun = [], [], time.monotonic()
    if group:
        yield group, max(sizes) < SHORT_BYTES


def _about_bytes(item: SoundSource | InputRecording) -> int:
    source = item.source if isinstance(item, InputRecording) else item
    if isinstance(source, ArrayRecording):
        return 2 * int(source.frames) * int(source.channels)
    try:
        return source.stat().st_size if isinstance(source, Path) else GROUP_BYTES
    except (OSError, ValueError):  # it is said when it is read
        return 0


def _html(detector: MelDetector, source: SoundSource | None, verdict: Verdict) -> str:
    """A verdict with picture, timeline and player, as far as its source can be read again."""
    from leakdet.reporting.verdict_view import verdict_html
    from leakdet.scoring.playback import Player

    playback = None
    if source is not None and not verdict.error:
        playback = Player(detector, 1).play(source, verdict.channel)
    return verdict_html(verdict, **vars(playback) if playback else {})


def _plot(verdict: Verdict, axes: Any) -> Any:
    from leakdet.reporting.verdict_view import plot_verdict

    return plot_verdict(verdict, axes)


class Detector:
    """Verdicts on recordings by one model; made by `load_detector`.

    A recording is the path or URL of a sound file, or `(samples, rate_hz)`: an array [samples] or
    [samples, channels] of floats in [-1, 1] or of PCM (uint8, int16, int32), which is scored as the
    file of these samples would be. A folder stands for the audio files below it.

    One recording gives one result, a folder or several recordings give a list. Type checkers see
    the same, except that a single path may return either: give `[folder]` where types matter.
    Of a model trained with `signal.channels=each`, every channel is a recording: a file of several
    gives a list, in which `Verdict.channel` counts them from 1; of an array, give one channel.
    """

    def __init__(self, mel_detector: MelDetector, path: Location, decided_anew: str = "") -> None:
        self.mel_detector = mel_detector
        self.path = path
        self.decided_anew = decided_anew  # how the threshold was changed; "": it is the model's own

    def __repr__(self) -> str:
        return f"Detector({str(self.path)!r}, threshold={self.threshold:g})"

    @property
    def verdict(self) -> ModelVerdict:
        """What its own evaluation said of the model: grade, label, sentence and cautions."""
        return ModelVerdict.of(self.mel_detector.card)

    @property
    def threshold(self) -> float:
        """Recordings whose `leak_prob` reaches it are called leaks."""
        return self.mel_detector.rule.threshold

    @overload
    def predict(
        self, recordings: Sound, workers: int = 0, resampled: bool = False, progress: Show = None
    ) -> Verdict: ...
    @overload
    def predict(
        self,
        recordings: PathLike,
        workers: int = 0,
        resampled: bool = False,
        progress: Show = None,
    ) -> Any: ...
    @overload
    def predict(
        self, recordings: Several, workers: int = 0, resampled: bool = False, progress: Show = None
    ) -> Verdicts: ...

    def predict(
        self, recordings: Any, workers: int = 0, resampled: bool = False, progress: Show = None
    ) -> Any:
        """Give the verdict on a recording, or a list of verdicts; unreadable files have an `error`.

        `workers` recordings are scored at a time, 0: one per core. Scores do not depend on it.
        `resampled`: the rates of arrays are not those of their loggers, so that none is undecided
        as of another source. `progress` shows how many of several are scored; None: in an
        interactive session.

        Raises:
            InputError: the model cannot score sound, an array is no recording, or the one path
                that was given does not exist.
            TypeError: an argument is neither a path nor `(samples, rate_hz)`.
        """
        if is_single(recordings):
            verdicts = list(self._verdicts(sources_of(recordings, resampled), workers, True))
            missing = verdicts and verdicts[0].error and is_path(recordings)
            if missing and not parse_location(recordings).exists():
                raise InputError(f"{recordings}: there is no such file.")
            return verdicts[0] if len(verdicts) == 1 else Verdicts(verdicts)
        sources = sources_of(recordings, resampled)
        if not (
            isinstance(recordings, Sequence) or is_path(recordings)
        ):  # maybe more than fit in memory
            return Verdicts(self._verdicts(sources, workers))
        listed = list(sources)
        several = Verdicts()
        with messages_if(progress), ProgressCounter("scoring", len(listed), "recordings") as count:
            for verdict in self._verdicts(listed, workers):
                several.append(verdict)
                count.step(verdict.channel <= 1)
        return several

    def predict_each(
        self, recordings: PathLike | Sound | Several, workers: int = 0, resampled: bool = False
    ) -> Iterator[Verdict]:
        """Yield the verdicts of `predict` one by one, in order, for any number of recordings."""
        return self._verdicts(sources_of(recordings, resampled), workers)

    def predict_listed(
        self, recordings: Iterable[InputRecording], workers: int = 0
    ) -> Iterator[Verdict]:
        """Yield the verdicts on recordings of a list, in order, with the columns of the list."""
        return (verdict for of_one in self.verdicts_of(recordings, workers) for verdict in of_one)

    def verdicts_of(
        self, recordings: Iterable[InputRecording], workers: int = 0
    ) -> Iterator[list[Verdict]]:
        """As `predict_listed`, the verdicts on each recording in a list: one, or one a channel."""
        return (verdicts for _, verdicts in self._scored(score_listed, recordings, workers))

    def score_together(self, recordings: Sequence[InputRecording]) -> list[list[Verdict]]:
        """As `verdicts_of`, in this thread."""
        return self._together(score_listed, recordings)

    @overload
    def embed(self, recordings: Sound, workers: int = 0) -> npt.NDArray[np.float32]: ...
    @overload
    def embed(self, recordings: PathLike, workers: int = 0) -> Any: ...
    @overload
    def embed(self, recordings: Several, workers: int = 0) -> list[npt.NDArray[np.float32]]: ...

    def embed(self, recordings: Any, workers: int = 0) -> Any:
        """The network's features before its heads, float32 [windows, features], for each recording.

        Of a model that takes single segments, a window has the mean of its segments' features.

        Raises:
            InputError: as `predict`, and where a recording cannot be read.
            TypeError: as `predict`.
        """
        log_mel = self._log_mel
        embed = lambda source: embed_source(source, self.mel_detector, log_mel)  # noqa: E731
        features = in_order(embed, sources_of(recordings), workers)
        results = [result for _, of_source in features for result in of_source]
        return results[0] if is_single(recordings) and len(results) == 1 else results

    @cached_property
    def _log_mel(self) -> LogMel:
        if self.mel_detector.signal is None:
            raise InputError(
                f"{self.path}: it was trained on a store that does not say how its mel was made; "
                "it cannot score audio."
            )
        return LogMel(self.mel_detector.signal)

    def _verdicts(
        self, sources: Iterable[SoundSource], workers: int, keep_array: bool = False
    ) -> Iterator[Verdict]:
        """The verdicts on sources, each with what shows it; arrays of many are not kept for it."""

        def view(source: SoundSource) -> View:
            kept = None if isinstance(source, ArrayRecording) and not keep_array else source
            return {"html": partial(_html, self.mel_detector, kept), "plot": _plot}

        results = self._scored(score_source, sources, workers)
        return (
            verdict.with_view(view(source)) for source, verdicts in results for verdict in verdicts
        )

    def _scored(
        self, task: TaskOf[Input], inputs: Iterable[Input], workers: int
    ) -> Iterator[tuple[Input, list[Verdict]]]:
        """Each input with its verdicts, in order; threads take those that come together."""
        _ = self._log_mel  # made here, and an unsuitable model refused at once

        def score(group: tuple[list[Input], bool]) -> list[list[Verdict]]:
            recordings, are_short = group
            with _short_sounds if are_short else nullcontext():
                return self._together(task, recordings)

        results = in_order(score, grouped(inputs, workers), workers)
        return (
            pair for group, verdicts in results for pair in zip(group[0], verdicts, strict=True)
        )

    def _together(self, task: TaskOf[Input], inputs: Iterable[Input]) -> list[list[Verdict]]:
        detector = self.mel_detector
        return in_batches((task(item, detector, self._log_mel) for item in inputs), detector)


def load_detector(
    path: PathLike,
    device: str = "auto",
    trust_network: str | Sequence[str] | None = None,
    *,
    threshold: float | None = None,
    policy: str | None = None,
    unfamiliar: str | None = None,
    doubt: float | None = None,
    source: str | None = None,
) -> Detector:
    """The detector of a model file, a checkpoint, an `.onnx` file, or the folder of a training run.

    A URL is copied first. An `.onnx` file runs on the CPU, by onnxruntime
    (`pip install 'leakdet[export]'`). Of a folder,
    `model.safetensors` is taken, else the best checkpoint. `device` is auto (a GPU where there is
    one), cpu, cuda, cuda:N or mps. A network that is no part of leakdet is imported only where
    `trust_network` gives its name, `package.module:Class`.

    `threshold` or `policy` (`max_fpr=0.01`, `min_tpr=0.95`, `min_cost=10`, `max_f1`) replaces the
    model's own threshold; a policy is fitted on the validation scores that the model file keeps.
    `Detector.decided_anew` says what was replaced. Three more replace the model's own settings of
    what is undecided: `unfamiliar` (off, normal or strict), how unlike the training
    recordings; `doubt` (0 to below 0.5), how near the threshold; `source` (rate or off), whether
    also files of a sample rate that no training recording had.

    >>> load_detector("model.safetensors", device="cpu").predict("recording.wav").windows[0]
    Window(start_s=0.0, end_s=0.25, leak_prob=...)

    Raises:
        InputError: there is no model, it is damaged, its network is not trusted, or the machine
            lacks the device.
        SettingsError: one of these settings is wrong, or the model keeps nothing to fit a policy
            on.
    """
    if threshold is not None or policy is not None:
        checked_policy(threshold, policy)
    model = model_in(parse_location(path))
    copy = local_copy(model)
    with errors_naming(model, copy):
        loaded = _loaded(copy, device, trust_network or ())
    rule, decided_anew = redecided(loaded.rule, loaded.validation, threshold, policy)
    given = {"unfamiliar": unfamiliar, "doubt": doubt, "source": source}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    sentences = [decided_anew, undecided_anew(loaded.rule, changes)]
    rule = replace(rule, **changes)
    return Detector(replace(loaded, rule=rule), model, " ".join(filter(None, sentences)))


def _loaded(model: Path, device: str, trust_network: str | Sequence[str]) -> MelDetector:
    if model_kind(model) == ".onnx":
        return load_onnx_detector(model, device)
    return load_mel_detector(model, chosen_device(device), trust_network)


def chosen_device(name: str) -> str:
    """The device of this name; `auto` is a GPU where there is one.

    Raises:
        InputError: this machine does not have it.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d+)?", name):
        raise InputError(f"device {name}: it must be auto, cpu, cuda, cuda:N or mps.")
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device {name}: not available here ({str(error).splitlines()[0]}). Use auto or cpu."
        ) from error
    return name
