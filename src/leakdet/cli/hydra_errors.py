"""Errors of Hydra and OmegaConf as one sentence about the setting that is wrong."""

import re

from hydra.errors import HydraException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

# what OmegaConf says of a setting, and what is said instead
SENTENCES = {
    r"field '.*' is not Optional|Incompatible value 'None'|Invalid type assigned: NoneType": (
        "{key}=null is not allowed: it needs a value."
    ),
    r"Value '(.*)' of type '.*' could not be converted to Float": (
        "{key}={0} is not allowed: it must be a number."
    ),
    r"Value '(.*)' of type '.*' could not be converted to Integer": (
        "{key}={0} is not allowed: it must be a whole number."
    ),
    r"Value '(.*)' .*is not a valid bool": "{key}={0} is not allowed: it must be true or false.",
    r"Key '.*' (?:is )?not in ": "{key}: there is no such setting.",
    r"Cannot assign \w+ to Dict": "{key}: takes names with values, such as {{name: value}}.",
}


def sentence_of(error: Exception) -> str:
    """The innermost reason that Hydra or OmegaConf gives, with the setting that it is about."""
    reasons = [error]
    while isinstance(cause := reasons[-1].__cause__, HydraException | OmegaConfBaseException):
        reasons.append(cause)
    if ambiguous := re.match(r"Ambiguous value for argument '(.*)'$", str(reasons[-1]), re.M):
        argument = ambiguous.group(1)
        name, _, values = argument.partition("=")
        return (
            f"{argument}: several values are one run each: -m {argument}. "
            f"A list is written {name}=[{values}]"
        )
    for each in reasons:
        if isinstance(each, OverrideParseException):
            return (
                f"{each.override}: cannot be read; is a bracket or quote open? "
                """Text with such signs is written NAME='"TEXT"'"""
            )
    lines = [line.strip() for line in str(reasons[-1]).strip().splitlines()]
    key = next((line.partition(" ")[2] for line in lines if line.startswith("full_key: ")), "")
    internal = ("full_key:", "object_type=", "reference_type=")
    reason = " ".join(line for line in lines if line and not line.startswith(internal))
    for pattern, sentence in SENTENCES.items():
        if key and (found := re.match(pattern, reason)):
            return sentence.format(*found.groups(), key=key)
    return f"{key}: {reason}" if key else reason
