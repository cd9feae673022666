"""What an `.onnx` file needs is asked for before anything else is done."""

import pytest

from leakdet.errors import InputError
from leakdet.storage import onnx_packages
from leakdet.storage.model_place import require_model


def test_a_missing_package_is_named_with_its_remedy(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(onnx_packages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"need onnx, .*pip install 'leakdet\[export\]'"):
        onnx_packages.require_packages()
    for name in ("model.onnx", "MODEL.ONNX"):
        (tmp_path / name).touch()
        with pytest.raises(InputError, match=r"need onnx, onnxruntime, which are not installed"):
            require_model(tmp_path / name)
