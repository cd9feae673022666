"""Arguments that doors with plain arguments share: the device, and whose code a model may load."""

import argparse

from leakdet.errors import InputError


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: auto)"
    )


def add_trust_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust-network",
        action="append",
        default=[],
        metavar="PACKAGE.MODULE:CLASS",
        help="a network of your own that the model may load, by the name it was trained with",
    )


def chosen_device(name: str) -> str:
    """`auto` takes a GPU where there is one. Raises `InputError` for a device that this machine does not have."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {name}: not available here ({str(error).splitlines()[0]}). Use auto or cpu."
        ) from error
    return name
