"""Calls that are answered without Python. csrc/proxy decides about them; this module tells it what it needs to know.

    sending.py ── a topic was sent to: learn ──► its route ──► csrc/proxy, until it is a refresh old; then one message comes here again
    receiving.py ── a group has read a topic: learn_reading ──► its brokers ──► csrc/proxy, the same
    clients.py ── a client has sent its settings: know_client ──► csrc/proxy, until it is gone
    brokers.py ── a route says where a broker is: know_broker ──► its address
    renewals.py ── what consumers work on ──► handler.hold and so on

Bounds   topic_route_service_cache_max_num topics, and as many readings.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .._core.auth import AuthTable
from .._core.errors import NetworkError, RocketpyError
from .._core.proxy import (
    METHOD_ACK,
    METHOD_CHANGE,
    METHOD_RECEIVE,
    METHOD_SEND,
    TYPE_DELAY,
    TYPE_FIFO,
    TYPE_LITE,
    TYPE_NORMAL,
    TYPE_PRIORITY,
    Proxy,
)
from ..remoting.client import split_address
from ..remoting.latencies import GRPC, Kind, Latency
from . import schema
from .brokers import TIMEOUT_S, Brokers
from .messages import is_type_checked
from .settings import ProxySettings
from .status import ProxyError
from .validation import millis

log = logging.getLogger(__name__)

_TYPES: Final[Mapping[str, int]] = {
    "NORMAL": TYPE_NORMAL,
    "FIFO": TYPE_FIFO,
    "DELAY": TYPE_DELAY,
    "PRIORITY": TYPE_PRIORITY,
    "LITE": TYPE_LITE,
    "MIXED": TYPE_NORMAL | TYPE_FIFO | TYPE_DELAY | TYPE_PRIORITY | TYPE_LITE,
}
"""What is sent natively to topics of a type. Transactions are not."""
METHODS: Final[Mapping[str, int]] = {
    "SendMessage": METHOD_SEND,
    "AckMessage": METHOD_ACK,
    "ChangeInvisibleDuration": METHOD_CHANGE,
    "ReceiveMessage": METHOD_RECEIVE,
}
"""What is answered natively. They are the first of the port's methods, in this order."""
CALLS_MAX: Final = 65_535
"""Of a reactor, that wait for a broker."""
INT_MAX: Final = (1 << 31) - 1
NS_PER_S: Final = 1_000_000_000
_LITE: Final = ("LITE_PUSH_CONSUMER", "LITE_SIMPLE_CONSUMER")
"""Clients whose messages are received in a way of their own."""


def may_be_native(settings: ProxySettings) -> bool:
    """Whether calls may be answered natively. Not if only some callers have to identify themselves, nor if rights are checked without
    identity; Python handles those."""
    is_for_all = not settings.authentication_whitelist.strip() and not settings.authorization_whitelist.strip()
    return not settings.checks or (settings.authentication_enabled and is_for_all)


class NativeCalls:
    """The native side, what it is told, and what it has counted. `users` decides who is let in; None lets everybody in."""

    def __init__(self, settings: ProxySettings, brokers: Brokers, reactors: int, users: AuthTable | None = None) -> None:
        self._settings = settings
        self._brokers = brokers
        credentials = settings.credentials
        self.handler = Proxy(
            gate=users,
            credentials=None if credentials is None else (credentials.access_key, credentials.secret_key, credentials.security_token),
            message_size_max=_bound(settings.max_message_size),
            user_properties_max=_bound(settings.user_property_max_num),
            user_property_size_max=_bound(settings.max_user_property_size),
            message_group_size_max=_bound(settings.max_message_group_size),
            lite_topic_size_max=_bound(settings.max_lite_topic_size),
            delay_ms_max=max(0, settings.max_delay_time_mills),
            takes_empty_body=int(not settings.enable_message_body_empty_check),
            uses_delay_level=int(settings.use_delay_level),
            topics_max=_bound(settings.topics_max),
            reactors=reactors,
            calls_max=min(CALLS_MAX, max(1, settings.grpc_thread_pool_queue_capacity // reactors)),
            send_method=list(METHODS).index("SendMessage"),
            ack_method=list(METHODS).index("AckMessage"),
            change_method=list(METHODS).index("ChangeInvisibleDuration"),
            receive_method=list(METHODS).index("ReceiveMessage"),
            polling_min_ms=settings.grpc_client_consumer_min_long_polling_timeout_millis,
            polling_max_ms=settings.grpc_client_consumer_max_long_polling_timeout_millis,
            invisible_min_ms=settings.min_invisible_time_mills_for_recv,
            invisible_max_ms=settings.max_invisible_time_mills,
            invisible_renewed_ms=settings.default_invisible_time_mills,
            may_renew=int(settings.enable_proxy_auto_renew),
        )
        """For the port, whose methods begin with METHODS."""
        self._learned: dict[str, float] = {}
        self._readings: dict[tuple[str, str], float] = {}

    def close(self) -> None:
        """To be called after the port is closed."""
        self.handler.close()

    def learn(self, topic: str) -> None:
        """Tells the native side what is known about the topic, valid until Python would ask again."""
        known = self._brokers.known(topic)
        if known is None or self._learned.get(topic) == known.ask_again_s:
            return
        self.forget(topic)
        types = _TYPES.get(known.message_type, 0) if is_type_checked(self._settings, topic) else _TYPES["MIXED"]
        names = list(known.addresses)
        brokers = [found for name in names if (found := _numeric(known.addresses[name])) is not None]
        if not types or not known.queues or len(brokers) < len(names):
            return
        places = {name: place for place, name in enumerate(names)}
        try:
            is_put = self.handler.put_route(
                topic,
                types,
                [(name, *found) for name, found in zip(names, brokers, strict=True)],
                [(places[queue.broker], queue.queue_id) for queue in known.queues],
                ask_again_ns=int(known.ask_again_s * NS_PER_S),
                ends_ns=int((known.ask_again_s + TIMEOUT_S) * NS_PER_S),
            )
        except RocketpyError:  # more queues or longer names than the native side takes
            return
        if is_put:
            while len(self._learned) >= self._settings.topics_max:
                del self._learned[next(iter(self._learned))]
            self._learned[topic] = known.ask_again_s

    def learn_reading(self, topic: str, group: str) -> None:
        """Tells the native side how the group reads the topic, valid until Python would ask again."""
        known = self._brokers.known_reading(topic, group)
        if known is None or self._readings.get((topic, group)) == known.ask_again_s:
            return
        self.forget_reading(topic, group)
        brokers = [(name, *found) for name, address in known.brokers if (found := _numeric(address)) is not None]
        if len(brokers) < len(known.brokers):
            return
        try:
            is_put = self.handler.put_reading(
                topic,
                group,
                brokers,
                is_orderly=known.group.orderly,
                retries=min(max(known.group.retries, -1), INT_MAX),
                ask_again_ns=int(known.ask_again_s * NS_PER_S),
                ends_ns=int((known.ask_again_s + TIMEOUT_S) * NS_PER_S),
            )
        except RocketpyError:  # no broker, more of them, or longer names than the native side takes
            return
        if is_put:
            while len(self._readings) >= self._settings.topics_max:
                del self._readings[next(iter(self._readings))]
            self._readings[topic, group] = known.ask_again_s

    def forget_reading(self, topic: str, group: str) -> None:
        """It is no longer known how the group reads the topic."""
        if self._readings.pop((topic, group), None) is not None:
            self.handler.forget_reading(topic, group)

    def know_client(self, client_id: str, settings: Any) -> None:
        """Tells the native side about a client and its settings; None: the client is gone. Clients of lite topics are left to Python."""
        try:
            if settings is None or schema.label("ClientType", settings.client_type) in _LITE:
                self.handler.forget_client(client_id)
            else:
                self.handler.put_client(client_id, millis(settings.request_timeout) // 2)
        except (RocketpyError, ProxyError):  # a name, or a time, that Python has words for
            self.handler.forget_client(client_id)

    def know_broker(self, name: str, address: str) -> None:
        """Tells the native side the address of a broker's master."""
        found = _numeric(address)
        try:
            if found is None or not self.handler.put_broker(name, *found):
                self.handler.forget_broker(name)
        except RocketpyError:  # a name that nobody could ask for
            log.debug("%r is no broker that is asked natively", name)

    def forget(self, topic: str) -> None:
        """It is no longer known where the topic's messages go."""
        if self._learned.pop(topic, None) is not None:
            self.handler.forget_route(topic)

    def latencies(self) -> Iterator[tuple[Kind, Latency]]:
        """The latencies of calls that were answered natively."""
        for name, method in METHODS.items():
            for code, total_ns, classes in self.handler.times(method):
                latency = Latency()
                latency.counts, latency.sum_ms = classes, total_ns / 1e6
                yield Kind(GRPC, name, schema.label("Code", code), name == "ReceiveMessage"), latency


def _bound(setting: int) -> int:
    """A bound in the form that the native side takes: 0 for none."""
    return min(max(0, setting), (1 << 32) - 1)


def _numeric(address: str) -> tuple[bytes, int] | None:
    """(bytes, port) of a numeric address. Host names are resolved only on Python's way."""
    try:
        host, port = split_address(address)
        number = ipaddress.ip_address(host)
    except (NetworkError, ValueError):
        return None
    mapped = getattr(number, "ipv4_mapped", None)
    return (mapped or number).packed, port
