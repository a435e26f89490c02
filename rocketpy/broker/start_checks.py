"""What a broker checks when it starts, because an operator would otherwise find it out too late: time limits longer than clients wait, a
port for slaves that nobody can connect to, another broker with the same name and id, a store of more files than may be mapped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .._core.errors import NetworkError
from ..config import Config
from ..remoting.client import split_address
from .addresses import Identity, address_warnings
from .group_members import Members
from .light_queues import warn_of_light_queues
from .parts import Parts
from .undelivered import undelivered

log = logging.getLogger(__name__)

CLIENT_WAITS_MS: Final = 3000
"""sendMsgTimeout of RocketMQ's clients, unless their program says otherwise."""
CONNECT_TIMEOUT_S: Final = 3.0
MAPS_SHARE_MAX: Final = 0.75
"""Of vm.max_map_count; a thread's stack is a map, too, so that the next start may fail for want of one."""

_WAITS: Final = (
    ("syncFlushTimeout", "flushDiskType", "SYNC_FLUSH", "the disk", "FLUSH_DISK_TIMEOUT"),
    ("slaveTimeout", "brokerRole", "SYNC_MASTER", "slaves", "FLUSH_SLAVE_TIMEOUT"),
)
"""What a send may wait for: the limit's key, the key and value that make it wait, what for, and what it is answered then."""


def warn_of_limits(config: Config) -> None:
    """Says if sends may wait longer here than clients wait for them; as a warning only if an operator set the limit."""
    for key, cause, value, waits_for, status in _WAITS:
        limit_ms = config.integer(key)
        if config.text(cause) == value and limit_ms > CLIENT_WAITS_MS:
            log.log(
                logging.WARNING if config.is_given(key) else logging.INFO,
                "a send may wait %d ms for %s (%s), but clients give up after %d ms unless their sendMsgTimeout is longer: they see a "
                "time-out, and send again, instead of %s",
                limit_ms,
                waits_for,
                key,
                CLIENT_WAITS_MS,
                status,
            )


def warn_at_start(parts: Parts, directory: Path) -> None:
    """What an operator may want to know before the first client connects. directory: of the tables."""
    config, identity = parts.config, parts.registration.identity
    for warning in address_warnings(identity.address, parts.registration.name_servers):
        log.warning("%s", warning)
    if not parts.registration.name_servers:
        log.warning("no name server is named (-n, namesrvAddr or NAMESRV_ADDR): clients cannot find this broker")
    log.info(
        "broker %s of cluster %s registers %s, HA address %s, with name servers %s",
        identity.broker_name,
        identity.cluster_name,
        identity.address,
        identity.ha_address,
        ";".join(parts.registration.name_servers) or "(none)",
    )
    warn_of_limits(config)
    warn_of_maps()
    warn_of_light_queues(config)
    if not parts.ha.is_slave and not config.boolean("timerWheelEnable"):
        warn_of_undelivered(undelivered(directory, parts.store.max_offset), config.integer("fileReservedTime"))
    if not parts.ha.is_slave:
        warn_of_stranded(parts.delay_offsets.stranded(parts.store.max_offset), config.integer("fileReservedTime"))


def warn_of_undelivered(waiting: int, reserved_hours: int) -> None:
    """Timed messages that were taken before timerWheelEnable was set to false."""
    if waiting:
        log.warning(
            "the store holds %d timed messages, which are not delivered with timerWheelEnable=false; a start with true does, before they "
            "expire (fileReservedTime=%d h)",
            waiting,
            reserved_hours,
        )


def warn_of_stranded(waiting: Mapping[int, int], reserved_hours: int) -> None:
    """Delayed messages, by level, for which a shortened messageDelayLevel has no time any more."""
    if waiting:
        log.warning(
            "delayed messages wait in levels that messageDelayLevel does not name: %s; with a list of at least %d levels they "
            "are delivered, without one they expire with the log (fileReservedTime=%d h)",
            ", ".join(f"{count} in level {level}" for level, count in waiting.items()),
            max(waiting),
            reserved_hours,
        )


def warn_of_maps(maps: Path = Path("/proc/self/maps"), limit: Path = Path("/proc/sys/vm/max_map_count")) -> None:
    """Warns about a store with so many queues that there is little room for more. At the limit, sends to new queues are refused."""
    try:
        taken, most = maps.read_bytes().count(b"\n"), int(limit.read_text())
    except (OSError, ValueError):  # hidden in this container: nothing to be said
        return
    if taken >= most * MAPS_SHARE_MAX:
        log.warning(
            "this process has %d of the %d maps that vm.max_map_count allows, a queue or log file each: at seven eighths sends to "
            "new queues are refused, at the limit the next start fails; raise it: sudo sysctl -w vm.max_map_count=%d",
            taken,
            most,
            most * 10,
        )


def warn_of_namesakes(members: Members, identity: Identity) -> None:
    """Warns about brokers that were registered under our name and id before us: after that only the last one is known."""
    for address in sorted(address for broker_id, address in members if broker_id == identity.broker_id):
        log.warning(
            "another broker is registered as %s with brokerId %d: %s. Unless it is gone, the two push each other out of the name servers' "
            "tables, and each gets a part of the messages; give one of them another name or id",
            identity.broker_name,
            identity.broker_id,
            address,
        )


async def warn_of_ha_port(address: str, *, is_sync: bool) -> None:
    """Connects to the port for slaves, at the address that they are told."""
    if fault := await ha_port_fault(address):
        log.log(
            logging.WARNING if is_sync else logging.INFO,
            "slaves are told to replicate from %s (brokerIP2:haListenPort, or advertiseHa), and this machine cannot connect there: %s%s",
            address,
            fault,
            "; without a slave sends are answered SLAVE_NOT_AVAILABLE" if is_sync else "",
        )


async def ha_port_fault(ha_address: str, timeout_s: float = CONNECT_TIMEOUT_S) -> str:
    """Why a slave that is told ha_address could not connect, as far as this machine can tell; empty if it could."""
    try:
        host, port = split_address(ha_address)
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s: a firewall drops it, or the address is not this machine's"
    except (OSError, UnicodeError, NetworkError) as error:
        return getattr(error, "strerror", None) or str(error)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ""
