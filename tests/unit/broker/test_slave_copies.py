"""What a slave copies from its master, when, and what it keeps of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import rocketpy.broker.housekeeping
from rocketpy.broker.consumer_offsets import SavedOffsets
from rocketpy.broker.periodic import every
from rocketpy.broker.service import BrokerService
from rocketpy.broker.slave_synchronize import CopiedState, LoggedRows, MasterOffsets
from rocketpy.broker.transaction_checks import GROUP
from rocketpy.remoting.bodies import DataVersion
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import read_json
from tests.processes import PATIENCE_S

from .pair import pair
from .running import Peer, broker_config, eventually, run, running

CONSUMER_OFFSET = {"consumerGroup": "g", "topic": "t", "queueId": 0}
TOPIC = {
    "topic": "t", "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
}  # fmt: skip


def test_everything_that_exists_is_copied_as_soon_as_the_master_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with running(tmp_path / "master", haListenPort="0") as at:
            master = at.peer()
            assert (await master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
            assert (await master.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "g", "retryMaxTimes": 3})).code == 0
            mode = {"topic": "t", "consumerGroup": "g", "mode": "PULL", "popShareQueueNum": 4}
            assert (await master.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, mode)).code == 0
            assert (await master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 7})).code == 0
            settings = {"brokerRole": "SLAVE", "brokerId": "1", "namesrvAddr": f"127.0.0.1:{at.namesrv.port}"}
            slave = BrokerService(broker_config(tmp_path / "slave", **settings))
            await slave.start()
            at.peers.append(peer := Peer(slave.address))
            try:
                parts = slave.parts
                assert parts is not None
                await eventually(lambda: "t" in parts.topics and "g" in parts.groups, "the copy")
                await eventually(lambda: parts.request_modes.to_json() == at.broker.parts.request_modes.to_json())  # type: ignore[union-attr]
                assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": "7"}
                assert (await peer.value(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"}))["retryMaxTimes"] == 3
            finally:
                await slave.stop()

    run(test)


@pytest.mark.parametrize("force", ["true", "false"])
def test_a_slave_that_registered_before_its_master_asks_for_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: str) -> None:
    """With haMasterAddress it has a connection before any name server knows the master; with forceRegister=false it is known well already,
    and the master comes with the answer to a registration only."""
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with running(tmp_path / "master", haListenPort="0") as at:
            master, parts = at.peer(), at.broker.parts
            assert parts is not None and (await master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
            name_server = f"127.0.0.1:{at.namesrv.port}"
            known = {"brokerName": "broker-a", "brokerAddr": parts.address, "clusterName": "DefaultCluster", "brokerId": 0}
            assert (await master.ask(RequestCode.UNREGISTER_BROKER, known, address=name_server)).code == 0
            settings = {"brokerRole": "SLAVE", "brokerId": "1", "namesrvAddr": name_server, "haMasterAddress": f"127.0.0.1:{parts.ha.port}"}
            slave = BrokerService(broker_config(tmp_path / "slave", forceRegister=force, **settings))
            await slave.start()
            try:
                assert slave.parts is not None and slave._synchronize is not None and slave._housekeeping is not None
                ha, topics = slave.parts.ha, slave.parts.topics
                await eventually(lambda: ha.connection() is not None and not ha.is_stranger, "the transfer")
                assert slave._synchronize.master_address is None
                await parts.registration.register_all()
                await slave._housekeeping.synchronize_with_master()
                assert "t" in topics
            finally:
                await slave.stop()

    run(test)


def test_a_slave_copies_as_soon_as_it_has_found_its_masters_log_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with pair(tmp_path) as both:
            assert (await both.master.send("t")).code == 0
            await both.in_sync()
            slave = both.slave_service
            assert slave.parts is not None and slave._synchronize is not None
            topics, synchronize = slave.parts.topics, slave._synchronize
            async with both.master_away():
                synchronize.is_due.set()
                await eventually(lambda: synchronize._is_waiting, "a round that copies nothing")
                assert (await both.master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC | {"topic": "new"})).code == 0
                assert "new" not in topics
            await eventually(lambda: "new" in topics, "the copy")

    run(test)


def test_an_offset_of_a_lite_topic_that_began_anew_while_the_slave_was_away_follows_the_masters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            assert (await both.master.send("t")).code == 0
            await both.in_sync()
            masters, slaves = both.at.broker.parts, both.slave_service.parts
            assert masters is not None and slaves is not None
            masters.offsets.commit("g", "%LMQ%$t$a", 0, 3, "a consumer")
            slaves.offsets.commit("g", "%LMQ%$t$a", 0, 50, "of the queue as it was")
            with monkeypatch.context() as behind:  # the log has all, the queues have not: nobody can say where they end
                behind.setattr(slaves.ha, "queued_end", lambda: slaves.ha.log_end() - 1)
                await both.copy_tables()
                assert slaves.offsets.query("g", "%LMQ%$t$a", 0) == 50
            await eventually(lambda: slaves.ha.queued_end() == slaves.ha.log_end(), "its queues")
            await both.copy_tables()
            assert slaves.offsets.query("g", "%LMQ%$t$a", 0) == 3

    run(test)


def test_a_slave_takes_no_topic_for_unused_that_it_has_not_heard_of_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.copy_tables()
            slave = both.slave_service
            assert slave.parts is not None and slave._synchronize is not None and slave._housekeeping is not None
            topics, store = slave.parts.topics, slave.parts.store
            await slave._housekeeping.stop()  # its first message would bring the topic
            assert (await both.master.send("new")).code == 0
            await both.in_sync()
            assert "new" not in topics and ("new", 0) in store.queues()
            assert (await both.slave.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
            assert "new" in topics and ("new", 0) in store.queues()
            assert (await both.master.send("newer")).code == 0
            await both.in_sync()
            monkeypatch.setattr(slave._synchronize, "follow", lambda address: None)  # a registration under way would name the master again
            slave._synchronize.master_address = "127.0.0.1:1"
            refused = await both.slave.ask(RequestCode.CLEAN_UNUSED_TOPIC)
            assert refused.code == ResponseCode.SYSTEM_ERROR and "127.0.0.1:1" in str(refused.remark)
            assert ("newer", 0) in store.queues()

    run(test)


def test_rounds_of_copying_follow_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is older than one already taken would look like offsets that the master has set back."""
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.copy_tables()
            synchronize = both.slave_service._synchronize
            assert synchronize is not None
            under_way, most, real = 0, 0, synchronize._copy

            async def counted(*row: Any) -> bool:
                nonlocal under_way, most
                under_way += 1
                most = max(most, under_way)
                try:
                    return await real(*row)
                finally:
                    under_way -= 1

            monkeypatch.setattr(synchronize, "_copy", counted)
            await asyncio.gather(synchronize.run_once(), synchronize.catch_up())
            assert most == 1

    run(test)


def test_the_version_of_offsets_is_copied_when_no_offset_has_moved(tmp_path: Path) -> None:
    """Consumers commit the same offset again and again, and versions go on. A master of RocketMQ that comes back takes a slave's offsets
    only where their version is not older than its own."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            assert both.at.broker.parts is not None
            await both.copy_tables()
            both.at.broker.parts.offsets.assign_version(both.at.broker.parts.offsets.version.next())
            await both.copy_tables()
            versions = [(await peer.value(RequestCode.GET_ALL_CONSUMER_OFFSET))["dataVersion"] for peer in (both.master, both.slave)]
            assert versions[0] == versions[1] and versions[0]["counter"] == 1

    run(test)


def test_offsets_committed_at_a_slave_stay_when_the_master_knows_older_ones(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.master.pull("g", "t")  # makes the group
            await both.copy_tables()
            assert (await both.slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 9})).code == 0
            assert (await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 5})).code == 0
            await both.copy_tables()
            assert (await both.slave.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": "9"}
            await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 12})
            await both.copy_tables()
            assert (await both.slave.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": "12"}

    run(test)


def test_an_offset_that_is_set_back_at_a_living_master_is_set_back_at_its_slave(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.master.pull("g", "t")  # makes the group
            for offset, known in ((9, "9"), (2, "2")):
                assert (await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": offset})).code == 0
                await both.copy_tables()
                assert (await both.slave.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": known}

    run(test)


def test_offsets_of_a_group_that_is_deleted_at_a_living_master_go_at_its_slave(tmp_path: Path) -> None:
    """The master would take them back from there after its next start."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.master.pull("g", "t")  # makes the group
            assert (await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 1})).code == 0
            await both.copy_tables()
            offsets = both.slave_service.parts.offsets  # type: ignore[union-attr]
            assert offsets.of("g", "t") == {0: 1}
            gone = {"groupName": "g", "cleanOffset": True}
            assert (await both.master.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, gone)).code == 0
            await both.copy_tables()
            assert offsets.of("g", "t") == {}

    run(test)


def test_a_slave_answers_the_deletion_of_a_topic_and_leaves_it_to_its_master(tmp_path: Path) -> None:
    """`mqadmin deleteSubGroup -c` sends that of the group's retry topic to every broker of the cluster, in any order, until one refuses."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("Doomed")  # makes it
            await both.copy_tables()
            assert both.slave_service.parts is not None
            topics = both.slave_service.parts.topics
            assert (await both.slave.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Doomed"})).code == 0 and "Doomed" in topics
            assert (await both.slave.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TBW102"})).code == ResponseCode.INVALID_PARAMETER
            assert (await both.master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Doomed"})).code == 0
            await both.copy_tables()
            assert "Doomed" not in topics

    run(test)


def test_a_master_that_was_away_sets_no_offset_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.master.pull("g", "t")
            await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 9})
            await both.copy_tables()
            ha = both.slave_service.parts.ha  # type: ignore[union-attr]
            first = ha.connection()
            async with both.master_away():  # as when the master starts again
                await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 2})
            await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 2})
            assert first is not None and ha.connection() == first + 1
            await both.copy_tables()
            assert (await both.slave.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": "9"}

    run(test)


def test_offsets_of_a_topic_that_was_deleted_while_the_slave_was_away_go_at_it(tmp_path: Path) -> None:
    """Made again, the topic would have its first messages passed over by whoever asks the slave, and by the master after its next start."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            for topic in ("t", "other"):
                await both.master.send(topic)
                await both.master.pull("g", topic)
                await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"topic": topic, "commitOffset": 1})
            await both.copy_tables()
            parts = both.slave_service.parts
            assert parts is not None and parts.offsets.of("g", "t") == {0: 1}
            kept = ("%LMQ%light", "rmq_sys_of_another_release")  # in no table of topics
            for topic in kept:
                parts.offsets.commit("g", topic, 0, 1, "")
            async with both.master_away():
                assert (await both.master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})).code == 0
            await both.copy_tables()
            assert "t" not in parts.topics and parts.offsets.of("g", "t") == {}
            assert all(parts.offsets.of("g", topic) == {0: 1} for topic in ("other", *kept))

    run(test)


def test_offsets_stay_at_a_slave_whose_master_came_back_without_its_tables(tmp_path: Path) -> None:
    """config/ was lost or another one named; the log is the same. The slave's offsets are then all there is."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.master.pull("g", "t")
            await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 1})
            await both.in_sync()
            await both.copy_tables()
            parts, masters = both.slave_service.parts, both.at.broker.parts
            assert parts is not None and masters is not None and parts.offsets.of("g", "t") == {0: 1}
            async with both.master_away():
                masters.topics.delete("t")
                masters.topics.version = DataVersion(masters.topics.version.timestamp)
                masters.offsets.delete_topic("t")
            for _ in range(2):
                await both.copy_tables()
            assert "t" not in parts.topics and parts.offsets.of("g", "t") == {0: 1}

    run(test)


def test_offsets_are_not_set_back_to_those_of_another_master() -> None:
    offsets = MasterOffsets()
    one, other = (SavedOffsets({"t@g": {0: offset}}, DataVersion()) for offset in (9, 3))
    for master, asked_by, saved, connection, expected in (
        ("one", 1, one, 1, None),
        ("one", 1, one, 1, one),
        ("other", 1, other, 1, None),  # named by the name servers, while haMasterAddress keeps the log where it is
        ("other", 1, other, 2, None),  # answered by the one before
        ("other", 2, other, 2, None),
        ("other", 2, one, 2, other),
    ):
        offsets.asked(master, asked_by)
        assert offsets.replace(saved, connection) is expected


def test_positions_of_checks_wait_for_the_copies_in_the_log() -> None:
    positions = LoggedRows(lambda topic, group: group == GROUP)
    checked = f"RMQ_SYS_TRANS_HALF_TOPIC@{GROUP}"
    for position, masters_end, our_end, taken in (
        (1, 100, 100, 1),
        (2, 200, 150, 1),
        (3, 300, 200, 2),  # what the answer before said
        (4, 400, 250, 2),
        (5, 500, 300, 3),
        (6, 600, 600, 6),
        (7, 0, 0, 7),  # RocketMQ does not say where its log ended
    ):
        copied = SavedOffsets({"t@g": {0: position}, checked: {0: position}}, DataVersion(), masters_end)
        assert positions.hold_back(copied, our_end, 1).offsets == {"t@g": {0: position}, checked: {0: taken}}


def test_a_slave_that_is_behind_from_the_start_takes_no_position_of_checks() -> None:
    copied = SavedOffsets({f"RMQ_SYS_TRANS_HALF_TOPIC@{GROUP}": {0: 1}}, DataVersion(), 100)
    assert LoggedRows(lambda topic, group: group == GROUP).hold_back(copied, 99, 1).offsets == {}


def test_a_master_says_where_its_log_ends_behind_its_offsets(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await peer.send("t")
            answer = await peer.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
            store = at.broker.parts.store  # type: ignore[union-attr]
            assert SavedOffsets.from_json(read_json(answer.body)).log_end == store.stats()["commit_log_max_offset"] > 0

    run(test)


def test_a_round_that_began_at_one_master_does_not_go_on_at_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose log has not been compared yet: it may have lost what this slave still has."""
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with pair(tmp_path) as both:
            assert (await both.master.send("t")).code == 0
            await both.in_sync()
            synchronize = both.slave_service._synchronize
            assert synchronize is not None
            asked: list[tuple[str, bool]] = []
            real = synchronize._copy

            async def led_away(state: CopiedState, address: str) -> bool:
                ha = both.slave_service.parts.ha  # type: ignore[union-attr]
                asked.append((address, ha.is_stranger))
                synchronize.follow("127.0.0.1:1")
                both.lead_slave_to("127.0.0.1:2")
                assert ha.is_stranger
                return await real(state, address)

            monkeypatch.setattr(synchronize, "_copy", led_away)
            await synchronize.run_once()
            assert asked == [(both.at.broker.address, False)]

    run(test)


@pytest.mark.parametrize("turns", range(4))
def test_a_stop_that_comes_with_the_news_of_a_master_ends_the_copying(turns: int) -> None:
    """At whichever turn of the loop: asyncio's wait_for forgets the one over the other."""

    async def test() -> None:
        async def nothing() -> None:
            pass

        news = asyncio.Event()
        copying = asyncio.create_task(every("copying", 60, nothing, at_once=news))
        for _ in range(5):
            await asyncio.sleep(0)
        news.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        copying.cancel()
        await asyncio.wait({copying}, timeout=PATIENCE_S)
        assert copying.cancelled()

    run(test)
