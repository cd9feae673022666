"""Sentences for what a store refuses."""

import pytest

from leakdet._remote_errors import explained, reason_of
from leakdet.errors import InputError


class NoCredentialsError(Exception):
    """As botocore names its own."""


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        ("s3://b/a", ImportError("Install s3fs"), r"pip install 'leakdet\[cloud\]'$"),
        ("abfs://b/a", ImportError("Install adlfs"), "pip install adlfs$"),
        ("gs://b/a", ImportError("Please install gcsfs"), "pip install gcsfs$"),
        ("hdfs://b/a", ImportError("Install pyarrow"), "is missing: Install pyarrow$"),
        ("s3://b/a", FileNotFoundError("b/a"), "there is no such file, folder or bucket$"),
        ("s3://b/a", PermissionError("Denied"), r"access is forbidden \(Denied\); the credentials"),
        ("s3://b/a", NoCredentialsError("none"), r"no credentials \(none\); give them"),
        ("abfs://b/a", ValueError("account_name is needed.\nx"), "^account_name is needed$"),
    ],
)
def test_what_another_try_cannot_change_is_a_sentence(
    url: str, error: Exception, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence), explained(url):
        raise error


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), OSError(121, "I/O")])
def test_what_may_pass_is_left_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)), explained("s3://b/a"):
        raise error


def test_a_reason_is_one_line_and_never_empty() -> None:
    assert reason_of(OSError(5, "Input/output error")) == "Input/output error"
    assert reason_of(TimeoutError()) == "TimeoutError"
    assert reason_of(RuntimeError("slow.\nmore")) == "slow"
