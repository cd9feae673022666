from leakdet.config import NetworkConfig
from leakdet.exporting.network_cost import network_cost


def test_layers_are_counted_by_hand(made) -> None:
    """Twelve bands averaged over time, then two heads: 12 to 2 and 12 to 1."""
    linear = made(network=NetworkConfig("linear")).mel_detector
    cost = network_cost(linear)
    assert cost.parameters == (12 + 1) * 2 + (12 + 1)
    assert cost.multiply_adds == 12 * 2 + 12
    assert cost.peak_values == 7 * 12 + 2 * 12  # the input layer averages four columns
    assert cost.sentence().startswith("39 parameters, 36 multiply-adds a window")
    segments = made(network=NetworkConfig("linear"), unit="segment").mel_detector
    assert network_cost(segments).multiply_adds == 7 * 36


def test_a_convolution_counts_its_kernel_at_each_place(made) -> None:
    config = NetworkConfig("paper", conv_channels=4, dense=8, time_pool=1)
    cost = network_cost(made(network=config).mel_detector)
    dense = 4 * 6 * 3
    assert cost.multiply_adds == 12 * 7 * 4 * 9 + dense * 8 + 8 * 3
    assert cost.peak_values == 12 * 7 + 4 * 12 * 7
