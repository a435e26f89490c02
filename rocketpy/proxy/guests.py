"""4.x clients that came through the proxy. Each has connections of its own to the brokers, so that brokers treat it as if it had connected
to them itself.
RocketMQ: RemotingChannelManager (5.3.3 proxy/remoting/channel/), where clients share the proxy's connections.

Threads  one event loop. Bounds: BROKERS_MAX lost brokers and GROUPS_MAX groups of one guest, TOPICS_MAX topics of a group, NAMES_MAX of all
         of them with names of up to NAME_MAX characters, LOOKED_UP_MAX topics that are looked up for one heartbeat; as many guests as the
         port has connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .._core.errors import Closed
from .._core.remoting import Command
from ..broker.heartbeat import Heartbeat
from ..broker.names import RETRY_PREFIX
from ..remoting.client import RemotingClient
from ..remoting.codes import Language, SerializeType
from ..remoting.command import Response
from ..remoting.credentials import Credentials
from ..remoting.json_codec import JsonError, read_object
from .relay_rules import NAME_MAX

BROKERS_MAX: Final = 256
"""That one heartbeat is passed on to."""
GROUPS_MAX: Final = 256
TOPICS_MAX: Final = 64
NAMES_MAX: Final = 1024
LOOKED_UP_MAX: Final = 16


class Guest:
    """A 4.x client that is connected to the proxy. `brokers`: the names of those it deals with, which are told about it and may ask it
    something. `lost`: those among them that could not be reached; they are told about it once they can be. `sought`: those of the lost that
    are tried now."""

    def __init__(self, connection_id: int, credentials: Credentials | None, on_request: Callable[[Guest, str, Command], None]) -> None:
        """`credentials`: the proxy's own; without them the guest's signatures are passed on. `on_request` is called with requests of
        brokers."""
        self.connection_id = connection_id
        self.brokers: set[str] = set()
        self.lost: set[str] = set()
        self.sought: set[str] = set()
        self._credentials = credentials
        self._on_request = on_request
        self._client: RemotingClient | None = None
        self.under_way = 0
        """Requests that a broker has not answered."""
        self._topics: dict[str, tuple[str, ...]] = {}  # by consumer group
        self._looked_up: set[str] = set()
        self._has_left = False

    @property
    def at_hand(self) -> set[str]:
        """Those of its brokers that could be reached, while there are any."""
        return self.brokers - self.lost or self.brokers

    def client_for(self, request: Command) -> RemotingClient:
        """The client with this guest's own connections to brokers, which states the language and release of the guest's first request.
        Raises Closed if the guest has left."""
        if self._has_left:
            raise Closed("the client has closed its connection")
        if self._client is None:
            self._client = RemotingClient(
                serialize_type=SerializeType(request.serialize_type),
                language=_language(request.language),
                version=request.version,
                on_request=lambda address, asked: self._on_request(self, address, asked),
                credentials=self._credentials,
            )
        return self._client

    def lose(self, broker: str) -> None:
        """The broker cannot be reached at the moment."""
        self.brokers.discard(broker)
        if len(self.lost) < BROKERS_MAX:
            self.lost.add(broker)

    async def leave(self) -> None:
        """Closes the guest's connections to brokers, which is how they notice."""
        self._has_left = True
        if self._client is not None:
            await self._client.stop()

    async def answer(self, address: str, request: Command, answer: Command) -> None:
        """Sends the guest's answer to a broker that has asked it something. Raises RocketpyError."""
        if self._client is not None:
            await self._client.respond(address, request, Response(answer.code, answer.remark, answer.fields, answer.body))

    def learn(self, body: bytes) -> None:
        """Notes what a heartbeat says about the guest's groups. It is up to the brokers to refuse one that cannot be read."""
        try:
            heartbeat = Heartbeat.from_json(read_object(body))
        except (JsonError, ValueError):
            return
        if heartbeat.without_sub:
            return
        self._topics, left = {}, NAMES_MAX
        for data in heartbeat.consumers[:GROUPS_MAX]:
            if len(data.group) <= NAME_MAX and left > 0:
                own = [each.topic for each in data.subscriptions if len(each.topic) <= NAME_MAX and not each.topic.startswith(RETRY_PREFIX)]
                self._topics[data.group] = tuple(own[: min(TOPICS_MAX, left)])
                left -= len(self._topics[data.group])
        self._looked_up &= {topic for topics in self._topics.values() for topic in topics}

    def forget(self, group: str) -> None:
        self._topics.pop(group, None)

    def topics_of(self, group: str) -> tuple[str, ...]:
        return self._topics.get(group, ())

    def new_topics(self) -> list[str]:
        """Topics that the guest reads, each returned once. The guest will ask for their routes itself, but perhaps only after its first
        heartbeat."""
        found = [topic for topics in self._topics.values() for topic in topics if topic not in self._looked_up][:LOOKED_UP_MAX]
        self._looked_up.update(found)
        return list(dict.fromkeys(found))


def _language(number: int) -> Language:
    try:
        return Language(number)
    except ValueError:
        return Language.OTHER
