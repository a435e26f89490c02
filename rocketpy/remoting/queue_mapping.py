"""Where the queues of a static topic lie: a global queue is a row of queues of brokers, one after the other, of which the last is written.
RocketMQ: LogicQueueMappingItem, TopicQueueMappingDetail, TopicQueueMappingUtils (5.3.3 remoting/protocol/statictopic/).

    global queue 5     0 ─────────── 2,003 ··· 10,000 ───────────►
                       broker-a, queue 1       broker-b, queue 2        offsets of b's queue begin at 0: 10,000 is its logic offset

Pure functions over frozen values; both brokers and tools decide by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .bodies import PERM_READ, PERM_WRITE, TopicConfig, read_integer, read_mapping, read_text

SCOPE_GLOBAL: Final = "__global__"
MOCK_BROKER_PREFIX: Final = "__syslo__"
QUEUES_MAX: Final = 65_536
OFFSET_MAX: Final = (1 << 62) - 1
ITEMS_MAX: Final = 1024
"""Queues that one global queue was ever moved through and that are not cleaned yet."""


class MappingFault(ValueError):
    """What is wrong with a mapping, in RocketMQ's words if it has any."""


@dataclass(frozen=True, slots=True)
class MappingItem:
    """A queue of one broker as a piece of a global queue."""

    gen: int
    queue_id: int
    broker_name: str
    logic_offset: int
    """The global offset of start_offset; -1: not decided yet."""
    start_offset: int = 0
    end_offset: int = -1
    """The offset after its last message; -1: not decided, the only value that RocketMQ's tools write."""
    time_of_start: int = -1
    time_of_end: int = -1

    def global_offset(self, offset: int) -> int:
        """The global offset of an offset in this broker's queue."""
        return self.logic_offset + max(0, offset - self.start_offset)

    def global_offset_within(self, offset: int) -> int:
        """As global_offset, but no further than the end of the item; -1 while the item's place in the global queue is not decided."""
        if self.logic_offset < 0:
            return -1
        is_behind = self.start_offset <= self.end_offset < offset
        return self.global_offset(self.end_offset if is_behind else offset)

    def offset(self, global_offset: int) -> int:
        """The offset in this broker's queue of a global offset."""
        return global_offset - self.logic_offset + self.start_offset

    @property
    def max_global_offset(self) -> int:
        return self.logic_offset + max(0, self.end_offset - self.start_offset)

    @property
    def has_end(self) -> bool:
        return self.end_offset > self.start_offset

    def to_json(self) -> dict[str, Any]:
        return {
            "bname": self.broker_name,
            "endOffset": self.end_offset,
            "gen": self.gen,
            "logicOffset": self.logic_offset,
            "queueId": self.queue_id,
            "startOffset": self.start_offset,
            "timeOfEnd": self.time_of_end,
            "timeOfStart": self.time_of_start,
        }

    @classmethod
    def from_json(cls, value: Any) -> MappingItem:
        """Raises ValueError."""
        if not isinstance(value, dict):
            raise MappingFault(f"an item of a queue mapping is {type(value).__name__}, expected an object")
        return cls(
            read_integer(value, "gen"),
            read_integer(value, "queueId"),
            read_text(value, "bname"),
            read_integer(value, "logicOffset"),
            read_integer(value, "startOffset"),
            read_integer(value, "endOffset", -1),
            read_integer(value, "timeOfStart", -1),
            read_integer(value, "timeOfEnd", -1),
        )


Items = tuple[MappingItem, ...]


@dataclass(frozen=True, slots=True)
class QueueMapping:
    """What one broker knows about a static topic: every global queue that it leads or once led."""

    topic: str
    total_queues: int
    broker_name: str
    epoch: int
    hosted: Mapping[int, Items] = field(default_factory=dict)
    scope: str = SCOPE_GLOBAL
    is_dirty: bool = False

    def leads(self, items: Items) -> bool:
        return bool(items) and items[-1].broker_name == self.broker_name

    def led(self) -> dict[int, int]:
        """The global queues that this broker leads, each with the number of its own queue."""
        return {global_id: items[-1].queue_id for global_id, items in sorted(self.hosted.items()) if self.leads(items)}

    def to_json(self) -> dict[str, Any]:
        """RocketMQ: TopicQueueMappingDetail."""
        hosted = {global_id: [item.to_json() for item in items] for global_id, items in sorted(self.hosted.items())}
        return {**self._members({}), "hostedQueues": hosted}

    def info_json(self) -> dict[str, Any]:
        """RocketMQ: TopicQueueMappingInfo, which name servers get."""
        return self._members(self.led())

    def _members(self, led: Mapping[int, int]) -> dict[str, Any]:
        return {
            "bname": self.broker_name,
            "currIdMap": dict(led),
            "dirty": self.is_dirty,
            "epoch": self.epoch,
            "scope": self.scope,
            "topic": self.topic,
            "totalQueues": self.total_queues,
        }

    @classmethod
    def from_json(cls, value: Any) -> QueueMapping:
        """Raises ValueError for anything else."""
        if not isinstance(value, dict):
            raise MappingFault(f"a queue mapping is {type(value).__name__}, expected an object")
        hosted: dict[int, Items] = {}
        for key, items in read_mapping(value, "hostedQueues").items():
            global_id = read_integer({"global id": key}, "global id")
            if not 0 <= global_id < QUEUES_MAX:
                raise MappingFault(f"global queue {global_id} is not in 0..{QUEUES_MAX - 1}")
            if not isinstance(items, list) or len(items) > ITEMS_MAX:
                raise MappingFault(f"the items of global queue {global_id} are not a list of up to {ITEMS_MAX}")
            if items:
                hosted[global_id] = tuple(map(MappingItem.from_json, items))
        total = read_integer(value, "totalQueues")
        if not 0 <= total <= QUEUES_MAX:
            raise MappingFault(f"totalQueues = {total} is not in 0..{QUEUES_MAX}")
        return cls(
            read_text(value, "topic"),
            total,
            read_text(value, "bname"),
            read_integer(value, "epoch"),
            hosted,
            read_text(value, "scope", SCOPE_GLOBAL),
            value.get("dirty") is True,
        )


@dataclass(frozen=True, slots=True)
class StaticTopic:
    """A topic on one broker with its mapping (RocketMQ: TopicConfigAndQueueMapping). Without a mapping it is not a static topic there."""

    config: TopicConfig
    mapping: QueueMapping | None

    def to_json(self) -> dict[str, Any]:
        members = {**self.config.to_json(), **({} if self.mapping is None else {"mappingDetail": self.mapping.to_json()})}
        return dict(sorted(members.items()))

    @classmethod
    def from_json(cls, value: Any) -> StaticTopic:
        """Raises ValueError."""
        if not isinstance(value, dict):
            raise MappingFault(f"a topic is {type(value).__name__}, expected an object")
        members = {name: member for name, member in value.items() if name != "mappingDetail"}
        detail = value.get("mappingDetail")
        return cls(TopicConfig.from_json(members), None if detail is None else QueueMapping.from_json(detail))

    @classmethod
    def empty(cls, topic: str, broker_name: str, total_queues: int, epoch: int) -> StaticTopic:
        """The topic on a broker that has no queue of it."""
        config = TopicConfig(topic, 0, 0, PERM_READ | PERM_WRITE)
        return cls(config, QueueMapping(topic, total_queues, broker_name, epoch))


def mock_broker_name(scope: str) -> str:
    """The broker name under which clients see global queues."""
    return MOCK_BROKER_PREFIX + (scope[2:] if scope == SCOPE_GLOBAL else scope)


def find_item(items: Sequence[MappingItem], offset: int) -> MappingItem | None:
    """The item that a global offset lies in: of those whose place is decided the last one that begins at or before the offset, else the
    first one."""
    placed = [item for item in items if item.logic_offset >= 0]
    return next((item for item in reversed(placed) if offset >= item.logic_offset), placed[0] if placed else None)


def find_next(items: Sequence[MappingItem], current: MappingItem) -> MappingItem | None:
    """The item after `current`, if its place is decided."""
    later = [item for item in items if item.gen > current.gen]
    return later[0] if later and later[0].logic_offset >= 0 else None


def check_items(items: Sequence[MappingItem]) -> None:
    """Checks that these items can form a global queue in this order. Raises MappingFault."""
    later: MappingItem | None = None
    for item in reversed(items):
        if item.start_offset < 0 or item.gen < 0 or item.queue_id < 0:
            raise MappingFault("The field is illegal, should not be negative")
        if item.queue_id >= QUEUES_MAX or max(item.start_offset, item.logic_offset, item.end_offset) > OFFSET_MAX or item.logic_offset < -1:
            raise MappingFault("The field is illegal, it is out of bounds")
        if later is not None and item.logic_offset < 0:
            raise MappingFault("The non-latest item has negative logic offset")
        if later is not None and item.gen >= later.gen:
            raise MappingFault("The gen does not increase monotonically")
        if item.end_offset != -1 and item.end_offset < item.start_offset:
            raise MappingFault("The endOffset is smaller than the start offset")
        if later is not None and later.logic_offset != -1:
            if item.logic_offset >= later.logic_offset:
                raise MappingFault("The base logic offset does not increase monotonically")
            if item.max_global_offset >= later.logic_offset:
                raise MappingFault("The max logic offset does not increase monotonically")
        later = item


def check_successor(old: Sequence[MappingItem], new: Sequence[MappingItem], *, same_epoch: bool) -> None:
    """Checks that `new` may replace `old`: items that both have must agree, and a new leader needs a new epoch. Items at the beginning may
    be missing because they were cleaned. Raises MappingFault."""
    if not old:
        return
    if not new:
        raise MappingFault("The new item list is null or empty")
    known = {item.gen: item for item in old}
    for item in new:
        before = known.get(item.gen)
        if before is not None and _place(before) != _place(item):
            raise MappingFault(f"The item of gen {item.gen} is not the queue that it was")
        if before is not None and before.logic_offset != -1 and before.logic_offset != item.logic_offset:
            raise MappingFault(f"The logic offset of gen {item.gen} was decided: {before.logic_offset} != {item.logic_offset}")
    if same_epoch and (old[-1].gen != new[-1].gen or _place(old[-1]) != _place(new[-1])):
        raise MappingFault("The new leader is different but epoch equal")


def _place(item: MappingItem) -> tuple[str, int, int]:
    return item.broker_name, item.queue_id, item.start_offset


def led_queues(mappings: Iterable[QueueMapping], *, newest: bool = False, complete: bool = False) -> dict[int, tuple[QueueMapping, Items]]:
    """Every global queue with its leader's mapping and its items. `newest`: of two leaders the one with the larger epoch counts; otherwise
    two are a fault. `complete`: no queue may be missing. Raises MappingFault."""
    found: dict[int, tuple[QueueMapping, Items]] = {}
    total = 0
    for mapping in sorted(mappings, key=lambda each: -each.epoch):
        total = max(total, mapping.total_queues)
        for global_id, items in sorted(mapping.hosted.items()):
            check_items(items)
            if not mapping.leads(items):
                continue
            if global_id not in found:
                found[global_id] = (mapping, items)
            elif not newest:
                raise MappingFault(f"The queue id is duplicated in broker {mapping.broker_name} {mapping.broker_name}")
    if complete and total != len(found):
        raise MappingFault(f"The total queue number in config does not match the real hosted queues {total} != {len(found)}")
    if complete:
        for global_id in range(total):
            if global_id not in found:
                raise MappingFault(f"The queue number {global_id} is not in globalIdMap")
    check_no_shared_queue(found)
    return found


def check_no_shared_queue(led: Mapping[int, tuple[QueueMapping, Items]]) -> None:
    """Checks that no queue of a broker is a piece of two global queues, or twice a piece of one. Raises MappingFault."""
    owners: dict[str, int] = {}
    for global_id, (mapping, items) in led.items():
        for item in items:
            queue = f"{item.broker_name}-{item.queue_id}"
            if queue in owners:
                raise MappingFault(
                    f"Topic {mapping.topic} global queue id {global_id} and {owners[queue]} shared the same physical queue {queue}"
                )
            owners[queue] = global_id
