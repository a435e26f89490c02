"""What is said at the start before an operator finds it out by losing messages: on a real broker with a real name server."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy.broker.service import BrokerService
from rocketpy.broker.start_checks import ha_port_fault, warn_of_maps
from tests.processes import free_port
from tests.unit.broker.running import broker_config, eventually, run, running


def said(caplog: pytest.LogCaptureFixture, text: str, level: int) -> bool:
    return any(text in record.getMessage() and record.levelno == level for record in caplog.records)


@pytest.mark.parametrize("given", [{}, {"syncFlushTimeout": "6000"}])
def test_the_limit_that_applies_is_told_and_loudly_where_somebody_set_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, given: dict[str, str]
) -> None:
    async def test() -> None:
        async with running(tmp_path, flushDiskType="SYNC_FLUSH", slaveTimeout="9000", **given):
            pass

    with caplog.at_level(logging.INFO):
        run(test)
    assert said(
        caplog, "0 ms for the disk (syncFlushTimeout), but clients give up after 3000 ms", logging.WARNING if given else logging.INFO
    )
    assert not any("(slaveTimeout)" in message for message in caplog.messages), "no slave is waited for"


@pytest.mark.parametrize(("role", "level"), [("SYNC_MASTER", logging.WARNING), ("ASYNC_MASTER", logging.INFO)])
def test_an_ha_address_that_nobody_listens_at_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, role: str, level: int) -> None:
    nobody = f"127.0.0.1:{free_port()}"

    async def test() -> None:
        async with running(tmp_path, brokerRole=role, advertiseHa=nobody):
            await eventually(lambda: said(caplog, f"told to replicate from {nobody} ", level))

    with caplog.at_level(logging.INFO):
        run(test)
    assert said(caplog, "cannot connect there: Connect", level)


def test_the_look_at_the_ha_port_leaves_no_trace_of_a_lost_slave(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, brokerRole="SYNC_MASTER") as at:
            assert at.broker.parts is not None
            assert await ha_port_fault(at.broker.parts.registration.identity.ha_address) == ""
            ha = at.broker.parts.ha
            await eventually(lambda: ha._master is not None and ha._master.stats()["dropped_other"] >= 2, "both looks are over")
            assert at.broker.runtime_table()["haLastDropped"] == ""

    with caplog.at_level(logging.WARNING):
        run(test)
    assert not any("replicate from" in message for message in caplog.messages)


def test_an_address_that_is_none_is_told() -> None:
    assert "is not HOST:PORT" in asyncio.run(ha_port_fault("no-port"))


def test_another_broker_of_the_same_name_and_id_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            first = at.broker.address
            for name, warned in (("broker-b", False), ("broker-a", True)):
                settings = {"namesrvAddr": f"127.0.0.1:{at.namesrv.port}", "brokerName": name}
                second = BrokerService(broker_config(tmp_path / name, **settings))
                await second.start()
                await second.stop()
                assert said(caplog, f"registered as broker-a with brokerId 0: {first}", logging.WARNING) == warned

    with caplog.at_level(logging.WARNING):
        run(test)


@pytest.mark.parametrize(("taken", "told"), [(7, False), (8, True)])
def test_little_room_for_more_maps_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, taken: int, told: bool) -> None:
    maps, limit = tmp_path / "maps", tmp_path / "max_map_count"
    maps.write_text("7f00-7f01 r--p\n" * taken)
    limit.write_text("10\n")
    warn_of_maps(maps, limit)
    assert [record.getMessage() for record in caplog.records if f"has {taken} of the 10 maps" in record.getMessage()] == caplog.messages
    assert bool(caplog.messages) == told and all("vm.max_map_count=100" in message for message in caplog.messages)


def test_a_limit_of_maps_that_cannot_be_read_is_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_maps(tmp_path / "maps", tmp_path / "max_map_count")
    assert caplog.messages == []


def test_why_a_start_failed_is_told_also_when_its_tables_cannot_be_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path / "one") as at:
            (tmp_path / "two/store/config/topics.json.tmp").mkdir(parents=True)
            with pytest.raises(NetworkError):
                taken = {"listenPort": str(at.broker.port), "haListenPort": str(free_port())}
                await BrokerService(broker_config(tmp_path / "two", **taken)).start()

    run(test)
    assert said(caplog, f"writing the state failed: Is a directory [{tmp_path}/two/store/config/topics.json]", logging.ERROR)
    assert not (tmp_path / "two/store/abort").exists()


def test_a_second_broker_with_the_same_ports_is_told_of_its_listen_port(tmp_path: Path) -> None:
    """Of the two that are taken it is the one to change: haListenPort follows it."""

    async def test() -> None:
        async with running(tmp_path / "one", haListenPort=str(free_port())) as at:
            taken = {"listenPort": str(at.broker.port), "haListenPort": str(at.broker.parts.ha.port)}  # type: ignore[union-attr]
            with pytest.raises(NetworkError, match=rf"127.0.0.1:{at.broker.port} is in use"):
                await BrokerService(broker_config(tmp_path / "two", **taken)).start()

    run(test)
