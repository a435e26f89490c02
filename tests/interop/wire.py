"""A few lines of RocketMQ remoting with a JSON header, to ask a server something without any client library."""

from __future__ import annotations

import json
import re
import socket
import struct
from dataclasses import dataclass
from typing import Any

from tests.processes import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Reply:
    code: int
    remark: str | None
    fields: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return parse_json(self.body.decode())


def parse_json(text: str) -> Any:
    """JSON as RocketMQ writes it: map keys that are numbers may stand without quotes."""
    return json.loads(re.sub(r"([{,]\s*)(-?\d+)(\s*:)", r'\1"\2"\3', text))


def encode(
    code: int, fields: dict[str, str] | None = None, body: bytes = b"", opaque: int = 1, flag: int = 0, *, version: int = 501
) -> bytes:
    header = json.dumps(
        {
            "code": code,
            "language": "JAVA",
            "version": version,
            "opaque": opaque,
            "flag": flag,
            "extFields": fields or {},
            "serializeTypeCurrentRPC": "JSON",
        }
    ).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += piece
    return bytes(data)


def read_reply(connection: socket.socket) -> Reply:
    (length,) = struct.unpack(">I", read_exactly(connection, 4))
    frame = read_exactly(connection, length)
    (marked,) = struct.unpack_from(">I", frame)
    size = marked & 0xFFFFFF
    header = json.loads(frame[4 : 4 + size])
    return Reply(header["code"], header.get("remark"), header.get("extFields") or {}, frame[4 + size :])


def call(address: str, code: int, fields: dict[str, str] | None = None, body: bytes = b"", timeout: float = PATIENCE_S) -> Reply:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout) as connection:
        connection.sendall(encode(code, fields, body))
        return read_reply(connection)
