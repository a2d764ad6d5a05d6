"""The package under test is the one on the path: installed, or built in place, with
PYTHONPATH=python.

Every test runs on every device there is: it takes the fixture `device` ("cpu", and "cuda" where
torch has one) and makes its tensors there, or its arrays by oracle.Here; or it says with
host_only("why") that no device has a part in it. A test that does neither is refused before any
runs. SCANFOLD_TEST_DEVICES=cuda names the devices instead. With SCANFOLD_TEST_THIN=1, as `make test`
has it, tests marked repeats("what proves the same") are left to `make test-long`.
"""
import os

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Inductor has little to compile here: less than processes that help it take to import torch.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
# Nor is what it compiles worth vectors, whose headers take longer, or a search for those that this machine has.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
# Nor is it worth optimising.
os.environ.setdefault("AOT_INDUCTOR_DEBUG_COMPILE", "1")
# What XLA makes of the rest of a function is not ours, and compiling it is most of the time.
if os.environ.get("SCANFOLD_TEST_THIN"):
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")


def _devices():
    named = os.environ.get("SCANFOLD_TEST_DEVICES")
    if named:
        return named.split(",")
    try:
        import torch
    except ImportError:
        return ["cpu"]
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def pytest_configure(config):
    config.addinivalue_line("markers", "host_only(reason): no device has a part in this test")
    config.addinivalue_line("markers", "repeats(what): takes long, and what it proves others do too")
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:
        return
    # No deadline, because a shared machine is sometimes slow. Derandomized, so that a failure can
    # be repeated.
    settings.register_profile("here", deadline=None, derandomize=True, max_examples=int(os.environ.get("SCANFOLD_EXAMPLES", "60")),
                              suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    settings.load_profile("here")


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", _devices())


def device_of(item):
    """The device a collected test runs on; "host" for none; None where it does not say."""
    if "device" in item.fixturenames:
        return item.callspec.params["device"]
    if "cuda" in item.fixturenames:
        return "cuda"
    marker = item.get_closest_marker("host_only")
    reason = marker.args[:1] if marker is not None else ()
    return "host" if reason and isinstance(reason[0], str) else None


def pytest_collection_modifyitems(items):
    silent = sorted({item.nodeid.partition("[")[0] for item in items if device_of(item) is None})
    for item in items:
        repeats = item.get_closest_marker("repeats")
        if repeats is not None and os.environ.get("SCANFOLD_TEST_THIN"):
            item.add_marker(pytest.mark.skip(reason=f"left to make test-long: {repeats.args[0]}"))
    if silent:
        raise pytest.UsageError("these tests neither take the fixture `device` nor carry "
                                f'host_only("why"): {", ".join(silent)}')


def pytest_report_collectionfinish(items):
    counts = {}
    for item in items:
        counts[device_of(item)] = counts.get(device_of(item), 0) + 1
    return "tests by device: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def cuda(torch):
    """For what only a CUDA device has: streams, graphs."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
