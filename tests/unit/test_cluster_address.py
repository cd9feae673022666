from pathlib import Path

import pytest

from leakdet import _cluster_address
from leakdet._cluster_address import check_cluster, local_count, scheduler_address
from leakdet.errors import InputError, SettingsError


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("local:0", "cluster=local:0: allowed are 1 process or more"),
        ("local:9999", "cluster=local:N, N=9999: allowed are at most"),
        ("local", "cluster=local: allowed are local:N, the JSON file"),
        ("http://a:1", "allowed are local:N"),
        ("tcp://a", "allowed are local:N"),
        ("tls://:b", "allowed are local:N"),
        ("none.json", "there is no such file. A scheduler writes it: dask scheduler"),
    ],
)
def test_an_address_is_checked_early(address: str, message: str):
    with pytest.raises((SettingsError, InputError), match=message):
        check_cluster("cluster", address)


def test_addresses_of_this_machine_and_of_a_scheduler(tmp_path: Path):
    file = tmp_path / "s.json"
    file.write_text('{"address": "tcp://10.0.0.1:8786", "workers": {}}')
    check_cluster("cluster", "local:1")
    check_cluster("cluster", str(file))
    assert (local_count("local:3"), local_count(str(file))) == (3, None)
    assert scheduler_address(str(file)) == "tcp://10.0.0.1:8786"
    assert scheduler_address("tls://a:1") == "tls://a:1"


@pytest.mark.parametrize("text", ["", '{"address": ', "{}", "[]"])
def test_a_file_of_no_scheduler_is_refused(tmp_path: Path, text: str):
    file = tmp_path / "s.json"
    file.write_text(text)
    with pytest.raises(InputError, match="this is no file of a scheduler"):
        scheduler_address(str(file))


def test_a_lacking_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_cluster_address, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"needs Dask: pip install 'leakdet\[cluster\]'"):
        check_cluster("--cluster", "local:1")
