"""A custom network and loss from a package outside leakdet: train, evaluate, predict, init_from."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leakdet.storage.model_file import load_mel_detector

SMOKE = ("experiment=smoke", "logger=csv", "trainer.enable_progress_bar=false")
OWN = (
    "network.name=my_package.nets:MyNet",
    "network.extra.width=6",
    "loss.name=my_package.losses:my_loss",
    "loss.extra.power=2.0",
)
TRUST = "my_package.nets:MyNet"

NETS = '''
from torch import nn
from leakdet.detection.networks import Network


class MyNet(Network):
    """A dense layer on the band levels averaged over time."""

    def __init__(self, config, mels, columns, classes, width=16):
        super().__init__(config, mels)
        self.dense = nn.Linear(mels, width)
        self.add_heads(width, classes)

    def features(self, x):
        return self.dense(x.mean(-1).flatten(1)).relu()
'''
LOSSES = """
from torch.nn import functional


def my_loss(class_logits, class_id, power=1.0):
    return functional.cross_entropy(class_logits, class_id, reduction="none") ** power
"""


def write_package(folder: Path) -> None:
    package = folder / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "nets.py").write_text(NETS)
    (package / "losses.py").write_text(LOSSES)


@contextmanager
def forgotten_afterwards() -> Iterator[None]:
    """Remove the package from sys.modules and sys.path, as if what follows were another process."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name.split(".")[0] == "my_package"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def own_run(demo_store: Path, tmp_path_factory: pytest.TempPathFactory, door) -> Path:
    """The folder of a run whose network and loss are in the folder it was started in."""
    folder = tmp_path_factory.mktemp("own")
    write_package(folder)
    with forgotten_afterwards():
        result = door(
            "train", *SMOKE, *OWN, f"data.store={demo_store}", "hydra.run.dir=run", cwd=folder
        )
    assert result.returncode == 0, result.stderr
    return folder / "run"


@pytest.fixture(autouse=True)
def _nothing_imported_yet():
    with forgotten_afterwards():
        yield


def test_the_model_file_names_the_network_and_its_settings(
    own_run: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(own_run.parent)
    card = load_mel_detector(own_run / "model.safetensors", trust_network=TRUST).card
    assert card["network"]["name"] == TRUST
    assert card["network"]["extra"] == {"width": 6}
    assert card["training"]["settings"]["loss"]["name"] == "my_package.losses:my_loss"


@pytest.mark.parametrize("name", ["model.safetensors", "checkpoints/best_f1.ckpt"])
def test_predict_loads_the_network_only_if_it_is_trusted(
    own_run: Path, demo_store: Path, door, tmp_path: Path, name: str
):
    command = ("predict", own_run / name, demo_store / "audio", "--out", "rows.csv")
    refused = door(*command, cwd=own_run.parent)
    assert refused.returncode == 2
    assert f"\nerror: {own_run / name}: its network {TRUST} " in refused.stderr
    assert f"--trust-network {TRUST} " in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "my_package" not in sys.modules
    elsewhere = door(*command, "--trust-network", TRUST, cwd=tmp_path)
    assert elsewhere.returncode == 2
    assert "No module named 'my_package'" in elsewhere.stderr
    assert [line.split()[0] for line in elsewhere.stderr.splitlines()] == ["files", "error:"]
    trusted = door(*command, "--trust-network", TRUST, cwd=own_run.parent)
    assert trusted.returncode == 0, trusted.stderr
    assert "60 files" in trusted.stderr
    assert (own_run.parent / "rows.csv").exists()


def test_evaluate_takes_two_models_and_several_trusted_networks(
    own_run: Path, trained, demo_store: Path, door
):
    models = (own_run / "model.safetensors", trained.model)
    result = door("evaluate", *models, demo_store, cwd=own_run.parent)
    assert result.returncode == 2
    assert f"--trust-network {TRUST} " in result.stderr
    trust = ("--trust-network", "other:Net", "--trust-network", TRUST)
    result = door("evaluate", *models, demo_store, *trust, cwd=own_run.parent)
    assert result.returncode == 0, result.stderr


def test_a_warm_start_needs_the_name_of_the_network(
    own_run: Path, demo_store: Path, door, tmp_path: Path
):
    command = ("train", *SMOKE, f"data.store={demo_store}", "trainer.max_epochs=1")
    start = f"init_from={own_run / 'model.safetensors'}"
    refused = door(*command, start, f"hydra.run.dir={tmp_path / 'refused'}", cwd=own_run.parent)
    assert refused.returncode == 2
    assert f"network.name={TRUST}" in refused.stderr
    assert "my_package" not in sys.modules
    result = door(*command, *OWN, start, f"hydra.run.dir={tmp_path / 'on'}", cwd=own_run.parent)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("network.name=my_package.nets:NoNet", "my_package.nets has no NoNet"),
        ("network.extra.widht=6", "unexpected keyword argument 'widht'"),
        ("loss.name=my_package.loses:my_loss", "No module named 'my_package.loses'"),
        ("loss.extra.pover=2", "unexpected keyword argument 'pover'"),
    ],
)
def test_a_misspelt_name_or_setting_fails_before_any_work(
    own_run: Path, door, tmp_path: Path, override: str, message: str
):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "train.h5").touch()  # whoever opened it would complain of it
    run = ("hydra.run.dir=slip", f"data.store={tmp_path / 'broken'}")
    result = door("train", *SMOKE, *OWN, override, *run, cwd=own_run.parent)
    assert result.returncode == 2
    assert message in result.stderr
