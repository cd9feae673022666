def test_the_last_split_is_judged(scored, report_input):
    material = report_input(scored(name="val"), scored(name="test"))
    assert material.judged == "test"
    assert material.tables is material.metrics["test"]
