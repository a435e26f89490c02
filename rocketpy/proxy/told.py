"""The commands on a client's telemetry stream that it has not read yet.

Threads  one event loop. Bounds, of memory: no command is taken once TOLD_BYTES_MAX bytes wait in a stream, or AllTold.most bytes in all
         streams together; it is dropped, and that is logged now and then. An answer waits until its client has made room. The number of
         commands is not bounded: a broker asks about all transactions that nobody ended at once, and gives up one whose question was
         dropped fifteen times.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Final

from ..repeated_warning import RepeatedWarning

log = logging.getLogger(__name__)

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
    """Counts the memory of the commands that wait in all streams: one caller may pose as many clients that do not read."""

    most: int
    size: int = 0
    dropped: RepeatedWarning = field(default_factory=lambda: RepeatedWarning(log))


def _size(command: Any) -> int:
    if command is ENDS:
        return 0
    asked = command.recover_orphaned_transaction_command.message, command.verify_message_command.message
    parts = sum(len(message.user_properties) + len(message.system_properties.keys) for message in asked)
    return int(command.ByteSize()) + COMMAND_BYTES + max(0, parts - USUAL_PROPERTIES) * PROPERTY_BYTES


class Told(asyncio.Queue[Any]):
    """The commands that wait in one client's stream. Whoever takes a command out calls `said` when it has been sent; whoever is done with
    the stream closes it."""

    def __init__(self, everywhere: AllTold) -> None:
        self.everywhere = everywhere
        self._waiting = 0
        self._counted = 0
        """Of those that wait, and of the one that is under way."""
        super().__init__()

    def _count(self, size: int) -> None:
        self._counted += size
        self.everywhere.size += size

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
        """Whether nothing more fits. An empty stream takes a command of any size."""
        return self._waiting >= TOLD_BYTES_MAX

    def offer(self, command: Any) -> bool:
        """Adds a command. False if it was dropped because the stream is full."""
        size = _size(command)
        if self.full() or (size and self.everywhere.size + size > self.everywhere.most):
            return False
        self.put_nowait(command)
        return True

    def said(self, command: Any) -> None:
        """The command has been handed to the client's connection."""
        self._count(-_size(command))

    def close(self) -> None:
        self._count(-self._counted)
