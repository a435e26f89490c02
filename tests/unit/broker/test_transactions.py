"""Transactional messages through a whole broker: who is asked about them, when they are given up, what a restart and a slave keep."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import OffsetOutOfRange, TimedOut
from rocketpy._core.remoting import Command
from rocketpy._core.results import UndecidedHalf
from rocketpy._core.store import MessageStore, decode_message
from rocketpy.broker import names, transaction_checks
from rocketpy.broker.parts import now_ms
from rocketpy.broker.transaction_checks import GROUP, CheckRules, Fate, TransactionChecks, fate_of
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.broker.pair import pair
from tests.unit.broker.running import Peer, Running, eventually, run, running, started

COMMIT, ROLL_BACK = 8, 12
OFTEN = {"transactionCheckInterval": "1", "transactionTimeOut": "1"}
CALM = {"transactionCheckInterval": "3600000", "transactionTimeOut": "1"}
HOUR_MS = 3_600_000
IMMUNE = "CHECK_IMMUNITY_TIME_IN_SECONDS\x013600\x02"
RULES = CheckRules(timeout_ms=6000, checks_max=15, reserved_ms=3_600_000)
NOW = 10_000_000


@pytest.mark.parametrize(
    ("age_ms", "immune_s", "times", "fate"),
    [
        (6000, None, 0, Fate.ASKED_FOR),
        (5999, None, 0, None),
        (-1, None, 0, Fate.ASKED_FOR),  # its producer's clock is ahead
        (9999, 10, 0, Fate.IMMUNE),
        (10_000, 10, 0, Fate.ASKED_FOR),
        (5999, -1, 0, Fate.IMMUNE),  # no number: as long as all others
        (6000, -1, 0, Fate.ASKED_FOR),
        (0, 0, 0, Fate.ASKED_FOR),
        (6000, None, 14, Fate.ASKED_FOR),
        (6000, None, 15, Fate.GIVEN_UP),
        (6000, None, -1, Fate.ASKED_FOR),
        (3_600_001, None, 0, Fate.GIVEN_UP),
        (3_600_000, 7200, 0, Fate.IMMUNE),
        (-1, 10, 0, Fate.ASKED_FOR),  # by its producer's clock it would be immune for ever
    ],
)
def test_what_becomes_of_an_undecided_message(age_ms: int, immune_s: int | None, times: int, fate: Fate | None) -> None:
    assert fate_of(UndecidedHalf(0, 0, NOW - age_ms, immune_s, times), RULES, NOW) is fate


async def prepare(peer: Peer, body: bytes = b"money", properties: str = "", born_ms: int | None = None) -> Command:
    texts = f"UNIQ_KEY\x01{body.decode()}\x02TRAN_MSG\x01true\x02PGROUP\x01producers\x02{properties}"
    born_ms = time.time_ns() // 1_000_000 if born_ms is None else born_ms
    answer = await peer.send("t", body, texts, 0, f=4, g=born_ms)
    assert answer.code == 0, answer.remark
    return answer


async def end(peer: Peer, queue_offset: str, log_offset: str, decision: int) -> Command:
    fields = {
        "producerGroup": "producers", "tranStateTableOffset": queue_offset, "commitLogOffset": log_offset, "commitOrRollback": decision,
        "fromTransactionCheck": True, "msgId": "m",
    }  # fmt: skip
    return await peer.ask(RequestCode.END_TRANSACTION, fields)


async def commit(peer: Peer, sent: Command) -> None:
    assert (await end(peer, sent.fields["queueOffset"], str(int(sent.fields["msgId"][16:], 16)), COMMIT)).code == 0


async def bodies(peer: Peer, topic: str = "t") -> list[bytes]:
    answer = await peer.pull("g", topic)
    found, at = [], 0
    while at < len(answer.body):
        message = decode_message(answer.body[at:])
        found.append(message.body)
        at += message.size
    return found


async def check_of(peer: Peer, body: bytes, behind: int = 0) -> Command:
    """A question about this message, not among the first `behind` of all."""

    def asked() -> Command | None:
        checks = [each for each in peer.requests[behind:] if each.code == RequestCode.CHECK_TRANSACTION_STATE]
        return next((each for each in checks if decode_message(each.body).body == body), None)

    found: Command = await eventually(asked, f"a question about {body!r}")
    return found


def checks_of(at: Running, clock_ms: Callable[[], int] = now_ms, reads: Any = None) -> TransactionChecks:
    """Of a broker whose own checks are CALM."""
    assert at.broker.parts is not None
    parts = at.broker.parts if reads is None else replace(at.broker.parts, reads=reads)
    return TransactionChecks(parts, clock_ms=clock_ms)


class SlowDisk:
    """Reads of a store that brings nothing to the disk in time while it is slow."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.is_slow = True

    async def run(self, read: Callable[[Any], Any]) -> Any:
        return read(self)

    def wait_flushed(self, offset: int, timeout_ms: int, cuts: int) -> None:
        if self.is_slow:
            raise TimedOut("the disk is slow")
        self._store.wait_flushed(offset, timeout_ms, cuts)


def store_of(at: Running) -> MessageStore:
    assert at.broker.parts is not None
    return at.broker.parts.store


def positions(at: Running) -> list[int]:
    assert at.broker.parts is not None
    return [at.broker.parts.offsets.query(GROUP, topic, 0) for topic in (names.TRANS_HALF_TOPIC, names.TRANS_OP_HALF_TOPIC)]


def questions(peer: Peer) -> list[bytes]:
    return [decode_message(each.body).body for each in peer.requests if each.code == RequestCode.CHECK_TRANSACTION_STATE]


def test_the_producer_is_asked_until_it_decides(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **OFTEN) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            await prepare(peer, b"commit")
            await prepare(peer, b"roll back")
            assert await bodies(peer) == []
            again = await check_of(peer, b"commit", len(peer.requests) + 1)
            for body, decision in ((b"commit", COMMIT), (b"roll back", ROLL_BACK)):
                check = await check_of(peer, body, peer.requests.index(again))
                message = decode_message(check.body)
                assert (message.topic, message.queue_id) == ("t", 0) and int(message.properties["TRANSACTION_CHECK_TIMES"]) >= 1
                assert check.fields["msgId"] == check.fields["transactionId"] == body.decode()
                assert int(check.fields["offsetMsgId"][16:], 16) == message.commit_log_offset == int(check.fields["commitLogOffset"])
                assert (await end(peer, check.fields["tranStateTableOffset"], check.fields["commitLogOffset"], decision)).code == 0
            ends = [store_of(at).max_offset(topic, 0) for topic in (names.TRANS_HALF_TOPIC, names.TRANS_OP_HALF_TOPIC)]
            await eventually(lambda: positions(at)[1] == ends[1] == 2, "all operations are behind the positions")
            assert positions(at)[0] >= ends[0] > 4
            assert (await bodies(peer))[0] == b"commit"

    run(test)


def test_one_too_old_is_given_up_and_an_operator_has_it_asked_about_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, **OFTEN) as at:
            peer = at.peer()
            await prepare(peer, b"old", born_ms=1)
            store = at.broker.parts.store  # type: ignore[union-attr]
            topic = names.TRANS_CHECK_MAX_TIME_TOPIC
            await eventually(lambda: store.max_offset(topic, 0) == 1, "the message is given up")
            ((offset, _, _),) = store.entries(topic, 0, 0, 1)
            message_id = f"7F000001{int(at.broker.address.rsplit(':', 1)[1]):08X}{offset:016X}"
            assert (await peer.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})).code == 0
            await eventually(lambda: store.max_offset(topic, 0) == 2, "it is given up once more, for its age")
            for wrong in ("", "zz", f"7F000001{1:08X}{1 << 40:016X}", f"7F000001{1:08X}{0:016X}"):
                answer = await peer.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": wrong})
                assert answer.code == ResponseCode.SYSTEM_ERROR and "failed" in (answer.remark or "")

    with caplog.at_level(logging.ERROR):
        run(test)
    assert "is given up after 0 checks" in caplog.text


def test_a_decision_is_kept_over_a_restart_and_what_is_undecided_is_asked_about_then(tmp_path: Path) -> None:
    async def test() -> None:
        calm = {"transactionCheckInterval": "3600000"}
        async with started(tmp_path, **calm) as peer:
            first = await prepare(peer, b"before")
            assert (await end(peer, first.fields["queueOffset"], str(int(first.fields["msgId"][16:], 16)), COMMIT)).code == 0
            await prepare(peer, b"over the restart")
        async with started(tmp_path, **OFTEN) as peer:
            await peer.heartbeat("c", "g", "t")
            check = await check_of(peer, b"over the restart")
            assert (await end(peer, check.fields["tranStateTableOffset"], check.fields["commitLogOffset"], COMMIT)).code == 0
            assert (await bodies(peer))[:2] == [b"before", b"over the restart"]
            assert all(decode_message(each.body).body != b"before" for each in peer.requests if each.body)

    run(test)


def test_one_whose_properties_have_no_room_for_a_check_holds_up_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, **OFTEN) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            await peer.send("t", b"its topic is there")
            for size in range(32_760, 32_000, -8):
                properties = f"TRAN_MSG\x01true\x02PGROUP\x01producers\x02x\x01{'y' * size}\x02"
                answer = await peer.send("t", b"full", properties, f=4, g=time.time_ns() // 1_000_000)
                if answer.code == 0:
                    break
                assert answer.code == ResponseCode.MESSAGE_ILLEGAL
            assert answer.code == 0
            await prepare(peer, b"behind it")
            await check_of(peer, b"behind it")
            await eventually(lambda: "nobody is asked about the prepared message" in caplog.text, "a line about the first")

    run(test)


def test_one_that_says_it_was_asked_about_as_often_as_can_be_holds_up_no_other(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **OFTEN) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            for times in (2**31 - 1, 2**31, 2**63):
                await prepare(peer, b"hostile", f"TRANSACTION_CHECK_TIMES\x01{times}\x02")
            await prepare(peer, b"behind it")
            await check_of(peer, b"behind it")
            store = at.broker.parts.store  # type: ignore[union-attr]
            await eventually(lambda: store.max_offset(names.TRANS_CHECK_MAX_TIME_TOPIC, 0) >= 1, "it is given up")

    run(test)


def test_large_ones_are_asked_about_in_several_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_checks, "ASKED_BYTES", 300_000)
    asked: list[int] = []
    ask = transaction_checks.TransactionChecks._ask

    def count(self: transaction_checks.TransactionChecks, questions: Sequence[Any]) -> None:
        asked.append(len(questions))
        ask(self, questions)

    monkeypatch.setattr(transaction_checks.TransactionChecks, "_ask", count)
    sent = [letter * 200_000 for letter in (b"a", b"b", b"c", b"d", b"e")]

    async def test() -> None:
        async with running(tmp_path, **OFTEN) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            for body in sent:
                await peer.send("t", body, "TRAN_MSG\x01true\x02PGROUP\x01producers\x02", f=4, g=time.time_ns() // 1_000_000)
            for body in sent:
                await check_of(peer, body)

    run(test)
    assert max(asked) == 2


def test_messages_without_a_producer_wait_and_the_log_says_of_which_group(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, **OFTEN) as at:
            await prepare(at.peer(), b"m", "CHECK_IMMUNITY_TIME_IN_SECONDS\x01x\x02")
            await eventually(lambda: "groupId=producers: 1 messages wait" in caplog.text, "a line about the group")

    run(test)


def test_who_may_not_send_them_is_told_so_live(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await prepare(peer)
            for switch, code in (("true", ResponseCode.NO_PERMISSION), ("false", ResponseCode.SUCCESS)):
                answer = await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, f"rejectTransactionMessage={switch}".encode())
                assert answer.code == 0, answer.remark
                for topic in ("t", f"new-{switch}"):
                    answer = await peer.send(topic, b"m", "TRAN_MSG\x01true\x02PGROUP\x01producers\x02", f=4)
                    assert answer.code == code, answer.remark

    run(test)


def test_a_slave_has_the_messages_and_ends_none(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            master, slave = both.master, both.slave
            sent = await prepare(master)
            answer = await end(slave, sent.fields["queueOffset"], str(int(sent.fields["msgId"][16:], 16)), COMMIT)
            assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
            answer = await slave.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": sent.fields["msgId"]})
            assert answer.code == ResponseCode.SYSTEM_ERROR

    run(test)


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_back_has_nobody_asked_twice_in_a_round_nor_not_at_all(tmp_path: Path, ahead_ms: int) -> None:
    """The checks' clock is ahead of the store's, or behind it."""

    async def test() -> None:
        async with running(tmp_path, **CALM) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            await prepare(peer, b"m")
            checks = checks_of(at, lambda: now_ms() + ahead_ms)
            for round_number in (1, 2):
                await checks.run_round()
                assert store_of(at).max_offset(names.TRANS_HALF_TOPIC, 0) == 1 + round_number
                await eventually(lambda: len(questions(peer)) >= round_number, "a question")  # noqa: B023
            assert questions(peer) == [b"m"] * 2

    run(test)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_immune_message_that_is_committed_is_asked_about_no_more_though_others_are_copied_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_restarted: bool
) -> None:
    monkeypatch.setattr(transaction_checks, "HALVES", 1)

    async def test() -> None:
        async with running(tmp_path, **CALM) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            checks = checks_of(at)
            await prepare(peer, b"open", IMMUNE)
            sent = await prepare(peer, b"committed", IMMUNE)
            await checks.run_round()
            await commit(peer, sent)
            if is_restarted:
                checks = checks_of(at)
            for _ in range(3):
                await checks.run_round()
            await checks_of(at, lambda: now_ms() + 2 * HOUR_MS).run_round()
            await check_of(peer, b"open")
            assert questions(peer) == [b"open"]
            assert store_of(at).max_offset(names.TRANS_HALF_TOPIC, 0) == 4 + 3 + 1  # both were copied once, then the one alone
            assert positions(at) == [7, 1]

    run(test)


def test_nothing_is_copied_again_while_the_copies_do_not_come_to_the_disk(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **CALM) as at:
            peer, disk = at.peer(), SlowDisk(store_of(at))
            checks = checks_of(at, reads=disk)
            for body in (b"a", b"b", b"c"):
                await prepare(peer, body, born_ms=now_ms() - 1000)
            for _ in range(3):
                with pytest.raises(TimedOut):
                    await checks.run_round()
                assert store_of(at).max_offset(names.TRANS_HALF_TOPIC, 0) == 6
                assert positions(at)[0] <= 0
            disk.is_slow = False
            await checks.run_round()
            assert store_of(at).max_offset(names.TRANS_HALF_TOPIC, 0) == 9  # of the copies
            assert positions(at)[0] == 6
            at.broker.parts.offsets.commit(GROUP, names.TRANS_HALF_TOPIC, 0, 3, "an operator")  # type: ignore[union-attr]
            await checks.run_round()
            assert store_of(at).max_offset(names.TRANS_HALF_TOPIC, 0) == 9 + 6  # what was reached is where an operator says

    run(test)


def test_copies_that_did_not_come_to_the_disk_are_forgotten_when_somebody_else_moved_the_position(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **CALM) as at:
            peer, disk = at.peer(), SlowDisk(store_of(at))
            checks = checks_of(at, reads=disk)
            for body in (b"a", b"b", b"c"):
                await prepare(peer, body, born_ms=now_ms() - 1000)
            with pytest.raises(TimedOut):
                await checks.run_round()
            at.broker.parts.offsets.commit(GROUP, names.TRANS_HALF_TOPIC, 0, 2, "an operator")  # type: ignore[union-attr]
            disk.is_slow = False
            await checks.run_round()
            assert store_of(at).max_offset(names.TRANS_HALF_TOPIC, 0) == 6 + 4  # of c, and of the copies

    run(test)


class CutLog(SlowDisk):
    """A store of a DLedger group whose log another leader cuts behind the first copies."""

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store)
        self.cuts = 0

    def stats(self) -> dict[str, int]:
        return {**self._store.stats(), "commit_log_cuts": self.cuts}

    def wait_flushed(self, offset: int, timeout_ms: int, cuts: int) -> None:
        if self.is_slow:
            self.cuts, self.is_slow = self.cuts + 1, False
        if cuts != self.cuts:
            raise OffsetOutOfRange("taken back")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_copies_that_another_leader_took_back_are_made_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **CALM) as at:
            assert at.broker.parts is not None
            peer, log = at.peer(), CutLog(store_of(at))
            checks = TransactionChecks(replace(at.broker.parts, reads=log, store=log))  # type: ignore[arg-type]
            for body in (b"a", b"b"):
                await prepare(peer, body, born_ms=now_ms() - 1000)
            with pytest.raises(OffsetOutOfRange):
                await checks.run_round()
            assert positions(at)[0] <= 0
            await checks.run_round()
            assert store_of(at).max_offset(names.TRANS_HALF_TOPIC, 0) == 2 + 2 + 4, "of all that lie behind the position, copies too"
            assert positions(at)[0] == 4

    run(test)


def test_one_that_is_sent_on_with_the_properties_of_a_copy_is_asked_about(tmp_path: Path) -> None:
    """RocketMQ believes a first message, too, that says it is a copy."""

    async def test() -> None:
        async with running(tmp_path, **CALM) as at:
            peer, born_ms = at.peer(), now_ms() - 2000
            await peer.heartbeat("c", "g", "t")
            await commit(peer, await prepare(peer, b"m", born_ms=born_ms))
            await prepare(peer, b"m", "TRAN_PREPARED_QUEUE_OFFSET\x010\x02", born_ms=born_ms + 1000)
            await checks_of(at).run_round()
            assert store_of(at).max_offset(names.TRANS_HALF_TOPIC, 0) == 3
            await check_of(peer, b"m")

    run(test)
