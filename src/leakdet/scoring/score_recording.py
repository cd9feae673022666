"""Scores recordings, from their sound to their verdicts; windows of several go together.

A recording's work is a generator: it yields blocks of windows, is sent their scores, and returns
its result.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Float32
from torch import Tensor

from leakdet.acoustics.audio import (
    ArrayRecording,
    SoundSource,
    SoundStream,
    WaveformFacts,
    recordings_in,
)
from leakdet.acoustics.measures import Flag, low_share
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream, WindowBlock
from leakdet.config import SignalConfig
from leakdet.core.errors import InputError
from leakdet.core.locations import Location, absolute_file, excerpt, parse_location
from leakdet.detection.decision import pool_classes
from leakdet.detection.detector import MelDetector
from leakdet.detection.networks import band_features, window_moments
from leakdet.exporting.detector import OnnxDetector, moments_of
from leakdet.tables.schema import Decision, InputRecording, Reason, Verdict, Window


class WindowsScored(NamedTuple):
    """Leak and class probability, start and liveness of windows; summed moments of live ones."""

    prob: Float32[np.ndarray, " W"]
    class_prob: Float32[np.ndarray, "W C"]
    start_s: Float32[np.ndarray, " W"]
    live: Bool[np.ndarray, " W"]
    moments: Float[np.ndarray, "1 2 M"]


class MelScores(NamedTuple):
    """Leak and class probability of windows, and the moments of their bands."""

    prob: Float32[np.ndarray, " W"]
    class_prob: Float32[np.ndarray, "W C"]
    moments: Float[np.ndarray, "W 2 M"]

    @classmethod
    def of(cls, mel: Float16[Tensor, "W S M T"], detector: MelDetector) -> "MelScores":
        """Scores of windows, which depend on none of the others."""
        prob, classes = detector.window_scores(mel, alike=True)
        class_prob = np.zeros((len(prob), 0), np.float32) if classes is None else classes.numpy()
        return cls(prob.numpy(), class_prob, window_moments(mel))

    def part(self, start: int, stop: int) -> "MelScores":
        return MelScores(*(values[start:stop] for values in self))

    def of_recording(
        self, start_s: Float32[np.ndarray, " W"], live: Bool[np.ndarray, " W"]
    ) -> WindowsScored:
        moments = (live @ self.moments.reshape(len(live), -1)).reshape(1, 2, -1)
        return WindowsScored(self.prob, self.class_prob, start_s, live, moments)


Result = TypeVar("Result")
Task = Generator[list[WindowBlock], MelScores, Result]
BATCH_WINDOWS = 128  # windows that are scored together, or some more


def in_batches(tasks: Iterable[Task[Result]], detector: MelDetector) -> list[Result]:
    """The results of tasks, in order; the network takes their windows together.

    A task that waits for scores has yielded all of its windows, or `BATCH_WINDOWS` of them: memory
    holds few of them, however many tasks there are and however long each is.
    """
    results = dict[int, Result]()
    waiting = list[tuple[int, Task[Result], list[WindowBlock]]]()

    def go_on(number: int, task: Task[Result], step: Callable[[], list[WindowBlock]]) -> None:
        try:
            waiting.append((number, task, step()))
        except StopIteration as end:
            results[number] = end.value

    def score_waiting() -> None:
        batch, stop = waiting.copy(), 0
        waiting.clear()
        try:
            mels = [block.mel for *_, blocks in batch for block in blocks]
            scores = MelScores.of(torch.cat(mels), detector)
        except Exception as error:  # such as memory that is full: no task ends the others
            for number, task, _ in batch:
                go_on(number, task, partial(task.throw, error))
            return
        for number, task, blocks in batch:
            start, stop = stop, stop + _windows_of(blocks)
            go_on(number, task, partial(task.send, scores.part(start, stop)))

    for number, task in enumerate(tasks):
        go_on(number, task, partial(next, task))
        while sum(_windows_of(blocks) for *_, blocks in waiting) >= BATCH_WINDOWS:
            score_waiting()
    while waiting:
        score_waiting()
    return [results[number] for number in sorted(results)]


def _windows_of(blocks: Iterable[WindowBlock]) -> int:
    return sum(block.chunk.windows for block in blocks)


class Pieces:
    """Cuts a stream of sound into pieces whose windows are those of the whole.

    Each piece but the first begins `lead` windows early, for what a filter needs to settle. Each
    but the last has `most` windows after them.
    """

    def __init__(self, signal: SignalConfig, lead: int, most: int) -> None:
        self._signal, self._lead, self._most = signal, lead, most
        self._pending = np.empty(0, np.float32)
        self._skip = 0  # windows at its start that were scored before

    def add(self, sound: Float32[np.ndarray, " N"]) -> Iterator[tuple[np.ndarray, int]]:
        """Take sound; yield what is whole: pieces, and how many windows of each to leave out."""
        self._pending = np.concatenate([self._pending, sound])
        window, hop = self._signal.window_samples, self._signal.window_hop_samples
        # so much that the next piece has a window of its own, however little sound follows
        while len(self._pending) >= (self._skip + self._most) * hop + window:
            stop = (self._skip + self._most - 1) * hop + window
            yield self._pending[:stop], self._skip
            following = self._skip + self._most
            kept = max(0, following - self._lead)
            self._pending, self._skip = self._pending[kept * hop :], following - kept

    def last(self) -> tuple[np.ndarray, int]:
        return self._pending, self._skip


class _TappedSound(SoundStream):
    """A stream that also keeps its sound as it is before the high-pass, which the graph runs."""

    before: list[np.ndarray]

    def _noted(self, sound: np.ndarray) -> np.ndarray:
        self.before.append(sound)
        return super()._noted(sound)


class _LiveWindows(MelStream):
    """Windows as for any model, with the sound before the high-pass."""

    def __init__(self, source: SoundSource, log_mel: LogMel, channel: int) -> None:
        super().__init__(source, log_mel)
        self._sound: _TappedSound = _TappedSound(source, log_mel.signal, channel, with_hum=True)
        self._sound.before = []

    def taken(self) -> Float32[np.ndarray, " N"]:
        """Sound that came since the last call."""
        blocks, self._sound.before = self._sound.before, []
        return np.concatenate([np.empty(0, np.float32), *blocks])


def sound_scores(
    source: SoundSource, detector: OnnxDetector, log_mel: LogMel, channel: int
) -> tuple[WaveformFacts, WindowsScored]:
    """Score a recording's windows piece by piece; of one without a whole window, its log-mel."""
    stream = _LiveWindows(source, log_mel, channel)
    pieces = Pieces(log_mel.signal, detector.lead_windows, detector.piece_windows)
    starts, live, outputs = [], [], []
    for block in stream:
        starts.append(block.window_start_s)
        live.append(block.live)
        outputs += [_outputs(detector, *piece) for piece in pieces.add(stream.taken())]
    outputs += [_outputs(detector, *piece) for piece in pieces.add(stream.taken())]
    start_s, is_live = np.concatenate(starts), np.concatenate(live)
    if "short" in stream.facts.flags:
        scores = MelScores.of(block.mel, detector)  # it has one block
        return stream.facts, scores.of_recording(start_s, is_live)
    outputs.append(_outputs(detector, *pieces.last()))
    prob, classes, moments = map(np.concatenate, zip(*outputs, strict=True))
    moments = moments.sum(axis=0, keepdims=True)
    return stream.facts, WindowsScored(prob, classes, start_s, is_live, moments)


def _outputs(
    detector: OnnxDetector, sound: Float32[np.ndarray, " N"], skip: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probability and classes of the windows behind the first `skip`, and their moments."""
    outputs = detector.sound_scores(sound, skip)
    prob = outputs["window_prob"][skip:]
    classes = outputs.get("class_prob", np.zeros((len(prob) + skip, 0), np.float32))[skip:]
    return prob, classes, moments_of(outputs["moments"])


# flags of recordings without sound
DEAD: tuple[Literal["silent", "stuck", "dropouts"], ...] = ("silent", "stuck", "dropouts")


def score_source(
    source: SoundSource, detector: MelDetector, log_mel: LogMel
) -> Task[list[Verdict]]:
    """The verdict on a file or array; one on each channel where `signal.channels` is `each`."""
    verdicts = list[Verdict]()
    try:
        for opened, channel in recordings_in(source, log_mel.signal):
            verdicts.append((yield from _score_channel(opened, detector, log_mel, channel)))
    except Exception as error:
        channel = len(verdicts) + 1 if verdicts else 0  # 0: it was not opened
        verdicts.append(_failed(source, detector, error, channel))
    return verdicts


def score_listed(
    listed: InputRecording, detector: MelDetector, log_mel: LogMel
) -> Task[list[Verdict]]:
    """The verdicts on a recording of a list, with the columns that its list tells."""
    if listed.error:
        verdicts = [_failed(listed.source, detector, InputError(listed.error))]
    else:
        sound = excerpt(listed.source, listed.span)
        verdicts = yield from score_source(sound, detector, log_mel)
    if listed.span:
        verdicts = [_from(listed.span.start_s, verdict) for verdict in verdicts]
    if not listed.columns:
        return verdicts
    return [replace(verdict, columns=listed.columns) for verdict in verdicts]


def _from(start_s: float, verdict: Verdict) -> Verdict:
    """A verdict on the sound from `start_s` on, with windows counted from the start of the file."""
    windows = [
        Window(round(start_s + begin, 3), round(start_s + end, 3), prob)
        for begin, end, prob in verdict.windows
    ]
    return replace(verdict, windows=windows)


def score_recording(
    source: SoundSource, detector: MelDetector, log_mel: LogMel, channel: int = 0
) -> Verdict:
    """The verdict on one recording; a recording that cannot be scored gives one with an error."""
    (verdict,) = in_batches([_score_channel(source, detector, log_mel, channel)], detector)
    return verdict


def _score_channel(
    source: SoundSource, detector: MelDetector, log_mel: LogMel, channel: int
) -> Task[Verdict]:
    try:
        return (yield from _scored(source, detector, log_mel, channel))
    # one file must never stop the others, whatever a decoder raises
    except Exception as error:
        return _failed(source, detector, error, channel)


def _failed(
    source: SoundSource, detector: MelDetector, error: Exception, channel: int = 0
) -> Verdict:
    return Verdict(
        path=_path(source),
        decision=None,
        leak_prob=None,
        threshold=round(detector.rule.threshold, 6),
        error=str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}",
        model=detector.file_hash,
        channel=channel,
        class_prob=_classes(detector)[1],
    )


def _scored(
    source: SoundSource, detector: MelDetector, log_mel: LogMel, channel: int
) -> Task[Verdict]:
    facts, scored = yield from _windows(source, detector, log_mel, channel)
    prob, class_prob, start, live, moments = scored
    rule, live_windows, live_prob = detector.rule, int(live.sum()), prob[live]
    features = familiarity = None
    if live_windows:
        features = band_features(moments.sum(axis=0, keepdims=True) / live_windows)
    if features is not None and detector.reference is not None:
        familiarity = detector.reference.familiarity(features)
    end = np.minimum(start + log_mel.signal.window_s, facts.duration_s)
    score = rule.score(live_prob, np.array([0, live_windows])) if live_windows else None
    reason = _no_sound(facts.flags, live)
    if not reason and score is not None:
        rate_hz = np.nan if _is_resampled(source) else float(facts.source_rate_hz)
        other = detector.sources.is_other(np.array([rate_hz])) if detector.sources else None
        reason = cast("Reason", str(rule.undecided(score, familiarity, other)[0]))
    decision: Decision = "undecided"
    if not reason and score is not None:
        decision = "leak" if rule.decide(score)[0] else "no_leak"
    class_name, classes = _classes(detector, class_prob[live], score)
    return Verdict(
        path=_path(source),
        decision=decision,
        reason=reason,
        leak_prob=None if score is None else round(float(score[0]), 6),
        threshold=round(rule.threshold, 6),
        windows=[
            Window(round(a, 3), round(b, 3), round(p, 6))
            for a, b, p in zip(start.tolist(), end.tolist(), prob.tolist(), strict=True)
        ],
        leak_windows=int((live_prob >= rule.threshold).sum()),
        duration_s=round(facts.duration_s, 3),
        source_rate_hz=facts.source_rate_hz,
        flags=[*facts.flags, *_met(detector, facts.content_sha256, _path(source))],
        model=detector.file_hash,
        familiarity=None if familiarity is None else round(float(familiarity[0]), 3),
        channel=channel,
        p10_prob=_rounded(low_share(live_prob), 6) if live_windows else None,
        quiet_level_dbfs=_rounded(facts.quiet_level_dbfs, 2),
        mains_hum_db=_rounded(facts.strongest_hum_db, 2),
        class_name=None if decision == "undecided" else class_name,
        class_prob=classes,
        features=None if features is None else features[0].astype(np.float32),
        live=live,
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(float(value), digits)


def _classes(
    detector: MelDetector,
    class_prob: Float[np.ndarray, "W C"] | None = None,
    score: Float[np.ndarray, "1"] | None = None,
) -> tuple[str | None, dict[str, float | None]]:
    """The most probable class and the probability of each; none of a binary model."""
    labels = detector.labels
    names = labels.names if labels.tells_classes else ()
    if not names or class_prob is None or score is None:
        return None, dict.fromkeys(names)
    prob = pool_classes(class_prob, np.array([0, len(class_prob)]), labels.leaks, score)[0]
    return names[int(prob.argmax())], dict(zip(names, prob.round(6).tolist(), strict=True))


def _windows(
    source: SoundSource, detector: MelDetector, log_mel: LogMel, channel: int
) -> Task[tuple[WaveformFacts, WindowsScored]]:
    """Facts of a recording and its windows, scored by their log-mel or, by an `.onnx`, as sound."""
    if isinstance(detector, OnnxDetector):
        return sound_scores(source, detector, log_mel, channel)
    stream, scored = MelStream(source, log_mel, channel=channel, with_hum=True), []
    for blocks in _batches(stream):
        scores = yield blocks
        start_s = np.concatenate([block.window_start_s for block in blocks])
        scored.append(scores.of_recording(start_s, np.concatenate([b.live for b in blocks])))
    return stream.facts, WindowsScored(*map(np.concatenate, zip(*scored, strict=True)))


def _is_resampled(source: SoundSource) -> bool:
    return isinstance(source, ArrayRecording) and source.resampled


def _no_sound(flags: Sequence[Flag], live: Bool[np.ndarray, " W"]) -> Reason:
    """The reason why a recording has too little sound to be decided, "" where it has enough."""
    if not live.any():
        for reason in DEAD:
            if reason in flags:
                return reason
    return "short" if "short" in flags else ""


def _met(detector: MelDetector, content: str, path: str | None) -> list[Flag]:
    files = [absolute_file(parse_location(path))] if path else []
    met = detector.met is not None and any(detector.met.roles_of([content], files))
    return ["met_in_training"] if met else []


def embed_source(
    source: SoundSource, detector: MelDetector, log_mel: LogMel
) -> list[Float[np.ndarray, "W F"]]:
    """Features of every window before the heads, float32; as `score_source` for each channel."""
    features = []
    try:
        for opened, channel in recordings_in(source, log_mel.signal):
            batches = _batches(MelStream(opened, log_mel, channel=channel))
            mels = (torch.cat([block.mel for block in blocks]) for blocks in batches)
            features.append(np.concatenate([detector.embed(mel).numpy() for mel in mels]))
        return features
    except InputError as error:
        raise InputError(f"{_path(source) or 'the array'}: {error}") from error


def _path(source: SoundSource) -> str | None:
    if isinstance(source, ArrayRecording):
        return None
    return str(source if isinstance(source, Location) else source.path)


def _batches(stream: MelStream) -> Iterator[list[WindowBlock]]:
    """About BATCH_WINDOWS windows at a time; at the last of them the recording is closed."""
    blocks = list[WindowBlock]()
    for block in stream:
        blocks.append(block)
        if _windows_of(blocks) >= BATCH_WINDOWS:
            yield blocks
            blocks = []
    if blocks:
        yield blocks
