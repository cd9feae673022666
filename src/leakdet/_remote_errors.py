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


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Raise `InputError` for what another try would not change."""
    protocol = url.partition("://")[0]
    try:
        yield
    except ImportError as error:
        package = PACKAGES.get(protocol)
        install = f"pip install {package}" if package else str(error)
        raise InputError(f"{protocol}:// needs a package that is missing: {install}") from error
    except FileNotFoundError as error:
        raise InputError("there is no such file, folder or bucket") from error
    except PermissionError as error:
        raise InputError(
            f"access is forbidden ({reason_of(error)}); the credentials in the environment do not "
            "allow it (docs/remote.md)"
        ) from error
    except FINAL as error:
        raise InputError(reason_of(error)) from error
    except Exception as error:
        if "Credential" in type(error).__name__ or "ProfileNotFound" in type(error).__name__:
            raise InputError(
                f"no credentials ({reason_of(error)}); give them in the environment, such as "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE (docs/remote.md)"
            ) from error
        raise


def reason_of(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return str(text).splitlines()[0].rstrip(".")
