"""Which names and values are valid. RocketMQ: GrpcValidator, Validators, TopicValidator (5.3.3 proxy/, client/, common/)."""

from __future__ import annotations

import re
from typing import Any, Final

from ..broker.heartbeat import tags_in
from ..broker.names import SYSTEM_GROUP_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from . import schema
from .status import ProxyError

TOPIC_MAX: Final = 127
GROUP_MAX: Final = 120
"""So that the name of its retry topic, with that of any topic, is not too long (RocketMQ 5.5.0 client/Validators.java)."""

_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_LITE_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_BLANK: Final = re.compile("[\t-\r\x1c- \u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*")
"""Java's white space, which knows of no space that does not break."""


def has_control(text: str) -> bool:
    return _CONTROL.search(text) is not None


def is_blank(text: str) -> bool:
    """RocketMQ: StringUtils.isBlank."""
    return _BLANK.fullmatch(text) is not None


def topic_of(resource: Any) -> str:
    """The topic's name, checked. Raises ProxyError."""
    name = str(resource.name)
    if is_blank(name):
        raise ProxyError("ILLEGAL_TOPIC", "The specified topic is blank")
    if len(name) > TOPIC_MAX:
        raise ProxyError("ILLEGAL_TOPIC", f"The specified topic is longer than topic max length {TOPIC_MAX}.")
    if _NAME.fullmatch(name) is None:
        raise ProxyError("ILLEGAL_TOPIC", f"The specified topic[{name}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
    if name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX):
        raise ProxyError("ILLEGAL_TOPIC", "cannot access system topic")
    return name


def group_of(resource: Any) -> str:
    """The consumer group's name, checked. Raises ProxyError."""
    name = str(resource.name)
    if is_blank(name):
        raise ProxyError("ILLEGAL_CONSUMER_GROUP", "the specified group is blank")
    if len(name) > GROUP_MAX:
        raise ProxyError("ILLEGAL_CONSUMER_GROUP", f"the specified group[{name}] is longer than group max length: {GROUP_MAX}.")
    if _NAME.fullmatch(name) is None:
        raise ProxyError(
            "ILLEGAL_CONSUMER_GROUP", f"the specified group[{name}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    if name.startswith(SYSTEM_GROUP_PREFIX):
        raise ProxyError("ILLEGAL_CONSUMER_GROUP", "cannot use system consumer group")
    return name


def lite_topic_of(name: str, size_max: int) -> str:
    """The lite topic's name, checked: it becomes part of a light queue's name. Raises ProxyError."""
    if is_blank(name):
        raise ProxyError("ILLEGAL_LITE_TOPIC", "lite topic cannot be the char sequence of whitespace")
    if len(name.encode()) > size_max:
        raise ProxyError("ILLEGAL_LITE_TOPIC", f"lite topic exceed the max size {size_max}")
    if _LITE_NAME.fullmatch(name) is None:
        text = "lite topic can only contain alphanumeric characters, hyphens(-), and underscores(_)"
        raise ProxyError("ILLEGAL_LITE_TOPIC", text)
    return name


def check_text(code: str, what: str, text: str, *, forbidden: str = "") -> None:
    """Checks tags, keys and message groups: they must neither be blank nor contain control characters. Raises ProxyError with `code`."""
    if not text:
        return
    if is_blank(text):
        raise ProxyError(code, f"{what} cannot be the char sequence of whitespace")
    if forbidden and forbidden in text:
        raise ProxyError(code, f"{what} cannot contain '{forbidden}'")
    if has_control(text):
        raise ProxyError(code, f"{what} cannot contain control character")


def tags_of(expression: str) -> frozenset[str]:
    """The tags that a tag filter accepts; empty if it accepts all messages. Raises ProxyError."""
    if expression in ("", "*"):
        return frozenset()
    tags = tags_in(expression)
    if not tags:
        raise ProxyError("ILLEGAL_FILTER_EXPRESSION", "subString split error")
    return tags


def filter_of(given: Any) -> tuple[str, bool, frozenset[str]]:
    """(a FilterExpression's text, whether it is SQL92, the tags that it accepts; none: all messages). Raises ProxyError."""
    expression, is_sql = str(given.expression), given.type == schema.number("FilterType", "SQL")
    if is_sql and not expression:
        raise ProxyError("ILLEGAL_FILTER_EXPRESSION", "Expression can't be null! SQL92")
    return expression or "*", is_sql, frozenset() if is_sql else tags_of(expression)


def millis(given: Any) -> int:
    """Milliseconds of a Duration or a Timestamp. Raises ProxyError BAD_REQUEST for one that protobuf's own rules forbid."""
    try:
        return int(given.ToMilliseconds())
    except ValueError as error:
        raise ProxyError("BAD_REQUEST", f"a time that cannot be: {error}") from None


TIME_LEAST_MS: Final = -62_135_596_800_000
TIME_MOST_MS: Final = 253_402_300_799_999
"""What a Timestamp can say: the years 1 to 9999."""


def set_millis(timestamp: Any, value_ms: int) -> None:
    """Fills a Timestamp. A broker may have stored any number; the nearest one that a Timestamp can hold is used."""
    timestamp.FromMilliseconds(min(max(value_ms, TIME_LEAST_MS), TIME_MOST_MS))


def check_invisible(millis: int, least: int, most: int) -> None:
    if millis < least:
        raise ProxyError("ILLEGAL_INVISIBLE_TIME", f"the invisibleTime is too small. min is {least}")
    if 0 < most < millis:
        raise ProxyError("ILLEGAL_INVISIBLE_TIME", f"the invisibleTime is too large. max is {most}")
