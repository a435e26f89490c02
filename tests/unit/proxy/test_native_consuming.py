"""A whole proxy whose consumers receive, and change their messages' times, without Python, before a broker that does what it is told: what
no client took, wanted or may have again goes back, away or to the dead letters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy._core.remoting import Command, encode_command
from rocketpy.proxy import schema
from rocketpy.proxy.context import now_ms
from rocketpy.proxy.service import ProxyService
from rocketpy.proxy.settings import NO_PORT, ProxySettings
from rocketpy.proxy.status import ProxyError
from rocketpy.proxy.validation import tags_of
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.json_codec import write_json
from rocketpy.remoting.latencies import Kind
from tests.processes import PATIENCE_S
from tests.unit.native import lib
from tests.unit.proxy.test_native_receiving import record
from tests.unit.proxy.test_native_sending import slice_of
from tests.unit.proxy.test_native_service import HEADERS, STORED, TOPIC, Answer, Broker, figures, until


class PoppingBroker(Broker):
    """`pops`: what becomes of each POP_MESSAGE, then there are no messages. `gate`: an answer waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.pops: list[tuple[Answer, bytes]] = []
        self.popped: list[Command] = []
        self.errands: list[Command] = []
        self.group: dict[str, Any] = {"groupName": "g"}
        self.gate: asyncio.Event | None = None

    def _answer(self, request: Command, writer: asyncio.StreamWriter) -> bool:
        body, answer = b"", STORED
        if request.code == RequestCode.POP_MESSAGE:
            self.popped.append(request)
            answer, body = self.pops.pop(0) if self.pops else (Answer(210), b"")
        elif request.code in (RequestCode.ACK_MESSAGE, RequestCode.CONSUMER_SEND_MSG_BACK):
            self.errands.append(request)
        elif request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            self.errands.append(request)
            answer = Answer(fields={"popTime": str(now_ms()), "invisibleTime": request.fields["invisibleTime"], "reviveQid": "0"})
        elif request.code == RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:
            body = write_json(self.group)
        else:
            return super()._answer(request, writer)
        frame = encode_command(answer.code, answer.fields, body, opaque=request.opaque, flag=1, remark=answer.remark, serialize_type=0)
        if answer.hangs_up:
            return False
        if request.code == RequestCode.POP_MESSAGE and self.gate is not None:
            self._waiting = asyncio.ensure_future(self._later(self.gate, writer, frame))
        elif not answer.is_silent:
            writer.write(frame)
        return True

    async def _later(self, gate: asyncio.Event, writer: asyncio.StreamWriter, frame: bytes) -> None:
        await gate.wait()
        writer.write(frame)

    def codes(self) -> list[tuple[RequestCode, str]]:
        return [(RequestCode(each.code), each.fields.get("invisibleTime", "")) for each in self.errands]


def found(*records: bytes) -> tuple[Answer, bytes]:
    fields = {"popTime": str(now_ms()), "invisibleTime": "60000", "reviveQid": "3", "startOffsetInfo": "0 2 5", "restNum": "0"}
    return Answer(fields=fields), b"".join(records)


class Consumer:
    def __init__(self, channel: Any) -> None:
        path = f"/{schema.SERVICE}/"
        name = "ReceiveMessage"
        self._receive = channel.unary_stream(path + name, schema.request_of(name).SerializeToString, schema.response_of(name).FromString)
        name = "ChangeInvisibleDuration"
        self._change = channel.unary_unary(path + name, schema.request_of(name).SerializeToString, schema.response_of(name).FromString)
        name = "AckMessage"
        self._ack = channel.unary_unary(path + name, schema.request_of(name).SerializeToString, schema.response_of(name).FromString)

    def begin(self, timeout: float = PATIENCE_S, headers: Any = HEADERS, **given: Any) -> Any:
        fields = {"batch_size": 8, "invisible_duration": {"seconds": 60}, "filter_expression": {"type": 1, "expression": "*"}} | given
        request = schema.message("ReceiveMessageRequest")(group={"name": "g"}, message_queue={"topic": {"name": TOPIC}}, **fields)
        return self._receive(request, metadata=headers, timeout=timeout)

    async def receive(self, **given: Any) -> tuple[str, list[Any]]:
        """(the status' code and text, the messages)"""
        answers = [each async for each in self.begin(**given)]
        kinds = [each.WhichOneof("content") for each in answers]
        assert kinds == ["status", *["message"] * (len(answers) - 2), "delivery_timestamp"]
        code = schema.label("Code", answers[0].status.code)
        return f"{code}: {answers[0].status.message}", [each.message for each in answers[1:-1]]

    async def change(self, handle: str, seconds: int = 5) -> Any:
        request = schema.message("ChangeInvisibleDurationRequest")(
            topic={"name": TOPIC}, group={"name": "g"}, receipt_handle=handle, invisible_duration={"seconds": seconds}
        )
        return await self._change(request, metadata=HEADERS, timeout=PATIENCE_S)

    async def ack(self, handle: str) -> str:
        entries = [{"message_id": "M", "receipt_handle": handle}]
        request = schema.message("AckMessageRequest")(topic={"name": TOPIC}, group={"name": "g"}, entries=entries)
        answer = await self._ack(request, metadata=HEADERS, timeout=PATIENCE_S)
        return str(schema.label("Code", answer.status.code))


def running(test: Callable[[Consumer, PoppingBroker, ProxyService], Awaitable[None]], **settings: Any) -> None:
    """With a client that is known, a topic and a group that have been read once."""

    async def run() -> None:
        broker = PoppingBroker()
        await broker.start()
        ports = {"grpc_server_port": 0, "remoting_listen_port": NO_PORT, "local_serve_addr": "127.0.0.1"}
        proxy = ProxyService(ProxySettings(namesrv_addr=broker.address, tls_test_mode_enable=False, **{**ports, **settings}))
        await proxy.start()
        known = schema.message("Settings")(client_type=2, request_timeout={"seconds": 3})
        known.subscription.group.name = "g"
        proxy._clients.put("c1", known, None)
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
                consumer = Consumer(channel)
                assert await consumer.receive() == ("MESSAGE_NOT_FOUND: no new message", [])
                assert figures(proxy)["received"] == 0
                await test(consumer, broker, proxy)
        finally:
            await proxy.stop()
            await broker.stop()

    asyncio.run(run())


def test_the_first_receive_of_a_topic_comes_by_python_and_the_others_say_the_same_without_it() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        broker.pops = [found(record(), record(offset=8)), found()]
        status, messages = await consumer.receive()
        assert status == "OK: OK" and [each.system_properties.queue_offset for each in messages] == [7, 8]
        assert messages[0].topic.name == TOPIC and messages[0].body == b"body" and messages[0].system_properties.receipt_handle
        assert await consumer.receive() == ("MESSAGE_NOT_FOUND: no match message", [])
        assert await consumer.receive(filter_expression={"type": 2, "expression": "a > 1"}) == ("MESSAGE_NOT_FOUND: no new message", [])
        assert figures(proxy)["received"] == 3 and figures(proxy)["waiting"] == 0
        first, second = (dict(each.fields) for each in broker.popped[:2])
        for each in (first, second):
            del each["bornTime"], each["pollTime"]
        assert first == second and broker.popped[3].fields["expType"] == "SQL92"
        assert proxy.native is not None
        kinds = {kind for kind, _ in proxy.native.latencies()}
        assert kinds == {Kind("grpc_v2", "ReceiveMessage", code, True) for code in ("OK", "MESSAGE_NOT_FOUND")}

    running(test)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Answer(209), "TOO_MANY_REQUESTS: polling full"),
        (Answer(19), "MESSAGE_NOT_FOUND: no new message"),
        (Answer(26, remark="no g"), "CONSUMER_GROUP_NOT_FOUND: CODE: 26  DESC: no g"),
        (Answer(hangs_up=True), "INTERNAL_SERVER_ERROR: connection to"),
        (Answer(fields={"popTime": "x"}), "INTERNAL_SERVER_ERROR: b answered a pop that cannot be read"),
        (Answer(1500), "MESSAGE_NOT_FOUND: no new message"),
    ],
    ids=range(6),
)
def test_what_a_broker_does_is_what_the_consumer_hears(answer: Answer, status: str) -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        broker.pops = [(answer, b"")]
        heard, messages = await consumer.receive()
        assert heard.startswith(status) and messages == [] and figures(proxy)["received"] == 1
        assert (await consumer.receive())[0] == "MESSAGE_NOT_FOUND: no new message"

    running(test)


def test_who_is_not_known_hears_of_it_from_python() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        status, _ = await consumer.receive(headers=(("x-mq-client-id", "c2"), *HEADERS[1:]))
        assert status.startswith("UNRECOGNIZED_CLIENT_TYPE")
        lite = schema.message("Settings")(client_type=schema.number("ClientType", "LITE_PUSH_CONSUMER"))
        proxy._clients.put("c1", lite, None)
        await consumer.receive()
        proxy._clients.remove("c1")
        assert (await consumer.receive())[0].startswith("UNRECOGNIZED_CLIENT_TYPE")
        assert figures(proxy)["received"] == 0

    running(test)


def test_what_has_another_tag_is_acknowledged_and_what_came_too_often_is_a_dead_letter() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        mine, other = {"TAGS": "mine", "UNIQ_KEY": "1"}, {"TAGS": "other", "UNIQ_KEY": "2"}
        broker.pops = [
            found(record(mine), record(other, offset=8), record(mine, offset=9, log_offset=77, times=17), record(mine, times=16))
        ]
        _, messages = await consumer.receive(filter_expression={"type": 1, "expression": "mine || x"})
        assert [each.system_properties.delivery_attempt for each in messages] == [1, 17]
        await until(lambda: len(broker.errands) == 3)
        acked, buried, done = broker.errands
        assert (acked.code, acked.fields["offset"], acked.fields["topic"]) == (RequestCode.ACK_MESSAGE, "8", TOPIC)
        assert buried.code == RequestCode.CONSUMER_SEND_MSG_BACK and done.code == RequestCode.ACK_MESSAGE
        wanted = {"offset": "77", "group": "g", "delayLevel": "-1", "originMsgId": "1", "originTopic": TOPIC}
        assert dict(buried.fields) == {**wanted, "unitMode": "false", "maxReconsumeTimes": "0"}
        assert done.fields["offset"] == "9" and figures(proxy)["errands"] == 3 and figures(proxy)["failed_errands"] == 0

    running(test)


@pytest.mark.parametrize("is_native", [True, False])
def test_who_goes_away_while_a_broker_pops_has_his_messages_put_back_when_they_come(is_native: bool) -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        assert proxy.native is not None
        if not is_native:
            proxy.native.handler.forget_client("c1")
        broker.gate = asyncio.Event()
        broker.pops = [found(record(), record(offset=8))]
        receiving = consumer.begin()
        await until(lambda: len(broker.popped) == 2)
        receiving.cancel()
        again = asyncio.ensure_future(consumer.receive())  # behind the cancelled one on the same connection
        await until(lambda: len(broker.popped) == 3)
        broker.gate.set()
        status, _ = await again
        assert status == "MESSAGE_NOT_FOUND: no new message"
        await until(lambda: len(broker.errands) == 2)
        assert broker.codes() == [(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, "1000")] * 2
        assert [each.fields["offset"] for each in broker.errands] == ["7", "8"]
        await until(lambda: figures(proxy)["waiting"] == 0)
        assert figures(proxy)["received"] == 2 * is_native

    running(test)


def test_no_more_answers_are_waited_for_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.proxy.receiving.WAITED_FOR_MAX", 1)

    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        assert proxy.native is not None and proxy.receiving is not None
        proxy.native.handler.forget_client("c1")
        broker.gate = asyncio.Event()
        waiting = [consumer.begin() for _ in range(4)]
        await until(lambda: len(broker.popped) == 5)
        for each in waiting:
            each.cancel()
        await until(lambda: proxy._grpc is not None and len(proxy._grpc) == 0)
        assert len(proxy.receiving._background) == 1
        broker.gate.set()
        await until(lambda: not proxy.receiving._background)  # type: ignore[union-attr]

    running(test)


def test_what_a_client_did_not_take_is_put_back() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        size, count = 500_000, 12
        broker.pops = [found(*(record(body=bytes(size), offset=number) for number in range(count)))]
        receiving = consumer.begin(auto_renew=True)
        await anext(aiter(receiving))
        receiving.cancel()
        await until(lambda: len(broker.errands) > 0 and figures(proxy)["waiting"] == 0)
        offsets = [int(each.fields["offset"]) for each in broker.errands]
        assert offsets == list(range(count - len(offsets), count)), "the last of them"
        assert proxy.receiving is not None and proxy.native is not None
        await proxy.receiving._adopt(1 << 62, 100)
        assert len(proxy.receiving.renewals) == count - len(offsets), "the others are renewed still"

    running(test)


def test_a_client_that_takes_nothing_is_given_no_more() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        size, calls = 3_000_000, 8
        broker.pops = [found(record(body=bytes(size), offset=number)) for number in range(calls)]
        waiting = [consumer.begin() for _ in range(calls)]
        await until(lambda: len(broker.errands) > 0)
        statuses = [schema.label("Code", (await anext(aiter(each))).status.code) for each in waiting]
        assert "OK" in statuses and "TOO_MANY_REQUESTS" in statuses
        for each in waiting:
            each.cancel()
        await until(lambda: figures(proxy)["waiting"] == 0)
        assert (await consumer.receive())[0] == "MESSAGE_NOT_FOUND: no new message"

    running(test)


def test_messages_that_are_renewed_are_acknowledged_without_python_or_adopted_by_it() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        assert proxy.receiving is not None and proxy.native is not None
        native, renewals = proxy.native.handler, proxy.receiving.renewals
        broker.pops = [found(*(record(offset=number) for number in range(4)))]
        _, messages = await consumer.receive(auto_renew=True, invisible_duration={"seconds": 1})
        assert broker.popped[-1].fields["invisibleTime"] == "60000"
        handles = [each.system_properties.receipt_handle for each in messages]
        assert all(native.is_held("c1", "g", each) for each in handles) and len(renewals) == 0
        assert await consumer.ack(handles[0]) == "OK" and not native.is_held("c1", "g", handles[0])
        changed = await consumer.change(handles[1])
        assert changed.receipt_handle.startswith("1 ") and not native.is_held("c1", "g", handles[1])
        assert figures(proxy)["acknowledged"] == figures(proxy)["changed"] == 1
        await proxy.receiving._adopt(1 << 62, 100)
        assert len(renewals) == 2
        held = renewals.take("c1", "g", handles[2])
        assert held is not None and (held.topic, held.message_id, held.handle.text, held.pause_ms) == (TOPIC, "01AB", handles[2], 1000)
        before = len(broker.errands)
        await proxy.stop()
        (let_go,) = broker.errands[before:]
        assert let_go.fields["extraInfo"] == handles[3] and let_go.fields["invisibleTime"] == "1000"

    running(test)


def test_a_message_whose_handle_python_cannot_read_keeps_no_other_from_being_renewed() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        odd, records = found(record(offset=7))
        broker.pops = [(Answer(fields={**odd.fields, "popTime": "9" + "0" * 18}), records), found(record(offset=8))]
        for _ in range(2):
            assert len((await consumer.receive(auto_renew=True))[1]) == 1
        await proxy.stop()
        assert [each.fields["offset"] for each in broker.errands] == ["8"]

    running(test)


def test_a_proxy_that_stops_lets_go_of_what_python_has_not_heard_of() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        broker.pops = [found(record(), record(offset=8))]
        _, messages = await consumer.receive(auto_renew=True)
        await consumer.ack(messages[0].system_properties.receipt_handle)
        await proxy.stop()
        assert broker.codes()[1:] == [(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, "1000")]
        assert broker.errands[1].fields["offset"] == "8"

    running(test)


def test_an_orderly_group_pops_in_order_with_its_attempts() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        assert (await consumer.receive(attempt_id="a1"))[1] == []
        assert figures(proxy)["received"] == 1
        assert broker.popped[-1].fields["order"] == "true" and broker.popped[-1].fields["attemptId"] == "a1"

    async def orderly(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        broker.group = {"groupName": "h", "consumeMessageOrderly": True, "retryMaxTimes": 2}
        assert proxy._brokers is not None and proxy.native is not None
        proxy._brokers._groups._answers.clear()
        proxy.native.forget_reading(TOPIC, "g")
        await consumer.receive()
        await test(consumer, broker, proxy)

    running(orderly)


def test_a_receive_that_would_wait_for_too_short_a_time_is_refused_by_python() -> None:
    async def test(consumer: Consumer, broker: PoppingBroker, proxy: ProxyService) -> None:
        status, _ = await consumer.receive(timeout=PATIENCE_S / 2)
        assert status.startswith(("BAD_REQUEST", "ILLEGAL_POLLING_TIME"))
        assert figures(proxy)["received"] == 0

    least_ms = int(PATIENCE_S * 600)
    polls = {f"grpc_client_consumer_{bound}_long_polling_timeout_millis": least_ms for bound in ("min", "max")}
    running(test, **polls)


@settings(max_examples=60)
@given(st.text(alphabet="ab| ", max_size=12), st.text(alphabet="ab| ", max_size=3))
def test_tags_are_those_that_python_lets_through(expression: str, tag: str) -> None:
    try:
        tags = tags_of(expression)
    except ProxyError:
        tags = frozenset()
    if tags:
        keep: list[Any] = []
        assert bool(lib.rp_tag_filter_takes(slice_of(expression.encode(), keep), slice_of(tag.encode(), keep))) == (tag in tags)
