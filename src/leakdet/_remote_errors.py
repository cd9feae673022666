"""What a store behind a URL refuses, in a sentence; what is left may succeed in another try."""

from collections.abc import Iterator
from contextlib import contextmanager

from leakdet.errors import InputError

PACKAGES = {"s3": "'leakdet[cloud]'", "s3a": "'leakdet[cloud]'", "gs": "gcsfs", "gcs": "gcsfs"}
PACKAGES |= dict.fromkeys(("abfs", "abfss", "az"), "adlfs")
FINAL = (  # another try would not change them
    FileNotFoundError, PermissionError, IsADirectoryError, FileExistsError, ValueError, ImportError,
    TypeError, NotImplementedError,
)  # fmt: skip
FORBIDDEN, MISSING = (401, 403), (404, 410)  # answers of a web server


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Raise `InputError` for what another try would not change."""
    protocol = url.partition("://")[0]
    try:
        try:
            yield
        except FileNotFoundError as error:
            require_missing(error)
            raise
    except ImportError as error:
        package = PACKAGES.get(protocol)
        install = f"pip install {package}" if package else str(error)
        raise InputError(f"{protocol}:// needs a package that is missing: {install}") from error
    except FileNotFoundError as error:
        raise InputError("there is no such file, folder or bucket") from error
    except PermissionError as error:
        raise _forbidden(error) from error
    except FINAL as error:
        raise InputError(reason_of(error)) from error
    except Exception as error:
        if getattr(error, "status", 0) in FORBIDDEN:
            raise _forbidden(error) from error
        if "Credential" in type(error).__name__ or "ProfileNotFound" in type(error).__name__:
            raise InputError(
                f"no credentials ({reason_of(error)}); give them in the environment, such as "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE (docs/remote.md)"
            ) from error
        raise


def require_missing(error: FileNotFoundError) -> None:
    """Raise what a web server failed with, where fsspec tells that as a missing file."""
    cause = error.__cause__
    of_server = type(cause).__module__.startswith("aiohttp.")
    if cause and of_server and getattr(cause, "status", 0) not in MISSING:
        raise cause


def _forbidden(error: Exception) -> InputError:
    return InputError(
        f"access is forbidden ({reason_of(error)}); the credentials in the environment do not "
        "allow it (docs/remote.md)"
    )


def reason_of(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return str(text).splitlines()[0].rstrip(".")
