"""csrc/broker/sql_filter.h for tests: an expression compiled once, and whether messages pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.unit.native import ffi, lib

ARENA_BYTES = 8 << 20


def property_text(properties: Mapping[str, str]) -> bytes:
    """Properties in the form in which a record holds them."""
    return b"".join(b"%b\x01%b\x02" % (name.encode(), value.encode()) for name, value in properties.items())


@dataclass(frozen=True)
class Refused:
    """Where an expression cannot be compiled, and why."""

    at: int
    what: str


class SqlFilter:
    """A compiled expression. Raises nothing: `refused` says what is wrong with the text."""

    def __init__(self, expression: str) -> None:
        text = expression.encode()
        self._arena = ffi.gc(lib.rp_arena_create(0, ARENA_BYTES), lib.rp_arena_destroy)
        self._filter = ffi.new("rp_message_filter *")
        fault, end = ffi.new("rp_sql_fault *"), ffi.new("uint32_t *")
        data = ffi.new("uint8_t[]", text or b"\0")
        status = lib.rp_sql_filter_compile(
            ffi.new("rp_slice *", {"data": data, "size": len(text)})[0], self._arena, self._filter, end, fault
        )
        assert status in (lib.RP_OK, lib.RP_E_INVALID)
        self.refused = None if status == lib.RP_OK else Refused(fault.at, ffi.string(fault.what).decode())
        self.unread = "" if self.refused else text[end[0] :].decode()

    def passes(self, properties: Mapping[str, str]) -> bool:
        """Whether the message passes. Its text lies in a block of exactly its size, so that a sanitizer sees reads past its end."""
        text = property_text(properties)
        data = ffi.new("uint8_t[]", text) if text else ffi.NULL
        return bool(lib.rp_sql_filter_matches(self._filter, ffi.new("rp_slice *", {"data": data, "size": len(text)})[0]))
