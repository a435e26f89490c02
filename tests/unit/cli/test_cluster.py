"""The sample deployments start as one command and messages go through them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rocketpy._core.errors import NotFound
from rocketpy.cli.cluster import cluster_configs, deployment_files


def test_masters_come_before_their_slaves(tmp_path) -> None:  # type: ignore[no-untyped-def]
    configs = cluster_configs("2m-2s-sync", "127.0.0.1", tmp_path)
    assert [config.integer("brokerId") for config in configs] == [0, 0, 1, 1]
    assert len({config.text("storePathRootDir") for config in configs}) == 4


def test_an_unknown_deployment_names_those_there_are() -> None:
    with pytest.raises(NotFound, match="2m-2s-async, 2m-2s-sync, 2m-noslave"):
        deployment_files("3m-9s")


def test_a_synchronous_cluster_takes_messages_and_gives_them_back() -> None:
    command = [sys.executable, "-m", "rocketpy", "up", "--cluster", "2m-2s-sync", "--check", "2000", "--namesrv-port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "every message came back as it was sent" in done.stdout
