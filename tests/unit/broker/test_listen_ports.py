"""The ports and the address of a broker are found before anything listens, or the start says what to change."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy.broker.listen_ports import free_port, store_ip
from rocketpy.remoting.listen_address import numeric_address


def test_a_free_port_below_none_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = iter((65535,))

    class HighestFirst(socket.socket):
        def bind(self, address: Any) -> None:
            host, port = address
            super().bind((host, port or next(offered, 0)))

    monkeypatch.setattr(socket, "socket", HighestFirst)
    assert 1024 <= free_port("127.0.0.1") < 65535
    assert next(offered, None) is None


@pytest.mark.parametrize("address", ["192.0.2.1", "no-such-host.invalid", "a..b", "a" * 64])
def test_an_address_that_is_not_ours_is_named_with_its_remedy(address: str) -> None:
    with pytest.raises(NetworkError, match=f"bindAddress={address} cannot be bound: .*; set it to an address of this machine"):
        free_port(address)


@pytest.mark.parametrize("address", ["no-such-host.invalid", "a..b", "a" * 64])
def test_an_address_that_cannot_be_resolved_is_named_with_its_remedy(address: str) -> None:
    with pytest.raises(NetworkError, match=f"brokerIP1={address} cannot be resolved: .*; set it to an address of this machine"):
        store_ip(address)


def test_a_name_becomes_the_numbers_that_records_carry() -> None:
    assert store_ip("localhost") == "127.0.0.1"
    assert store_ip("[::1]") == "::1"


def test_a_name_with_addresses_of_both_kinds_is_bound_to_ipv4_as_in_java(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)), (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: both)
    assert numeric_address("bindAddress", "both") == "127.0.0.1"
