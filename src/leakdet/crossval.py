"""`leakdet crossval data.store=DIR crossval.group_by=pipe`: scores a recipe on held-out groups."""

from pathlib import Path

from leakdet._exit_codes import DONE
from leakdet._messages import LOG
from leakdet.cli.hydra_door import Run, open_door
from leakdet.config import CrossvalConfig


def crossval(config: CrossvalConfig, run: Run) -> int:
    from leakdet.building.demo_store import store_or_demo
    from leakdet.crossval_run import cross_validate
    from leakdet.training.settings_conflicts import check_settings

    check_settings(config)  # before the demo is made
    if config.data.store is None:
        LOG.info("No data.store was given: cross-validating on the demo, synthetic recordings")
    store = store_or_demo(config.data, config.demo, config.signal)
    cross_validate(config, store, Path(config.crossval.out) if config.crossval.out else run.folder)
    return DONE


def main() -> None:
    open_door("crossval", crossval)


if __name__ == "__main__":
    main()
