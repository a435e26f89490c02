"""What a client says about itself every 30 s: which groups it produces for, which it consumes in, and what it subscribed to.
RocketMQ: HeartbeatData, ConsumerData, ProducerData, SubscriptionData, FilterAPI (5.3.3 remoting/protocol/heartbeat/).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..remoting.json_codec import unknown_members
from .json_members import boolean_member, enum_member, integer_member, list_member, optional_text_member, text_member
from .names import CLIENT_BYTES_MAX, is_possible, is_possible_client, java_hash, java_trim

TAG: Final = "TAG"
SQL92: Final = "SQL92"
SUB_ALL: Final = "*"
CLUSTERING: Final = "CLUSTERING"
BROADCASTING: Final = "BROADCASTING"
CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY: Final = "CONSUME_PASSIVELY"

_CONSUME_TYPES = (CONSUME_ACTIVELY, CONSUME_PASSIVELY, "CONSUME_POP")
_MESSAGE_MODELS = (BROADCASTING, CLUSTERING, "LITE_SELECTIVE")
_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
_SUBSCRIPTION_MEMBERS = frozenset(("topic", "subString", "expressionType", "tagsSet", "codeSet", "subVersion", "classFilterMode"))

HEARTBEAT_LIST_MAX: Final = 10_000
"""Members of one list of a heartbeat: its groups, or the subscriptions of one. A client of a thousand groups is already an odd one."""
TAGS_MAX: Final = 4096
"""Of a subscription: what the native filter holds (RP_SUBSCRIPTION_CODES_MAX)."""


def tags_in(expression: str) -> frozenset[str]:
    """The tags that an expression names, as FilterAPI reads them; not of `*`."""
    return frozenset(tag for part in expression.split("||") if (tag := java_trim(part)))


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a group reads of one topic. `version` is the client's clock at the time of subscribing."""

    topic: str
    expression: str = SUB_ALL
    expression_type: str = TAG
    tags: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    version: int = 0
    class_filter: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_by_tag(self) -> bool:
        return self.expression_type in (TAG, "") and not self.class_filter

    @property
    def is_sql(self) -> bool:
        return self.expression_type == SQL92 and not self.class_filter

    @property
    def has_too_many_tags(self) -> bool:
        return self.is_by_tag and len(self.codes) > TAGS_MAX

    def to_json(self) -> dict[str, Any]:
        return {
            **self.extra,
            "classFilterMode": self.class_filter,
            "codeSet": list(self.codes),
            "expressionType": self.expression_type,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": list(self.tags),
            "topic": self.topic,
        }

    @staticmethod
    def from_json(value: Any) -> Subscription:
        """Raises ValueError. Old clients send neither codes nor an expression type."""
        if not isinstance(value, Mapping):
            raise ValueError(f"subscription is {type(value).__name__}, expected an object")
        topic = text_member(value, "topic", None, "subscription")
        where = f"subscription of {topic}"
        tags = tuple(sorted(str(tag) for tag in list_member(value, "tagsSet", where)))
        codes = [_code(code, where) for code in list_member(value, "codeSet", where)]
        return Subscription(
            topic=topic,
            expression=text_member(value, "subString", SUB_ALL, where),
            expression_type=text_member(value, "expressionType", TAG, where),
            tags=tags,
            codes=tuple(sorted(set(codes) or {java_hash(tag) for tag in tags})),
            version=integer_member(value, "subVersion", 0, where),
            class_filter=boolean_member(value, "classFilterMode", False, where),
            extra=unknown_members(value, _SUBSCRIPTION_MEMBERS),
        )


def _code(value: Any, where: str) -> int:
    """A tag code. The C++ client writes it as a text."""
    code = integer_member({"code": value}, "code", None, where)
    if not -(1 << 31) <= code < 1 << 31:
        raise ValueError(f"{where}: code {code!r} is not a number of 32 bits")
    return code


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One group in which a client consumes."""

    group: str
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: tuple[Subscription, ...] = ()
    unit_mode: bool = False

    @staticmethod
    def from_json(value: Any) -> ConsumerData:
        if not isinstance(value, Mapping):
            raise ValueError(f"consumer data is {type(value).__name__}, expected an object")
        group = text_member(value, "groupName", None, "consumer data")
        where = f"consumer data of {group}"
        subscriptions = list_member(value, "subscriptionDataSet", where)
        if len(subscriptions) > HEARTBEAT_LIST_MAX:
            raise ValueError(f"{where}: {len(subscriptions)} subscriptions, more than {HEARTBEAT_LIST_MAX}")
        return ConsumerData(
            group=group,
            consume_type=enum_member(value, "consumeType", _CONSUME_TYPES, CONSUME_PASSIVELY, where),
            message_model=enum_member(value, "messageModel", _MESSAGE_MODELS, CLUSTERING, where),
            consume_from_where=enum_member(value, "consumeFromWhere", _FROM_WHERE, _FROM_WHERE[0], where),
            subscriptions=tuple(Subscription.from_json(member) for member in subscriptions),
            unit_mode=boolean_member(value, "unitMode", False, where),
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One heartbeat. A fingerprint other than 0 means version 2, whose later heartbeats may leave out what did not change
    (`without_sub`)."""

    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ConsumerData, ...] = ()
    fingerprint: int = 0
    without_sub: bool = False

    @staticmethod
    def from_json(value: Any) -> Heartbeat:
        """Raises ValueError with what is wrong."""
        if not isinstance(value, Mapping):
            raise ValueError(f"heartbeat is {type(value).__name__}, expected an object")
        producers = list_member(value, "producerDataSet", "heartbeat")
        consumers = list_member(value, "consumerDataSet", "heartbeat")
        if len(producers) + len(consumers) > HEARTBEAT_LIST_MAX:
            raise ValueError(f"heartbeat: {len(producers) + len(consumers)} groups, more than {HEARTBEAT_LIST_MAX}")
        client_id = text_member(value, "clientID", None, "heartbeat")
        if not is_possible_client(client_id):
            raise ValueError(f"heartbeat: clientID has more than {CLIENT_BYTES_MAX} bytes")
        without_sub = boolean_member(value, "withoutSub", False, "heartbeat") or boolean_member(value, "isWithoutSub", False, "heartbeat")
        return Heartbeat(
            client_id=client_id,
            producer_groups=tuple(group for group in map(_producer_group, producers) if group and is_possible(group)),
            consumers=tuple(ConsumerData.from_json(member) for member in consumers),
            fingerprint=integer_member(value, "heartbeatFingerprint", 0, "heartbeat"),
            without_sub=without_sub,
        )


def _producer_group(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        raise ValueError(f"producer data is {type(value).__name__}, expected an object")
    return optional_text_member(value, "groupName", "producer data")
