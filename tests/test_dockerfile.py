"""Dockerfile and .dockerignore: what they name exists. No test builds the image."""

import fnmatch
import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
LINES = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8").splitlines()
KEPT = [
    line[1:]
    for line in (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    if line.startswith("!")
]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_what_is_copied_exists_and_is_sent_to_docker() -> None:
    copied = [
        name
        for line in LINES
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    ]
    assert {"src", "conf", "pyproject.toml"} <= set(copied)
    for name in copied:
        assert (REPOSITORY / name).exists(), name
        assert any(fnmatch.fnmatch(name, pattern) for pattern in KEPT), name
    assert set(copied) == set(KEPT)


def test_extras_python_and_the_command_are_those_of_the_package() -> None:
    text = "\n".join(LINES)
    extras = re.search(r"ARG EXTRAS=(\S+)", text)
    assert extras
    assert set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])
    versions = set(re.findall(r"FROM python:(\S+)-slim", text))
    assert len(versions) == 1
    assert f"Programming Language :: Python :: {versions.pop()}" in PROJECT["classifiers"]
    assert 'ENTRYPOINT ["leakdet"]' in LINES
    assert "leakdet" in PROJECT["scripts"]
