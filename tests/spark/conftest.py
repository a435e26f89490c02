"""One real Spark (local[2]) and one real broker for all tests here; skipped with the reason where PySpark or Java is missing."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.servers import Cluster

REASON = None
try:
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ImportError as error:
    REASON = f"{error}: pip install 'pyspark>=4.2' 'pyarrow>=18'"
if REASON is None and shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
    REASON = "no Java: apt-get install -y default-jre-headless"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a Spark session is slow: `make spark` runs it, `make test` does not, whether PySpark is there or not."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.slow)
                if REASON is not None:
                    item.add_marker(pytest.mark.skip(reason=REASON))


def make_session(name: str, directory: Path, *, quick: bool = True) -> Any:
    """quick: for short lives, without the compiler that pays off after a minute, and with Python processes that start quickly (site/) or
    are forked from a warm one (daemon.py)."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    here = Path(__file__).resolve().parent
    places = [str(here.parents[1]), *([str(here / "site")] if quick else [])]
    os.environ["PYTHONPATH"] = os.pathsep.join([*places, *filter(None, [os.environ.get("PYTHONPATH")])])
    builder = SparkSession.builder
    java = [f"-Dderby.system.home={directory}"]
    if quick:
        builder = builder.config("spark.python.daemon.module", "tests.spark.daemon")
        java += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    return (
        builder.master("local[2]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.python.authenticate.socketTimeout", "180s")  # a busy machine starts workers slowly
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.driver.extraJavaOptions", " ".join(java))
        .getOrCreate()
    )


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = make_session("rocketpy tests", tmp_path_factory.mktemp("spark"))
    session.sparkContext.setLogLevel("ERROR")
    import rocketpy.spark

    rocketpy.spark.register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def killed_lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Begins with the first test when a later one asks for it."""
    if REASON is not None or not any("killed_lake" in inspect.signature(item.function).parameters for item in functions(request.session)):
        yield None
        return
    from tests.spark.killed_lake import KilledLake

    lake = KilledLake(request.getfixturevalue("cluster"), tmp_path_factory.mktemp("killed"))
    lake.start()
    yield lake
    lake.stop()


def functions(session: pytest.Session) -> list[pytest.Function]:
    return [item for item in session.items if isinstance(item, pytest.Function)]


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A fresh topic of four queues, named after the test."""
    name = "T_" + request.node.name.replace("[", "_").replace("]", "")[-100:]
    cluster.create_topic(name)
    return name


@pytest.fixture
def read(spark: Any, cluster: Cluster) -> Callable[..., Any]:
    """A DataFrame of the source with these options."""

    def load(**options: Any) -> Any:
        return spark.read.format("rocketmq").option("nameServer", cluster.name_server).options(**options).load()

    return load
