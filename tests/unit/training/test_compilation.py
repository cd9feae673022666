"""Compiling a network, and machines that cannot."""

import logging

import pytest
from torch import nn
from torch._inductor import config, cpp_builder

from leakdet.training.compilation import compile_network


def test_a_machine_without_a_compiler_trains_without_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(config.cpp, "cxx", (None, "no-such-compiler"))
    cpp_builder.cpp_compiler_search.cache_clear()
    network = nn.Linear(2, 2)
    with caplog.at_level(logging.WARNING):
        compile_network(network)
    cpp_builder.cpp_compiler_search.cache_clear()
    assert network._compiled_call_impl is None
    assert "no C++ compiler" in caplog.text


def test_a_machine_with_one_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", lambda: "g++")
    network, calls = nn.Linear(2, 2), list[str]()
    monkeypatch.setattr(network, "compile", lambda: calls.append("compiled"))
    compile_network(network)
    assert calls == ["compiled"]
