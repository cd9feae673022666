"""Files behind URLs, such as `s3://bucket/night/a.wav`, read and written through fsspec.

Credentials and endpoints come from the environment, or from fsspec's own configuration files.
"""

import errno
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from leakdet.core.errors import InputError

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
        "allow it, or a signature that its URL had is over, or was not kept (docs/remote.md)"
    )


def reason_of(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return without_secrets(str(text).splitlines()[0].rstrip("."))


_URL_IN_TEXT = re.compile(
    r"""([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#'"@\\:]*:[^\s/?#'"@\\]*@)?"""  # a user with password
    r"""([^\s?'"\\]*)(\?[^\s'"\\]*)?"""
)
_SECRET = re.compile(
    r"(?i)[?&;][^=&;]*(sig|token|key|secret|auth|pass|cred|session|policy|jwt|x-amz|x-goog)[^=&;]*="
    r"|=[^&;]{32,}"
)


def without_secrets(text: str) -> str:
    """The text with URLs that lack passwords, and queries where a signature or token is in them.

    >>> without_secrets("https://host/a.wav?X-Amz-Signature=5e"), without_secrets("s3://b/a?.wav")
    ('https://host/a.wav', 's3://b/a?.wav')
    """
    if "://" not in text:
        return text

    def public(url: re.Match[str]) -> str:
        protocol, _, name, query = url.groups(default="")
        return f"{protocol}{name}{'' if _SECRET.search(query) else query}"

    return _URL_IN_TEXT.sub(public, text)


Result = TypeVar("Result")

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::[A-Za-z][^/]*)?://")
TRIES = 5
WAIT_S = 0.5  # before the second try; doubles with each, and varies by half
# Retries are made here alone, alike for every kind of store.
OPTIONS: dict[str, dict[str, Any]] = {"s3": {"config_kwargs": {"retries": {"max_attempts": 0}}}}
OPTIONS["s3a"] = OPTIONS["s3"]
_signed: dict[str, str] = {}  # by the text of a file, its URL with signature or password
_silent: set[str] = set()  # hosts and buckets that gave up; asked once only, until they answer


def is_url(name: object) -> bool:
    """True if a name is a URL.

    >>> is_url("s3://bucket/a.wav"), is_url("night/a.wav"), is_url("C://a.wav")
    (True, False, False)
    """
    return URL.match(str(name)) is not None


@dataclass(frozen=True, order=True)
class RemoteFile:
    """A file, or the folder of several, by its URL.

    As text it has no password, signature or token: that is its name in all that is written.

    Its methods ask again, later and later, where an answer fails to come. They raise `InputError`
    with a reason that does not name the file, as readers of sound do.
    """

    url: str

    def __post_init__(self) -> None:
        if str(self) != self.url:
            _signed[str(self)] = self.url

    def __str__(self) -> str:
        return without_secrets(self.url)

    @property
    def key(self) -> PurePosixPath:
        """Its path in the store, for the parts of its name."""
        return PurePosixPath(str(self).partition("::")[0].partition("://")[2])

    @property
    def host(self) -> str:
        """The start of its URL, with the bucket or host."""
        return "/".join(self.url.split("/")[:3])

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def parent(self) -> "RemoteFile":
        """The folder that it lies in."""
        folder, chained, rest = str(self).partition("::")
        protocol, _, key = folder.partition("://")
        above = key.rstrip("/").rpartition("/")[0]
        return RemoteFile(f"{protocol}://{above}{chained}{rest}")

    def absolute(self) -> "RemoteFile":
        """Itself: a URL is always absolute."""
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        return self.key.parts

    @property
    def stem(self) -> str:
        return self.key.stem

    @property
    def suffix(self) -> str:
        return self.key.suffix

    def __truediv__(self, name: str) -> "RemoteFile":
        """A file below this folder."""
        folder, chained, rest = self.url.partition("::")
        slash = "" if folder.endswith("/") else "/"
        return RemoteFile(f"{folder}{slash}{name}{chained}{rest}")

    def read_bytes(self) -> bytes:
        """The whole content, by one request."""
        return self._ask(lambda fs, key: bytes(fs.cat_file(key)))

    def read_range(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to before `stop`, or to the end, by one request."""

        def ask(fs: Any, key: str) -> bytes:
            try:
                return bytes(fs.cat_file(key, start=start, end=stop))[: stop - start]
            except OSError as error:  # many stores know no range of an empty file
                if error.errno != errno.EINVAL or fs.info(key)["size"] > start:
                    raise
                return b""

        return self._ask(ask)

    def size(self) -> int:
        """Its bytes, by a request."""
        return self._ask(lambda fs, key: int(fs.info(key)["size"]))

    def exists(self) -> bool:
        """True if there is such a file or folder."""

        def ask(fs: Any, key: str) -> bool:
            try:
                fs.info(key)  # `exists` says no where it was refused, too
            except FileNotFoundError as error:
                require_missing(error)
                return False
            return True

        return self._ask(ask)

    def is_folder(self) -> bool:
        """True if there are files below this name."""
        return self._ask(lambda fs, key: bool(fs.info(key)["type"] == "directory"))

    def sizes(self) -> dict[str, int]:
        """The bytes of all files below this folder, by their names relative to it, in order.

        They are 0 where a web server lists names only.
        """

        def ask(fs: Any, key: str) -> dict[str, int]:
            root = f"{key.rstrip('/')}/"
            found = fs.find(key, detail=True)
            if not found:
                fs.info(key)
            below = sorted(name for name in found if name.startswith(root))
            return {name[len(root) :]: int(found[name]["size"] or 0) for name in below}

        found = self._ask(ask)
        return {name: size for name, size in found.items() if name and not name.endswith("/")}

    def names(self) -> list[str]:
        """The names of all files below this folder, as in `sizes`."""
        return list(self.sizes())

    def matches(self) -> "list[RemoteFile]":
        """What its name means as a glob; itself where it is none, or exists under that name."""
        if not has_magic(str(self.key)) or self.exists():
            return [self]
        protocol = self.url.partition("://")[0]
        names = self._ask(lambda fs, key: sorted(fs.glob(key)))
        return [RemoteFile(f"{protocol}://{name.lstrip('/')}") for name in names]

    def get(self, local: Path) -> None:
        """Copy it to a local file."""
        self._ask(lambda fs, key: fs.get_file(key, str(local)))

    def put(self, local: Path) -> None:
        """Write it as a copy of a local file, whole."""
        self._ask(lambda fs, key: fs.put_file(str(local), key))

    def remove(self) -> None:
        self._ask(lambda fs, key: fs.rm_file(key))

    def _ask(self, question: Callable[[Any, str], Result]) -> Result:
        tries = 1 if self.host in _silent else TRIES
        for number in range(1, tries + 1):
            try:
                with explained(self.url):
                    fs, key = _opened(self.url)
                    result = question(fs, key)
                _silent.discard(self.host)
                return result
            except InputError:
                raise
            except Exception as error:
                if number == tries:
                    _silent.add(self.host)
                    count = "1 try" if tries == 1 else f"{tries} tries"
                    raise InputError(f"not reached in {count} ({reason_of(error)})") from error
            time.sleep(WAIT_S * 2 ** (number - 1) * random.uniform(0.5, 1.5))
        raise AssertionError  # a try returns or raises


Location = Path | RemoteFile  # of this machine, or behind a URL


AUDIO_SUFFIXES = frozenset(
    ".wav .wave .flac .ogg .oga .opus .mp3 .mp2 .mpga .aif .aiff .aifc .au .snd .caf .w64 .rf64 "
    ".bwf .voc .sph .nist".split()
)
SOURCE_FILE = "source_file"  # the group of the channels, or the spans, of one file


class Span(NamedTuple):
    """Some seconds of a recording, from its start."""

    start_s: float
    end_s: float

    def __str__(self) -> str:
        return f"{self.start_s:.10g}-{self.end_s:.10g}s"


class Excerpt(NamedTuple):
    """Some seconds of a file, which are read as a file of their own would be."""

    path: Location
    span: Span


def excerpt(path: Location, span: Span | None) -> Location | Excerpt:
    """The seconds of a file; None: the whole file."""
    return Excerpt(path, span) if span else path


def parse_location(name: str | os.PathLike[str] | RemoteFile) -> Location:
    """Where a name leads: a URL of another machine, or a path, also of `file://`.

    A URL that this process knows with a signature is read with it.
    """
    if isinstance(name, RemoteFile):
        return name
    if not isinstance(name, str) or not is_url(name):
        return Path(name)
    if name.startswith(("file://", "local://")):
        return Path(name.partition("://")[2])
    return RemoteFile(_signed.get(name, name))


def absolute_name(name: str) -> str:
    """The absolute path of a name, links as they are named, or a glob; a URL without secrets.

    >>> absolute_name("s3://bucket/a.wav"), absolute_name("/night/../a.wav")
    ('s3://bucket/a.wav', '/a.wav')
    """
    # the path resolves no links
    return str(parse_location(name)) if is_url(name) else os.path.abspath(name)  # noqa: PTH100


def absolute_file(file: Location) -> str:
    """The same for one file, whatever folder it was named from; links to it differ."""
    if isinstance(file, RemoteFile):
        return str(file)
    path = Path.cwd() / file
    return str(path.parent.resolve() / path.name if ".." in path.parts else path)


def check_reachable(first: Mapping[str, Sequence[RemoteFile]]) -> None:
    """Check before any work that files can be had, by the first few of each bucket or host.

    Files that are missing are not looked for.
    """
    for host, files in first.items():
        failures = []
        for file in files:
            try:
                if file.exists() or RemoteFile(host).exists():
                    break
                failures.append(with_location(file, InputError("there is no such file or bucket")))
            except InputError as error:
                failures.append(with_location(file, error))
        else:
            raise failures[0]


def with_location(remote: object, error: InputError, word: str = "") -> InputError:
    """The same error as a sentence that names the file, as for the whole command."""
    return InputError(f"{word}{remote}: {str(error).rstrip('.')}.")


def _opened(url: str) -> tuple[Any, str]:
    """The store of a URL, and the key of the file in it."""
    import fsspec

    protocol = url.partition("://")[0]
    options = {**OPTIONS.get(protocol, {}), **fsspec.config.conf.get(protocol, {})}
    # what a folder holds may change, and a million names would stay in memory
    fs, key = fsspec.url_to_fs(url, **{"use_listings_cache": False, **options})
    if getattr(fs, "retries", 1) != 1:
        fs.retries = 1
    return fs, key


_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed at the end of the process


def local_copy(file: Location, word: str = "") -> Path:
    """A copy of a file under its own name; a local file as it is.

    `word` is what stands before it on the command line, such as `source=`.
    """
    if isinstance(file, Path):
        return file
    copy = new_folder() / file.name
    try:
        copy.write_bytes(file.read_bytes())
    except InputError as error:
        raise with_location(file, error, word) from error
    return copy


def new_folder() -> Path:
    """An empty folder of this process."""
    _folders.append(tempfile.TemporaryDirectory(prefix="leakdet-"))
    return Path(_folders[-1].name)


@contextmanager
def errors_naming(file: Location, copy: Path) -> Iterator[None]:
    """Name the file itself where an error of the block names its copy."""
    try:
        yield
    except InputError as error:
        if str(file) == str(copy):
            raise
        raise InputError(str(error).replace(str(copy), str(file))) from error
