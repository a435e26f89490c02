"""How a broker gets an id, a role and a set from its controller: decisions over a clock of the test's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy._core.errors import StoreCorrupt
from rocketpy.broker.broker_metadata import BrokerMetadata, BrokerMetadataFiles, mismatch
from rocketpy.broker.controller_calls import ReplicaInfo
from rocketpy.broker.metadata_acks import GROUPS_VERSION, TOPICS_VERSION, covers
from rocketpy.broker.replica_state import Ask, ReplicaPeriods, ReplicaState, Standing
from rocketpy.broker.sync_state import Follower, SyncStateRules, SyncStates
from rocketpy.remoting.bodies import BodyError, DataVersion
from rocketpy.remoting.replica_bodies import SyncStateSet, epoch_cache_body

from .stand_in import answered

LEADER = "127.0.0.1:9878"


def info(master: int | None, epoch: int, *ids: int, edition: int = 1) -> ReplicaInfo:
    return ReplicaInfo(master, "" if master is None else f"127.0.0.1:{master}", epoch, SyncStateSet(frozenset(ids), edition))


def running(broker_id: int = 1) -> ReplicaState:
    state = ReplicaState(ReplicaPeriods(), broker_id=broker_id)
    state.found_leader(LEADER)
    state.registered()
    return state


# ---- the way to a role ----


def test_a_learner_waits_for_a_master_and_asks_for_no_election() -> None:
    state = ReplicaState(ReplicaPeriods(), broker_id=2, is_learner=True)
    state.found_leader(LEADER)
    state.registered()
    assert set(state.due(0)) == {Ask.LEADER, Ask.REPLICA_INFO, Ask.BEAT} and state.standing is Standing.MASTERLESS
    state.masterless()
    state.over(Ask.REPLICA_INFO, 0, is_done=True)
    assert state.due(4999) == [] and state.due(5000) == [Ask.REPLICA_INFO]
    role = state.take(info(1, 1, 1))
    assert role is not None and not role.is_master and state.standing is Standing.RUNNING


def test_a_new_store_gets_an_id_and_a_master_step_by_step() -> None:
    state, now = ReplicaState(ReplicaPeriods()), 0
    steps: list[tuple[Standing, Ask, Callable[[], None]]] = [
        (Standing.NAMELESS, Ask.BROKER_ID, lambda: state.offered(3)),
        (Standing.APPLYING, Ask.APPLY, state.given),
        (Standing.NAMED, Ask.REGISTER, state.registered),
    ]
    assert state.due(now) == [Ask.LEADER] and state.due(now) == [], "one at a time of each kind"
    state.found_leader(LEADER)
    state.over(Ask.LEADER, now, is_done=True)
    for standing, ask, answer in steps:
        assert state.standing is standing
        assert state.due(now) == [ask]
        answer()
        state.over(ask, now, is_done=True)
    assert set(state.due(now)) == {Ask.ELECT, Ask.BEAT}
    role = state.take(info(3, 1, 3))
    assert role is not None and role.is_master and role.sync_state_set.ids == {3}
    state.over(Ask.ELECT, now, is_done=True)
    assert state.standing is Standing.RUNNING
    assert state.due(now) == [Ask.REPLICA_INFO]


def test_what_fails_is_asked_again_after_a_second_and_what_succeeds_after_its_period() -> None:
    state = running()
    state.take(info(2, 1, 2))
    assert set(state.due(0)) == {Ask.LEADER, Ask.BEAT, Ask.REPLICA_INFO}
    state.over(Ask.REPLICA_INFO, 0, is_done=False)
    state.over(Ask.BEAT, 0, is_done=True)
    state.over(Ask.LEADER, 0, is_done=True)
    assert state.next_ms(0) == 1000 and state.due(999) == []
    assert set(state.due(1000)) == {Ask.REPLICA_INFO, Ask.BEAT}
    state.over(Ask.REPLICA_INFO, 1000, is_done=True)
    assert state.due(5999) == [] and state.due(6000) == [Ask.REPLICA_INFO]


def test_an_id_that_somebody_else_has_is_asked_for_anew() -> None:
    state = ReplicaState(ReplicaPeriods(), offered_id=2)
    state.found_leader(LEADER)
    assert state.due(0) == [Ask.LEADER, Ask.APPLY]
    state.refused()
    assert state.due(0) == [Ask.BROKER_ID]


def test_a_leader_that_is_lost_is_looked_for_at_once_and_another_one_stays() -> None:
    state = running()
    state.due(0)
    state.over(Ask.LEADER, 0, is_done=True)
    state.lost_leader("127.0.0.1:1")
    assert state.leader == LEADER and Ask.LEADER not in state.due(1)
    state.lost_leader(LEADER)
    assert state.due(1) == [Ask.LEADER]


def test_a_set_without_a_master_elects_one_and_the_role_stays_meanwhile() -> None:
    state = running()
    assert state.take(info(1, 4, 1)) is not None
    assert state.take(info(None, 5)) is None
    state.masterless()
    assert Ask.ELECT in state.due(0)
    assert state.role is not None and state.role.epoch == 4
    assert state.take(info(1, 4, 1)) is None and Ask.REPLICA_INFO in state.due(0), "the answer before was only late"


@given(st.lists(st.tuples(st.sampled_from([None, 1, 2, 3]), st.integers(0, 5), st.integers(0, 5)), max_size=30))
def test_epochs_of_roles_only_grow_and_an_epoch_has_one_master(answers: list[tuple[int | None, int, int]]) -> None:
    state = running()
    masters: dict[int, int] = {}
    last = (-1, -1)
    for master, epoch, edition in answers:
        role = state.take(info(master, epoch, 1, edition=edition))
        if role is not None:
            assert (role.epoch, role.sync_state_set.epoch) > last or role.epoch > last[0]
            assert masters.setdefault(role.epoch, role.master_id) == role.master_id
            assert role.is_master == (role.master_id == 1)
            last = (role.epoch, role.sync_state_set.epoch)


# ---- the set ----


def followers(**caught_up: int | None) -> list[Follower]:
    return [Follower(int(name[1:]), at) for name, at in caught_up.items()]


def states(*ids: int, lease_ms: int = 10_000) -> SyncStates:
    return SyncStates(SyncStateRules(15_000, lease_ms), 1, SyncStateSet(frozenset(ids), 7), 0)


def test_a_slave_that_caught_up_joins_and_one_that_fell_behind_leaves() -> None:
    master = states(1)
    assert master.proposal(followers(b2=None), 0) is None
    wanted = master.proposal(followers(b2=100), 100)
    assert wanted == SyncStateSet(frozenset({1, 2}), 7)
    assert master.proposal(followers(b2=100), 100) is None, "one is under way"
    master.answered(SyncStateSet(frozenset({1, 2}), 8))
    assert master.proposal(followers(b2=100), 15_100) is None
    assert master.proposal(followers(b2=100), 15_101) == SyncStateSet(frozenset({1}), 8)
    assert states(1, 2).proposal([], 0) == SyncStateSet(frozenset({1}), 7), "it is not even connected"
    assert states(1).proposal([Follower(2, 0, is_learner=True)], 0) is None
    assert states(1).proposal([Follower(2, 0, may_join=False)], 0) is None
    assert states(1, 2).proposal([Follower(2, 0, may_join=False)], 0) is None, "it was in before"


def test_messages_wait_for_the_old_set_and_the_new_one_until_the_controller_has_answered() -> None:
    master = states(1, 2)
    master.proposal(followers(b2=0, b3=0), 0)
    assert master.waited_for == {1, 2, 3}
    master.failed(0)
    assert master.waited_for == {1, 2, 3}, "it may have been carried out"
    master.proposal(followers(b3=0), 0)
    master.refused()
    assert master.waited_for == {1, 2, 3}, "the first one may be yet"
    assert not master.take(SyncStateSet(frozenset({1}), 7))
    assert master.take(SyncStateSet(frozenset({1, 3}), 8))
    assert master.waited_for == {1, 3}


def test_a_refused_set_changes_nothing() -> None:
    master = states(1)
    master.proposal(followers(b2=0), 0)
    master.refused()
    assert master.waited_for == {1}


def asked(master: SyncStates, now_ms: int) -> None:
    """For the set as it was; the controller has it, and says so at once."""
    assert master.proposal([], now_ms) == SyncStateSet(frozenset({1}), 7), "2 has gone, and may be in the set"
    master.unchanged(now_ms)


def test_a_set_that_was_never_made_is_waited_for_until_it_cannot_be_made_any_more() -> None:
    master = states(1)
    master.proposal(followers(b2=0), 0)
    master.failed(1000)
    for now_ms in (1000, 20_000, 30_999):
        asked(master, now_ms)
        assert master.waited_for == {1, 2}, "the request may be in the controller's log yet"
    asked(master, 31_000)
    assert master.waited_for == {1, 2}, "it may have waited with this one, and be the next"
    asked(master, 35_999)
    assert not master.is_settled
    asked(master, 36_000)
    assert master.waited_for == {1} and master.is_settled and master.proposal([], 36_000) is None


def test_each_request_that_nobody_answers_begins_the_time_anew_but_not_one_for_the_known_set() -> None:
    master = states(1)
    master.proposal(followers(b2=0), 0)
    master.failed(0)
    asked(master, 30_000)
    master.proposal(followers(b2=34_000), 34_000)
    master.failed(34_000)
    asked(master, 40_000)
    assert not master.is_settled
    asked(master, 64_000)
    master.proposal([], 66_000)
    master.failed(67_000)
    asked(master, 69_000)
    assert master.is_settled


# ---- the lease ----


def test_a_master_goes_on_while_the_controller_or_all_of_its_set_is_there() -> None:
    master = states(1, 2, 3)
    assert master.lease_left_ms([], 4000) == 6000
    master.confirmed(5000)
    assert master.lease_left_ms([], 10_000) == 5000
    assert master.lease_left_ms([], 15_000) == 0
    assert master.lease_left_ms(followers(b2=14_000, b3=12_000), 15_000) == 7000
    assert master.lease_left_ms(followers(b2=14_000), 15_000) == 0, "the other one may have been elected"
    assert states(1).lease_left_ms([], 999_999) == 10_000, "nobody else can be elected"
    assert states(1, 2, lease_ms=0).lease_left_ms([], 999_999) is None


def test_the_end_of_a_lease_does_not_hang_on_when_it_is_asked_for() -> None:
    master = states(1, 2)
    master.confirmed(5000)
    assert [master.lease_until_ms([], now_ms) for now_ms in (5000, 12_000, 90_000)] == [15_000] * 3


def test_whoever_was_asked_to_join_may_be_elected_too() -> None:
    master = states(1)
    master.proposal(followers(b2=0), 0)
    master.failed(0)
    assert master.lease_left_ms([], 20_000) == 0


# ---- files and bodies ----


def test_the_files_of_the_id_are_rocketmqs(tmp_path: Path) -> None:
    files = BrokerMetadataFiles(tmp_path / "brokerIdentity")
    assert files.read() == (None, None)
    asked = BrokerMetadata("DefaultCluster", "broker-a", 2, "127.0.0.1:10911;1700000000000")
    files.write_temporary(asked)
    assert files.temporary_path.read_text() == "DefaultCluster#broker-a#2#127.0.0.1:10911;1700000000000"
    assert files.read() == (None, asked)
    own = BrokerMetadata("DefaultCluster", "broker-a", 2)
    files.write(own)
    assert files.path.read_text() == "DefaultCluster#broker-a#2"
    assert files.read() == (own, None) and not files.temporary_path.exists()


def test_the_files_of_the_id_are_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    """As Java 18's are; the id of a broker whose name is not ASCII was taken for another broker's in a locale of one byte per character."""
    files = BrokerMetadataFiles(tmp_path / "brokerIdentity")
    files.write(BrokerMetadata("DefaultCluster", "bröker", 2))
    script = f"""
from pathlib import Path
from rocketpy.broker.broker_metadata import BrokerMetadataFiles
from rocketpy.dledger.entry_files import write_file
print(ascii(BrokerMetadataFiles(Path({str(files.path)!r})).read()[0].broker_name))
write_file(Path({str(tmp_path / "text")!r}), "ö")
"""
    command = [sys.executable, "-X", "utf8=0", "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{'bröker'!a}\n"
    assert (tmp_path / "text").read_bytes() == "ö".encode()


@pytest.mark.parametrize("text", ["", "a#b", "a#b#x", "a#b#-1", "a##1", "a#b#1#c", "a#b#99999999999999999999"])
def test_a_damaged_id_ends_the_start_and_a_damaged_wish_is_forgotten(tmp_path: Path, text: str) -> None:
    files = BrokerMetadataFiles(tmp_path / "brokerIdentity")
    files.temporary_path.write_text("a#b#1")
    assert files.read() == (None, None)
    files.path.write_text(text)
    with pytest.raises(StoreCorrupt, match="move the file away"):
        files.read()
    assert files.path.read_text() == text


def test_the_store_of_another_broker_is_named() -> None:
    metadata = BrokerMetadata("c", "b", 1)
    assert mismatch(metadata, "c", "b") == ""
    assert "cluster c" in mismatch(metadata, "d", "b") and "broker b" in mismatch(metadata, "c", "a")


def test_bodies_are_rocketmqs() -> None:
    assert SyncStateSet(frozenset({2, 1}), 3).encode() == b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}'
    assert SyncStateSet.decode(b'{"syncStateSet":[1,2],"brokerMemberGroup":null}') == SyncStateSet(frozenset({1, 2}))
    assert SyncStateSet.decode(b"") == SyncStateSet()
    for body in (b"[", b'{"syncStateSet":3}', b'{"syncStateSet":["1"]}', b'{"syncStateSet":[true]}'):
        with pytest.raises(BodyError):
            SyncStateSet.decode(body)
    assert epoch_cache_body("c", "b", 0, [(1, 0), (4, 100)], 150) == (
        b'{"brokerId":0,"brokerName":"b","clusterName":"c","epochList":[{"endOffset":100,"epoch":1,"startOffset":0},'
        b'{"endOffset":9223372036854775807,"epoch":4,"startOffset":100}],"maxOffset":150}'
    )


# ---- what a replica has of the tables ----


def test_a_replica_says_how_new_its_tables_are_and_rocketmqs_says_nothing() -> None:
    wanted = (DataVersion(1, 5, 2), DataVersion(1, 3, 0))

    def says(topics: DataVersion, groups: DataVersion) -> bool:
        fields = {TOPICS_VERSION: topics.encode().decode(), GROUPS_VERSION: groups.encode().decode()}
        return covers(answered(0, fields=fields), wanted)

    assert says(*wanted) and says(DataVersion(9, 6, 2), DataVersion(1, 4, 0)), "others came after it"
    assert not says(DataVersion(1, 4, 2), wanted[1]) and not says(wanted[0], DataVersion(1, 2, 0))
    assert not says(DataVersion(1, 900, 1), wanted[1]), "of a master before"
    assert covers(answered(0), wanted)
