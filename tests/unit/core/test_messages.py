import contextlib
import io
import json
import logging
import re
import subprocess
import sys
import warnings

import pytest

from leakdet.core.messages import (
    LOG,
    asked_for,
    json_lines,
    log_result,
    logs_json,
    messages_on_screen,
    on_screen,
    print_fitted,
    print_status,
    set_log,
)

CODE = (
    "from leakdet.core.messages import prepare_streams\n"
    "import sys\n"
    "prepare_streams()\n"
    "print('caf\\xe9 \\u6f0f\\u6c34 \\udce9', flush=True)\n"
    "print('caf\\xe9', file=sys.stderr, flush=True)"
)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("utf-8", b"caf\xc3\xa9 \xe6\xbc\x8f\xe6\xb0\xb4 \xe9\n"),
        ("latin-1", b"caf\xe9 \\u6f0f\\u6c34 \\udce9\n"),
        ("ascii", b"caf\\xe9 \\u6f0f\\u6c34 \\udce9\n"),
    ],
)
def test_what_an_encoding_lacks_is_escaped(encoding: str, expected: bytes) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"PYTHONIOENCODING": encoding, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=True,
    )
    assert answer.stdout == expected


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_streams_stop_nothing(closed: str) -> None:
    command = f'exec {sys.executable} -c "$CODE" {closed}'
    environment = {"CODE": CODE, "PYTHONPATH": ":".join(sys.path), "PYTHONUTF8": "1"}
    answer = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, check=False
    )
    assert answer.returncode == 0


def objects(*arguments, **more):
    return [json.loads(line) for line in json_lines(*arguments, **more)]


def test_entries_are_objects_of_their_own_kind() -> None:
    text = "files    3: loading torch\nleft out a.txt: no audio\n         nor b.txt"
    files, left_out = objects("info", text)
    assert (files["kind"], files["message"]) == ("files", "3: loading torch")
    assert (left_out["kind"], left_out["message"]) == ("left out", "a.txt: no audio nor b.txt")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", files["time"])


def test_other_text_is_one_object_whatever_it_holds() -> None:
    for text in (
        "one sentence.",
        "training began",
        "a table\n│ 1 │\nstore    x",
        "\udce9\u2028 \x1b[0m\n\tä",
    ):
        (told,) = objects("result", text)
        assert (told["level"], told["kind"], told["message"]) == ("result", "text", text)
        (line,) = json_lines("result", text)
        assert line.isascii()
        assert len(line.splitlines()) == 1


def test_more_facts_stand_beside_the_message() -> None:
    (told,) = objects("info", "store    is no entry here", "progress", done=3, total=9)
    assert (told["kind"], told["done"], told["total"]) == ("progress", 3, 9)
    assert told["message"] == "store    is no entry here"


def test_both_kinds_of_command_lines_ask_for_it() -> None:
    for words in (["m", "--log", "json"], ["--log=json"], ["a=b", "log=json"]):
        assert asked_for(words)
    for words in ([], ["json", "--log"], ["--log", "normal", "json"], ["log=quiet"]):
        assert not asked_for(words)


def test_a_command_prints_information_and_warnings_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not on_screen()
    with messages_on_screen():
        assert on_screen()
        LOG.info("50% done")
        LOG.warning("the loss rises")
    LOG.info("afterwards")
    assert not on_screen()
    captured = capsys.readouterr()
    assert captured.out == "50% done\n"
    assert captured.err == "warning: the loss rises\n"


def test_a_message_inside_two_commands_is_printed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with messages_on_screen(), messages_on_screen():
        LOG.info("once")
    assert capsys.readouterr().out == "once\n"
    assert not on_screen()


def test_a_logger_that_another_library_disabled_prints_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    LOG.disabled = True
    with messages_on_screen():
        LOG.info("a message")
    assert capsys.readouterr().out == "a message\n"


@pytest.mark.parametrize(
    ("configured", "expected"), [("pass", ""), ("logging.basicConfig(level='INFO')", "leakdet:one")]
)
def test_a_program_is_silent_until_it_configures_logging(configured: str, expected: str) -> None:
    code = (
        "import logging; from leakdet.core.messages import LOG\n"
        f"{configured}\nLOG.info('one'); LOG.warning('two')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == ""
    assert (expected in run.stderr) if expected else run.stderr == ""


def test_a_failing_command_takes_its_handler_away() -> None:
    with pytest.raises(KeyError), messages_on_screen():
        raise KeyError
    assert not on_screen()
    assert LOG.level == logging.NOTSET


def test_nested_commands_print_once(capsys: pytest.CaptureFixture[str]) -> None:
    with messages_on_screen():
        with messages_on_screen():
            LOG.info("inside")
        LOG.info("after")
    assert capsys.readouterr().out == "inside\nafter\n"
    assert not on_screen()


def test_a_quiet_command_prints_results_and_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    with messages_on_screen("quiet"):
        LOG.info("on the way")
        log_result("F1 0.9")
        LOG.warning("odd")
    assert capsys.readouterr() == ("F1 0.9\n", "warning: odd\n")


def test_a_command_whose_output_is_data_prints_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with messages_on_screen(all_to_stderr=True):
        LOG.info("3 files")
    assert capsys.readouterr() == ("", "3 files\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_whole_words_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = "/a/path/that/is/longer/than/one/line/of/the/terminal"
    text = f"stops    at epoch 60, or after 15 epochs without a better F1\n│ {'x' * 50} │\n{path}"
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        with contextlib.redirect_stdout(stream):
            print_fitted(text)
    assert file.getvalue() == f"{text}\n"
    assert terminal.getvalue().splitlines() == [
        "stops    at epoch 60, or after 15 epochs",
        "         without a better F1",
        f"│ {'x' * 50} │",
        path,
    ]


def test_a_reader_that_has_gone_ends_no_work() -> None:
    code = (
        "import sys; from leakdet.core.messages import print_fitted\n"
        "sys.stdin.read()\n"
        "for _ in range(3): print_fitted('a message')\n"
        "print_fitted('done', to_stderr=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as work:  # fmt: skip
        assert work.stdout
        assert work.stdin
        assert work.stderr
        work.stdout.close()
        work.stdin.close()
        assert work.stderr.read() == b"done\n"
    assert work.returncode == 0


def test_as_json_everything_is_an_object_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    root = list(logging.getLogger().handlers)
    with messages_on_screen("json"):
        LOG.info("store    a: 3 recordings")
        log_result("F1 0.9")
        LOG.warning("the loss rises")
        other = logging.getLogger("other.library")
        other.disabled = False  # as Hydra leaves it where a command ran before
        other.setLevel(logging.WARNING)
        other.warning("few workers")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("an old name", FutureWarning, stacklevel=1)
        print_status("scoring: 3/9 files", kind="progress", done=3)
    assert logging.getLogger().handlers == root
    captured = capsys.readouterr()
    assert captured.out == ""
    told = [json.loads(line) for line in captured.err.splitlines()]
    assert [(each["level"], each["kind"]) for each in told] == [
        ("info", "store"),
        ("result", "text"),
        ("warning", "text"),
        ("warning", "other.library"),
        ("warning", "py.warnings"),
        ("info", "progress"),
    ]
    assert "an old name" in told[4]["message"]
    assert told[5]["done"] == 3


def test_other_libraries_are_heard_again_after_hydra_has_begun(capsys, monkeypatch) -> None:
    with messages_on_screen("json"):
        for handler in list(logging.getLogger().handlers):
            if type(handler).__module__ == "leakdet.core.messages":
                logging.getLogger().removeHandler(handler)
        monkeypatch.setattr(logging.getLogger(), "level", logging.ERROR)
        logging.getLogger("py.warnings").disabled = True
        set_log("json")
        set_log("json")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("an old name", FutureWarning, stacklevel=1)
    (told,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert told["kind"] == "py.warnings"


def test_the_setting_log_is_followed_from_then_on(capsys: pytest.CaptureFixture[str]) -> None:
    with messages_on_screen():
        for log in ("json", "quiet", "normal"):
            set_log(log)
            assert logs_json() == (log == "json")
            LOG.info(log)
    captured = capsys.readouterr()
    assert captured.out == "normal\n"
    assert json.loads(captured.err)["message"] == "json"
