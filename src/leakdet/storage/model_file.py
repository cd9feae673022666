"""The model file: one `.safetensors` of weights whose metadata is JSON. Nothing executable is ever loaded.

A training checkpoint carries the same JSON beside its weights, so that it alone is enough to evaluate and predict.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

import leakdet
from leakdet.config import NetworkConfig, SignalConfig, from_dict
from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import MelDetector, sample_shape
from leakdet.detection.labels import LabelMap
from leakdet.detection.networks import make_network
from leakdet.errors import InputError, LeakdetError
from leakdet.storage.ailh_weights import AILH_SIGNAL, convert, read_state
from leakdet.storage.atomic import whole_file

FORMAT_VERSION = 1
CARD_KEY = "leakdet"  # of the safetensors metadata, and of the checkpoint
_NEEDED = ("signal", "labels", "network", "mel_shape", "unit", "blend", "decision_rule")


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
    """Everything but the weights, as plain values; `detector_of` reads it back."""
    return {
        "format_version": FORMAT_VERSION,
        "created_by": f"leakdet {leakdet.__version__}",
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "signal": asdict(signal) if signal else None,
        "signal_hash": signal.hash if signal else None,
        "labels": {
            "mode": labels.mode,
            "names": list(labels.names),
            "leak_index": labels.leak_index,
        },
        "network": asdict(network),
        "mel_shape": list(mel_shape),
        "unit": unit,
        "blend": blend,
        "decision_rule": rule.to_json(),
        "training": dict(training),
        "metrics": dict(metrics or {}),
    }


def save_model(path: Path, weights: Mapping[str, Tensor], card: Mapping[str, Any]) -> None:
    """Write beside the target and rename, so that a file of this name is always whole."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    with whole_file(path) as beside:
        save_file(tensors, beside, metadata={CARD_KEY: json.dumps(card)})


def load_mel_detector(path: Path, device: str = "cpu") -> MelDetector:
    """Read a model file, a training checkpoint, or the predecessor's `best.pth`.

    Raises:
        InputError: missing, cut off, no model of leakdet, of a newer format, or its weights do not fit its network.
    """
    if not path.is_file():
        raise InputError(f"{path}: there is no such model file.")
    match path.suffix:
        case ".ckpt":
            card, weights = _read_checkpoint(path)
        case ".pth" | ".pt":
            card, weights = _read_predecessor(path)
        case _:
            card, weights = _read_model(path)
    try:
        return detector_of(card, weights, str(path), device)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: its description is not one of leakdet ({error!r}).") from error


def detector_of(
    card: dict[str, Any], weights: Mapping[str, Tensor], where: str, device: str = "cpu"
) -> MelDetector:
    """Raises `InputError` on a newer format, a lacking field, or weights that do not fit."""
    version = card.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{where}: its format version is {version}, this leakdet reads {FORMAT_VERSION}."
        )
    lacking = [name for name in _NEEDED if name not in card]
    if lacking:
        raise InputError(f"{where}: its description lacks {lacking}.")
    labels = LabelMap(
        card["labels"]["mode"], tuple(card["labels"]["names"]), int(card["labels"]["leak_index"])
    )
    segments, mels, frames = (int(size) for size in card["mel_shape"])
    config = from_dict(NetworkConfig, card["network"], where)
    network = make_network(
        config, sample_shape((segments, mels, frames), card["unit"]), len(labels.names)
    )
    _load_weights(network, weights, where)
    return MelDetector(
        network=network.to(device).eval(),
        labels=labels,
        mel_shape=(segments, mels, frames),
        unit=str(card["unit"]),
        blend=float(card["blend"]),
        rule=DecisionRule.from_json(card["decision_rule"]),
        signal=SignalConfig.from_dict(card["signal"], where) if card["signal"] else None,
        card=card,
    )


def _load_weights(network: torch.nn.Module, weights: Mapping[str, Tensor], where: str) -> None:
    plain = {name.replace("_orig_mod.", ""): tensor for name, tensor in weights.items()}
    try:
        network.load_state_dict(plain, strict=True)
    except RuntimeError as error:
        raise InputError(f"{where}: its weights do not fit its network: {error}") from error


def _read_model(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a mapping
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a whole .safetensors file ({error}).") from error
    if CARD_KEY not in metadata:
        raise InputError(f"{path}: a .safetensors file, but not a model of leakdet.")
    return _card(path, metadata[CARD_KEY]), weights


def _read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except LeakdetError:
        raise
    except (
        Exception
    ) as error:  # torch raises several kinds for a cut-off file and for pickles that it refuses
        raise InputError(
            f"{path}: not a whole training checkpoint ({str(error).splitlines()[0]})."
        ) from error
    if not isinstance(checkpoint, dict) or CARD_KEY not in checkpoint:
        raise InputError(f"{path}: a checkpoint, but not one of leakdet.")
    prefix = "network."
    weights = {
        n.removeprefix(prefix): t
        for n, t in checkpoint["state_dict"].items()
        if n.startswith(prefix)
    }
    return _card(path, checkpoint[CARD_KEY]), weights


def _read_predecessor(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    found = convert(read_state(path), str(path))
    card = make_card(
        signal=AILH_SIGNAL,
        labels=found.labels,
        network=found.network,
        mel_shape=AILH_SIGNAL.mel_shape,
        unit="segment",
        blend=0.5,
        rule=DecisionRule(pooling="vote", vote_fraction=0.5, threshold=0.5, policy="fixed"),
        training={"converted_from": path.name, "epoch": None},
    )
    return card, found.weights


def _card(path: Path, text: str) -> dict[str, Any]:
    try:
        card = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: its description is not JSON ({error}).") from error
    if not isinstance(card, dict):
        raise InputError(f"{path}: its description is {type(card).__name__}, not an object.")
    return card
