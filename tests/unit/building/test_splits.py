from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.building.sources import SourceRecording
from leakdet.building.splits import assign_splits, check_both_classes, check_division, split_origin
from leakdet.config import SplitConfig
from leakdet.core.errors import InputError
from leakdet.storage.folder import BY_BUILD


def recordings(*of: tuple[str, str], split: str | None = None) -> list[SourceRecording]:
    return [
        SourceRecording(f"{n}.wav", Path(f"{n}.wav"), label, split, groups={"site": site})
        for n, (label, site) in enumerate(of)
    ]


MADE = st.lists(
    st.tuples(st.sampled_from(["leak", "no", "other"]), st.integers(0, 8).map(str)),
    min_size=1,
    max_size=60,
)


@given(MADE, st.integers(0, 5), st.booleans())
def test_whole_groups_the_same_each_time(of, seed: int, by_site: bool):
    settings = SplitConfig(seed=seed, group_by=["site"] if by_site else [])
    made = recordings(*of)
    splits = assign_splits(made, settings, ["leak"])
    assert splits == assign_splits(made, settings, ["leak"])
    if by_site:
        where = {}
        for recording, split in zip(made, splits, strict=True):
            assert where.setdefault(recording.groups["site"], split) == split


@given(st.integers(3, 40), st.integers(3, 40), st.integers(0, 5))
def test_every_split_gets_both_classes_where_that_is_possible(leaks: int, rest: int, seed: int):
    made = recordings(*[("leak", "")] * leaks, *[("no", "")] * rest)
    splits = assign_splits(made, SplitConfig(seed=seed), ["leak"])
    check_both_classes(
        list(zip(splits, (r.label for r in made), strict=True)),
        SplitConfig(),
        ["leak"],
        given=False,
    )


def test_shares_are_kept_in_every_label():
    made = recordings(*[("leak", "")] * 100, *[("no", "")] * 300)
    counts = Counter(
        zip(assign_splits(made, SplitConfig(), ["leak"]), (r.label for r in made), strict=True)
    )
    assert counts == {
        ("train", "leak"): 70, ("val", "leak"): 20, ("test", "leak"): 10,
        ("train", "no"): 210, ("val", "no"): 60, ("test", "no"): 30,
    }  # fmt: skip


def test_seeds_differ():
    made = recordings(*[("leak", "")] * 30, *[("no", "")] * 30)
    first, second = (assign_splits(made, SplitConfig(seed=seed), ["leak"]) for seed in (0, 1))
    assert first != second


def test_too_few_leaks_are_refused_with_the_counts():
    made = recordings(("leak", ""), ("no", ""), ("no", ""))
    rows = list(
        zip(assign_splits(made, SplitConfig(), ["leak"]), (r.label for r in made), strict=True)
    )
    with pytest.raises(InputError, match=r"has 0 leak and .*Counts: train: .*val: .*test: "):
        check_both_classes(rows, SplitConfig(), ["leak"], given=False)


@pytest.mark.parametrize(
    ("of", "group_by", "ratios", "way_out"),
    [
        (
            [("leak", "a"), ("no", "a"), ("leak", "b"), ("no", "b"), ("no", "c")],
            ["site"],
            [0.7, 0.2, 0.1],
            r"3 splits; .*2 of 3 groups \(split.group_by=\['site'\]\), others in 3\..*"
            r"split.ratios=\[0.8,0.2,0\].*leakdet crossval crossval.group_by=\[site\]",
        ),
        (
            [("leak", "a"), ("no", "a"), ("no", "b")],
            ["site"],
            [0.8, 0.2, 0.0],
            r"one group of split.group_by=\['site'\]: a\. .*leave out split.group_by",
        ),
        ([("leak", "a"), ("leak", "b")], ["site"], [0.8, 0.2, 0.0], "There are no others at all"),
        ([("leak", ""), ("no", ""), ("no", "")], [], [0.8, 0.2, 0.0], r"are one recording, 0\.wav"),
        (
            [("leak", ""), ("no", ""), ("leak", ""), ("no", "")],
            [],
            [0.7, 0.2, 0.1],
            r"2 of 4 recordings, .*crossval.group_by=\[recording\]",
        ),
    ],
)
def test_a_refusal_names_the_cause_and_the_way_out(of, group_by, ratios, way_out: str):
    made, settings = recordings(*of), SplitConfig(ratios=ratios, group_by=group_by)
    assigned = list(zip(made, assign_splits(made, settings, ["leak"]), strict=True))
    with pytest.raises(InputError, match=way_out):
        check_division(assigned, settings, ["leak"])


def test_the_origin_of_a_split_is_the_source_the_settings_or_build():
    given, free = recordings(("leak", "a"), split="test"), recordings(("leak", "a"))
    assert split_origin(given, SplitConfig()) == "source"
    assert split_origin(free, SplitConfig(ratios=[0.6, 0.2, 0.2])) == "settings"
    assert split_origin(free, SplitConfig(seed=1)) == "settings"
    assert split_origin(free, SplitConfig(group_by=["site"])) == BY_BUILD


def test_given_splits_are_kept_and_checked():
    made = recordings(("leak", "a"), ("no", "a"), split="train") + recordings(
        ("leak", "b"), ("no", "b"), split="test"
    )
    assert assign_splits(made, SplitConfig(group_by=["site"]), ["leak"]) == [
        "train",
        "train",
        "test",
        "test",
    ]
    torn = recordings(("leak", "a"), split="train") + recordings(("no", "a"), split="test")
    with pytest.raises(InputError, match=r"1 of 1 groups .* a in test and train"):
        assign_splits(torn, SplitConfig(group_by=["site"]), ["leak"])
    mixed = recordings(("leak", "a"), split="train") + recordings(("no", "b"))
    with pytest.raises(InputError, match=r"1 of 2 .*no split"):
        assign_splits(mixed, SplitConfig(), ["leak"])


def test_blank_groups_are_groups_of_their_own():
    made = recordings(*[("leak", "")] * 10, *[("no", "")] * 10)
    assert len(set(assign_splits(made, SplitConfig(group_by=["site"]), ["leak"]))) == 3


def test_unknown_columns_are_named():
    with pytest.raises(InputError, match=r"\['pipe'\] .*group columns.*\['site'\]"):
        assign_splits(
            recordings(("leak", "a"), ("no", "b")), SplitConfig(group_by=["pipe"]), ["leak"]
        )


def channels(*of: tuple[str, str, str], split: str | None = None) -> list[SourceRecording]:
    """Recordings of file, label and site."""
    return [
        SourceRecording(
            f"{file}#{n}", Path(file), label, split, groups={"site": site, "source_file": file}
        )
        for n, (file, label, site) in enumerate(of)
    ]


def test_channels_of_a_file_are_kept_together_where_their_group_is_unknown():
    made = channels(*[(f"{n // 4}.wav", "leak" if n % 8 < 4 else "no", "") for n in range(48)])
    splits = assign_splits(made, SplitConfig(group_by=["site"]), ["leak"])
    assert len(set(splits)) == 3
    assert all(len(set(splits[n : n + 4])) == 1 for n in range(0, 48, 4))


def test_channels_of_a_file_in_two_splits_are_refused():
    made = [
        *channels(("a.wav", "leak", "1"), ("b.wav", "no", "1"), split="train"),
        *channels(("a.wav", "leak", "2"), ("c.wav", "no", "2"), split="test"),
    ]
    with pytest.raises(InputError, match=r"1 of 3 files .*channels .* a\.wav\."):
        assign_splits(made, SplitConfig(), ["leak"])
