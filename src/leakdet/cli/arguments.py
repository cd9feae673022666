"""Arguments that doors with plain arguments share: the device, and whose code a model may load."""

import argparse


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
