"""What a forge and strangers read: workflows, hooks, templates, security, citation."""

import ast
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

import leakdet
from leakdet.acoustics.containers.sound_file import SoundFile
from leakdet.core.errors import InputError
from leakdet.core.files import read_json
from leakdet.exporting.file import read_onnx
from leakdet.storage.hdf5 import open_h5
from leakdet.tables.parts_db import RecordingsDb
from leakdet.tables.read import read_rows, read_table

REPOSITORY = Path(__file__).parents[1]
SRC = REPOSITORY / "src" / "leakdet"
TARGETS = set(re.findall(r"(?m)^([a-z-]+):", (REPOSITORY / "Makefile").read_text("utf-8")))
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


def loaded(path: str) -> dict:
    return yaml.safe_load((REPOSITORY / path).read_text("utf-8"))


def made_by(text: str) -> set[str]:
    return set(re.findall(r"\bmake ([a-z-]+)", text))


def test_the_workflow_runs_what_is_run_before_a_merge() -> None:
    jobs = loaded(".github/workflows/ci.yaml")["jobs"]
    run = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set.union(*map(made_by, run))
    assert targets <= TARGETS
    assert targets == made_by((REPOSITORY / ".ci" / "run").read_text("utf-8")) | {"oldest"}


def test_the_workflow_tries_the_ends_of_the_supported_pythons() -> None:
    tried = loaded(".github/workflows/ci.yaml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    supported = [
        name.rpartition(" ")[2]
        for name in PROJECT["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]
    assert tried == [supported[0], supported[-1]]


def test_hooks_and_templates_name_targets_that_exist() -> None:
    hooks = loaded(".pre-commit-config.yaml")["repos"][0]["hooks"]
    assert {hook["entry"] for hook in hooks} == {"make format", "make lint"}
    for form in ("bug", "wish"):
        content = loaded(f".github/ISSUE_TEMPLATE/{form}.yml")
        assert {"name", "description", "body"} <= content.keys()
    assert made_by((REPOSITORY / ".github/pull_request_template.md").read_text("utf-8")) <= TARGETS


def test_the_citation_is_of_this_version_and_names_no_one_who_is_not_known() -> None:
    citation = loaded("CITATION.cff")
    assert citation["version"] == leakdet.__version__ == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == [{"name": "The leakdet authors"}]


def test_what_only_an_owner_can_fill_stands_in_one_place() -> None:
    texts = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("*.cff"), *REPOSITORY.glob(".github/**/*")]
    named = [path.name for path in texts if path.is_file() and "TODO" in path.read_text("utf-8")]
    assert named == ["OWNER.md"]


def test_a_checkpoint_that_would_run_code_is_refused_and_runs_none(tmp_path: Path) -> None:
    class Writes:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "ran",)

    for suffix in (".ckpt", ".pth"):
        torch.save({"state_dict": Writes()}, tmp_path / f"evil{suffix}")
        with pytest.raises(InputError):
            leakdet.load_detector(tmp_path / f"evil{suffix}")
    assert not (tmp_path / "ran").exists()


def test_nothing_in_the_source_reads_what_could_run() -> None:
    """torch.load in one place, with weights_only; no pickle, eval, exec or instantiation."""
    found = []
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if re.fullmatch(
                    r"eval|exec|(\w+\.)*(pickle\.loads?|instantiate|unsafe_load)|torch\.load"
                    r"|yaml\.load|np\.load|(\w+\.)*load_from_checkpoint",
                    called,
                ):
                    found.append((path.name, ast.unparse(node)))
    assert found == [("model_file.py", "torch.load(path, map_location='cpu', weights_only=True)")]


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{7:064}\nsize 258000\n"


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("m.safetensors", leakdet.load_detector),
        ("m.onnx", read_onnx),
        ("m.ckpt", leakdet.load_detector),
        ("m.pth", leakdet.load_detector),
        ("train.h5", lambda path: open_h5(path).__enter__()),
        ("list.csv", read_table),
        ("rows.csv", read_rows),
        ("rows.parquet", read_rows),
        ("parts.json", lambda path: read_json(path, "a description")),
        ("files.sqlite", RecordingsDb),
        ("a.wav", SoundFile),
    ],
)
def test_a_pointer_of_git_lfs_is_called_one(
    name: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(POINTER)
    with pytest.raises(InputError, match=r"a pointer of Git LFS .*git lfs pull"):
        read(tmp_path / name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*TorchScript archive")
def test_torchs_advice_to_load_what_runs_is_not_passed_on(tmp_path: Path) -> None:
    (tmp_path / "text.ckpt").write_text("no checkpoint")
    torch.save({"state_dict": Path.touch}, tmp_path / "code.ckpt")
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), str(tmp_path / "script.ckpt"))
    for path in tmp_path.iterdir():
        with pytest.raises(InputError, match="never loaded: they could run code") as caught:
            leakdet.load_detector(path)
        assert "weights" not in str(caught.value)
