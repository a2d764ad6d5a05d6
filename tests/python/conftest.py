"""The package under test is the one on the path: installed, or built in place with PYTHONPATH=python."""
import os

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_configure(config):
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:
        return
    # A shared machine is slow now and then: no deadline. Derandomized: a failure today is one tomorrow.
    settings.register_profile("here", deadline=None, derandomize=True, max_examples=int(os.environ.get("SCANFOLD_EXAMPLES", "60")),
                              suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    settings.load_profile("here")


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")
