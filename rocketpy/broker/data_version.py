"""The version of a table that other processes copy: name servers, slaves and tools compare it to see whether anything changed.
RocketMQ: DataVersion (5.3.3 remoting/protocol/). A value, not a counter that changes under its readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..remoting.json_codec import read_json


@dataclass(frozen=True, slots=True)
class DataVersion:
    """timestamp_ms is when the counter last moved; state_version is the controller's epoch of the store, 0 without one."""

    timestamp_ms: int
    counter: int = 0
    state_version: int = 0

    def next(self, now_ms: int, state_version: int = 0) -> DataVersion:
        return DataVersion(now_ms, self.counter + 1, state_version)

    def is_text(self, text: str | None) -> bool:
        """Whether a version sent as JSON in a header is this one. Unreadable ones are not."""
        try:
            return text is not None and DataVersion.from_json(read_json(text)) == self
        except ValueError:
            return False

    def to_json(self) -> dict[str, int]:
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp_ms}

    @staticmethod
    def from_json(value: Any) -> DataVersion:
        """Raises ValueError. Files of 4.x have no stateVersion."""
        if not isinstance(value, Mapping):
            raise ValueError(f"dataVersion is {type(value).__name__}, expected an object")
        members = {name: value.get(name, 0) for name in ("timestamp", "counter", "stateVersion")}
        for name, member in members.items():
            if not isinstance(member, int) or isinstance(member, bool):
                raise ValueError(f"dataVersion.{name} is {member!r}, expected a number")
        return DataVersion(members["timestamp"], members["counter"], members["stateVersion"])
