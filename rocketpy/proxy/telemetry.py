"""What clients say of themselves: Telemetry, Heartbeat, NotifyClientTermination. RocketMQ: ClientActivity (5.3.3 proxy/grpc/v2/client/)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Final

from .._core.errors import ProtocolError, RocketpyError
from . import schema
from .brokers import Brokers
from .client_settings import for_consumer, for_producer
from .clients import Client, Clients, check_size
from .context import Context
from .group_config import GroupConfig
from .lite import LiteSubscriptions
from .settings import ProxySettings
from .status import OK, ProxyError, status, status_of
from .told import ENDS, Told
from .transactions import Transactions
from .validation import filter_of, group_of, topic_of

log = logging.getLogger(__name__)

Check = Callable[[Context, Any], Awaitable[None]]
_PRODUCERS: Final = ("PRODUCER",)
_CONSUMERS: Final = ("PUSH_CONSUMER", "SIMPLE_CONSUMER", "LITE_PUSH_CONSUMER")


class Telemetry:
    """The method Telemetry, and what comes with it: clients appear, send heartbeats and leave."""

    def __init__(
        self,
        settings: ProxySettings,
        brokers: Brokers,
        clients: Clients,
        transactions: Transactions,
        lite: LiteSubscriptions,
        check: Check | None = None,
    ) -> None:
        """`check` is called for every command if callers have to identify themselves or need rights. It raises ProxyError."""
        self._settings = settings
        self._brokers = brokers
        self._clients = clients
        self._transactions = transactions
        self._lite = lite
        self._check = check

    async def telemetry(self, context: Context, requests: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        """Commands in both directions, as long as the client keeps the stream open. Settings come first, and are answered."""
        stream = self._clients.new_stream()
        reader = asyncio.ensure_future(self._read(context, requests, stream))
        told = asyncio.ensure_future(stream.get())
        is_over = False
        try:
            while True:
                await asyncio.wait((told, reader), return_when=asyncio.FIRST_COMPLETED)
                if told.done():
                    if (command := told.result()) is ENDS:
                        is_over = True
                        return
                    yield command
                    stream.said(command)
                    told = asyncio.ensure_future(stream.get())
                    continue
                told.cancel()
                reader.result()  # what the client said cannot be: the stream ends with the error
                is_over = True
                while not stream.empty():
                    yield stream.get_nowait()
                return
        finally:
            told.cancel()
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(reader, told, return_exceptions=True)
            client = self._clients.stream_ended(context.client_id, stream)
            if client is not None and not is_over:  # its connection is gone, and perhaps so is the client
                self._lite.leave(client)

    async def _read(self, context: Context, requests: AsyncIterator[Any], stream: Told) -> None:
        """Handles the client's commands. A client that is refused is told so, and its stream ends, as with RocketMQ's proxy."""
        async for command in requests:
            if self._check is not None:
                try:
                    await self._check(context, command)
                except ProxyError as error:
                    await stream.put(schema.message("TelemetryCommand")(status=status_of(error)))
                    return
            if command.WhichOneof("command") == "settings":
                await stream.put(await self._settle(context, command.settings, stream))

    async def _settle(self, context: Context, given: Any, stream: Told) -> Any:
        """Takes a client's settings and returns the answer. Raises ProxyError, RocketpyError: the stream ends with that."""
        side = given.WhichOneof("pub_sub")
        if side is None:
            raise ProxyError("BAD_REQUEST", "there is no publishing or subscription data in settings")
        check_size(given)
        topics = [topic_of(topic) for topic in given.publishing.topics]
        if side == "subscription":
            group_of(given.subscription.group)
            if (kind := schema.label("ClientType", given.client_type)) not in _CONSUMERS:
                raise ProtocolError(f"Client type is not consumer, type: {kind}")
            for entry in given.subscription.subscriptions:
                filter_of(entry.expression)
            await self._find_brokers(given)
            await self._lite.check(given)
        client = self._clients.put(context.client_id, given, stream, address=context.address, language=context.language)
        await self._subscribe(topics)
        answer = schema.message("TelemetryCommand")(status=status(OK))
        answer.settings.CopyFrom(await self._merged(client))
        return answer

    async def _find_brokers(self, settings: Any) -> None:
        """Looks up the topics' routes, which name the brokers that know the group."""
        with contextlib.suppress(ProxyError, RocketpyError):
            for entry in settings.subscription.subscriptions:
                await self._brokers.route(str(entry.topic.name))

    async def _merged(self, client: Client) -> Any:
        if not client.group:
            return for_producer(client.settings, self._settings)
        return for_consumer(client.settings, self._settings, await self._brokers.group(client.group) or GroupConfig())

    async def _subscribe(self, topics: list[str]) -> None:
        """Makes brokers ask this proxy about the transactions of these topics."""
        for topic in topics:
            try:
                if await self._brokers.message_type_if_known(topic) in ("TRANSACTION", "MIXED"):
                    await self._transactions.subscribe(topic)
            except (ProxyError, RocketpyError) as error:
                log.info("a producer of %s has come, of which nothing is known: %s", topic, error)

    async def heartbeat(self, context: Context, request: Any) -> Any:
        client = self._clients.heard(context.client_id)
        kind = schema.label("ClientType", client.settings.client_type)
        if kind in _CONSUMERS:
            group_of(request.group)
            if client.is_lite:
                with contextlib.suppress(RocketpyError):  # no broker answers now: the client is alive nevertheless
                    await self._lite.check(client.settings)
        elif kind in _PRODUCERS:
            await self._subscribe(sorted(client.topics))
        else:
            raise ProxyError("UNRECOGNIZED_CLIENT_TYPE", kind)
        return schema.message("HeartbeatResponse")(status=status(OK))

    async def notify_client_termination(self, context: Context, request: Any) -> Any:
        await self._check_goodbye(context, request)
        client = self._clients.remove(context.client_id)
        if client is None:
            raise ProxyError("UNRECOGNIZED_CLIENT_TYPE", "cannot find client settings for this client")
        self._lite.leave(client)
        return schema.message("NotifyClientTerminationResponse")(status=status(OK))

    async def _check_goodbye(self, context: Context, request: Any) -> None:
        """Checks the right to end a client whose group is not the one that the request names: its lite topics would be taken from it all
        the same, and a client's id is no secret. Raises ProxyError."""
        client = self._clients.get(context.client_id)
        if self._check is not None and client is not None and client.group and client.group != request.group.name:
            group = schema.message("Resource")(name=client.group)
            await self._check(context, schema.message("NotifyClientTerminationRequest")(group=group))
