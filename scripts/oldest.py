"""Print the lower bounds of all direct dependencies as constraints, for `make oldest`."""

import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lower_bounds(project: dict[str, Any]) -> list[str]:
    """Pin each requirement of a `[project]` table to its lower bound, extras included.

    Raises:
        ValueError: a requirement has not exactly one `>=` bound.
    """
    extras = project.get("optional-dependencies", {}).values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    requirements = [Requirement(line) for line in lines]
    return sorted(
        {_pin(requirement) for requirement in requirements if requirement.name != project["name"]}
    )


def _pin(requirement: Requirement) -> str:
    bounds = [spec.version for spec in requirement.specifier if spec.operator == ">="]
    if len(bounds) != 1:
        raise ValueError(f"{requirement}: needs exactly one '>=' bound in pyproject.toml")
    return f"{requirement.name}=={bounds[0]}"


if __name__ == "__main__":
    print("\n".join(lower_bounds(tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"])))
