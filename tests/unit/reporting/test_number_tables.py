from leakdet.evaluation.metrics import COUNTS, RATES
from leakdet.reporting.number_tables import all_numbers, audit_rows, cards, digs, interval_sentence


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_digs_follow_bayes():
    table = {"recall": 0.8, "fpr": 0.1, "positives": 50, "n": 100}
    table["intervals"] = {"recall": [0.7, 0.9], "fpr": [0.05, 0.2]}
    here, tenth, fiftieth = digs(table)
    assert here["hits"] == "89"
    assert plain(here["share"]) == "as among these recordings (50 %)"
    assert tenth["hits"] == f"{100 * 0.8 * 0.1 / (0.8 * 0.1 + 0.1 * 0.9):.0f}" == "47"
    assert fiftieth["range"] == "7 to 27"


def test_a_detector_that_never_alarms_digs_nowhere():
    table = {"recall": 0.0, "fpr": 0.0, "positives": 50, "n": 100}
    table["intervals"] = {"recall": [0.0, 0.1], "fpr": [0.0, 0.2]}
    assert digs(table)[0] == {
        "share": digs(table)[0]["share"],
        "hits": "no alarms",
        "range": "0 to 100",
    }
    assert digs(table | {"recall": None}) == []


def test_cards_show_value_interval_and_basis(scored, report_input):
    table = report_input(scored()).tables["recording"]
    recall, fpr, precision, f1, auroc = cards(table)
    assert plain(recall["value"]) == f"{100 * table['recall']:.0f} %"
    assert recall["basis"] == f"{table['tp']} of 20"
    assert fpr["basis"] == f"{table['fp']} of 20"
    assert precision["basis"] == f"{table['tp']} of {table['predicted_positives']}"
    assert f1["value"] == f"{table['f1']:.3f}"
    low, high = table["intervals"]["auroc"]
    assert auroc["interval"] == f"{low:.2f} to {high:.2f}"


def test_an_undefined_card_gives_the_reason(scored, report_input):
    (recall, *_) = cards(report_input(scored(4, leaks=False)).tables["recording"])
    assert recall["value"] == "n/a"
    assert recall["interval"] == "none of 4 rows is a leak"


def test_all_numbers_hold_every_metric_of_every_split(scored, report_input):
    material = report_input(scored(name="val"), scored())
    numbers = all_numbers(material.metrics, ["val", "test"])
    assert numbers["columns"] == [
        "test, recordings",
        "val, recordings",
        "test, windows",
        "val, windows",
    ]
    keys = [key for key, *_ in numbers["rows"]]
    assert set(keys) == {*COUNTS, *RATES, "smallest_resolvable_fpr"}
    cells = dict(zip(keys, (row[2] for row in numbers["rows"]), strict=True))
    assert cells["n"] == ["40", "40", "120", "120"]
    assert cells["tpr_at_fpr_0.001"][0] == "n/a: 20 negatives resolve no FPR below 0.05"
    assert cells["f1"][0].startswith(f"{material.tables['recording']['f1']:.3f} (")


def test_notes_are_listed_where_there_are_any(scored, report_input):
    material = report_input(scored())
    material.tables["recording"]["intervals"]["note"] = None
    assert all_numbers(material.metrics, ["test"])["notes"] == []
    material.tables["recording"]["intervals"]["note"] = "too narrow"
    assert all_numbers(material.metrics, ["test"])["notes"] == ["test: too narrow"]


def test_intervals_say_what_they_resample_and_which_are_wilsons():
    intervals = {"unit": "recording", "note": None}
    assert interval_sentence({"intervals": intervals}).endswith("resample recordings.")
    note = "the intervals rest on 2 groups only and are too narrow; recall: all replicates alike"
    text = interval_sentence({"intervals": {"unit": "pipe", "note": note}})
    assert text.endswith("resample whole groups (pipe). Of recall: all replicates alike.")


def test_the_detector_stands_among_the_baselines_by_auroc(scored, report_input):
    rows = [
        {"name": name, "explanation": "", "auroc": auroc, "interval": None}
        for name, auroc in (("loudness", 0.99), ("nothing", None), ("chance", 0.5))
    ]
    table = report_input(scored()).tables["recording"] | {"auroc": 0.8}
    shown = [row["name"] for row in audit_rows({"rows": rows}, table)]
    assert shown == ["loudness", "the detector", "chance", "nothing"]
