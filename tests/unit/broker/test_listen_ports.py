"""The ports and the address of a broker are found before anything listens, or the start says what to change."""

from __future__ import annotations

import errno
import itertools
import socket
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy.broker import listen_ports
from rocketpy.broker.listen_ports import HA_PORT_DISTANCE, free_port, store_ip
from rocketpy.config.rules import VIP_PORT_DISTANCE
from rocketpy.remoting.listen_address import numeric_address
from tests.processes import PATIENCE_S
from tests.unit.broker.running import has_ipv6_loopback, run, running


@pytest.fixture
def ports_of_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the kernel says of the ports it gives to outgoing connections: at first that it may be any."""
    file = tmp_path / "ip_local_port_range"
    file.write_text("1024\t65535\n")
    monkeypatch.setattr(listen_ports, "PORTS_OF_CONNECTIONS", file)
    return file


def kernel(monkeypatch: pytest.MonkeyPatch, taken: Container[int], offers: Iterable[int] = range(40001, 41000, 2)) -> None:
    """A kernel that has these ports taken, and these to offer to whoever binds port 0."""
    offered = iter(offers)

    class Socket(socket.socket):
        def bind(self, address: Any) -> None:
            self.port = address[1] or next(offered)
            if self.port > 65535:
                raise OverflowError("bind(): port must be 0-65535.")
            if self.port in taken:
                raise OSError(errno.EADDRINUSE, "Address already in use")

        def getsockname(self) -> Any:
            return "127.0.0.1", self.port

    monkeypatch.setattr(socket, "socket", Socket)


def test_a_free_port_below_none_is_passed_over(monkeypatch: pytest.MonkeyPatch, ports_of_connections: Path) -> None:
    kernel(monkeypatch, taken=(), offers=(65535, 40001))
    assert free_port("127.0.0.1") == 40001


@pytest.mark.parametrize("neighbour", [39999, 40002])
def test_a_port_whose_neighbour_is_taken_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, ports_of_connections: Path, neighbour: int
) -> None:
    kernel(monkeypatch, taken=(neighbour,), offers=(40001, 40011))
    assert free_port("127.0.0.1") == 40011


def test_who_finds_none_is_told_to_choose_one(monkeypatch: pytest.MonkeyPatch, ports_of_connections: Path) -> None:
    kernel(monkeypatch, taken=range(40000, 41002, 2))
    with pytest.raises(NetworkError, match=r"no free port with free neighbours on 127\.0\.0\.1 in 100 tries; set listenPort"):
        free_port("127.0.0.1")


@pytest.mark.parametrize(("least", "most"), [(32768, 60999), (1024, 60999), (9000, 9999), (20000, 65535)])
def test_no_connection_is_given_a_port_of_the_broker_before_it_listens(ports_of_connections: Path, least: int, most: int) -> None:
    ports_of_connections.write_text(f"{least}\t{most}\n")
    for _ in range(20):
        port = free_port("127.0.0.1")
        assert not {port - 2, port, port + 1} & set(range(least, most + 1)) and 10002 <= port <= 65534


def test_a_port_is_found_while_connections_hold_every_port_they_may_have(
    monkeypatch: pytest.MonkeyPatch, ports_of_connections: Path
) -> None:
    ports_of_connections.write_text("32768\t60999\n")
    kernel(monkeypatch, taken=range(32768, 61000, 2))
    assert free_port("127.0.0.1") not in range(32768, 61000)


@pytest.mark.parametrize("text", [None, "", "32768", "many"])
def test_where_the_kernel_does_not_tell_its_offer_is_taken(
    monkeypatch: pytest.MonkeyPatch, ports_of_connections: Path, text: str | None
) -> None:
    ports_of_connections.unlink() if text is None else ports_of_connections.write_text(text)
    kernel(monkeypatch, taken=())
    assert free_port("127.0.0.1") == 40001


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


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no IPv6")
def test_every_interface_is_every_one_of_ipv6_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, bindAddress="0.0.0.0", metricsExporterType="PROM", metricsPromExporterPort="0") as at:
            ports = (at.broker.port, at.broker.port - VIP_PORT_DISTANCE, at.broker.port + HA_PORT_DISTANCE, at.broker.metrics_port)
            for each in itertools.product(("127.0.0.1", "::1"), ports):
                socket.create_connection(each, PATIENCE_S).close()

    run(test)
