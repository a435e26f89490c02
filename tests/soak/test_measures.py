"""What the soak's judges see and what they let pass, on rows made here."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from .measures import (
    GROWTH_BYTES_MAX,
    JUDGED_S,
    Bounds,
    Holdings,
    growth,
    latency_fault,
    memory_fault,
    running_faults,
    settled_faults,
    slope,
)

IDLE = Holdings(0.0, 50 << 20, 10, {"[eventfd]": 5}, 20, 200, 20, (), {"python": 1, "broker-0": 1})
BOUNDS = Bounds(clients=100, store_files=60)


def row_of(anonymous: list[float], step_s: float) -> list[Holdings]:
    return [replace(IDLE, at_s=number * step_s, anonymous_bytes=int(value)) for number, value in enumerate(anonymous)]


def test_a_leak_of_some_bytes_a_message_is_seen_through_the_noise() -> None:
    dice = random.Random(1)
    leaking = [(50 << 20) + 10_000 * number + dice.uniform(-2e6, 2e6) for number in range(1000)]
    assert "grew" in memory_fault(row_of(leaking, 1.0))


def test_noise_and_a_warm_up_are_no_leak() -> None:
    dice = random.Random(2)
    warm = [(50 << 20) + min(number, 400) * 50_000 + dice.uniform(-2e6, 2e6) for number in range(1000)]
    assert memory_fault(row_of(warm, 1.0)) == ""


def test_a_short_life_is_not_judged() -> None:
    rising = [1e6 * number for number in range(100)]
    assert memory_fault(row_of(rising, JUDGED_S / 101)) == ""
    assert latency_fault([(number / 10, number) for number in range(100)]) == ""
    assert memory_fault([]) == latency_fault([]) == ""


def test_a_slope_is_that_of_the_line() -> None:
    assert slope([(x, 3.0 * x + 7) for x in range(10)]) == pytest.approx(3.0)
    assert slope([(1.0, 5.0)]) == slope([]) == slope([(1.0, 2.0), (1.0, 3.0)]) == 0.0
    assert growth([(x, 2.0 * x) for x in range(101)]) == pytest.approx(100.0)
    assert growth([(float(x), GROWTH_BYTES_MAX * min(x, 50)) for x in range(101)]) == pytest.approx(0.0)


def test_a_probe_that_becomes_slower_is_seen() -> None:
    rising = [(float(number), 0.001 if number < 600 else 0.02) for number in range(900)]
    assert "20.00 ms" in latency_fault(rising)
    assert latency_fault([(float(number), 0.001 + 0.004 * (number % 2)) for number in range(900)]) == ""


def test_what_is_left_behind_is_named() -> None:
    assert settled_faults(IDLE, replace(IDLE, at_s=9.0, maps=204), maps_slack=8) == []
    left = replace(
        IDLE,
        sockets=11,
        descriptors={"[eventfd]": 6},
        maps=240,
        deleted=("/x (deleted)",),
        threads={"python": 1, "broker-0": 1, "look-up": 1},
    )
    text = " ".join(settled_faults(IDLE, left, maps_slack=8))
    for word in ("11 sockets", "[eventfd]", "240 maps", "look-up", "/x (deleted)"):
        assert word in text


def test_a_stand_in_of_a_reactor_may_stay() -> None:
    assert settled_faults(IDLE, replace(IDLE, threads={**IDLE.threads, "broker-0'": 1}), maps_slack=8) == []


def test_bounds_of_a_running_process_are_named() -> None:
    assert running_faults(IDLE, replace(IDLE, sockets=110, store_files=60, store_maps=120), BOUNDS) == []
    over = replace(IDLE, sockets=111, descriptors={"[eventfd]": 14}, store_files=61, store_maps=121, maps=241, threads={"python": 9})
    assert len(running_faults(IDLE, over, BOUNDS)) == 6
