"""`rocketpy doctor --from client`: whether this host reaches the servers of a cluster, each under the address that clients get.

    name server ── who is registered, and where ──► broker: name looked up, connected, asked which broker it is
                                                    proxy:  name looked up, connected, asked for HTTP/2

Run where the clients run: an address that is right in one network is wrong in another. Nothing is changed anywhere.

Threads  one event loop. Bounds: AT_ONCE addresses at a time, each at most the timeout for each of its steps; BROKERS_MAX brokers.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from .._core.errors import NetworkError, RocketpyError
from .._core.remoting import Command
from ..admin.access import credentials_of, tls_context
from ..admin.cluster import ClusterInfo
from ..admin.errors import UsageError
from ..broker.addresses import advertised_address
from ..config import ConfigError, properties_text, reach_warning, read_properties
from ..remoting.bodies import BodyError
from ..remoting.client import ConnectFailed, RemotingClient, split_address
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import check_success
from ..remoting.json_codec import read_object
from ..remoting.look_up import LookUps
from .admin import STRANGE
from .doctor import Finding, print_findings
from .terminal import EXIT_USAGE, complain

T = TypeVar("T")
R = TypeVar("R")

NAME_SERVER_PORT, PROXY_PORT = 9876, 8081
AT_ONCE: Final = 32
BROKERS_MAX: Final = 1000
NAMES_TOLD_MAX: Final = 3
MOVES_IDS: Final = ("enableControllerMode", "enableSlaveActingMaster", "enableDLegerCommitLog")
"""Keys with which a broker may be registered under another id than its file has."""
DOCKER_BRIDGE: Final = ipaddress.ip_network("172.17.0.0/16")
"""The addresses that Docker gives its first network by default."""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a client of HTTP/2 begins, with settings of which there are none."""
FRAME_HEADER_BYTES, FRAME_KIND_AT, SETTINGS = 9, 3, 4
OF_ADDRESS: Final = "advertise (or brokerIP1) in its file has to be an address that clients reach; its next start registers it"
OF_NETWORK: Final = "does it run, and does a firewall let clients through?"
OF_PORT: Final = "is this its port? Clients may have to speak TLS there, or may not (--useTLS)"


class Asked(Protocol):
    """The part of RemotingClient that is needed here."""

    async def invoke(self, address: str, code: int, *, timeout_s: float) -> Command: ...


@dataclass(frozen=True, slots=True, order=True)
class Registered:
    """A broker as a name server knows it."""

    name: str
    broker_id: int
    address: str

    def __str__(self) -> str:
        return f"{self.name} {self.broker_id}"


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """One of the addresses behind a proxy's host name."""

    number: str
    port: int
    host: str
    """The name itself, which a server of several by TLS is told."""


class ClientDoctor:
    """Asks servers questions, and says what their answers mean for a client on this host."""

    def __init__(self, client: Asked, look_ups: LookUps, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is for proxies; `client` has its own."""
        self._client = client
        self._look_ups = look_ups
        self._timeout_s = timeout_s
        self._tls = tls
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def findings(self, name_servers: Sequence[str], proxies: Sequence[str]) -> list[Finding]:
        answers = await asyncio.gather(*(self._bounded(self._registered, address) for address in name_servers))
        known = {address: answer for address, answer in zip(name_servers, answers, strict=True) if not isinstance(answer, Finding)}
        everybody = sorted({broker for brokers in known.values() for broker in brokers})
        found = [answer for answer in answers if isinstance(answer, Finding)]
        found += [name_server_finding(address, brokers, everybody) for address, brokers in known.items()]
        if len(everybody) > BROKERS_MAX:
            found.append(Finding("brokers", "note", f"{len(everybody)} are registered, the first {BROKERS_MAX} by name are asked"))
        found += await asyncio.gather(*(self._bounded(self.broker, broker) for broker in everybody[:BROKERS_MAX]))
        found += await asyncio.gather(*(self.proxy(proxy) for proxy in proxies))
        return found

    async def _bounded(self, ask: Callable[[T], Awaitable[R]], of: T) -> R:
        async with self._slots:
            return await ask(of)

    async def _registered(self, name_server: str) -> set[Registered] | Finding:
        """The brokers that are registered with a name server, or a finding that says why it does not tell."""
        name = f"name server {name_server}"
        try:
            await self._numbers(name_server)
            answer = await self._ask(name_server, RequestCode.GET_BROKER_CLUSTER_INFO)
            cluster = ClusterInfo.from_json(read_object(check_success(answer, name_server).body))
        except ConnectFailed as error:
            return Finding(name, "bad", f"{error}; {OF_NETWORK}")
        except (RocketpyError, BodyError, *STRANGE) as error:
            return Finding(name, "bad", f"it is reached, and answers as no name server does: {error}; {OF_PORT}")
        return {
            Registered(broker.broker_name, broker_id, address)
            for broker in cluster.brokers.values()
            for broker_id, address in broker.broker_addrs.items()
        }

    async def broker(self, broker: Registered) -> Finding:
        """Whether a client on this host can reach the broker."""
        name, address = f"broker {broker}", broker.address
        numbers: list[str] = []
        try:
            numbers = await self._numbers(address)
            answer = await self._ask(address, RequestCode.GET_BROKER_CONFIG)
            is_sure = answer.code != ResponseCode.NO_PERMISSION and "AclException" not in (answer.remark or "")  # 4.x has no code for it
            other = _other_broker(check_success(answer), broker) if is_sure else ""
        except RocketpyError as error:
            is_reached = not isinstance(error, ConnectFailed)
            cause = f"{address} is reached, and answers as no broker does: {error}" if is_reached else str(error)
            doubts = doubts_of(numbers, only_grave=False)
            if numbers and not doubts:
                doubts = [OF_PORT if is_reached else OF_NETWORK]
            return Finding(name, "bad", "; ".join((cause, *doubts, OF_ADDRESS)))
        doubts = doubts_of(numbers, only_grave=True)
        if other:
            return Finding(name, "bad", "; ".join((f"at {address} it is broker {other} that answers", *doubts, OF_ADDRESS)))
        if doubts:
            return Finding(name, "note", "; ".join((f"{address} answers", *doubts, OF_ADDRESS)))
        return Finding(name, "ok", f"{address} answers{'' if is_sure else '; which broker it is, it tells users who may read that'}")

    async def proxy(self, address: str) -> Finding:
        """Whether the proxy speaks gRPC, at each of the addresses behind its name."""
        name = f"proxy {address}"
        try:
            numbers = await self._bounded(self._numbers, address)
        except ConnectFailed as error:
            return Finding(name, "bad", f"{error}; {OF_NETWORK}")
        host, port = split_address(address)
        asked = [ProxyAddress(number, port, host) for number in numbers]
        faults = dict(zip(numbers, await asyncio.gather(*(self._bounded(self._fault_of, each) for each in asked)), strict=True))
        speaks = f"speaks HTTP/2{' by TLS' if self._tls is not None else ''}"
        told = "; ".join(fault if len(numbers) == 1 else f"{number}: {fault}" for number, fault in faults.items() if fault)
        if all(faults.values()):
            return Finding(name, "bad", told)
        return Finding(name, "note", f"{speaks}, but not at {told}") if told else Finding(name, "ok", speaks)

    async def _fault_of(self, proxy: ProxyAddress) -> str:
        """Why a proxy does not speak gRPC; empty if it does."""
        try:
            async with asyncio.timeout(self._timeout_s):
                frame_kind = await self._http2(proxy)
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s; {OF_NETWORK}"
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return f"it ends the connection; {OF_PORT}"
        except ssl.SSLError as error:
            return f"TLS: {error.reason or error}; {OF_PORT}"
        except OSError as error:
            cause = os.strerror(error.errno) if error.errno else error  # asyncio's own words hide it
            return f"{cause}; {OF_NETWORK}"
        return "" if frame_kind == SETTINGS else f"it answers, but not in gRPC's HTTP/2; {OF_PORT}"

    async def _http2(self, proxy: ProxyAddress) -> int:
        """Opens an HTTP/2 connection and returns the type of the first frame. Raises OSError, IncompleteReadError."""
        told = proxy.host if self._tls is not None else None
        reader, writer = await asyncio.open_connection(proxy.number, proxy.port, ssl=self._tls, server_hostname=told)
        try:
            writer.write(PREFACE)
            return (await reader.readexactly(FRAME_HEADER_BYTES))[FRAME_KIND_AT]
        finally:
            writer.transport.abort()

    async def _ask(self, address: str, code: int) -> Command:
        """The server's answer, whatever its code. Raises ConnectFailed if it was not reached, another RocketpyError if it was."""
        return await self._client.invoke(address, code, timeout_s=2 * self._timeout_s)  # to connect, and to be answered

    async def _numbers(self, address: str) -> list[str]:
        """The numeric addresses behind the name of the host. Raises ConnectFailed."""
        try:
            host, _ = split_address(address)
            async with asyncio.timeout(self._timeout_s):
                return await self._look_ups.addresses(host)
        except TimeoutError:
            raise ConnectFailed(f"{address}: {host!r} cannot be looked up here: no answer within {self._timeout_s:g} s") from None
        except NetworkError as error:
            raise ConnectFailed(str(error)) from error
        except (OSError, UnicodeError) as error:
            cause = getattr(error, "strerror", None) or "it cannot be a host's name"
            raise ConnectFailed(f"{address}: {host!r} cannot be looked up here: {cause}") from error


def name_server_finding(address: str, brokers: set[Registered], everybody: Sequence[Registered]) -> Finding:
    """The finding about one name server. `brokers` are registered with it, `everybody` with at least one of the name servers."""
    name = f"name server {address}"
    if not brokers:
        return Finding(name, "bad", "answers, and no broker is registered: namesrvAddr of the brokers has to name it")
    missing = [str(broker) for broker in everybody if broker not in brokers]
    if missing:
        more = f" and {len(missing) - NAMES_TOLD_MAX} more" if len(missing) > NAMES_TOLD_MAX else ""
        told = ", ".join(missing[:NAMES_TOLD_MAX]) + more
        return Finding(name, "note", f"answers, and does not know {told}, which another does: namesrvAddr has to name all")
    return Finding(name, "ok", f"answers, and knows {len(brokers)} broker{'s' if len(brokers) > 1 else ''}")


def doubts_of(numbers: Iterable[str], *, only_grave: bool) -> list[str]:
    """What speaks against these addresses. `only_grave` leaves out that they are private, as those of most clusters are."""
    return list(dict.fromkeys(doubt for number in numbers if (doubt := _doubt(number, only_grave))))


def _doubt(number: str, only_grave: bool) -> str | None:
    address = ipaddress.ip_address(number)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address in DOCKER_BRIDGE:
        return "an address of Docker's default bridge: only its own host reaches it"
    if only_grave and address.is_private and not (address.is_loopback or address.is_link_local or address.is_unspecified):
        return None
    return reach_warning(str(address))


def _other_broker(answer: Command, expected: Registered) -> str:
    """The name of the broker that answers in place of the expected one; empty if it is the expected one. Behind a loopback or bridge
    address each host has a broker of its own. Raises NetworkError."""
    values = {entry.key: entry.value for entry in read_properties(properties_text(answer.body))}
    if not values.get("brokerName"):
        raise NetworkError("its configuration has no brokerName")
    if values["brokerName"] != expected.name:
        return values["brokerName"]
    number = values.get("brokerId", str(expected.broker_id))
    moves = any(values.get(key, "").lower() == "true" for key in MOVES_IDS)
    return "" if moves or number == str(expected.broker_id) else f"{expected.name} {number}"


def ask_as_client(name_servers: str, proxies: Sequence[str], timeout_s: float, *, use_tls: bool, as_json: bool) -> int:
    """Runs the checks and returns the exit code. Credentials and TLS settings are those of `rocketpy admin`. Raises InvalidArgument for a
    TLS file that cannot be used."""
    given = name_servers or os.environ.get("NAMESRV_ADDR", "")
    names = [advertised_address(part.strip(), "", NAME_SERVER_PORT) for part in given.split(";") if part.strip()]
    places = [advertised_address(proxy.strip(), "", PROXY_PORT) for proxy in proxies]
    try:
        if not names:
            raise UsageError("name servers are needed: -n HOST, or NAMESRV_ADDR in the environment")
        for address in (*names, *places):
            split_address(address)
        credentials = credentials_of(os.environ)
        tls, proxy_tls = (tls_context(), tls_context()) if use_tls else (None, None)
    except (UsageError, NetworkError, ConfigError) as error:
        complain("rocketpy doctor", error)
        return EXIT_USAGE
    if proxy_tls is not None:
        proxy_tls.set_alpn_protocols(["h2"])

    async def ask() -> list[Finding]:
        async with RemotingClient(connect_timeout_s=timeout_s, tls=tls, credentials=credentials) as client:
            return await ClientDoctor(client, LookUps(), timeout_s, proxy_tls).findings(names, places)

    return print_findings(asyncio.run(ask()), as_json=as_json)
