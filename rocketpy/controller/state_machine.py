"""The log's entries, applied to the tables. RocketMQ: DLedgerControllerStateMachine (5.3.3 controller/impl/).

There are no snapshots: RocketMQ's controller neither saves nor loads them, so a member that was sent one would be left with empty tables.
"""

from __future__ import annotations

import logging

from .events import decode_event
from .replicas_info import ReplicasInfo

log = logging.getLogger(__name__)


class ControllerStateMachine:
    """What the replicated log drives: it gets every committed entry once, in order."""

    def __init__(self, tables: ReplicasInfo) -> None:
        self._tables = tables

    def apply(self, index: int, body: bytes) -> None:
        """An entry that cannot be read changes nothing, here as on every other member."""
        event = decode_event(body)
        if event is not None:
            self._tables.apply(event)
        elif body:
            log.error("entry %d of the controllers' log is not an event that is known, it is left out: %r", index, body[:64])
