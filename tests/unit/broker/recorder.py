"""A recorder in place of the native broker: the tables it was told, as plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rocketpy._core.broker import check_sql


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    ms: int = 1_000_000

    def __call__(self) -> int:
        return self.ms


@dataclass
class Recorder:
    """What the native tables would hold now."""

    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    lite_groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    table: dict[tuple[str, str, int], int] = field(default_factory=dict)
    resets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    offset_version: int = 0
    rows_given: int = 0
    codes_max: int = 4096

    def put_topic(self, topic: str, read_queues: int, write_queues: int, permission: int, **flags: Any) -> None:
        self.topics[topic] = {"read": read_queues, "write": write_queues, "permission": permission, **flags}

    def delete_topic(self, topic: str) -> None:
        self.topics.pop(topic, None)

    def put_group(self, group: str, **members: Any) -> None:
        self.groups[group] = members | self.lite_groups.get(group, {})

    def put_lite_group(self, group: str, topic: str, is_wildcard: bool) -> None:
        self.lite_groups[group] = {"lite": topic, "wildcard": is_wildcard} if topic else {}

    def delete_group(self, group: str) -> None:
        self.groups.pop(group, None)

    def put_subscription(self, group: str, topic: str, tag_codes: Iterable[int], version: int, **flags: Any) -> None:
        codes = list(tag_codes)
        if len(codes) > self.codes_max:
            from rocketpy._core.errors import InvalidArgument

            raise InvalidArgument("too many codes")
        self.subscriptions[(group, topic)] = {"codes": codes, "version": version, **flags}

    def put_sql_subscription(self, group: str, topic: str, expression: str, version: int, **flags: Any) -> str:
        unread = check_sql(expression)
        self.subscriptions[(group, topic)] = {"expression": expression, "version": version, **flags}
        return unread

    def delete_subscription(self, group: str, topic: str) -> None:
        self.subscriptions.pop((group, topic), None)

    def put_producer(self, client_id: str, listener: int, connection_id: int) -> None:
        if not 0 < len(client_id) <= 1024:
            from rocketpy._core.errors import InvalidArgument

            raise InvalidArgument("no client id")
        self.producers[client_id] = (listener, connection_id)

    def delete_producer(self, client_id: str) -> None:
        del self.producers[client_id]

    def put_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.table[(group, topic, queue_id)] = offset
        self.offset_version += 1

    def read_offset(self, group: str, topic: str, queue_id: int) -> int:
        return self.table.get((group, topic, queue_id), -1)

    def read_pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        return self.read_offset(group, topic, queue_id)

    def reset_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.resets[(group, topic, queue_id)] = offset

    def delete_offsets(self, group: str | None = None, topic: str | None = None) -> None:
        for key in [key for key in self.table if group in (None, key[0]) and topic in (None, key[1])]:
            del self.table[key]
            self.offset_version += 1

    def offsets(self, group: str | None = None, topic: str | None = None) -> list[tuple[str, str, int, int]]:
        rows = [(*key, offset) for key, offset in self.table.items() if group in (None, key[0]) and topic in (None, key[1])]
        self.rows_given += len(rows)
        return rows

    def copy_offsets(self) -> Iterable[tuple[str, str, int, int]]:
        return GivenRows(self, [(*key, offset) for key, offset in self.table.items()])


@dataclass
class GivenRows:
    """A copy of rows that counts those that are asked for."""

    recorder: Recorder
    rows: list[tuple[str, str, int, int]]

    def __iter__(self) -> Iterator[tuple[str, str, int, int]]:
        for row in self.rows:
            self.recorder.rows_given += 1
            yield row
