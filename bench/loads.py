"""Runs of the native load generator, as the benchmarks want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketpy._core.load import Load

if TYPE_CHECKING:
    from .conftest import Size

SEND, PULL, BOTH = 1, 2, 3
FROM_GIVEN = 2  # offsets, where a pull begins
ENCODINGS = {"JSON": 0, "ROCKETMQ": 1}
TOPIC = "bench"
QUEUES = 16
MESSAGE_BYTES = 1024
RECORD_BYTES = 1222  # of such a message in the commit log, with the properties of a real client
ENDS_WITHIN_S = 600.0


def run_load(*, errors_allowed: bool = False, **options: Any) -> dict[str, Any]:
    """One run, its keywords those of Load; its result. What comes back wrong is never allowed; errors of single requests may be."""
    with Load(**{"topic": TOPIC, "queue_count": QUEUES, "message_size": MESSAGE_BYTES, **options}) as load:
        load.start()
        assert load.wait(ENDS_WITHIN_S), "the load does not end"
        result = load.result()
    assert result["totals"]["failures"] == 0, f"{options}: {result['first_offender']}"
    if not errors_allowed:
        assert result["status"] == 0 and result["totals"]["errors"] == 0, f"{options}: {result['error_codes']}"
    return result


def send(address: str, shape: tuple[int, int], encoding: int, size: Size) -> dict[str, Any]:
    """Sends of `connections` with `in_flight` requests each: three seconds of them, or a few."""
    connections, in_flight = shape
    extent = {"duration_ms": 3000, "warm_up_ms": 500} if size.full else {"count": 2000}
    return run_load(address=address, mode=SEND, connections=connections, in_flight=in_flight, serialize_type=encoding, **extent)


def send_rate(result: dict[str, Any]) -> float:
    """Messages a second."""
    return float(result["measured_sent"] / result["measured_ns"] * 1e9)


def p99_ms(result: dict[str, Any]) -> float:
    return float(result["latency"]["publish"]["p99_ns"]) / 1e6


def p50_us(result: dict[str, Any]) -> float:
    return float(result["latency"]["publish"]["p50_ns"]) / 1e3
