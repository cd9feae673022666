"""Compiles a network, where this machine has what that takes."""

from torch import nn

from leakdet._messages import LOG


def compile_network(network: nn.Module) -> None:
    """Compile in place, so that checkpoint keys stay as they are; without a C++ compiler, warn."""
    # imported only here, since that takes seconds
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        get_cpp_compiler()
    except RuntimeError:
        LOG.warning(
            "compile=true: this machine has no C++ compiler (g++), so the network is trained "
            "without being compiled; results are the same, steps take longer"
        )
        return
    network.compile()
