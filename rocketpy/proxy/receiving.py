"""Consumers: ReceiveMessage, AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue, and the renewal of what they have.
RocketMQ: ReceiveMessageActivity, AckMessageActivity, ConsumerProcessor, ReceiptHandleProcessor (5.3.3 proxy/).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final

from .._core.errors import ProtocolError, RocketpyError
from .._core.remoting import Command
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Fields
from ..remoting.headers import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ConsumerSendMsgBackRequestHeader,
    PopLiteMessageRequestHeader,
    PopMessageRequestHeader,
)
from ..remoting.records import read_records
from . import schema
from .brokers import Brokers
from .clients import Client, Clients
from .context import Context, now_ms
from .found_messages import FoundMessages
from .group_config import GroupConfig
from .handles import Popped, ReceiptHandle, popped, popped_lite
from .messages import received_message
from .native_calls import NativeCalls
from .renewals import HANDLES_MAX, Held, Renewal, Renewals
from .settings import ProxySettings
from .status import OK, ProxyError, joined, status, status_of
from .validation import check_invisible, filter_of, group_of, millis, topic_of

log = logging.getLogger(__name__)

BATCH_MAX: Final = 32
FROM_END: Final = 1
"""initMode: a new group begins with what comes after it."""
ENTRIES_MAX: Final = 4096
"""Of an acknowledgement."""
FOREVER_MS: Final = 1 << 62
NACK_MS: Final = 1000
"""A message that could not be given to its consumer comes again after this."""
DEAD_LETTER: Final = -1
ADOPTED_MAX: Final = 20_000
"""Messages that were received natively, of which a turn of renewals hears."""
WAITED_FOR_MAX: Final = 10_000
"""Answers, to clients that went away, whose messages are put back; those beyond come again when their time is over."""
POLL_MARGIN_MS: Final = 2000
"""So much longer than its poll a broker may take to answer, however soon the client gives up."""
LET_GO_S: Final = 2.0
"""So long a proxy that stops waits for what is being said of messages."""
_EMPTY: Final[Mapping[int, tuple[str, str]]] = {
    ResponseCode.POLLING_FULL: ("TOO_MANY_REQUESTS", "polling full"),
    ResponseCode.POLLING_TIMEOUT: ("MESSAGE_NOT_FOUND", "no new message"),
    ResponseCode.PULL_NOT_FOUND: ("MESSAGE_NOT_FOUND", "no new message"),
}


class Receiving:
    """The methods that consumers call."""

    def __init__(
        self,
        settings: ProxySettings,
        brokers: Brokers,
        clients: Clients,
        native: NativeCalls | None = None,
        found: FoundMessages | None = None,
    ) -> None:
        """`native` answers ordinary calls by itself, for groups and topics that messages have been received from here before. `found` asks
        for rights on messages that receipt handles name."""
        self._settings = settings
        self._brokers = brokers
        self._clients = clients
        self._background: set[asyncio.Task[Any]] = set()
        self._left_polls: set[asyncio.Task[Any]] = set()
        """Those of them that wait for brokers' answers to clients that are gone."""
        self._renewing: dict[tuple[str, str, str], asyncio.Task[None]] = {}
        self._native = native
        self._found = found
        self.renewals = Renewals(settings, native.handler if native is not None else None)
        period_ms = settings.renew_schedule_period_millis
        spare_ms = settings.default_invisible_time_mills - settings.renew_ahead_time_millis - period_ms
        self._untold_ms = max(0, min(period_ms, spare_ms))
        """For so long this does not hear of what was received natively: most is acknowledged by then, none is to be renewed before."""

    # ---- ReceiveMessage ----

    async def receive_message(self, context: Context, request: Any) -> AsyncGenerator[Any, None]:
        """Answers with a status, the messages, and the time of their delivery."""
        answer = schema.message("ReceiveMessageResponse")
        taken: list[Popped] = []
        try:
            try:
                taken = await self._pop(context, request)
                yield answer(status=status(OK) if taken else status("MESSAGE_NOT_FOUND", "no match message"))
                at_ms = now_ms()
                while taken:
                    if (message := self._said(taken[0], at_ms)) is None:
                        self._in_background(self._put_back(context, request, taken[:1]), "putting back what cannot be said")
                    else:
                        yield answer(message=message)
                    taken.pop(0)
            except (ProxyError, RocketpyError) as error:
                yield answer(status=status_of(error))
            last = answer()
            last.delivery_timestamp.FromMilliseconds(now_ms())
            yield last
        finally:
            if taken:  # the client is gone: they are given to somebody else soon
                self._in_background(self._put_back(context, request, taken), f"putting back what {context.client_id} did not take")

    def _said(self, each: Popped, at_ms: int) -> Any:
        """The message as its client gets it; None if it holds something, stored by another kind of client, that gRPC cannot express."""
        try:
            return received_message(each, at_ms)
        except (ValueError, TypeError):
            log.exception("message %s of %s cannot be said in gRPC", each.message_id[:100], each.message.topic)
            return None

    def _polling_ms(self, context: Context, request: Any) -> int:
        """How long a broker may hold the request. Raises ProxyError if the client will not wait that long."""
        settings, remaining_ms = self._settings, context.remaining_ms()
        if request.HasField("long_polling_timeout"):
            wanted_ms = millis(request.long_polling_timeout)
        else:
            client = self._clients.known(context.client_id)
            wanted_ms = remaining_ms - millis(client.settings.request_timeout) // 2
        least_ms = settings.grpc_client_consumer_min_long_polling_timeout_millis
        wanted_ms = min(max(wanted_ms, least_ms), settings.grpc_client_consumer_max_long_polling_timeout_millis)
        if wanted_ms <= remaining_ms:
            return wanted_ms
        if remaining_ms >= least_ms:
            return remaining_ms
        code = "ILLEGAL_POLLING_TIME" if context.version >= "5.0.3" else "BAD_REQUEST"
        raise ProxyError(code, "The deadline time remaining is not enough for polling, please check network condition")

    async def _pop(self, context: Context, request: Any) -> list[Popped]:
        client = self._clients.known(context.client_id)
        polling_ms = self._polling_ms(context, request)
        topic, group = topic_of(request.message_queue.topic), group_of(request.group)
        renews = self._settings.enable_proxy_auto_renew and request.auto_renew
        invisible_ms = millis(request.invisible_duration)
        if renews:
            invisible_ms = self._settings.default_invisible_time_mills
        else:
            check_invisible(invisible_ms, self._settings.min_invisible_time_mills_for_recv, self._settings.max_invisible_time_mills)
        expression, is_sql, tags = filter_of(request.filter_expression)
        broker, config = await self._look_up(topic, group, request.message_queue.broker.name, is_lite=client.is_lite)
        most, attempt_id = min(max(request.batch_size, 1), BATCH_MAX), request.attempt_id if request.HasField("attempt_id") else None
        header: PopMessageRequestHeader | PopLiteMessageRequestHeader
        if client.is_lite:
            self._check_held(client, group)
            header = PopLiteMessageRequestHeader(
                client_id=client.client_id,
                consumer_group=group,
                topic=topic,
                max_msg_num=most,
                invisible_time=invisible_ms,
                poll_time=polling_ms,
                born_time=now_ms(),
                attempt_id=attempt_id,
            )
        else:
            header = PopMessageRequestHeader(
                consumer_group=group,
                topic=topic,
                queue_id=-1,
                max_msg_nums=most,
                invisible_time=invisible_ms,
                poll_time=polling_ms,
                born_time=now_ms(),
                init_mode=FROM_END,
                exp_type="SQL92" if is_sql else "TAG",
                exp=expression,
                order=config.orderly,
                attempt_id=attempt_id,
            )
        timeout_s = max(polling_ms + POLL_MARGIN_MS, context.remaining_ms()) / 1000
        code = RequestCode.POP_LITE_MESSAGE if client.is_lite else RequestCode.POP_MESSAGE
        read = popped_lite if client.is_lite else popped
        asking = asyncio.ensure_future(self._brokers.call(broker, code, header, timeout_s=timeout_s))
        try:
            response = await asyncio.shield(asking)
        except asyncio.CancelledError:  # the client is gone; the broker's messages are not
            if len(self._background) < WAITED_FOR_MAX:
                what = f"putting back what {context.client_id} went away from"
                task = self._in_background(self._give_back(context, request, asking, broker, read), what)
                self._left_polls.add(task)
                task.add_done_callback(self._left_polls.discard)
            else:
                asking.cancel()
            raise
        if response.code in _EMPTY:
            raise ProxyError(*_EMPTY[response.code])
        if response.code != ResponseCode.SUCCESS:
            raise CommandError(response.code, response.remark)
        found = read(response.fields, read_records(bytes(response.body)), broker, topic)
        kept = [each for each in found if self._is_for(each, context, group, tags, config)]
        if renews:
            for each in kept:
                self._hold(each, context, group, topic, config)
        return kept

    async def _look_up(self, topic: str, group: str, wanted: str, *, is_lite: bool) -> tuple[str, GroupConfig]:
        """(the broker to ask, the group's configuration). The native side is told both, or that they are not known any more, except for
        lite topics."""
        native = None if is_lite else self._native
        try:
            broker = await self._broker_for(topic, wanted)  # its route names who knows the group
            config = await self._brokers.group(group) or GroupConfig()
        except (ProxyError, RocketpyError):
            if native is not None:
                native.forget_reading(topic, group)
            raise
        if native is not None:
            native.learn_reading(topic, group)
        return broker, config

    def _check_held(self, client: Client, group: str) -> None:
        """Raises ProxyError if the client works on too many messages of lite topics: a lite topic only goes on when its message is
        acknowledged."""
        count = self.renewals.lite_count(client.client_id, group)
        if count > self._settings.max_lite_renew_num_per_channel:
            text = f"The client [{client.client_id}] has too many unacked messages. Unacked count: {count}"
            raise ProxyError("FORBIDDEN", text)

    async def _broker_for(self, topic: str, wanted: str) -> str:
        readable = await self._brokers.readable_brokers(topic)
        if not readable:
            raise ProxyError("FORBIDDEN", "no readable queue")
        return wanted if wanted in readable else readable[now_ms() % len(readable)]

    def _is_for(self, each: Popped, context: Context, group: str, tags: frozenset[str], config: GroupConfig) -> bool:
        """Whether the message is for the client. Brokers compare only hashes of tags, so messages with another tag are acknowledged here. A
        message that was tried too often becomes a dead letter."""
        if tags and each.message.properties.get("TAGS", "") not in tags:
            self._in_background(
                self._ack(each.handle, group, each.message.topic, each.lite_topic), f"acknowledging what {group} does not want"
            )
            return False
        if each.message.reconsume_times >= config.retries + 1:
            work = self._bury(each.handle, each.message_id, group, each.message.topic, each.lite_topic)
            self._in_background(work, f"a dead letter of {group}")
            return False
        return True

    async def _give_back(
        self, context: Context, request: Any, asking: asyncio.Future[Command], broker: str, read: Callable[..., list[Popped]]
    ) -> None:
        response = await asking
        self._left_polls.discard(asyncio.current_task())
        if response.code == ResponseCode.SUCCESS:
            topic = request.message_queue.topic.name
            await self._put_back(context, request, read(response.fields, read_records(bytes(response.body)), broker, topic))

    def _in_background(self, work: Any, what: str) -> asyncio.Task[Any]:
        def ended(task: asyncio.Task[Any]) -> None:
            self._background.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("%s failed: %s", what, error)

        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(ended)
        return task

    def _hold(self, each: Popped, context: Context, group: str, topic: str, config: GroupConfig) -> None:
        message, handle = each.message, each.handle
        pause_ms = config.pause_ms(message.reconsume_times)
        owned = context.client_id, group, topic, each.message_id, handle.text, handle, now_ms(), pause_ms
        self.renewals.add(Held(*owned, lite_topic=each.lite_topic))

    async def _put_back(self, context: Context, request: Any, messages: list[Popped]) -> None:
        group, topic = request.group.name, request.message_queue.topic.name
        for each in messages:
            self.renewals.take(context.client_id, group, each.handle.text)
            try:
                await self._change(each.handle, group, topic, NACK_MS, each.lite_topic, suspends=bool(each.lite_topic))
            except (ProxyError, RocketpyError) as error:
                log.info("a message that %s did not take comes again later: %s", context.client_id, error)

    # ---- what became of a message ----

    async def _handle(self, context: Context, group: str, said: Any) -> tuple[ReceiptHandle, str]:
        """The current handle for the one that the client gives, and the message's lite topic, "" if it was popped from the queues of its
        topic. The message is not renewed any more. Raises ProxyError."""
        text = said.receipt_handle
        if (task := self._renewing.get((context.client_id, group, text))) is not None:
            await asyncio.wait({task})  # a broker gives it another handle just now; bounded by the call's time limit
        held = self.renewals.take(context.client_id, group, text)
        if held is not None:
            return held.handle, held.lite_topic
        client = self._clients.get(context.client_id) if said.lite_topic else None
        return ReceiptHandle.parse(text), str(said.lite_topic) if client is None or client.is_lite else ""

    async def ack_message(self, context: Context, request: Any) -> Any:
        topic, group = topic_of(request.topic), group_of(request.group)
        if len(request.entries) > ENTRIES_MAX:
            raise ProxyError("BAD_REQUEST", f"more than {ENTRIES_MAX} messages are acknowledged at once")
        response = schema.message("AckMessageResponse")()
        results = await asyncio.gather(*(self._acked(context, group, topic, entry) for entry in request.entries))
        for entry, result in zip(request.entries, results, strict=True):
            response.entries.add(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=result)
        response.status.CopyFrom(joined({schema.label("Code", result.code) for result in results}))
        return response

    async def _acked(self, context: Context, group: str, topic: str, entry: Any) -> Any:
        try:
            handle, lite_topic = await self._handle(context, group, entry)
            await self._ack(handle, group, topic, lite_topic)
        except (ProxyError, RocketpyError) as error:
            return status_of(error)
        return status(OK)

    async def _call(self, handle: ReceiptHandle, code: RequestCode, header: Fields) -> Command:
        """The answer of the handle's broker. Raises ProxyError, RocketpyError."""
        try:
            return await self._brokers.call(handle.broker, code, header)
        except ProxyError as error:
            raise ProxyError("INVALID_RECEIPT_HANDLE", f"cannot find broker {handle.broker}") from error

    async def _ack(self, handle: ReceiptHandle, group: str, topic: str, lite_topic: str) -> None:
        handle.check_valid(now_ms())
        header = AckMessageRequestHeader(
            consumer_group=group,
            topic=handle.real_topic(topic, group),
            queue_id=handle.queue_id,
            extra_info=handle.text,
            offset=handle.offset,
            lite_topic=lite_topic or None,
        )
        response = await self._call(handle, RequestCode.ACK_MESSAGE, header)
        if response.code != ResponseCode.SUCCESS:
            raise ProxyError("INTERNAL_SERVER_ERROR", f"ack failed: {response.remark or 'status is abnormal'}")

    async def change_invisible_duration(self, context: Context, request: Any) -> Any:
        topic, group = topic_of(request.topic), group_of(request.group)
        invisible_ms = millis(request.invisible_duration)
        check_invisible(invisible_ms, 0, self._settings.max_invisible_time_mills)
        old, lite_topic = await self._handle(context, group, request)
        handle = await self._change(old, group, topic, invisible_ms, lite_topic, suspends=bool(request.suspend))
        return schema.message("ChangeInvisibleDurationResponse")(status=status(OK), receipt_handle=handle.text)

    async def _change(
        self, handle: ReceiptHandle, group: str, topic: str, invisible_ms: int, lite_topic: str, *, suspends: bool = False
    ) -> ReceiptHandle:
        """Changes how long a message stays invisible. `suspends`: that does not count as an attempt, and the messages after it in its lite
        topic wait, too."""
        handle.check_valid(now_ms())
        header = ChangeInvisibleTimeRequestHeader(
            consumer_group=group,
            topic=handle.real_topic(topic, group),
            queue_id=handle.queue_id,
            extra_info=handle.text,
            offset=handle.offset,
            invisible_time=invisible_ms,
            lite_topic=lite_topic or None,
            suspend=suspends,
        )
        response = await self._call(handle, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        if response.code != ResponseCode.SUCCESS:
            raise ProxyError("INTERNAL_SERVER_ERROR", f"changeInvisibleDuration failed: {response.remark or 'status is abnormal'}")
        try:
            pop_ms, until_ms, revive = (int(response.fields[name]) for name in ("popTime", "invisibleTime", "reviveQid"))
        except (KeyError, ValueError) as error:
            raise ProtocolError(
                f"{handle.broker} answered a change of invisible time with fields that cannot be read: {error!r}"
            ) from error
        return handle.popped_again(pop_ms, until_ms, revive)

    async def forward_message_to_dead_letter_queue(self, context: Context, request: Any) -> Any:
        topic, group = topic_of(request.topic), group_of(request.group)
        handle, lite_topic = await self._handle(context, group, request)
        if self._found is not None and handle.log_offset >= 0:
            await self._found.check_handle(context, handle, group)
        await self._send_to_dead_letters(handle, request.message_id, group, topic)
        # Once it is stored, that is the answer: who heard of an ack that failed would try again, and have it stored twice.
        self._in_background(self._ack(handle, group, topic, lite_topic), f"acknowledging a dead letter of {group}")
        return schema.message("ForwardMessageToDeadLetterQueueResponse")(status=status(OK))

    async def _bury(self, handle: ReceiptHandle, message_id: str, group: str, topic: str, lite_topic: str) -> None:
        await self._send_to_dead_letters(handle, message_id, group, topic)
        await self._ack(handle, group, topic, lite_topic)

    async def _send_to_dead_letters(self, handle: ReceiptHandle, message_id: str, group: str, topic: str) -> None:
        if handle.log_offset < 0:
            raise ProxyError("INVALID_RECEIPT_HANDLE", "commit log offset is empty")
        header = ConsumerSendMsgBackRequestHeader(
            offset=handle.log_offset,
            group=group,
            delay_level=DEAD_LETTER,
            origin_msg_id=message_id,
            origin_topic=handle.real_topic(topic, group),
            max_reconsume_times=0,
        )
        response = await self._call(handle, RequestCode.CONSUMER_SEND_MSG_BACK, header)
        if response.code != ResponseCode.SUCCESS:
            raise CommandError(response.code, response.remark)

    # ---- renewals ----

    async def renew_due(self) -> None:
        """One round: every broker is asked at once for all of its messages that are due."""
        await self._adopt(now_ms() - self._untold_ms, ADOPTED_MAX)
        for renewal in self.renewals.due(now_ms(), self._clients.is_online):
            self._renewing[renewal.held.key] = asyncio.ensure_future(self._renew(renewal))
        try:
            await asyncio.gather(*self._renewing.values())
        finally:
            self._renewing.clear()

    async def _adopt(self, before_ms: int, most: int) -> None:
        """Takes over the renewal of messages that the native side has held since before that time."""
        for number in range(most if self._native is not None else 0):
            assert self._native is not None
            if (told := self._native.handler.tell_held(before_ms)) is None:
                return
            client_id, group, topic, message_id, first, since_ms, times = told
            if (handle := ReceiptHandle.written(first)) is None:  # of a broker whose name, or numbers, no handle can have
                self._native.handler.forget_held(client_id, group, first)
                continue
            pause_ms = self._brokers.group_if_known(group).pause_ms(times)
            self.renewals.adopt(Held(client_id, group, topic, message_id, first, handle, since_ms, pause_ms))
            if number % 256 == 255:
                await asyncio.sleep(0)

    async def _renew(self, renewal: Renewal) -> None:
        held = renewal.held
        try:
            handle = await self._change(held.handle, held.group, held.topic, renewal.invisible_ms, held.lite_topic)
        except (ProxyError, RocketpyError) as error:
            log.warning("message %s of %s is not renewed for %s: %s", held.message_id, held.group, held.client_id, error)
            self.renewals.refused(held, is_final=isinstance(error, ProxyError))
        else:
            self.renewals.renewed(held, handle)

    async def let_go(self) -> None:
        """Makes the messages that clients hold visible again soon, because the proxy stops."""
        clear_ms = self._settings.invisible_time_millis_when_clear
        await self._adopt(FOREVER_MS, HANDLES_MAX)
        await asyncio.gather(*(self._renew(Renewal(held, clear_ms, is_last=True)) for held in self.renewals.all()))
        await self._end_background()

    async def _end_background(self) -> None:
        """Waits, LET_GO_S at most, until brokers have been told what there is to tell about messages; ends polls for clients that are
        gone."""
        for task in self._left_polls:
            task.cancel()
        if self._background:
            _, late = await asyncio.wait(self._background, timeout=LET_GO_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
