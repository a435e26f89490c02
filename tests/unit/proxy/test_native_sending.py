"""SendMessage without Python beside sending.py, which is its specification: the same request must become the same request to a broker, and
the same answer of a broker the same bytes to the client; what the Python way refuses, the native one leaves to it.
"""

from __future__ import annotations

import struct
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.broker.names import consistent_hash
from rocketpy.proxy import schema
from rocketpy.proxy.brokers import Queue
from rocketpy.proxy.context import Context, now_ms
from rocketpy.proxy.messages import SYSTEM_PROPERTIES
from rocketpy.proxy.sending import Sending
from rocketpy.proxy.settings import ProxySettings
from rocketpy.proxy.status import status_of
from rocketpy.remoting.codes import ResponseCode
from tests.unit.native import check, ffi, lib

SETTINGS = ProxySettings(namesrv_addr="127.0.0.1:9876")
QUEUES = [Queue("broker-a", 0), Queue("broker-a", 1), Queue("broker-b", 0)]
TYPES = {"NORMAL": 1, "FIFO": 2, "DELAY": 4, "PRIORITY": 8, "LITE": 16, "MIXED": 31}
HOST = "10.0.0.7"
NOW_MS = now_ms()
DAY_S = 86_400


class Cluster:
    """In the place of Brokers: notes the request, and gives an answer."""

    def __init__(self, topic_type: str, answer: Command) -> None:
        self.topic_type = topic_type
        self.answer = answer
        self.asked: tuple[int, Mapping[str, str], bytes] | None = None

    async def message_type(self, topic: str) -> str:
        return self.topic_type

    async def writable_queues(self, topic: str) -> list[Queue]:
        return QUEUES

    async def call(self, broker: str, code: int, fields: Mapping[str, str], body: bytes, *, timeout_s: float) -> Command:
        self.asked = (int(code), fields, body)
        return self.answer


STORED = decode_command(encode_command(0, {"queueOffset": "7", "msgId": "7F00000100002A9F" + "0" * 16}))
CONTEXT = Context("client", "JAVA", "5.0.0", HOST, lambda: 3000)


def done(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What it returns: nothing here makes it wait, and an event loop for each example would cost more than all the rest."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")


def by_python(request: bytes, topic_type: str, limits: ProxySettings, answer: Command = STORED) -> tuple[Any, bytes]:
    """(what the broker was asked, what the client was answered); nothing was asked where the request is refused."""
    cluster = Cluster(topic_type, answer)
    sending = Sending(limits, cluster, None)  # type: ignore[arg-type]
    try:
        response = done(sending.send_message(CONTEXT, schema.message("SendMessageRequest").FromString(request)))
    except DecodeError:
        return None, b""
    except Exception as error:
        response = schema.message("SendMessageResponse")(status=status_of(error))
    return cluster.asked, response.SerializeToString()


def slice_of(data: bytes, keep: list[Any]) -> Any:
    keep.append(ffi.new("uint8_t[]", data))
    return ffi.new("rp_slice *", {"data": keep[-1], "size": len(data)})[0]


def rules_of(limits: ProxySettings) -> Any:
    return ffi.new(
        "rp_send_rules *",
        {
            "message_size_max": limits.max_message_size,
            "user_properties_max": limits.user_property_max_num,
            "user_property_size_max": limits.max_user_property_size,
            "message_group_size_max": limits.max_message_group_size,
            "lite_topic_size_max": limits.max_lite_topic_size,
            "delay_ms_max": limits.max_delay_time_mills,
            "takes_empty_body": not limits.enable_message_body_empty_check,
            "uses_delay_level": limits.use_delay_level,
        },
    )


def put_route(table: Any, topic: bytes, types: int, ages_ns: tuple[int, int] = (1000, 2000)) -> int:
    keep: list[Any] = []
    names = sorted({queue.broker for queue in QUEUES})
    brokers = ffi.new("rp_route_broker[]", len(names))
    for place, name in enumerate(names):
        brokers[place].name = slice_of(name.encode(), keep)
        brokers[place].address = {"bytes": [127, 0, 0, 1], "size": 4, "port": 10911 + place}
    queues = ffi.new("rp_route_queue[]", [{"broker": names.index(queue.broker), "queue_id": queue.queue_id} for queue in QUEUES])
    route = ffi.new(
        "rp_route *",
        {
            "types": types, "brokers": brokers, "broker_count": len(names), "queues": queues, "queue_count": len(QUEUES),
            "ask_again_ns": ages_ns[0], "ends_ns": ages_ns[1],
        },
    )  # fmt: skip
    return int(lib.rp_route_table_put(table, slice_of(topic, keep), route, 0))


@dataclass
class Outgoing:
    """What csrc/proxy/send_call.c finds in a request."""

    first: Any
    types: int
    group: Any
    batch: bytes | None = None


def read_by_c(request: Any, rules: Any, at_ms: int, keep: list[Any]) -> Outgoing | None:
    first, batch, rest, one = (
        ffi.new("rp_sent_message *"),
        ffi.new("rp_sent_batch *"),
        ffi.new("rp_slice *", request),
        ffi.new("rp_slice *"),
    )
    keep.append(first)
    if lib.rp_sent_has_several(request):
        if not lib.rp_sent_batch_read(request, rules, at_ms, len(HOST), first, batch):
            return None
        target = ffi.new("uint8_t[]", batch.size_max)
        size = lib.rp_sent_batch_write(request, rules, at_ms, slice_of(HOST.encode(), keep), target)
        assert size <= batch.size_max
        return Outgoing(first, lib.rp_sent_message_type(first), slice_of(b"", keep), bytes(ffi.buffer(target, size)))
    is_read = lib.rp_sent_next(rest, one) == 1 and lib.rp_sent_message_read(one[0], rules, at_ms, first)
    if not is_read or lib.rp_sent_next(rest, one) != 0:
        return None
    return Outgoing(first, lib.rp_sent_message_type(first), lib.rp_sent_message_group(first))


def by_c(request: bytes, topic: str, topic_type: str, limits: ProxySettings) -> Command | None:
    """What the broker is asked; None: that is left to Python."""
    keep: list[Any] = []
    choice, rules = ffi.new("rp_route_choice *"), rules_of(limits)
    own = read_by_c(slice_of(request, keep), rules, now_ms(), keep)
    if own is None:
        return None
    table = ffi.gc(lib.rp_route_table_create(10), lib.rp_route_table_destroy)
    if topic and put_route(table, topic.encode(), TYPES.get(topic_type, 0) if limits.enable_topic_message_type_check else 31) != 0:
        return None
    if not lib.rp_route_table_choose(table, own.first.topic, own.types, own.group, 0, choice):
        return None
    room = lib.rp_sent_message_properties_size(own.first, len(HOST))
    properties = ffi.new("uint8_t[]", room)
    size = lib.rp_sent_message_write_properties(own.first, slice_of(HOST.encode(), keep), properties)
    assert size <= room
    native = ffi.new("rp_send_command *")
    batch = ffi.new("rp_slice *")[0] if own.batch is None else slice_of(own.batch, keep)
    lib.rp_send_command_fill(native, own.first, choice, ffi.new("rp_slice *", {"data": properties, "size": size})[0], batch)
    frame = ffi.new("uint8_t[]", lib.rp_command_size_max(ffi.addressof(native.command)))
    written = check(lib.rp_command_encode(ffi.addressof(native.command), frame, len(frame)))
    return decode_command(bytes(ffi.buffer(frame, written)))


def pairs(properties: str) -> list[tuple[str, str]]:
    return [(name, value) for pair in properties.split("\x02")[:-1] for name, _, value in [pair.partition("\x01")]]


def compare(request: bytes, topic: str, topic_type: str = "NORMAL", limits: ProxySettings = SETTINGS) -> bool:
    """Whether the request went the native way; where it did, it says what Python's says."""
    asked, _ = by_python(request, topic_type, limits)
    native = by_c(request, topic, topic_type, limits)
    if native is None:
        return False
    assert asked is not None, "Python refuses it"
    code, fields, body = asked
    native_fields = dict(native.fields)
    messages = schema.message("SendMessageRequest").FromString(request).messages
    compare_properties(native_fields.pop("i"), fields["i"], messages[0])
    assert native_fields == {name: value for name, value in fields.items() if name != "i"}
    assert (native.code, native.language, native.version) == (code, 3, 479)
    if len(messages) == 1:
        assert native.body == body
        return True
    ours, theirs = records(bytes(native.body)), records(body)
    assert [each for each, _ in ours] == [each for each, _ in theirs] and len(ours) == len(messages)
    for (_, our_properties), (_, their_properties), message in zip(ours, theirs, messages, strict=True):
        compare_properties(our_properties, their_properties, message)
    return True


def compare_properties(ours: str, theirs: str, message: Any) -> None:
    """The same; those of a producer's own in any order."""
    our_pairs, their_pairs = pairs(ours), pairs(theirs)
    assert len(dict(our_pairs)) == len(our_pairs) == len(their_pairs) and dict(our_pairs) == dict(their_pairs)
    own = [name for name, _ in our_pairs if name not in message.user_properties]
    assert own == [name for name, _ in their_pairs if name not in message.user_properties], "in another order"


def records(batch: bytes) -> list[tuple[tuple[bytes, bytes], str]]:
    """((what nobody reads, body), properties) of each message of a batch."""
    found = []
    while batch:
        size, body_size = struct.unpack_from(">I12xI", batch)
        body, properties = batch[20 : 20 + body_size], batch[22 + body_size : size]
        assert struct.unpack_from(">H", batch, 20 + body_size) == (len(properties),)
        found.append(((batch[4:16], body), properties.decode()))
        batch = batch[size:]
    return found


def message_of(topic: str = "t", body: bytes = b"body", user: Mapping[str, str] | None = None, **system: Any) -> Any:
    message = schema.message("Message")(topic={"name": topic}, body=body, user_properties=user or {})
    fields = {"message_id": "01ABCDEF", "message_type": 1, "born_host": "host-1", "body_encoding": 1, "queue_id": 3} | system
    for name, value in fields.items():
        if name == "born_ms":
            message.system_properties.born_timestamp.FromMilliseconds(value)
        elif name == "deliver_ms":
            message.system_properties.delivery_timestamp.FromMilliseconds(value)
        elif name == "keys":
            message.system_properties.keys.extend(value)
        else:
            setattr(message.system_properties, name, value)
    return message


def with_namespace(message: Any) -> Any:
    message.topic.resource_namespace = "n"
    return message


def with_unknown_fields(message: Any, count: int, *, of_system: bool = False) -> Any:
    (message.system_properties if of_system else message).MergeFromString(b"\xf8\x01\x00" * count)
    return message


def encoded(*messages: Any) -> bytes:
    return bytes(schema.message("SendMessageRequest")(messages=messages).SerializeToString())


USUAL: Mapping[str, tuple[Any, str]] = {
    "as clients send it": (message_of(born_ms=NOW_MS, tag="TagA", keys=["k1", "k2"], user={"color": "red", "": ""} | {"n": "1"}), "NORMAL"),
    "bare": (message_of(born_host=""), "NORMAL"),
    "compressed": (message_of(body_encoding=2), "NORMAL"),
    "of a group": (message_of(message_type=2, message_group="order-42"), "FIFO"),
    "of a group with letters": (message_of(message_type=2, message_group="группа 🚀"), "FIFO"),
    "delayed": (message_of(message_type=3, deliver_ms=NOW_MS + 10_000), "DELAY"),
    "delayed into the past": (message_of(message_type=3, deliver_ms=1), "DELAY"),
    "of a group and delayed": (message_of(message_group="g", deliver_ms=NOW_MS + 10_000), "MIXED"),
    "traced": (message_of(trace_context="00-4bf92f-01", delivery_attempt=2), "NORMAL"),
    "before 1970": (message_of(born_ms=-1500), "NORMAL"),
    "in letters of all kinds": (message_of(tag="ярлык", keys=["ключ", "鍵"], user={"цвет": "красный\u00a0🚀"}), "NORMAL"),
    "with a digest": (message_of(), "NORMAL"),
    "of a priority": (message_of(priority=3), "PRIORITY"),
    "of the priority 0": (message_of(message_type=6, priority=0), "MIXED"),
    "of a lite topic": (message_of(message_type=5, lite_topic="Lite_1-a"), "LITE"),
    "of a lite topic that is as long as may be": (message_of(lite_topic="l" * 64), "MIXED"),
    "of a group, a priority and a lite topic": (message_of(message_group="g", priority=2**31 - 1, lite_topic="l"), "FIFO"),
    "delayed, of a priority and a lite topic": (message_of(priority=1, lite_topic="l", deliver_ms=NOW_MS), "DELAY"),
}
USUAL["as clients send it"][0].user_properties.pop("")
USUAL["with a digest"][0].system_properties.body_digest.checksum = "AB12"


@pytest.mark.parametrize("name", USUAL)
def test_usual_messages_go_without_python_and_say_the_same(name: str) -> None:
    message, topic_type = USUAL[name]
    assert compare(encoded(message), "t", topic_type)


SEVERAL: Mapping[str, tuple[list[Any], str]] = {
    "two": ([message_of(), message_of(message_id="2", tag="T", user={"a": "1", "b": "2"})], "NORMAL"),
    "of groups, which count for no queue": ([message_of(message_group=name) for name in "abc"], "FIFO"),
    "of several types": ([message_of(), message_of(message_group="g"), message_of(priority=1)], "MIXED"),
    "of the first one's type": ([message_of(), message_of(message_group="g"), message_of(priority=1)], "NORMAL"),
    "the first compressed": ([message_of(body_encoding=2), message_of()], "NORMAL"),
    "the second compressed": ([message_of(), message_of(body_encoding=2)], "NORMAL"),
    "of their own times and hosts": ([message_of(born_ms=NOW_MS - at, born_host="" if at else "h") for at in range(3)], "NORMAL"),
    "as many as may be": ([message_of(message_id=str(number), body=b"x") for number in range(1024)], "NORMAL"),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_messages_are_one_batch_and_say_the_same(name: str) -> None:
    several, topic_type = SEVERAL[name]
    assert compare(encoded(*several), "t", topic_type)


UNUSUAL: Mapping[str, tuple[bytes, str]] = {
    "no message": (b"", "NORMAL"),
    "several, one of another topic": (encoded(message_of(), message_of(topic="u")), "NORMAL"),
    "several, the first of another type": (encoded(message_of(message_group="g"), message_of()), "NORMAL"),
    "several, one of another namespace": (encoded(message_of(), with_namespace(message_of())), "NORMAL"),
    "several, the first of another namespace": (encoded(with_namespace(message_of()), message_of()), "NORMAL"),
    "several, the first with a delivery time": (encoded(message_of(deliver_ms=NOW_MS + 10_000), message_of()), "DELAY"),
    "several, the second with a delivery time": (encoded(message_of(), message_of(deliver_ms=1)), "NORMAL"),
    "thousands of unknown fields behind it": (encoded(message_of()) + b"\x10\x00" * 4097, "NORMAL"),
    "thousands of unknown fields between two": (encoded(message_of()) + b"\x10\x00" * 4097 + encoded(message_of()), "NORMAL"),
    "thousands of unknown fields in it": (encoded(with_unknown_fields(message_of(), 4096)), "NORMAL"),
    "thousands of unknown fields of its system": (encoded(with_unknown_fields(message_of(), 4096, of_system=True)), "NORMAL"),
    "several, one of a lite topic": (encoded(message_of(), message_of(lite_topic="l")), "MIXED"),
    "several, one wrong": (encoded(message_of(), message_of(message_id=""), message_of()), "NORMAL"),
    "several, one a transaction": (encoded(message_of(), message_of(message_type=4)), "MIXED"),
    "more than a thousand": (encoded(*[message_of()] * 1025), "NORMAL"),
    "several, cut off": (encoded(message_of(), message_of())[:-1], "NORMAL"),
    "several and no message": (encoded(message_of(), message_of()) + b"\x08\x01", "NORMAL"),
    "a priority below 0": (encoded(message_of(priority=-1)), "PRIORITY"),
    "a priority for a topic without": (encoded(message_of(priority=1)), "NORMAL"),
    "a lite topic's name that is none": (encoded(message_of(lite_topic="a.b")), "LITE"),
    "a lite topic's name that is too long": (encoded(message_of(lite_topic="l" * 65)), "LITE"),
    "a transaction": (encoded(message_of(message_type=4)), "TRANSACTION"),
    "another type than the topic's": (encoded(message_of(message_group="g")), "NORMAL"),
    "no topic": (encoded(message_of(topic="")), "NORMAL"),
    "an empty body": (encoded(message_of(body=b"")), "NORMAL"),
    "a body that is too large": (encoded(message_of(body=b"x" * (SETTINGS.max_message_size + 1))), "NORMAL"),
    "no message id": (encoded(message_of(message_id="")), "NORMAL"),
    "a blank message id": (encoded(message_of(message_id="\u2003 ")), "NORMAL"),
    "a long message id": (encoded(message_of(message_id="i" * 129)), "NORMAL"),
    "a property of brokers": (encoded(message_of(user={"KEYS": "x"})), "NORMAL"),
    "a property that is written anyway": (encoded(message_of(user={"__SHARDINGKEY": "x"})), "NORMAL"),
    "a property without a name": (encoded(message_of(user={"": "x"})), "NORMAL"),
    "too many properties": (encoded(message_of(user={f"p{number}": "" for number in range(33)})), "NORMAL"),
    "properties that are too large": (encoded(message_of(user={"p": "x" * 16384})), "NORMAL"),
    "a control character in a property": (encoded(message_of(user={"p": "a\x7fb"})), "NORMAL"),
    "a control character of two bytes": (encoded(message_of(tag="a\x85b")), "NORMAL"),
    "a tag with a bar": (encoded(message_of(tag="a|b")), "NORMAL"),
    "an empty key": (encoded(message_of(keys=[""])), "NORMAL"),
    "a blank key": (encoded(message_of(keys=["a", "\u3000"])), "NORMAL"),
    "a group that is too long": (encoded(message_of(message_group="g" * 64)), "FIFO"),
    "a delay that is too long": (encoded(message_of(deliver_ms=NOW_MS + 2 * DAY_S * 1000)), "DELAY"),
    "a host between blanks": (encoded(message_of(born_host=" host ")), "NORMAL"),
    "system properties twice": (encoded(message_of()) + b"\x0a\x04\x1a\x02\x08\x01", "NORMAL"),
    "cut off": (encoded(message_of())[:-1], "NORMAL"),
    "a string that is no UTF-8": (encoded(message_of(tag="xyz")).replace(b"xyz", b"\xed\xa0\x80"), "NORMAL"),
    "a group of fields": (encoded(message_of()) + b"\x13\x14", "NORMAL"),
    "a varint without an end": (encoded(message_of()) + b"\x10" + b"\xff" * 11, "NORMAL"),
    "the field number 0": (encoded(message_of()) + b"\x00\x00", "NORMAL"),
    "a key of six bytes": (encoded(message_of()) + b"\xf8\x80\x80\x80\x80\x00\x01", "NORMAL"),
    "a property that says more": (encoded(message_of(user={"p": "value"})).replace(b"\x05value", b"\x01v\x18\x01\x18\x01"), "NORMAL"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_or_wrong_is_left_to_python(name: str) -> None:
    request, topic_type = UNUSUAL[name]
    assert not compare(request, "t", topic_type)


def test_a_few_unknown_fields_change_nothing() -> None:
    several = [with_unknown_fields(with_unknown_fields(message_of(), 1000), 1000, of_system=True) for _ in range(2)]
    for request in (encoded(*several), encoded(several[0])):
        assert compare(request + b"\x10\x00" * 4096, "t")


def test_several_messages_are_of_one_namespace_and_the_same_one_may_be_any() -> None:
    asked, answer = by_python(encoded(message_of(), with_namespace(message_of())), "NORMAL", SETTINGS)
    assert asked is None and code_of(answer) == "MESSAGE_CORRUPTED"
    assert compare(encoded(with_namespace(message_of()), with_namespace(message_of(message_id="2"))), "t")


@pytest.mark.parametrize("times", [(NOW_MS, None), (None, 1), (NOW_MS, NOW_MS)], ids=["first", "second", "both"])
def test_several_messages_have_no_delivery_time(times: tuple[int | None, ...]) -> None:
    several = [message_of() if at_ms is None else message_of(deliver_ms=at_ms) for at_ms in times]
    asked, answer = by_python(encoded(*several), "MIXED", SETTINGS)
    assert asked is None and code_of(answer) == "BAD_REQUEST"
    asked, answer = by_python(encoded(*several), "FIFO", SETTINGS)
    assert asked is None and code_of(answer) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", "its type is looked at first"


def code_of(answer: bytes) -> str:
    return schema.label("Code", schema.message("SendMessageResponse").FromString(answer).status.code)


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g"])
def test_retries_and_dead_letters_are_of_any_type(topic: str) -> None:
    asked, _ = by_python(encoded(message_of(topic, message_group="g")), "NORMAL", SETTINGS)
    assert asked is not None and asked[1]["b"] == topic


@pytest.mark.parametrize(("topic", "times"), [("%RETRY%g", "3"), ("%DLQ%g", "0"), ("t", "0"), ("%RETRY", "0")])
@pytest.mark.parametrize("count", [1, 2])
def test_how_often_a_message_to_be_consumed_again_came_is_its_brokers_to_count_on(topic: str, times: str, count: int) -> None:
    request = encoded(*[message_of(topic, delivery_attempt=3) for _ in range(count)])
    asked, _ = by_python(request, "NORMAL", SETTINGS)
    assert asked is not None and asked[1]["j"] == times
    assert compare(request, topic)


def test_limits_are_the_settings() -> None:
    empty, late = encoded(message_of(body=b"")), encoded(message_of(deliver_ms=NOW_MS + 2 * DAY_S * 1000))
    grouped = encoded(message_of(message_group="g" * 100))
    assert compare(empty, "t", limits=ProxySettings(enable_message_body_empty_check=False))
    assert compare(late, "t", "DELAY", ProxySettings(max_delay_time_mills=0))
    assert not compare(encoded(message_of(deliver_ms=1)), "t", "DELAY", ProxySettings(use_delay_level=True))
    assert compare(grouped, "t", "FIFO", ProxySettings(max_message_group_size=0))
    assert compare(grouped, "t", "NORMAL", ProxySettings(max_message_group_size=0, enable_topic_message_type_check=False))
    assert not compare(encoded(message_of(user={"a": "", "b": ""})), "t", limits=ProxySettings(user_property_max_num=1))


def test_names_that_no_property_may_have_are_those_of_the_python_way() -> None:
    def is_reserved(name: str) -> bool:
        keep: list[Any] = []
        return bool(lib.rp_sent_name_is_reserved(slice_of(name.encode(), keep)))

    assert all(map(is_reserved, SYSTEM_PROPERTIES | {"__SHARDINGKEY", "TRACE_CONTEXT"}))
    assert not any(map(is_reserved, ("", "k", "KEY", "KEYS2", "color", "__")))


_TEXT = st.one_of(
    st.sampled_from(["", "a", "order-1", " ", "\u3000", "é", "鍵", "🚀", "a|b", "\x01", "\x85", "KEYS", "x" * 70]),
    st.text(max_size=8),
)


@st.composite
def messages(draw: Any) -> Any:
    system: dict[str, Any] = {}
    for name in ("tag", "message_id", "message_group", "trace_context", "born_host"):
        if draw(st.booleans()):
            system[name] = draw(_TEXT)
    if draw(st.booleans()):
        system["keys"] = draw(st.lists(_TEXT, max_size=3))
    if draw(st.booleans()):
        system["deliver_ms"] = NOW_MS + draw(st.integers(-1000, 2 * DAY_S * 1000))
    if draw(st.booleans()):
        system["lite_topic"] = draw(st.sampled_from(["l", "L-1_a", "a b", "é", "", "x" * 65]))
    if draw(st.booleans()):
        system["priority"] = draw(st.sampled_from([0, 1, -1, 2**31 - 1]))
    system["born_ms"] = draw(st.integers(-5000, NOW_MS))
    system["message_type"] = draw(st.integers(0, 5))
    system["body_encoding"] = draw(st.integers(0, 3))
    system["delivery_attempt"] = draw(st.sampled_from([0, 1, 3, -1, 2**31 - 1]))
    user = draw(st.dictionaries(_TEXT, _TEXT, max_size=4))
    return message_of(draw(st.sampled_from(["t", "other", ""])), draw(st.sampled_from([b"", b"b"])), user, **system)


@given(st.lists(messages(), min_size=1, max_size=3), st.sampled_from([*TYPES, "TRANSACTION", "UNSPECIFIED"]))
def test_any_messages_say_the_same_or_are_left_to_python(several: list[Any], topic_type: str) -> None:
    compare(encoded(*several), "t", topic_type)


ONE = message_of(born_ms=NOW_MS, tag="T", keys=["k"], user={"color": "red"}, message_group="g")
SEED = encoded(ONE, ONE)


@given(st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, len(SEED)))
@example([(1, 0)], len(SEED))
def test_damaged_requests_say_the_same_or_are_left_to_python(changes: list[tuple[int, int]], size: int) -> None:
    damaged = bytearray(SEED)
    for place, byte in changes:
        damaged[place] = byte
    compare(bytes(damaged[: size if size > len(SEED) // 2 else len(SEED)]), "t", "FIFO")


@pytest.mark.parametrize("key", [0, 1, -1, 97, 293427299, 975451704, 1950903408, -2147483648, 2147483647])
def test_the_bucket_of_a_key_is_guavas(key: int) -> None:
    for buckets in (1, 2, 3, 7, 16, 100, 1024):
        assert lib.rp_consistent_bucket(key, buckets) == consistent_hash(key, buckets)


# ---- answers ----


def answered_by_c(answer: Command, *messages: Any) -> bytes:
    """To the request of these messages."""
    keep: list[Any] = []
    command, error, native = ffi.new("rp_command *"), ffi.new("rp_error *"), ffi.new("rp_send_answer *")
    frame = encode_command(answer.code, answer.fields, b"", flag=1, remark=answer.remark, serialize_type=1)
    keep.append(ffi.new("uint8_t[]", frame))
    check(lib.rp_command_decode(keep[-1], len(frame), ffi.NULL, command, error), error)
    lib.rp_send_answer_of(native, command, slice_of(encoded(*messages), keep))
    target = ffi.new("uint8_t[]", lib.rp_send_answer_size(native))
    lib.rp_send_answer_write(native, target)
    return bytes(ffi.buffer(target))


NAMED = [[message_of()], [message_of(), message_of(message_id="2"), message_of(message_id="鍵")]]


CODES = [code for code in ResponseCode if code not in (ResponseCode.GO_AWAY,)]


@pytest.mark.parametrize("several", NAMED, ids=["one", "several"])
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_an_answer_with_a_word_is_the_same_to_the_byte(code: ResponseCode, several: list[Any]) -> None:
    fields = {"queueOffset": "1234567890123", "msgId": "7F00000100002A9F" + "0" * 16, "transactionId": "tx", "recallHandle": "rh"}
    answer = decode_command(encode_command(int(code), fields, remark="[NODE] причина"))
    _, theirs = by_python(encoded(*several), "NORMAL", SETTINGS, answer)
    assert answered_by_c(answer, *several) == theirs


@pytest.mark.parametrize("code", [0, 1, 2, 3, 10, 11, 12, 13, 14, 16, 17, 26, 4711])
@pytest.mark.parametrize("fields", [{}, {"queueOffset": "-1"}, {"queueOffset": "9223372036854775807"}], ids=str)
def test_an_answer_without_a_word_is_the_same_to_the_byte(code: int, fields: dict[str, str]) -> None:
    answer = decode_command(encode_command(code, fields))
    _, theirs = by_python(encoded(message_of()), "NORMAL", SETTINGS, answer)
    assert answered_by_c(answer, message_of()) == theirs


def test_what_a_broker_says_that_is_no_answer_becomes_an_error_that_can_be_read() -> None:
    response = schema.message("SendMessageResponse").FromString(answered_by_c(answer_of(0, {"queueOffset": "x" * 500}), message_of()))
    assert response.status.code == 50001 and len(response.status.message) < 200 and not response.entries
    long = schema.message("SendMessageResponse").FromString(answered_by_c(answer_of(1, {}, "ж" * 5000), message_of()))
    assert long.status.message.startswith("CODE: 1  DESC: жж") and 2000 < len(long.status.message) < 2100


def answer_of(code: int, fields: dict[str, str], remark: str | None = None) -> Command:
    return decode_command(encode_command(code, fields, remark=remark))


# ---- routes ----


def test_a_route_that_grows_old_is_asked_for_by_one_message_and_then_by_all() -> None:
    table = ffi.gc(lib.rp_route_table_create(10), lib.rp_route_table_destroy)
    keep: list[Any] = []
    topic, none = slice_of(b"t", keep), slice_of(b"", keep)
    choice = ffi.new("rp_route_choice *")

    def chosen(at_ns: int) -> bool:
        return bool(lib.rp_route_table_choose(table, topic, 1, none, at_ns, choice))

    assert not chosen(0)
    assert put_route(table, b"t", 1, (1000, 2000)) == 0
    seen = [(choice.broker_name[7], choice.queue_id, choice.address.port) for at_ns in (0, 10, 999, 999) if chosen(at_ns)]
    assert seen == [(ord("a"), 0, 10911), (ord("a"), 1, 10911), (ord("b"), 0, 10912), (ord("a"), 0, 10911)]
    assert [chosen(1000), chosen(1000), chosen(1999)] == [False, True, True]
    assert [chosen(2000), chosen(2000)] == [False, False]
    assert put_route(table, b"t", 1, (3000, 4000)) == 0
    assert chosen(2000) and not lib.rp_route_table_choose(table, topic, 2, none, 2000, choice)
    lib.rp_route_table_forget(table, topic)
    assert not chosen(2000)


def test_routes_are_as_many_as_they_may_be() -> None:
    table = ffi.gc(lib.rp_route_table_create(2), lib.rp_route_table_destroy)
    assert [put_route(table, name, 1, (5, 10)) for name in (b"a", b"b")] == [0, 0]
    keep: list[Any] = []
    route = ffi.new("rp_route *", {"types": 1, "ends_ns": 100})
    assert lib.rp_route_table_put(table, slice_of(b"c", keep), route, 0) == lib.RP_E_INVALID
    assert put_route(table, b"", 1) == lib.RP_E_INVALID and put_route(table, b"x" * 385, 1) == lib.RP_E_INVALID
    assert put_route(table, b"c", 1) == lib.RP_E_BUSY
    assert put_route(table, b"a", 1) == 0
