"""`leakdet serve [MODEL]`: a local page to drop recordings on, and HTTP for machines."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from leakdet.cli.arguments import Parser, add_model_options, between, run_verb
from leakdet.core.errors import require_extra
from leakdet.core.process import EXPLAINED


def parser() -> argparse.ArgumentParser:
    about = "Open a local page to drop recordings on, hear them, say what they were, and learn "
    about += "from it; POST /v1/predict answers machines. Needs the extra serve."
    command = Parser("leakdet serve", description=about, epilog=EXPLAINED)
    add = command.add_argument
    model = "a model file, or the folder of a run (default: the newest of runs/, else a demo)"
    add("model", type=Path, nargs="?", metavar="MODEL", help=model)
    folder = "a folder whose recordings may be chosen on the page; may be repeated"
    add("--folder", type=Path, action="append", default=[], metavar="DIR", help=folder)
    add("--port", type=between(0, 65535), default=8765, help="default: 8765; 0: a free one")
    host = "where to listen; another than the default lets others in (default: 127.0.0.1)"
    add("--host", default="127.0.0.1", help=host)
    add("--no-browser", dest="browser", action="store_false", help="print the link alone")
    work = "where ticks are kept (default: leakdet-work beside the model)"
    add("--work", type=Path, metavar="DIR", help=work)
    add_model_options(command)
    return command


def serve(arguments: argparse.Namespace) -> int:
    require_extra("serve", ("starlette", "uvicorn", "python_multipart"))
    from leakdet.serving.server import run_service

    return run_service(arguments)


def main(argv: Sequence[str] | None = None) -> int:
    return run_verb(serve, parser().parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
