"""A broker and its name server on two hosts, and a network between them that falls silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.broker_process import BrokerProcess, Server
from tests.processes import free_port, wait_until

from .namespaces import Network, require_namespaces

FOR_EVER_MS = 3_600_000


@pytest.mark.slow  # it waits out the time-outs of both ends
def test_a_name_server_that_is_cut_off_is_given_up_and_found_again(tmp_path: Path) -> None:
    """Else its connection stays: the kernel keeps what was not acknowledged for a quarter of an hour, and asks ever more rarely."""
    require_namespaces()
    with Network() as network:
        keys = {"bindAddress": "0.0.0.0", "kvConfigPath": tmp_path / "kv.json"}
        names = Server("namesrv", tmp_path / "n", free_port(), keys, host=network.master.address, inside=network.master.inside)
        broker = BrokerProcess(
            tmp_path / "b",
            host=network.slave.address,
            inside=network.slave.inside,
            bindAddress="0.0.0.0",
            namesrvAddr=f"{network.master.inner}:{names.port}",
            brokerIP1=network.slave.inner,
            registerNameServerPeriod=10_000,
            registerBrokerTimeoutMills=FOR_EVER_MS,
        )

        def registrations() -> int:
            return (broker.directory / "logs" / "broker.log").read_text().count("register broker[0] to name server")

        try:
            names.start()
            broker.start()
            wait_until(lambda: registrations() == 1, what="the registration")
            network.cut()
            broker.process.next_line("the connection to name server .* was lost: registering again")
            network.heal()
            wait_until(lambda: registrations() == 2, what="the next registration")
        finally:
            broker.stop()
            names.stop()
