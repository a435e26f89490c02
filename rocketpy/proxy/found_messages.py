"""The right on a message that a client names by its place in a broker's log: by the port for 4.x clients, or in a receipt handle.

    client ── CONSUMER_SEND_MSG_BACK, END_TRANSACTION, ForwardMessageToDeadLetterQueue ──► here ── VIEW_MESSAGE_BY_ID ──► broker
                                                                                            ├── QUERY_CONSUME_QUEUE: is it one? ──► broker
                                                                                            └── his rights on that message ── on, or refused

Brokers see a request that the proxy has signed as the proxy's own, which may everything. Other requests name what they are about, which has
been asked for by then. RocketMQ's proxy passes these on, too.

Threads  one event loop. Bounds: LOOKS_MAX requests to a broker at once; who comes then waits, TIMEOUT_S at most.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from .._core.auth import VERDICT_ALLOW
from .._core.remoting import Command, Request
from .._core.results import Message
from ..broker.message_rights import Grants, may_commit, may_end, may_read, message_of, refusal
from ..remoting.client import split_address
from ..remoting.codes import RequestCode, ResponseCode, request_name
from ..remoting.command import CommandError, Fields
from ..remoting.headers import (
    ConsumerSendMsgBackRequestHeader,
    EndTransactionRequestHeader,
    QueryConsumeQueueRequestHeader,
    ViewMessageRequestHeader,
)
from ..remoting.json_codec import JsonError, read_json
from ..repeated_warning import RepeatedWarning
from .authority import Authority
from .brokers import TIMEOUT_S, Brokers
from .context import Context
from .copied_users import CopiedUsers, request_codes
from .handles import ReceiptHandle
from .settings import ProxySettings
from .status import ProxyError

LOOKS_MAX: Final = 16
"""Of one broker; each may be of a message of 4 MB."""
ENTRY_WAITS_S: Final = (0.0, 0.005, 0.02, 0.1, 0.5)
"""RocketMQ answers a send before its queue has the entry: a commit that follows at once is not to be refused."""
FORWARD: Final = "apache.rocketmq.v2.ForwardMessageToDeadLetterQueueRequest"

_refused = RepeatedWarning(logging.getLogger(__name__))


class FoundMessages:
    """Asks for rights on messages, where a proxy asks for rights at all."""

    def __init__(self, settings: ProxySettings, brokers: Brokers, users: CopiedUsers, authority: Authority) -> None:
        self._settings = settings
        self._brokers = brokers
        self._users = users
        self._authority = authority
        self._unjudged = request_codes(settings.authorization_whitelist)
        self._looks: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By broker, as long as somebody looks there: one that hangs keeps nobody from the others."""

    async def check_request(self, request: Request, broker: str) -> None:
        """Of a 4.x client, for that broker. Raises CommandError, HeaderError; ProxyError, RocketpyError if the broker cannot be asked."""
        if not self._settings.authorization_enabled or request.code in self._unjudged:
            return
        may: Callable[[Message, Grants], bool]
        if request.code == RequestCode.CONSUMER_SEND_MSG_BACK:
            back = ConsumerSendMsgBackRequestHeader.decode(request.fields)
            offset, may = back.offset, functools.partial(_may_send_back, back.group)
        elif request.code == RequestCode.END_TRANSACTION:
            offset, may = EndTransactionRequestHeader.decode(request.fields).commit_log_offset, _may_end
        else:
            return
        user, host = request.fields.get("AccessKey", ""), split_address(request.remote_address)[0]
        if not await self._may(user, host, await self._message(broker, offset), may):
            _tell(user, host, request_name(request.code))
            raise CommandError(ResponseCode.NO_PERMISSION, refusal(user, host))

    async def check_handle(self, context: Context, handle: ReceiptHandle, group: str) -> None:
        """A receipt handle is the client's word. Raises ProxyError, RocketpyError."""
        if not self._authority.asks_rights(FORWARD):
            return
        user = self._authority.user_of(context)
        message = await self._message(handle.broker, handle.log_offset)
        if not await self._may(user, context.host, message, functools.partial(_may_send_back, group)):
            _tell(user, context.host, "a dead letter")
            raise ProxyError("UNAUTHORIZED", refusal(user, context.host))

    async def _message(self, broker: str, offset: int) -> Message:
        """The message there, without its body. Brokers that ask for no rights, and RocketMQ's, also show what only reads like a record, in
        the body of another one: its queue has no entry for it."""
        looks = self._looks.setdefault(broker, asyncio.Semaphore(LOOKS_MAX))
        answer = await self._ask(looks, broker, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=offset))
        message = message_of(answer.body) if answer.code == ResponseCode.SUCCESS else None
        if message is None:
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"no message at {offset} of {broker}: {answer.remark}")
        message = message._replace(body=b"")
        del answer  # its body may be 4 MB, and the queue's entry has to wait for its turn
        entry = QueryConsumeQueueRequestHeader(topic=message.topic, queue_id=message.queue_id, index=message.queue_offset, count=1)
        for wait_s in ENTRY_WAITS_S:
            await asyncio.sleep(wait_s)
            answer = await self._ask(looks, broker, RequestCode.QUERY_CONSUME_QUEUE, entry)
            if (offset, message.size) in _entries(answer.body):
                return message
        raise CommandError(ResponseCode.SYSTEM_ERROR, f"no message at {offset} of {broker}: it is in no queue")

    async def _ask(self, looks: asyncio.Semaphore, broker: str, code: int, header: Fields) -> Command:
        try:
            await asyncio.wait_for(looks.acquire(), TIMEOUT_S)
        except TimeoutError:
            raise CommandError(ResponseCode.SYSTEM_BUSY, f"{broker} is asked for too many messages") from None
        try:
            return await self._brokers.call(broker, code, header)
        finally:
            looks.release()

    async def _may(self, user: str, host: str, message: Message, may: Callable[[Message, Grants], bool]) -> bool:
        """By a newer copy of the users, too, as of any call."""

        def grants(kind: str, name: str, action: str) -> bool:
            return self._users.tables.judge(user, kind, name, (action,), host) == VERDICT_ALLOW

        return may(message, grants) or (await self._users.copy_for_refused() and may(message, grants))


def _entries(body: bytes) -> list[tuple[object, object]]:
    try:
        entries = read_json(body)["queueData"]
        return [(entry["physicOffset"], entry["physicSize"]) for entry in entries]
    except (JsonError, LookupError, TypeError):  # no body: there is no such queue, or no such entry
        return []


def _may_end(message: Message, grants: Grants) -> bool:
    """RocketMQ's brokers end any message that names a REAL_TOPIC, whatever topic it was sent to."""
    return may_commit(message, grants) if "REAL_TOPIC" in message.properties else may_end(message, grants)


def _may_send_back(group: str, message: Message, grants: Grants) -> bool:
    return may_read(message, "Sub", group, grants)


def _tell(user: str, host: str, what: str) -> None:
    _refused.warning("User:%.128r from %s is refused %s: no right on that message", user, host, what)
