"""What the control plane writes into the native tables: the part of rocketpy._core.broker.Broker that each table of ours needs.

Protocols, so that the tables can be tested with a recorder in place of the native broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class TopicSink(Protocol):
    """The native topic table."""

    def put_topic(
        self,
        topic: str,
        read_queues: int,
        write_queues: int,
        permission: int,
        *,
        sys_flag: int = ...,
        order: bool = ...,
        multi_tag: bool = ...,
        native_send: bool = ...,
        native_pull: bool = ...,
        checked_send: bool = ...,
        static: bool = ...,
        lite: bool = ...,
        batch: bool = ...,
        compacted: bool = ...,
        priority: bool = ...,
        retry_send: bool = ...,
        checked_back: bool = ...,
    ) -> None: ...
    def delete_topic(self, topic: str) -> None: ...


class MappingSink(Protocol):
    """The native table of where the global queues of static topics lie, for those that this broker leads."""

    def put_queue_mapping(
        self, topic: str, global_id: int, queue_id: int, logic_offset: int, start_offset: int, earliest: bool
    ) -> None: ...


class SettlingSink(Protocol):
    """Tells whether sends are still under way that began before a change of a mapping."""

    def mark_mapped_sends(self) -> None: ...
    def mapped_sends_are_over(self) -> bool: ...


class GroupSink(Protocol):
    """The native table of consumer groups."""

    def put_group(
        self,
        group: str,
        *,
        consume_enable: bool = ...,
        consume_broadcast_enable: bool = ...,
        broker_id: int = ...,
        which_broker_when_slow: int = ...,
        sys_flag: int = ...,
        priority_percent: int = ...,
        retry_queues: int = ...,
        retry_times_max: int = ...,
    ) -> None: ...
    def put_lite_group(self, group: str, topic: str, is_wildcard: bool) -> None: ...
    def delete_group(self, group: str) -> None: ...


class LiteSink(Protocol):
    """The native table of who reads which lite topics. Raises InvalidArgument, Busy, NoMemory."""

    def put_lite_reader(self, group: str, client: str, queue: str) -> None: ...
    def delete_lite_reader(self, group: str, client: str, queue: str) -> None: ...
    def delete_lite_readers(self, group: str, client: str) -> None: ...
    def put_lite_wildcard(self, group: str, topic: str) -> None: ...
    def lite_wildcard_has_missed(self, group: str) -> bool: ...
    def forget_lite_queue(self, queue: str) -> None: ...


class SubscriptionSink(Protocol):
    """The native table of what live groups subscribe to."""

    def put_subscription(
        self, group: str, topic: str, tag_codes: Iterable[int], version: int, *, broadcast: bool = ..., native: bool = ...
    ) -> None: ...
    def put_sql_subscription(self, group: str, topic: str, expression: str, version: int, *, broadcast: bool = ...) -> str: ...
    def delete_subscription(self, group: str, topic: str) -> None: ...


class ProducerSink(Protocol):
    """The native table of producers, to which replies are pushed. Raises InvalidArgument, Busy, NoMemory, as any table may."""

    def put_producer(self, client_id: str, listener: int, connection_id: int) -> None: ...
    def delete_producer(self, client_id: str) -> None: ...


class OffsetSink(Protocol):
    """The native table of consumer offsets, which pulls and commits change without Python."""

    def put_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None: ...
    def read_offset(self, group: str, topic: str, queue_id: int) -> int: ...
    def read_pull_offset(self, group: str, topic: str, queue_id: int) -> int: ...
    def reset_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None: ...
    def delete_offsets(self, group: str | None = ..., topic: str | None = ...) -> None: ...
    def offsets(self, group: str | None = ..., topic: str | None = ...) -> list[tuple[str, str, int, int]]: ...
    def copy_offsets(self) -> Iterable[tuple[str, str, int, int]]: ...
    @property
    def offset_version(self) -> int: ...
