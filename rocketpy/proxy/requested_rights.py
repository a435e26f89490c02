"""What a gRPC request asks for: which actions on which topics and groups.
RocketMQ: DefaultAuthorizationContextBuilder (5.3.3 auth/authorization/builder/). Decisions only.

Stricter than RocketMQ: changing a message's invisible time needs a right on its topic, too, as acknowledging it does; so does a lite
subscription that names no lite topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from . import schema
from .status import ProxyError

TOPIC, GROUP = "Topic", "Group"
PUB, SUB = "Pub", "Sub"
_CONSUMERS: Final = ("PUSH_CONSUMER", "SIMPLE_CONSUMER", "PULL_CONSUMER", "LITE_PUSH_CONSUMER", "LITE_SIMPLE_CONSUMER")


@dataclass(frozen=True, slots=True)
class Right:
    """The right to one of the actions on one resource."""

    kind: str
    name: str
    actions: tuple[str, ...]


def _right(kind: str, resource: Any, *actions: str) -> Right:
    if not resource.name.strip():
        raise ProxyError("UNAUTHORIZED", f"{kind.lower()} is null.")
    return Right(kind, str(resource.name), actions)


def _produces(request: Any) -> Iterator[Right]:
    yield _right(TOPIC, request.topic, PUB)


def _sends(request: Any) -> Iterator[Right]:
    if not request.messages:
        raise ProxyError("UNAUTHORIZED", "message is null.")
    for name in dict.fromkeys(message.topic.name for message in request.messages):
        yield _right(TOPIC, schema.message("Resource")(name=name), PUB)


def _consumes(request: Any) -> Iterator[Right]:
    yield _right(GROUP, request.group, SUB)
    yield _right(TOPIC, request.topic, SUB)


def _receives(request: Any) -> Iterator[Right]:
    if not request.HasField("message_queue"):
        raise ProxyError("UNAUTHORIZED", "messageQueue is null.")
    yield _right(GROUP, request.group, SUB)
    yield _right(TOPIC, request.message_queue.topic, SUB)


def _beats(request: Any) -> Iterator[Right]:
    if schema.label("ClientType", request.client_type) in _CONSUMERS:
        yield _right(GROUP, request.group, SUB)


def _ends(request: Any) -> Iterator[Right]:
    if request.group.name.strip():
        yield _right(GROUP, request.group, SUB)


def _looks(request: Any) -> Iterator[Right]:
    yield _right(TOPIC, request.topic, PUB, SUB)


def _settles(command: Any) -> Iterator[Right]:
    """The rights that a telemetry command asks for: only settings ask for any."""
    if command.WhichOneof("command") != "settings":
        return
    side = command.settings.WhichOneof("pub_sub")
    if side is None:
        raise ProxyError("UNAUTHORIZED", "settings command doesn't have publishing or subscription.")
    for topic in command.settings.publishing.topics:
        yield _right(TOPIC, topic, PUB)
    if side == "subscription":
        yield _right(GROUP, command.settings.subscription.group, SUB)
        for entry in command.settings.subscription.subscriptions:
            yield _right(TOPIC, entry.topic, SUB)


_RULES: Final[Mapping[str, Callable[[Any], Iterator[Right]]]] = {
    "SendMessageRequest": _sends,
    "RecallMessageRequest": _produces,
    "EndTransactionRequest": _produces,
    "HeartbeatRequest": _beats,
    "ReceiveMessageRequest": _receives,
    "SyncLiteSubscriptionRequest": _consumes,
    "AckMessageRequest": _consumes,
    "ForwardMessageToDeadLetterQueueRequest": _consumes,
    "ChangeInvisibleDurationRequest": _consumes,
    "NotifyClientTerminationRequest": _ends,
    "QueryRouteRequest": _looks,
    "QueryAssignmentRequest": _consumes,
    "TelemetryCommand": _settles,
}


def requested_rights(request: Any) -> list[Right]:
    """The rights that a request needs, all of them. Raises ProxyError for a request that does not name what it is about."""
    return list(_RULES[request.DESCRIPTOR.name](request))
