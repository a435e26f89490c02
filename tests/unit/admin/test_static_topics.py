"""updateStaticTopic and remappingStaticTopic against two brokers in this process: what they tell them, write, refuse and take up again."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from rocketpy.cli.admin import run_admin
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.json_codec import read_json
from rocketpy.remoting.queue_mapping import StaticTopic
from tests.processes import PATIENCE_S, wait_until
from tests.unit.broker.running import Peer, running, started

Admin = Callable[..., tuple[int, str, str]]


class Two:
    """Runs in a loop of its own: a command has one, too."""

    def __init__(self, home: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="cluster")
        self.stack = AsyncExitStack()
        self.thread.start()
        self.wait(self._start(home))

    async def _start(self, home: Path) -> None:
        at = await self.stack.enter_async_context(running(home / "a"))
        self.names = f"127.0.0.1:{at.namesrv.port}"
        b = await self.stack.enter_async_context(started(home / "b", brokerName="broker-b", namesrvAddr=self.names))
        self.peers = {"broker-a": at.peer(), "broker-b": b}

    def wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def stop(self) -> None:
        try:
            self.wait(self.stack.aclose())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(PATIENCE_S)
            self.loop.close()

    def ask(self, name: str, work: Callable[[Peer], Any]) -> Any:
        return self.wait(work(self.peers[name]))

    def leaders(self, topic: str) -> dict[int, tuple[str, int]]:
        """Broker and logic offset by global queue, as each leader says it."""
        found: dict[int, tuple[str, int]] = {}
        for name in self.peers:
            answer = self.ask(name, lambda peer: peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic, "lo": True}))
            mapping = StaticTopic.from_json(read_json(answer.body)).mapping if answer.code == 0 else None
            if mapping is not None:
                found |= {each: (name, items[-1].logic_offset) for each, items in mapping.hosted.items() if mapping.leads(items)}
        return found

    def send(self, name: str, topic: str, queue_id: int) -> int:
        answer = self.ask(name, lambda peer: peer.send(topic, queue_id=queue_id))
        return int(answer.fields["queueOffset"]) if answer.code == 0 else -answer.code


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    two = Two(tmp_path_factory.mktemp("two"))
    try:
        yield two
    finally:
        two.stop()


@pytest.fixture
def admin(two: Two, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Admin:
    """(exit status, standard output, standard error) of a command, whose files are in tmp_path."""
    monkeypatch.setenv("NAMESRV_ADDR", two.names)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("ROCKETMQ_HOME", "ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run_admin(list(words))
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_it_is_made_grows_and_moves(admin: Admin, two: Two) -> None:
    status, out, err = admin("updateStaticTopic", "-b", "broker-a", "-t", "moved", "-qn", "2")
    assert (status, err, out.count("mapping data is written to file")) == (0, "", 2)
    assert two.leaders("moved") == {0: ("broker-a", 0), 1: ("broker-a", 0)}
    assert [two.send("broker-a", "moved", 1), two.send("broker-a", "moved", 1), two.send("broker-b", "moved", 1)] == [0, 1, -501]
    assert admin("updateStaticTopic", "-c", "DefaultCluster", "-t", "moved", "-qn", "4")[0] == 0
    assert sorted(two.leaders("moved").items())[2:] == [(2, ("broker-b", 0)), (3, ("broker-b", 0))]
    status, out, err = admin("remappingStaticTopic", "-b", "broker-b", "-t", "moved")
    assert (status, err) == (0, "") and out.count("The old mapping data is written to file") == 2
    assert two.leaders("moved") == {0: ("broker-b", 10_000), 1: ("broker-b", 10_000), 2: ("broker-b", 0), 3: ("broker-b", 0)}
    assert [two.send("broker-b", "moved", 1), two.send("broker-a", "moved", 1)] == [10_000, -501]
    wait_until(lambda: admin("topicRoute", "-t", "moved")[0] == 0, PATIENCE_S, "the route")
    rows = json.loads(admin("topicStatus", "-t", "moved", "-o", "json")[1])["queues"]
    bounds = {row["queueId"]: (row["minOffset"], row["maxOffset"]) for row in rows if row["brokerName"] == "__syslo__global__"}
    assert bounds == {0: (0, 10_000), 1: (0, 10_001), 2: (0, 0), 3: (0, 0)}


def test_a_global_queue_is_read_where_its_broker_has_fewer_pieces(admin: Admin, two: Two) -> None:
    assert admin("updateStaticTopic", "-b", "broker-a", "-t", "wide", "-qn", "2")[0] == 0
    assert admin("updateStaticTopic", "-c", "DefaultCluster", "-t", "wide", "-qn", "4")[0] == 0
    assert two.send("broker-b", "wide", 3) == 0

    def queues() -> dict[str, int]:
        rows = json.loads(admin("topicRoute", "-t", "wide", "-o", "json")[1]).get("queueDatas", ())
        return {row["brokerName"]: row["readQueueNums"] for row in rows}

    wait_until(lambda: queues() == {"broker-a": 2, "broker-b": 2}, PATIENCE_S, "the route of both")
    for words in (("printMsgByQueue", "-a", "broker-b", "-p", "true"), ("consumeMessage", "-b", "broker-b")):
        status, out, err = admin(*words, "-t", "wide", "-i", "3")
        assert (status, err, out.count("MSGID: ")) == (0, "", 1), words
        status, _, err = admin(*words, "-t", "wide", "-i", "4")
        assert status == 1 and "answered GET_MIN_OFFSET" in err, "its broker says which queues it leads"


def test_all_that_is_said_of_queues_is_of_global_ones(admin: Admin, two: Two) -> None:
    """A broker has pieces 0 and 1, and leads 2 and 3."""
    assert admin("updateStaticTopic", "-b", "broker-a", "-t", "whole", "-qn", "2")[0] == 0
    assert admin("updateStaticTopic", "-c", "DefaultCluster", "-t", "whole", "-qn", "4")[0] == 0
    assert [two.send("broker-a", "whole", 0), two.send("broker-b", "whole", 3)] == [0, 0]

    def wait_led(by_a: list[str], by_b: list[str]) -> None:
        def led() -> list[list[str]]:
            mappings = json.loads(admin("topicRoute", "-t", "whole", "-o", "json")[1]).get("topicQueueMappingByBroker", {})
            return [sorted(mappings.get(name, {}).get("currIdMap", ())) for name in two.peers]

        wait_until(lambda: led() == [by_a, by_b], PATIENCE_S, "the route of both")

    wait_led(["0", "1"], ["2", "3"])
    status, out, err = admin("sendMessage", "-t", "whole", "-b", "broker-b", "-p", "x")
    assert (status, err) == (0, "") and out.splitlines()[1].split()[:3] == ["broker-b", "2", "SEND_OK"]
    assert admin("remappingStaticTopic", "-b", "broker-b", "-t", "whole")[0] == 0
    assert two.send("broker-b", "whole", 0) == 10_000
    wait_led([], ["0", "1", "2", "3"])
    for words in (("printMsg", "-d", "false"), ("consumeMessage", "-c", "100000")):
        status, out, err = admin(*words, "-t", "whole")
        places = re.findall(r"MessageExt \[brokerName=(\w+), queueId=(\d+), storeSize=\d+, queueOffset=(\d+)", out)
        found = [("0", "0"), ("0", "10000"), ("2", "0"), ("3", "0")]
        assert (status, err, places) == (0, "", [("__syslo__global__", *place) for place in found]), words
    for words in (("consumeMessage", "-b"), ("printMsgByQueue", "-p", "true", "-a")):  # take what was said
        status, out, err = admin(*words, "__syslo__global__", "-i", "3", "-t", "whole")
        assert (status, err) == (0, "") and "brokerName=__syslo__global__, queueId=3, " in out, words
        status, out, err = admin(*words, "__syslo__global__", "-i", "4", "-t", "whole")
        assert status == 1 and "whole has no queues at broker '__syslo__global__'" in err, words
    queues = json.loads(admin("allocateMQ", "-t", "whole", "-i", "c", "-o", "json")[1])["result"]["c"]
    assert [(queue["brokerName"], queue["queueId"]) for queue in queues] == [("__syslo__global__", number) for number in range(4)]


def test_progress_is_counted_globally(admin: Admin, two: Two) -> None:
    assert admin("updateStaticTopic", "-b", "broker-a", "-t", "read", "-qn", "1")[0] == 0
    assert two.send("broker-a", "read", 0) == 0
    assert admin("remappingStaticTopic", "-b", "broker-b", "-t", "read")[0] == 0
    assert [two.send("broker-b", "read", 0) for _ in range(3)] == [10_000, 10_001, 10_002]
    for name in two.peers:
        assert two.ask(name, lambda peer: peer.heartbeat("c", "readers", "read")).code == 0
    for committed, diff in ((1, 10_002), (10_001, 2)):
        asked = {"topic": "read", "queueId": 0, "consumerGroup": "readers", "commitOffset": committed}
        assert two.ask("broker-b", lambda peer, asked=asked: peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, asked)).code == 0
        wait_until(lambda: admin("topicRoute", "-t", "%RETRY%readers")[0] == 0, PATIENCE_S, "the route")
        (row,) = json.loads(admin("consumerProgress", "-g", "readers", "-t", "read", "-o", "json")[1])["queues"]
        assert (row["brokerName"], row["brokerOffset"], row["consumerOffset"], row["diff"]) == (
            "__syslo__global__",
            10_003,
            committed,
            diff,
        )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("updateStaticTopic", "-b", "broker-x", "-t", "n", "-qn", "1"), 1, "Can't find addr for broker broker-x"),
        (("updateStaticTopic", "-c", "Nowhere", "-t", "n", "-qn", "1"), 1, "Find none brokers, do nothing"),
        (("updateStaticTopic", "-b", "broker-a", "-t", "../n", "-qn", "1"), 1, "contains illegal characters"),
        (("updateStaticTopic", "-b", "broker-a", "-t", "n", "-qn", "0"), 2, "-qn"),
        (("updateStaticTopic", "-b", "broker-a", "-t", "TBW102", "-qn", "1"), 1, "Mapping info should not be null in broker broker-a"),
        (("updateStaticTopic", "-b", "broker-a", "-t", "n", "-qn", "1", "-mf", "/nowhere"), 1, "mapping data file /nowhere"),
        (("remappingStaticTopic", "-b", "broker-a", "-t", "n"), 1, "No topic route to do the remapping"),
        (("remappingStaticTopic", "-b", "broker-x", "-t", "n"), 1, "Can't find addr for broker broker-x"),
        (("remappingStaticTopic", "-t", "n"), 2, "-b"),
    ],
)
def test_what_cannot_be_is_told_and_changes_nothing(admin: Admin, two: Two, words: tuple[str, ...], status: int, said: str) -> None:
    ended, _, err = admin(*words)
    assert (ended, said in err) == (status, True), err
    assert two.leaders("n") == {}


def test_a_move_that_broke_off_is_taken_up_by_its_file(admin: Admin, two: Two, tmp_path: Path) -> None:
    assert admin("updateStaticTopic", "-b", "broker-a", "-t", "broken", "-qn", "1")[0] == 0
    assert two.send("broker-a", "broken", 0) == 0
    out = admin("remappingStaticTopic", "-b", "broker-b", "-t", "broken")[1]
    after = out.split()[-1]
    again, other = tmp_path / "again", tmp_path / "other"
    again.write_bytes(Path(after).read_bytes())
    assert two.leaders("broken") == {0: ("broker-b", 10_000)}
    assert two.send("broker-b", "broken", 0) == 10_000
    for _ in range(2):  # its leader has no offset in the file, and keeps the one that it was told
        assert admin("remappingStaticTopic", "-b", "broker-b", "-t", "broken", "-mf", str(again)) == (0, "", "")
        assert two.leaders("broken") == {0: ("broker-b", 10_000)}
    other.write_text(json.dumps({**read_json(again.read_bytes()), "topic": "other"}))
    assert "is of topic other" in admin("remappingStaticTopic", "-b", "broker-b", "-t", "broken", "-mf", str(other))[2]
    old = ("-mf", out.split("\n")[0].split()[-1])
    assert "Can't accept data with small epoch" in admin("updateStaticTopic", "-b", "broker-b", "-t", "broken", "-qn", "1", *old)[2]
