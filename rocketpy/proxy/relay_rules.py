"""Which broker a request of a 4.x client is for, and how long the broker may take.
RocketMQ: AbstractRemotingActivity (5.3.3 proxy/remoting/activity/). Decisions only.

5.x clients name the broker in every request, as RocketMQ's proxy demands. 4.x clients do not: their requests find the broker only where
the topic is on a single one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..remoting.codes import RequestCode
from ..remoting.json_codec import JsonError, read_object

SHORT_NAMES: Final = frozenset((RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2))
"""Requests whose fields have names of one letter."""
FORWARDED: Final = SHORT_NAMES | {
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.END_TRANSACTION,
    RequestCode.RECALL_MESSAGE,
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
}
"""To the broker they are for. What is not here, and has no handler of its own, is refused: administration is no client's."""
ANSWER_S: Final = 15.0
"""For an answer that nothing is to be waited for; clients lose their patience sooner."""
POLL_MAX_S: Final = 300.0
POLL_MARGIN_S: Final = 10.0
NAME_MAX: Final = 255
POLLS: Final[Mapping[int, str]] = {
    RequestCode.PULL_MESSAGE: "suspendTimeoutMillis",
    RequestCode.LITE_PULL_MESSAGE: "suspendTimeoutMillis",
    RequestCode.POP_MESSAGE: "pollTime",
}
"""Requests that a broker may keep, and the field that says for how many ms."""


def named_broker(code: int, fields: Mapping[str, str]) -> str:
    """The broker that the request names; "" if it names none, or something that cannot be a broker's name."""
    name = fields.get("n" if code in SHORT_NAMES else "bname", "")
    return name if len(name) <= NAME_MAX else ""


def named_topic(code: int, fields: Mapping[str, str]) -> str:
    name = fields.get("b" if code in SHORT_NAMES else "topic", "")
    return name if len(name) <= NAME_MAX else ""


def patience_s(code: int, fields: Mapping[str, str]) -> float:
    """How long, in seconds, the broker may take to answer."""
    if (field := POLLS.get(code)) is None:
        return ANSWER_S
    wait_ms = fields.get(field, "")
    wait_s = int(wait_ms) / 1000 if wait_ms.isascii() and wait_ms.isdigit() and len(wait_ms) < 10 else 0.0
    return min(wait_s, POLL_MAX_S) + POLL_MARGIN_S


def locked_broker(body: bytes) -> str:
    """The broker whose queues are to be locked or unlocked, since clients ask each broker for its own queues; "" if there is none."""
    try:
        queues = read_object(body).get("mqSet") or []
        name = queues[0]["brokerName"] if queues else ""
    except (JsonError, KeyError, TypeError, IndexError):
        return ""
    return name if isinstance(name, str) and len(name) <= NAME_MAX else ""


def assigned_topic(body: bytes) -> str:
    """The topic whose queues a client asks for its share of; "" if there is none."""
    try:
        topic = read_object(body).get("topic")
    except JsonError:
        return ""
    return topic if isinstance(topic, str) and len(topic) <= NAME_MAX else ""
