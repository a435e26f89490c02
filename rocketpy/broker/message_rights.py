"""The right on a message that a request found by its place in the log, or by a hash: what the request names need not be about it.

The gate judges by names, before a message is looked for (csrc/auth/request_rules.c). RocketMQ stops there: with a right on one topic, or
with none, a user reads the messages of all topics by their offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
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


def check_right(auth: AuthService, request: Request, record: bytes, action: str, group: str = "") -> None:
    """Checks that the user who makes the request may read the message as a member of the group. Raises CommandError."""
    if not auth.asks_rights(request.code):
        return
    message = _message(record)
    if message is not None and any(auth.grants(request, kind, name, action) for kind, name in resources(message, group)):
        return
    user, host = request.fields.get("AccessKey", ""), request.remote_address.rpartition(":")[0]
    topic = message.topic if message is not None else ""
    _refused.warning(
        "User:%.128s from %s is refused %s: no %s on topic %s of that message", user, host, request_name(request.code), action, topic
    )
    raise CommandError(
        ResponseCode.NO_PERMISSION, f"User:{user[:128]} has no permission to access the message from {host}, no matched policies."
    )


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
