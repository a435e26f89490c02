"""Stand-in for rocketpy._core.remoting's frame codec, JSON only, for trees without the native modules; never used when they are built."""

from __future__ import annotations

import json
import struct
import sys
import types
from dataclasses import dataclass, field

from rocketpy._core.errors import ProtocolError


@dataclass
class Command:
    code: int = 0
    language: int = 0
    version: int = 0
    opaque: int = 0
    flag: int = 0
    serialize_type: int = 0
    remark: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def is_response(self) -> bool:
        return bool(self.flag & 1)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & 2)


@dataclass
class Request(Command):
    kind: int = 0
    connection_id: int = 0
    remote_address: str = ""
    arrived_ns: int = 0


def scan_frame(data, frame_size_max=16 << 20):
    if len(data) < 4:
        return 0
    size = struct.unpack_from(">i", data)[0]
    if size < 4 or size + 4 > frame_size_max:
        raise ProtocolError(f"frame of {size} bytes")
    return size + 4 if len(data) >= size + 4 else 0


def decode_command(frame):
    total, header = struct.unpack_from(">iI", frame)
    header_size = header & 0xFFFFFF
    if header_size > total - 4:
        raise ProtocolError("header longer than the frame")
    try:
        parts = json.loads(bytes(frame[8 : 8 + header_size]))
    except ValueError as error:
        raise ProtocolError(str(error)) from None
    body = bytes(frame[8 + header_size :])
    return Command(parts["code"], 0, parts["version"], parts["opaque"], parts["flag"], 0, parts["remark"], parts["extFields"], body)


def encode_command(code, fields=None, body=b"", *, opaque=0, flag=0, remark=None, language=0, version=0, serialize_type=0):
    parts = {"code": code, "version": version, "opaque": opaque, "flag": flag, "remark": remark, "extFields": dict(fields or {})}
    header = json.dumps(parts).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def install() -> None:
    module = types.ModuleType("rocketpy._core.remoting")
    for name in ("Command", "Request", "scan_frame", "decode_command", "encode_command"):
        setattr(module, name, globals()[name])
    module.KIND_COMMAND, module.KIND_RESPONSE, module.KIND_OPENED, module.KIND_CLOSED = 0, 1, 2, 3
    module.Server = object
    sys.modules["rocketpy._core.remoting"] = module
