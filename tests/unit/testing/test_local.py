"""`rocketpy.testing`: servers for other people's tests, and the fixtures that pytest finds by itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import Busy, RocketpyError, TimedOut
from rocketpy._core.load import Load
from rocketpy.cli.process import Service, start_all, stop_all
from rocketpy.config import ConfigError
from rocketpy.testing import LocalRocketMQ, local
from tests.processes import PATIENCE_S, wait_until

SEND, PULL = 1, 2
COUNT = 500


def moved(broker: str, topic: str, mode: int) -> int:
    """Messages that the load generator has sent, or received and checked."""
    with Load(address=broker, topic=topic, queue_count=4, mode=mode, connections=2, message_size=200, count=COUNT) as load:
        load.start()
        assert load.wait(50)
        totals = load.result()["totals"]
    assert totals["errors"] == 0 and totals["failures"] == 0, totals
    return int(totals["received"] if mode == PULL else totals["sent"])


def test_messages_go_through_and_outlive_a_stop() -> None:
    with LocalRocketMQ(keys={"flushDiskType": "SYNC_FLUSH"}) as rocketmq:
        topic = rocketmq.make_topic("Orders")
        assert moved(rocketmq.broker, topic, SEND) == COUNT
        addresses = (rocketmq.namesrv, rocketmq.broker)
        rocketmq.stop()
        with pytest.raises(RocketpyError, match="do not run"):
            rocketmq.make_topic("Bills")
        rocketmq.start()
        assert (rocketmq.namesrv, rocketmq.broker) == addresses
        assert moved(rocketmq.broker, topic, PULL) == COUNT
        directory = rocketmq.directory
    assert not directory.exists()


def test_a_directory_of_the_caller_s_is_kept(tmp_path: Path) -> None:
    with LocalRocketMQ(tmp_path / "data"):
        pass
    assert (tmp_path / "data" / "store").is_dir()


def test_what_cannot_start_says_why() -> None:
    with pytest.raises(ConfigError, match="flushDiskType"):
        LocalRocketMQ(keys={"flushDiskType": "NEVER"}).start()


@pytest.mark.parametrize("starts_before", [0, 1])
def test_a_start_that_is_interrupted_before_its_thread_runs_ends(monkeypatch: pytest.MonkeyPatch, starts_before: int) -> None:
    begun, run, join, result = threading.Event(), asyncio.run, threading.Thread.join, Future.result

    def run_late(serving: Any) -> None:
        begun.wait()
        run(serving)

    def let_begin(thread: threading.Thread, timeout: float | None = None) -> None:
        begun.set()
        join(thread, timeout)

    def interrupted(future: Future[Any], timeout: float | None = None) -> Any:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return result(future, timeout)

    with LocalRocketMQ() as rocketmq:
        for _ in range(starts_before):
            rocketmq.start()
        rocketmq.stop()
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "run", run_late)
            patched.setattr(threading.Thread, "join", let_begin)
            patched.setattr(Future, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                rocketmq.start()
        rocketmq.start()


def test_a_start_that_hangs_is_given_up_aloud_and_ends_beside_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def start_late(services: Sequence[Service]) -> None:
        hanging.append((asyncio.get_running_loop(), asyncio.Event()))
        await hanging[-1][1].wait()
        await start_all(services)

    monkeypatch.setattr(local, "start_all", start_late)
    rocketmq = LocalRocketMQ(tmp_path)
    with monkeypatch.context() as hurried:
        hurried.setattr(local, "STARTS_WITHIN_S", 0.1)
        hurried.setattr(local, "STOPS_WITHIN_S", 0.1)
        with pytest.raises(TimedOut, match=f"servers in {tmp_path} have not started") as raised:
            rocketmq.start()
    assert "have not stopped" in raised.value.__notes__[0]
    (given_up,) = [each for each in threading.enumerate() if each.name == "rocketmq"]
    wait_until(lambda: len(hanging) == 1, PATIENCE_S, "the first start")
    again = threading.Thread(target=rocketmq.start)
    again.start()
    wait_until(lambda: len(hanging) == 2, PATIENCE_S, "both starts")
    for (loop, may_go_on), thread in zip(hanging, (given_up, again), strict=True):
        loop.call_soon_threadsafe(may_go_on.set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert rocketmq.make_topic("Orders") == "Orders"
    rocketmq.close()


def test_a_stop_that_is_too_slow_says_so_until_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the first answer for the end would take the directory from under running servers."""
    held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def stop_late(services: Sequence[Service]) -> None:
        held.append((asyncio.get_running_loop(), asyncio.Event()))
        await held[-1][1].wait()
        await stop_all(services)

    rocketmq = LocalRocketMQ(tmp_path)
    rocketmq.start()
    monkeypatch.setattr(local, "stop_all", stop_late)
    with monkeypatch.context() as hurried:
        hurried.setattr(local, "STOPS_WITHIN_S", 0.1)
        for end in (rocketmq.stop, rocketmq.stop, rocketmq.close):
            with pytest.raises(TimedOut, match="have not stopped"):
                end()
    with pytest.raises(Busy, match=f"name server {rocketmq.namesrv} and the broker {rocketmq.broker} in {tmp_path} were told to stop"):
        rocketmq.start()
    assert [each.name for each in threading.enumerate()].count("rocketmq") == 1
    wait_until(lambda: len(held) == 1, PATIENCE_S, "the stop")
    loop, may_go_on = held[0]
    monkeypatch.setattr(local, "stop_all", stop_all)
    loop.call_soon_threadsafe(may_go_on.set)
    rocketmq.stop()
    assert rocketmq.start().make_topic("Orders") == "Orders"
    rocketmq.close()


def test_two_run_side_by_side() -> None:
    with LocalRocketMQ() as first, LocalRocketMQ() as second:
        assert first.namesrv != second.namesrv
        first.make_topic("Orders")
        second.make_topic("Orders")


def test_pytest_finds_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nrocketmq_keys =\n    flushDiskType=SYNC_FLUSH\n")
    (tmp_path / "test_shop.py").write_text(
        "topics = []\n"
        "def test_one(rocketmq, rocketmq_topic):\n"
        "    topics.append(rocketmq_topic)\n"
        "    assert rocketmq.namesrv and topics == ['Test-1', 'Test-2'][: len(topics)]\n"
        "test_two = test_one\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
