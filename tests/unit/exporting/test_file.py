"""What is read of an `.onnx` file, and the sentence for each that is not one of leakdet's."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from leakdet.cli.cards import card_text
from leakdet.cli.describe import describe
from leakdet.core.errors import InputError
from leakdet.core.files import KEY, UNSEALED, sealed
from leakdet.exporting import file as onnx_file
from leakdet.exporting.detector import load_onnx_detector
from leakdet.exporting.file import check_places, check_self_contained, read_onnx
from leakdet.storage.model_card import CARD_KEY, has_checksums


def changed(exported, tmp_path, change, reseal: bool = False):
    """A copy of the exported file of which `change` changed the model."""
    model = onnx.load_model_from_string(exported.read_bytes())
    change(model)
    content = model.SerializeToString()
    if reseal:
        start = content.index(KEY.encode()) + len(KEY) + 4
        content = sealed(content[:start] + UNSEALED.encode() + content[start + 32 :])
    (tmp_path / "changed.onnx").write_bytes(content)
    return tmp_path / "changed.onnx"


def with_card(**values):
    def change(model) -> None:
        for entry in model.metadata_props:
            if entry.key == CARD_KEY:
                entry.value = json.dumps(json.loads(entry.value) | values)

    return change


def test_card_licence_and_vectors_are_in_the_file(exported, classes_detector) -> None:
    file = read_onnx(exported)
    assert file.card["labels"]["names"] == ["NORMAL", "LEAK", "CRACK"]
    assert file.card["exported"]["from"] == "0123456789ab"
    assert file.metadata["licence"] == "for tests"
    vectors = json.loads(file.metadata["test_vectors"])
    assert len(vectors) == 10
    assert all(len(vector["sha256"]) == 64 for vector in vectors)
    assert file.facts["sample_rate_hz"] == 4000
    text = card_text(describe(exported))
    assert re.search("float32; .*0123456789ab", text)
    assert "licence  for tests\n" in text
    assert "yes, by its checksum" in text


def test_a_name_in_capitals_is_read_as_any_other(exported, tmp_path) -> None:
    named = tmp_path / "M.ONNX"
    named.write_bytes(exported.read_bytes())
    of_both = [card_text(describe(path)).split("what ", 1)[1] for path in (exported, named)]
    assert of_both[0] == of_both[1]
    assert has_checksums(named)


def test_the_file_needs_nothing_but_itself(exported) -> None:
    model = onnx.load_model_from_string(exported.read_bytes())
    check_self_contained(exported, model)
    assert {opset.domain for opset in model.opset_import} == {""}
    assert [value.name for value in model.graph.input] == [
        "sound", "earlier_moments", "lead_windows"
    ]  # fmt: skip
    text = exported.read_bytes()
    assert b"/leakdet/" not in text
    assert b"stack_trace" not in text


@pytest.mark.parametrize("place", [0.1, 0.5, 0.999])
def test_a_changed_byte_or_a_lost_end_is_noticed(exported, tmp_path, place: float) -> None:
    content = bytearray(exported.read_bytes())
    (tmp_path / "cut.onnx").write_bytes(content[: int(place * len(content))])
    content[int(place * len(content))] ^= 1
    (tmp_path / "flipped.onnx").write_bytes(content)
    for name in ("cut.onnx", "flipped.onnx"):
        with pytest.raises(InputError, match=r"(damaged|not a whole).*export it again"):
            read_onnx(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (with_card(onnx_format=9), "format 9, .*up to 1.*newer"),
        (with_card(onnx_format=None), "lacks the format"),
        (with_card(format_version=7), "its format version is 7"),
        (lambda model: model.opset_import.add(domain="com.acme", version=1), "acme"),
    ],
)
def test_a_file_of_another_kind_is_refused(exported, tmp_path, change, sentence: str) -> None:
    path = changed(exported, tmp_path, change, reseal=True)
    with pytest.raises(InputError, match=sentence):
        onnx_file.read_onnx(path)


def test_operators_newer_than_onnxruntime_are_said_to_be(exported, tmp_path) -> None:
    newer = lambda model: setattr(model.opset_import[0], "version", 99)  # noqa: E731
    path = changed(exported, tmp_path, newer, reseal=True)
    with pytest.raises(InputError, match="this onnxruntime"):
        load_onnx_detector(path)


def test_weights_in_another_file_are_never_opened(exported, tmp_path) -> None:
    def outside(model) -> None:
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="/etc/passwd")

    model = onnx.load_model_from_string(exported.read_bytes())
    outside(model)
    with pytest.raises(InputError, match="lie in another file"):
        check_self_contained(exported, model)
    with pytest.raises(InputError):
        read_onnx(changed(exported, tmp_path, outside, reseal=True))


def test_a_foreign_model_is_named_as_such(tmp_path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    node = helper.make_node("Add", ["x", "c"], ["y"])
    one = numpy_helper.from_array(np.ones(1, np.float32), "c")
    graph = helper.make_graph([node], "g", [value], [out], [one])
    onnx.save(helper.make_model(graph, ir_version=10), tmp_path / "a.onnx")
    with pytest.raises(InputError, match=r"a\.onnx: .*not a model"):
        read_onnx(tmp_path / "a.onnx")
    (tmp_path / "b.onnx").write_text("hello")
    with pytest.raises(InputError, match=r"b\.onnx: not a whole"):
        read_onnx(tmp_path / "b.onnx")
    with pytest.raises(InputError, match=r"c\.onnx: .*no such"):
        read_onnx(tmp_path / "c.onnx")


def test_places_are_checked_before_any_work(tmp_path, exported) -> None:
    for out, remedy in (("a.bin", "ends in .onnx"), ("no/a.onnx", "make it first")):
        with pytest.raises(InputError, match=remedy):
            check_places(tmp_path / "model.safetensors", tmp_path / out)
    check_places(tmp_path / "model.safetensors", tmp_path / "a.onnx")
    for model in (exported, tmp_path / "M.ONNX"):
        with pytest.raises(InputError, match=r"an .onnx file already"):
            check_places(model, tmp_path / "A.ONNX")
