import numpy as np
import pytest

from leakdet.core.errors import InputError
from leakdet.storage.folds import group_keys, stratified_folds

COLUMNS = {
    "pipe": np.array(["1", "1", "3", ""]),
    "day": np.array(["mon", "tue", "mon", "mon"]),
}
IDS = np.array(["a.wav", "b.wav", "c.wav", "d.wav"])


def test_groups_of_one_or_more_columns_are_blank_where_a_column_is() -> None:
    assert group_keys(COLUMNS, ["pipe"], IDS, "x").tolist() == ["1", "1", "3", ""]
    assert group_keys(COLUMNS, ["pipe", "day"], IDS, "x").tolist() == [
        "1 / mon",
        "1 / tue",
        "3 / mon",
        "",
    ]
    assert group_keys(COLUMNS, ["recording"], IDS, "x").tolist() == IDS.tolist()
    files = {**COLUMNS, "source_file": np.array(["a", "a", "b", "c"])}
    assert group_keys(files, ["recording"], IDS, "x").tolist() == ["a", "a", "b", "c"]
    files["source_file"][3] = ""  # a recording of another source
    assert group_keys(files, ["recording"], IDS, "x").tolist() == ["a", "a", "b", str(IDS[3])]


@pytest.mark.parametrize("group_by", [["recording", "pipe"], [], ["tube"]])
def test_impossible_groups_are_refused(group_by: list[str]) -> None:
    with pytest.raises(InputError, match=r"^crossval\.group_by"):
        group_keys(COLUMNS, group_by, IDS, "crossval.group_by")


@pytest.mark.parametrize("leaks", [1, 5, 12])
def test_stratified_folds_score_each_row_once_with_even_classes(leaks: int) -> None:
    is_leak = np.arange(23) < leaks
    folds = stratified_folds(is_leak, 4, seed=0)
    assert sorted(np.concatenate([scored for _, scored in folds])) == list(range(23))
    for fitted, scored in folds:
        assert not set(fitted) & set(scored)
        assert abs(is_leak[scored].sum() - leaks / 4) < 1
