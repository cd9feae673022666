import math
import sys
import types
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from leakdet.config import NetworkConfig
from leakdet.config.model import NETWORKS
from leakdet.core.errors import SettingsError
from leakdet.detection.networks import (
    STEPS,
    Dropout,
    FeatureSums,
    InputLayer,
    Network,
    band_features,
    make_network,
    window_moments,
)


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_the_share_that_is_dropped_and_the_scale_of_the_rest(p: float) -> None:
    numbers = torch.full((1001, 333), 2.0)
    dropped = Dropout(p)(numbers)
    share = float((dropped == 0).double().mean())
    assert share == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / numbers.numel()))
    kept = dropped[dropped != 0]
    torch.testing.assert_close(
        kept, torch.full_like(kept, 2.0 / (1 - p)), rtol=2 / STEPS / (1 - p), atol=0.0
    )


def test_elements_are_dropped_independently_of_each_other_and_of_their_position() -> None:
    """Four elements share a random word, but neighbours up to 8 apart are uncorrelated, and columns
    have equal shares.
    """
    dropped = (Dropout(0.25)(torch.ones(4000, 64)) == 0).double()
    flat = dropped.flatten() - dropped.mean()
    for apart in range(1, 9):
        correlation = float((flat[apart:] * flat[:-apart]).mean() / flat.square().mean())
        assert abs(correlation) < 5 / math.sqrt(flat.numel())
    assert (dropped.mean(0) - 0.25).abs().max() < 5 * math.sqrt(0.25 * 0.75 / 4000)


def test_the_gradient_passes_where_the_number_did() -> None:
    numbers = torch.randn(7, 13, requires_grad=True)
    dropped = Dropout(0.25)(numbers)
    dropped.sum().backward()
    assert numbers.grad is not None
    torch.testing.assert_close(numbers.grad * numbers, dropped)


def test_the_seed_decides() -> None:
    layer, masks = Dropout(0.5), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(layer(torch.ones(100)))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_all_or_nothing_is_torchs(p: float) -> None:
    numbers = torch.randn(10)
    assert torch.equal(Dropout(p)(numbers), nn.Dropout(p)(numbers))


def test_nothing_is_dropped_outside_training_and_the_type_stays() -> None:
    layer = Dropout(0.25)
    assert layer(torch.ones(5, dtype=torch.bfloat16)).dtype == torch.bfloat16
    numbers = torch.randn(5)
    assert torch.equal(layer.eval()(numbers), numbers)


def test_the_input_layer_gives_bands_of_mean_0_and_deviation_1():
    layer = InputLayer(NetworkConfig(time_pool=3), 8)
    mel = torch.randn(64, 7, 8, 1) * torch.arange(1, 9)[:, None] + 10 * torch.arange(8)[:, None]
    layer.fit(mel.split(10))
    x = layer(mel)
    assert x.shape == (64, 1, 8, 3)
    torch.testing.assert_close(x.mean((0, 1, 3)), torch.zeros(8), atol=1e-3, rtol=0)
    torch.testing.assert_close(x.var((0, 1, 3), correction=0), torch.ones(8), atol=1e-3, rtol=0)


def test_a_silent_band_stays_finite():
    layer = InputLayer(NetworkConfig(input_norm="none"), 2)
    layer.fit([torch.full((4, 30, 2, 1), -100.0)])
    assert torch.equal(layer(torch.full((4, 30, 2, 1), -100.0)), torch.zeros(4, 1, 2, 8))


BANDS = 5


def mel_of(windows: int, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(-60.0, 8.0, (windows, 3, BANDS, 2))).half()


def test_features_are_the_level_free_means_and_the_spreads() -> None:
    mel = mel_of(4, 0)
    level = mel.double().numpy().transpose(0, 1, 3, 2).reshape(-1, BANDS)
    features = band_features(window_moments(mel).mean(axis=0))
    np.testing.assert_allclose(features[:BANDS], level.mean(0) - level.mean(), atol=1e-4)
    np.testing.assert_allclose(features[BANDS:], level.std(0), atol=1e-4)


def test_level_does_not_matter() -> None:
    mel = mel_of(4, 1).float()
    quiet, loud = (band_features(window_moments(mel + d).mean(axis=0)) for d in (-16.0, 16.0))
    np.testing.assert_allclose(quiet, loud, atol=1e-4)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 12))
def test_blocks_of_any_size_give_the_features_of_each_recording(
    windows: list[int], block: int
) -> None:
    offsets = np.concatenate([[0], np.cumsum(windows)])
    mel = mel_of(int(offsets[-1]), 2)
    sums = FeatureSums(offsets, BANDS)
    for start in range(0, len(mel), block):
        sums.add(mel[start : start + block])
    alone = [band_features(window_moments(mel[a:b]).mean(axis=0)) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(sums.features(), alone, atol=1e-9)


RAW = {"input_norm": "none", "standardise": False, "time_pool": 1}


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_dual_head_has_the_parameters_of_ailh_and_no_dead_ones():
    config = NetworkConfig("dual_head", **RAW)
    assert parameters(make_network(config, (1, 64, 3), 5)) == 618_758
    assert parameters(make_network(config, (1, 64, 1), 5)) == 618_758 - 61_632


def test_a_kernel_as_wide_as_its_input_is_the_same_function():
    narrow = make_network(NetworkConfig("dual_head", **RAW), (1, 64, 1), 5).eval()
    x = torch.randn(3, 1, 64, 1)
    for conv in (narrow.conv1, narrow.conv2, narrow.conv3):
        # outer columns can hold anything: they meet padding only
        full = nn.functional.pad(conv.weight, (1, 1))
        full[..., 0], full[..., 2] = 7.0, -7.0
        padded = functional.conv2d(x, full, conv.bias, padding=1)
        torch.testing.assert_close(padded, conv(x), atol=1e-4, rtol=1e-4)
        x = conv(x).relu()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shape", [(30, 64, 1), (7, 64, 1), (1, 64, 1), (3, 32, 2)])
@pytest.mark.parametrize("pool", [1, 4])
def test_every_network_takes_every_shape(name: str, shape: tuple[int, int, int], pool: int):
    network = make_network(NetworkConfig(name, time_pool=pool), shape, 5)
    output = network(torch.randn(4, *shape) - 40)
    assert output.class_logits.shape == (4, 5)
    assert output.leak_logit.shape == (4,)
    (output.class_logits.sum() + output.leak_logit.sum()).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shape", [(30, 64, 1), (1, 64, 1)])
def test_inference_piece_by_piece_is_the_network_on_all_samples(
    name: str, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
):
    network = make_network(NetworkConfig(name), shape, 2).eval()
    mel = (torch.randn(23, *shape) * 9 - 60).half()
    monkeypatch.setattr(
        "leakdet.detection.networks.CPU_CHUNK_ELEMENTS", 5 * network.input.elements_per_sample(mel)
    )
    sizes = []
    network.register_forward_hook(lambda _, given, __: sizes.append(len(given[0])))
    pieces, whole = network.infer(mel), network(mel.float())
    assert sizes == [5, 5, 5, 5, 3, 23]
    torch.testing.assert_close(pieces, whole, rtol=1e-5, atol=1e-5)
    assert network.input(mel.float())[0].numel() == network.input.elements_per_sample(mel)


@pytest.mark.parametrize(
    ("config", "window", "segment"),
    [
        (NetworkConfig("linear"), 192, 192),
        (NetworkConfig("compact", conv_channels=8, dense=32), 49_248, 14_432),
        (NetworkConfig("paper", conv_channels=32, dense=128), 672_128, 137_600),
        (NetworkConfig("dual_head"), 28_984_064, 1_710_848),
    ],
)
def test_multiply_adds_of_one_sample(config: NetworkConfig, window: int, segment: int):
    """Two classes; a multiply-add is two of the operations that torch counts."""
    for shape, expected in (((30, 64, 1), window), ((1, 64, 1), segment)):
        network = make_network(config, shape, 2).eval()
        with FlopCounterMode(display=False) as counter:
            network(torch.zeros(1, *shape))
        assert counter.get_total_flops() == 2 * expected


def test_linear_is_logistic_regression_on_the_average_over_time():
    network = make_network(NetworkConfig("linear", **RAW), (30, 64, 1), 2)
    mel = torch.randn(5, 30, 64, 1)
    expected = functional.linear(mel.mean((1, 3)), network.cls_head.weight, network.cls_head.bias)
    torch.testing.assert_close(network(mel).class_logits, expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_level_free_means_that_gain_changes_nothing(name: str):
    network = make_network(NetworkConfig(name), (30, 64, 1), 2).eval()
    mel = torch.randn(5, 30, 64, 1) * 5 - 40
    torch.testing.assert_close(network(mel), network(mel + 17.0), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_heads_on_embed_give_what_infer_gives(name: str):
    network = make_network(NetworkConfig(name), (30, 64, 1), 3).eval()
    mel = torch.randn(70, 30, 64, 1).half()
    output = network.infer(mel)
    features = network.embed(mel)
    torch.testing.assert_close(network.cls_head(features), output.class_logits)
    torch.testing.assert_close(network.leak_head(features).squeeze(-1), output.leak_logit)


class Own(Network):
    def __init__(
        self, config: NetworkConfig, mels: int, columns: int, classes: int, width: int = 8
    ) -> None:
        super().__init__(config, mels)
        self.dense = nn.Linear(mels * columns, width)
        self.add_heads(width, classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x.flatten(1)).relu()


class ExtraClass(Own):
    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels, columns, classes + 1)


class NoHeads(Network):
    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)


class WrongWidth(Network):
    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels)
        self.add_heads(7, classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)


class Fails(Network):
    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels)
        self.dense = nn.Linear(mels // 0, classes)


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of networks that is no part of leakdet."""
    module = types.ModuleType("a_persons_nets")
    module.Own, module.ExtraClass, module.function = Own, ExtraClass, functional.relu  # type: ignore[attr-defined]
    module.NoHeads = NoHeads  # type: ignore[attr-defined]
    module.WrongWidth, module.Fails = WrongWidth, Fails  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


def test_a_users_network_takes_its_own_settings(own_module: str):
    config = NetworkConfig(f"{own_module}:Own", extra={"width": 5})
    network = make_network(config, (30, 64, 1), 3)
    assert type(network) is Own
    assert network.training
    assert network(torch.zeros(2, 30, 64, 1)).class_logits.shape == (2, 3)
    assert network.embed(torch.zeros(2, 30, 64, 1)).shape == (2, 5)


@pytest.mark.parametrize(
    ("name", "extra", "message"),
    [
        ("Missing", {}, "has no Missing"),
        ("function", {}, "no subclass of leakdet.detection.networks.Network"),
        ("Own", {"widht": 5}, r"network.extra=\{'widht': 5\}: .*unexpected keyword"),
        ("NoHeads", {}, r"heads are missing.*self.add_heads"),
        (
            "WrongWidth",
            {},
            r"features .*\(2, 512\).*add_heads\(7, classes\) .*\(2, 7\)",
        ),
        (
            "Fails",
            {},
            r"a_persons_nets:Fails: .*ZeroDivisionError: .*test_networks",
        ),
        ("ExtraClass", {}, r"gives \[\(2, 4\), \(2,\)\]; it must give"),
    ],
)
def test_a_faulty_user_network_is_refused(
    own_module: str, name: str, extra: dict[str, object], message: str
):
    with pytest.raises(SettingsError, match=message):
        make_network(NetworkConfig(f"{own_module}:{name}", extra=extra), (30, 64, 1), 3)
