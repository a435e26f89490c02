"""pytest's fixtures. What they need is imported when a test asks for one: the plugin is loaded by every pytest of this environment."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .local import LocalRocketMQ

NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "rocketmq_keys", "keys of the broker that the fixture rocketmq starts, KEY=VALUE, one a line", type="linelist", default=[]
    )


@pytest.fixture(scope="session")
def rocketmq(request: pytest.FixtureRequest) -> Iterator[LocalRocketMQ]:
    """A name server and a broker, shared by all tests of the run; clients connect to `rocketmq.namesrv`."""
    from .local import LocalRocketMQ

    keys = dict(line.split("=", 1) if "=" in line else (line, "") for line in request.config.getini("rocketmq_keys"))
    with LocalRocketMQ(keys=keys) as local:
        yield local


@pytest.fixture
def rocketmq_topic(rocketmq: LocalRocketMQ) -> str:
    """A topic with four queues that only this test uses."""
    return rocketmq.make_topic(f"Test-{next(NUMBERS)}")
