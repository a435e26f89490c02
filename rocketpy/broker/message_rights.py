"""The right on a message that a request found by its place in the log, or by a hash: what the request names need not be about it.

The gate judges by names, before a message is looked for (csrc/auth/request_rules.c). RocketMQ stops there: with a right on one topic, or
with none, a user reads the messages of all topics by their offsets, and ends the transactions of others.

A proxy, whose requests the brokers see as its own, decides the same (rocketpy/proxy/found_messages.py).

The bytes at an offset are a message only if the queue that they name has an entry for them: any body may hold what reads like a record.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Final

from .._core.errors import RocketpyError
from .._core.remoting import Request
from .._core.results import Message
from .._core.store import MessageStore, decode_message
from ..auth.service import AuthService
from ..remoting.client import split_address
from ..remoting.codes import ResponseCode, request_name
from ..remoting.command import CommandError
from ..repeated_warning import RepeatedWarning
from . import names

log = logging.getLogger(__name__)

_refused = RepeatedWarning(log)

WAYS: Final = frozenset({names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.TRANS_HALF_TOPIC})
"""Topics of messages on their way to others, which they name."""

Grants = Callable[[str, str, str], bool]
"""Whether somebody has a right: "Topic" or "Group", its name, the action."""


Look = Callable[[int, MessageStore], Message | None]
"""What is at an offset, without its body."""


def record_at(offset: int, store: MessageStore) -> tuple[bytes, Message] | None:
    """The record of a message that is in its queue, and what it says, without its body; None if there is none, or none yet. To be called in
    a thread: it may read the disk."""
    try:
        record = store.read(offset)
        message = decode_message(record, check_crc=False)
        entries = store.entries(message.topic, message.queue_id, message.queue_offset, 1)
    except RocketpyError as error:
        log.info("no message at offset %d: %s", offset, error)
        return None
    if [entry[:2] for entry in entries] != [(offset, len(record))]:
        log.info("no message at offset %d: queue %d of topic %.255r has none there", offset, message.queue_id, message.topic)
        return None
    return record, message._replace(body=b"")


def message_at(offset: int, store: MessageStore) -> Message | None:
    """As record_at. The record, which may be large, is let go."""
    found = record_at(offset, store)
    return found[1] if found is not None else None


def half_at(offset: int, store: MessageStore) -> Message | None:
    """As message_at; whether it is in its queue is looked at when it is ended (end_transaction.c)."""
    try:
        message = message_of(store.read(offset))
    except RocketpyError as error:
        log.info("no message at offset %d: %s", offset, error)
        return None
    return message._replace(body=b"") if message is not None else None


def check_right(auth: AuthService, request: Request, message: Message, action: str, group: str = "") -> None:
    """Checks that the user who makes the request may read the message as a member of the group. Raises CommandError."""
    if auth.asks_rights(request.code) and not may_read(message, action, group, _grants(auth, request)):
        _refuse(request, message, action)


def check_sender(auth: AuthService, request: Request, message: Message) -> None:
    """Checks that the user who makes the request may end the transaction of the prepared message. Raises CommandError."""
    if auth.asks_rights(request.code) and not may_end(message, _grants(auth, request)):
        _refuse(request, message, "Pub")


def _grants(auth: AuthService, request: Request) -> Grants:
    return functools.partial(auth.grants, request)


def _refuse(request: Request, message: Message, action: str) -> None:
    user, host = request.fields.get("AccessKey", ""), split_address(request.remote_address)[0]
    _refused.warning(
        "User:%.128r from %s is refused %s: no %s on topic %.255r of that message",
        user,
        host,
        request_name(request.code),
        action,
        message.topic,
    )
    raise CommandError(ResponseCode.NO_PERMISSION, refusal(user, host))


def refusal(user: str, host: str) -> str:
    return f"User:{user[:128]} has no permission to access the message from {host}, no matched policies."


def may_read(message: Message, action: str, group: str, grants: Grants) -> bool:
    return any(all(grants(kind, name, action) for kind, name in way) for way in ways_to(message, group))


def may_end(message: Message, grants: Grants) -> bool:
    """As rp_auth_judge_sender for a message that is prepared; others are nobody's to end, which our brokers say themselves."""
    return message.topic != names.TRANS_HALF_TOPIC or may_commit(message, grants)


def may_commit(message: Message, grants: Grants) -> bool:
    """What a send to the topic asks for that the message would be stored under."""
    topic = message.properties.get("REAL_TOPIC", "")
    if topic.startswith(names.RETRY_PREFIX):
        return grants("Group", topic.removeprefix(names.RETRY_PREFIX), "Sub")
    return grants("Topic", topic, "Pub")


def ways_to(message: Message, group: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """The topics and groups of which all of one way have to be granted. What a sender says of them is about the sender's own message."""
    topic = message.properties.get("REAL_TOPIC", message.topic) if message.topic in WAYS else message.topic
    if not topic.startswith(names.RETRY_PREFIX):
        yield (("Topic", topic),)
    else:
        name = topic.removeprefix(names.RETRY_PREFIX)
        yield (("Group", name),)
        if before := message.properties.get("RETRY_TOPIC"):
            yield (("Topic", before),)
        else:
            yield from _ways_to_popped(name, group)
    for light in message.properties.get("INNER_MULTI_DISPATCH", "").split(","):
        if light:
            yield (("Topic", light),)


def _ways_to_popped(name: str, group: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """What a pop of the retry topic asks for, whose name ends with that of a group, a mark, and that of a topic. Names of groups and topics
    may have the older mark in them, too; then several pairs have the retry topic in common, and each pair pops from it."""
    for place, mark in enumerate(name):
        popping, topic = name[:place], name[place + 1 :]
        if mark in "_+" and popping and topic and group in ("", popping):
            yield ("Group", popping), ("Topic", topic)


def topic_of(record: bytes) -> str | None:
    """The topic of a record; None of what is none."""
    message = message_of(record)
    return message.topic if message is not None else None


def message_of(record: bytes) -> Message | None:
    try:
        return decode_message(record, check_crc=False)
    except RocketpyError:
        return None
