"""The frame codec as Python sees it: what is encoded comes back, what is wrong is refused with its cause."""

from __future__ import annotations

import socket

import pytest

from rocketpy._core.errors import InvalidArgument, ProtocolError, TooLarge
from rocketpy._core.remoting import decode_command, encode_command, scan_frame, scan_proxy_header

BOTH = pytest.mark.parametrize("serialize_type", [0, 1])


@BOTH
def test_a_command_survives_both_encodings(serialize_type: int) -> None:
    fields = {"topic": "Tést", "queueId": "3", "escaped": 'a"\\\n\t\x01', "emoji": "😀"}
    frame = encode_command(
        310, fields, b"\x00body\xff", opaque=-7, flag=2, remark='said "so"\n', language=9, version=413, serialize_type=serialize_type
    )
    command = decode_command(frame)
    assert (command.code, command.opaque, command.flag, command.language, command.version) == (310, -7, 2, 9, 413)
    assert command.fields == fields
    assert command.body == b"\x00body\xff"
    assert command.remark == 'said "so"\n'
    assert command.serialize_type == serialize_type
    assert command.is_oneway
    assert not command.is_response


@BOTH
def test_an_empty_command_has_no_remark_no_fields_and_an_empty_body(serialize_type: int) -> None:
    command = decode_command(encode_command(105, serialize_type=serialize_type))
    assert (command.remark, command.fields, command.body) == (None, {}, b"")


def test_scan_finds_whole_frames_only() -> None:
    frame = encode_command(105, {"topic": "T"})
    assert scan_frame(frame + b"more") == len(frame)
    assert all(scan_frame(frame[:size]) == 0 for size in range(len(frame)))


def test_scan_and_decode_take_any_buffer() -> None:
    frame = encode_command(105, {"topic": "T"})
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        assert scan_frame(buffer) == len(frame)
        assert decode_command(buffer).fields == {"topic": "T"}


@pytest.mark.parametrize("data", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x02ab", b"\x00\x00\x00\x08\x00\xff\xff\xffabcd", b"\xff\xff\xff\xff"])
def test_scan_refuses_impossible_sizes(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="frame"):
        scan_frame(data)


def test_decode_says_where_the_bytes_are_wrong() -> None:
    frame = bytearray(encode_command(105, {"topic": "T"}))
    frame[8] = ord("[")
    with pytest.raises(ProtocolError) as raised:
        decode_command(frame)
    assert str(raised.value)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x00\x04\x00\x00\x00\x00"])
def test_decode_refuses_what_is_no_frame(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_command(data)


def test_more_fields_than_a_command_carries_are_refused() -> None:
    with pytest.raises(TooLarge, match="128"):
        encode_command(1, {str(i): "" for i in range(129)})


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        encode_command(1, serialize_type=7)


def test_values_must_be_text() -> None:
    with pytest.raises(TypeError):
        encode_command(1, {"queueId": 3})  # type: ignore[dict-item]


def test_a_balancers_header_is_told_from_what_is_none() -> None:
    line = b"PROXY TCP6 2001:db8::1 ::1 4711 1\r\n"
    assert scan_proxy_header(line + b"PRI") == (len(line), socket.inet_pton(socket.AF_INET6, "2001:db8::1"), 4711)
    assert all(scan_proxy_header(line[:size])[0] == 0 for size in range(len(line)))
    for none in (b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01", b"PROXY TCP4 nowhere 1.1.1.1 1 1\r\n", b"PROXY " + b"x" * 200):
        assert scan_proxy_header(none) == (-1, b"", 0)
    assert scan_proxy_header(b"PROXY UNKNOWN\r\n") == (15, b"", 0)
