"""ReceiveMessage and ChangeInvisibleDuration without Python beside receiving.py, which is their specification: the same request becomes the
same request to a broker, and a broker's answer the same bytes to the client; what Python refuses is never native.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketpy._core.errors import InvalidArgument, ProtocolError
from rocketpy._core.proxy import Proxy
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.proxy import schema
from rocketpy.proxy.context import Context, now_ms
from rocketpy.proxy.encoding import write_properties
from rocketpy.proxy.group_config import GroupConfig
from rocketpy.proxy.handles import ReceiptHandle, popped
from rocketpy.proxy.messages import received_message
from rocketpy.proxy.receiving import Receiving
from rocketpy.proxy.settings import ProxySettings
from rocketpy.proxy.status import OK, ProxyError, status
from rocketpy.remoting.records import read_records
from tests.unit.native import check, ffi, lib
from tests.unit.proxy.test_native_sending import slice_of

SETTINGS = ProxySettings(namesrv_addr="127.0.0.1:9876")
REMAINING_MS, REQUEST_TIMEOUT_MS = 18_000, 3001
CONTEXT = Context("client", "JAVA", "5.0.4", "10.0.0.7", lambda: REMAINING_MS)
EMPTY = decode_command(encode_command(210))
NOW_MS = now_ms()
POP_MS = NOW_MS + 3_600_000
BY_DEFAULT = GroupConfig()


class Cluster:
    """In the place of Brokers: notes the request, and gives an answer."""

    def __init__(self, answer: Command, group: GroupConfig) -> None:
        self.answer = answer
        self.config = group
        self.asked: tuple[str, int, Mapping[str, str]] | None = None

    async def readable_brokers(self, topic: str) -> list[str]:
        return ["broker-a", "broker-b"]

    async def group(self, group: str) -> GroupConfig:
        return self.config

    async def call(self, broker: str, code: int, header: Any, *, timeout_s: float = 3) -> Command:
        self.asked = (broker, int(code), header.encode())
        return self.answer


class Clients:
    def known(self, client_id: str) -> Any:
        timeout = schema.message("Settings")()
        timeout.request_timeout.FromMilliseconds(REQUEST_TIMEOUT_MS)
        return SimpleNamespace(settings=timeout, is_lite=False)

    def get(self, client_id: str) -> Any:
        return self.known(client_id)


# ---- what a broker is asked ----


def by_python(request: bytes, group: GroupConfig = BY_DEFAULT, limits: ProxySettings = SETTINGS) -> tuple[str, int, Any] | None:
    """What the broker was asked; None: the request is refused."""
    cluster = Cluster(EMPTY, group)
    receiving = Receiving(limits, cluster, Clients())  # type: ignore[arg-type]

    async def run() -> None:
        async for _ in receiving.receive_message(CONTEXT, schema.message("ReceiveMessageRequest").FromString(request)):
            pass

    try:
        asyncio.run(run())
    except DecodeError:
        return None
    return cluster.asked


def rules_of(limits: ProxySettings) -> Any:
    return ffi.new(
        "rp_receive_rules *",
        {
            "polling_min": limits.grpc_client_consumer_min_long_polling_timeout_millis,
            "polling_max": limits.grpc_client_consumer_max_long_polling_timeout_millis,
            "invisible_min": limits.min_invisible_time_mills_for_recv,
            "invisible_max": limits.max_invisible_time_mills,
            "invisible_renewed": limits.default_invisible_time_mills,
            "may_renew": limits.enable_proxy_auto_renew,
        },
    )


def command_of(command: Any) -> Command:
    frame = ffi.new("uint8_t[]", lib.rp_command_size_max(ffi.addressof(command)))
    written = check(lib.rp_command_encode(ffi.addressof(command), frame, len(frame)))
    return decode_command(bytes(ffi.buffer(frame, written)))


def text_of(part: Any) -> str:
    return bytes(ffi.buffer(part.data, part.size)).decode() if part.size else ""


def by_c(request: bytes, orderly: bool = False, limits: ProxySettings = SETTINGS) -> tuple[str, Command] | None:
    """(the broker that is wanted, what it is asked); None: that is left to Python."""
    keep: list[Any] = []
    rules, received, pop = rules_of(limits), ffi.new("rp_received_request *"), ffi.new("rp_pop_command *")
    if not lib.rp_received_request_read(slice_of(request, keep), rules, received):
        return None
    polling_ms = lib.rp_receive_polling_ms(received, rules, REMAINING_MS, REQUEST_TIMEOUT_MS // 2)
    if polling_ms < 0:
        return None
    lib.rp_pop_command_fill(pop, received, polling_ms, NOW_MS, orderly)
    return text_of(received.broker), command_of(pop.command)


def compare(request: bytes, orderly: bool = False, limits: ProxySettings = SETTINGS) -> bool:
    """Whether the request went the native way; where it did, it says what Python's says."""
    asked = by_python(request, GroupConfig(orderly=orderly), limits)
    native = by_c(request, orderly, limits)
    if native is None:
        return False
    assert asked is not None, "Python refuses it"
    (broker, command), (theirs, code, fields) = native, asked
    ours = dict(command.fields)
    assert broker == theirs or broker not in ("broker-a", "broker-b")
    assert int(ours.pop("bornTime")) == NOW_MS
    assert (command.code, ours) == (code, {name: value for name, value in fields.items() if name != "bornTime"})
    assert (command.language, command.version, command.body) == (3, 479, b"")
    return True


def duration(ms: int) -> dict[str, int]:
    return {"seconds": ms // 1000, "nanos": ms % 1000 * 1_000_000}


ENDPOINTS = {"scheme": 1, "addresses": [{"host": "127.0.0.1", "port": 8081}]}


def request_of(topic: str = "t", group: str = "g", broker: str = "broker-b", **fields: Any) -> bytes:
    queue = {"topic": {"name": topic}, "id": 3, "permission": 3, "broker": {"name": broker, "id": 0, "endpoints": ENDPOINTS}}
    queue["accept_message_types"] = [1, 2, 3]
    given = {"batch_size": 8, "invisible_duration": duration(30_000), "filter_expression": {"type": 1, "expression": "*"}} | fields
    request = schema.message("ReceiveMessageRequest")(group={"name": group}, message_queue=queue, **given)
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"broker": "unknown"},
        {"batch_size": 0},
        {"batch_size": 1000},
        {"filter_expression": {}},
        {"filter_expression": {"type": 1, "expression": " a ||b|| |c"}},
        {"filter_expression": {"type": 2, "expression": "color = 'red' AND size > 3"}},
        {"auto_renew": True, "invisible_duration": duration(1)},
        {"long_polling_timeout": duration(1)},
        {"long_polling_timeout": duration(7123)},
        {"long_polling_timeout": duration(60_000)},
        {"attempt_id": ""},
        {"attempt_id": 'an "attempt" \\ ü'},
        {"topic": "%DLQ%g-1", "group": "group_2"},
    ],
    ids=range(14),
)
def test_usual_requests_go_without_python_and_say_the_same(fields: dict[str, Any]) -> None:
    assert compare(request_of(**fields))
    assert compare(request_of(**fields), orderly=True)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        request_of(topic=""),
        request_of(topic="a b"),
        request_of(topic="TBW102"),
        request_of(group=""),
        request_of(group="CID_RMQ_SYS_x"),
        request_of(batch_size=-1),
        request_of(invisible_duration=duration(9_999)),
        request_of(invisible_duration=duration(43_200_001)),
        request_of(invisible_duration={"seconds": 30, "nanos": -1}),
        request_of(filter_expression={"type": 1, "expression": " || "}),
        request_of(filter_expression={"type": 1, "expression": "tag\u00e4"}),
        request_of(filter_expression={"type": 1, "expression": "a\x01"}),
        request_of(filter_expression={"type": 1, "expression": "a" * 1025}),
        request_of(filter_expression={"type": 7, "expression": "a"}),
        request_of(filter_expression={"type": 2}),
        request_of(long_polling_timeout={"seconds": -1}),
        request_of(attempt_id="a" * 257),
        request_of()[:-1],
        request_of() + b"\x0a\x03\x12\x01g",
        request_of() + b"\x4a\x01x",
        request_of().replace(b"127.0.0.1", b"127.0.0.\xff"),
        request_of(broker="xyz").replace(b"xyz", b"x\xffz"),
    ],
    ids=range(23),
)
def test_what_is_unusual_or_wrong_is_left_to_python(request_bytes: bytes) -> None:
    assert not compare(request_bytes)


SEED = request_of(attempt_id="attempt", long_polling_timeout=duration(7000))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_damaged_requests_say_the_same_or_are_left_to_python(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(SEED)
    for place, byte in changes:
        damaged[place] = byte
    compare(bytes(damaged))


@pytest.mark.parametrize(
    ("remaining_ms", "polling_ms"), [(30_000, 20_000), (18_000, 16_500), (6_000, 5_000), (5_000, 5_000), (4_999, None)]
)
def test_a_broker_polls_for_as_long_as_python_says(remaining_ms: int, polling_ms: int | None) -> None:
    context = Context("client", "JAVA", "5.0.4", "h", lambda: remaining_ms)
    receiving = Receiving(SETTINGS, None, Clients())  # type: ignore[arg-type]
    request = schema.message("ReceiveMessageRequest")()
    received = ffi.new("rp_received_request *", {"polling_ms": -1})
    native = lib.rp_receive_polling_ms(received, rules_of(SETTINGS), remaining_ms, REQUEST_TIMEOUT_MS // 2)
    if polling_ms is None:
        with pytest.raises(ProxyError):
            receiving._polling_ms(context, request)
        assert native == -1
    else:
        assert receiving._polling_ms(context, request) == polling_ms == native


# ---- what a client is answered ----

PROPERTIES = {"UNIQ_KEY": "01AB", "TAGS": "T", "KEYS": "k1  k2", "color": "red"}


def record(
    properties: Mapping[str, str] | bytes = PROPERTIES,
    body: bytes = b"body",
    topic: str = "t",
    *,
    queue_id: int = 2,
    offset: int = 7,
    log_offset: int = 4096,
    sys_flag: int = 0,
    times: int = 0,
    born_ms: int = 1_700_000_000_123,
    stored_ms: int = 1_700_000_000_456,
) -> bytes:
    text = properties if isinstance(properties, bytes) else write_properties(properties).encode()
    host = struct.pack(">4sI", bytes([10, 0, 0, 7]), 10911)
    middle = struct.pack(">IiiQqiq", 0, queue_id, 0, offset, log_offset, sys_flag, born_ms)
    middle += host if not sys_flag & 0x10 else struct.pack(">16sI", b"\x20\x01" + bytes(13) + b"\x01", 5)
    middle += struct.pack(">q", stored_ms) + (host if not sys_flag & 0x20 else struct.pack(">16sI", bytes(15) + b"\x01", 10911))
    middle += struct.pack(">iqI", times, 0, len(body)) + body
    tail = bytes([len(topic)]) + topic.encode() + struct.pack(">H", len(text)) + text
    return struct.pack(">II", 8 + len(middle) + len(tail), 0xDAA320A7) + middle + tail


FIELDS = {"popTime": str(POP_MS), "invisibleTime": "60000", "reviveQid": "3", "startOffsetInfo": "0 2 5;1 2 9;0 3 x y", "restNum": "0"}


def python_answer(fields: Mapping[str, str], body: bytes) -> list[bytes] | None:
    answer = schema.message("ReceiveMessageResponse")
    try:
        found = popped(fields, read_records(body), "broker-a", "t")
    except ProtocolError:
        return None
    return [answer(message=received_message(each, NOW_MS)).SerializeToString() for each in found]


def native_answer(fields: Mapping[str, str], body: bytes) -> list[bytes] | None:
    keep: list[Any] = []
    command, error = ffi.new("rp_command *"), ffi.new("rp_error *")
    frame = encode_command(0, dict(fields), body, flag=1)
    arena = ffi.gc(lib.rp_arena_create(65536, 1 << 24), lib.rp_arena_destroy)
    keep.append(ffi.new("uint8_t[]", frame))
    check(lib.rp_command_decode(keep[-1], len(frame), arena, command, error), error)
    answer, each, received = ffi.new("rp_pop_answer *"), ffi.new("rp_popped_message *"), ffi.new("rp_received_message *")
    if not lib.rp_pop_answer_read(answer, command, slice_of(b"broker-a", keep)):
        return None
    found = []
    while lib.rp_pop_answer_next(answer, arena, each):
        assert lib.rp_received_message_fill(received, each, slice_of(b"t", keep), NOW_MS, arena)
        target = ffi.new("uint8_t[]", received.size)
        lib.rp_received_message_write(received, target)
        found.append(bytes(ffi.buffer(target)))
    return found


def compare_answers(body: bytes, fields: Mapping[str, str] = FIELDS) -> list[bytes]:
    """The same messages; the same bytes, but for the order of a producer's own properties, and those that are there twice."""
    is_twice_there = body.count(b"a\x01") > 1
    ours, theirs = native_answer(fields, body), python_answer(fields, body)
    assert ours is not None and theirs is not None and len(ours) == len(theirs)
    kind = schema.message("ReceiveMessageResponse")
    for mine, other in zip(ours, theirs, strict=True):
        assert kind.FromString(mine) == kind.FromString(other)
        assert len(kind.FromString(other).message.user_properties) > 1 or mine == other or is_twice_there
    return ours


@pytest.mark.parametrize(
    "body",
    [
        b"",
        record(),
        record() + record(body=b"", offset=8, queue_id=0) + record({}, offset=0, queue_id=-1, log_offset=0),
        record({"KEYS": " ", "TAGS": "", "UNIQ_KEY": ""}),
        record({"": "x", "y": "", "z": "\x01"}),
        record(b"no separator\x02name\x01value"),
        record(b"a\x01b\x02\x02\x02a\x01c"),
        record(sys_flag=1 | 0x10 | 0x20, body=bytes(range(256)) * 5),
        record({"TRAN_MSG": "true", "DELAY": "3"}),
        record({"TRAN_MSG": "True", "DELAY": "3"}),
        record({"TIMER_DELIVER_MS": "1700000000789", "__SHARDINGKEY": "group"}),
        record({"TIMER_DELIVER_MS": "9" * 19}),
        record({"TIMER_DELIVER_MS": "9" * 20, "TIMER_DELAY_SEC": "-1"}),
        record({"TIMER_DELIVER_MS": "5", "TIMER_DELAY_SEC": "60"}),
        record({"TIMER_DELAY_SEC": "9999999999999999999"}),
        record({"__SHARDINGKEY": "group", "TRACE_CONTEXT": "trace"}),
        record({"__BORNHOST": "host", "DLQ_ORIGIN_TOPIC": "o", "DLQ_ORIGIN_MESSAGE_ID": ""}),
        record({"DLQ_ORIGIN_TOPIC": "o"}),
        record({"_SYS_MSG_PRIORITY_": "0"}),
        record({"_SYS_MSG_PRIORITY_": "2147483647", "__LITE_TOPIC": "lite"}),
        record({"_SYS_MSG_PRIORITY_": "2147483648", "__SHARDINGKEY": "group"}),
        record({"_SYS_MSG_PRIORITY_": "-1", "__LITE_TOPIC": ""}),
        record({"__LITE_TOPIC": "lite", "TIMER_DELAY_MS": "5"}),
        record({"POP_CK": f"4 {POP_MS} 60000 1 2 broker-b 2 7"}),
        record({"POP_CK": f"4 {POP_MS} 60000 1 2 broker-b 2 7 99"}),
        record({"POP_CK": "what a stranger writes"}),
        record(topic="%RETRY%g_t"),
        record(topic="%RETRY%g+t", times=3),
        record(times=-1),
        record(times=(1 << 31) - 1),
        record(born_ms=-1, stored_ms=1 << 62),
        record(born_ms=-(1 << 62), stored_ms=0),
        record({"color": "ü\U0001f680" * 300, "KEYS": "k " * 700}),
    ],
    ids=range(33),
)
def test_messages_are_the_same_to_the_byte(body: bytes) -> None:
    compare_answers(body)


def test_a_message_without_an_id_is_called_by_its_place_as_rocketmqs_proxy_does() -> None:
    for name, sys_flag, place in ((None, 0, 4096), (None, 0x20, 1), ("", 0, 1), ("\t ", 0, -1)):
        (answer,) = compare_answers(record({} if name is None else {"UNIQ_KEY": name}, sys_flag=sys_flag, log_offset=place))
        said = schema.message("ReceiveMessageResponse").FromString(answer).message.system_properties.message_id
        assert said == ("0" * 31 + "1" if sys_flag else "0A000007") + f"{10911:08X}{place & (1 << 64) - 1:016X}"


@pytest.mark.parametrize("counts", ["0 2 4", "0 qo2%7 5;0 2 4", "1 2 6;0 2", "0 2 0", "0 2 99999999999"])
def test_how_often_a_message_came_is_what_the_broker_says(counts: str) -> None:
    compare_answers(record(times=2) + record(topic="%RETRY%g_t", times=2), {**FIELDS, "orderCountInfo": counts})


def test_what_is_no_text_is_shown_as_such() -> None:
    (message,) = native_answer(FIELDS, record(b"TAGS\x01a\xffb\x02\xc3\x01\xe2\x82\x02")) or []
    shown = schema.message("ReceiveMessageResponse").FromString(message).message
    assert shown.system_properties.tag == "a\ufffdb" and dict(shown.user_properties) == {"\ufffd": "\ufffd"}


@pytest.mark.parametrize(
    ("changed", "body"),
    [
        ({"popTime": ""}, record()),
        ({"popTime": "x"}, record()),
        ({"invisibleTime": "1e3"}, record()),
        ({"reviveQid": ""}, record()),
        ({"startOffsetInfo": "0 2 x"}, record()),
        ({"orderCountInfo": "0 2 x"}, record()),
        ({}, record()[:-1]),
        ({}, record() + b"\0"),
        ({}, record().replace(b"\xda\xa3\x20\xa7", b"\xcb\xd4\x31\x94")),
        ({}, b"\0" * 100),
    ],
    ids=range(10),
)
def test_an_answer_that_cannot_be_read_is_none(changed: dict[str, str], body: bytes) -> None:
    fields = {name: value for name, value in (FIELDS | changed).items() if value}
    assert native_answer(fields, body) is None and python_answer(fields, body) is None


@settings(max_examples=60)
@example([(17, 0x80), (90, 0xFF)])
@given(st.lists(st.tuples(st.integers(0, len(record()) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_damaged_records_are_the_same_or_none(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(record())
    for place, byte in changes:
        damaged[place] = byte
    ours, theirs = native_answer(FIELDS, bytes(damaged)), python_answer(FIELDS, bytes(damaged))
    assert (ours is None) == (theirs is None)


def test_more_than_was_asked_for_is_no_answer() -> None:
    assert native_answer(FIELDS, record({}) * 1024) is not None and native_answer(FIELDS, record({}) * 1025) is None
    assert native_answer({**FIELDS, "startOffsetInfo": "0 2 5;" * 11_000}, record()) is None


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 4096, 100_001])
def test_digests_are_those_of_every_length(size: int) -> None:
    compare_answers(record({}, bytes(number * 7 % 256 for number in range(size))))


@pytest.mark.parametrize(("code", "text"), [("OK", ""), ("MESSAGE_NOT_FOUND", "no new message")])
def test_statuses_and_times_are_the_same_to_the_byte(code: str, text: str) -> None:
    answer = schema.message("ReceiveMessageResponse")
    native = ffi.new("rp_answer_status *")
    if text:
        lib.rp_answer_status_set(native, schema.number("Code", code), b"%s", ffi.new("char[]", text.encode()))
    else:
        lib.rp_answer_status_name(native, schema.number("Code", code))
    target = ffi.new("uint8_t[]", lib.rp_received_status_size(native))
    lib.rp_received_status_write(native, target)
    assert bytes(ffi.buffer(target)) == answer(status=status(code, text) if text else status(OK)).SerializeToString()
    last = answer()
    last.delivery_timestamp.FromMilliseconds(NOW_MS)
    target = ffi.new("uint8_t[]", lib.RP_DELIVERED_SIZE_MAX)
    assert bytes(ffi.buffer(target, lib.rp_delivered_write(NOW_MS, target))) == last.SerializeToString()


# ---- ChangeInvisibleDuration ----

HANDLE = f"5 {POP_MS} 60000 3 0 broker-a 1 7 4096"
CHANGED = decode_command(encode_command(0, {"popTime": str(POP_MS + 5), "invisibleTime": "1000", "reviveQid": "2"}))


def change_by_python(request: bytes, answer: Command = CHANGED) -> tuple[Any, bytes]:
    cluster = Cluster(answer, GroupConfig())
    receiving = Receiving(SETTINGS, cluster, Clients())  # type: ignore[arg-type]
    try:
        given = schema.message("ChangeInvisibleDurationRequest").FromString(request)
        return cluster.asked, asyncio.run(receiving.change_invisible_duration(CONTEXT, given)).SerializeToString()
    except (DecodeError, ProxyError):
        return cluster.asked, b""


def change_by_c(request: bytes, answer: Command = CHANGED) -> tuple[str, Command, bytes] | None:
    """(which broker, what it is asked, what the client is answered)."""
    keep: list[Any] = []
    changed, handle, change = ffi.new("rp_changed_message *"), ffi.new("rp_receipt_handle *"), ffi.new("rp_change_command *")
    if not lib.rp_changed_message_read(slice_of(request, keep), SETTINGS.max_invisible_time_mills, changed):
        return None
    if not lib.rp_receipt_handle_read(changed.handle, handle) or handle.visible_ms <= now_ms():
        return None
    lib.rp_change_command_fill(change, changed.topic, changed.group, changed.invisible_ms, changed.handle, handle)
    command, error, result = ffi.new("rp_command *"), ffi.new("rp_error *"), ffi.new("rp_change_answer *")
    frame = encode_command(answer.code, dict(answer.fields), remark=answer.remark, flag=1, serialize_type=1)
    keep.append(ffi.new("uint8_t[]", frame))
    check(lib.rp_command_decode(keep[-1], len(frame), ffi.NULL, command, error), error)
    lib.rp_change_answer_of(result, handle, command)
    target = ffi.new("uint8_t[]", lib.rp_change_answer_size(result))
    lib.rp_change_answer_write(result, target)
    return text_of(handle.broker), command_of(change.command), bytes(ffi.buffer(target))


def compare_changes(request: bytes) -> bool:
    _, answered = change_by_python(request)
    asked = Cluster(CHANGED, GroupConfig())
    receiving = Receiving(SETTINGS, asked, Clients())  # type: ignore[arg-type]
    native = change_by_c(request)
    if native is None:
        return False
    given = schema.message("ChangeInvisibleDurationRequest").FromString(request)
    asyncio.run(receiving.change_invisible_duration(CONTEXT, given))
    broker, command, answer = native
    assert (broker, command.code, dict(command.fields)) == asked.asked
    assert answer == answered
    return True


def change_of(handle: str = HANDLE, ms: int = 30_000, topic: str = "t", group: str = "g", **fields: Any) -> bytes:
    request = schema.message("ChangeInvisibleDurationRequest")(
        topic={"name": topic}, group={"name": group}, receipt_handle=handle, invisible_duration=duration(ms), message_id="M", **fields
    )
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(
    "handle", [HANDLE, HANDLE.rpartition(" ")[0], f"-1 {POP_MS} 60000 0 1 b 0 0", f"0 {POP_MS} 1 7 2 b%a 1 2 0"], ids=range(4)
)
@pytest.mark.parametrize("ms", [0, 1, 43_200_000])
def test_usual_changes_go_without_python_and_say_the_same(handle: str, ms: int) -> None:
    assert compare_changes(change_of(handle, ms))


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        change_of("x"),
        change_of(ms=43_200_001),
        change_of(topic="a b"),
        change_of(group=""),
        change_of(lite_topic="l"),
        change_of(suspend=True),
        change_of(f"5 {now_ms() - 60001} 60000 3 0 broker-a 1 7 4096"),
        change_of()[:-1],
    ],
    ids=range(9),
)
def test_changes_that_are_unusual_or_wrong_are_left_to_python(request_bytes: bytes) -> None:
    assert not compare_changes(request_bytes)


def test_a_change_that_failed_says_why() -> None:
    failed = decode_command(encode_command(1, remark="no"))
    native = change_by_c(change_of(), failed)
    assert native is not None
    answer = schema.message("ChangeInvisibleDurationResponse").FromString(native[2])
    assert answer.status.message == "changeInvisibleDuration failed: no" and answer.receipt_handle == ""
    native = change_by_c(change_of(), decode_command(encode_command(0, {"popTime": "1"})))
    assert native is not None
    answer = schema.message("ChangeInvisibleDurationResponse").FromString(native[2])
    assert "cannot be read" in answer.status.message and "broker-a" in answer.status.message


# ---- what is known ----


def test_messages_that_were_received_natively_are_told_once_they_have_been_held_for_long() -> None:
    native = Proxy()
    held = lib.rp_held_handles_create()
    keep: list[Any] = []

    def hold(first: str, since_ms: int) -> None:
        key = {"client_id": slice_of(b"c", keep), "group": slice_of(b"g", keep), "first": slice_of(first.encode(), keep)}
        texts = {"topic": slice_of(b"t", keep), "message_id": slice_of(b"M", keep)}
        message = ffi.new("rp_held_message *", {"key": key, **texts, "since_ms": since_ms, "attempts": 2})
        assert lib.rp_held_handles_hold_received(held, message) == 0

    def told(before_ms: int) -> str:
        found = lib.rp_held_handles_tell(held, before_ms)
        if found == ffi.NULL:
            return ""
        text = text_of(found.key.first)
        keep.append(found)
        return text

    for number, since_ms in enumerate((10, 20, 30, 10**9)):
        hold(f"h{number}", since_ms)
    assert [told(25) for _ in range(3)] == ["h0", "h1", ""]
    taken = ffi.new("rp_held_handle **")
    key = ffi.new("rp_held_key *", {"client_id": slice_of(b"c", keep), "group": slice_of(b"g", keep), "first": slice_of(b"h2", keep)})
    assert lib.rp_held_handles_take(held, key, taken) == lib.RP_HELD
    assert told(31) == "h3", "of a clock that was turned back; h2 is taken"
    lib.rp_held_handles_give_back(held, taken[0])
    assert told(31) == "h2" and told(31) == ""
    lib.rp_held_handles_destroy(held)
    assert native.tell_held(NOW_MS) is None
    native.close()


def test_clients_and_readings_that_cannot_be_are_refused() -> None:
    native = Proxy()
    with pytest.raises(InvalidArgument):
        native.put_client("", 1)
    assert all(native.put_client(f"c{number}", 1) for number in range(65_536)) and not native.put_client("more", 1)
    native.forget_client("c7")
    native.forget_client("nobody")
    assert native.put_client("more", 1)
    times = {"is_orderly": False, "retries": 16, "ask_again_ns": 1 << 62, "ends_ns": 1 << 62}
    assert native.put_reading("t" * 127, "g" * 120, [("b", b"\x7f\0\0\1", 1)], **times)
    with pytest.raises(InvalidArgument):
        native.put_reading("t" * 127, "g" * 257, [("b", b"\x7f\0\0\1", 1)], **times)
    native.forget_reading("t" * 127, "g" * 120)
    native.forget_reading("t" * 999, "g")
    native.close()


def test_a_handle_that_a_broker_wrote_is_read_as_written_and_nothing_else() -> None:
    assert ReceiptHandle.written(HANDLE) is not None
    for text in ("", "x", HANDLE.replace(" 7 ", " 07 "), HANDLE + " "):
        assert ReceiptHandle.written(text) is None
