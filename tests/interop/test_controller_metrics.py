"""The same requests to this product's controller and to RocketMQ 5.5.0's, and what both then tell Prometheus."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.processes import PATIENCE_S, free_port, wait_until

from . import wire
from .products import Controller, Product
from .test_metrics import shapes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ELECT_MASTER, REGISTER_BROKER, GET_METADATA, APPLY_BROKER_ID, BROKER_HEARTBEAT = 1002, 1003, 1005, 1013, 904
SET = {"clusterName": "c", "brokerName": "b"}
NOT_OURS = {"target_info"}


@dataclass
class Measured:
    """One controller with its exporter's port. A broker lives as long as the connection of its heartbeat."""

    controller: Controller
    port: int
    connection: socket.socket | None = None

    def ask(self, code: int, fields: dict[str, str]) -> None:
        assert self.connection is not None
        self.connection.sendall(wire.encode(code, fields))
        wire.read_reply(self.connection)

    def families(self) -> dict[str, Metric]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE_S) as answer:
            return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}

    def drive(self) -> None:
        """A set with one broker, which is elected, and asks again."""
        leads = lambda: wire.call(self.controller.address, GET_METADATA, {}).fields.get("isLeader") == "true"  # noqa: E731
        wait_until(leads, 2 * PATIENCE_S, "it leads", not_yet=OSError)
        self.connection = socket.create_connection(("127.0.0.1", self.controller.port), PATIENCE_S)
        self.ask(APPLY_BROKER_ID, {**SET, "appliedBrokerId": "1", "registerCheckCode": "x"})
        self.ask(REGISTER_BROKER, {**SET, "brokerId": "1", "brokerAddress": "127.0.0.1:1", "invokeTime": "1"})
        beat = {"brokerId": "1", "brokerAddr": "127.0.0.1:1", "heartbeatTimeoutMills": "600000", "epoch": "1", "maxOffset": "1"}
        self.ask(BROKER_HEARTBEAT, {**SET, **beat, "confirmOffset": "1"})
        for _ in range(2):
            self.ask(ELECT_MASTER, {**SET, "brokerId": "1", "designateElect": "false", "invokeTime": "2"})


@pytest.fixture(scope="module")
def sides(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Measured, Measured]]:
    made: list[Measured] = []
    try:
        for name, each in (("ours", product), ("theirs", peer)):
            port = free_port()
            exporter = {"metricsExporterType": "PROM", "metricsPromExporterPort": port, "metricsPromExporterHost": "127.0.0.1"}
            home: Path = tmp_path_factory.mktemp(name)
            made.append(Measured(Controller(each, home, exporter).start(), port))
            made[-1].drive()
        yield made[0], made[1]
    finally:
        for side in made:
            if side.connection is not None:
                side.connection.close()
            side.controller.kill()


def totals(side: Measured, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    common = {"address", "group", "peer_id", "otel_scope_name", "otel_scope_version", "otel_scope_schema_url"}
    return {
        tuple(sorted((key, value) for key, value in sample.labels.items() if key not in common)): sample.value
        for family in side.families().values()
        for sample in family.samples
        if sample.name == name
    }


def test_every_metric_of_rocketmqs_controller_is_here_with_its_labels(sides: tuple[Measured, Measured]) -> None:
    own, wanted = (shapes(side.families()) for side in sides)
    assert {name: own.get(name) for name in wanted if name not in NOT_OURS} == {
        name: shape for name, shape in wanted.items() if name not in NOT_OURS
    }


@pytest.mark.parametrize("name", ["election_total", "active_broker_num"])
def test_what_was_counted_is_as_many(sides: tuple[Measured, Measured], name: str) -> None:
    ours, theirs = (totals(side, name) for side in sides)
    assert ours == theirs != {}


def test_requests_are_counted_by_the_same_names(sides: tuple[Measured, Measured]) -> None:
    ours, theirs = (totals(side, "request_total") for side in sides)
    assert ours.keys() == theirs.keys()
    assert len(theirs) == 5
