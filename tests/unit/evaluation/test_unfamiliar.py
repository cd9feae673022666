"""What predict would leave undecided among judged recordings."""

from dataclasses import replace

import numpy as np

from leakdet.detection.decision import DecisionRule
from leakdet.evaluation.scored_recordings import csv_rows
from leakdet.evaluation.unfamiliar import unfamiliar_account, unfamiliar_sentence


def test_the_undecided_are_counted_and_the_others_judged(scored) -> None:
    recordings = replace(scored(4), score=np.array([0.9, 0.8, 0.2, 0.1]))  # leak, other, …
    assert unfamiliar_account(recordings, DecisionRule()) is None
    assert unfamiliar_sentence(None) == ""
    known = replace(recordings, familiarity=np.array([0.1, 1.5, 0.9, 0.2]))
    account = unfamiliar_account(known, DecisionRule())
    assert account is not None
    assert (account["undecided"], account["decided_wrongly"]) == (1, 1)
    assert account["ids"] == [recordings.recording_id[1]]
    assert (account["median_familiarity"], account["max_familiarity"]) == (0.55, 1.5)
    assert unfamiliar_sentence(account) == (
        "1 of 4 recordings sounds unlike those of training: predict leaves it undecided. The "
        "numbers above count it. Of the other 3, 1 would be decided wrongly."
    )
    strict = unfamiliar_account(known, DecisionRule(unfamiliar="strict"))
    off = unfamiliar_account(known, DecisionRule(unfamiliar="off"))
    assert strict is not None
    assert off is not None
    assert (strict["undecided"], strict["decided_wrongly"]) == (2, 0)
    assert (off["undecided"], off["decided_wrongly"]) == (0, 2)
    assert unfamiliar_sentence(off) == ""
    assert "2 of 4 recordings sound unlike those" in unfamiliar_sentence(strict)
    all_new = unfamiliar_sentence({**account, "undecided": 4})
    assert all_new.endswith("The numbers above count them.")
    assert [row["familiarity"] for row in csv_rows(known)] == [0.1, 1.5, 0.9, 0.2]
