"""A running broker's configuration, as administrators show and change it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import read_json
from rocketpy.state_file import StateFile
from tests.processes import PATIENCE_S
from tests.unit.broker.running import eventually, run, running


def test_configuration_is_shown_changed_and_kept(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            shown = await peer.ask(RequestCode.GET_BROKER_CONFIG)
            lines = dict(line.split("=", 1) for line in shown.body.decode().splitlines())
            assert lines["brokerName"] == "broker-a" and lines["listenPort"] == str(at.broker.port)
            assert set(read_json(shown.fields["version"])) == {"counter", "stateVersion", "timestamp"}
            assert (await peer.send("t")).code == 0
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=4\n")).code == 0
            refused = await peer.send("t")
            assert refused.code == ResponseCode.NO_PERMISSION or (await at.namesrv_route("t"))["queueDatas"][0]["perm"] == 4
            await at.namesrv_permission("t", 4)
            bad = await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=lots\n")
            assert bad.code == ResponseCode.INVALID_PARAMETER and "brokerPermission" in (bad.remark or "")
            listed = await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"configBlackList=\n")
            assert (listed.code, listed.remark) == (ResponseCode.NO_PERMISSION, "Can not update config in black list.")

    run(test)


def test_a_permission_that_is_as_it_was_is_told_to_name_servers_again(tmp_path: Path) -> None:
    """As by RocketMQ's: whatever they have been told since."""

    async def test() -> None:
        async with running(tmp_path) as at:
            peer, namesrv = at.peer(), f"127.0.0.1:{at.namesrv.port}"
            assert (await peer.send("t")).code == 0
            wiped = await peer.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}, address=namesrv)
            assert wiped.code == 0 and (await at.namesrv_route("t"))["queueDatas"][0]["perm"] == 4
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=6\n")).code == 0
            await at.namesrv_permission("t", 6)

    run(test)


def test_what_a_changed_configuration_was_before_is_beside_it(tmp_path: Path) -> None:
    """As RocketMQ leaves it: an operator whose change was a mistake finds the file of before it."""

    async def test() -> None:
        file = tmp_path / "broker.conf"
        file.write_text("# ours\nfileReservedTime = 48\n")
        async with running(tmp_path) as at:
            at.broker.config.file = file
            peer = at.peer()
            for hours, before in ((24, "# ours\nfileReservedTime = 48\n"), (12, "# ours\nfileReservedTime=24\n")):
                assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"fileReservedTime=%d\n" % hours)).code == 0
                assert file.read_text() == f"# ours\nfileReservedTime={hours}\n"
                assert file.with_name("broker.conf.bak").read_text() == before

    run(test)


def test_a_disk_that_hangs_under_the_configuration_holds_up_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bytes, disk_is_back, writing = StateFile.write_bytes, threading.Event(), threading.Event()

    def write_when_back(file: StateFile, data: bytes) -> None:
        if file.path.name == "broker.conf":
            writing.set()
            assert disk_is_back.wait(PATIENCE_S)
        write_bytes(file, data)

    async def test() -> None:
        file = tmp_path / "broker.conf"
        file.write_text("fileReservedTime = 48\n")
        async with running(tmp_path) as at:
            at.broker.config.file = file
            peer = at.peer()
            monkeypatch.setattr(StateFile, "write_bytes", write_when_back)
            change = asyncio.create_task(peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"fileReservedTime=24\n"))
            try:
                await eventually(writing.is_set)
                assert (await peer.ask(RequestCode.GET_BROKER_CONFIG)).code == 0 and not change.done()
            finally:
                disk_is_back.set()
            assert (await change).code == 0 and file.read_text() == "fileReservedTime=24\n"

    run(test)
