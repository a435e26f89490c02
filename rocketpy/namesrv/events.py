"""What goes into the name server's tables and what comes out of them.
RocketMQ: RegisterBrokerRequestHeader and its body, UnRegisterBrokerRequestHeader, RegisterBrokerResult, BrokerStatusChangeInfo (5.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..remoting.bodies import RegisterBrokerBody


@dataclass(frozen=True, slots=True)
class RouteSettings:
    """The configuration values that the tables need; replaced as a whole when one changes."""

    support_acting_master: bool = False
    delete_unlisted_topics: bool = False
    notify_min_broker_id: bool = False


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says about itself, and the connection it says it on."""

    cluster: str
    address: str
    broker_name: str
    broker_id: int
    ha_address: str
    body: RegisterBrokerBody
    connection_id: int
    heartbeat_timeout_ms: int | None = None
    enable_acting_master: bool | None = None
    """None: a broker that knows nothing of acting masters."""
    zone_name: str | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """A broker that leaves. `registration` is the number of the registration that ends; None means the current one, whichever that is."""

    cluster: str
    address: str
    broker_name: str
    broker_id: int
    registration: int | None = None


@dataclass(frozen=True, slots=True)
class MinBrokerIdNotice:
    """The smallest broker id of a name has changed, and these addresses are to be told."""

    targets: tuple[str, ...]
    broker_name: str
    min_broker_id: int
    min_broker_address: str
    offline_address: str | None = None
    ha_address: str | None = None


@dataclass(frozen=True, slots=True)
class Registered:
    """The outcome of a registration. It is not accepted if it is about a single topic and the broker has never registered."""

    accepted: bool
    master_address: str | None = None
    ha_address: str | None = None
    notices: tuple[MinBrokerIdNotice, ...] = ()
    topics_count: bool = False
    """Whether its topics were put: not those of a slave that does not stand in for its master, nor of one that is outdated."""
