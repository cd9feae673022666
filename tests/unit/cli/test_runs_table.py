"""Trainings beside each other."""

from leakdet.cli.runs_table import runs_text


def test_what_all_were_given_stands_once() -> None:
    text = runs_text(
        [
            ("0", "data.store=s seed=0", "0.90 [0.80, 1.00] test", "Use with care"),
            ("1", "data.store=s seed=1", "", "not finished"),
        ]
    )
    assert text.count("data.store=s") == 1
    assert text.endswith("All of them: data.store=s")
    for told in ("seed=0", "seed=1", "[0.80, 1.00]", "Use with care", "not finished"):
        assert told in text
    assert max(map(len, text.splitlines())) <= 80


def test_one_run_keeps_its_settings_and_brackets_survive() -> None:
    text = runs_text([("a[red]b", "crossval.where=[x]", "", "")])
    assert "a[red]b" in text
    assert "crossval.where=[x]" in text
    assert "All of them" not in text


def test_words_stay_whole_in_a_table_that_fits_and_in_rows_that_do_not() -> None:
    name, score = "2026-11-29_12-04-59", "0.90 [0.80, 1.00] test"
    short = runs_text([(name, "seed=0 network=linear", score, "Use with care")] * 2)
    assert {line[-1] for line in short.splitlines()[1:-1]} == set("┓┃┩│┘")
    assert short.count(name) == 2
    given = "augment.interference=/data/sounds/of/rain-and-traffic seed=1"
    wide = runs_text(
        [(name, given, score, "Use with care " * 9), (name, "seed=2", score, "Do not use")]
    )
    assert "┃" not in wide
    for word in (*given.split(), name, "verdict"):
        assert any(word in line.split() for line in wide.splitlines()), word
    assert max(map(len, wide.splitlines())) <= 80
