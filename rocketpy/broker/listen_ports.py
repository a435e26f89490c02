"""Ports and the address that the broker's records and message ids carry, worked out before anything listens.

A broker uses three ports: the listener, two below it the VIP channel, one above it the slaves (unless haListenPort says otherwise).
"""

from __future__ import annotations

import itertools
import random
import socket
from pathlib import Path

from .._core.errors import NetworkError
from ..config.rules import VIP_PORT_DISTANCE
from ..remoting.listen_address import cause_of, numeric_address

HA_PORT_DISTANCE = 1
FREE_PORT_TRIES = 100
FIRST_FREE_PORT = 10000  # below it are most of the ports that services are known by
PORTS_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def store_ip(broker_ip: str) -> str:
    """The address in every record and message id: brokerIP1 as a numeric address, because a record has no room for a name."""
    return numeric_address("brokerIP1", broker_ip)


def free_port(bind_address: str) -> int:
    """A port that is free together with its neighbours, for the VIP channel and for slaves. Records contain it, so it is chosen before the
    bind. Raises NetworkError.

    Ports outside the kernel's range for outgoing connections are tried first: a connection made before the bind could be given a port
    within that range, and a closed connection keeps its port for a minute. The kernel gives every second port of its range to connections
    and offers us the others, so on a busy machine none of the offered ports may have free neighbours.
    """
    offered = (_bound_port(bind_address, 0) for _ in range(FREE_PORT_TRIES))
    first = next(offered)  # raises when the address is not this machine's
    ours = _ports_without_connections()
    for port in itertools.chain(random.SystemRandom().sample(ours, min(len(ours), FREE_PORT_TRIES)), (first,), offered):
        if all(_bound_port(bind_address, port + distance) for distance in (0, -VIP_PORT_DISTANCE, HA_PORT_DISTANCE)):
            return port
    raise NetworkError(f"no free port with free neighbours on {bind_address} in {FREE_PORT_TRIES} tries; set listenPort")


def _ports_without_connections() -> list[int]:
    """The ports that lie, with both neighbours, outside the kernel's range for outgoing connections; none if that range cannot be read."""
    try:
        least, most = map(int, PORTS_OF_CONNECTIONS.read_text().split())
    except (OSError, ValueError):
        return []
    return [
        *range(FIRST_FREE_PORT + VIP_PORT_DISTANCE, least - HA_PORT_DISTANCE),
        *range(max(FIRST_FREE_PORT, most + 1) + VIP_PORT_DISTANCE, 65536 - HA_PORT_DISTANCE),
    ]


def _bound_port(bind_address: str, port: int) -> int:
    """The port that a socket could be bound to; 0 if it is taken or does not exist. Raises NetworkError if not even port 0 (any port) can
    be had."""
    family = socket.AF_INET6 if ":" in bind_address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((bind_address.strip("[]"), port))
        except (OSError, OverflowError, UnicodeError) as error:
            if port != 0:
                return 0
            raise NetworkError(
                f"bindAddress={bind_address} cannot be bound: {cause_of(error)}; set it to an address of this machine"
            ) from error
        return int(probe.getsockname()[1])
