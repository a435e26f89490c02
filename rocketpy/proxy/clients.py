"""The clients that have introduced themselves: their settings, when they were last heard of, and the stream on which the proxy sends to
them.
RocketMQ: GrpcClientSettingsManager, GrpcChannelManager, ClientActivity (5.3.3 proxy/grpc/v2/).

Threads  one event loop. Bounds: CLIENTS_MAX clients, bytes_max of memory for their settings; told.py bounds the commands that
         wait for a client that does not read.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ..broker.heartbeat import CONSUME_ACTIVELY, CONSUME_PASSIVELY, SQL92, SUB_ALL, TAG, Subscription, tags_in
from ..broker.names import CLIENT_BYTES_MAX, is_possible_client, java_hash
from ..remoting.codes import CURRENT_VERSION, Language
from . import schema
from .settings import KEPT_BYTES_MAX
from .status import ProxyError
from .told import AllTold, Told

log = logging.getLogger(__name__)

CLIENTS_MAX: Final = 65_536
SETTINGS_BYTES_MAX: Final = 256 * 1024
"""Of one client's settings, which are kept."""
SETTINGS_PARTS_MAX: Final = 1024
"""Of one client's settings: each topic and whatever else may be there many times."""
PART_BYTES: Final = 256
"""Beside its bytes. Measured: 170 of a topic's name among 1,024, 400 among five."""


@dataclass(slots=True)
class Client:
    """A client that has sent its settings. `stream` takes commands for it; None while it has no telemetry stream."""

    client_id: str
    settings: Any
    heard_ms: int
    stream: Told | None = None
    topics: frozenset[str] = field(default_factory=frozenset)
    """A producer's."""
    group: str = ""
    """A consumer's."""
    address: str = ""
    language: str = ""
    cost: int = 0
    """Bytes of memory that its settings take."""

    @property
    def is_lite(self) -> bool:
        return is_lite(self.settings)

    def tell(self, command: Any) -> bool:
        """Sends the client a command. False if it has no stream, or does not read it."""
        if self.stream is None:
            return False
        if not self.stream.offer(command):
            dropped = self.stream.everywhere.dropped
            dropped.warning("client %s, or others, do not read their telemetry: a command to it was dropped", self.client_id)
            return False
        return True


def language_of(said: str) -> str:
    """The language as a LanguageCode of 4.x clients, which admin tools read; OTHER if it is none of those."""
    known = {"GOLANG": "GO", "DOT_NET": "DOTNET"}.get(said.upper(), said.upper())
    return known if known in Language.__members__ else Language.OTHER.name


def is_lite(settings: Any) -> bool:
    """Whether these are the settings of a consumer of lite topics."""
    return bool(settings.client_type == schema.number("ClientType", "LITE_PUSH_CONSUMER"))


def consume_type(settings: Any) -> str:
    """RocketMQ: ClientActivity.buildConsumeType."""
    is_push = schema.label("ClientType", settings.client_type) in ("PUSH_CONSUMER", "LITE_PUSH_CONSUMER")
    return CONSUME_PASSIVELY if is_push else CONSUME_ACTIVELY


def subscription(entry: Any) -> dict[str, Any]:
    """The subscription in the form of 4.x clients' SubscriptionData."""
    is_sql = entry.expression.type == schema.number("FilterType", "SQL")
    expression = str(entry.expression.expression) or SUB_ALL
    tags = () if is_sql or expression == SUB_ALL else tuple(sorted(tags_in(expression)))
    codes = tuple(sorted({java_hash(tag) for tag in tags}))
    return Subscription(str(entry.topic.name), expression, SQL92 if is_sql else TAG, tags, codes).to_json()


def _parts(settings: Any) -> int:
    """How many message objects protobuf makes of the settings, apart from about a dozen."""
    topics = len(settings.publishing.topics) + len(settings.subscription.subscriptions)
    addresses = len(settings.access_point.addresses) + len(settings.metric.endpoints.addresses)
    return topics + addresses + len(settings.backoff_policy.customized_backoff.next) + len(settings.client_properties)


def check_size(settings: Any) -> int:
    """The memory in bytes that a client's settings take. Raises ProxyError for settings that are too large to be kept."""
    if (size := int(settings.ByteSize())) > SETTINGS_BYTES_MAX:
        raise ProxyError("BAD_REQUEST", f"settings of more than {SETTINGS_BYTES_MAX} bytes")
    if (parts := _parts(settings)) > SETTINGS_PARTS_MAX:
        raise ProxyError("BAD_REQUEST", f"settings of more than {SETTINGS_PARTS_MAX} topics, addresses, pauses and properties")
    return size + parts * PART_BYTES


class Clients:
    """The clients, by their ids. A client that says nothing for expires_ms is gone, by a clock that nobody sets: who is forgotten with its
    stream open sends its settings again after minutes only, and receives nothing until then. bytes_max bounds the memory for all settings,
    and that for all commands which wait to be sent: one caller may pose as any number of clients."""

    def __init__(self, clock_ms: Callable[[], int], expires_ms: int, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._clock_ms = clock_ms
        self._expires_ms = expires_ms
        self._clients: dict[str, Client] = {}
        self._settings_bytes = 0
        self._bytes_max = bytes_max
        self._told = AllTold(bytes_max)
        self._listener: Callable[[str, Any], None] | None = None

    def tell(self, listener: Callable[[str, Any], None]) -> None:
        """Calls `listener` with each client's settings whenever they are sent, and with None when the client is gone."""
        self._listener = listener
        for client in self:
            listener(client.client_id, client.settings)

    def tell_nobody(self) -> None:
        self._listener = None

    def _tell(self, client_id: str, settings: Any) -> None:
        if self._listener is not None:
            self._listener(client_id, settings)

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[Client]:
        return iter(self._clients.values())

    def new_stream(self) -> Told:
        return Told(self._told)

    def put(self, client_id: str, settings: Any, stream: Told | None, *, address: str = "", language: str = "") -> Client:
        """Keeps a client's settings, new or repeated. Raises ProxyError."""
        if client_id not in self._clients and len(self._clients) >= CLIENTS_MAX:
            raise ProxyError("TOO_MANY_REQUESTS", f"this proxy has {CLIENTS_MAX} clients already")
        if not is_possible_client(client_id):
            raise ProxyError("BAD_REQUEST", f"client id of more than {CLIENT_BYTES_MAX} bytes")
        cost = check_size(settings)
        settings = type(settings).FromString(settings.SerializeToString())  # the command that they came in would stay whole with them
        known = self._clients.get(client_id)
        more = cost - (0 if known is None else known.cost)
        if more > 0 and self._settings_bytes + more > self._bytes_max:
            raise ProxyError("TOO_MANY_REQUESTS", f"this proxy keeps {self._bytes_max} bytes of clients' settings already")
        self._settings_bytes += more
        topics = frozenset(str(topic.name) for topic in settings.publishing.topics)
        kept = stream if stream is not None or known is None else known.stream
        client = Client(
            client_id, settings, self._clock_ms(), kept, topics, str(settings.subscription.group.name), address, language_of(language), cost
        )
        self._clients[client_id] = client
        self._tell(client_id, settings)
        return client

    def get(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    def known(self, client_id: str) -> Client:
        """The client of this id. Raises ProxyError if it has not sent its settings."""
        client = self._clients.get(client_id)
        if client is None:
            raise ProxyError("UNRECOGNIZED_CLIENT_TYPE", "cannot find client settings for this client")
        return client

    def heard(self, client_id: str) -> Client:
        """A heartbeat arrived. Raises ProxyError as `known` does."""
        client = self.known(client_id)
        client.heard_ms = self._clock_ms()
        return client

    def remove(self, client_id: str) -> Client | None:
        self._tell(client_id, None)
        client = self._clients.pop(client_id, None)
        if client is not None:
            self._settings_bytes -= client.cost
        return client

    def stream_ended(self, client_id: str, stream: Told) -> Client | None:
        """Returns the client whose stream has ended. The client is kept until it has been silent for long, because it may come back with
        another stream."""
        stream.close()
        client = self._clients.get(client_id)
        if client is None or client.stream is not stream:
            return None
        client.stream = None
        return client

    def expire(self) -> None:
        oldest_ms = self._clock_ms() - self._expires_ms
        for client in [each for each in self if each.heard_ms < oldest_ms]:
            log.info("client %s has not been heard of for %d s and is forgotten", client.client_id, self._expires_ms // 1000)
            self.remove(client.client_id)

    def is_online(self, client_id: str, group: str) -> bool:
        client = self._clients.get(client_id)
        return client is not None and client.group == group

    def consumer_connection(self, group: str) -> dict[str, Any] | None:
        """A group's clients as RocketMQ's ConsumerConnection; None if there are none."""
        clients = [client for client in self if client.group == group]
        if not clients:
            return None
        return {
            "connectionSet": [
                {"clientAddr": each.address, "clientId": each.client_id, "language": each.language, "version": CURRENT_VERSION}
                for each in clients
            ],
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "consumeType": consume_type(clients[0].settings),
            "messageModel": "LITE_SELECTIVE" if clients[0].is_lite else "CLUSTERING",
            "subscriptionTable": {
                entry.topic.name: subscription(entry) for client in clients for entry in client.settings.subscription.subscriptions
            },
        }

    def producers_of(self, topic: str) -> list[Client]:
        """The producers of a topic that have a stream, in random order."""
        found = [client for client in self if topic in client.topics and client.stream is not None]
        random.shuffle(found)
        return found
