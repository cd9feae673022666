"""The model file: one `.safetensors` of weights whose metadata is JSON. Nothing in it is executed.

A training checkpoint carries the same JSON beside its weights, so that it alone is enough to
evaluate and predict.
"""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

import leakdet
from leakdet.config import NetworkConfig, SignalConfig, from_dict
from leakdet.config.fields import is_own
from leakdet.core.errors import InputError, LeakdetError, SettingsError
from leakdet.core.files import (
    COPY_AGAIN,
    UNSEALED,
    as_input_error,
    require_readable,
    sealed,
    whole_file,
)
from leakdet.core.files import KEY as SEAL_KEY
from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import MelDetector, sample_shape
from leakdet.detection.familiarity import PREFIX, SpectralReference
from leakdet.detection.labels import BINARY_NAMES, LabelMap
from leakdet.detection.met import HASHES, ROLE, MetRecordings
from leakdet.detection.networks import Network, make_network
from leakdet.detection.source_rates import SourceRates
from leakdet.detection.stored_scores import KEPT, TEST, ValidationScores
from leakdet.storage.model_card import (
    CARD_KEY,
    FORMAT_VERSION,
    MODEL_FILES,
    card_in,
    check_card,
    file_hash,
    model_kind,
    open_safetensors,
    parse_card,
)


def read_torch(path: Path, kind: str) -> Any:
    """Plain containers and tensors on the CPU. `kind` names the file in the error.

    The archive keeps a CRC-32 of each tensor and of all else in it, which torch does not compare.
    """
    # torch raises many kinds for a cut-off file and for pickles that it refuses
    with as_input_error(path, f"a whole {kind}", COPY_AGAIN):
        _check_archive(path)
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            if "weights" not in str(error).casefold():
                raise
            # torch's own text advises to load the file without this protection
            raise ValueError(
                "it is damaged, or holds other objects than tensors and plain values, which are "
                "never loaded: they could run code"
            ) from error


def _check_archive(path: Path) -> None:
    """Raise an error where a part of an archive is not what was written."""
    with path.open("rb") as file:
        if file.read(2) != b"PK":  # the format of torch before 1.6 has no checksums
            return
        with zipfile.ZipFile(file) as archive:
            wrong = archive.testzip()
    if wrong is not None:
        raise ValueError(f"damaged: {wrong} is not what was written, by its checksum")


def write_torch(content: Any, path: Path) -> None:
    """Write what `torch.save` makes of it; a full disk is an OSError, in torch a RuntimeError."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    path.write_bytes(buffer.getbuffer())


AILH_SIGNAL = SignalConfig(
    sample_rate_hz=4096,
    window_samples=1024,
    window_hop_samples=1024,
    segment_samples=512,
    segment_hop_samples=512,
    fmin_hz=0.0,
    fmax_hz=2048.0,
    floor=1e-10,
)  # conf/signal/ailh.yaml
FIVE = ("BACKGROUND", "CRACK", "LEAK", "NORMAL", "UNCLASSIFIED")
LAYERS = ("conv1", "conv2", "conv3", "fc1", "cls_head", "leak_head")
WRAPPED_IN = ("model_state_dict", "state_dict", "model")
PREFIXES = ("_orig_mod.", "module.")


@dataclass
class Converted:
    """A network of AILH as settings, classes and weights of leakdet."""

    network: NetworkConfig
    labels: LabelMap
    weights: dict[str, Tensor]


def read_state(path: Path) -> dict[str, Tensor]:
    """The weights in a `.pth`, whether bare or inside a checkpoint. Nothing in it is executed."""
    weights: Any = read_torch(path, "file of weights")
    for key in WRAPPED_IN:
        if isinstance(weights, Mapping) and isinstance(weights.get(key), Mapping):
            weights = weights[key]
    if not isinstance(weights, Mapping) or not all(
        isinstance(value, Tensor) for value in weights.values()
    ):
        raise InputError(f"{path}: holds no weights of a network.")
    return dict(weights)


def convert(state: Mapping[str, Tensor], where: str) -> Converted:
    """Convert weights of AILH. Raises `InputError` where the layers are others.

    Its kernels are three columns wide although its input has one: only the middle column ever met
    data, and is kept. The file names neither classes nor signal; both are those of the AILH
    scripts.
    """
    weights = {_plain(name): tensor.float() for name, tensor in state.items()}
    wanted = {f"{layer}.{kind}" for layer in LAYERS for kind in ("weight", "bias")}
    if weights.keys() != wanted:
        raise InputError(
            f"{where}: not the network of AILH: it has {sorted(weights.keys() - wanted)} and "
            f"lacks {sorted(wanted - weights.keys())}."
        )
    for layer in ("conv1", "conv2", "conv3"):
        kernel = weights[f"{layer}.weight"]
        middle = kernel.shape[-1] // 2
        weights[f"{layer}.weight"] = kernel[..., middle : middle + 1].contiguous()
    mels = AILH_SIGNAL.n_mels
    weights |= {"input.band_mean": torch.zeros(mels), "input.band_deviation": torch.ones(mels)}
    network = NetworkConfig(name="dual_head", input_norm="none", standardise=False, time_pool=1)
    return Converted(network, _labels(len(weights["cls_head.bias"]), where), weights)


def _plain(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _labels(classes: int, where: str) -> LabelMap:
    match classes:
        case 2:
            return LabelMap("binary", BINARY_NAMES, (1,))
        case 5:
            return LabelMap("multiclass", FIVE, (FIVE.index("LEAK"),))
    raise InputError(f"{where}: has {classes} classes; models of AILH have 2 or 5.")


# of the card
GROUPS_KEY, REFERENCE_KEY, SOURCES_KEY = "groups_met", "spectral_reference", "source_rates"


def make_card(
    *,
    signal: SignalConfig | None,
    labels: LabelMap,
    network: NetworkConfig,
    mel_shape: tuple[int, int, int],
    unit: str,
    blend: float,
    rule: DecisionRule,
    training: Mapping[str, Any],
    metrics: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything but the weights, as plain values."""
    return {
        "format_version": FORMAT_VERSION,
        "created_by": f"leakdet {leakdet.__version__}",
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "signal": asdict(signal) if signal else None,
        "signal_hash": signal.hash if signal else None,
        "labels": labels.to_json(),
        "network": asdict(network),
        "mel_shape": list(mel_shape),
        "unit": unit,
        "blend": blend,
        "decision_rule": rule.to_json(),
        "training": dict(training),
        "metrics": dict(metrics or {}),
    }


def save_model(
    path: Path,
    weights: Mapping[str, Tensor],
    card: Mapping[str, Any],
    met: MetRecordings | None = None,
    validation: ValidationScores | None = None,
    reference: SpectralReference | None = None,
    tested: ValidationScores | None = None,
    sources: SourceRates | None = None,
) -> None:
    """Write a model file atomically."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    if met is not None:
        tensors |= met.tensors()
        card = {**card, GROUPS_KEY: met.groups}
    if validation is not None:
        tensors |= validation.tensors()
    if tested is not None:
        tensors |= tested.tensors(TEST)
    if reference is not None:
        tensors |= reference.tensors()
        card = {**card, REFERENCE_KEY: reference.facts}
    if sources is not None:
        card = {**card, SOURCES_KEY: sources.to_json()}
    with whole_file(path) as partial:
        # not by `save_file`, which ignores the umask and hides a full disk
        metadata = {CARD_KEY: json.dumps(card), SEAL_KEY: UNSEALED}
        partial.write_bytes(sealed(save(tensors, metadata=metadata)))


def load_mel_detector(
    path: Path, device: str = "cpu", trust_network: str | Sequence[str] = ()
) -> MelDetector:
    """Read a model file, a training checkpoint, or the `best.pth` of AILH.

    A model whose network is user code, `package.module:Class`, loads only where `trust_network`
    names it: a file never chooses what is imported.
    """
    card, weights = read_model(path)
    try:
        labels = LabelMap.from_json(card["labels"])
        segments, mels, frames = map(int, card["mel_shape"])
        unit, blend = str(card["unit"]), float(card["blend"])
        rule = DecisionRule.from_json(card["decision_rule"])
        signal = SignalConfig.from_dict(card["signal"], str(path)) if card["signal"] else None
        config = from_dict(NetworkConfig, card["network"], str(path))
        met = MetRecordings.from_file(weights, card.get(GROUPS_KEY, {}))
        met = met or _met_by_its_run(path)
        validation = ValidationScores.from_file(weights)
        tested = ValidationScores.from_file(weights, TEST)
        reference = SpectralReference.from_file(weights, card.get(REFERENCE_KEY))
        sources = SourceRates.from_json(card.get(SOURCES_KEY))
    except LeakdetError:
        raise
    # KeyError, TypeError, ValueError, IndexError, OverflowError … of a file without a seal
    except Exception as error:
        raise InputError(f"{path}: its description is not one of leakdet ({error!r}).") from error
    _check_trusted(path, config.name, trust_network)
    mel_shape = (segments, mels, frames)
    network = _network(path, config, sample_shape(mel_shape, unit), len(labels.names), weights)
    network = network.to(device).eval()
    return MelDetector(
        network,
        labels,
        mel_shape,
        unit,
        blend,
        rule,
        signal,
        card,
        file_hash(path),
        met,
        validation,
        reference,
        tested,
        sources,
    )


def read_model(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Checked description and weights of a model file, a checkpoint, or the `best.pth` of AILH."""
    require_readable(path, "model file")
    match model_kind(path):
        case ".ckpt":
            card, weights = _read_checkpoint(path)
        case ".pth" | ".pt":
            card, weights = _read_ailh_weights(path)
        case ".onnx":
            raise InputError(f"{path}: no training begins with an .onnx file; name its model file.")
        case _:
            card, weights = _read_safetensors(path)
    check_card(path, card)
    return card, weights


def _met_by_its_run(path: Path) -> MetRecordings | None:
    """Recordings that a checkpoint has met, as the model file of its run says, if there is one."""
    beside = path.absolute().parent.parent / MODEL_FILES[0]
    if model_kind(path) != ".ckpt" or not beside.is_file():
        return None
    try:
        card, tensors = _read_safetensors(beside)
        return MetRecordings.from_file(tensors, card.get(GROUPS_KEY, {}))
    except (LeakdetError, ValueError):  # no reason to refuse a checkpoint that is whole
        return None


def _check_trusted(path: Path, name: str, trust_network: str | Sequence[str]) -> None:
    trusted = [trust_network] if isinstance(trust_network, str) else trust_network
    if is_own(name) and name not in trusted:
        raise InputError(
            f"{path}: its network {name} is no part of leakdet and was not loaded. If you trust "
            f"that code, add --trust-network {name} (in Python trust_network={name!r}, in a "
            f"training network.name={name})."
        )


def _network(
    path: Path,
    config: NetworkConfig,
    shape: tuple[int, int, int],
    classes: int,
    weights: Mapping[str, Tensor],
) -> Network:
    """The network with its weights; those of a compiled network load too."""
    try:
        with torch.random.fork_rng(devices=[]):  # its first weights, which are replaced, are drawn
            network = make_network(config, shape, classes)
    except SettingsError as error:
        raise InputError(f"{path}: its network cannot be loaded. {error}") from error
    plain = {
        name.replace("_orig_mod.", ""): tensor
        for name, tensor in weights.items()
        if name not in (HASHES, ROLE, *KEPT) and not name.startswith(PREFIX)
    }
    try:
        network.load_state_dict(plain, strict=True)
    except RuntimeError as error:
        raise InputError(f"{path}: its weights do not fit its network: {error}") from error
    return network


def _read_safetensors(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with open_safetensors(path, "pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a mapping
        return card_in(path, file.metadata()), weights


def _read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    checkpoint = read_torch(path, "training checkpoint")
    if not isinstance(checkpoint, dict) or CARD_KEY not in checkpoint:
        raise InputError(f"{path}: a checkpoint, but not one of leakdet.")
    prefix = "network."
    weights = {
        name.removeprefix(prefix): tensor
        for name, tensor in checkpoint["state_dict"].items()
        if name.startswith(prefix)
    }
    return parse_card(path, checkpoint[CARD_KEY]), weights


def _read_ailh_weights(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    converted = convert(read_state(path), str(path))
    card = make_card(
        signal=AILH_SIGNAL,
        labels=converted.labels,
        network=converted.network,
        mel_shape=AILH_SIGNAL.mel_shape,
        unit="segment",
        blend=0.5,
        rule=DecisionRule(pooling="vote", vote_fraction=0.5, threshold=0.5, policy="fixed"),
        training={"converted_from": path.name, "epoch": None},
    )
    return card, converted.weights
