"""The header codec on a real send request, against copying the bytes of its frame once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cffi
import pytest

from rocketpy._core.remoting import encode_command
from rocketpy.remoting.codes import RequestCode

from .conftest import Figure, Figures, Size, least
from .loads import ENCODINGS

MILLION = 1e6
FIELDS = {
    "a": "rocketpy_bench_producer",
    "b": "bench",
    "c": "TBW102",
    "d": "4",
    "e": "7",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "UNIQ_KEY\x010A0B0C0D0E0F0A0B0C0D0E0F0A0B0C0D\x02WAIT\x01true\x02",
    "j": "0",
    "k": "false",
    "l": "0",
    "m": "false",
}
VERBS = {"decode": "bench_decode", "encode": "bench_encode"}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("verb", VERBS)
def test_send_header(
    verb: str,
    encoding: str,
    measure: Callable[[Callable[[], int]], float],
    loops: Any,
    ffi: cffi.FFI,
    size: Size,
    figures: Figures,
) -> None:
    frame = encode_command(RequestCode.SEND_MESSAGE_V2, FIELDS, opaque=1234567, serialize_type=ENCODINGS[encoding])  # type: ignore[arg-type]
    data = ffi.new("uint8_t[]", frame)
    target = ffi.new("uint8_t[]", len(frame))
    rounds = size.of(100, 500_000)
    seconds = measure(lambda: getattr(loops, VERBS[verb])(data, len(frame), rounds))
    limit = least(lambda: loops.bench_copy(target, data, len(frame), rounds))
    name = f"{verb} a send header of {len(frame)} bytes, {encoding}"
    figures.rows.append(Figure(name, rounds / seconds / MILLION, rounds / limit / MILLION, "M a second", "copying it"))
