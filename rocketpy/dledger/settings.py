"""Who is in a group, where this member keeps its log, and how long it waits. The defaults are those of DLedgerConfig (DLedger 0.3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .._core.errors import InvalidArgument
from ..remoting.client import split_address


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """peers: addresses by member id, this member's among them. store_path: DLedger's storeBaseDir; the log is in dledger-ID below it."""

    group: str
    self_id: str
    peers: Mapping[str, str]
    store_path: Path
    heartbeat_interval_ms: int = 2000
    heartbeats_missed_max: int = 3
    vote_interval_min_ms: int = 300
    vote_interval_max_ms: int = 1000
    push_timeout_ms: int = 1000
    append_timeout_ms: int = 2500
    pending_max: int = 10000
    data_file_size: int = 1 << 30
    index_file_size: int = 32 * 5 * 1024 * 1024
    entry_size_max: int = 4 * 1024 * 1024
    preferred_leaders: frozenset[str] = frozenset()
    """Who shall lead where they can; of a log in native hands."""

    def __post_init__(self) -> None:
        if not self.group:
            raise InvalidArgument("a DLedger group needs a name")
        if self.self_id not in self.peers:
            raise InvalidArgument(f"member {self.self_id!r} is not among its group's peers {', '.join(self.peers)}")
        if not 0 < self.vote_interval_min_ms < self.vote_interval_max_ms or self.heartbeat_interval_ms <= 0:
            raise InvalidArgument("the intervals of votes and heartbeats have to be above 0, the longer above the shorter")
        if self.heartbeats_missed_max < 1 or self.index_file_size % 32 or self.data_file_size < 4096:
            raise InvalidArgument("heartbeats_missed_max, index_file_size or data_file_size is out of its range")

    @property
    def directory(self) -> Path:
        return self.store_path / f"dledger-{self.self_id}"

    @property
    def term_path(self) -> Path:
        return self.directory / "currterm"

    @property
    def checkpoint_path(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def address(self) -> str:
        """Of this member, for the others."""
        return self.peers[self.self_id]

    @property
    def others(self) -> list[str]:
        return [member for member in self.peers if member != self.self_id]

    @property
    def majority(self) -> int:
        return len(self.peers) // 2 + 1

    @property
    def silence_max_ms(self) -> int:
        """A leader that was silent for this long is considered gone, by the others and by itself."""
        return self.heartbeat_interval_ms * self.heartbeats_missed_max


def parse_peers(text: str) -> dict[str, str]:
    """{"n0": "host:port", …} of "n0-host:port;n1-host:port". Raises InvalidArgument."""
    peers: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        member, separator, address = part.partition("-")
        if not separator or not member or member in peers:
            raise InvalidArgument(f"{part!r} among the peers {text!r} is not ID-HOST:PORT of one more member")
        try:
            split_address(address)
        except ConnectionError as error:
            raise InvalidArgument(f"{part!r} among the peers: {error}") from error
        peers[member] = address
    if not peers:
        raise InvalidArgument("the list of a group's peers is empty")
    return peers
