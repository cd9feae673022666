"""Who may know whom: the table of CONTRIBUTING.md, held on the source without running it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import leakdet

SRC = Path(leakdet.__file__).parent

TOOLS = {"errors", "_progress", "_parallel", "_processes", "_exit_codes"}
BUILD = {"building"}
FOUNDATION = {"config", "detection", "storage"} | TOOLS
EVALUATION = FOUNDATION | {"acoustics", "evaluation"}
TRAINING = EVALUATION | {"loading", "training"}
FOLDING = TRAINING | {"building.splits", "crossvalidation"}
ROOMS = FOLDING | BUILD | {"tuning", "scoring", "exporting", "learning", "reporting"}
DOORS = {"build", "train", "tune", "crossval", "predict", "evaluate"}
DOOR_TOOLS = {"_door", "_arguments", "_screen"}
ARRAYS = {"numpy", "torch", "jaxtyping"}
FITTING = {"lightning", "torchmetrics"}
HYDRA = {"hydra", "omegaconf"}
SEARCH = {"optuna", "optuna_integration", "sqlalchemy"}
FIGURES = {"matplotlib", "jinja2"}

# Room: our modules that it may import besides itself, libraries besides the standard library.
MAY: dict[str, tuple[set[str], set[str]]] = {
    "leakdet": (set(), set()),
    "errors": (set(), set()),
    "config": ({"errors"}, set()),
    "detection.labels": ({"errors"}, set()),
    "_progress": (set(), {"rich"}),
    "_parallel": (set(), {"torch"}),
    "_processes": (set(), set()),
    "_exit_codes": ({"errors"}, set()),
    "acoustics": ({"config"} | TOOLS, ARRAYS | {"scipy", "soundfile", "soxr"}),
    "detection": ({"config"} | TOOLS, ARRAYS | {"scipy"}),
    "storage": ({"config", "detection"} | TOOLS, ARRAYS | {"h5py", "safetensors"}),
    "building": (FOUNDATION | {"acoustics"}, ARRAYS | {"psutil"}),
    "building.splits": (FOUNDATION | {"building"}, ARRAYS),
    "loading": (FOUNDATION, ARRAYS | {"psutil"}),
    "evaluation": (FOUNDATION | {"acoustics"}, ARRAYS | {"scipy"}),
    "scoring": ({"acoustics"} | FOUNDATION, ARRAYS),
    "training": (EVALUATION | {"loading"}, ARRAYS | FITTING | {"psutil", "rich"}),
    "crossvalidation": (TRAINING | {"building.splits"}, ARRAYS),
    "tuning": (FOLDING, ARRAYS | FITTING | SEARCH | {"psutil"}),
    "reporting": (FOUNDATION | {"evaluation"}, ARRAYS | FIGURES),
    "training_run": (TRAINING | {"building", "reporting", "_screen"}, ARRAYS | FITTING),
    "_door": ({"config"} | TOOLS, HYDRA | {"rich"}),
    "_arguments": ({"errors"}, {"torch"}),
    "_screen": ({"detection", "evaluation"}, {"rich"}),
    "__main__": (DOORS | {"errors"}, {"rich"}),
}
# A door may use all that the rooms use, but neither Hydra nor figures in person.
LIBRARIES = {library for _, theirs in MAY.values() for library in theirs} - HYDRA - FIGURES - SEARCH
MAY |= dict.fromkeys(DOORS, (ROOMS - {"tuning"} | DOOR_TOOLS | {"training_run"}, LIBRARIES))
MAY["tune"] = (ROOMS | DOOR_TOOLS | {"training_run"}, LIBRARIES | SEARCH)
# Small deployments have neither Lightning nor matplotlib.
LEAN_ROOMS = {"acoustics", "scoring"} | FOUNDATION | {"_arguments", "_screen"}
MAY["predict"] = (LEAN_ROOMS, LIBRARIES - FITTING)


def room_of(module: str) -> str:
    """`leakdet.detection.losses` lives in `detection`; `detection.labels` is a room of its own."""
    parts = module.split(".")[1:]
    name = ".".join(parts[:2])
    return name if name in MAY else (parts or ["leakdet"])[0]


def imported(source: str) -> set[str]:
    """Every module that a source names, at its top or within functions, by statement or `import_module`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(level=level) if level:
                found.add("a relative import")
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("leakdet"):
                found |= {f"{module}.{name.name}" for name in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module)
            case ast.Call(
                func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]
            ):
                found.add(module)
    return found


def faults(module: str, source: str) -> list[str]:
    """The imports of a module that the table forbids, and a `main` where none belongs."""
    room = room_of(module)
    ours, theirs = MAY.get(room, (set(), set()))
    bad = [] if room in MAY else [f"{module}: a room that the table does not know"]
    for name in sorted(imported(source)):
        if name.split(".")[0] == "leakdet":
            target = room_of(name)
            # What no room holds is an attribute of the package, such as __version__.
            allowed = target not in MAY or bool(
                {target, target.split(".")[0]} & (ours | {room, "leakdet"})
            )
        else:
            allowed = name.split(".")[0] in theirs | sys.stdlib_module_names
        bad += [] if allowed else [f"{module} imports {name}"]
    defined = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    if "main" in defined and room not in DOORS | {"__main__"}:
        bad.append(f"{module} defines main: only doors run")
    return bad


@pytest.mark.parametrize(
    "path", sorted(SRC.rglob("*.py")), ids=lambda path: str(path.relative_to(SRC))
)
def test_module_keeps_to_its_layer(path: Path) -> None:
    parts = ("leakdet", *path.relative_to(SRC).with_suffix("").parts)
    module = ".".join(part for part in parts if part != "__init__")
    assert faults(module, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("leakdet.config", "import torch"),
        ("leakdet.config", "from leakdet.detection.labels import Labels"),
        ("leakdet.detection.labels", "import numpy as np"),
        ("leakdet.detection.labels", "from leakdet.detection.losses import focal"),
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
        ("leakdet.tuning.worker", "from leakdet.train import train"),
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
            "from leakdet.training_run import train_in\nfrom leakdet._door import Run",
        ),
        ("leakdet._door", "import hydra\nfrom omegaconf import OmegaConf"),
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


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("leakdet", {"torch", "numpy", "lightning", "hydra", "omegaconf", "matplotlib"}),
        ("leakdet.config", {"torch", "numpy", "lightning", "hydra", "omegaconf", "matplotlib"}),
        ("leakdet.detection.labels", {"torch", "numpy", "omegaconf"}),
        ("leakdet.predict", {"lightning", "pytorch_lightning", "hydra", "omegaconf", "matplotlib"}),
        ("leakdet.train", {"torch", "lightning"}),
    ],
)
def test_import_alone_loads_little(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert absent.isdisjoint(run.stdout.split())
