"""The chain of models and the link to the one in use."""

from pathlib import Path

import pytest

from leakdet.core.errors import SettingsError
from leakdet.learning.lineage import check_link, extended, lineage_of, publish


def test_a_chain_grows_by_a_step_that_names_the_parent(tmp_path: Path) -> None:
    first = extended({"created_at": "then"}, tmp_path / "a", "aaa", leak=2)
    second = extended({"lineage": first}, tmp_path / "b", "bbb", leak=3)
    assert [(step["parent"], step["leak"]) for step in second] == [("aaa", 2), ("bbb", 3)]
    assert second[0]["parent_made"] == "then"
    assert lineage_of({}) == []


def test_publishing_moves_the_link_and_going_back_moves_it_again(tmp_path: Path) -> None:
    old, new, link = tmp_path / "old", tmp_path / "new", tmp_path / "current"
    old.write_text("old")
    new.write_text("new")
    assert publish(old, link) is None
    assert publish(new, link) == old
    assert link.read_text() == "new"
    assert publish(old, link) == new
    assert (link.read_text(), new.read_text()) == ("old", "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "new", "old"]


def test_a_link_that_leads_to_itself_is_replaced(tmp_path: Path) -> None:
    model, link = tmp_path / "model", tmp_path / "current"
    model.write_text("model")
    link.symlink_to(link)
    publish(model, link)
    assert link.read_text() == "model"


def test_publishing_a_link_onto_itself_keeps_the_file(tmp_path: Path) -> None:
    model, link = tmp_path / "model", tmp_path / "current"
    model.write_text("model")
    publish(model, link)
    publish(link, link)
    assert link.resolve() == model


def test_a_failed_move_leaves_the_link_as_it_was(tmp_path, monkeypatch) -> None:
    old, new, link = tmp_path / "old", tmp_path / "new", tmp_path / "current"
    old.touch()
    publish(old, link)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        publish(new, link)
    assert link.resolve() == old


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.touch()
    with pytest.raises(SettingsError, match="only a link"):
        check_link(model)
    with pytest.raises(SettingsError, match="does not exist"):
        check_link(tmp_path / "none" / "link")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "gone")
    check_link(dangling)


def test_a_place_that_cannot_be_written_is_refused_and_a_check_leaves_nothing(
    tmp_path: Path, monkeypatch
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    check_link(tmp_path / "link")
    with pytest.raises(SettingsError, match="no link"):
        check_link(tmp_path / ("x" * 300))
    monkeypatch.setattr(Path, "symlink_to", forbidden)
    with pytest.raises(SettingsError, match=r"put there \(Permission denied\)"):
        check_link(tmp_path / "link")
    assert list(tmp_path.iterdir()) == []
