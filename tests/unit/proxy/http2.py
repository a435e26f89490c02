"""HTTP/2 by hand, for what no client of a library would do: frames, and headers without compression."""

from __future__ import annotations

import asyncio
import ctypes
import struct
from collections.abc import Mapping

from rocketpy.proxy import schema

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
CANCEL = 8
FRAME_MAX = 16_384


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _text(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    size = len(data)
    if size < 127:
        return bytes([size]) + data
    head, size = b"\x7f", size - 127
    while size >= 128:
        head += bytes([size & 127 | 128])
        size >>= 7
    return head + bytes([size]) + data


def block(headers: Mapping[str, str | bytes]) -> bytes:
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers.items())


def head_of(method: str, more: Mapping[str, str | bytes] | None = None) -> bytes:
    usual = {
        ":method": "POST",
        ":scheme": "http",
        ":authority": "proxy",
        ":path": f"/{schema.SERVICE}/{method}",
        "content-type": "application/grpc",
        "te": "trailers",
        "x-mq-client-id": "c1",
    }
    return block({**usual, **(more or {})})


def message(data: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + struct.pack(">I", len(data)) + data


def call(stream: int, method: str, data: bytes, more: Mapping[str, str | bytes] | None = None, flag: int = 0) -> bytes:
    """A whole call of one message."""
    said = message(data, flag)
    parts = [said[at : at + FRAME_MAX] for at in range(0, len(said), FRAME_MAX)]
    frames = [frame(DATA, END_STREAM if part is parts[-1] else 0, stream, part) for part in parts]
    return frame(HEADERS, END_HEADERS, stream, head_of(method, more)) + b"".join(frames)


def reset(stream: int, code: int = CANCEL) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def settings(values: Mapping[int, int] | None = None) -> bytes:
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", name, value) for name, value in (values or {}).items()))


class _Header(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("name_size", ctypes.c_size_t),
        ("value_size", ctypes.c_size_t),
        ("flags", ctypes.c_uint8),
    )


class Headers:
    """Reads what nghttp2 has compressed, by nghttp2."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnghttp2.so.14")
        self._library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self._inflater = ctypes.c_void_p()
        assert self._library.nghttp2_hd_inflate_new(ctypes.byref(self._inflater)) == 0

    def read(self, data: bytes) -> bytes:
        """As lines."""
        header, flags, lines = _Header(), ctypes.c_int(), b""
        while not flags.value & 1:
            size = self._library.nghttp2_hd_inflate_hd2(
                self._inflater, ctypes.byref(header), ctypes.byref(flags), data, ctypes.c_size_t(len(data)), 1
            )
            assert size >= 0
            data = data[size:]
            if flags.value & 2:
                name, value = (ctypes.string_at(*each) for each in ((header.name, header.name_size), (header.value, header.value_size)))
                lines += name + b": " + value + b"\n"
        self._library.nghttp2_hd_inflate_end_headers(self._inflater)
        return lines

    def close(self) -> None:
        self._library.nghttp2_hd_inflate_del(self._inflater)


class Peer:
    """A connection that says what it is told, and keeps the frames that come back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.headers = Headers()

    @classmethod
    async def dial(cls, port: int, first: bytes = PREFACE + settings()) -> Peer:
        peer = cls(*await asyncio.open_connection("127.0.0.1", port))
        peer.say(first)
        return peer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def hear(self) -> tuple[int, int, int, bytes] | None:
        """The next frame: kind, flags, stream and payload, headers as lines; None: the connection has ended."""
        try:
            head = await self.reader.readexactly(9)
            payload = await self.reader.readexactly(int.from_bytes(head[:3]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        if head[3] == HEADERS:
            payload = self.headers.read(payload)
        return head[3], head[4], int.from_bytes(head[5:9]), payload

    async def ends(self, stream: int) -> bytes:
        """Everything that came of a stream until its end, payloads of HEADERS and DATA alike; and nothing more of the connection."""
        heard = b""
        while (found := await self.hear()) is not None:
            kind, flags, of, payload = found
            if of != stream:
                continue
            heard += payload
            if kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & END_STREAM):
                return heard
        return heard

    def close(self) -> None:
        self.headers.close()
        self.writer.close()
