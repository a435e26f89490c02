"""Names of topics and groups: which are valid, which belong to the system, which nobody may send to.
RocketMQ: TopicValidator, MixAll, PopAckConstants (5.5.0 common/). Pure functions and constants.
"""

from __future__ import annotations

from typing import Final

from ..remoting.bodies import PERM_INHERIT as PERM_INHERIT
from ..remoting.bodies import PERM_READ as PERM_READ
from ..remoting.bodies import PERM_WRITE as PERM_WRITE

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
LITE_SEPARATOR: Final = "$"
LITE_QUEUE_PREFIX: Final = LIGHT_QUEUE_PREFIX + LITE_SEPARATOR
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRANS_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
ROCKSDB_TRANS_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_TRANS_OP_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TIMER_TOPIC: Final = SYSTEM_TOPIC_PREFIX + "wheel_timer"
REVIVE_TOPIC_PREFIX: Final = SYSTEM_TOPIC_PREFIX + "REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
MEMBER_TOPIC_PREFIX: Final = SYSTEM_TOPIC_PREFIX + "SYNC_BROKER_MEMBER_"

TOPIC_LENGTH_MAX: Final = 127
RETRY_TOPIC_LENGTH_MAX: Final = 255
GROUP_LENGTH_MAX: Final = 120
NAME_BYTES_MAX: Final = 255
"""Of a topic or group in the native tables, and of a directory: a topic with a longer name can hold no messages, RocketMQ's neither."""
CLIENT_BYTES_MAX: Final = 1024
"""Of a client's id (RP_LITE_CLIENT_MAX): each of the groups of a connection, ten thousand at most, may know it by another one."""

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANS_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        CHECKPOINT_TOPIC,
        ROCKSDB_TRANS_HALF_TOPIC,
        ROCKSDB_TRANS_OP_HALF_TOPIC,
    }
)

SEND_FORBIDDEN_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        ROCKSDB_TRANS_HALF_TOPIC,
        ROCKSDB_TRANS_OP_HALF_TOPIC,
        TIMER_TOPIC,  # which RocketMQ takes sends to
    }
)

# Groups every broker knows from its first start; each may broadcast.
PREDEFINED_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)

_VALID_CHARACTERS: Final = frozenset("%|-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_ALLOWED_TEXT: Final = "allowing only ^[%|a-zA-Z0-9_-]+$"
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_LONG_MASK: Final = (1 << 64) - 1
_JUMP_FACTOR: Final = 2_862_933_555_777_941_757


def has_illegal_characters(name: str) -> bool:
    return not _VALID_CHARACTERS.issuperset(name)


def is_possible(name: str) -> bool:
    """Whether the native tables can hold the name. RocketMQ accepts empty names, and retry topics of groups with 249 and more
    characters."""
    return 0 < len(name.encode("utf-8", "replace")) <= NAME_BYTES_MAX


def is_possible_client(client_id: str) -> bool:
    """Whether the native tables can hold the client id, which may be empty."""
    return len(client_id.encode("utf-8", "replace")) <= CLIENT_BYTES_MAX


def topic_fault(topic: str | None) -> str | None:
    """Why a topic's name is refused, in RocketMQ's words, or None."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if has_illegal_characters(topic):
        return f"The specified topic: {topic}, contains illegal characters, {_ALLOWED_TEXT}"
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > RETRY_TOPIC_LENGTH_MAX:
            return f"The specified topic is DLQ or Retry topic: {topic}, and it's longer than topic max length: {RETRY_TOPIC_LENGTH_MAX}"
    elif len(topic) > TOPIC_LENGTH_MAX:
        return f"The specified topic: {topic}, is longer than topic max length: {TOPIC_LENGTH_MAX}"
    return None


def group_fault(group: str | None) -> str | None:
    """Why a group's name is refused, in RocketMQ's words, or None."""
    if group is None or not group.strip():
        return "The specified group is blank."
    if has_illegal_characters(group):
        return f"The specified group: {group}, contains illegal characters, {_ALLOWED_TEXT}"
    if len(group) > GROUP_LENGTH_MAX:
        return f"The specified group: {group}, is longer than group max length: {GROUP_LENGTH_MAX}"
    return None


def is_light(name: str) -> bool:
    """Whether a topic's or a group's name belongs to a light queue: one that messages of other topics name as an additional queue."""
    return name.startswith(LIGHT_QUEUE_PREFIX) and len(name) > len(LIGHT_QUEUE_PREFIX) and is_possible(name) and "/" not in name


def lite_queue(parent: str, lite: str) -> str | None:
    """The light queue of a lite topic; None if that is impossible. csrc/store/light_queue.c does the same."""
    queue = f"{LITE_QUEUE_PREFIX}{parent}{LITE_SEPARATOR}{lite}"
    return queue if lite_parts(queue) == (parent, lite) and is_light(queue) and "," not in queue and queue.isprintable() else None


def lite_parts(queue: str) -> tuple[str, str] | None:
    """(parent topic, lite topic) of a light queue's name; None if it is no lite topic's."""
    parts = queue.removeprefix(LITE_QUEUE_PREFIX).split(LITE_SEPARATOR)
    is_one = queue.startswith(LITE_QUEUE_PREFIX) and len(parts) == 2 and all(parts)
    return (parts[0], parts[1]) if is_one else None


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    return DLQ_PREFIX + group


def group_of_retry_topic(topic: str) -> str:
    """As KeyBuilder.parseGroup: in the retry topic of a POP group, the group's name ends at the "+"."""
    return topic.removeprefix(RETRY_PREFIX).split("+", 1)[0]


def pop_retry_topics(topic: str, group: str) -> tuple[str, str]:
    """Both spellings of a POP group's retry topic: the newer one joins with "+", the older one with "_"."""
    return f"{RETRY_PREFIX}{group}+{topic}", f"{RETRY_PREFIX}{group}_{topic}"


def java_hash(text: str) -> int:
    """Java's String.hashCode, which is the tags code of a tag and the hash of an index key. Signed 32 bits, over UTF-16 code units."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        value = (31 * value + (data[index] << 8) + data[index + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def java_trim(text: str) -> str:
    """Java's String.trim: without what is not past a space at both ends. Python's strip knows other blanks, which may be part of a tag."""
    return text.strip(_TRIMMED)


def consistent_hash(value: int, buckets: int) -> int:
    """Guava's Hashing.consistentHash, by which proxies choose the queue of a message group or lite topic. Returns the bucket of a number,
    such that few numbers move when buckets are added (the jump hash of Lamping and Veach)."""
    state, bucket = value & _LONG_MASK, 0
    while True:
        state = (_JUMP_FACTOR * state + 1) & _LONG_MASK
        divisor = (state >> 33) + 1
        if divisor == 1 << 31:  # Java's int is negative then
            return bucket
        candidate = int((bucket + 1) / (divisor / (1 << 31)))
        if candidate >= buckets:
            return bucket
        bucket = candidate


def unit_flag(*, unit: bool, has_unit_sub: bool) -> int:
    """Bits of topicSysFlag: 1 if the topic is a unit's own, 2 if units subscribe to it."""
    return (1 if unit else 0) | (2 if has_unit_sub else 0)


def permission_text(permission: int) -> str:
    """ "RW-" as PermName.perm2String shows it."""
    marks = ((PERM_READ, "R"), (PERM_WRITE, "W"), (PERM_INHERIT, "X"))
    return "".join(mark if permission & bit else "-" for bit, mark in marks)
