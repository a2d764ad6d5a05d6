"""This suite itself: no test can forget the devices."""
import types

import pytest

import conftest


def _item(name, *fixtures, reason=None, **parameters):
    marker = None if reason is None else types.SimpleNamespace(args=reason)
    return types.SimpleNamespace(nodeid=f"test_x.py::{name}", fixturenames=list(fixtures),
                                 get_closest_marker={"host_only": marker}.get,
                                 callspec=types.SimpleNamespace(params=parameters))


@pytest.mark.host_only("asks about tests")
def test_a_test_that_says_nothing_of_devices_is_refused():
    told = [_item("test_a[cpu]", "device", device="cpu"),
            _item("test_a[cuda]", "device", device="cuda"),
            _item("test_b", "torch", "cuda"), _item("test_c", reason=("why",))]
    conftest.pytest_collection_modifyitems(told)
    assert conftest.pytest_report_collectionfinish(told) == "tests by device: cpu 1, cuda 2, host 1"
    for fixture, reason in (("torch", None), ("torch", ()), ("tmp_path", (None,))):
        with pytest.raises(pytest.UsageError, match="test_x.py::test_d$"):
            conftest.pytest_collection_modifyitems(told + [_item("test_d", fixture, reason=reason)])


@pytest.mark.host_only("asks about tests")
def test_devices_are_those_there_are_or_those_named(monkeypatch):
    given = []
    asked = types.SimpleNamespace(fixturenames=["device"],
                                  parametrize=lambda *values: given.extend(values))
    monkeypatch.setenv("SCANFOLD_TEST_DEVICES", "cuda,meta")
    conftest.pytest_generate_tests(asked)
    assert given == ["device", ["cuda", "meta"]]
    monkeypatch.delenv("SCANFOLD_TEST_DEVICES")
    assert "cpu" in conftest._devices()
