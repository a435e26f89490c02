"""Shared by the suites: their size, the compiled loops, and the closing table of figures, limits and shares.

Tiny by default, so that `make test` runs every benchmark once and none rots; full size with ROCKETPY_BENCH=full (`make bench`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cffi
import pytest

from tests.native_build import build_library, build_program

HERE = Path(__file__).resolve().parent
LOOPS = """
uint64_t bench_crc(const uint8_t *data, uint64_t size, uint32_t rounds);
uint64_t bench_crc_portable(const uint8_t *data, uint64_t size, uint32_t rounds);
uint64_t bench_crc_copy(uint8_t *target, const uint8_t *data, uint64_t size, uint32_t rounds);
uint64_t bench_copy(uint8_t *target, const uint8_t *data, uint64_t size, uint32_t rounds);
uint64_t bench_read(const uint8_t *data, uint64_t size, uint32_t rounds);
uint64_t bench_decode(const uint8_t *frame, uint32_t size, uint32_t rounds);
uint64_t bench_encode(const uint8_t *frame, uint32_t size, uint32_t rounds);
uint64_t bench_append(const char *path, uint32_t body_size, uint32_t batch, uint32_t count);
uint64_t bench_mapped_copy(const char *path, uint32_t record_size, uint32_t count);
"""
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Size:
    """How much a benchmark does."""

    full: bool

    def of(self, tiny: int, full: int) -> int:
        return full if self.full else tiny


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured rate, the rate nothing can pass, and what that limit is."""

    name: str
    rate: float
    limit: float
    unit: str
    limit_name: str
    durability: str = ""

    @property
    def share(self) -> float:
        return self.rate / self.limit if self.limit else 0.0


@dataclass(slots=True)
class Figures:
    rows: list[Figure] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """From benchmarks that have more to show than one rate beside its limit."""


FIGURES = pytest.StashKey[Figures]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = Figures()


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> Figures:
    return request.config.stash[FIGURES]


@pytest.fixture(scope="session")
def size() -> Size:
    return Size(os.environ.get("ROCKETPY_BENCH") == "full")


@pytest.fixture(scope="session")
def ffi() -> cffi.FFI:
    builder = cffi.FFI()
    builder.cdef(LOOPS)
    return builder


@pytest.fixture(scope="session")
def loops(ffi: cffi.FFI) -> Iterator[Any]:
    yield ffi.dlopen(str(build_program(build_library(), HERE / "loops.c", "-shared")))


@pytest.fixture
def measure(benchmark: Any) -> Callable[[Callable[[], int]], float]:
    """measure(function): runs a function that returns nanoseconds under pytest-benchmark; returns the least of its results in seconds."""

    def run(function: Callable[[], int]) -> float:
        results: list[int] = []

        def once() -> None:
            results.append(function())

        benchmark.pedantic(once, rounds=REPEATS if benchmark.enabled else 1, iterations=1, warmup_rounds=int(benchmark.enabled))
        assert all(results), "the loop failed"
        return min(results) / 1e9

    return run


def least(function: Callable[[], int], repeats: int = REPEATS) -> float:
    """The least of several runs of a function that returns nanoseconds, in seconds: for a physical limit, outside of pytest-benchmark."""
    results = [function() for _ in range(repeats)]
    assert all(results), "the loop failed"
    return min(results) / 1e9


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    figures = config.stash[FIGURES]
    if not (figures.rows or figures.lines) or os.environ.get("ROCKETPY_BENCH") != "full":
        return
    terminalreporter.section("figures and their physical limits")
    for line in figures.lines:
        terminalreporter.write_line(line)
    for row in figures.rows:
        terminalreporter.write_line(
            f"{row.name:<44} {row.rate:>14,.2f} {row.unit:<12} {row.share:>7.1%} of {row.limit:,.2f} ({row.limit_name})"
            f"{'; ' + row.durability if row.durability else ''}"
        )
