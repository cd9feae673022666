import argparse
import json
from importlib import import_module
from pathlib import Path

import pytest

from leakdet.cli.arguments import (
    Parser,
    add_decision,
    add_model_options,
    add_rules,
    add_workers,
    check_parts,
    check_window_files,
    run_verb,
)
from leakdet.core.errors import LeakdetError, SettingsError
from leakdet.core.messages import LOG, log_result
from leakdet.detection.thresholds import checked_policy
from leakdet.sites.rules import WorklistRules


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add_model_options(parser)
    return parser


def test_by_default_the_device_is_found_and_no_code_is_trusted(
    parser: argparse.ArgumentParser,
) -> None:
    defaults = {"device": "auto", "trust_network": [], "quiet": False, "log": "normal"}
    assert vars(parser.parse_args([])) == defaults


def test_numbers_may_have_a_decimal_comma(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser()
    add_decision(parser)
    add_rules(parser, WorklistRules, ["dig_cost"])
    read = parser.parse_args(
        ["--threshold", "0,6", "--dig-cost", "2,5", "--policy", "max_fpr=0,05"]
    )
    assert (read.threshold, read.dig_cost) == (0.6, 2.5)
    assert checked_policy(None, read.policy) == ("max_fpr", 0.05)
    with pytest.raises(SystemExit):  # two thousand, or two
        parser.parse_args(["--dig-cost", "2,000"])
    assert "'2,000'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--hlep"], ("--hlep", "Did you mean --help?")),
        (["--deivce=cpu", "x"], ("--deivce", "Did you mean --device?")),
        (["--zzz"], ("--zzz", "--help lists")),
    ],
)
def test_a_misspelt_option_is_named_before_what_is_missing(
    words: list[str], facts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    parser = Parser()
    add_model_options(parser)
    parser.add_argument("path", nargs="+")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words)
    assert ended.value.code == 2
    refusal = capsys.readouterr().err
    assert all(fact in refusal for fact in facts)
    assert parser.parse_args(["--dev", "cpu", "--", "--zzz"]).path == ["--zzz"]


@pytest.mark.parametrize(
    "words",
    ["--precision int8-network", "--precision=int8-network", "--calibrate store", "--golden=dir"],
)
def test_a_removed_option_says_what_to_do_instead(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        import_module("leakdet.export").parser().parse_args(["model.safetensors", *words.split()])
    assert ended.value.code == 2
    refusal = capsys.readouterr().err
    assert words.replace("=", " ").removesuffix(" store").removesuffix(" dir") in refusal
    assert "docs/export.md" in refusal or "scripts/golden_vectors.py" in refusal


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("predict model night decision.doubt=0.1 --out rows.csv", "Write --doubt 0.1"),
        ("evaluate model store split=train", "Write --split train"),
        ("evaluate model store log=quiet", "Write --log {normal,full,json}"),
        ("export model quiet=true", "Write --quiet\n"),
        ("worklist rows.csv alarms=5", "alarms: NUMBER into a file"),
        ("info model optimizer.lr=1", "--help lists"),
    ],
)
def test_a_setting_in_place_of_a_path_is_answered_with_the_option(
    words: str, fact: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    verb, *rest = words.split()
    parser = import_module(f"leakdet.{verb}").parser()
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(rest)
    assert ended.value.code == 2
    assert fact in capsys.readouterr().err
    recording = tmp_path / "doubt=0.1"
    recording.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert parser.parse_known_args([*rest[:1], recording.name])
        assert parser.parse_known_args(["--", *rest[:1], "doubt=0.2"])


def test_each_trusted_network_is_named_by_itself(parser: argparse.ArgumentParser) -> None:
    names = ["nets:Mine", "more.nets:Other"]
    words = ["--device", "cuda:1", *(word for name in names for word in ("--trust-network", name))]
    arguments = parser.parse_args(words)
    assert (arguments.device, arguments.trust_network) == ("cuda:1", names)
    assert parser.parse_args([]).trust_network == []


def test_the_decision_is_the_models_own_unless_another_is_given() -> None:
    parser = argparse.ArgumentParser()
    add_decision(parser)
    assert set(vars(parser.parse_args([])).values()) == {None}
    assert parser.parse_args(["--threshold", "0.7"]).threshold == 0.7
    assert parser.parse_args(["--policy", "max_fpr=0.01"]).policy == "max_fpr=0.01"
    assert parser.parse_args(["--unfamiliar", "off"]).unfamiliar == "off"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("-1", "--workers=-1: allowed"),
        ("100000", "--workers=100000: allowed"),
        ("two", "invalid count value: 'two'"),
    ],
)
def test_the_number_of_workers_is_bounded(
    given: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add_workers(parser, "files scored at a time")
    assert parser.parse_args([]).workers == 0
    assert parser.parse_args(["--workers", "2"]).workers == 2
    with pytest.raises(SystemExit):
        parser.parse_args(["--workers", given])
    assert f"argument --workers: {message}" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["predict", "evaluate", "worklist", "export", "info", "settings"])
def test_every_verb_names_a_misspelt_option(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        import_module(f"leakdet.{verb}").parser().parse_args(["--hlep"])
    assert "--hlep. Did you mean --help?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--new-only", "--new-only .*--parts DIR"),
        ("--cluster local:2", "--cluster .*--parts DIR"),
        ("--format parquet", "--format parquet .*parts"),
        ("--parts d --out rows.csv", "--out .*--parts"),
        ("--parts d --windows", "--windows .*--parts"),
        ("--parts d --suggest 5", "--suggest .*--parts"),
        ("--parts d --format jsonl", "csv or parquet"),
        ("- --parts d", "standard input"),
        ("--parts s3://bucket/d", "--parts s3://bucket/d: .*disk"),
        ("--parts d --cluster local:2 --workers 2", "--workers .*--cluster"),
        ("--parts d --cluster nowhere", "--cluster=nowhere: allowed"),
        ("--parts d --cluster s.json", "--cluster=s.json: .*no such file"),
    ],
)
def test_options_that_do_not_go_with_parts_are_refused(words: str, message: str) -> None:
    arguments = import_module("leakdet.predict").parser().parse_args(["m", "a", *words.split()])
    with pytest.raises(LeakdetError, match=message):
        check_parts(arguments)


@pytest.mark.parametrize(
    "words", ["", "--out x.csv", "--parts d", "--parts d --new-only --format parquet --workers 2"]
)
def test_options_that_go_with_parts(words: str) -> None:
    check_parts(import_module("leakdet.predict").parser().parse_args(["m", "a", *words.split()]))


@pytest.mark.parametrize("words", [["--log", "json"], ["--log=json"]])
def test_wrong_usage_is_json_too_where_that_is_asked_for(words, capsys) -> None:
    for door in ("predict", "evaluate", "export", "worklist"):
        with pytest.raises(SystemExit) as ended:
            import_module(f"leakdet.{door}").parser().parse_args([*words, "--thresold", "1"])
        assert ended.value.code == 2
        captured = capsys.readouterr()
        (told,) = map(json.loads, captured.err.splitlines())
        assert (told["kind"], told["level"], told["exit_code"]) == ("usage", "error", 2)
        assert "--thresold" in told["message"]
        assert captured.out == ""


@pytest.mark.parametrize(
    ("words", "all_to_stderr", "out", "err"),
    [
        ([], False, ["note", "result"], []),
        ([], True, [], ["note", "result"]),
        (["--quiet"], False, ["result"], []),
        (["--log=json"], False, [], ["note", "result", "end"]),
    ],
)
def test_a_verb_speaks_as_its_arguments_say(
    words: list[str],
    all_to_stderr: bool,
    out: list[str],
    err: list[str],
    parser: argparse.ArgumentParser,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def verb(arguments: argparse.Namespace) -> int:
        LOG.info("note")
        log_result(f"result {arguments.device}")
        return 1

    assert run_verb(verb, parser.parse_args(words), all_to_stderr) == 1
    told = capsys.readouterr()
    for text, expected in ((told.out, out), (told.err, err)):
        assert len(text.splitlines()) == len(expected)
        assert all(word in line for word, line in zip(expected, text.splitlines(), strict=True))


def test_an_error_of_a_verb_is_a_line(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    def verb(arguments: argparse.Namespace) -> int:
        raise LeakdetError(f"no {arguments.device}")

    assert run_verb(verb, parser.parse_args([])) == 2
    assert capsys.readouterr().err == "error: no auto\n"


def parsed(*words: object):
    return import_module("leakdet.predict").parser().parse_args(["m", "a", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--labels-format raven", "--labels-format .*--labels DIR"),
        ("--clip-seconds 5", "--clip-seconds .*--clips DIR"),
        ("--labels l --parts p", "--labels .*--parts"),
        ("--clips c --parts p", "--clips .*--parts"),
        ("- --clips c", "standard input"),
        ("--clips c --labels ./c", "name the same folder"),
        ("--clips used", "used: exists already"),
        ("--labels used/file", "used/file: exists already"),
        ("--labels lost", "lost: exists already"),
    ],
)
def test_what_does_not_go_together_is_refused(words, message, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "used").mkdir()
    (tmp_path / "used/file").touch()
    (tmp_path / "lost").symlink_to(tmp_path / "away")
    with pytest.raises(SettingsError, match=message):
        check_window_files(parsed(*words.split()))


def test_new_and_empty_folders_are_taken(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    check_window_files(parsed("--clips", tmp_path / "new", "--labels", tmp_path / "empty"))
    check_window_files(parsed())


def test_a_bucket_is_no_folder_for_them(capsys) -> None:
    with pytest.raises(SystemExit):
        parsed("--clips", "s3://bucket/clips")
    assert "folder on a disk" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0.5", "601", "nan", "long"])
def test_the_length_of_clips_has_a_range(seconds, capsys) -> None:
    with pytest.raises(SystemExit):
        parsed("--clips", "c", "--clip-seconds", seconds)
    assert "1 to 600" in capsys.readouterr().err
