import os

import pytest

from leakdet._processes import is_child, parent_decision, share_decision

NAME = "LEAKDET_TEST_DECISION"


@pytest.mark.parametrize(("rank", "child"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_only_the_first_process_of_a_machine_is_no_child(
    monkeypatch: pytest.MonkeyPatch, rank: str | None, child: bool
):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    assert is_child() is child


def test_a_child_inherits_what_the_first_process_shared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NAME, "of an earlier run")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert parent_decision(NAME) is None
    assert share_decision(NAME, "stream") == "stream"
    assert os.environ[NAME] == "stream"
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert parent_decision(NAME) == "stream"
    monkeypatch.delenv(NAME)
    assert parent_decision(NAME) is None
