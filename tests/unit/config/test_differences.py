from leakdet.config.differences import Difference, differences


def test_nested_settings_are_told_by_their_dotted_names() -> None:
    stored = {"seed": 0, "network": {"name": "paper", "extra": {}}, "old": 1}
    now = {"seed": 0, "network": {"name": "linear", "extra": {"width": 4}}, "new": [2]}
    assert list(differences(stored, now)) == [
        Difference("network.extra.width", None, 4),
        Difference("network.name", "paper", "linear"),
        Difference("new", None, [2]),
        Difference("old", 1, None),
    ]
    assert list(differences(now, now)) == []


def test_a_group_that_one_side_lacks_is_one_difference() -> None:
    assert [str(d) for d in differences({"a": {"b": 1}}, {"a": None})] == ["a: {'b': 1} / None"]
