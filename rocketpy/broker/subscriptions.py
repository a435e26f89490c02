"""Consumer groups of this broker: what each may do, and topics a group is forbidden to read.
RocketMQ: SubscriptionGroupManager, SubscriptionGroupConfig (5.3.3 broker/subscription/). File config/subscriptionGroup.json,
request GET_ALL_SUBSCRIPTIONGROUP_CONFIG.

Decisions only. The native table (the sink) always holds exactly what `configs` holds; a group that is forbidden one topic is told to the
listener, because the subscription of that topic may then no longer be answered natively.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..remoting.bodies import DataVersion
from ..remoting.json_codec import unknown_members
from . import names
from .attributes import (
    GROUP_ATTRIBUTES,
    LITE_BIND_TOPIC,
    LITE_CLIENT_QUOTA,
    LITE_CLIENT_QUOTA_DEFAULT,
    LITE_MODEL,
    LITE_WILDCARD,
    PRIORITY_FACTOR,
    altered_attributes,
    number_of,
)
from .group_texts import GroupsOfAMoment, GroupTexts
from .json_members import boolean_member, fits_32_bits, integer_member, object_member, text_map_member, text_member
from .tables import GroupSink
from .topics import QUEUES_MAX

log = logging.getLogger(__name__)

_CUSTOMIZED_RETRY: Mapping[str, Any] = {"type": "CUSTOMIZED"}
READ_FORBIDDEN = 1 << 2
"""Bit of a topic's forbidden value: PermName.INDEX_PERM_READ."""
MADE_MAX = 256
"""Groups that are remembered as just made by use."""
JUST_MADE_MS = 5000
"""For so long a copy of a master's table leaves such a group alone."""

_MEMBERS = (
    "groupName",
    "consumeEnable",
    "consumeFromMinEnable",
    "consumeBroadcastEnable",
    "consumeMessageOrderly",
    "retryQueueNums",
    "retryMaxTimes",
    "groupRetryPolicy",
    "brokerId",
    "whichBrokerWhenConsumeSlowly",
    "notifyConsumerIdsChangedEnable",
    "groupSysFlag",
    "consumeTimeoutMinute",
    "attributes",
)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One consumer group. `extra` keeps members of newer releases, and the subscriptions of lite groups."""

    group: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_orderly: bool = False
    retry_queues: int = 1
    retry_times_max: int = 16
    retry_policy: Mapping[str, Any] = field(default_factory=lambda: dict(_CUSTOMIZED_RETRY))
    broker_id: int = 0
    which_broker_when_slow: int = 1
    notify_ids_changed: bool = True
    system_flag: int = 0
    consume_timeout_minutes: int = 15
    attributes: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        members = {
            **self.extra,
            "attributes": dict(self.attributes),
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "consumeMessageOrderly": self.consume_orderly,
            "consumeTimeoutMinute": self.consume_timeout_minutes,
            "groupName": self.group,
            "groupRetryPolicy": dict(self.retry_policy),
            "groupSysFlag": self.system_flag,
            "notifyConsumerIdsChangedEnable": self.notify_ids_changed,
            "retryMaxTimes": self.retry_times_max,
            "retryQueueNums": self.retry_queues,
            "whichBrokerWhenConsumeSlowly": self.which_broker_when_slow,
        }
        return dict(sorted(members.items()))

    @property
    def has_possible_retries(self) -> bool:
        """Whether the native table can hold the group's numbers: a file of RocketMQ may contain any."""
        return 0 <= self.retry_queues <= QUEUES_MAX and fits_32_bits(self.retry_times_max)

    @property
    def lite_topic(self) -> str | None:
        """The topic whose lite topics the group reads; None for a group that reads topics."""
        return self.attributes.get(LITE_BIND_TOPIC)

    @property
    def is_lite_wildcard(self) -> bool:
        """Whether the group reads all lite topics. As for RocketMQ, the attribute's value does not matter."""
        return LITE_WILDCARD in self.attributes

    @property
    def is_lite_exclusive(self) -> bool:
        """Whether a client that subscribes to a lite topic takes it from the others."""
        return self.attributes.get(LITE_MODEL) == "Exclusive"

    @property
    def lite_client_quota(self) -> int:
        """How many of the lite topics one client may read; negative: any number."""
        return number_of(self.attributes, LITE_CLIENT_QUOTA, LITE_CLIENT_QUOTA_DEFAULT)

    def is_true(self, attribute: str) -> bool:
        return self.attributes.get(attribute, "").lower() == "true"

    @staticmethod
    def from_json(value: Any, group: str | None = None) -> GroupConfig:
        """Raises ValueError with the member that is wrong."""
        where = f"group {group}" if group else "group"
        if not isinstance(value, Mapping):
            raise ValueError(f"{where} is {type(value).__name__}, expected an object")
        return GroupConfig(
            group=text_member(value, "groupName", group, where),
            consume_enable=boolean_member(value, "consumeEnable", True, where),
            consume_from_min_enable=boolean_member(value, "consumeFromMinEnable", True, where),
            consume_broadcast_enable=boolean_member(value, "consumeBroadcastEnable", True, where),
            consume_orderly=boolean_member(value, "consumeMessageOrderly", False, where),
            retry_queues=integer_member(value, "retryQueueNums", 1, where),
            retry_times_max=integer_member(value, "retryMaxTimes", 16, where),
            retry_policy=dict(object_member(value, "groupRetryPolicy", where) or _CUSTOMIZED_RETRY),
            broker_id=integer_member(value, "brokerId", 0, where),
            which_broker_when_slow=integer_member(value, "whichBrokerWhenConsumeSlowly", 1, where),
            notify_ids_changed=boolean_member(value, "notifyConsumerIdsChangedEnable", True, where),
            system_flag=integer_member(value, "groupSysFlag", 0, where),
            consume_timeout_minutes=integer_member(value, "consumeTimeoutMinute", 15, where),
            attributes=text_map_member(value, "attributes", where),
            extra=unknown_members(value, _MEMBERS),
        )


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The broker's settings that decide which groups are created by being used."""

    auto_create: bool = True
    create_system_groups: bool = True
    light_groups_max: int = 0
    """Groups `%LMQ%…` that are served, none of which is in a file; 0: they are as all others."""


class GroupTable:
    """All consumer groups of this broker."""

    def __init__(
        self,
        sink: GroupSink,
        now_ms: Callable[[], int],
        *,
        settings: GroupSettings | None = None,
        on_forbidden: Callable[[str, str], None] = lambda group, topic: None,
    ) -> None:
        self._sink = sink
        self._now_ms = now_ms
        self._settings = settings or GroupSettings()
        self._on_forbidden = on_forbidden
        self._configs: dict[str, GroupConfig] = {}
        self._light: set[str] = set()
        self._forbidden: dict[str, dict[str, int]] = {}
        self._made_ms: dict[str, int] = {}
        self._spared = False
        self.texts = GroupTexts()
        self.version = DataVersion(now_ms())
        for group in names.PREDEFINED_GROUPS:
            self._put(GroupConfig(group))

    def apply(self, settings: GroupSettings) -> None:
        """Takes settings that changed at run time."""
        self._settings = settings

    def __contains__(self, group: str) -> bool:
        return group in self._configs or self.is_light(group)

    def __len__(self) -> int:
        return len(self._configs)

    def __iter__(self) -> Iterator[GroupConfig]:
        return iter(self._configs.values())

    def get(self, group: str) -> GroupConfig | None:
        return GroupConfig(group) if self.is_light(group) else self._configs.get(group)

    def is_light(self, group: str) -> bool:
        return self._settings.light_groups_max > 0 and names.is_light(group)

    def find_or_create(self, group: str) -> GroupConfig | None:
        """The group, created at its first use if the broker's settings allow that; None if they do not, or if the name is invalid."""
        if self.is_light(group):
            return self._serve_light(group)
        known = self._configs.get(group)
        if known is not None:
            return known
        allowed = self._settings.auto_create or (self._settings.create_system_groups and group.startswith(names.SYSTEM_GROUP_PREFIX))
        if not allowed or not group or len(group) > names.TOPIC_LENGTH_MAX * 2 + 1 or names.has_illegal_characters(group):
            return None
        config = GroupConfig(group)
        log.info("auto create a subscription group, %s", group)
        self._change(config)
        self._note_made(group)
        return config

    def serves(self, group: str) -> bool:
        """Whether the group is here and the fast path has it from now on. A light group is added at its first use."""
        return self._serve_light(group) is not None if self.is_light(group) else group in self._configs

    def _serve_light(self, group: str) -> GroupConfig | None:
        if group not in self._light and len(self._light) >= self._settings.light_groups_max:
            return None
        if group not in self._light:
            self._sink.put_group(group)
            self._light.add(group)
        return GroupConfig(group)

    def update(self, config: GroupConfig) -> None:
        """Creates or changes a group; config.attributes is the signed change request. Nothing is kept of light groups. Raises
        AttributeFault."""
        if self.is_light(config.group):
            return
        known = self._configs.get(config.group)
        attributes = altered_attributes(GROUP_ATTRIBUTES, None if known is None else known.attributes, config.attributes)
        config = replace(config, attributes=attributes)
        if known is None:
            log.info("create new group, %s", config)
        else:
            log.info("update subscription group config, old: %s new: %s", known, config)
        self._change(config)

    def delete(self, group: str) -> bool:
        forbidden = self._forbidden.pop(group, {})
        config = self._configs.pop(group, None)
        self._made_ms.pop(group, None)
        for topic in forbidden:
            self._on_forbidden(group, topic)
        if group in self._light:
            self._light.discard(group)
            self._sink.delete_group(group)
        if config is None:
            log.warning("delete subscription group failed, subscription groupName: %s not exist", group)
            return False
        log.info("delete subscription group OK, subscription group:%s", group)
        self._sink.delete_group(group)
        self.next_version()
        return True

    def set_readable(self, group: str, topic: str, readable: bool) -> None:
        topics = self._forbidden.setdefault(group, {})
        value = topics.get(topic, 0)
        value = value & ~READ_FORBIDDEN if readable else value | READ_FORBIDDEN
        if value:
            topics[topic] = value
        else:
            topics.pop(topic, None)
        if not topics:
            del self._forbidden[group]
        self.next_version()
        self._on_forbidden(group, topic)

    def is_readable(self, group: str, topic: str) -> bool:
        return not self._forbidden.get(group, {}).get(topic, 0) & READ_FORBIDDEN

    def next_version(self) -> None:
        self.version = self.version.next(now_ms=self._now_ms())

    def replace_all(self, saved: SavedGroups) -> bool:
        """Takes over a master's table. False when this version is here already.

        A group that was made here by use a moment ago stays until a later call: the request that it was made for may be on its way to the
        fast path, which would not find it.
        """
        if saved.version == self.version and not self._spared:
            return False
        since_ms = self._now_ms() - JUST_MADE_MS
        self._made_ms = {group: made_ms for group, made_ms in self._made_ms.items() if made_ms > since_ms}
        just_made = {group for group in self._made_ms if group not in saved.configs}
        self._spared = bool(just_made)
        for group in [group for group in self._configs if group not in saved.configs and group not in just_made]:
            del self._configs[group]
            self._sink.delete_group(group)
        for config in saved.configs.values():
            if self._configs.get(config.group) != config:
                self._put(config)
        before = self._forbidden
        self._forbidden = {group: dict(topics) for group, topics in saved.forbidden.items()}
        self.version = saved.version
        for group, topic in sorted(_pairs(before) ^ _pairs(self._forbidden)):
            self._on_forbidden(group, topic)
        return True

    def snapshot(self) -> GroupsOfAMoment:
        """All groups at this moment, for writing them elsewhere."""
        forbidden = {group: dict(topics) for group, topics in self._forbidden.items()}
        return GroupsOfAMoment(self.version, tuple(self._configs.values()), forbidden)

    def to_json(self) -> dict[str, Any]:
        """The shape of config/subscriptionGroup.json."""
        return {
            "dataVersion": self.version.to_json(),
            "forbiddenTable": {group: dict(sorted(topics.items())) for group, topics in sorted(self._forbidden.items())},
            "subscriptionGroupTable": {group: self._configs[group].to_json() for group in sorted(self._configs)},
        }

    def load(self, saved: SavedGroups) -> None:
        for config in saved.configs.values():
            self._put(config)
        for group, topics in saved.forbidden.items():
            self._forbidden[group] = dict(topics)
        self.version = saved.version

    def _note_made(self, group: str) -> None:
        """Notes a group made by use for `replace_all`. The oldest of MADE_MAX is forgotten."""
        if len(self._made_ms) == MADE_MAX:
            del self._made_ms[next(iter(self._made_ms))]
        self._made_ms[group] = self._now_ms()

    def _change(self, config: GroupConfig) -> None:
        self._put(config)
        self.next_version()

    def _put(self, config: GroupConfig) -> None:
        lite_topic = config.lite_topic or ""
        # Both first: what they refuse must not be in the file. This one before the other: it makes all that the two need memory for.
        self._sink.put_lite_group(config.group, lite_topic if names.is_possible(lite_topic) else "", config.is_lite_wildcard)
        self._sink.put_group(
            config.group,
            consume_enable=config.consume_enable,
            consume_broadcast_enable=config.consume_broadcast_enable,
            broker_id=config.broker_id,
            which_broker_when_slow=config.which_broker_when_slow,
            sys_flag=config.system_flag,
            priority_percent=min(max(number_of(config.attributes, PRIORITY_FACTOR, 100), 0), 100),
            retry_queues=config.retry_queues if config.has_possible_retries else 0,
            retry_times_max=config.retry_times_max if config.has_possible_retries else 0,
        )
        self._configs[config.group] = config


def _pairs(forbidden: Mapping[str, Mapping[str, int]]) -> set[tuple[str, str]]:
    """The pairs of group and topic that may not be read."""
    return {(group, topic) for group, topics in forbidden.items() for topic, value in topics.items() if value & READ_FORBIDDEN}


@dataclass(frozen=True, slots=True)
class SavedGroups:
    """The contents of config/subscriptionGroup.json, or of a master's answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""

    configs: Mapping[str, GroupConfig]
    forbidden: Mapping[str, Mapping[str, int]]
    version: DataVersion

    @staticmethod
    def from_json(value: Any) -> SavedGroups:
        """Raises ValueError. Files of 4.x have no forbiddenTable."""
        if not isinstance(value, Mapping):
            raise ValueError(f"groups are {type(value).__name__}, expected an object")
        table = value.get("subscriptionGroupTable")
        if not isinstance(table, Mapping):
            raise ValueError("subscriptionGroupTable is missing or no object")
        forbidden: dict[str, dict[str, int]] = {}
        for group, topics in object_member(value, "forbiddenTable", "groups").items():
            where = f"forbiddenTable of {group}"
            if not isinstance(topics, Mapping):
                raise ValueError(f"{where} is {type(topics).__name__}, expected an object")
            forbidden[str(group)] = {str(topic): integer_member(topics, topic, 0, where) for topic in topics}
        configs = {config.group: config for config in (GroupConfig.from_json(member, group) for group, member in table.items())}
        for config in configs.values():
            if not fits_32_bits(config.system_flag):  # Java's int, and the native table's
                raise ValueError(f"group {config.group}: groupSysFlag is {config.system_flag}, expected a number of 32 bits")
        for group in [group for group in configs if not names.is_possible(group)]:
            log.warning("group %r is skipped: its name has not 1 to %d bytes", group, names.NAME_BYTES_MAX)
            del configs[group]
        return SavedGroups(configs, forbidden, DataVersion.from_json(object_member(value, "dataVersion", "groups")))
