"""The layout of the package, read from its source: who imports whom by room, sizes, light imports."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

import leakdet
from leakdet.cli.settings import conf_folder

SRC = Path(leakdet.__file__).parent
UNIT_TESTS = Path(__file__).parent / "unit"
DOORS = {
    "build",
    "train",
    "tune",
    "crossval",
    "learn",
    "predict",
    "evaluate",
    "worklist",
    "serve",
    "export",
    "settings",
    "info",
}
ARRAYS = "numpy torch jaxtyping scipy"

# Room: the rooms that it may import besides itself, and libraries besides the standard library.
ROOMS = {
    "core": ("", "torch rich fsspec dask distributed"),
    "config": ("core", ""),
    "detection": ("core config", ARRAYS),
    "acoustics": ("core config", f"{ARRAYS} soundfile soxr"),
    "tables": ("core", "numpy pyarrow openpyxl"),
    "storage": ("core config detection tables", f"{ARRAYS} h5py safetensors"),
    "building": ("core config detection tables storage acoustics", f"{ARRAYS} psutil"),
    "loading": ("core config detection storage", f"{ARRAYS} psutil"),
    "exporting": (
        "core config detection tables storage acoustics scoring",
        f"{ARRAYS} onnx onnxruntime safetensors",
    ),
    # reporting shows a verdict in a notebook, when it is asked to
    "scoring": ("core config detection tables storage acoustics exporting reporting", ARRAYS),
    "evaluation": ("core config detection tables storage acoustics", ARRAYS),
    "training": (
        "core config detection tables storage acoustics loading evaluation",
        f"{ARRAYS} lightning torchmetrics psutil rich",
    ),
    "crossvalidation": ("core config detection tables storage evaluation training", ARRAYS),
    "tuning": (
        "core config detection tables storage evaluation training reporting",
        f"{ARRAYS} lightning optuna optuna_integration sqlalchemy psutil",
    ),
    "learning": (
        "core config detection tables storage acoustics building evaluation training",
        ARRAYS,
    ),
    "sites": ("core config detection tables", ARRAYS),
    "reporting": (
        "core config detection tables storage acoustics evaluation sites",
        f"{ARRAYS} matplotlib jinja2 PIL",
    ),
    "serving": (
        "core cli detection tables storage acoustics scoring reporting",
        "numpy starlette uvicorn",
    ),
    "cli": (
        "core config detection tables storage building evaluation exporting",
        "numpy rich hydra omegaconf",
    ),
    # The package names its public modules, and loads none of them.
    "leakdet": ("core cli tables storage scoring runs", ""),
    "__main__": (f"core cli {' '.join(DOORS)}", "rich"),
}
EVERY_ROOM = " ".join(set(ROOMS) - {"leakdet", "__main__"})
ROOMS["runs"] = (EVERY_ROOM, f"{ARRAYS} lightning optuna")
# A door may import what it needs, but neither Hydra nor a library for figures; only tune searches.
ROOMS |= {
    door: (
        " ".join({*EVERY_ROOM.split(), "runs"} - ({"tuning"} if door != "tune" else set())),
        f"{ARRAYS} lightning rich",
    )
    for door in DOORS
}
# Single modules that are kept lighter than their rooms: an error answers before torch is loaded,
# and a small deployment of predict has neither Lightning nor matplotlib.
LEAN = "core config detection tables storage acoustics scoring"
LIGHTER = {
    "predict": ("core cli runs", ""),
    "serve": ("core cli serving", ""),
    "runs.prediction": (f"{LEAN} cli runs", ARRAYS),
    "detection.labels": ("core config", ""),
    "config.conflicts": ("core", ""),
    "cli.arguments": ("core config detection tables storage", ""),
    "cli.help": ("core", ""),
    "cli.settings": ("core config", "hydra omegaconf"),
    "storage.folder": ("core config", ""),
    "core.files": ("", ""),
    "core.errors": ("", ""),
}


def room_of(module: str) -> str:
    """`leakdet.detection.losses` lives in `detection`."""
    return (module.split(".")[1:] or ["leakdet"])[0]


def imported(source: str) -> set[str]:
    """Every module that a source imports, also within functions and by `import_module`."""
    modules = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                modules |= {name.name for name in names}
            case ast.ImportFrom(level=level) if level:
                modules.add("a relative import")
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("leakdet"):
                modules |= {f"{module}.{name.name}" for name in names}
            case ast.ImportFrom(module=str(module)):
                modules.add(module)
            case ast.Call(
                func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]
            ):
                modules.add(module)
    return modules


def faults(module: str, source: str) -> list[str]:
    """The imports of a module that the tables forbid, and a `main` where none belongs."""
    room, name_in_package = room_of(module), module.removeprefix("leakdet.")
    if room not in ROOMS:
        return [f"{module}: a room that the table does not know"]
    rooms, libraries = LIGHTER.get(name_in_package, ROOMS[room])
    bad = []
    for name in sorted(imported(source)):
        target = room_of(name)
        if name.split(".")[0] != "leakdet":
            allowed = name.split(".")[0] in {*libraries.split(), *sys.stdlib_module_names}
        else:
            # Any other name is an attribute of the package, such as __version__.
            allowed = target not in ROOMS or target in {*rooms.split(), room, "leakdet"}
        bad += [] if allowed else [f"{module} imports {name}"]
    defined = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    if "main" in defined and room not in DOORS | {"__main__"}:
        bad.append(f"{module} defines main: only doors run")
    return bad


def module_name(path: Path) -> str:
    """`leakdet.detection.losses` for `detection/losses.py`."""
    parts = ("leakdet", *path.with_suffix("").parts)
    return ".".join(part for part in parts if part != "__init__")


FILES = sorted(path.relative_to(SRC) for path in SRC.rglob("*.py"))
SOURCES = {module_name(path): (SRC / path).read_text(encoding="utf-8") for path in FILES}


@pytest.mark.parametrize("module", SOURCES)
def test_module_keeps_to_its_layer(module: str) -> None:
    assert faults(module, SOURCES[module]) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("leakdet.config", "import torch"),
        ("leakdet.config", "from leakdet.detection.labels import Labels"),
        ("leakdet.detection.labels", "import numpy as np"),
        ("leakdet.detection.losses", "from leakdet.acoustics import mel"),
        ("leakdet.acoustics.mel", "def f():\n    from lightning.pytorch import Trainer"),
        ("leakdet.acoustics.mel", "from leakdet import storage"),
        ("leakdet.storage.store", "from omegaconf import DictConfig"),
        (
            "leakdet.storage.store",
            "import importlib\nimportlib.import_module('leakdet.training.module')",
        ),
        ("leakdet.training.module", "import matplotlib.pyplot as plt"),
        ("leakdet.training.module", "import optuna"),
        ("leakdet.training.module", "from leakdet.tuning.space import grid"),
        ("leakdet.tuning.study", "import hydra"),
        ("leakdet.tuning.workers", "from leakdet.train import train"),
        ("leakdet.crossval", "from leakdet.tuning.space import grid"),
        ("leakdet.training.module", "from leakdet.reporting.report import write"),
        ("leakdet.reporting.report", "if True:\n    import hydra"),
        ("leakdet.train", "import hydra"),
        ("leakdet.train", "from leakdet.build import build"),
        ("leakdet.train", "from leakdet import tune"),
        ("leakdet.predict", "def f():\n    from leakdet.training.module import Module"),
        ("leakdet.loading.samples", "import lightning.pytorch"),
        ("leakdet.loading.samples", "from leakdet.acoustics import mel"),
        ("leakdet.storage.store", "from leakdet.acoustics import mel"),
        ("leakdet.crossval", "from leakdet.train import train"),
        ("leakdet.detection.networks", "from . import losses"),
        ("leakdet.detection.networks", "def main(): ..."),
        ("leakdet.helpers", ""),
    ],
)
def test_the_check_finds_an_offender(module: str, source: str) -> None:
    assert len(faults(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "leakdet.tune",
            "from leakdet.runs.training import train_in\nfrom leakdet.cli.run import Run",
        ),
        ("leakdet.cli.run", "import hydra\nfrom omegaconf import OmegaConf"),
        (
            "leakdet.storage.model_file",
            "import json, h5py, leakdet\nfrom leakdet import __version__",
        ),
        ("leakdet.storage.model_file", "from leakdet.detection import labels"),
        ("leakdet.reporting.report", "import matplotlib.pyplot as plt"),
    ],
)
def test_the_check_passes_a_good_module(module: str, source: str) -> None:
    assert faults(module, source) == []


def import_cycle(sources: dict[str, str]) -> list[str]:
    """Modules that import each other in a circle, lazily or for TYPE_CHECKING too; empty if none.

    The package itself is left out, because it only names public modules and loads them lazily.
    """
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        graph[module] = set()
        for name in imported(source):
            while name and name not in sources:
                name = name.rpartition(".")[0]
            graph[module] |= {name} - {"", "leakdet", module}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert import_cycle(SOURCES) == []


@pytest.mark.parametrize(
    "source",
    [
        "from leakdet.b import name",
        "from leakdet import b",
        "def f():\n    import leakdet.b",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from leakdet.b import Type",
    ],
)
def test_the_check_finds_an_import_cycle(source: str) -> None:
    sources = {"leakdet.a": source, "leakdet.b": "from leakdet import c", "leakdet.c": ""}
    assert import_cycle(sources) == []
    sources["leakdet.c"] = "from leakdet.a import name"
    assert set(import_cycle(sources)) == set(sources)


def test_unit_tests_lie_in_the_folders_of_rooms() -> None:
    """A room is tested in its folder, in as many files as read well; doors in tests/workflows."""
    folders = {path.parent.relative_to(UNIT_TESTS) for path in UNIT_TESTS.rglob("test_*.py")}
    packages = {path.parent.relative_to(SRC) for path in SRC.rglob("*.py")}
    assert folders == packages


MOST_LINES = 600
MOST_DOOR_LINES = 80
MOST_YAML_FILES = 24


def too_long(lines: dict[str, int]) -> set[str]:
    return {
        path
        for path, count in lines.items()
        if count > (MOST_DOOR_LINES if path.removesuffix(".py") in DOORS else MOST_LINES)
    }


def test_no_file_is_too_long() -> None:
    lines = {str(path): len(SOURCES[module_name(path)].splitlines()) for path in FILES}
    assert too_long(lines) == set()


def test_conf_has_few_files() -> None:
    """Options of one line are in `cli/settings.py`."""
    assert len(list(conf_folder().rglob("*.yaml"))) <= MOST_YAML_FILES


def test_the_check_finds_a_long_file() -> None:
    lines = {"train.py": 80, "tune.py": 81, "config/train.py": 600, "storage/store.py": 601}
    assert too_long(lines) == {"tune.py", "storage/store.py"}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("leakdet", {"torch", "numpy", "lightning", "hydra", "omegaconf", "matplotlib"}),
        ("leakdet.config", {"torch", "numpy", "lightning", "hydra", "omegaconf", "matplotlib"}),
        ("leakdet.detection.labels", {"torch", "numpy", "omegaconf"}),
        ("leakdet.cli.help", {"torch", "numpy", "hydra", "omegaconf", "rich"}),
        ("leakdet.predict", {"lightning", "pytorch_lightning", "hydra", "omegaconf", "matplotlib"}),
        ("leakdet.train", {"torch", "lightning", "numpy", "h5py"}),
        ("leakdet.serve", {"torch", "numpy", "starlette", "uvicorn", "jinja2"}),
        ("leakdet.scoring.prediction", {"torch"}),
        ("leakdet.scoring.parts", {"torch", "pyarrow", "distributed"}),
        ("leakdet.runs.worklist", {"torch", "matplotlib"}),
        ("leakdet.runs.prediction", {"torch", "lightning"}),
        ("leakdet.scoring.detector", {"lightning", "hydra", "omegaconf", "matplotlib"}),
    ],
)
def test_import_alone_loads_little(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert absent.isdisjoint(run.stdout.split())
