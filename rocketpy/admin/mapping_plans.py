"""Which broker gets which global queue of a static topic, when it is made, grows or moves. No request is sent here.
RocketMQ: TopicQueueMappingUtils, TopicRemappingDetailWrapper (5.3.3 remoting/protocol/statictopic/).

    what brokers have ─ checks ─ queues shared out ─► what brokers are to have ─ checks ─► Plan

Faults are MappingFault, in RocketMQ's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..remoting.bodies import read_integer, read_mapping, read_text
from ..remoting.queue_mapping import (
    QUEUES_MAX,
    Items,
    MappingFault,
    MappingItem,
    QueueMapping,
    StaticTopic,
    check_no_shared_queue,
    led_queues,
)

CREATE_OR_UPDATE: Final = "CREATE_OR_UPDATE"
REMAPPING: Final = "REMAPPING"
EPOCH_STEP: Final = 1000
BLOCK_SIZE: Final = 10_000
"""Logic offsets begin at a multiple of it: an old leader may be sent some messages more before it hears that it does not lead any more."""

Brokers = Mapping[str, StaticTopic]
"""By broker name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What brokers have or shall have: the content of a mapping data file (TopicRemappingDetailWrapper)."""

    topic: str
    kind: str
    epoch: int
    brokers: Brokers
    map_in: frozenset[str] = field(default_factory=frozenset)
    """Brokers that get queues of others, which stand in map_out."""
    map_out: frozenset[str] = field(default_factory=frozenset)

    def to_json(self) -> dict[str, Any]:
        return {
            "brokerConfigMap": {name: topic.to_json() for name, topic in sorted(self.brokers.items())},
            "brokerToMapIn": sorted(self.map_in),
            "brokerToMapOut": sorted(self.map_out),
            "epoch": self.epoch,
            "topic": self.topic,
            "type": self.kind,
        }

    @classmethod
    def from_json(cls, value: Any) -> Plan:
        """Raises ValueError."""
        if not isinstance(value, dict):
            raise MappingFault(f"mapping data is {type(value).__name__}, expected an object")
        names = [value.get(member) or [] for member in ("brokerToMapIn", "brokerToMapOut")]
        if not all(isinstance(each, list) for each in names):
            raise MappingFault("brokerToMapIn and brokerToMapOut are lists")
        map_in, map_out = (frozenset(map(str, each)) for each in names)
        brokers = {name: StaticTopic.from_json(topic) for name, topic in read_mapping(value, "brokerConfigMap").items()}
        if not map_in | map_out <= brokers.keys():
            raise MappingFault("a broker to map in or out is not in brokerConfigMap")
        return cls(read_text(value, "topic"), read_text(value, "type"), read_integer(value, "epoch"), brokers, map_in, map_out)


def mapping_of(name: str, topic: StaticTopic) -> QueueMapping:
    """The mapping of a topic. Raises MappingFault if the broker has the topic as a plain one."""
    if topic.mapping is None:
        raise MappingFault(f"Mapping info should not be null in broker {name}")
    return topic.mapping


def check_agreement(topic: str, brokers: Brokers) -> tuple[int, int] | None:
    """(epoch, number of queues), which must be the same at all brokers; None if there are none. Raises MappingFault if they differ."""
    agreed: QueueMapping | None = None
    for name, known in brokers.items():
        mapping = mapping_of(name, known)
        if name != mapping.broker_name:
            raise MappingFault(f"The broker name is not equal {name} != {mapping.broker_name} ")
        if mapping.is_dirty:
            raise MappingFault(f"The mapping info is dirty in broker  {name}")
        if known.config.topic_name != mapping.topic:
            raise MappingFault(f"The topic name is inconsistent in broker  {name}")
        if topic != mapping.topic:
            raise MappingFault(f"The topic name is not match for broker  {name}")
        agreed = agreed or mapping
        if mapping.scope != agreed.scope:
            raise MappingFault(f"scope does not match {mapping.scope} != {agreed.scope} in {name}")
        if mapping.epoch != agreed.epoch:
            raise MappingFault(f"epoch does not match {agreed.epoch} != {mapping.epoch} in {name}")
        if mapping.total_queues != agreed.total_queues:
            raise MappingFault(f"total queue number does not match {agreed.total_queues} != {mapping.total_queues} in {name}")
    return None if agreed is None else (agreed.epoch, agreed.total_queues)


def check_queues(brokers: Brokers) -> None:
    """Checks that every piece is a queue that its broker has. Raises MappingFault."""
    for name, known in brokers.items():
        if known.config.read_queue_nums < known.config.write_queue_nums:
            raise MappingFault("Read queues is smaller than write queues")
        for item in (each for items in mapping_of(name, known).hosted.values() for each in items):
            if item.start_offset != 0:
                raise MappingFault("The start offset does not begin from 0")
            if item.broker_name not in brokers:
                raise MappingFault("The broker of item does not exist")
            if item.queue_id >= brokers[item.broker_name].config.write_queue_nums:
                raise MappingFault("The physical queue id is overflow the write queues")


def _leaders(brokers: Brokers) -> dict[int, tuple[QueueMapping, Items]]:
    """The leaders of all global queues, after all checks. Raises MappingFault."""
    led = led_queues([mapping_of(name, known) for name, known in brokers.items()], complete=True)
    check_no_shared_queue(led)
    check_queues(brokers)
    return led


def share_out(counts: Mapping[str, int], more: int, order: Callable[[list[str]], list[str]]) -> list[str]:
    """Distributes that many new queues: each goes to a broker that has the fewest. order: decides between equal ones."""
    shares, chosen = dict(counts), []
    least: list[str] = []
    for _ in range(more):
        if not least:
            fewest = min(shares.values())
            least = order(sorted(name for name, count in shares.items() if count == fewest))
        chosen.append(least.pop(0))
        shares[chosen[-1]] += 1
    return chosen


def plan_queues(
    topic: str, queues: int, targets: Iterable[str], brokers: Brokers, now_ms: int, order: Callable[[list[str]], list[str]]
) -> Plan:
    """Plans a new static topic, or more queues for an existing one, whose queues stay where they are. Raises MappingFault."""
    wanted = set(targets)
    for name, known in brokers.items():
        if mapping_of(name, known).hosted and name not in wanted:
            raise MappingFault(f"The existed broker {name} does not in target brokers ")
    agreed = check_agreement(topic, brokers)
    led = _leaders(brokers) if brokers else {}
    if queues < len(led):
        raise MappingFault(f"Cannot decrease the queue num for static topic {queues} < {len(led)}")
    if queues == len(led):
        raise MappingFault("The topic queue num is equal the existed queue num, do nothing")
    if queues > QUEUES_MAX:
        raise MappingFault(f"A topic has at most {QUEUES_MAX} queues")
    counts = dict.fromkeys(sorted(wanted), 0)
    for mapping, _ in led.values():
        counts[mapping.broker_name] = counts.get(mapping.broker_name, 0) + 1
    epoch = max((agreed[0] if agreed else now_ms) + EPOCH_STEP, now_ms)
    planned = dict(brokers)
    for global_id, name in enumerate(share_out(counts, queues - len(led), order), start=len(led)):
        planned[name] = _with_queue(planned.get(name) or StaticTopic.empty(topic, name, queues, epoch), global_id, ())
    plan = Plan(topic, CREATE_OR_UPDATE, epoch, _at_epoch(planned, epoch, queues))
    check_agreement(topic, plan.brokers)
    _leaders(plan.brokers)
    return plan


def plan_move(topic: str, targets: Iterable[str], brokers: Brokers, now_ms: int) -> Plan:
    """Plans a new distribution of a static topic's queues over the targets, such that no broker both gives and gets queues. Raises
    MappingFault."""
    wanted = set(targets)
    agreed = check_agreement(topic, brokers)
    if agreed is None:
        raise MappingFault("No topic route to do the remapping")
    epoch_before, total = agreed
    led = _leaders(brokers)
    before: dict[str, int] = {}
    for mapping, _ in led.values():
        before[mapping.broker_name] = before.get(mapping.broker_name, 0) + 1
    shares = dict.fromkeys(sorted(wanted), 0)
    for name in share_out(shares, total, lambda names: sorted(names, key=lambda each: -before.get(each, 0))):
        shares[name] += 1
    moving = []
    for global_id, (mapping, _) in sorted(led.items()):
        if shares.get(mapping.broker_name, 0) > 0:
            shares[mapping.broker_name] -= 1
        else:
            moving.append(global_id)
    receivers = [name for name, count in shares.items() for _ in range(count)]
    epoch = max(epoch_before + EPOCH_STEP, now_ms)
    planned, map_in, map_out = dict(brokers), set[str](), set[str]()
    for global_id, name in zip(moving, receivers, strict=True):
        mapping, items = led[global_id]
        map_in.add(name)
        map_out.add(mapping.broker_name)
        planned[name] = _with_queue(planned.get(name) or StaticTopic.empty(topic, name, total, epoch), global_id, items)
        moved = mapping_of(name, planned[name]).hosted[global_id]
        planned[mapping.broker_name] = _with_items(planned[mapping.broker_name], global_id, moved)
    plan = Plan(topic, REMAPPING, epoch, _at_epoch(planned, epoch, total), frozenset(map_in), frozenset(map_out))
    check_agreement(topic, plan.brokers)
    for mapping, _ in _leaders(plan.brokers).values():
        if mapping.broker_name not in wanted:
            raise MappingFault("The leader broker does not in target broker")
    return plan


def complete(plan: Plan, all_brokers: Iterable[str]) -> Plan:
    """The plan with the brokers added that have no queue: they answer for the topic, too."""
    any_topic = next(iter(plan.brokers.values()))
    mapping = mapping_of("", any_topic)
    missing = {
        name: StaticTopic.empty(plan.topic, name, mapping.total_queues, mapping.epoch)
        for name in sorted(all_brokers)
        if name not in plan.brokers
    }
    return replace(plan, brokers={**plan.brokers, **missing})


def adopted(plan: Plan, known: Brokers) -> Plan:
    """The plan with the logic offsets that an earlier run has already told brokers: a decided offset stays."""
    brokers = dict(plan.brokers)
    for name, topic in plan.brokers.items():
        for global_id, items in mapping_of(name, topic).hosted.items():
            leader = known.get(items[-1].broker_name)
            told = leader.mapping.hosted.get(global_id, ()) if leader is not None and leader.mapping is not None else ()
            if told and told[-1].logic_offset >= 0 and replace(told[-1], logic_offset=items[-1].logic_offset) == items[-1]:
                brokers[name] = _with_items(brokers[name], global_id, (*items[:-1], told[-1]))
    return replace(plan, brokers=brokers)


def placed(plan: Plan, ends: Mapping[tuple[str, int], int]) -> Plan:
    """The plan with the logic offsets of the moved queues decided: behind the ends of their former leaders' queues, given by broker and
    queue. Raises MappingFault."""
    brokers = dict(plan.brokers)
    for name in sorted(plan.map_out):
        for global_id, items in sorted(mapping_of(name, plan.brokers[name]).hosted.items()):
            if len(items) < 2 or items[-1].logic_offset > 0:
                continue
            old, new = items[-2:]
            end = ends.get((old.broker_name, old.queue_id))
            if end is None:
                raise MappingFault(f"Cannot get the max offset for old leader {old}")
            if end < old.start_offset:
                raise MappingFault(f"The max offset is smaller then the start offset {old} {end}")
            decided = (*items[:-1], replace(new, logic_offset=rounded_up(old.global_offset(end))))
            for each in (name, new.broker_name):
                brokers[each] = _with_items(brokers[each], global_id, decided)
    return replace(plan, brokers=brokers)


def rounded_up(offset: int, block: int = BLOCK_SIZE) -> int:
    """The beginning of the next block, or of the one after it if less than half of the current one is left."""
    whole, rest = divmod(offset, block)
    return (whole + (1 if rest < block // 2 else 2)) * block


def _with_queue(known: StaticTopic, global_id: int, items: Items) -> StaticTopic:
    """The plan with one more queue, as the last piece of a global queue."""
    queue_id = known.config.write_queue_nums
    config = replace(known.config, read_queue_nums=known.config.read_queue_nums + 1, write_queue_nums=queue_id + 1)
    gen, logic_offset = (items[-1].gen + 1, -1) if items else (0, 0)
    assert known.mapping is not None
    piece = MappingItem(gen, queue_id, known.mapping.broker_name, logic_offset)
    return _with_items(replace(known, config=config), global_id, (*items, piece))


def _with_items(known: StaticTopic, global_id: int, items: Items) -> StaticTopic:
    assert known.mapping is not None
    return replace(known, mapping=replace(known.mapping, hosted={**known.mapping.hosted, global_id: items}))


def _at_epoch(brokers: Brokers, epoch: int, total: int) -> dict[str, StaticTopic]:
    return {
        name: replace(known, mapping=replace(mapping_of(name, known), epoch=epoch, total_queues=total)) for name, known in brokers.items()
    }
