"""Under which address clients find this broker, and when that address cannot be right.

RocketMQ registers brokerIP1:listenPort and, for its slaves, brokerIP2:haListenPort. `advertise` replaces the first for brokers behind a
bridge or a load balancer: HOST or HOST:PORT, host names allowed. The most frequent fault of container set-ups is a broker that registers
an address which only its own machine can reach, so the broker warns of it when it starts.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from .._core.errors import NetworkError
from ..config import Config, join_address
from ..remoting.client import split_address
from ..remoting.look_up import LookUps

LOOK_UP_TIMEOUT_S = 3.0
_WILDCARDS = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Identity:
    """How this broker is known in its cluster."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str


def identity_of(config: Config) -> Identity:
    """The identity that the configuration gives this broker."""
    return Identity(
        config.text("brokerClusterName"),
        config.text("brokerName"),
        config.integer("brokerId"),
        advertised_address(config.text("advertise"), config.text("brokerIP1"), config.integer("listenPort")),
        advertised_address(config.text("advertiseHa"), config.text("brokerIP2"), config.integer("haListenPort")),
    )


def advertised_address(advertise: str, broker_ip: str, port: int) -> str:
    """`advertise`, with the port added if it has none; if it is empty, brokerIP1 with the listener's port."""
    if not advertise:
        return join_address(broker_ip, port)
    bare_ipv6 = advertise.count(":") > 1 and not advertise.startswith("[")
    if bare_ipv6 or ":" not in advertise.rpartition("]")[2]:
        return join_address(advertise.strip("[]"), port)
    return advertise


async def looked_up(
    addresses: Iterable[str], look_ups: LookUps, timeout_s: float = LOOK_UP_TIMEOUT_S, *, what: str = "name server"
) -> list[str]:
    """All addresses behind each HOST:PORT: one name may stand for all name servers (fetchNameSrvAddrByDnsLookup) or controllers.

    Raises NetworkError if one of the names cannot be looked up: an incomplete list must not be used.
    """
    found: list[str] = []
    for address in addresses:
        host, port = split_address(address)
        try:
            async with asyncio.timeout(timeout_s):
                numbers = await look_ups.addresses(host)
        except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
            cause = getattr(error, "strerror", None) or f"no answer within {timeout_s:g} s"
            raise NetworkError(f"{what} {address} cannot be looked up: {cause}") from error
        found += sorted(join_address(each, port) for each in numbers)
    return list(dict.fromkeys(found))


def address_warnings(address: str, name_servers: Iterable[str]) -> list[str]:
    """What an operator should know about registering `address` with these name servers."""
    host = split_address(address)[0]
    reach = _reach(host)
    warnings: list[str] = []
    if host in _WILDCARDS:
        warnings.append(f"the broker registers the wildcard address {address}: no client can connect to it; set brokerIP1 or advertise")
    for name_server in name_servers:
        other = _reach(split_address(name_server)[0])
        if reach == "loopback" and other != "loopback":
            warnings.append(
                f"the broker registers {address} with name server {name_server}, but this is a loopback address: "
                "clients on other machines cannot connect; set brokerIP1 or advertise"
            )
        elif reach == "private" and other == "public":
            warnings.append(
                f"the broker registers the private address {address} with the public name server {name_server}: "
                "clients outside this network cannot connect; set advertise to an address they can reach"
            )
    return warnings


def _reach(host: str) -> str:
    """Who can connect to a host: loopback, private or public; name for a host name, which is not resolved here."""
    if host.lower() == "localhost":
        return "loopback"
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "name"
    if address.is_loopback:
        return "loopback"
    return "private" if address.is_private or address.is_link_local else "public"
