"""config/consumerOrderInfo.json: which messages of each queue ordered POP consumers have, and until when that blocks the queue.
RocketMQ: ConsumerOrderInfoManager, OrderInfo (5.3.3 broker/offset/).

The table is native (csrc/broker/pop_order.h) and changes with each pop and ack; here it is written and read. A kill loses the changes of
the last seconds: then a queue is blocked for as long as an older pop said, or not at all and its messages are popped again.

Threads  one event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from .._core.errors import RocketpyError
from .._core.results import PopOrder
from .consumer_offsets import SEPARATOR, split_key
from .json_members import integer_member, list_member, object_member
from .topics import TopicTable

log = logging.getLogger(__name__)

ORDERS_FILE: Final = "consumerOrderInfo.json"
KEPT_MS: Final = 24 * 3_600_000
"""A queue that nobody popped for so long is free."""
MESSAGES_MAX: Final = 32  # of one pop
ATTEMPT_BYTES_MAX: Final = 256
NOT_KNOWN: Final = f"{ORDERS_FILE}: what group %s has of queue %d of %s is not known, nothing of it is blocked: %s"
_WHAT: Final = "order info"
_LONG_MAX: Final = (1 << 63) - 1


class OrderSink(Protocol):
    """The native table."""

    def pop_orders(self) -> list[PopOrder]: ...
    def put_pop_order(self, order: PopOrder) -> None: ...
    def pop_order_version(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SavedOrders:
    """The contents of the file."""

    orders: tuple[PopOrder, ...]

    @staticmethod
    def from_json(value: Any) -> SavedOrders:
        """Raises ValueError for a text that is not such a file, or has queues without a number. A queue with an invalid description is left
        out, with a line in the log: it is not blocked."""
        if not isinstance(value, Mapping):
            raise ValueError(f"order infos are {type(value).__name__}, expected an object")
        return SavedOrders(tuple(_read_table(object_member(value, "table", "order infos"))))


class ConsumerOrders:
    """The native table, in the form that the file has."""

    def __init__(self, sink: OrderSink, topics: TopicTable, has_group: Callable[[str], bool], now_ms: Callable[[], int]) -> None:
        self._sink = sink
        self._topics = topics
        self._has_group = has_group
        self._now_ms = now_ms

    def version(self) -> int:
        return self._sink.pop_order_version()

    def snapshot(self) -> dict[str, Any]:
        """The contents for the file, without queues that no longer exist and those that nobody has popped for a day."""
        table: dict[str, dict[int, Any]] = {}
        for order in self._sink.pop_orders():
            if self._is_kept(order):
                table.setdefault(order.topic + SEPARATOR + order.group, {})[order.queue_id] = _to_json(order)
        return {"table": {key: dict(sorted(queues.items())) for key, queues in sorted(table.items())}}

    def load(self, saved: SavedOrders) -> None:
        for order in saved.orders:
            if not self._is_kept(order):
                continue
            try:
                self._sink.put_pop_order(order)
            except RocketpyError as error:
                log.error(NOT_KNOWN, order.group, order.queue_id, order.topic, error)

    def _is_kept(self, order: PopOrder) -> bool:
        config = self._topics.get(order.topic)
        return (
            config is not None
            and 0 <= order.queue_id < config.read_queue_nums
            and self._has_group(order.group)
            and self._now_ms() - order.last_consume_ms <= KEPT_MS
        )


def _to_json(order: PopOrder) -> dict[str, Any]:
    """fastjson's members in its order. Offsets are given relative to the first one."""
    first = order.messages[0][0]
    times = {offset: count for offset, _, count in order.messages if count > 0}
    visible = {offset: at_ms for offset, at_ms, _ in order.messages if at_ms > 0}
    return {
        **({"a": order.attempt_id} if order.attempt_id is not None else {}),
        "cm": order.acked,
        "i": order.invisible_ms,
        "l": order.last_consume_ms,
        "o": [first, *(offset - first for offset, _, _ in order.messages[1:])],
        "oc": times,
        **({"ot": visible} if visible else {}),
        "popTime": order.pop_time_ms,
    }


def _read_table(table: Mapping[Any, Any]) -> Iterator[PopOrder]:
    """Raises ValueError."""
    for key in table:
        topic, group = split_key(str(key))
        for number, info in object_member(table, key, _WHAT).items():
            queue_id = integer_member({"a queue": number}, "a queue", None, f"{_WHAT} of {key}")
            try:
                yield _read(topic, group, queue_id, info)
            except ValueError as error:
                log.error(NOT_KNOWN, group, queue_id, topic, error)


def _read(topic: str, group: str, queue_id: int, info: Any) -> PopOrder:
    """Raises ValueError."""
    if not isinstance(info, Mapping):
        raise ValueError(f"{_WHAT} is {type(info).__name__}, expected an object")
    distances = list_member(info, "o", _WHAT)
    if not 0 < len(distances) <= MESSAGES_MAX or not all(isinstance(each, int) for each in distances):
        raise ValueError(f"{_WHAT}: o is {distances!r:.100}, expected 1 to {MESSAGES_MAX} offsets")
    offsets = [distances[0], *(distances[0] + each for each in distances[1:])]
    if not all(0 <= offset < _LONG_MAX for offset in offsets):
        raise ValueError(f"{_WHAT}: {offsets} are no offsets")
    counts, visible = _by_offset(info, "oc"), _by_offset(info, "ot")
    attempt_id = info.get("a")
    if not isinstance(attempt_id, str) or len(attempt_id.encode("utf-8", "replace")) > ATTEMPT_BYTES_MAX:
        attempt_id = None
    return PopOrder(
        group=group,
        topic=topic,
        queue_id=queue_id,
        pop_time_ms=_time(info, "popTime"),
        invisible_ms=_time(info, "i"),
        last_consume_ms=_time(info, "l"),
        acked=integer_member(info, "cm", 0, _WHAT) & (1 << 64) - 1,
        attempt_id=attempt_id,
        messages=tuple((offset, visible.get(offset, 0), min(counts.get(offset, 0), (1 << 31) - 1)) for offset in offsets),
    )


def _time(info: Mapping[Any, Any], name: str) -> int:
    return max(0, integer_member(info, name, 0, _WHAT))


def _by_offset(info: Mapping[Any, Any], name: str) -> dict[int, int]:
    """A map as fastjson writes it, whose keys are numbers or texts."""
    rows = info.get(name)
    if not isinstance(rows, Mapping):
        return {}
    return {_key(offset): min(max(0, value), _LONG_MAX) for offset, value in rows.items() if isinstance(value, int)}


def _key(key: Any) -> int:
    """Of a map by number. Raises ValueError."""
    return integer_member({"a key": key}, "a key", None, _WHAT)
