import pytest
import torch
from torch import nn
from torch.nn import functional

from leakdet.config import NetworkConfig
from leakdet.detection.networks import (
    InputLayer,
    Output,
    leak_probability,
    make_network,
    multiply_adds,
)

NAMES = ("paper", "dual_head", "linear", "compact")
RAW = {"input_norm": "none", "standardise": False, "time_pool": 1}


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_dual_head_has_the_parameters_of_the_predecessor_and_no_dead_ones():
    config = NetworkConfig("dual_head", **RAW)
    assert parameters(make_network(config, (1, 64, 3), 5)) == 618_758
    assert parameters(make_network(config, (1, 64, 1), 5)) == 618_758 - 61_632


def test_a_kernel_as_wide_as_its_input_is_the_same_function():
    narrow = make_network(NetworkConfig("dual_head", **RAW), (1, 64, 1), 5).eval()
    x = torch.randn(3, 1, 64, 1)
    for conv in (narrow.conv1, narrow.conv2, narrow.conv3):
        full = nn.functional.pad(
            conv.weight, (1, 1)
        )  # outer columns can hold anything: they meet padding only
        full[..., 0], full[..., 2] = 7.0, -7.0
        padded = functional.conv2d(x, full, conv.bias, padding=1)
        torch.testing.assert_close(padded, conv(x), atol=1e-4, rtol=1e-4)
        x = conv(x).relu()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(30, 64, 1), (7, 64, 1), (1, 64, 1), (3, 32, 2)])
@pytest.mark.parametrize("pool", [1, 4])
def test_every_network_takes_every_shape(name: str, shape: tuple[int, int, int], pool: int):
    network = make_network(NetworkConfig(name, time_pool=pool), shape, 5)
    output = network(torch.randn(4, *shape) - 40)
    assert output.class_logits.shape == (4, 5)
    assert output.leak_logit.shape == (4,)
    (output.class_logits.sum() + output.leak_logit.sum()).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(30, 64, 1), (1, 64, 1)])
def test_inference_piece_by_piece_is_the_network_on_all_samples(
    name: str, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
):
    network = make_network(NetworkConfig(name), shape, 2).eval()
    mel = (torch.randn(23, *shape) * 9 - 60).half()
    monkeypatch.setattr("leakdet.detection.networks.CPU_NUMBERS", 5 * network.input.numbers(mel))
    sizes = []
    network.register_forward_hook(lambda _, given, __: sizes.append(len(given[0])))
    pieces, whole = network.infer(mel), network(mel.float())
    assert sizes == [5, 5, 5, 5, 3, 23]
    torch.testing.assert_close(pieces, whole, rtol=1e-5, atol=1e-5)
    assert network.input(mel.float())[0].numel() == network.input.numbers(mel)


@pytest.mark.parametrize(
    ("config", "window", "segment"),
    [
        (NetworkConfig("linear"), 192, 192),
        (NetworkConfig("compact", conv_channels=8, dense=32), 49_248, 14_432),
        (NetworkConfig("paper"), 672_128, 137_600),
        (NetworkConfig("dual_head"), 28_984_064, 1_710_848),
    ],
)
def test_multiply_adds_are_half_of_what_torch_counts(
    config: NetworkConfig, window: int, segment: int
):
    """The numbers are half of those of torch.utils.flop_counter.FlopCounterMode, for two classes."""
    for shape, expected in (((30, 64, 1), window), ((1, 64, 1), segment)):
        assert multiply_adds(make_network(config, shape, 2), shape) == expected


def test_linear_is_logistic_regression_on_the_average_over_time():
    network = make_network(NetworkConfig("linear", **RAW), (30, 64, 1), 2)
    mel = torch.randn(5, 30, 64, 1)
    expected = functional.linear(mel.mean((1, 3)), network.cls_head.weight, network.cls_head.bias)
    torch.testing.assert_close(network(mel).class_logits, expected)


@pytest.mark.parametrize("name", NAMES)
def test_level_free_means_that_gain_changes_nothing(name: str):
    network = make_network(NetworkConfig(name), (30, 64, 1), 2).eval()
    mel = torch.randn(5, 30, 64, 1) * 5 - 40
    torch.testing.assert_close(network(mel), network(mel + 17.0), atol=1e-4, rtol=1e-4)


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


def test_leak_probability_blends_both_heads_or_ignores_the_untrained_one():
    output = Output(torch.tensor([[0.0, 2.0], [3.0, 0.0]]), torch.tensor([-1.0, 4.0]))
    softmax, sigmoid = output.class_logits.softmax(1), output.leak_logit.sigmoid()
    torch.testing.assert_close(
        leak_probability(output, 1, 0.5), 0.5 * softmax[:, 1] + 0.5 * sigmoid
    )
    torch.testing.assert_close(leak_probability(output, 0, 1.0), softmax[:, 0])
    random = output._replace(leak_logit=torch.full((2,), float("nan")))
    torch.testing.assert_close(leak_probability(random, 1, 1.0), softmax[:, 1])


@pytest.mark.parametrize("name", NAMES)
def test_the_heads_on_embed_give_what_infer_gives(name: str):
    network = make_network(NetworkConfig(name), (30, 64, 1), 3).eval()
    mel = torch.randn(70, 30, 64, 1).half()
    output = network.infer(mel)
    features = network.embed(mel)
    torch.testing.assert_close(network.cls_head(features), output.class_logits)
    torch.testing.assert_close(network.leak_head(features).squeeze(-1), output.leak_logit)
