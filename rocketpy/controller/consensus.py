"""What a controller needs of the log it shares with the other controllers. DLedgerNode is one, tests have another.

An entry that append() has returned for is on a majority and applied here. One that raised may still be committed later: whoever goes on
has to append something behind it first (event_scheduler.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Consensus(Protocol):
    """The replicated log, seen from one member."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def term(self) -> int: ...

    @property
    def group(self) -> str: ...

    @property
    def leader_id(self) -> str | None: ...

    @property
    def leader_address(self) -> str | None: ...

    @property
    def peers(self) -> Mapping[str, str]:
        """Addresses by member id."""
        ...

    async def append(self, body: bytes) -> object:
        """Returns once the entry is committed and applied here. Raises RocketpyError."""
        ...

    async def confirm(self) -> None:
        """Returns once it is certain that nobody else led at the call. Raises RocketpyError."""
        ...
