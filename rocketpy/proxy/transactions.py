"""Transactions: where a prepared message lies, which broker is told how it ended, and which producer is asked when nobody has said.
RocketMQ: ClusterTransactionService, TransactionDataManager, ProxyClientRemotingProcessor (5.3.3 proxy/service/).

    producer ── SendMessage ──► broker;  its place is kept for transaction_data_expire_millis
    producer ── EndTransaction ──► the place ──► END_TRANSACTION to that broker
    broker ── CHECK_TRANSACTION_STATE ──► a producer of the topic, by its telemetry

Brokers know the proxy as a producer of each topic to which its clients send transactions: it sends them a heartbeat every
transaction_heartbeat_period_second.
One place is kept for each transaction, the last known one; PLACES_MAX in all, the oldest go first. RocketMQ keeps several and falls back to
an older one when the last is used up; a message committed there is delivered again after the next check.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .._core.errors import ProtocolError, RocketpyError
from .._core.remoting import Command
from .._core.results import Message
from ..awake_clock import monotonic_ms
from ..remoting.codes import RequestCode
from ..remoting.command import CommandError, check_success
from ..remoting.headers import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from ..remoting.headers.base import HeaderError
from ..remoting.json_codec import write_json
from ..remoting.records import read_records
from ..repeated_warning import RepeatedWarning
from . import schema
from .brokers import Brokers
from .clients import Clients
from .messages import grpc_message
from .settings import ProxySettings
from .status import ProxyError

log = logging.getLogger(__name__)

PLACES_MAX: Final = 200_000
RESOLVED: Final = {"COMMIT": 2 << 2, "ROLLBACK": 3 << 2}
"""The transaction bits of a sys flag."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Where a prepared message is stored."""

    broker: str
    queue_offset: int
    log_offset: int


class Transactions:
    """The transactions of this proxy's clients. `brokers_of`: the cluster's brokers, whose connections bring the checks."""

    def __init__(self, settings: ProxySettings, clients: Clients, client_id: str, brokers_of: Callable[[], Brokers]) -> None:
        self._settings = settings
        self._clients = clients
        self._client_id = client_id
        self._brokers_of = brokers_of
        self._places: dict[tuple[str, str], tuple[int, Prepared]] = {}
        self._topics: set[str] = set()
        self._unasked, self._unreadable = RepeatedWarning(log), RepeatedWarning(log)

    def add(self, topic: str, transaction_id: str, prepared: Prepared) -> None:
        """Notes where a prepared message is stored. A broker that checks the transaction has stored the message again, so the earlier place
        is void."""
        key = topic, transaction_id
        self._places.pop(key, None)
        self._places[key] = monotonic_ms() + self._settings.transaction_data_expire_millis, prepared
        while len(self._places) > PLACES_MAX:
            del self._places[next(iter(self._places))]

    def expire(self) -> None:
        at_ms = monotonic_ms()
        self._places = {key: place for key, place in self._places.items() if place[0] > at_ms}

    def _place(self, topic: str, transaction_id: str) -> Prepared:
        """The noted place. Raises ProxyError."""
        until_ms, prepared = self._places.get((topic, transaction_id), (0, None))
        if prepared is None or until_ms <= monotonic_ms():
            raise ProxyError("INVALID_TRANSACTION_ID", "cannot found transaction data")
        return prepared

    async def end(self, topic: str, transaction_id: str, message_id: str, resolution: str, *, is_check: bool) -> None:
        """Tells the broker how the transaction ends. Raises ProxyError for a transaction that is unknown or has been forgotten,
        RocketpyError."""
        prepared = self._place(topic, transaction_id)
        header = EndTransactionRequestHeader(
            topic=topic,
            producer_group=topic,
            tran_state_table_offset=prepared.queue_offset,
            commit_log_offset=prepared.log_offset,
            commit_or_rollback=RESOLVED.get(resolution, 0),
            from_transaction_check=is_check,
            msg_id=message_id,
            transaction_id=transaction_id,
        )
        if resolution not in RESOLVED:  # brokers do not answer that nothing is known yet
            await self._brokers_of().call_oneway(prepared.broker, RequestCode.END_TRANSACTION, header)
            return
        del self._places[topic, transaction_id]  # whoever says it a second time must not have the message delivered twice
        try:
            check_success(await self._brokers_of().call(prepared.broker, RequestCode.END_TRANSACTION, header))
        except CommandError:  # surely not done; after another error it may be, and the broker's next question brings a place
            if (topic, transaction_id) not in self._places:  # the client may try again
                self.add(topic, transaction_id, prepared)
            raise

    async def subscribe(self, topic: str) -> None:
        """Makes brokers ask us about the topic's transactions from now on."""
        if topic not in self._topics:
            self._topics.add(topic)
            await self._heartbeat([topic])

    async def heartbeats(self) -> None:
        """Sends a heartbeat to every broker that has one of the topics; drops topics that have no producer left."""
        self._topics = {topic for topic in self._topics if self._clients.producers_of(topic)}
        await self._heartbeat(sorted(self._topics))

    async def _heartbeat(self, topics: list[str]) -> None:
        brokers = self._brokers_of()
        topics_of: dict[str, list[str]] = {}
        for topic in topics:
            try:
                for queue in await brokers.writable_queues(topic):
                    listed = topics_of.setdefault(queue.broker, [])
                    if topic not in listed:
                        listed.append(topic)
            except (ProxyError, RocketpyError) as error:
                log.warning("brokers of %s are not told of its producers: %s", topic, error)
        for broker, listed in topics_of.items():
            producers = [{"groupName": topic} for topic in listed]
            body = write_json({"clientID": self._client_id, "consumerDataSet": [], "producerDataSet": producers})
            try:
                check_success(await brokers.call(broker, RequestCode.HEART_BEAT, None, body))
            except (ProxyError, RocketpyError) as error:
                log.warning("%s is not told of the producers of %s: %s", broker, ", ".join(listed), error)

    def check(self, address: str, request: Command) -> None:
        """A broker asks how a transaction ended: passes the question on to a producer of its topic, if there is one."""
        try:
            header = CheckTransactionStateRequestHeader.decode(request.fields)
            (message,) = read_records(bytes(request.body))
        except (HeaderError, ProtocolError, ValueError) as error:
            self._unreadable.warning("%s asked about a transaction in a way that cannot be read: %s", address, error)
            return
        transaction_id = message.properties.get("UNIQ_KEY") or header.transaction_id or ""
        group = message.properties.get("PGROUP", message.topic)
        broker = self._brokers_of().name_of(address)
        if not broker or not self._ask_producer(group, transaction_id, message):
            text = "nobody here can be asked how transaction %s of %s ended, which %s wants to know"
            self._unasked.warning(text, transaction_id, group, address)
            return
        self.add(group, transaction_id, Prepared(broker, header.tran_state_table_offset, header.commit_log_offset))

    def _ask_producer(self, topic: str, transaction_id: str, message: Message) -> bool:
        command = schema.message("TelemetryCommand")()
        try:
            command.recover_orphaned_transaction_command.message.CopyFrom(grpc_message(message))
        except (ValueError, TypeError):
            log.exception("the message of transaction %s of %s cannot be said in gRPC", transaction_id[:100], topic)
            return False
        command.recover_orphaned_transaction_command.transaction_id = transaction_id
        return any(producer.tell(command) for producer in self._clients.producers_of(topic))
