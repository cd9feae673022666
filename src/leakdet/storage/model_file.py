"""The model file: one `.safetensors` of weights whose metadata is JSON. Nothing in it is executed.

A training checkpoint carries the same JSON beside its weights, so that it alone is enough to
evaluate and predict.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

import leakdet
from leakdet.config import NetworkConfig, SignalConfig, from_dict
from leakdet.config.range_checks import is_own
from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import MelDetector, sample_shape
from leakdet.detection.kept_scores import KEPT, TEST, ValidationScores
from leakdet.detection.labels import LabelMap
from leakdet.detection.met_recordings import HASHES, ROLE, MetRecordings
from leakdet.detection.networks import Network, make_network
from leakdet.detection.spectral_reference import PREFIX, SpectralReference
from leakdet.errors import InputError, LeakdetError, SettingsError
from leakdet.storage.ailh_weights import AILH_SIGNAL, convert, read_state
from leakdet.storage.atomic import whole_file
from leakdet.storage.model_card import (
    CARD_KEY,
    FORMAT_VERSION,
    card_in,
    check_card,
    file_hash,
    open_safetensors,
    parse_card,
)
from leakdet.storage.model_place import MODEL_FILES, model_kind
from leakdet.storage.readable import require_readable
from leakdet.storage.seal import KEY as SEAL_KEY
from leakdet.storage.seal import UNSEALED, sealed
from leakdet.storage.torch_file import read_torch

GROUPS_KEY, REFERENCE_KEY = "groups_met", "spectral_reference"  # of the card


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

    Raises:
        InputError: missing, cut off, no model of leakdet, of a newer format, with a network that is
            not trusted or not installed, or with weights that do not fit the network.
    """
    card, weights = read_model(path)
    try:
        labels = LabelMap.from_json(card["labels"])
        segments, mels, frames = map(int, card["mel_shape"])
        unit, blend = str(card["unit"]), float(card["blend"])
        rule = DecisionRule.from_json(card["decision_rule"])
        signal = SignalConfig.from_dict(card["signal"], str(path)) if card["signal"] else None
        # files of leakdet 0.1.0 have no `extra`
        config = from_dict(NetworkConfig, {"extra": {}} | card["network"], str(path))
        met = MetRecordings.from_file(weights, card.get(GROUPS_KEY, {}))
        met = met or _met_by_its_run(path)
        validation = ValidationScores.from_file(weights)
        tested = ValidationScores.from_file(weights, TEST)
        reference = SpectralReference.from_file(weights, card.get(REFERENCE_KEY))
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
    )


def read_model(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Checked description and weights of a model file, a checkpoint, or the `best.pth` of AILH.

    Raises:
        InputError: missing, cut off, no model of leakdet, or of a newer format.
    """
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
