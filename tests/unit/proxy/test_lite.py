"""Lite topics by the proxy: what brokers are told of lite consumers and the other way about, before a broker that does what it is told."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from rocketpy._core.errors import ProtocolError
from rocketpy._core.remoting import Command, encode_command
from rocketpy._core.results import Message
from rocketpy.proxy import schema
from rocketpy.proxy.brokers import Brokers
from rocketpy.proxy.context import now_ms
from rocketpy.proxy.group_config import LITE_QUOTA, GroupConfig
from rocketpy.proxy.handles import ReceiptHandle, lite_place, popped_lite
from rocketpy.proxy.lite import Rate
from rocketpy.proxy.messages import check_type, grpc_message, properties_of
from rocketpy.proxy.requested_rights import requested_rights
from rocketpy.proxy.service import ProxyService
from rocketpy.proxy.settings import NO_PORT, ProxySettings
from rocketpy.proxy.status import ProxyError
from rocketpy.remoting.bodies import BodyError
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.proxy.test_native_service import Answer, Broker, until
from tests.unit.proxy.test_service import Peer, code, message

PARENT, GROUP = "Parent", "lites"
SETTINGS = ProxySettings(namesrv_addr="127.0.0.1:9876")
NOW_MS = 1_700_000_000_000


def record(body: bytes, lite_topic: str, offset: int, more: str = "") -> bytes:
    """As it stands in a log."""
    queue = f"%LMQ%${PARENT}${lite_topic}"
    pairs = {"UNIQ_KEY": "M1", "__LITE_TOPIC": lite_topic, "INNER_MULTI_DISPATCH": queue, "INNER_MULTI_QUEUE_OFFSET": str(offset)}
    properties = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode() + more.encode()
    host = bytes((127, 0, 0, 1)) + (1).to_bytes(4)
    middle = struct.pack(">iiqqiq8sq8siq", 3, 0, 70, 4096, 0, NOW_MS, host, NOW_MS, host, 0, 0)
    rest = middle + struct.pack(">i", len(body)) + body + bytes((len(PARENT),)) + PARENT.encode()
    rest += len(properties).to_bytes(2) + properties
    return struct.pack(">iIi", len(rest) + 12, 0xDAA320A7, 0) + rest


class LiteBroker(Broker):
    """The group is bound to the parent topic; what it has to give is `records`, once."""

    def __init__(self) -> None:
        super().__init__()
        self.topic_type = "LITE"
        self.attributes = {"lite.bind.topic": PARENT, "lite.sub.client.quota": "3"}
        self.said: list[dict[str, Any]] = []
        self.asked: list[Command] = []
        self.refusal = Answer()
        self.records = b""
        self.writer: asyncio.StreamWriter | None = None
        self.keeps_removals = False
        self.kept: list[Command] = []
        """What it answers later, where it keeps removals."""

    def _answer(self, request: Command, writer: asyncio.StreamWriter) -> bool:
        answer, body = Answer(), b""
        if request.code == RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:
            group = request.fields["group"]
            attributes = self.attributes if group == GROUP else {}
            body = json.dumps({"groupName": group, "retryMaxTimes": 16, "attributes": attributes}).encode()
        elif request.code == RequestCode.LITE_SUBSCRIPTION_CTL:
            self.said += json.loads(request.body)["subscriptionSet"]
            self.writer, answer = writer, self.refusal
            if self.keeps_removals and self.said[-1]["action"] == "COMPLETE_REMOVE":
                self.kept.append(request)
                return True
        elif request.code == RequestCode.POP_LITE_MESSAGE:
            self.asked.append(request)
            body, self.records = self.records, b""
            fields = {"popTime": str(now_ms()), "invisibleTime": "60000", "reviveQid": "999", "orderCountInfo": "2"}
            answer = Answer(fields=fields) if body else Answer(ResponseCode.POLLING_TIMEOUT)
        elif request.code in (RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.CONSUMER_SEND_MSG_BACK):
            self.asked.append(request)
            answer = Answer(fields={"popTime": str(now_ms()), "invisibleTime": "70000", "reviveQid": "999"})
        else:
            return super()._answer(request, writer)
        writer.write(encode_command(answer.code, answer.fields, body, opaque=request.opaque, flag=1, remark=answer.remark))
        return True

    def answer_kept(self) -> None:
        assert self.writer is not None
        for request in self.kept:
            self.writer.write(encode_command(0, {}, b"", opaque=request.opaque, flag=1))
        self.kept.clear()

    def take_away(self, lite_topic: str, client_id: str = "c1", group: str = GROUP) -> None:
        assert self.writer is not None
        fields = {"liteTopic": lite_topic, "consumerGroup": group, "clientId": client_id}
        self.writer.write(encode_command(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, fields, opaque=1, flag=2))


def running(test: Callable[[Peer, LiteBroker, ProxyService], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        broker = LiteBroker()
        await broker.start()
        ports = {"grpc_server_port": 0, "remoting_listen_port": NO_PORT, "local_serve_addr": "127.0.0.1", "tls_test_mode_enable": False}
        proxy = ProxyService(ProxySettings(namesrv_addr=broker.address, **{**ports, **settings}))
        await proxy.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
                await test(Peer(channel), broker, proxy)
        finally:
            await proxy.stop()
            await broker.stop()

    asyncio.run(run())


def consumer(kind: str = "LITE_PUSH_CONSUMER", topic: str = PARENT, group: str = GROUP) -> dict[str, Any]:
    subscription = {"group": {"name": group}, "subscriptions": [{"topic": {"name": topic}, "expression": {"expression": "*"}}]}
    return {"client_type": schema.number("ClientType", kind), "subscription": subscription}


def sync(peer: Peer, action: str, *names: str, topic: str = PARENT, group: str = GROUP, **more: Any) -> Awaitable[Any]:
    number = schema.number("LiteSubscriptionAction", action) if action else 9
    return peer.ask("SyncLiteSubscription", action=number, topic={"name": topic}, group={"name": group}, lite_topic_set=names, **more)


def test_what_a_client_subscribes_to_is_told_to_its_brokers_and_forgotten_when_it_goes() -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        async with peer.telemetry(**consumer()) as stream:
            assert stream.answer.settings.subscription.lite_subscription_quota == 3
            assert stream.answer.settings.subscription.max_lite_topic_size == 64
            assert code(await peer.ask("Heartbeat", group={"name": GROUP})) == "OK"
            assert code(await sync(peer, "PARTIAL_ADD", "a", "b", "a", offset_option={"tail_n": 5})) == "OK"
            assert code(await sync(peer, "COMPLETE_ADD", "a", version=7)) == "OK"
            assert code(await sync(peer, "PARTIAL_REMOVE", "b")) == "OK"
            of_client = {"clientId": "c1", "group": GROUP, "topic": PARENT}
            assert broker.said == [
                {
                    **of_client, "action": "PARTIAL_ADD", "liteTopicSet": ["a", "b"], "version": 0,
                    "offsetOption": {"type": "TAIL_N", "value": 5},
                },
                {**of_client, "action": "COMPLETE_ADD", "liteTopicSet": ["a"], "version": 7},
                {**of_client, "action": "PARTIAL_REMOVE", "liteTopicSet": ["b"], "version": 0},
            ]  # fmt: skip
            for stranger in (("c9", GROUP), ("c1", "other")):
                broker.take_away("x", *stranger)
            broker.take_away("b")
            assert (await stream.read()).notify_unsubscribe_lite_command.lite_topic == "b"
        await until(lambda: len(broker.said) == 4)
        assert broker.said[-1] == {**of_client, "action": "COMPLETE_REMOVE", "liteTopicSet": [], "version": 0}
        async with peer.telemetry(**consumer()):
            assert code(await peer.ask("NotifyClientTermination", group={"name": GROUP})) == "OK"
            await until(lambda: len(broker.said) == 5)

    running(test)


def test_who_comes_back_and_leaves_during_its_goodbye_is_forgotten_again() -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        broker.keeps_removals = True
        async with peer.telemetry(**consumer()):
            pass
        await until(lambda: len(broker.kept) == 1)
        async with peer.telemetry(**consumer()):
            assert code(await sync(peer, "COMPLETE_ADD", "a", version=1)) == "OK"
            assert code(await peer.ask("NotifyClientTermination", group={"name": GROUP})) == "OK"
        broker.answer_kept()
        await until(lambda: len(broker.kept) == 1)
        assert [said["action"] for said in broker.said] == ["COMPLETE_REMOVE", "COMPLETE_ADD", "COMPLETE_REMOVE"]
        async with peer.telemetry(**consumer()):
            assert code(await peer.ask("NotifyClientTermination", group={"name": GROUP})) == "OK"
            async with peer.telemetry(**consumer()):
                assert code(await sync(peer, "COMPLETE_ADD", "b", version=2)) == "OK"
                broker.answer_kept()
                assert proxy._lite is not None
                await proxy._lite.stop()  # all that is said for those who are gone
        assert broker.said[-1]["action"] == "COMPLETE_ADD", "who is here keeps what it has said since"

    running(test)


def test_who_only_subscribes_again_during_its_goodbye_is_forgotten_again_too() -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        broker.keeps_removals = True
        async with peer.telemetry(**consumer()):
            pass
        await until(lambda: len(broker.kept) == 1)
        assert code(await sync(peer, "COMPLETE_ADD", "a", version=1)) == "OK"
        assert code(await peer.ask("NotifyClientTermination", group={"name": GROUP})) == "OK"
        broker.answer_kept()
        await until(lambda: len(broker.kept) == 1)
        broker.answer_kept()
        assert [said["action"] for said in broker.said] == ["COMPLETE_REMOVE", "COMPLETE_ADD", "COMPLETE_REMOVE"]

    running(test)


def test_a_goodbye_that_failed_is_no_reason_to_say_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        asked = []

        async def unreadable(self: Brokers, topic: str) -> list[str]:
            asked.append(topic)
            raise BodyError("a route that cannot be read")

        with monkeypatch.context() as broken:
            broken.setattr(Brokers, "readable_brokers", unreadable)
            async with peer.telemetry(**consumer()):
                pass
            await until(lambda: asked == [PARENT])
            assert proxy._lite is not None
            await proxy._lite.stop()
        async with peer.telemetry(**consumer()):
            pass
        await until(lambda: [said["action"] for said in broker.said] == ["COMPLETE_REMOVE"])

    running(test)


def test_what_cannot_be_subscribed_to_is_refused_and_so_is_what_a_broker_refuses() -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        for names in (("",), (" ",), ("a b",), ("ä",), ("%LMQ%",), ("x" * 65,), ("good", "$")):
            assert code(await sync(peer, "PARTIAL_ADD", *names)) == "ILLEGAL_LITE_TOPIC"
        many = [f"l{number}" for number in range(304)]
        assert code(await sync(peer, "PARTIAL_ADD", *many)) == "LITE_SUBSCRIPTION_QUOTA_EXCEEDED"
        assert code(await sync(peer, "PARTIAL_ADD", "a", topic="Other")) == "ILLEGAL_TOPIC"
        assert code(await sync(peer, "PARTIAL_ADD", "a", group="plain")) == "ILLEGAL_TOPIC"
        assert code(await sync(peer, "", "a")) == "BAD_REQUEST"
        for option in ({}, {"policy": 3}):
            assert code(await sync(peer, "PARTIAL_ADD", "a", offset_option=option)) == "BAD_REQUEST"
        assert broker.said == []
        for refused, expected in (
            (ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, "LITE_SUBSCRIPTION_QUOTA_EXCEEDED"),
            (ResponseCode.LMQ_QUOTA_EXCEEDED, "LITE_TOPIC_QUOTA_EXCEEDED"),
            (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "NOT_IMPLEMENTED"),
        ):
            broker.refusal = Answer(refused, remark="no")
            assert code(await sync(peer, "PARTIAL_ADD", "a")) == expected
        broker.refusal = Answer()
        codes = {code(await sync(peer, "PARTIAL_ADD", "a")) for _ in range(30)}
        assert "TOO_MANY_REQUESTS" in codes and code(await sync(peer, "COMPLETE_ADD", "a")) == "OK"

    running(test, max_sync_lite_subscription_rate=5)


@pytest.mark.parametrize(
    ("kind", "topic", "group", "why"),
    [
        ("LITE_PUSH_CONSUMER", PARENT, "plain", "regular group cannot use LITE mode: plain"),
        ("PUSH_CONSUMER", PARENT, GROUP, f"lite group must use LITE mode: {GROUP}"),
        ("SIMPLE_CONSUMER", PARENT, GROUP, f"lite group must use LITE mode: {GROUP}"),
        ("LITE_PUSH_CONSUMER", "Other", GROUP, f"lite group {GROUP} is expected to bind topic {PARENT}, but actual is Other"),
    ],
)
def test_lite_consumers_and_lite_groups_belong_together(kind: str, topic: str, group: str, why: str) -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match=why) as raised:
            async with peer.telemetry(**consumer(kind, topic, group)) as stream:
                await stream.read()
                assert stream.answer is not grpc.aio.EOF, await stream.code()
                raise AssertionError(stream.answer)
        assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert code(await peer.ask("Heartbeat", group={"name": group})) == "UNRECOGNIZED_CLIENT_TYPE"

    running(test)


def test_a_lite_consumer_gets_messages_and_says_of_which_lite_topic_it_speaks() -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        async with peer.telemetry(**consumer()):
            broker.records = record(b"hello", "a", 5)
            got, (received,) = await peer.receive(PARENT, GROUP, auto_renew=True, attempt_id="A")
            system = received.system_properties
            assert (got, received.body, system.lite_topic, system.queue_offset, system.delivery_attempt) == ("OK", b"hello", "a", 5, 3)
            assert schema.label("MessageType", system.message_type) == "LITE" and "__LITE_TOPIC" not in received.user_properties
            fields = broker.asked.pop().fields
            assert (fields["clientId"], fields["topic"], fields["consumerGroup"], fields["attemptId"]) == ("c1", PARENT, GROUP, "A")
            handle = ReceiptHandle.parse(system.receipt_handle)
            assert (handle.revive_queue, handle.queue_id, handle.offset, handle.log_offset) == (999, 0, 5, 4096)
            about = {"topic": {"name": PARENT}, "group": {"name": GROUP}}
            changed = await peer.ask(
                "ChangeInvisibleDuration", **about, receipt_handle=system.receipt_handle, invisible_duration={"seconds": 20},
                lite_topic="a", suspend=True,
            )  # fmt: skip
            fields = broker.asked.pop().fields
            assert code(changed) == "OK" and (fields["liteTopic"], fields["offset"], fields["suspend"]) == ("a", "5", "true")
            entry = {"message_id": "M1", "receipt_handle": changed.receipt_handle, "lite_topic": "a"}
            assert code(await peer.ask("AckMessage", **about, entries=[entry])) == "OK"
            assert (broker.asked[-1].fields["liteTopic"], broker.asked[-1].fields["topic"]) == ("a", PARENT)
            before = len(broker.asked)
            buried = await peer.ask(
                "ForwardMessageToDeadLetterQueue", **about, receipt_handle=system.receipt_handle, message_id="M1", lite_topic="a"
            )
            await until(lambda: len(broker.asked) == before + 2)  # the ack comes behind the answer
            assert code(buried) == "OK" and broker.asked[-2].fields["offset"] == "4096" and broker.asked[-1].fields["liteTopic"] == "a"

    running(test)


def test_what_a_regular_consumer_has_of_the_parent_topic_is_of_no_lite_topic() -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        async with peer.telemetry(**consumer("PUSH_CONSUMER", PARENT, "plain")):
            handle = ReceiptHandle(0, now_ms(), 60_000, 0, "0", "b", 3, 70, 4096).text
            entry = {"message_id": "M1", "receipt_handle": handle, "lite_topic": "a"}
            acked = await peer.ask("AckMessage", topic={"name": PARENT}, group={"name": "plain"}, entries=[entry])
            assert code(acked) == "OK" and "liteTopic" not in broker.asked[-1].fields

    running(test)


def test_who_has_too_many_messages_gets_no_more_until_it_acknowledges_some() -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        async with peer.telemetry(**consumer()):
            handles = []
            for number in range(3):
                broker.records = record(b"hello", "a", number)
                _, (received,) = await peer.receive(PARENT, GROUP, auto_renew=True)
                handles.append(received.system_properties.receipt_handle)
            assert (await peer.receive(PARENT, GROUP, auto_renew=True))[0] == "FORBIDDEN"
            entry = {"message_id": "M1", "receipt_handle": handles[0], "lite_topic": "a"}
            await peer.ask("AckMessage", topic={"name": PARENT}, group={"name": GROUP}, entries=[entry])
            assert (await peer.receive(PARENT, GROUP, auto_renew=True))[0] == "MESSAGE_NOT_FOUND"
        assert proxy.receiving is not None
        await proxy.receiving.let_go()
        assert {each.fields["liteTopic"] for each in broker.asked[-2:]} == {"a"}, "what a stopping proxy lets go says so, too"
        assert proxy.receiving.renewals.lite_count("c1", GROUP) == 0

    running(test, max_lite_renew_num_per_channel=2)


def test_a_lite_message_is_sent_to_the_queue_of_its_lite_topic_and_never_in_a_batch() -> None:
    async def test(peer: Peer, broker: LiteBroker, proxy: ProxyService) -> None:
        for _ in range(2):
            sent = await peer.ask("SendMessage", messages=[message(PARENT, lite_topic="a")])
            assert code(sent) == "OK"
        first, second = (each.fields for each in broker.sends)
        assert first["e"] == second["e"] and "__LITE_TOPIC\x01a\x02" in first["i"]
        assert code(await peer.ask("SendMessage", messages=[message(PARENT)])) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
        assert code(await peer.ask("SendMessage", messages=[message(PARENT, lite_topic="a b")])) == "ILLEGAL_LITE_TOPIC"
        assert code(await peer.ask("SendMessage", messages=[message(PARENT, lite_topic="a")] * 2)) == "BAD_REQUEST"
        broker.script = [Answer(ResponseCode.LMQ_QUOTA_EXCEEDED, remark="full")]
        assert code(await peer.ask("SendMessage", messages=[message(PARENT, lite_topic="b")])) == "LITE_TOPIC_QUOTA_EXCEEDED"
        route = await peer.ask("QueryRoute", topic={"name": PARENT}, endpoints={"scheme": 1, "addresses": [{"host": "h", "port": 1}]})
        assert {tuple(each.accept_message_types) for each in route.message_queues} == {(schema.number("MessageType", "LITE"),)}

    running(test)


def test_a_subscription_asks_for_what_consumption_asks_for() -> None:
    request = schema.message("SyncLiteSubscriptionRequest")(topic={"name": PARENT}, group={"name": GROUP})
    assert {(each.kind, each.name, *each.actions) for each in requested_rights(request)} == {
        ("Group", GROUP, "Sub"), ("Topic", PARENT, "Sub"),
    }  # fmt: skip


def stored(properties: dict[str, str]) -> Message:
    return Message(PARENT, 3, 70, 4096, 100, 0, 0, 0, NOW_MS, "h:1", NOW_MS, "h:1", 0, 0, {"UNIQ_KEY": "M", **properties}, b"x")


A, B = f"%LMQ%${PARENT}$a", f"%LMQ%${PARENT}$b"


@pytest.mark.parametrize(
    ("lite_topic", "queues", "offsets", "place"),
    [
        ("a", A, "5", ("a", 5)),
        ("", A, "5", ("a", 5)),  # its sender named the light queue
        ("b", A, "5", ("a", 5)),
        ("b", f"{A},{B}", "5,6", ("b", 6)),
        ("", f"%LMQ%other,{B}", "5,6", ("b", 6)),
        ("", f"{A},{B}", "5,6", None),
        ("a", A, "", None),
        ("a", A, "5,6", None),
        ("a", A, "-5", None),
        ("a", A, "٣", None),
        ("a", "%LMQ%$Other$a", "5", None),
        ("a", "", "", None),
    ],
)
def test_a_lite_message_is_where_its_light_queue_says(lite_topic: str, queues: str, offsets: str, place: tuple[str, int] | None) -> None:
    given = {"__LITE_TOPIC": lite_topic, "INNER_MULTI_DISPATCH": queues, "INNER_MULTI_QUEUE_OFFSET": offsets}
    assert lite_place({name: value for name, value in given.items() if value}, PARENT) == place


def test_times_are_said_a_message_each_or_not_at_all() -> None:
    found = stored({"__LITE_TOPIC": "a", "INNER_MULTI_DISPATCH": A, "INNER_MULTI_QUEUE_OFFSET": "5"})
    fields = {"popTime": "1", "invisibleTime": "2", "reviveQid": "999"}
    for said, times in (("1;2", [1, 2]), ("0 qo0%5 3;x", [3, 0]), ("1", [0, 0]), ("", [0, 0]), ("1;2;3", [0, 0]), ("-1;²", [0, 0])):
        popped = popped_lite({**fields, "orderCountInfo": said}, [found, found], "b", PARENT)
        assert [each.message.reconsume_times for each in popped] == times
    assert popped_lite(fields, [stored({}), found], "b", PARENT)[0].lite_topic == "a", "one that is in none is left out"
    with pytest.raises(ProtocolError):
        popped_lite({}, [], "b", PARENT)


def test_a_rate_has_a_seconds_worth_at_once_and_no_more_than_its_share_afterwards() -> None:
    at_s = [10.0]
    rate = Rate(2, lambda: at_s[0])
    assert [rate.take() for _ in range(3)] == [True, True, False]
    at_s[0] += 0.5
    assert [rate.take(), rate.take()] == [True, False]
    at_s[0] += 99
    assert [rate.take() for _ in range(3)] == [True, True, False]
    at_s[0] -= 50
    assert not rate.take()


def test_what_a_group_says_of_lite_topics_is_read_whatever_it_says() -> None:
    assert GroupConfig.from_json({}).lite_quota == LITE_QUOTA and GroupConfig.from_json({}).lite_bind_topic == ""
    for said, quota in (("7", 7), ("-1", -1), ("9" * 19, (1 << 31) - 1), ("x", LITE_QUOTA), ("", LITE_QUOTA), (None, LITE_QUOTA)):
        assert GroupConfig.from_json({"attributes": {"lite.sub.client.quota": said}}).lite_quota == quota


def test_priorities_are_the_brokers_property_and_a_kind_of_their_own() -> None:
    given = properties_of(message("t", priority=3), SETTINGS, "t", "h", NOW_MS)
    assert given["_SYS_MSG_PRIORITY_"] == "3"
    check_type("PRIORITY", given)
    check_type("MIXED", given)
    for kind in ("NORMAL", "FIFO", "LITE"):
        with pytest.raises(ProxyError, match="but actual type is PRIORITY"):
            check_type(kind, given)
    check_type("FIFO", {**given, "__SHARDINGKEY": "k"})
    check_type("PRIORITY", {**given, "__LITE_TOPIC": "a"})
    with pytest.raises(ProxyError, match="greater than or equal to 0"):
        properties_of(message("t", priority=-1), SETTINGS, "t", "h", NOW_MS)
    with pytest.raises(ProxyError, match="used by system"):
        properties_of(schema.message("Message")(user_properties={"__LITE_TOPIC": "a"}), SETTINGS, "t", "h", NOW_MS)
    for said, priority in (("3", 3), ("0", 0), ("2147483648", None), ("x", None), ("-1", None)):
        system = grpc_message(stored({"_SYS_MSG_PRIORITY_": said})).system_properties
        assert (system.priority if system.HasField("priority") else None) == priority
