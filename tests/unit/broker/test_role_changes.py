"""What is under way when the role changes: messages that only one has, transactions, popped and timed messages; and other kinds of
replicas. Two brokers behind a controller of the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpy.remoting.codes import RequestCode, ResponseCode

from .replicas import GROUP, TOPIC, Both, away, both_started
from .running import Peer, be_before, eventually, run, run_in_time
from .test_auth import ALICE, ASKING, ROOT, make_alice
from .test_delays import delivered, messages
from .test_pop import pop
from .test_timers import QUICK, now_ms
from .test_transactions import OFTEN, check_of, commit, prepare

ALONE = "WAIT\x01false\x02"
"""A send that is answered when this broker has it."""


def test_consumers_see_what_both_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with both_started(tmp_path, monkeypatch) as both:
            one, two = both.replicas
            assert (await one.peer.send(TOPIC, b"both")).code == 0
            assert messages(await one.peer.pull(GROUP, TOPIC))[0].body == b"both", "it was acknowledged"
            waits = asyncio.create_task(delivered(one.peer, TOPIC, 0, 1))
            async with away(both, two):
                for number in range(3):
                    sent = await one.peer.send(TOPIC, f"alone {number}".encode(), ALONE)
                    assert (sent.code, sent.fields["queueOffset"]) == (0, str(number + 1))
                fields = {"topic": TOPIC, "queueId": "0"}
                assert (await one.peer.ask(RequestCode.GET_MAX_OFFSET, fields)).fields["offset"] == "1"
                assert (await one.peer.pull(GROUP, TOPIC, 0, 1)).code == ResponseCode.PULL_NOT_FOUND and not waits.done()
            assert (await waits)[0].body == b"alone 0"
            await eventually(lambda: one.count() == 4, "all of them")

    run(test)


def test_what_one_master_had_alone_goes_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with both_started(tmp_path, monkeypatch) as both:
            one, two = both.replicas
            assert (await one.peer.send(TOPIC, b"both")).code == 0
            await eventually(lambda: two.has(1), "the copy")
            parts = one.service.parts
            async with away(both, two):
                assert (await one.peer.send(TOPIC, b"alone", ALONE)).code == 0
                await both.take_over(two)
            await eventually(lambda: both.controller.known.ids == {1, 2}, "both in sync")
            assert (await two.peer.send(TOPIC, b"after")).code == 0
            await eventually(lambda: one.has(2), "the successor's message")
            for each in both.replicas:
                assert [message.body for message in messages(await each.peer.pull(GROUP, TOPIC))] == [b"both", b"after"]
            assert one.service.parts is parts

    run(test)


def test_a_learner_has_it_all_and_nobody_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with both_started(tmp_path, monkeypatch, second={"asyncLearner": "true"}, checkSyncStateSetPeriod="10") as both:
            one, two = both.replicas
            for number in range(3):
                assert (await one.peer.send(TOPIC, f"{number}".encode())).code == 0
            await eventually(lambda: two.has(3), "the copies")
            ha = one.service.parts.ha  # type: ignore[union-attr]
            await eventually(lambda: ha.followers()[0]["caught_up_age_ms"] is not None, "that it has caught up")  # type: ignore[attr-defined]
            assert (await one.peer.send(TOPIC)).code == 0
            assert both.controller.known.ids == {1} and RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET not in both.controller.requests
            assert one.count() == 4, "who is in no set holds nothing back"

    run(test)


def test_a_new_replica_begins_with_the_masters_last_file_and_takes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fill(both: Both) -> None:
        for _ in range(24):
            assert (await both.replicas[0].peer.send(TOPIC, bytes(1000))).code == 0

    async def test() -> None:
        small = {"mappedFileSizeCommitLog": "8192", "maxMessageSize": "4096"}
        last_file = {"syncFromLastFile": "true"}
        async with both_started(tmp_path, monkeypatch, second=last_file, before_second=fill, **small) as both:
            one, two = both.replicas
            await eventually(lambda: two.has(24), "the last file's")
            parts = two.service.parts
            assert parts is not None
            first = parts.store.min_offset(TOPIC, 0)
            assert 0 < first < 24 and parts.store.stats()["commit_log_min_offset"] > 0
            await both.elect(two)
            assert (await two.peer.send(TOPIC, b"after")).code == 0
            assert len(messages(await two.peer.pull(GROUP, TOPIC, 0, first))) == 25 - first
            await both.in_sync()
            await eventually(lambda: one.has(25), "the old master's copy")

    run(test)


def test_replicas_that_ask_who_is_there_follow_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("rocketpy.broker.housekeeping.SLAVE_SYNCHRONIZE_S", 3600.0)
        async with both_started(tmp_path, monkeypatch, credentials=ROOT, **ASKING) as both:
            one, two = both.replicas
            made = {"defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG"}
            assert (await one.peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**made, "topic": "made"})).code == 0
            assert "made" in two.service.parts.topics, "the master's request was signed"  # type: ignore[union-attr]
            await make_alice(one.peer, "Topic:made")
            assert two.service._auth is not None
            assert two.service._auth.metadata.users.get("alice"), "it was acknowledged"
            again = {"password": "secret-of-alice"}
            answer = await two.peer.ask(RequestCode.AUTH_CREATE_USER, {"username": "alice"}, again)
            assert answer.code == 0, "mqadmin createUser -c asks each of both"
            await both.elect(two)
            alice = Peer(two.peer.address, credentials=ALICE)
            assert (await alice.send("made")).code == 0, "the next master knows her"
            assert (await alice.send("other")).code == ResponseCode.NO_PERMISSION, "and what she may do"
            assert (await two.peer.ask(RequestCode.AUTH_DELETE_USER, {"username": "alice"})).code == 0
            await both.elect(one)
            alice.address = one.peer.address
            await eventually(lambda: one.facts["brokerRole"] == "SYNC_MASTER", "the role")
            assert (await one.peer.send("made")).code == 0
            await both.in_sync()
            assert (await alice.send("made")).code == ResponseCode.NO_PERMISSION
            await alice.client.stop()

    run(test)


def test_what_is_under_way_goes_on_at_the_next_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions that are undecided, messages that are popped, acked or not, and ones whose time has not come, or has."""

    async def test(home: Path, factor: int) -> None:
        monkeypatch.setattr("rocketpy.broker.housekeeping.SLAVE_SYNCHRONIZE_S", 0.1)
        async with both_started(home, monkeypatch, **QUICK, **OFTEN) as both:
            one, two = both.replicas
            for client in (one.peer, two.peer):
                await client.heartbeat("c", GROUP, TOPIC, "timed", "popped")
            for number in range(2):
                assert (await one.peer.send("popped", f"{number}".encode())).code == 0
            popped = await pop(one.peer, "popped", GROUP, invisibleTime=1500 * factor)
            assert [message.body for message in messages(popped)] == [b"0", b"1"]
            handle = [popped.fields[name] for name in ("popTime", "invisibleTime", "reviveQid")]
            ack = {
                "consumerGroup": GROUP, "topic": "popped", "queueId": 0, "offset": 0,
                "extraInfo": " ".join(["0", *handle, "0", "broker-a", "0", "0"]),
            }  # fmt: skip
            assert (await one.peer.ask(RequestCode.ACK_MESSAGE, ack)).code == 0
            assert (await one.peer.send("timed", b"soon", "TIMER_DELAY_MS\x0160\x02")).code == 0
            assert [message.body for message in await delivered(one.peer, "timed")] == [b"soon"]
            due_ms = now_ms() + 1000 * factor
            assert (await one.peer.send("timed", b"later", f"TIMER_DELIVER_MS\x01{due_ms}\x02")).code == 0
            await commit(one.peer, await prepare(one.peer, b"decided"))
            await prepare(one.peer, b"undecided")
            native = two.service.parts.native  # type: ignore[union-attr]
            await eventually(lambda: native.timer_stats()["queue_offset"] == 2, "the slave's wheel")
            await both.in_sync()
            await both.elect(two)
            be_before(due_ms)
            asked = len(two.peer.requests)
            await two.peer.heartbeat("c", GROUP, TOPIC, "timed", "popped")
            question = await check_of(two.peer, b"undecided", asked)
            assert int(question.fields["tranStateTableOffset"]) >= 1
            assert [message.body for message in await delivered(two.peer, TOPIC)] == [b"decided"]
            assert [message.body for message in await delivered(two.peer, "timed", 0, 1)] == [b"later"] and now_ms() >= due_ms
            again = await pop(two.peer, "popped", GROUP, pollTime=40_000, bornTime=now_ms())
            assert [message.body for message in messages(again)] == [b"1"], "what was acked stays so"
            assert (await two.peer.pull(GROUP, "timed", 0, 2)).code == ResponseCode.PULL_NOT_FOUND, "nothing twice"

    run_in_time(test, tmp_path)
