"""Fixtures: the product under test, clusters of it, and Java clients.

The default product is this tree's rocketpy. `INTEROP_AGAINST=peer` (or `pytest tests/interop --against peer`) puts RocketMQ 5.5.0 in its
place, `--against 4.9.7` that release: so the tests themselves are shown to be right.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import RUNNING

from .javaenv import CURRENT, OLD, JavaClients, Jvm
from .products import Cluster, NameServer, Peer, Product, Rocketpy, running_cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--against", default=os.environ.get("INTEROP_AGAINST", "rocketpy"), help="rocketpy (default), peer, or a RocketMQ version"
    )


def against(config: pytest.Config) -> str:
    return config.getoption("--against", None) or os.environ.get("INTEROP_AGAINST", "rocketpy")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield
    if report.failed:
        for process in RUNNING:
            state = "" if process.is_running() else " (not running)"
            report.sections.append((f"end of the log of {process.name}{state}: {process.log}", process.output_tail(30)))
    return report


@pytest.fixture(scope="session")
def product(request: pytest.FixtureRequest) -> Product:
    wanted = against(request.config)
    if wanted == "rocketpy":
        return Rocketpy()
    return Peer(CURRENT if wanted == "peer" else wanted)


@pytest.fixture(scope="session")
def peer() -> Product:
    """RocketMQ itself, for mixed clusters and stores that change hands."""
    return Peer(CURRENT)


@pytest.fixture(scope="session")
def cluster(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One name server and one broker for every test that brings its own topics and groups and restarts nothing."""
    with running_cluster(product, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def new_cluster(product: Product, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters that belong to one test: new_cluster(namesrv=product, brokers=[product, …], **settings of all brokers)."""
    made: list[Cluster] = []

    def make(namesrv: Product | None = None, brokers: list[Product] | None = None, **settings: Any) -> Cluster:
        home = tmp_path / f"cluster-{len(made)}"
        cluster = Cluster(NameServer(namesrv or product, home / "namesrv").start())
        made.append(cluster)
        cluster.add_brokers(home, [product] if brokers is None else brokers, settings)
        return cluster

    yield make
    for cluster in made:
        cluster.stop()


_jvms: dict[tuple[str, str], Jvm] = {}


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Jvm]]:
    """jvm(version, serialize): the one driver JVM of that kind, started on first use."""
    home = tmp_path_factory.mktemp("jvm")

    def get(version: str = CURRENT, serialize: str = "JSON") -> Jvm:
        key = (version, serialize)
        if key not in _jvms:
            _jvms[key] = Jvm(version, home / "-".join(key), serialize)
        return _jvms[key]

    yield get
    while _jvms:
        _jvms.popitem()[1].close()


@pytest.fixture
def clients(jvm: Callable[..., Jvm]) -> Iterator[Callable[..., JavaClients]]:
    """clients(cluster, version, serialize): Java clients that end with the test."""
    made: list[JavaClients] = []

    def make(cluster: Cluster, version: str = CURRENT, serialize: str = "JSON") -> JavaClients:
        made.append(JavaClients(jvm(version, serialize), cluster.address))
        return made[-1]

    yield make
    for each in made:
        each.close()


JAVA_CLIENTS = [(CURRENT, "JSON"), (CURRENT, "ROCKETMQ"), (OLD, "JSON")]
IN_EACH_RUN = {"test_java_producer.py": JAVA_CLIENTS, "test_java_push.py": [(CURRENT, "JSON"), (OLD, "JSON")]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In each run all of JAVA_CLIENTS send and both versions consume. What else they do is tried with the first of them, and with the
    others by the slow ones: each is a JVM more on every core."""
    for item in items:
        client = item.callspec.params.get("java") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
        if client in JAVA_CLIENTS and client not in IN_EACH_RUN.get(item.path.name, JAVA_CLIENTS[:1]):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=JAVA_CLIENTS, ids="-".join)
def java(request: pytest.FixtureRequest, clients: Callable[..., JavaClients], cluster: Cluster) -> JavaClients:
    """Clients of the shared cluster, once per client version and header encoding."""
    return clients(cluster, *request.param)


_numbers = itertools.count(1)


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A fresh topic with four queues on the shared cluster."""
    name = f"interop-{next(_numbers)}-{os.getpid()}"
    cluster.create_topic(name)
    return name


@pytest.fixture
def group() -> str:
    return f"GID-interop-{next(_numbers)}-{os.getpid()}"
