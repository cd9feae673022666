from leakdet.reporting.kept_apart import MAX_IDS, kept_apart


def met(count, of, table):
    return {
        "recordings": of,
        "met": count,
        "train": count - 1,
        "val": 1,
        "ids": [f"{row}.wav" for row in range(count)],
        "recording": table,
    }


def test_recordings_that_the_model_has_met_are_told_apart():
    table = {"tp": 9, "positives": 10, "fp": 1, "negatives": 11}
    (apart,) = kept_apart({"met_in_training": met(21, 22, table)})
    assert apart.heading == "Met in training"
    assert apart.sentence == (
        "21 of 22 recordings: 20 trained the model, 1 chose its weights or threshold. They are no "
        "evidence for it. On these alone it found 9 of 10 leaks and raised 1 false alarm on 11 "
        "recordings without a leak."
    )
    assert (len(apart.ids), apart.more) == (21, 0)


def test_silent_recordings_are_told_apart_and_long_lists_end():
    (apart,) = kept_apart({"without_sound": [f"{row}.wav" for row in range(MAX_IDS + 2)]})
    assert apart.sentence.startswith("502 recordings without a window of sound: nothing to judge")
    assert (len(apart.ids), apart.more) == (MAX_IDS, 2)


def test_recordings_of_no_known_group_are_told_apart():
    (apart,) = kept_apart({"without_group": ["a.wav"], "group_by": ["pipe"]})
    assert apart.sentence == "1 recording with a blank pipe took no part."
    assert apart.ids == ["a.wav"]


def test_what_predict_would_not_decide_is_told_with_its_reason():
    strange = {
        "setting": "strict",
        "recordings": 22,
        "undecided": 2,
        "decided_wrongly": 3,
        "median_familiarity": 0.4,
        "max_familiarity": 2.345,
        "ids": ["a.wav", "b.wav"],
    }
    (apart,) = kept_apart({"unfamiliar": strange})
    assert (apart.heading, apart.ids, apart.more) == ("Unfamiliar", ["a.wav", "b.wav"], 0)
    assert apart.sentence == (
        "2 of 22 recordings sound unlike those of training: predict leaves them undecided. The "
        "numbers above count them. Of the other 20, 3 would be decided wrongly. "
        "Undecided is a familiarity above 0.8 (decision.unfamiliar=strict); the highest here is 2.35."
    )
    assert kept_apart({"unfamiliar": strange | {"undecided": 0, "ids": []}}) == []
    assert kept_apart({"unfamiliar": None}) == []


def test_nothing_is_kept_apart_where_nothing_is_said():
    assert kept_apart({}) == []
    assert kept_apart({"met_in_training": None, "without_sound": []}) == []
    assert kept_apart({"met_in_training": met(1, 2, None) | {"met": 0}}) == []
