"""What the proxy decides without a broker: names, handles, message groups' queues, renewals, settings, properties."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import gc
import json
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketpy._core.errors import ProtocolError
from rocketpy._core.results import Message
from rocketpy.broker.names import consistent_hash, java_hash
from rocketpy.config import ConfigError
from rocketpy.proxy import schema
from rocketpy.proxy.brokers import Brokers
from rocketpy.proxy.cached import Cached
from rocketpy.proxy.client_settings import for_consumer
from rocketpy.proxy.clients import Clients, language_of, subscription
from rocketpy.proxy.context import now_ms
from rocketpy.proxy.group_config import GroupConfig
from rocketpy.proxy.handles import ReceiptHandle
from rocketpy.proxy.messages import check_type, delay_level, grpc_message, properties_of
from rocketpy.proxy.receiving import Receiving
from rocketpy.proxy.renewals import RENEWED_FOR_MS, Held, Renewals
from rocketpy.proxy.routing import numbered_permissions
from rocketpy.proxy.sending import broker_of_recall, has_more_fields, log_offset_of
from rocketpy.proxy.settings import ProxySettings, load_settings
from rocketpy.proxy.status import ProxyError
from rocketpy.proxy.validation import filter_of, group_of, is_blank, tags_of, topic_of
from rocketpy.remoting.credentials import Credentials
from rocketpy.remoting.records import read_records
from rocketpy.remoting.route import BrokerData, QueueData, TopicRoute

SETTINGS = ProxySettings(namesrv_addr="127.0.0.1:9876")
NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "hash_code", "buckets"),
    [
        ("", 0, {1: 0, 7: 0, 100: 0}),
        ("a", 97, {2: 0, 16: 0, 100: 29}),
        ("group-1", 293427299, {1: 0, 2: 1, 7: 1, 16: 15, 100: 36}),
        ("группа", 1749938458, {16: 0, 100: 97}),
        ("order-42", 1234255197, {7: 3, 16: 10, 100: 25}),
        ("🚀", 1773027, {2: 1, 7: 5, 16: 12, 100: 35}),
    ],
)
def test_a_message_group_has_the_queue_that_javas_proxy_gives_it(text: str, hash_code: int, buckets: dict[int, int]) -> None:
    """The numbers are Guava 31's."""
    assert java_hash(text) == hash_code
    assert {count: consistent_hash(hash_code, count) for count in buckets} == buckets
    assert consistent_hash(-1, 8) in range(8)
    assert consistent_hash(975451704, 8) == 0, "Java's int overflows"


def test_of_a_static_topic_queues_are_sent_to_by_their_leaders_in_the_order_of_their_numbers() -> None:
    async def queues(**led: dict[str, int]) -> list[tuple[str, int]]:
        brokers = Brokers(SETTINGS, lambda address, request: None)
        mappings = {name: {"currIdMap": numbers} for name, numbers in led.items()}
        datas = tuple(BrokerData("c", name, {0: f"127.0.0.1:{port}"}) for port, name in enumerate("ab", start=1))
        route = TopicRoute((QueueData("a", 2, 2, 6), QueueData("b", 1, 1, 6)), datas, queue_mappings=mappings)

        async def asked(topic: str) -> TopicRoute:
            return TopicRoute.decode(route.encode(standard=True))

        brokers.route = asked
        brokers._addresses.update({"a": "127.0.0.1:1", "b": "127.0.0.1:2"})
        found = [(queue.broker, queue.queue_id) for queue in await brokers.writable_queues("t")]
        await brokers.stop()
        return found

    assert asyncio.run(queues()) == [("a", 0), ("a", 1), ("b", 0)]
    assert asyncio.run(queues(a={"0": 0, "2": 1}, b={"1": 0})) == [("a", 0), ("b", 1), ("a", 2)]
    assert asyncio.run(queues(a={}, b={"0": 1, "1": 0, "2": 2})) == [("b", 0), ("b", 1), ("b", 2)], "all of them were moved"


def test_a_handle_says_which_message_of_which_pop() -> None:
    text = "5 1700000000000 60000 3 2 broker-a 1 7 4096"
    handle = ReceiptHandle.parse(text)
    assert handle.text == text and handle.visible_ms == NOW_MS + 60_000
    assert handle.real_topic("t", "g") == "%RETRY%g+t"
    assert ReceiptHandle.parse("5 1 2 3 1 b 1 7").real_topic("t", "g") == "%RETRY%g_t"
    assert handle.popped_again(NOW_MS + 1, 10, 4).text == "7 1700000000001 10 4 2 broker-a 1 7 4096"
    assert ReceiptHandle.parse(text.rpartition(" ")[0]).log_offset == -1
    with pytest.raises(ProxyError, match="expired"):
        handle.check_valid(NOW_MS + 60_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1 2 3",
        "1 2 3 4 0 b x 7",
        "1 2 3 4 0 b 1 7 x",
        "1  2 3 4 0 b 1",
        "1 2 3 4 3 b 1 7",
        "1 2 3 4 0 " + "b" * 300 + " 1 7",
        "9" * 19 + " 2 3 4 0 b 1 7",
        "x" * 100_000,
    ],
)
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(ProxyError) as raised:
        ReceiptHandle.parse(text)
    assert raised.value.code == "INVALID_RECEIPT_HANDLE" and len(str(raised.value)) < 150


@pytest.mark.parametrize("name", ["", " ", "a b", "a" * 128, "TBW102", "rmq_sys_x", "ü", "a\n"])
def test_topics_that_nobody_may_name(name: str) -> None:
    with pytest.raises(ProxyError) as raised:
        topic_of(schema.message("Resource")(name=name))
    assert raised.value.code == "ILLEGAL_TOPIC"


@pytest.mark.parametrize("name", ["", "a b", "a" * 256, "CID_RMQ_SYS_x"])
def test_groups_that_nobody_may_name(name: str) -> None:
    with pytest.raises(ProxyError) as raised:
        group_of(schema.message("Resource")(name=name))
    assert raised.value.code == "ILLEGAL_CONSUMER_GROUP"


@pytest.mark.parametrize(
    ("code", "fields", "user"),
    [
        ("ILLEGAL_MESSAGE_TAG", {"tag": "a|b"}, {}),
        ("ILLEGAL_MESSAGE_TAG", {"tag": "  "}, {}),
        ("ILLEGAL_MESSAGE_KEY", {"keys": ["a\x02b"]}, {}),
        ("ILLEGAL_MESSAGE_ID", {"message_id": " "}, {}),
        ("ILLEGAL_MESSAGE_ID", {"message_id": "a\x01b"}, {}),
        ("ILLEGAL_MESSAGE_GROUP", {"message_group": "g" * 64}, {}),
        ("ILLEGAL_MESSAGE_PROPERTY_KEY", {}, {"KEYS": "x"}),
        ("ILLEGAL_MESSAGE_PROPERTY_KEY", {}, {"a": "b\x01c"}),
        ("MESSAGE_PROPERTIES_TOO_LARGE", {}, {"a": "b" * 20_000}),
        ("MESSAGE_PROPERTIES_TOO_LARGE", {}, {f"a{number}": "b" for number in range(129)}),
        ("MESSAGE_PROPERTIES_TOO_LARGE", {"keys": [""] * 20_000}, {}),
        ("BAD_REQUEST", {"born_host": "h\x02"}, {}),
        ("BAD_REQUEST", {"born_timestamp": {"seconds": 1 << 60}}, {}),
        ("BAD_REQUEST", {"delivery_timestamp": {"nanos": -1}}, {}),
    ],
)
def test_what_no_message_may_say(code: str, fields: dict[str, object], user: dict[str, str]) -> None:
    message = schema.message("Message")(user_properties=user, system_properties={"message_id": "M1", **fields})
    with pytest.raises(ProxyError) as raised:
        properties_of(message, SETTINGS, "t", "10.0.0.1", NOW_MS)
    assert raised.value.code == code


def test_a_message_becomes_properties() -> None:
    message = schema.message("Message")(
        user_properties={"color": "red"},
        system_properties={"message_id": "M1", "tag": "T", "keys": ["a", "b"], "message_group": "g", "born_host": "h"},
    )
    message.system_properties.delivery_timestamp.FromMilliseconds(NOW_MS + 5000)
    assert properties_of(message, SETTINGS, "t", "10.0.0.1", NOW_MS) == {
        "color": "red", "TAGS": "T", "KEYS": "a b", "UNIQ_KEY": "M1", "TIMER_DELIVER_MS": f"{NOW_MS + 5000}", "RECONSUME_TIME": "0",
        "PGROUP": "t", "__SHARDINGKEY": "g", "__BORNHOST": "h", "BORN_TIMESTAMP": "0",
    }  # fmt: skip
    message.system_properties.delivery_timestamp.FromMilliseconds(NOW_MS + 86_400_001)
    with pytest.raises(ProxyError, match="max delay time"):
        properties_of(message, SETTINGS, "t", "10.0.0.1", NOW_MS)


def test_a_topic_takes_messages_of_its_type_alone() -> None:
    check_type("MIXED", {"__SHARDINGKEY": "g"})
    check_type("DELAY", {"TIMER_DELIVER_MS": "1", "__SHARDINGKEY": "g"})
    with pytest.raises(ProxyError, match="expected type is NORMAL, but actual type is FIFO"):
        check_type("NORMAL", {"__SHARDINGKEY": "g"})


def test_tags_are_split_as_clients_split_them() -> None:
    assert tags_of("*") == tags_of("") == frozenset()
    assert tags_of("a || b||") == {"a", "b"}
    for blank in "\x85\xa0\u2007\u3000":
        assert tags_of(f"\x00a{blank}\t|| {blank}") == {f"a{blank}", blank}, "as Java's trim, which brokers go by"
    with pytest.raises(ProxyError):
        tags_of(" || ")


def test_a_filter_says_what_it_lets_through() -> None:
    expression = schema.message("FilterExpression")
    assert filter_of(expression()) == ("*", False, frozenset())
    assert filter_of(expression(type=1, expression="a||b")) == ("a||b", False, {"a", "b"})
    assert filter_of(expression(type=2, expression="a > 1")) == ("a > 1", True, frozenset())
    with pytest.raises(ProxyError, match="SQL92") as refused:
        filter_of(expression(type=2))
    assert refused.value.code == "ILLEGAL_FILTER_EXPRESSION"


def test_what_is_blank_is_what_java_calls_blank() -> None:
    assert all(is_blank(each) for each in ("", " ", "\t\n\x0b\x0c\r\x1c\x1f", "\u1680\u2006\u2008\u2028\u2029\u205f\u3000"))
    assert not any(is_blank(each) for each in ("a", " a ", "\u00a0", "\u2007", "\u202f", "\x85", "\x00"))
    message = schema.message("Message")(body=b"b", system_properties={"message_id": "M", "tag": "\u00a0", "keys": ["\u202f"]})
    properties = properties_of(message, SETTINGS, "t", "10.0.0.1", NOW_MS)
    assert (properties["TAGS"], properties["KEYS"], properties["__BORNHOST"]) == ("\u00a0", "\u202f", "10.0.0.1")
    message.system_properties.born_host = " h\u00a0"
    assert properties_of(message, SETTINGS, "t", "10.0.0.1", NOW_MS)["__BORNHOST"] == " h\u00a0"
    entry = schema.message("SubscriptionEntry")(topic={"name": "T"}, expression={"type": 1, "expression": "b || a\u00a0"})
    assert subscription(entry)["tagsSet"] == ["a\u00a0", "b"]


def test_queues_are_numbered_by_what_may_be_done_with_them() -> None:
    read, write, both, none = (schema.number("Permission", name) for name in ("READ", "WRITE", "READ_WRITE", "NONE"))
    assert numbered_permissions(QueueData("b", 3, 2, 6)) == [read, both, both]
    assert numbered_permissions(QueueData("b", 1, 2, 6)) == [write, both]
    assert numbered_permissions(QueueData("b", 3, 2, 2)) == [write, write]
    assert numbered_permissions(QueueData("b", 3, 2, 0)) == [none, none, none]


def held(client: str, first: str, since_ms: int = NOW_MS) -> Held:
    return Held(client, "g", "t", "M", first, ReceiptHandle(0, since_ms, 60_000, 0, "0", "b", 0, 1), since_ms, 2000)


def test_messages_are_renewed_shortly_before_their_time_is_over_and_for_longer_each_time() -> None:
    renewals = Renewals(SETTINGS)
    each = held("c", "h1")
    renewals.add(each)
    assert renewals.due(NOW_MS + 49_999, lambda client, group: True) == []
    (renewal,) = renewals.due(NOW_MS + 50_000, lambda client, group: True)
    assert renewal.invisible_ms == RENEWED_FOR_MS[0] and renewals.due(NOW_MS + 59_000, lambda client, group: True) == [], "asked once"
    renewals.renewed(each, ReceiptHandle(1, NOW_MS + 50_000, 60_000, 0, "0", "b", 0, 1))
    (renewal,) = renewals.due(NOW_MS + 105_000, lambda client, group: True)
    assert renewal.invisible_ms == RENEWED_FOR_MS[1]
    taken = renewals.take("c", "g", "h1")
    assert taken is not None and taken.handle.pop_ms == NOW_MS + 50_000, "a client knows the first handle, brokers the last"
    assert len(renewals) == 0


@pytest.mark.parametrize(("invisible_ms", "age_ms"), [(60_000, 5000), (18_000, 3000), (10_000, 0)])
def test_what_was_received_natively_is_heard_of_before_it_has_to_be_renewed(invisible_ms: int, age_ms: int) -> None:
    asked: list[int] = []
    native = SimpleNamespace(handler=SimpleNamespace(tell_held=asked.append))
    settings = dataclasses.replace(SETTINGS, default_invisible_time_mills=invisible_ms)
    receiving = Receiving(settings, None, Clients(now_ms, 1), native)  # type: ignore[arg-type]
    began_ms = now_ms()
    asyncio.run(receiving.renew_due())
    assert began_ms - age_ms <= asked[0] <= now_ms() - age_ms


def test_a_client_that_is_gone_a_message_held_too_long_and_a_broker_that_refuses() -> None:
    renewals = Renewals(SETTINGS)
    renewals.add(held("gone", "h1"))
    (renewal,) = renewals.due(NOW_MS, lambda client, group: False)
    assert (renewal.invisible_ms, renewal.is_last, len(renewals)) == (1000, True, 0)
    old = held("c", "h2")
    old.handle = ReceiptHandle(0, NOW_MS + 10_800_000, 1, 0, "0", "b", 0, 1)
    renewals.add(old)
    (renewal,) = renewals.due(NOW_MS + 10_800_000, lambda client, group: True)
    assert (renewal.invisible_ms, renewal.is_last, len(renewals)) == (2000, True, 0)
    refused = held("c", "h3")
    renewals.add(refused)
    for _ in range(SETTINGS.max_renew_retry_times):
        assert len(renewals.due(NOW_MS + 55_000, lambda client, group: True)) == 1
        renewals.refused(refused, is_final=False)
    assert len(renewals) == 0


def test_a_failed_question_keeps_nothing_of_who_asked() -> None:
    """Bodies of messages to topics that are not there; with a cycle they stay until the collector comes by."""

    class Body:
        pass

    async def ask(key: str) -> None:
        raise ProxyError("TOPIC_NOT_FOUND", key)

    async def send(cached: Cached[None], kept: list[weakref.ref[Body]]) -> None:
        body = Body()
        kept.append(weakref.ref(body))
        await cached.get("nowhere")

    async def run() -> None:
        cached, kept = Cached(ask, 20, 9, "what"), list[weakref.ref[Body]]()
        with pytest.raises(ProxyError):
            await send(cached, kept)
        await asyncio.sleep(0)
        assert kept[0]() is None

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_languages_are_those_that_admin_tools_know() -> None:
    said = ("JAVA", "GOLANG", "go", "NODE_JS", "DOT_NET", "", "x" * 9000)
    assert [language_of(each) for each in said] == ["JAVA", "GO", "GO", "NODE_JS", "DOTNET", "OTHER", "OTHER"]


def test_pauses_of_a_group_as_it_is_configured() -> None:
    assert [GroupConfig().pause_ms(times) for times in (-1, 0, 1, 100)] == [1000, 1000, 5000, 7_200_000]
    group = GroupConfig.from_json({"groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 10, "max": 50}}})
    assert [group.pause_ms(times) for times in (0, 1, 2, 3)] == [10, 20, 40, 50]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\x0a\x00" * 9, 9),
        (b"\x0a\x03abc\x08\x96\x01\x1d1234\x1912345678\x92\x01\x00" + b"\x0a\x81\x01" + b"x" * 129, 6),
        (b"\x0a\x00" * 4 + b"\x0a\x7f", 5),  # cut short
        (b"\x7b\x0a\x03abc\x7c" + b"\x0a\x00" * 9, 12),  # behind a group, which is read over
        (b"\x0a\x00" * 4 + b"\x0e" + b"\x0a\x00" * 9, 4),  # a kind of field that there is not
        (b"\x0a\x00" * 4 + b"\x0a" + b"\xff" * 30, 5),
    ],
)
def test_fields_are_counted_before_a_message_is_read(data: bytes, count: int) -> None:
    assert not has_more_fields(data, count) and has_more_fields(data, count - 1)


@pytest.mark.parametrize("most", [2**31 - 1, 2**63 - 1, -(2**63)])
def test_clients_are_told_of_a_group_whatever_it_is_configured_to(most: int) -> None:
    """What a field cannot hold would end each telemetry of the group, and no client of it could start."""
    policies = (
        {"customizedRetryPolicy": {"next": [most]}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": most, "max": most}},
    )
    given = schema.message("Settings")(subscription={"group": {"name": "g"}})
    for policy in policies:
        quota = {"lite.sub.client.quota": str(most)}
        group = GroupConfig.from_json({"retryMaxTimes": most, "groupRetryPolicy": policy, "attributes": quota})
        told = for_consumer(given, SETTINGS, group)
        assert told.backoff_policy.max_attempts == (2**31 - 1 if most > 0 else 0)
        assert told.subscription.lite_subscription_quota == (2**31 - 1 if most > 0 else -1)


def test_a_delay_is_that_of_the_shortest_level_that_is_longer() -> None:
    """RocketMQ: ProxyConfig.computeDelayLevel."""
    settings = dataclasses.replace(SETTINGS, message_delay_level="1s 1m 10s")
    levels = {0: 1, 999: 1, 1000: 3, 9_999: 3, 10_000: 2, 59_999: 2, 60_000: 2, 1 << 40: 2}
    assert {delay_ms: delay_level(settings, delay_ms) for delay_ms in levels} == levels


@pytest.mark.parametrize("text", ["", "1s 5", "1s  x", "1s 5S", "-1s", "s", "\u0661s"])
def test_levels_that_cannot_be_read_end_the_start_if_they_are_gone_by(text: str) -> None:
    given = {"messageDelayLevel": text, "useDelayLevel": False}
    assert load_settings(None, {"namesrvAddr": "a:1"}, given)
    with pytest.raises(ConfigError, match=f"messageDelayLevel: {text!r}: it is not such as 1s 5s"):
        load_settings(None, {"namesrvAddr": "a:1"}, {**given, "useDelayLevel": True})


def test_settings_are_rocketmqs_and_what_would_protect_is_not_ignored(tmp_path: Path) -> None:
    file = tmp_path / "rmq-proxy.json"
    file.write_text(
        json.dumps(
            {"grpcServerPort": 9081, "tlsTestModeEnable": "false", "rocketMQClusterName": "c", "namesrvAddr": "a:1", "grpcBossLoopNum": 1}
        )
    )
    settings, others = load_settings(file, {"namesrvAddr": "env:1"}, {"grpcServerPort": 9082})
    assert (settings.grpc_server_port, settings.tls_test_mode_enable, settings.name_servers) == (9082, False, ["a:1"])
    assert settings.rocketmq_cluster_name == "c" and others == {"grpcBossLoopNum": 1}
    inner = '{"accessKey": "inner", "secretKey": "hidden"}'
    signs = {"enableAclRpcHookForClusterMode": True, "innerClientAuthenticationCredentials": inner}
    for value in (inner, json.loads(inner)):
        settings, _ = load_settings(None, {"namesrvAddr": "a:1"}, {**signs, "innerClientAuthenticationCredentials": value})
        assert settings.credentials == Credentials("inner", "hidden") and "hidden" not in repr(settings)
    for name in ("grpcServerPort", "metricsPromExporterPort"):
        for port in (-1, 65_536):
            with pytest.raises(ConfigError, match=f"{name}.*{port} is no port"):
                load_settings(None, {"namesrvAddr": "a:1"}, {name: port})
    wrong = {
        "maxMessageSize": "big",
        "authenticationMetadataProvider": "org.Local",
        "innerClientAuthenticationCredentials": '{"secretKey":"hidden"}',
    }
    file.write_text(json.dumps({**signs, **wrong}))
    with pytest.raises(ConfigError) as raised:
        load_settings(file, {"namesrvAddr": "a:1"}, {})
    for text in (
        "maxMessageSize: 'big' is not valid",
        "authenticationMetadataProvider: there is no other",
        "accessKey is missing",
    ):
        assert text in str(raised.value)
    assert "hidden" not in str(raised.value)
    unescaped = '{\n"innerClientAuthenticationCredentials": "{"secretKey":"hidden"}"\n}'
    header = '{"metricsGrpcExporterHeader": ["authorization:hidden"]}'
    for text, place in ((unescaped, "at line 2, column "), (header, "the value is not valid")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=place) as raised:
            load_settings(file, {}, {})
        assert "hidden" not in str(raised.value)
    for text in ('{{"a":1}:2,"b":3}', '{"namesrvAddr":{{"a":1}:2}}'):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"rmq-proxy\.json"):
            load_settings(file, {}, {})
    with pytest.raises(ConfigError, match="namesrvAddr: is needed"):
        load_settings(None, {}, {})


@pytest.mark.parametrize(("name", "most"), [("grpcClientProducerMaxAttempts", 2**31 - 1), ("maxDelayTimeMills", 10**18 - 1)])
def test_a_number_that_nothing_can_hold_is_refused_with_its_range(name: str, most: int) -> None:
    """What is an int in RocketMQ goes to clients in 32 bits."""
    for value in (most, -most - 1):
        assert load_settings(None, {"namesrvAddr": "a:1"}, {name: value})
    for value in (most + 1, -most - 2, int("9" * 320)):
        with pytest.raises(ConfigError, match=f"{name}: {value} is not valid: a whole number from {-most - 1} to {most}"):
            load_settings(None, {"namesrvAddr": "a:1"}, {name: value})


@pytest.mark.parametrize("name", ["transactionHeartbeatPeriodSecond", "renewSchedulePeriodMillis"])
def test_a_period_without_a_pause_is_refused(name: str) -> None:
    """The proxy was busy with nothing else from then on."""
    assert load_settings(None, {"namesrvAddr": "a:1"}, {name: "1"})
    with pytest.raises(ConfigError, match=f"{name}: '0' is not valid: a whole number from 1 on"):
        load_settings(None, {"namesrvAddr": "a:1"}, {name: "0"})


@pytest.mark.parametrize("wild", [(1 << 63) - 1, -(1 << 63), 0])
def test_any_message_that_a_broker_has_can_be_said(wild: int) -> None:
    """A 4.x client may send any born time and any property: it must not take the good messages with it."""
    timers = {"TIMER_DELIVER_MS": "²"} if wild else {"TIMER_DELAY_SEC": "9" * 19}
    stored = Message("t", 0, 0, 0, 100, 0, 0, 0, wild, "h:1", wild, "h:1", -1, 0, {"UNIQ_KEY": "M", **timers}, b"x")
    message = grpc_message(stored, "", NOW_MS)
    assert message.body == b"x" and message.system_properties.delivery_attempt == 1
    assert schema.message("Message").FromString(message.SerializeToString()) == message


def test_a_question_is_asked_once_at_a_time_and_a_failure_is_not_kept() -> None:
    """A failure's traceback holds the requests of all who asked: 60 sends of 4 MB to unknown topics were 500 MB for good."""
    asked: list[str] = []

    async def ask(key: str) -> int:
        asked.append(key)
        await asyncio.sleep(0)
        if key == "bad":
            raise ProxyError("TOPIC_NOT_FOUND", key)
        return len(asked)

    async def test() -> None:
        cached = Cached(ask, 60.0, 2, "what")
        assert await asyncio.gather(cached.get("a"), cached.get("a")) == [1, 1] and asked == ["a"]
        for _ in range(2):
            with pytest.raises(ProxyError):
                await cached.get("bad")
        assert asked == ["a", "bad", "bad"] and len(cached) == 1
        await cached.get("b")
        await cached.get("c")
        assert len(cached) == 2 and await cached.get("a") == 6, "the oldest went"

    asyncio.run(test())


def test_answers_of_brokers_that_cannot_be_read_are_errors() -> None:
    for data in (b"\0\0\0\x10", b"\0\0\0\x0a" + b"\0" * 90, b"\0\0\1\0" + b"\0" * 60, b"\xff" * 100):
        with pytest.raises(ProtocolError):
            read_records(data)
    with pytest.raises(ProtocolError):
        log_offset_of("no id")
    assert log_offset_of("7F00000100002A9F0000000000001000") == 4096
    large = base64.urlsafe_b64encode(b"v1 t " + b"b" * 256 + b" 1 k").decode()
    for handle in ("", "djE", "djIgYSBiIGMgZA==", "üü", large):
        with pytest.raises(ProxyError, match="recall handle is invalid"):
            broker_of_recall(handle)
    assert broker_of_recall("djEgdCBicm9rZXItYSAxIGs=") == "broker-a"
