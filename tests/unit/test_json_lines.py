"""Messages as JSON lines."""

import json
import re

from leakdet._json_lines import asked_for, json_lines


def objects(*arguments, **more):
    return [json.loads(line) for line in json_lines(*arguments, **more)]


def test_entries_are_objects_of_their_own_kind() -> None:
    text = "files    3: loading torch\nleft out a.txt: no audio\n         nor b.txt"
    files, left_out = objects("info", text)
    assert (files["kind"], files["message"]) == ("files", "3: loading torch")
    assert (left_out["kind"], left_out["message"]) == ("left out", "a.txt: no audio nor b.txt")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", files["time"])


def test_other_text_is_one_object_whatever_it_holds() -> None:
    for text in ("one sentence.", "a table\n│ 1 │\nstore    x", "\udce9\u2028 \x1b[0m\n\tä"):
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
