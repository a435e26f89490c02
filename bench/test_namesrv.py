"""The name server's tables: a route that is asked again, a route that changed, a registration that is repeated, a broker that goes.

The limit beside each is what cannot be saved: a look-up in a dict, writing the route's JSON, reading the registration's JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from rocketpy.namesrv.events import Departure, Registration, RouteSettings
from rocketpy.namesrv.route_info import RouteInfo
from rocketpy.remoting.bodies import DataVersion, RegisterBrokerBody, TopicConfig

from .conftest import Figure, Figures, Size, least

THOUSAND = 1e3
Measure = Callable[[Callable[[], int]], float]


def body(topics: int) -> RegisterBrokerBody:
    return RegisterBrokerBody({f"topic-{number}": TopicConfig(f"topic-{number}", 8, 8) for number in range(topics)}, DataVersion(1, 1))


def registration(number: int, registered: RegisterBrokerBody) -> Registration:
    return Registration("cluster", f"10.0.0.{number}:10911", f"broker-{number}", 0, "10.0.0.1:10912", registered, number)


def tables(brokers: int, topics: int) -> RouteInfo:
    routes = RouteInfo(RouteSettings(), lambda: time.monotonic_ns() // 1_000_000)
    for number in range(brokers):
        routes.register_broker(registration(number, body(topics)))
    return routes


def timed(action: Callable[[], object], rounds: int = 1) -> Callable[[], int]:
    """Runs an action so many times; nanoseconds of all of them."""

    def run() -> int:
        begin = time.perf_counter_ns()
        for _ in range(rounds):
            action()
        return time.perf_counter_ns() - begin

    return run


def test_route(measure: Measure, size: Size, figures: Figures) -> None:
    routes = tables(4, 16)
    rounds = size.of(100, 200_000)
    seconds = measure(timed(lambda: routes.encoded_route("topic-1", standard=True), rounds))
    kept = {("topic-1", True): b""}
    limit = least(timed(lambda: kept.get(("topic-1", True)), rounds))
    figures.rows.append(Figure("route asked again", rounds / seconds / THOUSAND, rounds / limit / THOUSAND, "k a second", "a look-up"))


def test_changed_route(measure: Measure, size: Size, figures: Figures) -> None:
    routes = tables(4, 16)
    rounds = size.of(20, 10_000)
    route = routes.pick_route("topic-1")
    assert route is not None

    def change() -> None:
        routes.forget_encoded_routes()
        routes.encoded_route("topic-1", standard=True)

    seconds = measure(timed(change, rounds))
    members = route.to_json()
    limit = least(timed(lambda: json.dumps(members, separators=(",", ":"), sort_keys=True), rounds))
    figures.rows.append(
        Figure("route of 4 brokers, changed", rounds / seconds / THOUSAND, rounds / limit / THOUSAND, "k a second", "its JSON")
    )


def test_repeated_registration(measure: Measure, size: Size, figures: Figures) -> None:
    topics = size.of(50, 5_000)
    routes = tables(2, topics)
    encoded = body(topics).encode()
    seconds = measure(timed(lambda: routes.register_broker(registration(0, RegisterBrokerBody.decode(encoded)))))
    limit = least(timed(lambda: json.loads(encoded)))
    name = f"registration of {topics} topics, repeated"
    figures.rows.append(Figure(name, topics / seconds / THOUSAND, topics / limit / THOUSAND, "k topics a second", "reading its JSON"))


def test_departure(measure: Measure, size: Size, figures: Figures) -> None:
    topics = size.of(50, 5_000)
    routes = tables(2, topics)
    registered = body(topics)

    def come_and_go() -> None:
        routes.register_broker(registration(0, registered))
        routes.unregister_brokers([Departure("cluster", "10.0.0.0:10911", "broker-0", 0)])

    seconds = measure(timed(come_and_go))
    limit = least(timed(lambda: {name: registered.topics[name] for name in registered.topics}))
    name = f"broker of {topics} topics comes and goes"
    figures.rows.append(Figure(name, topics / seconds / THOUSAND, topics / limit / THOUSAND, "k topics a second", "copying a dict"))
