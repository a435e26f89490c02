"""Of the static topics: which global queues this broker leads or led, and through which queues each of them went.
RocketMQ: TopicQueueMappingManager (5.3.3 broker/topic/). File config/topicQueueMapping.json, request GET_ALL_TOPIC_CONFIG.

    UPDATE_AND_CREATE_STATIC_TOPIC ─ update ─┐
    mapping_cleaner ─ clean ─────────────────┼─ _put ─ sink (native cells) ─ topics (native flag) ─ version + 1 ─► file, registration
    a slave's master ─ replace_all ──────────┘

Decisions only, as in topics.py. The sink has the last piece of every queue that is led here, before the topic says that it is static.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._core.errors import RocketpyError, Unsupported
from ..remoting.bodies import DataVersion, TopicConfig
from ..remoting.codes import ResponseCode
from ..remoting.command import CommandError
from ..remoting.json_codec import write_fastjson
from ..remoting.queue_mapping import Items, MappingFault, QueueMapping, check_items, check_successor, find_item
from . import names
from .json_members import object_member
from .tables import MappingSink, SettlingSink
from .topics import TopicTable

log = logging.getLogger(__name__)

QUEUE_MAPPINGS_FILE = "topicQueueMapping.json"
NO_QUEUE = -1
QUEUES_TOLD = 16
SETTLE_LOOK_S = 0.001
SETTLE_LOOKS = 4000


class QueueMappings:
    """The mappings of all static topics of this broker."""

    def __init__(self, broker_name: str, topics: TopicTable, sink: MappingSink, now_ms: Callable[[], int]) -> None:
        self._broker_name = broker_name
        self._topics = topics
        self._sink = sink
        self._now_ms = now_ms
        self._mappings: dict[str, QueueMapping] = {}
        self._text: str | None = None
        self.version = DataVersion(now_ms())

    def __contains__(self, topic: str) -> bool:
        return topic in self._mappings

    def __iter__(self) -> Iterator[QueueMapping]:
        return iter(self._mappings.values())

    def __len__(self) -> int:
        return len(self._mappings)

    def get(self, topic: str) -> QueueMapping | None:
        return self._mappings.get(topic)

    def successor(self, new: QueueMapping, *, is_forced: bool = False) -> QueueMapping:
        """What would stand here after an update, with the queues that the new mapping does not name kept. Raises MappingFault for what must
        not take the place of what is here; with is_forced only for what cannot stand at all."""
        if new.broker_name != self._broker_name:
            raise MappingFault(f"The mapping is of broker {new.broker_name}, this is {self._broker_name}")
        for items in new.hosted.values():
            check_items(items)
        old = self._mappings.get(new.topic)
        if old is None:
            return new
        if not is_forced:
            _check_change(old, new)
        return replace(new, hosted={**old.hosted, **new.hosted})

    def update(self, mapping: QueueMapping) -> bool:
        """Takes over what `successor` returned. False if nothing differs."""
        old = self._mappings.get(mapping.topic)
        if mapping == old:
            return False
        log.info("Update topic queue mapping of %s", change_text(old, mapping))
        self._put(mapping)
        self.next_version()
        return True

    def clean(self, topic: str, epoch: int, changes: Mapping[int, tuple[Items, Items]]) -> bool:
        """Takes pieces away that nobody needs: by global queue what stood there, and what is to (nothing: the queue goes). What has changed
        meanwhile stays as it is. True when that took anything away."""
        known = self._mappings.get(topic)
        if known is None or known.epoch != epoch:
            return False
        hosted = dict(known.hosted)
        for global_id, (before, after) in changes.items():
            if hosted.get(global_id) != before:
                continue
            log.info("Clean topic queue mapping, topic=%s, queue=%d: %s", topic, global_id, [item for item in before if item not in after])
            if after:
                hosted[global_id] = after
            else:
                del hosted[global_id]
        return self.update(replace(known, hosted=hosted))

    def delete(self, topic: str) -> bool:
        mapping = self._mappings.pop(topic, None)
        if mapping is None:
            return False
        log.info("delete topic queue mapping OK, static topic: %s, queues led: %d", topic, len(mapping.led()))
        self._text = None
        self._topics.set_static(topic, is_static=False)
        for global_id in mapping.led():
            self._unmap(topic, global_id)
        self.next_version()
        return True

    def infos(self, topics: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What name servers are told about those topics."""
        return {topic: mapping.info_json() for topic in topics if (mapping := self._mappings.get(topic)) is not None}

    def next_version(self) -> None:
        self.version = self.version.next(now_ms=self._now_ms())

    def replace_all(self, saved: SavedMappings) -> bool:
        """Takes over a master's table. False when it is here already. RocketMQ's slaves leave its version behind, and no mapping."""
        if saved.version == self.version and saved.mappings == self._mappings:
            return False
        for topic in [topic for topic in self._mappings if topic not in saved.mappings]:
            self.delete(topic)
        self.load(saved)
        return True

    def load(self, saved: SavedMappings) -> None:
        for mapping in saved.mappings.values():
            if self._mappings.get(mapping.topic) != mapping:
                self._put(mapping)
        self.version = saved.version

    def to_json(self) -> dict[str, Any]:
        """The shape of config/topicQueueMapping.json."""
        return {"dataVersion": self.version.to_json(), "topicQueueMappingInfoMap": self.details()}

    def details(self) -> dict[str, Any]:
        return {topic: self._mappings[topic].to_json() for topic in sorted(self._mappings)}

    def details_text(self) -> str:
        """The text for slaves, which ask every few seconds. It is made only when something has changed."""
        if self._text is None:
            self._text = write_fastjson(self.details()).decode()
        return self._text

    def _put(self, mapping: QueueMapping) -> None:
        """All of it or, without memory, nothing."""
        old = self._mappings.get(mapping.topic)
        before, led = {} if old is None else old.led(), mapping.led()
        try:
            self._map(mapping)
        except RocketpyError:
            if old is not None:
                self._map(old)  # its cells are there
            for global_id in led.keys() - before.keys():
                self._unmap(mapping.topic, global_id)
            raise
        for global_id in before.keys() - led.keys():
            self._unmap(mapping.topic, global_id)
        self._mappings[mapping.topic] = mapping
        self._text = None
        self._topics.set_static(mapping.topic, is_static=True)

    def _map(self, mapping: QueueMapping) -> None:
        for global_id in mapping.led():
            items = mapping.hosted[global_id]
            last = items[-1]
            is_earliest = find_item(items, 0) is last
            self._sink.put_queue_mapping(mapping.topic, global_id, last.queue_id, last.logic_offset, last.start_offset, is_earliest)

    def _unmap(self, topic: str, global_id: int) -> None:
        self._sink.put_queue_mapping(topic, global_id, NO_QUEUE, 0, 0, False)


async def sends_settled(sink: SettlingSink) -> None:
    """Behind a change: returns when no send is under way that met the mapping as it was, so that the end of a queue that was given up is
    its end. Raises CommandError when the store takes too long for that."""
    sink.mark_mapped_sends()
    for _ in range(SETTLE_LOOKS):
        if sink.mapped_sends_are_over():
            return
        await asyncio.sleep(SETTLE_LOOK_S)
    raise CommandError(ResponseCode.SYSTEM_BUSY, "the mapping is changed, but messages that were sent before it are not stored yet")


def change_text(old: QueueMapping | None, new: QueueMapping) -> str:
    """For the log: the queues that differ, each with its pieces, up to QUEUES_TOLD of them."""
    before = {} if old is None else old.hosted
    changed = [global_id for global_id in sorted({**before, **new.hosted}) if before.get(global_id) != new.hosted.get(global_id)]
    pieces = [
        f"{global_id}: "
        + " ".join(f"{each.broker_name}-{each.queue_id}@{each.logic_offset}" for each in new.hosted.get(global_id, ())[-3:])
        for global_id in changed[:QUEUES_TOLD]
    ]
    more = f", {len(changed) - QUEUES_TOLD} more" if len(changed) > QUEUES_TOLD else ""
    return f"{new.topic}, epoch {new.epoch}, of {new.total_queues} queues, changed [{', '.join(pieces)}{more}]"


def check_queues_here(config: TopicConfig, mapping: QueueMapping) -> None:
    """Checks that the topic has the queues that its global queues are to be written to. Raises MappingFault."""
    queues = min(config.read_queue_nums, config.write_queue_nums)
    for global_id, queue_id in mapping.led().items():
        if queue_id >= queues:
            raise MappingFault(f"The physical queue id is overflow the write queues: {queue_id} of global queue {global_id}, of {queues}")


def _check_change(old: QueueMapping, new: QueueMapping) -> None:
    if new.epoch < old.epoch:
        raise MappingFault(f"Can't accept data with small epoch {new.epoch} < {old.epoch}")
    if new.scope != old.scope:
        raise MappingFault(f"Can't accept data with unmatched scope {new.scope} != {old.scope}")
    for global_id, items in old.hosted.items():
        if global_id in new.hosted:
            check_successor(items, new.hosted[global_id], same_epoch=new.epoch == old.epoch)
        elif new.epoch == old.epoch:
            raise MappingFault("Cannot accept equal epoch with null data")


@dataclass(frozen=True, slots=True)
class SavedMappings:
    """The contents of config/topicQueueMapping.json, or the mappings in a master's answer to GET_ALL_TOPIC_CONFIG."""

    mappings: Mapping[str, QueueMapping]
    version: DataVersion

    @staticmethod
    def from_json(value: Any) -> SavedMappings:
        """Reads the file. Raises ValueError for a text that is not such a table, Unsupported for pieces that cannot stand in that order."""
        if not isinstance(value, Mapping):
            raise ValueError(f"queue mappings are {type(value).__name__}, expected an object")
        return _saved(object_member(value, "topicQueueMappingInfoMap", "queue mappings"), value, "dataVersion")

    @staticmethod
    def of_master(value: Any) -> SavedMappings | None:
        """Reads the answer to GET_ALL_TOPIC_CONFIG; None if the master does not know static topics. Raises ValueError."""
        if not isinstance(value, Mapping) or value.get("topicQueueMappingDetailMap") is None:
            return None
        return _saved(object_member(value, "topicQueueMappingDetailMap", "topics"), value, "mappingDataVersion")


def _saved(table: Mapping[Any, Any], value: Mapping[Any, Any], version: str) -> SavedMappings:
    mappings = {}
    for topic, members in table.items():
        mapping = QueueMapping.from_json(members)
        if not names.is_possible(mapping.topic):
            log.warning("the queue mapping of topic %r is skipped: no topic has that name", topic)
            continue
        try:
            for items in mapping.hosted.values():
                check_items(items)
        except MappingFault as error:
            raise Unsupported(f"queue mapping of topic {topic}: {error}; correct it") from error
        mappings[mapping.topic] = mapping
    return SavedMappings(mappings, DataVersion.from_json(object_member(value, version, "queue mappings")))
