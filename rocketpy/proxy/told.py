"""The commands on a client's telemetry stream that it has not read yet.

Threads  one event loop. Bounds, of memory: no command is taken once TOLD_BYTES_MAX bytes wait in a stream, or AllTold.most bytes in all
         streams together; it is dropped and logged. An answer waits until its client has made room. The number of commands is not bounded:
         a broker asks about all transactions that nobody ended at once, and gives up one whose question was dropped fifteen times.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

TOLD_BYTES_MAX: Final = 8 << 20
"""Few prepared messages of 4 MB, which brokers ask about, or 2,000 of 1 KB."""
COMMAND_BYTES: Final = 3 << 10
"""Of a command, beside its bytes. Measured: 2,850 to 3,070 of a prepared message with three properties."""
PROPERTY_BYTES: Final = 144
"""Of each property or key past those three, beside its bytes. Measured: 131 to 144 of a property, 50 of a key."""
USUAL_PROPERTIES: Final = 3
ENDS: Final = object()
"""In place of a command: the proxy stops, and the client finds itself another."""


@dataclass(slots=True)
class AllTold:
    """Memory that waits in all streams: anybody may be many clients that do not read."""

    most: int
    size: int = 0


def _size(command: Any) -> int:
    if command is ENDS:
        return 0
    asked = command.recover_orphaned_transaction_command.message, command.verify_message_command.message
    parts = sum(len(message.user_properties) + len(message.system_properties.keys) for message in asked)
    return int(command.ByteSize()) + COMMAND_BYTES + max(0, parts - USUAL_PROPERTIES) * PROPERTY_BYTES


class Told(asyncio.Queue[Any]):
    """Of one stream. Who takes a command out says when it is on its way; who is done with the stream closes it."""

    def __init__(self, everywhere: AllTold) -> None:
        self._everywhere = everywhere
        self._waiting = 0
        self._counted = 0
        """Of those that wait, and of the one that is under way."""
        super().__init__()

    def _count(self, size: int) -> None:
        self._counted += size
        self._everywhere.size += size

    def _put(self, command: Any) -> None:
        size = _size(command)
        self._waiting += size
        self._count(size)
        super()._put(command)

    def _get(self) -> Any:
        command = super()._get()
        self._waiting -= _size(command)
        return command

    def full(self) -> bool:
        """What is empty takes a command of any size."""
        return self._waiting >= TOLD_BYTES_MAX

    def offer(self, command: Any) -> bool:
        """False: it is dropped."""
        size = _size(command)
        if self.full() or (size and self._everywhere.size + size > self._everywhere.most):
            return False
        self.put_nowait(command)
        return True

    def said(self, command: Any) -> None:
        """It is with the client's connection."""
        self._count(-_size(command))

    def close(self) -> None:
        self._count(-self._counted)
