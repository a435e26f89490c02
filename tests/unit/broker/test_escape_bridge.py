"""The bridge to another master, with a native side that the test plays."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any, cast

from rocketpy.broker.escape_bridge import IN_FLIGHT, WAITS, EscapeBridge
from rocketpy.broker.parts import Parts
from tests.processes import PATIENCE_S


class Native:
    """One message at a time."""

    def __init__(self) -> None:
        self.escape_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.offered: list[tuple[int, bytes]] = []
        self.settled: list[tuple[int, int]] = []

    def offer(self, number: int) -> None:
        self.offered.append((number, b"a record"))
        os.eventfd_write(self.escape_fd, 1)

    def take_escaping(self) -> tuple[int, bytes] | None:
        return self.offered.pop() if self.offered else None

    def settle_escaping(self, id: int, status: int) -> None:
        self.settled.append((id, status))


def test_what_is_taken_in_the_turn_of_a_stop_keeps_no_place() -> None:
    async def run() -> None:
        native = Native()
        identity = SimpleNamespace(broker_name="b", broker_id=1)
        bridge = EscapeBridge(cast(Parts, cast(Any, SimpleNamespace(native=native, registration=SimpleNamespace(identity=identity)))))
        for number in range(IN_FLIGHT + 1):
            bridge.start()
            native.offer(number)
            async with asyncio.timeout(PATIENCE_S):
                while native.offered:  # noqa: ASYNC110 - it is stopped in the very turn
                    await asyncio.sleep(0)
            await bridge.stop()
        assert native.settled == [(number, WAITS) for number in range(IN_FLIGHT + 1)]
        os.close(native.escape_fd)

    asyncio.run(run())
