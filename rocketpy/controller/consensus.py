"""What a controller needs of the log that it shares with the other controllers. DLedgerNode implements it; tests have another
implementation.

When append() returns, a majority has the entry and it is applied here. When append() raises, the entry may still be committed later: before
the controller decides anything else, it has to append another entry behind it (event_scheduler.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Consensus(Protocol):
    """The replicated log as one member sees it."""

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
        """The members' addresses, by member id."""
        ...

    async def append(self, body: bytes) -> object:
        """Returns once the entry is committed and applied here. Raises RocketpyError."""
        ...

    async def confirm(self) -> None:
        """Returns once it is certain that nobody else led at the time of the call. Raises RocketpyError."""
        ...
