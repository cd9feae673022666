"""The layout of the package, read from its source: imports, names, sizes, mirrored tests."""

import ast
import graphlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

import leakdet
from leakdet.cli.config_groups import conf_folder

SRC = Path(leakdet.__file__).parent
UNIT_TESTS = Path(__file__).parent / "unit"

TOOLS = {
    "errors",
    "_cluster",
    "_cluster_address",
    "_cluster_engine",
    "_exit_codes",
    "_imports",
    "_json_lines",
    "_memory_errors",
    "_messages",
    "_parallel",
    "_processes",
    "_progress",
    "_remote",
    "_remote_copies",
    "_remote_errors",
    "_streams",
    "_signals",
}
BUILD = {"building"}
FOUNDATION = {"config", "detection", "storage"} | TOOLS
EVALUATION = FOUNDATION | {"acoustics", "evaluation"}
TRAINING = EVALUATION | {"loading", "training"}
FOLDING = TRAINING | {"building.splits", "crossvalidation"}
ROOMS = FOLDING | BUILD | {"tuning", "scoring", "reporting", "exporting", "learning", "sites"}
ROOMS |= {"parts"}
DOORS = {
    "build",
    "train",
    "tune",
    "crossval",
    "learn",
    "predict",
    "worklist",
    "export",
    "evaluate",
    "settings",
    "info",
}
DOOR_TOOLS = {
    "cli.hydra_door",
    "cli.composition",
    "cli.door_settings",
    "cli.help_pages",
    "cli.past_runs",
    "cli.arguments",
    "cli.window_files",
    "cli.screen_tables",
    "cli.info_text",
    "cli.hub_card",
}
ARRAYS = {"numpy", "torch", "jaxtyping"}
FITTING = {"lightning", "torchmetrics"}
HYDRA = {"hydra", "omegaconf"}
SEARCH = {"optuna", "optuna_integration", "sqlalchemy"}
FIGURES = {"matplotlib", "jinja2"}
DASK = {"dask", "distributed"}

# Room: its imports besides itself, first from leakdet, then libraries besides the standard library.
MAY: dict[str, tuple[set[str], set[str]]] = {
    # Names its public names' modules, and loads none of them.
    "leakdet": (
        {"cli.composition", "errors", "evaluation_run", "scoring", "storage", "training_run"},
        set(),
    ),
    "errors": (set(), set()),
    "config": ({"errors"}, set()),
    "detection.labels": ({"detection.label_view", "errors"}, set()),
    "detection.thresholds": ({"detection.ranking", "errors"}, {"numpy", "jaxtyping"}),
    "detection.ranking": ({"errors"}, {"numpy", "jaxtyping"}),
    "detection.label_view": ({"config", "errors"}, set()),
    "_progress": ({"_messages"}, {"rich"}),
    "_cluster": ({"_cluster_address", "_cluster_engine", "_messages", "errors"}, DASK),
    "_cluster_engine": ({"_cluster_address", "_messages", "errors"}, DASK),
    "_cluster_address": ({"_processes", "errors"}, set()),
    "_parallel": ({"_processes"}, {"torch"}),
    "_processes": ({"errors"}, set()),
    "_messages": ({"_json_lines"}, set()),
    "_json_lines": (set(), set()),
    "_remote": ({"_remote_errors", "errors"}, {"fsspec"}),
    "_remote_copies": ({"_remote", "errors"}, set()),
    "_remote_errors": ({"errors"}, set()),
    "_imports": ({"errors"}, set()),
    "_exit_codes": ({"errors", "_memory_errors", "_messages", "_signals", "_streams"}, set()),
    "_memory_errors": (set(), set()),
    "_signals": (set(), set()),
    "_streams": (set(), set()),
    "acoustics": ({"config"} | TOOLS, ARRAYS | {"scipy", "soundfile", "soxr"}),
    "detection": ({"config"} | TOOLS, ARRAYS | {"scipy"}),
    "storage": ({"config", "detection"} | TOOLS, ARRAYS | {"h5py", "safetensors"}),
    "storage.store_folder": ({"errors"}, set()),
    "storage.atomic": ({"errors"}, set()),
    "storage.readable": ({"errors"}, set()),
    "storage.cache_folder": ({"errors"}, set()),
    "storage.disk_space": ({"errors"}, set()),
    "storage.remote_store": (
        {"_messages", "_remote", "config", "errors", "storage.cache_folder", "storage.disk_space"},
        set(),
    ),
    "storage.model_place": (
        {"_remote", "errors", "storage.onnx_packages", "storage.readable"},
        set(),
    ),
    "storage.onnx_packages": ({"errors"}, set()),
    "building": (FOUNDATION | {"acoustics"}, ARRAYS | {"psutil"}),
    "building.source_listing": ({"_remote", "acoustics", "building", "errors"}, set()),
    "building.splits": (FOUNDATION | {"building"}, ARRAYS),
    "loading": (FOUNDATION, ARRAYS | {"psutil"}),
    "evaluation": (FOUNDATION | {"acoustics"}, ARRAYS | {"scipy"}),
    "scoring": ({"acoustics", "exporting.onnx_detector"} | FOUNDATION, ARRAYS),
    "exporting.onnx_file": ({"_remote", "errors", "storage"}, {"onnx"}),
    "exporting.onnx_detector": (
        FOUNDATION | {"exporting.onnx_file", "exporting.pooled_verdict"},
        ARRAYS | {"onnx", "onnxruntime", "safetensors"},
    ),
    "exporting.pooled_verdict": ({"detection"}, ARRAYS),
    "exporting": (
        {"acoustics", "scoring"} | FOUNDATION,
        ARRAYS | {"onnx", "onnxruntime", "safetensors", "scipy"},
    ),
    "training": (EVALUATION | {"loading"}, ARRAYS | FITTING | {"psutil", "rich"}),
    "crossvalidation": (TRAINING | {"building.splits"}, ARRAYS),
    "learning": (FOLDING | BUILD, ARRAYS),
    "parts": ({"acoustics", "scoring"} | FOUNDATION, ARRAYS | {"pyarrow"}),
    "parts.batch": ({"scoring"}, set()),
    "parts.part_file": ({"errors"}, {"numpy", "pyarrow"}),
    "parts.part_rows": ({"errors", "parts.part_file"}, {"numpy"}),
    "sites": (
        {"config", "detection", "errors", "sites.worklist_row"},
        {"numpy", "jaxtyping"},
    ),
    "tuning": (FOLDING, ARRAYS | FITTING | SEARCH | {"psutil"}),
    "reporting": (FOUNDATION | {"evaluation", "sites.worklist_row"}, ARRAYS | FIGURES),
    "sites.worklist_row": (set(), set()),
    "training.trainer_conflicts": ({"_processes", "config", "errors"}, set()),
    "training_run": (
        TRAINING
        | {"cli.early_checks", "cli.run_folder", "building", "reporting", "cli.screen_tables"},
        ARRAYS | FITTING,
    ),
    "crossval_run": (FOLDING | {"reporting", "cli.screen_tables"}, ARRAYS),
    "suggestion_run": (EVALUATION | {"scoring", "reporting", "review_media"}, ARRAYS),
    "worklist_files": ({"errors", "reporting", "review_media", "scoring"}, set()),
    "worklist_review": (
        {"_progress", "_remote", "errors", "reporting", "review_media", "scoring", "sites"},
        {"numpy"},
    ),
    "worklist_run": (
        FOUNDATION
        | {"leakdet", "parts", "reporting", "scoring", "sites", "worklist_files"}
        | {"worklist_review", "worklist_sources"},
        set(),
    ),
    "worklist_sources": (FOUNDATION | {"parts", "scoring"}, set()),
    "review_media": (EVALUATION | {"scoring", "reporting"}, ARRAYS),
    "learn_run": (FOLDING | BUILD | {"learning", "reporting"}, ARRAYS),
    "cli": (set(), set()),
    "cli.setting_names": (set(), set()),
    "cli.command_line": ({"cli.setting_names", "cli.written_values", "config", "errors"}, set()),
    "cli.written_values": ({"cli.setting_names", "config", "errors"}, set()),
    "cli.early_checks": (
        {
            "_cluster_address",
            "_remote",
            "_processes",
            "config",
            "errors",
            "building.source_listing",
            "storage.atomic",
            "storage.model_place",
            "storage.store_folder",
            "training.trainer_conflicts",
        },
        set(),
    ),
    "cli.past_runs": ({"config", "errors", "storage.model_place", "storage.readable"}, HYDRA),
    "cli.recipe_files": ({"errors", "storage.readable"}, HYDRA),
    "cli.run_folder": ({"errors"}, set()),
    "cli.help_pages": ({"cli.setting_names", "_exit_codes"}, set()),
    "cli.config_groups": ({"config", "errors"}, HYDRA),
    "cli.hydra_errors": (set(), HYDRA),
    "cli.composition": (
        {
            "cli.hydra_errors",
            "config",
            "cli.config_groups",
            "cli.door_settings",
            "cli.command_line",
            "cli.recipe_files",
            "errors",
        },
        HYDRA,
    ),
    "cli.door_settings": (
        {"config", "cli.config_groups", "cli.setting_names", "cli.command_line"},
        HYDRA,
    ),
    "cli.completion": ({"cli.door_settings"}, set()),
    "evaluation_run": (
        EVALUATION | {"scoring", "reporting", "cli.screen_tables"},
        ARRAYS,
    ),
    "cli.hydra_door": (
        {
            "cli.config_groups",
            "cli.composition",
            "cli.door_settings",
            "cli.early_checks",
            "cli.help_pages",
            "cli.hydra_errors",
            "cli.past_runs",
            "cli.sweeps",
            "cli.run_folder",
            "config",
            "storage.remote_store",
        }
        | TOOLS,
        HYDRA,
    ),
    "cli.sweeps": (
        {
            "cli.door_settings",
            "cli.early_checks",
            "cli.past_runs",
            "cli.run_lines",
            "cli.runs_table",
            "_exit_codes",
            "errors",
        },
        HYDRA,
    ),
    "cli.arguments": (
        {"_cluster_address", "_exit_codes", "_json_lines", "_processes", "config"}
        | {"_remote", "detection.thresholds", "errors"},
        set(),
    ),
    "cli.window_files": ({"_remote", "errors", "storage.atomic"}, set()),
    "cli.card_lines": ({"cli.help_pages", "errors"}, set()),
    "cli.runs_table": ({"cli.help_pages"}, {"rich"}),
    "cli.model_lines": (
        {"cli.card_lines", "cli.composition", "errors", "exporting.onnx_file", "storage"},
        set(),
    ),
    "cli.hub_card": (
        {"cli.card_lines", "cli.model_lines", "errors", "exporting.onnx_file", "storage"},
        set(),
    ),
    "cli.store_lines": (
        {"cli.card_lines", "errors", "storage"},
        {"numpy"},
    ),
    "cli.run_lines": (
        {
            "cli.card_lines",
            "cli.model_lines",
            "cli.past_runs",
            "cli.runs_table",
            "errors",
            "storage",
        },
        set(),
    ),
    "cli.info_text": (
        {
            "cli.model_lines",
            "cli.run_lines",
            "cli.store_lines",
            "errors",
            "storage",
        },
        set(),
    ),
    "cli.screen_tables": ({"detection", "evaluation"}, {"rich"}),
    "__main__": (DOORS | {"cli.completion", "errors", "_streams"}, {"rich"}),
}
# A door may import what the rooms may, but neither Hydra nor a library for figures.
LIBRARIES = {library for _, theirs in MAY.values() for library in theirs} - (
    HYDRA | FIGURES | SEARCH | DASK
)
RUNS = {
    "worklist_run",
    "worklist_files",
    "worklist_sources",
    "training_run",
    "crossval_run",
    "evaluation_run",
    "learn_run",
    "prediction_run",
}
MAY |= dict.fromkeys(DOORS, (ROOMS - {"tuning"} | DOOR_TOOLS | RUNS, LIBRARIES))
MAY["tune"] = (ROOMS | DOOR_TOOLS | RUNS, LIBRARIES | SEARCH)
# Small deployments have neither Lightning nor matplotlib.
LEAN_ROOMS = {"acoustics", "scoring", "parts"} | FOUNDATION | {"cli.arguments", "cli.screen_tables"}
LEAN_ROOMS |= {"cli.window_files"}
MAY["prediction_run"] = (LEAN_ROOMS | {"suggestion_run"}, ARRAYS)
MAY["predict"] = (LEAN_ROOMS | {"prediction_run"}, LIBRARIES - FITTING)


def room_of(module: str) -> str:
    """`leakdet.detection.losses` lives in `detection`; `detection.labels` is a room of its own."""
    parts = module.split(".")[1:]
    name = ".".join(parts[:2])
    return name if name in MAY else (parts or ["leakdet"])[0]


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
    """The imports of a module that the table forbids, and a `main` where none belongs."""
    room = room_of(module)
    own, libraries = MAY.get(room, (set(), set()))
    bad = [] if room in MAY else [f"{module}: a room that the table does not know"]
    for name in sorted(imported(source)):
        if name.split(".")[0] == "leakdet":
            target = room_of(name)
            # Any other name is an attribute of the package, such as __version__.
            allowed = target not in MAY or bool(
                {target, target.split(".")[0]} & (own | {room, "leakdet"})
            )
        else:
            allowed = name.split(".")[0] in libraries | sys.stdlib_module_names
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
            "from leakdet.training_run import train_in\nfrom leakdet.cli.hydra_door import Run",
        ),
        ("leakdet.cli.hydra_door", "import hydra\nfrom omegaconf import OmegaConf"),
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


def shared_names(files: Iterable[Path]) -> set[str]:
    """File names that occur twice, but for `__init__.py` and the doors' settings in `config/`."""
    doors_settings = {Path("config") / f"{door}.py" for door in DOORS}
    names = Counter(path.name for path in files if path not in doors_settings)
    return {name for name, count in names.items() if count > 1} - {"__init__.py"}


def test_no_two_modules_have_one_name() -> None:
    assert shared_names(FILES) == set()


def test_the_check_finds_a_shared_name() -> None:
    files = [
        Path("a/__init__.py"),
        Path("b/__init__.py"),
        Path("train.py"),
        Path("config/train.py"),
    ]
    assert shared_names(files) == set()
    assert shared_names([*files, Path("loading/train.py")]) == {"train.py"}


def unmirrored(files: Iterable[Path], tests: Iterable[Path]) -> tuple[set[str], set[str]]:
    """Modules without a test file of their name, and test files without a module of theirs.

    `_progress.py` is tested in `test_progress.py`. Doors have their tests in `tests/workflows`.
    """
    doors = {Path(f"{door}.py") for door in DOORS}
    of_test = {
        path.with_name(f"test_{path.stem.strip('_')}.py"): str(path)
        for path in files
        if path.name != "__init__.py" and path not in doors
    }
    existing = set(tests)
    missing = {module for test, module in of_test.items() if test not in existing}
    return missing, {str(test) for test in existing - of_test.keys()}


def test_every_module_has_a_test_file_of_its_name() -> None:
    tests = {path.relative_to(UNIT_TESTS) for path in UNIT_TESTS.rglob("*.py")}
    missing, stray = unmirrored(FILES, {path for path in tests if path.name != "conftest.py"})
    assert missing == set()
    assert stray == set()


def test_the_check_finds_a_module_without_a_test() -> None:
    files = [Path("detection/losses.py"), Path("detection/__init__.py"), Path("train.py")]
    assert unmirrored(files, [Path("detection/test_losses.py")]) == (set(), set())
    assert unmirrored(files, [Path("storage/test_losses.py")]) == (
        {"detection/losses.py"},
        {"storage/test_losses.py"},
    )


MOST_LINES = 260
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
    """Options of one line are in `cli/config_groups.py`."""
    assert len(list(conf_folder().rglob("*.yaml"))) <= MOST_YAML_FILES


def test_the_check_finds_a_long_file() -> None:
    lines = {"train.py": 80, "tune.py": 81, "config/train.py": 260, "storage/store.py": 261}
    assert too_long(lines) == {"tune.py", "storage/store.py"}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("leakdet", {"torch", "numpy", "lightning", "hydra", "omegaconf", "matplotlib"}),
        ("leakdet.config", {"torch", "numpy", "lightning", "hydra", "omegaconf", "matplotlib"}),
        ("leakdet.detection.labels", {"torch", "numpy", "omegaconf"}),
        ("leakdet.cli.completion", {"torch", "numpy", "hydra", "omegaconf", "rich"}),
        ("leakdet.predict", {"lightning", "pytorch_lightning", "hydra", "omegaconf", "matplotlib"}),
        ("leakdet.train", {"torch", "lightning"}),
        ("leakdet.scoring.earlier_rows", {"torch"}),
        ("leakdet.parts.parts_run", {"torch", "pyarrow", "distributed"}),
        ("leakdet.worklist_run", {"torch", "matplotlib"}),
        ("leakdet.worklist_files", {"torch", "matplotlib"}),
        ("leakdet.scoring.audio_detector", {"lightning", "hydra", "omegaconf", "matplotlib"}),
    ],
)
def test_import_alone_loads_little(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert absent.isdisjoint(run.stdout.split())
