"""What a proxy may keep is a share of the memory that it plans with."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from rocketpy.cli import proxy_beside
from rocketpy.config import load_config
from rocketpy.proxy import grpc_port, remoting_port, service
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
    assert bounds == [16 * MB, 16 * MB] and port._relay._bytes_max == 4 * MB
    assert ProxyService(settings)._clients._bytes_max == 4 * MB


def test_beside_its_broker_a_proxy_leaves_it_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MagicMock()
    made.return_value.start = AsyncMock()
    monkeypatch.setattr(service, "ProxyService", made)
    monkeypatch.setattr(proxy_beside, "why_missing", lambda: None)
    broker = load_config("broker", None, {"memory": "1024m", "namesrvAddr": "127.0.0.1:1"})
    asyncio.run(proxy_beside.ProxyBeside(broker).start())
    (settings,) = made.call_args.args
    assert settings.port_bytes_max == 160 * MB and settings.kept_bytes_max == 40 * MB
