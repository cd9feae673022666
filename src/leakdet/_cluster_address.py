"""The address of a cluster: `local:N`, N processes on this machine, or that of a scheduler.

The latter is `tcp://…`, `tls://…` or the JSON file that `dask scheduler --scheduler-file` wrote.
"""

import json
import re
from importlib.util import find_spec
from pathlib import Path

from leakdet._processes import check_count
from leakdet.errors import InputError, SettingsError

SCHEDULER = re.compile(r"(tcp|tls)://[^/]+:\d+")
ADDRESSES = "local:N, the JSON file of a scheduler, tcp://HOST:PORT or tls://HOST:PORT"


def check_cluster(name: str, address: str) -> None:
    """Check the address of a cluster before anything is begun; `name` is the setting.

    Raises:
        SettingsError: it is none, asks for too many processes, or Dask is not installed.
        InputError: there is no such file.
    """
    if find_spec("distributed") is None:
        raise SettingsError(f"{name}={address}: needs Dask: pip install 'leakdet[cluster]'")
    if (count := local_count(address)) is not None:
        if count == 0:
            raise SettingsError(f"{name}={address}: allowed are 1 process or more.")
        check_count(f"{name}=local:N, N", count)
    elif not SCHEDULER.fullmatch(address):
        if not address.endswith(".json"):
            raise SettingsError(f"{name}={address}: allowed are {ADDRESSES}.")
        if not Path(address).is_file():
            raise InputError(
                f"{name}={address}: there is no such file. A scheduler writes it: "
                f"dask scheduler --scheduler-file {address}"
            )


def local_count(address: str) -> int | None:
    """N of `local:N`."""
    kind, _, number = address.partition(":")
    return int(number) if kind == "local" and number.isdecimal() else None


def scheduler_address(address: str) -> str:
    """The address that a scheduler wrote into its file, or the one that is given."""
    if not address.endswith(".json"):
        return address
    try:
        return str(json.loads(Path(address).read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"cluster {address}: this is no file of a scheduler ({type(error).__name__}: {error}). "
            f"Write it anew: dask scheduler --scheduler-file {address}"
        ) from error
