"""Which address a machine has, where the kernel says little. In whole networks: tests/cluster/test_own_address.py."""

from __future__ import annotations

import errno
import socket
from typing import NoReturn

import pytest

from rocketpy.config import addresses, load_config


def test_a_unit_that_forbids_netlink_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden() -> NoReturn:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(addresses, "_on_the_way_out", lambda family: None)
    monkeypatch.setattr(socket, "if_nameindex", forbidden)
    assert load_config("broker").text("brokerIP1") == "127.0.0.1"
