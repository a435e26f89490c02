"""Consumer offsets: what the control plane does with their native table. Questions over all groups, copies, resets, and the file.
RocketMQ: ConsumerOffsetManager (5.3.3 broker/offset/). File config/consumerOffset.json (`topic@group` → queue → offset),
request GET_ALL_CONSUMER_OFFSET.

Pulls and UPDATE_CONSUMER_OFFSET change the native table without coming through here, so every question goes to it. All offsets as rows take
20 ms for 80,000: only what is about all groups asks for them. One group's or one topic's are chosen natively, without the GIL.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..remoting.bodies import DataVersion
from ..remoting.json_codec import write_fastjson
from .json_members import integer_member, object_member
from .masters_answers import LOG_END
from .names import LIGHT_QUEUE_PREFIX, is_light, is_possible
from .tables import OffsetSink
from .topics import QUEUES_MAX

log = logging.getLogger(__name__)

OFFSETS_FILE, LIGHT_OFFSETS_FILE = "consumerOffset.json", "lmqConsumerOffset.json"
"""The second with enableLmq: then RocketMQ has the offsets of all groups there, those of light groups (`%LMQ%…`) in lmqOffsetTable."""
SEPARATOR = "@"
_LONG_MAX = (1 << 63) - 1

Offsets = dict[str, dict[int, int]]
"""`topic@group` → queue id → offset."""


class ConsumerOffsets:
    """The offsets of all groups. The data version moves once in `version_step` commits, as in RocketMQ, to save its slaves work."""

    def __init__(self, table: OffsetSink, now_ms: Callable[[], int], version_step: int = 500) -> None:
        self._table = table
        self._now_ms = now_ms
        self._version_step = max(1, version_step)
        self._version = DataVersion(now_ms())
        self._version_base = 0

    @property
    def version(self) -> DataVersion:
        steps = (self._table.offset_version - self._version_base) // self._version_step
        if steps > 0:
            self._version_base += steps * self._version_step
            self._version = DataVersion(self._now_ms(), self._version.counter + steps, self._version.state_version)
        return self._version

    @property
    def change_count(self) -> int:
        """Grows with every change; while it stays the same, there is nothing to save."""
        return self._table.offset_version

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset; -1 if there is none."""
        return self._table.read_offset(group, topic, queue_id)

    def query_pull(self, group: str, topic: str, queue_id: int) -> int:
        """The offset after the last pull; the committed offset if the group never pulled."""
        return self._table.read_pull_offset(group, topic, queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str) -> None:
        stored = self._table.read_offset(group, topic, queue_id)
        if 0 <= offset < stored:
            log.warning(
                "[NOTIFYME]update consumer offset less than store. clientHost=%s, key=%s, queueId=%d, requestOffset=%d, storeOffset=%d",
                client,
                topic + SEPARATOR + group,
                queue_id,
                offset,
                stored,
            )
        self._table.put_offset(group, topic, queue_id, offset)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Sets the offset, and sends the group's next pull of the queue there; commits until then are ignored."""
        self._table.put_offset(group, topic, queue_id, offset)
        self._table.reset_offset(group, topic, queue_id, offset)

    def of(self, group: str, topic: str) -> dict[int, int]:
        return {queue: offset for _, _, queue, offset in self._table.offsets(group, topic)}

    def topics_of(self, group: str) -> set[str]:
        return {topic for _, topic, _, _ in self._table.offsets(group)}

    def groups_of(self, topic: str) -> set[str]:
        return {group for group, _, _, _ in self._table.offsets(topic=topic)}

    def topics_by_group(self) -> dict[str, set[str]]:
        topics: dict[str, set[str]] = {}
        for group, topic, _, _ in self._table.offsets():
            topics.setdefault(group, set()).add(topic)
        return topics

    def delete_group(self, group: str) -> None:
        self._table.delete_offsets(group)
        log.info("clean group's offsets, %s", group)

    def delete_topic(self, topic: str) -> None:
        for group in sorted(self.groups_of(topic)):
            log.warning("Clean topic's offset, %s", topic + SEPARATOR + group)
        self._table.delete_offsets(topic=topic)  # also of groups that have just begun

    def delete(self, group: str, topic: str) -> None:
        """Whatever there is of the two, at once: of lite topics there are many."""
        self._table.delete_offsets(group, topic)

    def clone(self, source_group: str, target_group: str, topic: str) -> int:
        """Copies the offsets of one topic; returns how many queues were copied."""
        offsets = self.of(source_group, topic)
        for queue_id, offset in offsets.items():
            self._table.put_offset(target_group, topic, queue_id, offset)
        return len(offsets)

    def lowest(self, topic: str, ignored_groups: set[str], min_offset: Callable[[int], int]) -> dict[int, int]:
        """Per queue, the smallest offset of all groups that is still in the store (QUERY_CORRECTION_OFFSET)."""
        result: dict[int, int] = {}
        for group, _, queue_id, offset in self._table.offsets(topic=topic):
            if group not in ignored_groups and offset >= min_offset(queue_id):
                result[queue_id] = min(result.get(queue_id, _LONG_MAX), offset)
        return result

    def clean_unsubscribed(self, is_subscribed: Callable[[str, str], bool], min_offset: Callable[[str, int], int]) -> list[str]:
        """Forgets offsets of topics that their group does not subscribe to, if they lie before everything in the store. Returns the
        forgotten keys."""
        by_key: dict[tuple[str, str], dict[int, int]] = {}
        for group, topic, queue_id, offset in self._table.offsets():
            by_key.setdefault((group, topic), {})[queue_id] = offset
        gone: list[str] = []
        for (group, topic), queues in by_key.items():
            if is_subscribed(group, topic) or any(offset > min_offset(topic, queue) for queue, offset in queues.items()):
                continue
            self._table.delete_offsets(group, topic)
            gone.append(topic + SEPARATOR + group)
            log.warning("remove topic offset, %s", gone[-1])
        return gone

    def merge(
        self,
        saved: SavedOffsets,
        *,
        forward_only: bool,
        before: SavedOffsets | None = None,
        end_of: Callable[[str, int], int] | None = None,
    ) -> int:
        """Takes over offsets of a master or a file; returns how many changed.

        `forward_only`: an offset never goes back, but for one that is still what the same master, there ever since, said `before`: then
        it was set back at the master, by an operator or a consumer's seek. Or for one past its light queue's end here, as end_of says:
        that has begun anew since. What the master has forgotten since `before`, with a group or a topic, is forgotten here too: else it
        would take it for something new when it returns (returning_master.py)."""
        changed = 0
        earlier = before.offsets if before is not None else {}

        def is_past(topic: str, queue_id: int, offset: int) -> bool:
            return end_of is not None and is_light(topic) and offset > end_of(topic, queue_id)

        for key in earlier.keys() - saved.offsets.keys():
            topic, group = split_key(key)
            self._table.delete_offsets(group, topic)
            changed += 1
        for key, queues in saved.offsets.items():
            topic, group = split_key(key)
            for queue_id, offset in queues.items():
                current = self._table.read_offset(group, topic, queue_id)
                is_set_back = current == earlier.get(key, {}).get(queue_id)
                if offset == current or (forward_only and offset < current and not is_set_back and not is_past(topic, queue_id, current)):
                    continue
                self._table.put_offset(group, topic, queue_id, offset)
                changed += 1
        return changed

    def advance(self, saved: SavedOffsets, end_of: Callable[[str, int], int | None]) -> int:
        """Moves offsets forward to those of a slave, none past its queue's end here; returns how many moved. Topics without one are passed
        over."""
        moved = 0
        for key, queues in saved.offsets.items():
            topic, group = split_key(key)
            for queue_id, offset in queues.items():
                end = end_of(topic, queue_id)
                if end is not None and min(offset, end) > self._table.read_offset(group, topic, queue_id):
                    self._table.put_offset(group, topic, queue_id, min(offset, end))
                    moved += 1
        return moved

    def hold_back(self, end_of: Callable[[str, int], int | None]) -> int:
        """Moves offsets past the end of their queue back to that end. Returns how many moved. After a power cut, or when a slave that was
        behind became the master, the log may lack messages that groups have read already: new messages get their offsets, and nobody has
        read those."""
        moved = 0
        for group, topic, queue_id, offset in self._table.offsets():
            end = end_of(topic, queue_id)
            if end is not None and offset > end:
                self._table.put_offset(group, topic, queue_id, end)
                moved += 1
        return moved

    def take_back(self, saved: SavedOffsets, rests_on_log: Callable[[str, str], bool]) -> int:
        """Of what rests on records in the log, as rests_on_log(topic, group) says: what the file holds, of a broker whose own records since
        then may have been taken back. How many moved. A queue that was begun since stays: where it began is not known."""
        moved = 0
        for group, topic, queue_id, offset in self._table.offsets():
            known = saved.offsets.get(topic + SEPARATOR + group, {}).get(queue_id, offset)
            if known < offset and rests_on_log(topic, group):
                self._table.put_offset(group, topic, queue_id, known)
                moved += 1
        return moved

    def load(self, saved: SavedOffsets) -> None:
        self.merge(saved, forward_only=False)
        self.assign_version(saved.version)

    def assign_version(self, version: DataVersion) -> None:
        self._version = version
        self._version_base = self._table.offset_version

    def snapshot(self) -> OffsetsSnapshot:
        """All offsets at one moment."""
        return OffsetsSnapshot(self.version, self._table.copy_offsets())


@dataclass(frozen=True, slots=True)
class OffsetsSnapshot:
    """All offsets at one moment: (group, topic, queue id, offset). The rows are made where they are read."""

    version: DataVersion
    rows: Iterable[tuple[str, str, int, int]]

    def text(self, *, pretty: bool = False, light: bool = False, log_end: int | None = None) -> str:
        """The JSON of config/consumerOffset.json as 5.5.0 writes it; older releases skip members that they do not know. `light`: that of
        lmqConsumerOffset.json. `log_end`: for slaves, see SavedOffsets.

        The text is put together by hand: with 100,000 offsets the general writer takes seven times as long, every five seconds and for
        every slave. Made in a thread, it must not keep the GIL from the event loop, as sorting all rows at once would.
        """
        queues: dict[str, dict[int, int]] = {}
        topics: dict[str, set[str]] = {}
        light_queues: dict[str, str] = {}
        for group, topic, queue_id, offset in self.rows:
            if light and queue_id == 0 and group.startswith(LIGHT_QUEUE_PREFIX):
                light_queues[topic + SEPARATOR + group] = str(offset)
                continue
            queues.setdefault(topic + SEPARATOR + group, {})[queue_id] = offset
            topics.setdefault(group, set()).add(topic)
        tables = {key: [f"{queue}:{offset}" for queue, offset in sorted(queues[key].items())] for key in sorted(queues)}
        names = {group: [json.dumps(topic) for topic in sorted(topics[group])] for group in sorted(topics)}
        version = write_fastjson(self.version.to_json(), pretty=pretty).decode()
        members = (
            ("dataVersion", version.replace("\n", "\n\t")),
            ("groupTopicMap", _block({group: _listed("[]", members, pretty) for group, members in names.items()}, pretty)),
            *([("lmqOffsetTable", _block(dict(sorted(light_queues.items())), pretty))] if light else []),
            *([(LOG_END, str(log_end))] if log_end is not None else []),
            ("offsetTable", _block({key: _listed("{}", members, pretty) for key, members in tables.items()}, pretty)),
            ("pullOffsetTable", "{}"),
        )
        return _joined("{}", [f'"{name}":{value}' for name, value in members], pretty, 0)


def _block(members: Mapping[str, str], pretty: bool) -> str:
    return _joined("{}", [f"{json.dumps(name)}:{value}" for name, value in members.items()], pretty, 1)


def _listed(brackets: str, members: list[str], pretty: bool) -> str:
    return _joined(brackets, members, pretty, 2)


def _joined(brackets: str, members: list[str], pretty: bool, depth: int) -> str:
    """The members in fastjson's layout: one per line, indented with tabs, or all in one line."""
    if not members:
        return brackets
    line = "\n" + "\t" * (depth + 1) if pretty else ""
    end = "\n" + "\t" * depth if pretty else ""
    return f"{brackets[0]}{line}{f',{line}'.join(members)}{end}{brackets[1]}"


@dataclass(frozen=True, slots=True)
class SavedOffsets:
    """The contents of config/consumerOffset.json, of lmqConsumerOffset.json, or of a master's answer to GET_ALL_CONSUMER_OFFSET."""

    offsets: Mapping[str, Mapping[int, int]]
    version: DataVersion
    log_end: int = 0
    """Of a master that is rocketpy: where its log ended at the time; else 0."""

    @property
    def topics(self) -> set[str]:
        return {split_key(key)[0] for key in self.offsets}

    def without(self, is_left_out: Callable[[str, str], bool]) -> SavedOffsets:
        """The offsets without those of topics and groups that is_left_out(topic, group) names."""
        return replace(self, offsets={key: self.offsets[key] for key in self.offsets if not is_left_out(*split_key(key))})

    @staticmethod
    def from_json(value: Any) -> SavedOffsets:
        """Raises ValueError. Keys other than `topic@group` are skipped with a line in the log, as RocketMQ ignores them. So are negative
        offsets and impossible queue numbers, which RocketMQ does not check when a client commits them."""
        if not isinstance(value, Mapping):
            raise ValueError(f"offsets are {type(value).__name__}, expected an object")
        offsets: Offsets = {}
        for key, queues in object_member(value, "offsetTable", "offsets").items():
            if not isinstance(key, str) or not isinstance(queues, Mapping):
                raise ValueError(f"offsetTable.{key} is {type(queues).__name__}, expected an object")
            if not _is_key(key, of_light=False):
                continue
            numbers = ((_number(queue, key), _number(offset, key)) for queue, offset in queues.items())
            offsets[key] = {queue: offset for queue, offset in numbers if offset >= 0 and 0 <= queue < QUEUES_MAX}
        for key, offset in object_member(value, "lmqOffsetTable", "offsets").items():
            if _is_key(str(key), of_light=True):
                offsets.setdefault(str(key), {})[0] = max(0, _number(offset, key))
        version = DataVersion.from_json(object_member(value, "dataVersion", "offsets"))
        return SavedOffsets(offsets, version, integer_member(value, LOG_END, 0, "offsets"))


def split_key(key: str) -> tuple[str, str]:
    """(topic, group). The names of light queues and light groups may contain another @, because producers and clients choose them
    unchecked."""
    at = key.find(SEPARATOR + LIGHT_QUEUE_PREFIX)
    if at < 0:
        at = key.rfind(SEPARATOR) if key.startswith(LIGHT_QUEUE_PREFIX) else key.find(SEPARATOR)
    return (key, "") if at < 0 else (key[:at], key[at + 1 :])


def _is_key(key: str, *, of_light: bool) -> bool:
    """Whether the key is topic@group with possible names; others are logged."""
    topic, group = split_key(key)
    if is_possible(topic) and is_possible(group) and (of_light or SEPARATOR not in group):
        return True
    log.warning("offsets of %r are skipped: the key is not topic@group", key)
    return False


def _number(value: Any, key: str) -> int:
    """A queue id or an offset; in standard JSON, keys are texts."""
    if isinstance(value, str) and value.lstrip("-").isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -_LONG_MAX - 1 <= value <= _LONG_MAX:
        raise ValueError(f"offsetTable.{key}: {value!r} is not a number of a queue or offset")
    return value
