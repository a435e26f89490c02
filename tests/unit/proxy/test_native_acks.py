"""AckMessage without Python beside receiving.py, which is its specification; and what both know together: messages that are renewed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy._core.errors import InvalidArgument
from rocketpy._core.proxy import Proxy
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.broker.names import SYSTEM_TOPICS
from rocketpy.proxy import schema
from rocketpy.proxy.clients import Clients
from rocketpy.proxy.context import Context, now_ms
from rocketpy.proxy.handles import ReceiptHandle
from rocketpy.proxy.receiving import Receiving
from rocketpy.proxy.renewals import HANDLES_MAX, Held, Renewals
from rocketpy.proxy.settings import ProxySettings
from rocketpy.proxy.status import ProxyError
from rocketpy.proxy.validation import group_of, topic_of
from tests.unit.native import check, ffi, lib
from tests.unit.proxy.test_native_sending import slice_of

SETTINGS = ProxySettings(namesrv_addr="127.0.0.1:9876")
CONTEXT = Context("client", "JAVA", "5.0.0", "10.0.0.7", lambda: 3000)
DONE = decode_command(encode_command(0))
POP_MS = now_ms() + 3_600_000  # the others' tests may come first
HANDLE = f"5 {POP_MS} 60000 3 0 broker-a 1 7 4096"


class Cluster:
    """In the place of Brokers: notes the requests, and gives answers, the last of them again and again."""

    def __init__(self, *answers: Command) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int, Mapping[str, str]]] = []

    async def call(self, broker: str, code: int, header: Any) -> Command:
        self.asked.append((broker, int(code), header.encode()))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def by_python(request: bytes, *answers: Command) -> tuple[list[tuple[str, int, Mapping[str, str]]], bytes]:
    """(what brokers were asked, what the client was answered); nothing of what is refused as a whole."""
    cluster = Cluster(*answers or (DONE,))
    receiving = Receiving(SETTINGS, cluster, Clients(now_ms, 1))  # type: ignore[arg-type]
    try:
        response = asyncio.run(receiving.ack_message(CONTEXT, schema.message("AckMessageRequest").FromString(request)))
    except (DecodeError, ProxyError):
        return [], b""
    return cluster.asked, response.SerializeToString()


def by_c(request: bytes) -> list[tuple[str, int, Mapping[str, str]]] | None:
    """What brokers are asked; None: that is left to Python."""
    keep: list[Any] = []
    acked, handle, ack = ffi.new("rp_acked_messages *"), ffi.new("rp_receipt_handle *"), ffi.new("rp_ack_command *")
    if not lib.rp_acked_messages_read(slice_of(request, keep), acked):
        return None
    asked = []
    for message in acked.messages[0 : acked.count]:
        if not lib.rp_receipt_handle_read(message.handle, handle) or handle.visible_ms <= now_ms():
            return None
        lib.rp_ack_command_fill(ack, acked.topic, acked.group, message.handle, handle)
        frame = ffi.new("uint8_t[]", lib.rp_command_size_max(ffi.addressof(ack.command)))
        written = check(lib.rp_command_encode(ffi.addressof(ack.command), frame, len(frame)))
        command = decode_command(bytes(ffi.buffer(frame, written)))
        assert (command.language, command.version) == (3, 479)
        asked.append((bytes(ffi.buffer(handle.broker.data, handle.broker.size)).decode(), command.code, dict(command.fields)))
    return asked


def compare(request: bytes) -> bool:
    """Whether the request went the native way; where it did, it says what Python's says."""
    native = by_c(request)
    if native is None:
        return False
    asked, _ = by_python(request)
    assert native == asked, "Python refuses it, or says something else"
    return True


def encoded(*entries: Any, topic: str = "t", group: str = "g", **fields: Any) -> bytes:
    request = schema.message("AckMessageRequest")(topic={"name": topic}, group={"name": group}, entries=entries, **fields)
    return bytes(request.SerializeToString())


def entry(handle: str = HANDLE, message_id: str = "M1", **fields: Any) -> Any:
    return {"message_id": message_id, "receipt_handle": handle, **fields}


@pytest.mark.parametrize(
    "handle",
    [
        HANDLE,
        HANDLE.rpartition(" ")[0],
        f"-1 {POP_MS} 60000 0 1 b 0 0",
        f"0 {POP_MS} 60000 7 2 Broker.a%b|c_d-e 12 123456789012345678 0",
    ],
    ids=["a message", "no log offset", "of a retry topic", "of its second version"],
)
def test_usual_acknowledgements_go_without_python_and_say_the_same(handle: str) -> None:
    assert compare(encoded(entry(handle), topic="%DLQ%g-1", group="group_2"))
    assert compare(encoded(entry(handle), entry(message_id=""), entry(handle, "M2"), entry(handle, "M2")))


def test_as_many_as_are_received_at_once_are_acknowledged_at_once() -> None:
    handles = [HANDLE.replace(" 7 ", f" {number} ") for number in range(33)]
    assert compare(encoded(*map(entry, handles[:32])))
    assert by_c(encoded(*map(entry, handles))) is None


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        encoded(),
        encoded(entry(), entry("x"), entry()),
        encoded(entry(), entry(lite_topic="l")),
        encoded(entry(), topic=""),
        encoded(entry(), topic="a b"),
        encoded(entry(), topic="t" * 128),
        encoded(entry(), topic="TBW102"),
        encoded(entry(), group=""),
        encoded(entry(), group="CID_RMQ_SYS_x"),
        encoded(entry(""), group="g"),
        encoded(entry("x")),
        encoded(entry(HANDLE + " ")),
        encoded(entry(HANDLE + " 1")),
        encoded(entry(HANDLE.replace(" 7 ", " 07 "))),
        encoded(entry(HANDLE.replace(" 7 ", " +7 "))),
        encoded(entry(HANDLE.replace(" 0 ", " 3 "))),
        encoded(entry(HANDLE.replace("broker-a", "b" * 256))),
        encoded(entry(HANDLE.replace(" 7 ", " 1234567890123456789 "))),
        encoded(entry(f"5 {now_ms() - 60001} 60000 3 0 broker-a 1 7 4096")),
        encoded(entry(lite_topic="l")),
        encoded(entry(message_id="m" * 129)),
        encoded(entry())[:-1],
        encoded(entry()) + b"\x12\x03\x12\x01t",
        encoded(entry(message_id="xyz")).replace(b"xyz", b"\xc3\x28z"),
    ],
    ids=range(25),
)
def test_what_is_unusual_or_wrong_is_left_to_python(request_bytes: bytes) -> None:
    assert not compare(request_bytes)


SEED = encoded(entry())


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_damaged_acknowledgements_say_the_same_or_are_left_to_python(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(SEED)
    for place, byte in changes:
        damaged[place] = byte
    compare(bytes(damaged))


def is_named(check_name: Any, name: str) -> bool:
    try:
        check_name(schema.message("Resource")(name=name))
    except ProxyError:
        return False
    return True


@pytest.mark.parametrize(
    "name", [*sorted(SYSTEM_TOPICS), "", "a", "Z9", "a.b", "%a|b_-", "rmq_sys_x", "rmq_sy", "CID_RMQ_SYS_", "ü", "a" * 256, "a" * 127]
)
def test_names_are_those_that_the_python_way_allows(name: str) -> None:
    keep: list[Any] = []
    native = slice_of(name.encode(), keep)
    assert bool(lib.rp_resource_is_topic(native)) == is_named(topic_of, name)
    assert bool(lib.rp_resource_is_group(native)) == is_named(group_of, name)


def answered_by_c(request: bytes, *answers: tuple[int, str | None]) -> bytes:
    keep: list[Any] = []
    acked = ffi.new("rp_acked_messages *")
    assert lib.rp_acked_messages_read(slice_of(request, keep), acked)
    failed = ffi.new("rp_answer_status *[]", len(answers))
    for number, (code, remark) in enumerate(answers):
        command, error, status = ffi.new("rp_command *"), ffi.new("rp_error *"), ffi.new("rp_answer_status *")
        frame = encode_command(code, remark=remark, flag=1, serialize_type=1)
        keep += [status, ffi.new("uint8_t[]", frame)]
        check(lib.rp_command_decode(keep[-1], len(frame), ffi.NULL, command, error), error)
        lib.rp_ack_status_of(status, command)
        if code != 0:
            failed[number] = status
    target = ffi.new("uint8_t[]", lib.rp_ack_answer_size(acked, failed))
    lib.rp_ack_answer_write(acked, failed, target)
    return bytes(ffi.buffer(target))


@pytest.mark.parametrize("code", [0, 1, 2, 17, 4711])
@pytest.mark.parametrize("remark", [None, "[NODE] причина"])
def test_an_answer_is_the_same_to_the_byte(code: int, remark: str | None) -> None:
    request, answer = encoded(entry()), decode_command(encode_command(code, remark=remark))
    assert answered_by_c(request, (code, remark)) == by_python(request, answer)[1]


@pytest.mark.parametrize("codes", [(0, 0, 0), (1, 1, 2), (0, 1, 0), (1, 0, 0), (0, 0, 1)], ids=str)
def test_an_answer_about_several_is_the_same_to_the_byte(codes: tuple[int, ...]) -> None:
    request = encoded(entry(), entry(message_id=""), entry(HANDLE.rpartition(" ")[0], "M3"))
    answers = [decode_command(encode_command(code, remark=f"broker {code}")) for code in codes]
    assert answered_by_c(request, *((code, f"broker {code}") for code in codes)) == by_python(request, *answers)[1]


def test_codes_have_the_protocols_names_and_any_other_is_an_internal_error() -> None:
    for place in range(lib.RP_ANSWER_CODES):
        code = lib.rp_answer_code_at(place)
        assert schema.number("Code", ffi.string(lib.rp_answer_code_name(code)).decode()) == code
    assert ffi.string(lib.rp_answer_code_name(4711)) == b"INTERNAL_SERVER_ERROR"
    assert lib.rp_answer_code_at(lib.rp_answer_code_place(4711)) == schema.number("Code", "INTERNAL_SERVER_ERROR")


# ---- messages that are renewed ----


def held(first: str = HANDLE, client_id: str = "c") -> Held:
    return Held(client_id, "g", "t", "M1", first, ReceiptHandle.parse(HANDLE), POP_MS, 2000)


def test_a_message_is_taken_once_and_renewed_by_nobody_then() -> None:
    native = Proxy()
    renewals = Renewals(SETTINGS, native)
    for number in range(3):
        renewals.add(held(f"h{number}"))
    assert native.forget_held("c", "g", "h0")  # what an acknowledgement does
    assert renewals.take("c", "g", "h0") is None and renewals.take("c", "g", "h1") is not None
    assert not native.is_held("c", "g", "h1") and len(renewals) == 1
    native.forget_held("c", "g", "h2")
    assert renewals.due(POP_MS, lambda client, group: True) == [] and len(renewals) == 0, "found missing"
    renewals.add(held("h3"))
    renewals.add(held("h4"))
    native.forget_held("c", "g", "h3")
    (renewal,) = renewals.due(POP_MS + 50_000, lambda client, group: True)
    assert renewal.held.first == "h4" and not native.begin_renewal("c", "g", "h4"), "it is under way"
    renewals.renewed(renewal.held, ReceiptHandle(1, POP_MS + 50_000, 60_000, 0, "0", "b", 0, 1))
    assert native.begin_renewal("c", "g", "h4")
    native.end_renewal("c", "g", "h4")
    renewals.refused(renewal.held, is_final=True)
    assert not native.is_held("c", "g", "h4") and len(renewals) == 0
    renewals.add(held("h5"))
    native.forget_held("c", "g", "h5")
    assert renewals.due(POP_MS, lambda client, group: False) == [] and len(renewals) == 0, "its client is gone, and so is it"
    native.close()


def test_handles_are_told_from_each_other_by_client_group_and_text() -> None:
    native = Proxy()
    assert native.hold("c", "g", "h") and native.hold("c", "g", "h")
    for key in (("c2", "g", "h"), ("c", "g2", "h"), ("c", "g", "h2"), ("", "cg", "h")):
        assert not native.is_held(*key) and not native.forget_held(*key) and not native.begin_renewal(*key)
    native.end_renewal("c", "g", "nobody's", "x")
    assert native.forget_held("c", "g", "h") and not native.is_held("c", "g", "h")
    native.close()


def test_held_handles_are_as_many_as_they_may_be() -> None:
    native = Proxy()
    assert lib.RP_HELD_HANDLES_MAX == HANDLES_MAX
    assert all(native.hold("c", "g", str(number)) for number in range(HANDLES_MAX))
    assert not native.hold("c", "g", "more") and native.hold("c", "g", "7")
    assert native.forget_held("c", "g", "8") and native.hold("c", "g", "more")
    native.close()


@pytest.mark.skipif("ROCKETPY_LIBRARY" in os.environ, reason="a sanitizer keeps what was freed")
def test_one_that_cannot_be_opened_keeps_no_credentials() -> None:
    token = "x" * (1 << 20)

    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    before = resident_bytes()
    for _ in range(64):
        with pytest.raises(InvalidArgument, match="reactors 0"):
            Proxy(credentials=("key", "secret", token), reactors=0)
    assert resident_bytes() - before < 32 << 20


def test_brokers_and_routes_that_cannot_be_are_refused() -> None:
    native = Proxy()
    with pytest.raises(ValueError, match="bytes"):
        native.put_broker("b", b"123", 1)
    assert all(native.put_broker(f"b{number}", b"\x7f\0\0\1", 1) for number in range(4096)) and not native.put_broker("more", b"1234", 1)
    native.forget_broker("nobody")
    native.close()
