"""Which address a machine has, where the kernel says little. In whole networks: tests/cluster/test_own_address.py."""

from __future__ import annotations

import errno
import socket
from typing import NoReturn

import pytest

from rocketpy.config import addresses, load_config


def test_a_sandbox_that_knows_no_preferences_has_its_address_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    class Probe:
        def __init__(self, *of: int) -> None: ...

        def __enter__(self) -> Probe:
            return self

        def __exit__(self, *of: object) -> None: ...

        def setsockopt(self, *of: int) -> None:
            raise OSError(errno.ENOPROTOOPT, "Protocol not available")

        def connect(self, to: tuple[str, int]) -> None: ...

        def getsockname(self) -> tuple[str, int]:
            return "2001:db8::5", 9

    monkeypatch.setattr(socket, "socket", Probe)
    assert addresses._on_the_way_out(socket.AF_INET6) == "2001:db8::5"


def test_a_unit_that_forbids_netlink_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden() -> NoReturn:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(addresses, "_on_the_way_out", lambda family: None)
    monkeypatch.setattr(socket, "if_nameindex", forbidden)
    assert load_config("broker").text("brokerIP1") == "127.0.0.1"
