"""Masters under other names, which hold earlier pieces of the queues of static topics: where they are, and what they answer.
RocketMQ: ClientMetadata, RpcClientImpl, BrokerOuterAPI.refreshMetadata (5.3.3 remoting/rpc/, broker/out/).

Name servers are asked for addresses when one is needed, and the answer is kept for REFRESH_MS; while no name server answers, the old
addresses stay valid. An unknown broker is asked for every FIND_MS at most.

Threads  one event loop. Bounds: one question to the name servers at a time; forwardTimeout for a request; ASKS_MAX requests at
         once, because a broker that does not answer must not keep clients' other requests waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from .._core.errors import RocketpyError
from .._core.remoting import Command
from ..remoting.codes import RequestCode, ResponseCode, request_name
from ..remoting.command import CommandError, Fields
from ..remoting.json_codec import read_json
from .addresses import Identity

log = logging.getLogger(__name__)

REFRESH_MS: Final = 5_000
FIND_MS: Final = 1_000
CLUSTER_TIMEOUT_S: Final = 3.0
ASKS_MAX: Final = 256


class Caller(Protocol):
    """The part of RemotingClient that is needed here."""

    async def invoke(self, address: str, code: int, fields: Fields = ..., body: bytes = ..., *, timeout_s: float = ...) -> Command: ...


class Place(Protocol):
    """The part of Registration that is needed here."""

    identity: Identity
    name_servers: list[str]


class OtherBrokers:
    """Asks masters by their names, this broker included."""

    def __init__(self, client: Caller, place: Place, now_ms: Callable[[], int], timeout_s: float) -> None:
        self._client = client
        self._place = place
        self._now_ms = now_ms
        self._timeout_s = timeout_s
        self._addresses: Mapping[str, str] = {}
        self._asked_ms: int | None = None
        self._asking = asyncio.Lock()
        self._asks = 0

    async def ask(self, broker_name: str, code: RequestCode, fields: Fields) -> Command:
        """The answer, whatever its code. Raises CommandError if nobody by that name is known, if it does not answer, or if too many
        requests wait already."""
        if self._asks >= ASKS_MAX:
            raise CommandError(
                ResponseCode.SYSTEM_BUSY, f"{self._asks} requests wait for other brokers: {request_name(code)} is not passed on"
            )
        self._asks += 1
        try:
            return await self._ask(broker_name, code, fields)
        finally:
            self._asks -= 1

    async def _ask(self, broker_name: str, code: RequestCode, fields: Fields) -> Command:
        address = await self.address_of(broker_name)
        if address is None:
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"cannot find addr for broker {broker_name}")
        try:
            return await self._client.invoke(address, code, fields, timeout_s=self._timeout_s)
        except RocketpyError as error:
            raise CommandError(
                ResponseCode.SYSTEM_ERROR, f"{request_name(code)} was passed to broker {broker_name} and failed: {error}"
            ) from error

    async def address_of(self, broker_name: str) -> str | None:
        """The address of a master; None if no name server knows one by that name."""
        own = self._place.identity
        if broker_name == own.broker_name:
            return own.address
        if self._is_old(REFRESH_MS if broker_name in self._addresses else FIND_MS):
            async with self._asking:
                if self._is_old(REFRESH_MS if broker_name in self._addresses else FIND_MS):
                    await self._refresh()
        return self._addresses.get(broker_name)

    def _is_old(self, age_ms: int) -> bool:
        return self._asked_ms is None or self._now_ms() - self._asked_ms >= age_ms

    async def _refresh(self) -> None:
        for name_server in list(self._place.name_servers):
            try:
                answer = await self._client.invoke(name_server, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=CLUSTER_TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS:
                    self._addresses = read_masters(read_json(answer.body))
                    break
            except (RocketpyError, ValueError) as error:
                log.warning("masters from name server %s failed: %s", name_server, error)
        self._asked_ms = self._now_ms()


def read_masters(value: Any) -> dict[str, str]:
    """The address of each master in a ClusterInfo, by broker name. Raises ValueError."""
    table = value.get("brokerAddrTable") if isinstance(value, Mapping) else None
    if not isinstance(table, Mapping):
        raise ValueError("brokerAddrTable is missing or no object")
    masters = {}
    for name, broker in table.items():
        addresses = broker.get("brokerAddrs") if isinstance(broker, Mapping) else None
        for broker_id, address in addresses.items() if isinstance(addresses, Mapping) else ():
            if str(broker_id) == "0" and isinstance(address, str):
                masters[str(name)] = address
    return masters
