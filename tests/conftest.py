"""What all tests share: property tests have no deadline (machines differ), print how to run a failure again, and try the same examples in
each run of a commit. ROCKETPY_SEARCH=1 lets them look for new ones; under sanitizers they try fewer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from rocketpy.remoting.client import RemotingClient
from tests.processes import PATIENCE_S

settings.register_profile("rocketpy", deadline=None, print_blob=True, derandomize="ROCKETPY_SEARCH" not in os.environ)
settings.register_profile("sanitized", settings.get_profile("rocketpy"), max_examples=15)  # each takes several times as long there
settings.load_profile("sanitized" if "ROCKETPY_SANITIZED" in os.environ else "rocketpy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The C programs first: two at once take minutes, and at the end three of the four processes of `make test` would wait for them."""
    items.sort(key=lambda item: item.path.name != "test_c_programs.py")


@pytest.fixture(autouse=True, scope="session")
def patient_clients() -> None:
    """Calls and connections without a time-out of their own wait for longer than the three seconds of RocketMQ's clients: a busy machine
    may stand still for so long."""
    assert RemotingClient.__init__.__kwdefaults__ is not None
    RemotingClient.__init__.__kwdefaults__["connect_timeout_s"] = PATIENCE_S
    for method in (RemotingClient.invoke, RemotingClient.call, RemotingClient.invoke_oneway, RemotingClient.invoke_all):
        assert method.__kwdefaults__ is not None
        method.__kwdefaults__["timeout_s"] = PATIENCE_S


@pytest.fixture
def foreign_directory() -> Iterator[Path]:
    """A directory this user may read and not write. Root, who may write anywhere, is nobody while the test runs."""
    with tempfile.TemporaryDirectory(prefix="rocketpy-foreign-") as name:
        directory = Path(name)
        directory.chmod(0o555)
        user = os.getuid()
        if user == 0:
            os.setresuid(65534, 65534, 0)
        try:
            yield directory
        finally:
            if user == 0:
                os.setresuid(0, 0, 0)
            directory.chmod(0o755)
