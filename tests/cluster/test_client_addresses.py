"""A broker whose address is right for one host and wrong for another, as in a container."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.crash.broker_process import BrokerProcess, NameServerProcess
from tests.processes import ROCKETPY, ROOT
from tests.unit.cli.processes import WAIT_S, run_here

from .namespaces import Network, require_namespaces


@pytest.mark.slow  # three processes, one of which waits out a connection
def test_doctor_says_on_each_host_whether_clients_there_reach_the_broker(tmp_path: Path) -> None:
    require_namespaces()
    with Network() as network:
        names = NameServerProcess(tmp_path / "n", bindAddress="0.0.0.0")
        broker = BrokerProcess(
            tmp_path / "b",
            host=network.master.address,
            inside=network.master.inside,
            bindAddress="0.0.0.0",
            brokerIP1=network.master.inner,
            namesrvAddr=f"{network.master.outside}:{names.port}",
        )
        registered = f"{network.master.inner}:{broker.port}"
        ask = ["doctor", "--from", "client", "-n"]
        try:
            names.start()
            broker.start()
            here = run_here(*ask, f"127.0.0.1:{names.port}", "--timeout", "1")
            (told,) = (line for line in here.stdout.splitlines() if " broker crash 0 " in line)
            assert here.returncode == 3 and told.startswith("bad ")
            assert registered in told and "a private address: clients outside this network do not reach it; advertise" in told
            command = [*network.slave.inside, *ROCKETPY, *ask, f"{network.slave.outside}:{names.port}"]
            there = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
            assert there.returncode == 0 and f"{registered} answers" in there.stdout, there.stdout + there.stderr
        finally:
            broker.stop()
            names.stop()
