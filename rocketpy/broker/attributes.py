"""Attributes of topics and groups: the table of those that exist, and how a change request alters the current ones.
RocketMQ: TopicAttributes, SubscriptionGroupAttributes, AttributeUtil, AttributeParser (5.5.0 common/attribute/).

A request names attributes with a sign: `+name=value` adds or changes, `-name` removes. On a new topic only `+` is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_LONG_MAX: Final = (1 << 63) - 1
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")  # what Java's Long.parseLong takes


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute. Its value is one of `choices`, or a number from `low` to `high`, or any text."""

    name: str
    changeable: bool
    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int = _LONG_MAX

    def fault(self, value: str) -> str | None:
        if self.choices and value not in self.choices:
            return f"value is not in set: [{', '.join(self.choices)}]"
        if self.low is not None:
            if not _NUMBER.fullmatch(value):
                return f'For input string: "{value}"'
            if not self.low <= int(value) <= self.high:
                return f"value is not in range({self.low}, {self.high})"
        return None


MESSAGE_TYPES: Final = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED")
MESSAGE_TYPE: Final = "message.type"
LITE: Final = "LITE"
LITE_EXPIRATION: Final = "lite.topic.expiration"
LITE_BIND_TOPIC: Final = "lite.bind.topic"
LITE_MODEL: Final = "lite.sub.model"
LITE_RESET_WHEN_EXCLUDED: Final = "lite.sub.reset.offset.exclusive"
LITE_RESET_WHEN_LEFT: Final = "lite.sub.reset.offset.unsubscribe"
LITE_WILDCARD: Final = "lite.sub.wildcard"
LITE_CLIENT_QUOTA: Final = "lite.sub.client.quota"
LITE_CLIENT_QUOTA_DEFAULT: Final = 2000
CLEANUP_POLICY: Final = "cleanup.policy"
QUEUE_TYPE: Final = "queue.type"
BATCH_QUEUES: Final = "BatchCQ"
PRIORITY_FACTOR: Final = "priority.factor"

TOPIC_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    attribute.name: attribute
    for attribute in (
        Attribute(QUEUE_TYPE, changeable=False, choices=(BATCH_QUEUES, "SimpleCQ")),
        Attribute(CLEANUP_POLICY, changeable=False, choices=("DELETE", "COMPACTION")),
        Attribute(MESSAGE_TYPE, changeable=True, choices=MESSAGE_TYPES),
        Attribute("reserve.time", changeable=True, low=-1),
        Attribute(LITE_EXPIRATION, changeable=True, low=-1, high=30 * 24 * 60),
    )
}

GROUP_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    attribute.name: attribute
    for attribute in (
        Attribute(PRIORITY_FACTOR, changeable=True, low=0, high=100),
        Attribute(LITE_BIND_TOPIC, changeable=True),
        Attribute(LITE_MODEL, changeable=True, choices=("Shared", "Exclusive")),
        Attribute(LITE_RESET_WHEN_EXCLUDED, changeable=True, choices=("true", "false")),
        Attribute(LITE_RESET_WHEN_LEFT, changeable=True, choices=("true", "false")),
        Attribute(LITE_CLIENT_QUOTA, changeable=True, low=-1),
        Attribute("lite.sub.client.max.event.cnt", changeable=True, low=10),
        Attribute(LITE_WILDCARD, changeable=True),
    )
}


def number_of(attributes: Mapping[str, str], name: str, default: int) -> int:
    """The number in an attribute, or its default if the value is not a number: a file may hold anything."""
    text = attributes.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else default


class AttributeFault(ValueError):
    """A change request that cannot be applied. The message is the remark for the client."""


def parse_attributes(text: str | None) -> dict[str, str]:
    """`+a=b,-c` as a map of signed names. Blanks belong to the part they stand in; commas at the end are ignored, and so is a second = with
    what follows it. Raises AttributeFault."""
    result: dict[str, str] = {}
    stripped = (text or "").rstrip(",")
    for part in stripped.split(",") if stripped else ():
        name, equals, rest = part.partition("=")
        if equals and not name.startswith("+"):
            raise AttributeFault(f"add/alter attribute format is wrong: {name}")
        if not equals and not name.startswith("-"):
            raise AttributeFault(f"delete attribute format is wrong: {name}")
        if name in result:
            raise AttributeFault(f"key duplication: {name}")
        result[name] = rest.partition("=")[0]
    return result


def altered_attributes(known: Mapping[str, Attribute], current: Mapping[str, str] | None, request: Mapping[str, str]) -> dict[str, str]:
    """The attributes after a change request. `current` is None for a new topic or group. Raises AttributeFault."""
    result = dict(current or {})
    seen: set[str] = set()
    for signed, value in request.items():
        sign, name = signed[:1], signed[1:]
        if not name or "+" in name or "-" in name:
            raise AttributeFault("kv string format wrong.")
        if name in seen:
            raise AttributeFault(f"alter duplication key. key: {name}")
        seen.add(name)
        if sign != "+":
            if current is None:
                raise AttributeFault(f"only add attribute is supported while creating topic. key: {name}")
            if sign != "-":
                raise AttributeFault(f"wrong format key: {name}")
            if name not in current:
                raise AttributeFault(f"attempt to delete a nonexistent key: {name}")
        attribute = known.get(name)
        if attribute is None:
            raise AttributeFault(f"unsupported key: {name}")
        if current is not None and not attribute.changeable:
            raise AttributeFault(f"attempt to update an unchangeable attribute. key: {name}")
        if sign == "-":
            del result[name]
            continue
        fault = attribute.fault(value)
        if fault is not None:
            raise AttributeFault(fault)
        result[name] = value
    return result
