import re

import numpy as np
import pytest

from leakdet.evaluation.metrics_json import split_metrics
from leakdet.reporting.conclusion import cautions, expectation, judge


@pytest.fixture
def table(scored):
    """The tables of a split of 100 leaks and 100 others that are told apart well."""
    return split_metrics(scored(200, gap=0.5), 200)


def verdict(tables, metrics):
    return judge(tables["recording"], tables["coverage"], metrics)


def with_auroc(tables, auroc, low, high):
    ranking = tables["recording"]
    intervals = ranking["intervals"] | {"auroc": [low, high]}
    return tables | {"recording": ranking | {"auroc": auroc, "intervals": intervals}}


@pytest.mark.parametrize(("gap", "grade"), [(0.5, "good"), (0.12, "weak"), (0.0, "bad")])
def test_the_grade_follows_the_lower_end_of_the_auroc(gap, grade, scored):
    assert verdict(split_metrics(scored(200, gap=gap), 200), {}).grade == grade


def test_a_verdict_counts_what_is_decided(table, scored):
    counts = table["coverage"]
    said = f"Of 100 leaks {counts['tp']} found, {counts['fn']} missed. On 100 recordings without "
    assert verdict(table, {}).sentence.startswith(said)
    recordings = scored(200, gap=0.5)
    recordings.reason = np.where(np.abs(recordings.score - 0.5) < 0.1, "doubt", "")
    close = split_metrics(recordings, 20)
    left = 100 - close["coverage"]["tp"] - close["coverage"]["fn"]
    assert left > 0
    assert f"missed, {left} too close to call." in verdict(close, {}).sentence
    assert close["recording"] == split_metrics(scored(200, gap=0.5), 20)["recording"]
    recordings.reason = np.where(np.arange(200) < 2, "unfamiliar", recordings.reason)
    several = split_metrics(recordings, 20)
    close_leaks = several["coverage"]["undecided_leaks"]["doubt"]
    said = f"missed, 1 unfamiliar, {close_leaks} too close to call."
    assert said in verdict(several, {}).sentence


def test_what_leaves_most_undecided_is_no_good_verdict(scored):
    recordings = scored(200, gap=0.5)
    recordings.reason = np.where(recordings.is_leak & (np.arange(200) < 100), "doubt", "")
    judged = verdict(split_metrics(recordings, 200), {})
    assert (judged.grade, judged.label) == ("weak", "Leaves much undecided")
    assert "half of the leaks" in judged.sentence
    recordings.reason[:4] = ""
    assert verdict(split_metrics(recordings, 200), {}).grade == "good"


@pytest.mark.parametrize(
    ("stop", "fitted_on", "grade"),
    [("val", "val", "weak"), ("val", "", "weak"), ("fixed", "val", "weak"), ("fixed", "", "good")],
)
def test_what_chose_the_model_does_not_judge_it(table, stop, fitted_on, grade):
    settings = {"stop": {"name": stop}}
    metrics = {"splits": ["val"], "settings": settings, "decision_rule": {"fitted_on": fitted_on}}
    assert verdict(table, metrics).grade == grade
    assert verdict(table, metrics).promises == (grade == "good")
    assert verdict(table, metrics | {"splits": ["val", "test"]}).grade == "good"


def test_only_verdicts_on_real_recordings_that_are_judged_promise_something(table):
    assert verdict(table, {}).promises
    assert verdict(with_auroc(table, 0.7, 0.6, 0.8), {}).promises  # weak, and said with its numbers
    assert not verdict(table, {"synthetic": True}).promises
    assert not verdict(table, {"met_in_training": None}).promises
    assert not verdict(table, {"met_in_training": {"recordings": 9, "met": 9}}).promises


def test_luck_is_named_with_the_interval(table):
    few = verdict(with_auroc(table, 1.0, 0.44, 1.0), {})
    assert few.grade == "bad"
    assert few.sentence.startswith("Too few recordings to rule out luck: ")
    assert "0.44 to 1.00" in few.sentence
    assert "Of 100 leaks" in few.sentence
    assert few.advice.startswith("Do not plan digs")
    worse = verdict(with_auroc(table, 0.2, 0.1, 0.3), {})
    assert worse.sentence.startswith("Worse than guessing here")
    same = verdict(with_auroc(table, 0.5, 0.4, 0.6), {})
    assert same.sentence.startswith("No better than guessing")


def plain(table):
    return verdict(table, {}).sentence.replace("\u00a0", " ")


def decided(tables, tp, fp, positives=100, negatives=100):
    """The same ranking with other decisions."""
    cells = {"tp": tp, "fn": positives - tp, "fp": fp, "tn": negatives - fp}
    cells |= {"positives": positives, "negatives": negatives}
    rates = {"recall": tp / positives, "fpr": fp / negatives}
    intervals = tables["coverage"]["intervals"] | dict.fromkeys(rates)
    return tables | {"coverage": tables["coverage"] | cells | rates | {"intervals": intervals}}


def test_false_alarms_and_misses_weigh_in(table):
    def judged(tp, fp):
        found = verdict(decided(table, tp, fp), {})
        return found.grade, found.label

    assert judged(tp=95, fp=5) == ("good", "Tells leaks apart")
    assert judged(tp=95, fp=20) == ("weak", "Too many false alarms")
    assert judged(tp=95, fp=15) == ("weak", "Use with care")  # Wilson: up to 23 %
    assert judged(tp=50, fp=5) == ("weak", "Misses too many leaks")
    assert judged(tp=55, fp=5) == ("weak", "Use with care")


def test_few_recordings_cannot_rule_out_false_alarms_or_misses(table):
    few = decided(table, tp=95, fp=0, negatives=12)
    assert plain(few).startswith("Too few recordings without a leak ")
    assert "0 to 24 %" in plain(few)
    assert "Of 100 leaks 95 found" in plain(few)
    few = decided(table, tp=3, fp=0, positives=3)
    assert plain(few).startswith("Too few leaks ")
    assert "44 to 100 %" in plain(few)


def test_an_interval_of_few_groups_does_not_hide_how_few_recordings_there_are(table):
    narrow = decided(table, tp=95, fp=0, negatives=12)
    narrow["coverage"]["intervals"]["fpr"] = [0.0, 0.01]
    assert verdict(narrow, {}).grade == "weak"


def test_synthetic_recordings_are_called_so_first(table):
    judged = verdict(table, {"synthetic": True})
    assert judged.sentence.startswith("These recordings are synthetic. ")
    assert "real pipes" in judged.advice
    assert judged.grade == "good"
    for synthetic in (False, None):
        assert verdict(table, {"synthetic": synthetic}) == verdict(table, {})


def test_a_shortcut_proves_nothing(table):
    unproven = verdict(table, {"audit": {"sentence": "Loudness alone does as well."}})
    assert (unproven.grade, unproven.label) == ("weak", "Unproven")
    assert unproven.advice.startswith("Do not plan digs")
    assert verdict(table, {"audit": {"sentence": None}}).grade == "good"


@pytest.mark.parametrize(
    ("leaks", "fact"),
    [
        (True, "No recording has no leak. Of 8 leaks "),
        (False, "No recording has a leak. On 8 recordings"),
    ],
)
def test_one_class_cannot_be_judged(leaks, fact, scored):
    judged = verdict(split_metrics(scored(8, leaks=leaks), 20), {})
    assert judged.grade == "unknown"
    assert judged.sentence.startswith(fact)


def test_without_an_interval_nothing_is_judged(table):
    table["recording"]["intervals"]["auroc"] = None
    judged = verdict(table, {})
    assert judged.sentence.startswith("Too few recordings for")


def test_the_expectation_gives_both_intervals(table):
    coverage = table["coverage"]
    coverage["intervals"] |= {"share_decided": [0.44, 1.0], "wrong_of_decided": [0.0, 0.25]}
    sentence = expectation(coverage).replace("\u00a0", " ")
    assert "44 to 100 %" in sentence
    assert "0 to 25 %" in sentence
    coverage["intervals"]["wrong_of_decided"] = None
    assert expectation(coverage) is None


def test_a_null_test_is_not_judged_and_the_audit_comes_first(scored, report_input):
    settings = {"data": {"shuffle_labels": True}}
    material = report_input(scored(), audit={"sentence": "Loudness does."}, settings=settings)
    table = material.tables["recording"]
    assert cautions("test", table, material.metrics)[0] == "Loudness does."
    judged = verdict(material.tables, material.metrics)
    assert (judged.grade, judged.label) == ("unknown", "Not judged")
    assert "shuffled on purpose" in judged.sentence
    assert "Do not use" in judged.advice


def test_recordings_that_fitted_the_threshold_are_named(scored, report_input):
    material = report_input(scored(name="val"))

    def first(settings: dict[str, object], rule: dict[str, object]) -> str:
        metrics = material.metrics | {"settings": settings, "decision_rule": rule}
        return cautions("val", material.tables["recording"], metrics)[0]

    fitted, chosen = first({}, {"fitted_on": "val"}), first({}, {})
    assert re.search(r"^The decision threshold .*\(val\)", fitted)
    assert re.search(r"^The weights .*\(val\)", chosen)
    assert "(val)" not in first({"stop": {"name": "fixed"}}, {})


def test_one_site_is_no_evidence_for_others(scored, report_input):
    material = report_input(scored())
    table = material.tables["recording"]
    unknown = cautions("test", table, material.metrics)
    assert re.search("may come from the same sites.*new sites", unknown[0])
    assert not any("Too few values" in sentence for sentence in unknown)
    apart = cautions("test", table, {**material.metrics, "group_by": ["street"]})
    assert re.search("never share a street.* a new street", apart[0])
    assert apart[1].startswith("Too few values of street ")


def test_notes_of_intervals_and_of_the_rule_are_sentences(scored, report_input):
    material = report_input(scored())
    table = material.tables["recording"]
    table["intervals"]["note"] = "the intervals rest on 4 groups only and are too narrow; recall: x"
    table["intervals"]["unit"] = "site"
    metrics = {**material.metrics, "group_by": ["site"], "decision_rule": {"note": "no leaks"}}
    sentences = cautions("test", table, metrics)
    assert any("rest on 4 values of site" in sentence for sentence in sentences)
    assert sentences[-1] == "About the threshold: no leaks."
    assert sum("recall" in sentence for sentence in sentences) == 0


def test_recordings_that_the_model_has_met_judge_nothing() -> None:
    met = {"recordings": 22, "met": 22}
    judged = judge({}, {}, {"met_in_training": met})
    assert (judged.grade, judged.label) == ("unknown", "Not judged")
    assert "all 22 recordings in training" in judged.sentence


def test_what_may_have_been_met_is_no_good_verdict(table) -> None:
    assert verdict(table, {"met_in_training": {"recordings": 200, "met": 0}}).grade == "good"
    judged = verdict(table, {"met_in_training": None})
    assert (judged.grade, judged.label) == ("weak", "Unproven")
    assert judged.sentence.startswith("Whether the model has met")
