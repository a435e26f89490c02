"""Topics of this broker: their configuration, who may create them and how, and the file they live in.
RocketMQ: TopicConfigManager, TopicConfig (5.3.3 broker/topic/, common/). File config/topics.json, request GET_ALL_TOPIC_CONFIG.

    send of an unknown topic ─ create_for_send ─┐
    heartbeat, message sent back ─ create_plain ├─ put ─ sink (native table) ─ version + 1 ─ changed topics → registration, file
    mqadmin updateTopic ─ update ───────────────┘

Decisions only: nothing here waits, sends or writes files. Every topic that exists was validated; the native table (the sink) always holds
exactly what `configs` holds, but for one thing: sends to a new topic come up to Python until `release` says that the file has it, or a
crash could leave acknowledged messages in a topic that nobody knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._core.errors import Unsupported
from ..remoting.bodies import DataVersion, TopicConfig
from . import names
from .attributes import (
    BATCH_QUEUES,
    CLEANUP_POLICY,
    LITE,
    LITE_EXPIRATION,
    MESSAGE_TYPE,
    QUEUE_TYPE,
    TOPIC_ATTRIBUTES,
    altered_attributes,
)
from .json_members import object_member
from .tables import TopicSink
from .topic_texts import TopicsOfAMoment, TopicTexts

log = logging.getLogger(__name__)

QUEUES_MAX = 65_536
"""Read or write queues of one topic: RocketMQ has no bound, and a typing error then makes files until the disk is full."""

SINGLE_TAG = "SINGLE_TAG"
MULTI_TAG = "MULTI_TAG"


def topic_config_fault(config: TopicConfig) -> str | None:
    """Why the numbers of a topic's configuration are refused; None if they are not."""
    for member, count in (("readQueueNums", config.read_queue_nums), ("writeQueueNums", config.write_queue_nums)):
        if not 0 <= count <= QUEUES_MAX:
            return f"{member} = {count} is not in 0..{QUEUES_MAX}"
    if not 0 <= config.perm <= 15:
        return f"perm = {config.perm} is not a permission (2 write, 4 read, 6 both)"
    if config.topic_filter_type not in (SINGLE_TAG, MULTI_TAG):
        return f"topicFilterType = [{config.topic_filter_type}] value invalid"
    if not -(1 << 31) <= config.topic_sys_flag < 1 << 31:
        return f"topicSysFlag = {config.topic_sys_flag} is not a number of 32 bits"
    return None


def topic_config_text(config: TopicConfig) -> str:
    """A topic as Java prints it: the text is part of remarks that operators search for."""
    attributes = ", ".join(f"{name}={value}" for name, value in config.attributes.items())
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, writeQueueNums={config.write_queue_nums}, "
        f"perm={names.permission_text(config.perm)}, topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={str(config.order).lower()}, attributes={{{attributes}}}]"
    )


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The broker's settings that concern topics."""

    cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    auto_create: bool = True
    default_queues: int = 8
    cluster_topic: bool = True
    broker_topic: bool = True
    trace_topic: bool = False
    trace_topic_name: str = names.TRACE_TOPIC
    revive_queues: int = 8
    timer_wheel: bool = True
    light_queues_max: int = 0
    """Names of light queues that are served without having messages yet; 0: those that have some are not served, either."""
    asks_rights: bool = False
    """Who sends a message back needs a right on it, which the reactors do not ask for (message_rights.py)."""


class TopicTable:
    """All topics of this broker."""

    def __init__(self, settings: TopicSettings, sink: TopicSink, now_ms: Callable[[], int], *, is_copy: bool = False) -> None:
        """is_copy: the table belongs to a slave. Its version then keeps the time of the master's, because topics that the slave adds itself
        say nothing about what the master has created since."""
        self._settings = settings
        self._is_copy = is_copy
        self._epoch = 0  # of its master, by which a name server knows a master that is none any more; without a controller there is none
        self._sink = sink
        self._now_ms = now_ms
        self._configs: dict[str, TopicConfig] = {}
        self._withheld: set[str] = set()
        self._static: set[str] = set()
        self._light: set[str] = set()
        self.texts = TopicTexts()
        self.version = DataVersion(0 if is_copy else now_ms())  # of no master yet
        self.system_topics: set[str] = set(names.SYSTEM_TOPICS)
        for config in predefined_topics(settings):
            self.system_topics.add(config.topic_name)
            self._put(config)

    def apply(self, settings: TopicSettings) -> bool:
        """Takes settings that changed at run time. True if a topic was created by that: the default topic, for a broker that was started
        without it."""
        self._settings = settings
        if not settings.auto_create or names.AUTO_CREATE_TOPIC in self._configs:
            return False
        self.system_topics.add(names.AUTO_CREATE_TOPIC)
        self._change(auto_create_topic(settings))
        return True

    def __contains__(self, topic: str) -> bool:
        return topic in self._configs or self.is_light(topic)

    def __len__(self) -> int:
        return len(self._configs)

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(self._configs.values())

    def get(self, topic: str) -> TopicConfig | None:
        """The topic's configuration. Also of light queues, which are in no file: each is treated as if it had been created with one
        queue."""
        return light_topic(topic) if self.is_light(topic) else self._configs.get(topic)

    def is_light(self, topic: str) -> bool:
        return self._settings.light_queues_max > 0 and names.is_light(topic)

    def serve_light(self, topic: str, *, has_messages: bool) -> bool:
        """The native table gets a light queue when it is used first. False: it has as many as it may; half of them while it is a lite
        topic's without messages: whoever may read the parent may make up names, and has all of them for one right."""
        if topic in self._light:
            return True
        most = self._settings.light_queues_max
        if len(self._light) >= (2 * most if has_messages else most // 2 if names.lite_parts(topic) else most):
            return False
        self._sink.put_topic(topic, 1, 1, names.PERM_READ | names.PERM_WRITE, native_send=True, native_pull=True)
        self._light.add(topic)
        return True

    def forget_light(self, topic: str) -> None:
        """A light queue that was deleted; made again, it is served again."""
        if topic in self._light:
            self._light.discard(topic)
            self._sink.delete_topic(topic)

    @property
    def withheld(self) -> frozenset[str]:
        """New topics for which the native send path does not accept messages yet."""
        return frozenset(self._withheld)

    def release(self, topics: Iterable[str]) -> None:
        """These topics were saved, as far as possible: from now on the native send path accepts messages for them."""
        for topic in self._withheld.intersection(topics):
            self._withheld.discard(topic)
            self._put(self._configs[topic])

    def is_order_topic(self, topic: str) -> bool:
        config = self._configs.get(topic)
        return config is not None and config.order

    def is_system_topic(self, topic: str) -> bool:
        return topic in self.system_topics or topic.startswith(names.SYSTEM_TOPIC_PREFIX)

    def create_for_send(self, topic: str, default_topic: str, queues: int, producer: str, system_flag: int = 0) -> TopicConfig | None:
        """A topic created from its default topic (TBW102) because somebody sends to it; None if the default topic does not allow that."""
        known = self._configs.get(topic)
        if known is not None:
            return known
        default = self._configs.get(default_topic)
        if default is None:
            log.warning("Create new topic failed, because the default topic[%s] not exist. producer:[%s]", default_topic, producer)
            return None
        permission = default.perm
        if default_topic == names.AUTO_CREATE_TOPIC and not self._settings.auto_create:
            permission = names.PERM_READ | names.PERM_WRITE
        if not permission & names.PERM_INHERIT:
            log.warning(
                "Create new topic failed, because the default topic[%s] has no perm [%d] producer:[%s]", default_topic, permission, producer
            )
            return None
        count = max(0, min(queues, default.write_queue_nums))
        config = TopicConfig(topic, count, count, permission & ~names.PERM_INHERIT, default.topic_filter_type, system_flag)
        log.info("Create new topic by default topic:[%s] config:[%s] producer:[%s]", default_topic, topic_config_text(config), producer)
        self._change(config)
        return config

    def create_plain(
        self, topic: str, queues: int, permission: int, *, order: bool = False, system_flag: int = 0
    ) -> tuple[TopicConfig, bool]:
        """Creates retry and dead letter topics, and those of the broker itself. Returns (the topic, whether it is new or was changed)."""
        known = self._configs.get(topic)
        if known is None:
            config = TopicConfig(topic, queues, queues, permission, topic_sys_flag=system_flag, order=order)
            log.info("create new topic %s", topic_config_text(config))
        elif known.order != order:
            config = replace(known, order=order)
        else:
            return known, False
        self._change(config)
        return config, True

    def update(self, config: TopicConfig, attribute_changes: Mapping[str, str] | None = None) -> bool:
        """Creates or changes a topic. False if nothing differs. Raises AttributeFault. The caller has checked the name."""
        if self.is_light(config.topic_name):
            return False
        known = self._configs.get(config.topic_name)
        current = None if known is None else known.attributes
        attributes = altered_attributes(TOPIC_ATTRIBUTES, current, attribute_changes or {})
        config = replace(config, attributes=attributes, extra={} if known is None else known.extra)
        if config == known:
            return False
        if known is None:
            log.info("create new topic [%s]", topic_config_text(config))
        else:
            log.info("update topic config, old:[%s] new:[%s]", topic_config_text(known), topic_config_text(config))
        self._change(config)
        return True

    def update_order_topics(self, topics: Iterable[str]) -> bool:
        """Marks the topics that a name server's ORDER_TOPIC_CONFIG names. True if one changed."""
        changed = [config for topic in topics if (config := self._configs.get(topic)) is not None and not config.order]
        for config in changed:
            log.info("update order topic config, topic=%s, order=true", config.topic_name)
            self._put(replace(config, order=True))
        if changed:
            self.next_version()
        return bool(changed)

    def delete(self, topic: str) -> bool:
        config = self._configs.pop(topic, None)
        self.forget_light(topic)
        if config is None:
            log.warning("delete topic config failed, topic: %s not exists", topic)
            return False
        log.info("delete topic config OK, topic: %s", topic_config_text(config))
        self._withheld.discard(topic)
        self._sink.delete_topic(topic)
        self.next_version()
        return True

    def set_static(self, topic: str, *, is_static: bool) -> None:
        """Sets whether the topic's queues are numbered by its queue mapping. The topic may not exist yet."""
        (self._static.add if is_static else self._static.discard)(topic)
        if (config := self._configs.get(topic)) is not None:
            self._put(config)

    def next_version(self) -> None:
        self.version = self.version.next(self._epoch, now_ms=self.version.timestamp if self._is_copy else self._now_ms())

    def lead(self, epoch: int) -> None:
        """A controller made this broker the master: the table is its own now, and newer than that of any earlier master."""
        self._is_copy, self._epoch = False, epoch
        self.next_version()

    def follow(self) -> None:
        """This broker is a slave again, and its table a copy."""
        self._is_copy = True

    def replace_all(self, configs: Mapping[str, TopicConfig], version: DataVersion) -> bool:
        """Takes over a master's table. False if this version is here already."""
        if version == self.version:
            return False
        for topic in [topic for topic in self._configs if topic not in configs]:
            del self._configs[topic]
            self._withheld.discard(topic)
            self._sink.delete_topic(topic)
        for config in configs.values():
            if self._configs.get(config.topic_name) != config:
                self._put(config)
        self.version = version
        return True

    def snapshot(self) -> TopicsOfAMoment:
        """All topics at this moment, for writing them elsewhere."""
        return TopicsOfAMoment(self.version, tuple(self._configs.values()))

    def to_json(self) -> dict[str, Any]:
        """The shape of config/topics.json."""
        return {
            "dataVersion": self.version.to_json(),
            "topicConfigTable": {topic: self._configs[topic].to_json() for topic in sorted(self._configs)},
        }

    def load(self, saved: SavedTopics) -> None:
        """What the file says wins over the predefined topics, as in RocketMQ."""
        for config in saved.configs.values():
            self._put(config)
        self.version = saved.version

    def _change(self, config: TopicConfig) -> None:
        is_new = config.topic_name not in self._configs and (is_native_send(config) or is_checked_send(config))
        self._put(config, is_new=is_new)
        if is_new:
            self._withheld.add(config.topic_name)
        self.next_version()

    def _put(self, config: TopicConfig, *, is_new: bool = False) -> None:
        is_saved = not is_new and config.topic_name not in self._withheld
        self._sink.put_topic(  # first: what it refuses must not be in the file, with which no broker would start
            config.topic_name,
            config.read_queue_nums,
            config.write_queue_nums,
            config.perm & ~names.PERM_INHERIT,
            sys_flag=config.topic_sys_flag,
            order=config.order,
            multi_tag=config.topic_filter_type == MULTI_TAG,
            native_send=is_native_send(config) and is_saved,
            native_pull=True,
            checked_send=is_checked_send(config),
            static=config.topic_name in self._static,
            lite=is_lite_parent(config),
            batch=has_batch_queues(config),
            compacted=is_compacted(config),
            priority=config.attributes.get(MESSAGE_TYPE) == "PRIORITY",
            retry_send=is_checked_send(config) and is_saved and names.topic_fault(config.topic_name) is None,
            checked_back=self._settings.asks_rights,
        )
        self._configs[config.topic_name] = config


def light_topic(topic: str) -> TopicConfig:
    return TopicConfig(topic, 1, 1, names.PERM_READ | names.PERM_WRITE)


def is_native_send(config: TopicConfig) -> bool:
    """Whether a plain send to the topic only needs an append."""
    return (
        config.topic_name not in names.SEND_FORBIDDEN_TOPICS
        and not config.topic_name.startswith((names.RETRY_PREFIX, names.LIGHT_QUEUE_PREFIX))  # what is sent there is no plain message
        and _takes_messages(config)
    )


def is_lite_parent(config: TopicConfig | None) -> bool:
    """Whether messages of the topic may belong to lite topics."""
    return config is not None and config.attributes.get(MESSAGE_TYPE) == LITE


def lite_minutes(config: TopicConfig) -> int:
    """How many minutes a lite topic of it stays without new messages; 0 or less: for ever."""
    value = config.attributes.get(LITE_EXPIRATION, "-1")
    return int(value) if value.removeprefix("-").isdecimal() and value.isascii() and len(value) < 12 else -1


def is_checked_send(config: TopicConfig) -> bool:
    """Whether a send to the topic is checked first, and then only needs an append."""
    return config.topic_name.startswith(names.RETRY_PREFIX) and _takes_messages(config)


def has_batch_queues(config: TopicConfig) -> bool:
    """Whether a batch that is sent to the topic becomes one record."""
    return config.attributes.get(QUEUE_TYPE) == BATCH_QUEUES


def _wants_compaction(config: TopicConfig) -> bool:
    return config.attributes.get(CLEANUP_POLICY, "DELETE") == "COMPACTION"


def is_compacted(config: TopicConfig) -> bool:
    """Whether only the last message of each key is kept; a compacted topic with batch queues accepts no messages at all."""
    return _wants_compaction(config) and not has_batch_queues(config)


def _takes_messages(config: TopicConfig) -> bool:
    return not (_wants_compaction(config) and has_batch_queues(config))


@dataclass(frozen=True, slots=True)
class SavedTopics:
    """The contents of config/topics.json, or of a master's answer to GET_ALL_TOPIC_CONFIG."""

    configs: Mapping[str, TopicConfig]
    version: DataVersion

    @staticmethod
    def from_json(value: Any) -> SavedTopics:
        """Raises ValueError for a text that is not such a table, Unsupported for numbers that RocketMQ accepts and this broker does not."""
        if not isinstance(value, Mapping):
            raise ValueError(f"topics are {type(value).__name__}, expected an object")
        table = value.get("topicConfigTable")
        if not isinstance(table, Mapping):
            raise ValueError("topicConfigTable is missing or no object")
        configs = {}
        for topic, members in table.items():
            if not isinstance(members, Mapping):
                raise ValueError(f"topic {topic} is {type(members).__name__}, expected an object")
            config = TopicConfig.from_json(members, str(topic))
            if not names.is_possible(config.topic_name):
                log.warning("topic %r is skipped: its name has not 1 to %d bytes, it can hold no messages", topic, names.NAME_BYTES_MAX)
                continue
            fault = topic_config_fault(config)
            if fault is not None:
                raise Unsupported(f"topic {topic}: {fault}; correct it")
            configs[config.topic_name] = config
        return SavedTopics(configs, DataVersion.from_json(object_member(value, "dataVersion", "topics")))


def auto_create_topic(settings: TopicSettings) -> TopicConfig:
    """TBW102, the model for topics that nobody created."""
    permission = names.PERM_INHERIT | names.PERM_READ | names.PERM_WRITE
    return TopicConfig(names.AUTO_CREATE_TOPIC, settings.default_queues, settings.default_queues, permission)


def predefined_topics(settings: TopicSettings) -> list[TopicConfig]:
    """The topics every broker has from its first start."""
    read_write = names.PERM_READ | names.PERM_WRITE

    def inherited(open_to_clients: bool) -> int:
        return names.PERM_INHERIT | (read_write if open_to_clients else 0)

    def simple(topic: str, queues: int = 1, permission: int = read_write) -> TopicConfig:
        return TopicConfig(topic, queues, queues, permission)

    topics = [
        simple(names.SELF_TEST_TOPIC),
        simple(names.BENCHMARK_TOPIC, 1024),
        simple(settings.cluster_name, 16, inherited(settings.cluster_topic)),
        simple(settings.broker_name, 1, inherited(settings.broker_topic)),
        simple(names.OFFSET_MOVED_EVENT),
        simple(names.SCHEDULE_TOPIC, 18),
        simple(f"{settings.cluster_name}_REPLY_TOPIC"),
        simple(names.REVIVE_TOPIC_PREFIX + settings.cluster_name, settings.revive_queues),
        simple(names.MEMBER_TOPIC_PREFIX + settings.broker_name, 1, names.PERM_INHERIT),
        simple(names.TRANS_HALF_TOPIC),
        simple(names.TRANS_OP_HALF_TOPIC),
    ]
    if settings.auto_create:
        topics.append(auto_create_topic(settings))
    if settings.trace_topic:
        topics.append(simple(settings.trace_topic_name))
    if settings.timer_wheel:
        topics.append(simple(names.TIMER_TOPIC))
    return topics
