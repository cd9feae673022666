import re

import pytest

from leakdet.reporting.study_figures import TrialFacts, study_figures


def trials(values: list[float | None]) -> list[TrialFacts]:
    return [
        TrialFacts(
            number,
            "pruned" if value is None else "complete",
            value,
            {"lr": 10.0**-number, "loss": ("focal", "ce")[number % 2]},
            [0.1, 0.2],
        )
        for number, value in enumerate(values)
    ]


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize("maximises", [True, False])
def test_every_figure_is_drawn_in_the_colours_of_the_page(maximises: bool) -> None:
    drawn = study_figures(
        trials([0.5, 0.7, None, 0.6]), "f1", maximises, 1, {"loss": 0.9, "lr": 0.1}
    )
    headings = [heading for heading, _, _ in drawn]
    assert headings == ["Every trial", "Validation checks", "What mattered", "loss", "lr"]
    for heading, reading, svg in drawn:
        assert reading
        assert f'aria-label="{heading}"' in svg
        assert "var(--quiet)" in svg
        assert not re.search(r"#1d6fa5", svg)


def test_what_no_trial_tells_is_not_drawn() -> None:
    assert study_figures([], "f1", True, 0, {}) == []
    begun = [TrialFacts(0, "running", None, {}, [])]
    assert study_figures(begun, "f1", True, 0, {}) == []
    drawn = study_figures(trials([None, None]), "f1", True, 0, {})
    assert [heading for heading, _, _ in drawn] == ["Validation checks"]
