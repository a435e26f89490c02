"""The networks that other tests are given."""

from __future__ import annotations

import socket

import pytest

from tests.processes import PATIENCE_S

from . import namespaces
from .namespaces import Host, Network, claim_net, require_namespaces


def _reaches(host: Host) -> bool:
    """Nobody listens there, and the host says so."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host.address, 9), timeout=PATIENCE_S)
    return True


def test_what_a_killed_test_has_left_leads_no_packet_astray(monkeypatch: pytest.MonkeyPatch) -> None:
    require_namespaces()
    killed = Network()
    killed.__enter__()
    net = killed.net
    monkeypatch.setattr(namespaces, "NETS", [net])
    with pytest.raises(OSError, match="is in use"):  # somebody has it
        claim_net()
    killed.lose_process()
    with Network() as network:
        assert _reaches(network.master) and _reaches(network.slave)
        with pytest.raises(OSError, match=rf"each of 10\.{net}\.\* .* is in use"):
            claim_net()
