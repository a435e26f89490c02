"""The right on a message that a request found by its place in the log, or by a hash: what the request names need not be about it.

The gate judges by names, before a message is looked for (csrc/auth/request_rules.c). RocketMQ stops there: with a right on one topic, or
with none, a user reads the messages of all topics by their offsets, and ends the transactions of others.

A proxy, whose requests the brokers see as its own, decides the same (rocketpy/proxy/found_messages.py).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Final

from .._core.errors import RocketpyError
from .._core.remoting import Request
from .._core.results import Message
from .._core.store import decode_message
from ..auth.service import AuthService
from ..remoting.codes import ResponseCode, request_name
from ..remoting.command import CommandError
from ..repeated_warning import RepeatedWarning
from . import names

_refused = RepeatedWarning(logging.getLogger(__name__))

WAYS: Final = frozenset({names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.TRANS_HALF_TOPIC})
"""Topics of messages on their way to others, which they name."""

Grants = Callable[[str, str, str], bool]
"""Whether somebody has a right: "Topic" or "Group", its name, the action."""


def check_right(auth: AuthService, request: Request, record: bytes, action: str, group: str = "") -> None:
    """Checks that the user who makes the request may read the message as a member of the group. Raises CommandError."""
    if auth.asks_rights(request.code) and not may_read(record, action, group, _grants(auth, request)):
        _refuse(request, record, action)


def check_sender(auth: AuthService, request: Request, record: bytes) -> None:
    """Checks that the user who makes the request may end the transaction of the prepared message. Raises CommandError."""
    if auth.asks_rights(request.code) and not may_end(record, _grants(auth, request)):
        _refuse(request, record, "Pub")


def _grants(auth: AuthService, request: Request) -> Grants:
    return functools.partial(auth.grants, request)


def _refuse(request: Request, record: bytes, action: str) -> None:
    user, host = request.fields.get("AccessKey", ""), request.remote_address.rpartition(":")[0]
    _refused.warning(
        "User:%.128s from %s is refused %s: no %s on topic %s of that message",
        user,
        host,
        request_name(request.code),
        action,
        topic_of(record) or "",
    )
    raise CommandError(ResponseCode.NO_PERMISSION, refusal(user, host))


def refusal(user: str, host: str) -> str:
    return f"User:{user[:128]} has no permission to access the message from {host}, no matched policies."


def may_read(record: bytes, action: str, group: str, grants: Grants) -> bool:
    message = _message(record)
    return message is not None and any(grants(kind, name, action) for kind, name in resources(message, group))


def may_end(record: bytes, grants: Grants) -> bool:
    """As rp_auth_judge_sender for a message that is prepared; others are nobody's to end, which brokers say themselves."""
    message = _message(record)
    if message is None or message.topic != names.TRANS_HALF_TOPIC:
        return message is not None
    topic = message.properties.get("REAL_TOPIC", "")
    if topic.startswith(names.RETRY_PREFIX):
        return grants("Group", topic.removeprefix(names.RETRY_PREFIX), "Sub")
    return grants("Topic", topic, "Pub")


def resources(message: Message, group: str) -> Iterator[tuple[str, str]]:
    """The topics and groups of which one has to be granted. What a sender says of them is about the sender's own message."""
    topic = message.properties.get("REAL_TOPIC", message.topic) if message.topic in WAYS else message.topic
    if not topic.startswith(names.RETRY_PREFIX):
        yield "Topic", topic
    else:
        name = topic.removeprefix(names.RETRY_PREFIX)
        yield "Group", name
        if before := message.properties.get("RETRY_TOPIC"):
            yield "Topic", before
        if group and name[: len(group) + 1] in (f"{group}_", f"{group}+"):  # of popped messages
            yield "Topic", name[len(group) + 1 :]
    for light in message.properties.get("INNER_MULTI_DISPATCH", "").split(","):
        if light:
            yield "Topic", light


def topic_of(record: bytes) -> str | None:
    """The topic of a record; None of what is none."""
    message = _message(record)
    return message.topic if message is not None else None


def _message(record: bytes) -> Message | None:
    try:
        return decode_message(record, check_crc=False)
    except RocketpyError:
        return None
