"""What Hydra and OmegaConf refuse is told in the words of settings."""

import pytest

from leakdet.cli.composition import compose
from leakdet.errors import SettingsError


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("augment.interference_db=[1,a]", r"augment\.interference_db\[1\]=a .* must be a number"),
        ("augment.interference_db=[1,null]", r"interference_db\[1\]=null .* needs a value"),
        ("optimizer={lr: x}", r"optimizer\.lr=x is not allowed: it must be a number"),
        ("optimizer={lrr: 3}", r"optimizer\.lrr: there is no such setting"),
        ("network={name: null}", r"network\.name=null .* needs a value"),
        ("network.extra=5", r"network\.extra: takes names with values"),
    ],
)
def test_what_omegaconf_refuses_is_said_in_the_words_of_settings(argument: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        compose("train", [argument])
