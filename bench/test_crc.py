"""CRC-32: how near to the speed at which its bytes can be read or copied at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cffi
import pytest

from .conftest import Figure, Figures, Size, least

GB = 1e9
# A record's body, a large one, and one past the first cache levels.
SIZES = (1024, 65536, 4 << 20)


def rounds_for(size: Size, data_size: int) -> int:
    return max(1, size.of(1 << 20, 1 << 30) // data_size)


@pytest.mark.parametrize("data_size", SIZES)
def test_crc_against_reading(
    data_size: int, measure: Callable[[Callable[[], int]], float], loops: Any, ffi: cffi.FFI, size: Size, figures: Figures
) -> None:
    data = ffi.new("uint8_t[]", bytes(range(256)) * (data_size // 256))
    rounds = rounds_for(size, data_size)
    seconds = measure(lambda: loops.bench_crc(data, data_size, rounds))
    limit = least(lambda: loops.bench_read(data, data_size, rounds))
    total = data_size * rounds / GB
    figures.rows.append(Figure(f"crc32 of {data_size:,} bytes", total / seconds, total / limit, "GB/s", "reading them"))


@pytest.mark.parametrize("data_size", SIZES)
def test_crc_and_copy_in_one_pass_against_copying(
    data_size: int, measure: Callable[[Callable[[], int]], float], loops: Any, ffi: cffi.FFI, size: Size, figures: Figures
) -> None:
    data = ffi.new("uint8_t[]", bytes(range(256)) * (data_size // 256))
    target = ffi.new("uint8_t[]", data_size)
    rounds = rounds_for(size, data_size)
    seconds = measure(lambda: loops.bench_crc_copy(target, data, data_size, rounds))
    limit = least(lambda: loops.bench_copy(target, data, data_size, rounds))
    total = data_size * rounds / GB
    figures.rows.append(Figure(f"crc32 + copy of {data_size:,} bytes", total / seconds, total / limit, "GB/s", "copying them"))


def test_portable_crc_against_reading(
    measure: Callable[[Callable[[], int]], float], loops: Any, ffi: cffi.FFI, size: Size, figures: Figures
) -> None:
    data = ffi.new("uint8_t[]", bytes(range(256)) * 4)
    rounds = size.of(1000, 200_000)
    seconds = measure(lambda: loops.bench_crc_portable(data, 1024, rounds))
    limit = least(lambda: loops.bench_read(data, 1024, rounds))
    total = 1024 * rounds / GB
    figures.rows.append(Figure("crc32 of 1,024 bytes, portable", total / seconds, total / limit, "GB/s", "reading them"))
