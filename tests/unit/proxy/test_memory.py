"""What a proxy may keep is a share of the memory that it plans with."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from rocketpy.proxy import grpc_port, remoting_port
from rocketpy.proxy.service import ProxyService
from rocketpy.proxy.settings import ProxySettings

MB = 1 << 20


def test_the_proxys_ports_have_their_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[int] = []

    def server(**options: Any) -> Any:
        bounds.append(options["memory_bytes_max"])
        return MagicMock()

    for module in (grpc_port, remoting_port):
        monkeypatch.setattr(module, "Server", server)
    monkeypatch.setattr(grpc_port, "Grpc", MagicMock())
    settings = ProxySettings(memory=128 * MB)
    grpc_port.GrpcPort(settings, [])
    port = remoting_port.RemotingPort(settings, MagicMock(), MagicMock(), None)
    assert bounds == [8 * MB, 8 * MB] and port._relay._bytes_max == 4 * MB
    assert ProxyService(settings)._clients._bytes_max == 4 * MB
