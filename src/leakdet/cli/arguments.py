"""Arguments of doors with plain ones: device, decision, whose code a model may load."""

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


def add_decision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="T",
        help="call leaks where leak_prob reaches T, 0 to 1 (default: the model's own threshold)",
    )
    parser.add_argument(
        "--policy",
        help="fit the threshold anew on the model's validation scores: max_fpr=0.01, min_tpr=0.95, "
        "min_cost=10 (a missed leak costs ten needless digs) or max_f1",
    )
