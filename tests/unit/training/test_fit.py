"""A run trains, or ends with the reason why it did not."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from leakdet.config import TrainConfig
from leakdet.core.errors import LeakdetError
from leakdet.training import log_names
from leakdet.training.checkpoints import read_checkpoint
from leakdet.training.fit import result_checkpoint

Configured = Callable[..., TrainConfig]
Fitted = Callable[..., pl.Trainer]
CONF = Path(__file__).parents[3] / "conf"


def test_a_run_without_one_step_is_no_success(fitted: Fitted, tmp_path: Path) -> None:
    with pytest.raises(LeakdetError, match="without one optimiser step"):
        fitted(tmp_path, "+trainer.max_time={seconds:0}")


def test_where_the_best_checkpoint_was_removed_the_last_one_is_the_result(
    fitted: Fitted, tmp_path: Path, messages: pytest.LogCaptureFixture
) -> None:
    trainer = fitted(tmp_path, "trainer.max_epochs=1", "stop.name=val")
    best = result_checkpoint(trainer)
    best.unlink()
    assert result_checkpoint(trainer) == best.with_name("last.ckpt")
    assert "the best check is gone" in messages.text
    shutil.rmtree(best.parent)
    with pytest.raises(LeakdetError, match="nothing is left"):
        result_checkpoint(trainer)


def test_contradicting_settings_are_refused(fitted: Fitted, tmp_path: Path) -> None:
    with pytest.raises(LeakdetError, match="limit_val_batches"):
        fitted(tmp_path, "trainer.limit_val_batches=2")


def test_a_batch_larger_than_the_split_is_one_step(fitted: Fitted, tmp_path: Path) -> None:
    assert fitted(tmp_path, "data.batch_size=1000000", "trainer.max_epochs=1").global_step == 1


def test_the_check_before_training_leaves_no_trace(fitted: Fitted, tmp_path: Path) -> None:
    """Its batches are no validation set: no best score, stop or number may know of them."""
    for batches in (0, 2):
        fitted(
            tmp_path / str(batches),
            "trainer.max_epochs=2",
            f"trainer.num_sanity_val_steps={batches}",
        )
    without, with_it = (tmp_path / str(batches) for batches in (0, 2))
    assert (without / log_names.HISTORY).read_bytes() == (with_it / log_names.HISTORY).read_bytes()
    for name in (log_names.BEST_F1, log_names.BEST_LOSS, log_names.LAST):
        ours, theirs = (
            read_checkpoint(folder / log_names.CHECKPOINTS / f"{name}.ckpt")
            for folder in (without, with_it)
        )
        assert ours["state_dict"].keys() == theirs["state_dict"].keys()
        for key, value in ours["state_dict"].items():
            assert torch.equal(value, theirs["state_dict"][key])
        assert _scores(ours) == _scores(theirs)


def _scores(checkpoint: dict[str, Any]) -> list[tuple[str, float]]:
    """What is monitored, and its best value, by each callback that keeps one."""
    states = checkpoint["callbacks"].values()
    kept = [
        (state.get("monitor"), state.get("best_model_score", state.get("best_score")))
        for state in states
    ]
    return [(monitor, float(score)) for monitor, score in kept if monitor and score is not None]


WITHOUT_A_COMPILER = """
import sys
import torch
compile = torch.compile
torch.compile = lambda run, mode, fullgraph: compile(run, backend="aot_eager", fullgraph=fullgraph)
from leakdet.train import main
sys.argv[0] = "leakdet train"
main()
"""


def test_a_compiled_network_learns_the_same_and_its_checkpoints_are_plain(
    configured: Configured, fitted: Fitted, quiet: tuple[str, ...], tmp_path: Path
) -> None:
    """In a process of its own: these tests check the shapes of every call, which the compiler
    cannot follow. Its last stage, which writes and builds C++ for half a minute, is left out.
    """
    recipe = (
        "network=linear",
        "trainer.max_epochs=1",
        "optimizer.warmup_epochs=0",
        "augment.eq_db=0",
    )
    fitted(tmp_path / "plain", *recipe)
    store = f"data.store={configured().data.store}"
    command = [sys.executable, "-c", WITHOUT_A_COMPILER, *quiet, *recipe, store, "compile=true"]
    command.append("compile_fullgraph=true")
    done = subprocess.run(
        [*command, "hydra.run.dir=compiled"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CONF.parent / "src"), "TORCH_LOGS": "graph_code"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "TRACED GRAPH" in done.stderr
    assert "cannot be compiled" not in done.stderr
    plain, compiled = (
        read_checkpoint(tmp_path / name / log_names.CHECKPOINTS / "last.ckpt")["state_dict"]
        for name in ("plain", "compiled")
    )
    assert compiled.keys() == plain.keys()
    for key, value in plain.items():
        torch.testing.assert_close(compiled[key], value, rtol=1e-4, atol=1e-5)
