"""A master whose log has a damaged place: an empty slave cannot come past it, and what the log tells the operator to do then works."""

from __future__ import annotations

import shutil
from pathlib import Path

from rocketpy.broker.service import BrokerService
from rocketpy.remoting.codes import RequestCode

from .pair import pair
from .running import broker_config, eventually, run, running

DAMAGED = 1


def damage_record(log_file: Path) -> None:
    """Its size and magic."""
    data = bytearray(log_file.read_bytes())
    place = int.from_bytes(data[:4], "big") * DAMAGED
    data[place : place + 8] = b"\xee" * 8
    log_file.write_bytes(data)


def test_a_slave_that_begins_with_a_copy_of_its_damaged_master_follows_it(tmp_path: Path) -> None:
    home = tmp_path / "master"

    async def test() -> None:
        async with running(home, haListenPort="0") as at:
            for _ in range(3):
                assert (await at.peer().send("t", b"message")).code == 0
        damage_record(home / "store" / "commitlog" / f"{0:020d}")
        async with running(home, haListenPort="0") as at:
            assert at.broker.parts is not None
            ha_address = f"127.0.0.1:{at.broker.parts.ha.port}"
            slave = BrokerService(
                broker_config(tmp_path / "empty", brokerRole="SLAVE", brokerId="1", haMasterAddress=ha_address, namesrvAddr="127.0.0.1:1")
            )
            await slave.start()
            try:
                assert slave.parts is not None
                ha = slave.parts.ha
                await eventually(lambda: "not a record" in ha.counters()["haSlaveLastError"], "the end of the replication")
            finally:
                await slave.stop()
        shutil.copytree(home / "store", tmp_path / "slave" / "store")
        async with pair(tmp_path) as both:
            assert (await both.master.send("t", b"new")).code == 0
            await both.in_sync()
            await both.copy_tables()
            assert b"new" in (await both.slave.pull("g", "t", offset=3)).body
            assert (await both.slave.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})).fields == {"offset": "4"}

    run(test)
