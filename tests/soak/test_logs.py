"""Which lines of a log the soak takes for faults."""

from __future__ import annotations

from .logs import kinds, unexpected

FINE = [
    'time=2026-01-01T00:00:00.000 level=INFO logger=broker.topics msg="create new topic ERROR"',
    "time=2026-01-01T00:00:00.000 level=WARNING logger=native msg=closed",
    'time=2026-01-01T00:00:00.000 level=ERROR logger=native msg="ha: slave 127.0.0.1:1 dropped at acked offset -1: slave 127.0.0.1:1 '
    'says it holds offset 17 but this master ends at 3"',
]
BAD = [
    'time=2026-01-01T00:00:00.000 level=ERROR logger=broker.store msg="disk failed"',
    'time=2026-01-01T00:00:00.000 level=ERROR logger=native msg="ha: slave 127.0.0.1:1 dropped at acked offset 5: it says it holds 7"',
    "time=2026-01-01T00:00:00.000 level=CRITICAL logger=broker.store msg=over",
    'time=2026-01-01T00:00:00.000 level=INFO logger=broker msg="x" exception="ValueError: …"',
    "Traceback (most recent call last):",
    "Task was destroyed but it is pending!",
    "Exception ignored in: <function f>",
]


def test_errors_and_tracebacks_are_faults_but_for_those_named() -> None:
    assert unexpected([*FINE, *BAD]) == BAD


def test_warnings_are_counted_without_their_numbers() -> None:
    lines = [f'time=t level=WARNING logger=native msg="connection {number} closed"' for number in range(3)]
    assert kinds([*lines, *BAD]) == {'"connection N closed"': 3}
