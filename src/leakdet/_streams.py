"""Standard streams that a command can always write to, whatever their encoding."""

import io
import os
import sys


def prepare_streams() -> None:
    """Let no character end a command, and no stream that its caller has closed.

    Names of files may hold any bytes: a UTF-8 stream writes them as they are. What another encoding
    lacks is written as an escape.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed before the start
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
            setattr(sys, name, stream)
        if isinstance(stream, io.TextIOWrapper):
            utf8 = stream.encoding.replace("-", "").lower() == "utf8"
            stream.reconfigure(errors="surrogateescape" if utf8 else "backslashreplace")
