"""What a controller decides: answers as RocketMQ's, and what holds after any sequence of requests, deaths and elections."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rocketpy.controller import decisions
from rocketpy.controller.broker_lives import BrokerLife
from rocketpy.controller.decisions import Decision, Decisions
from rocketpy.controller.events import ElectMasterEvent, decode_event, encode_event
from rocketpy.controller.replicas_info import ReplicasInfo
from rocketpy.controller.state_machine import ControllerStateMachine
from rocketpy.remoting.codes import ResponseCode
from rocketpy.remoting.headers import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    GetNextBrokerIdRequestHeader,
    GetReplicaInfoRequestHeader,
    RegisterBrokerToControllerRequestHeader,
)


class Model:
    """Decisions whose events are applied at once, through their bytes; who lives is said by the test."""

    def __init__(self) -> None:
        self.tables = ReplicasInfo()
        self.machine = ControllerStateMachine(self.tables)
        self.entries: list[bytes] = []
        self.lives: dict[int, BrokerLife] = {}
        self.unclean = False
        self.decisions = Decisions(self.tables, lambda cluster, name, broker_id: self.lives.get(broker_id), lambda: self.unclean)

    def commit(self, decision: Decision) -> Decision:
        if decision.event is not None:
            entry = encode_event(decision.event)
            self.machine.apply(len(self.entries), entry)
            self.entries.append(entry)
        return decision

    def live(self, *broker_ids: int) -> None:
        self.lives = {each: BrokerLife(0, 1, 1, 1, 100 - each, 0, 0) for each in broker_ids}

    def apply(self, broker_id: int, code: str = "") -> Decision:
        header = ApplyBrokerIdRequestHeader(
            cluster_name="c", broker_name="a", applied_broker_id=broker_id, register_check_code=code or f"h:{broker_id};{broker_id}"
        )
        return self.commit(self.decisions.apply_broker_id(header))

    def elect(self, broker_id: int = -1, designate: bool = False) -> Decision:
        header = ElectMasterRequestHeader(cluster_name="c", broker_name="a", broker_id=broker_id, designate_elect=designate)
        return self.commit(self.decisions.elect_master(header))

    def alter(self, *ids: int, master: int | None = 1, epoch: int = 1, set_epoch: int = 1) -> Decision:
        header = AlterSyncStateSetRequestHeader(broker_name="a", master_broker_id=master, master_epoch=epoch)
        return self.commit(self.decisions.alter_sync_state_set(header, frozenset(ids), set_epoch))

    def clean(self, ids: str | None = None, living: bool = False) -> Decision:
        header = CleanControllerBrokerDataRequestHeader(broker_name="a", broker_controller_ids_to_clean=ids, is_clean_living_broker=living)
        return self.commit(self.decisions.clean_broker_data(header))

    def next_id(self) -> int | None:
        fields = self.decisions.next_broker_id(GetNextBrokerIdRequestHeader(cluster_name="c", broker_name="a")).fields
        return fields.next_broker_id  # type: ignore[union-attr, no-any-return]

    def state(self) -> tuple[Any, ...]:
        found = self.tables.get("a")
        assert found is not None
        sync = found.sync
        return sync.master_broker_id, sync.master_epoch, sorted(sync.sync_state_set), sync.sync_state_set_epoch


@pytest.fixture
def model() -> Model:
    """Brokers 1, 2 and 3 that live; 1 is the master, alone in sync, both epochs 1."""
    model = Model()
    for broker_id in (1, 2, 3):
        assert model.apply(broker_id).code == ResponseCode.SUCCESS
    model.live(1, 2, 3)
    assert model.elect(1).code == ResponseCode.SUCCESS
    assert model.state() == (1, 1, [1], 1)
    return model


@pytest.mark.parametrize("names", [{}, {"cluster_name": "c"}, {"broker_name": "a"}, {"cluster_name": "", "broker_name": "a"}])
def test_nobody_is_told_of_an_id_without_a_name(names: dict[str, str]) -> None:
    decision = Model().decisions.next_broker_id(GetNextBrokerIdRequestHeader(**names))
    assert decision.code == ResponseCode.CONTROLLER_INVALID_REQUEST and "is null" in (decision.remark or "")
    assert decision.fields.next_broker_id is None  # type: ignore[union-attr]


def test_an_id_is_given_to_whoever_proves_it_and_to_nobody_else() -> None:
    model = Model()
    assert model.next_id() == 1
    assert model.apply(2).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert model.apply(1).code == ResponseCode.SUCCESS
    assert model.apply(1, "h:9;other").remark == "Fail to apply brokerId: 1 in broker-set: a"
    assert model.apply(-4).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    again = model.apply(1)
    assert again.code == ResponseCode.SUCCESS and again.event is None
    assert model.next_id() == 2
    assert model.apply(5).code == ResponseCode.SUCCESS
    assert model.next_id() == 3
    assert model.apply(3).code == model.apply(4).code == ResponseCode.SUCCESS
    assert model.next_id() == 6, "RocketMQ says 5, which is taken"
    assert model.apply(7, "x" * 2000).code == ResponseCode.CONTROLLER_INVALID_REQUEST


def test_who_takes_the_last_id_there_is_leaves_one_to_who_comes_next() -> None:
    model = Model()
    assert model.apply(1).code == ResponseCode.SUCCESS
    assert model.apply(2**63 - 1).code == ResponseCode.SUCCESS
    assert model.next_id() == 3


def test_strangers_cannot_fill_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "BROKER_SETS_MAX", 1)
    monkeypatch.setattr(decisions, "REPLICAS_MAX", 1)
    model = Model()
    assert model.apply(1).code == ResponseCode.SUCCESS
    assert model.apply(2).code == ResponseCode.CONTROLLER_INVALID_REQUEST
    other = ApplyBrokerIdRequestHeader(cluster_name="c", broker_name="b", applied_broker_id=1, register_check_code="x")
    assert model.decisions.apply_broker_id(other).code == ResponseCode.CONTROLLER_INVALID_REQUEST


def test_no_request_writes_more_into_the_log_than_its_set_holds(model: Model) -> None:
    header = RegisterBrokerToControllerRequestHeader(cluster_name="c" * 10**6, broker_name="a", broker_id=2, broker_address="new:2")
    moved = model.decisions.register_broker(header).event
    assert moved is not None and len(encode_event(moved)) < 200
    model.live()
    ids = [str(each) for each in range(2, 2 + decisions.REPLICAS_MAX)]
    assert model.clean(";".join([*ids, "999"])).remark == "101 brokers were named, a set has 100 at most"
    assert model.clean(";".join(ids)).code == ResponseCode.SUCCESS


def test_a_broker_that_registers_is_told_of_a_master_that_lives_and_moves(model: Model) -> None:
    def register(broker_id: int, address: str) -> Decision:
        header = RegisterBrokerToControllerRequestHeader(cluster_name="c", broker_name="a", broker_id=broker_id, broker_address=address)
        return model.commit(model.decisions.register_broker(header))

    told = register(2, "new:2")
    assert told.fields is not None
    assert told.fields.encode() == {
        "clusterName": "c", "brokerName": "a", "masterBrokerId": "1", "masterAddress": "h:1", "masterEpoch": "1", "syncStateSetEpoch": "1",
    }  # fmt: skip
    assert told.body == b'{"syncStateSet":[1],"syncStateSetEpoch":1}'
    assert model.tables.get("a").replicas.address(2) == "new:2"  # type: ignore[union-attr]
    assert register(2, "new:2").event is None
    model.live(2)
    assert register(2, "new:2").fields.encode() == {"clusterName": "c", "brokerName": "a"}  # type: ignore[union-attr]
    assert register(9, "x").code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


def test_a_set_changes_by_its_master_in_its_epochs_only(model: Model) -> None:
    refused: list[tuple[Callable[[], Decision], int, str]] = [
        (lambda: model.alter(1), 2013, "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"),
        (lambda: model.alter(1, 2, master=2), 2002, "current leader is:{1}, not {2}"),
        (lambda: model.alter(1, 2, master=None), 2002, "current leader is:{1}, not {null}"),
        (lambda: model.alter(1, 2, epoch=2), 2000, "current master epoch is:{1}, not {2}"),
        (lambda: model.alter(1, 2, set_epoch=0), 2001, "current syncStateSet epoch is:{1}, not {0}"),
        (lambda: model.alter(1, 9), 2003, "replicas {9} don't exist"),
        (lambda: model.alter(2, 3), 2013, "newSyncStateSet don't contains origin leader {1}"),
    ]
    for ask, code, remark in refused:
        decision = ask()
        assert (decision.code, decision.event) == (code, None)
        assert decision.remark is not None and decision.remark.endswith(remark)
    model.live(1, 2)
    assert model.alter(1, 3).code == ResponseCode.CONTROLLER_BROKER_NOT_ALIVE
    altered = model.alter(1, 2)
    assert altered.body == b'{"syncStateSet":[1,2],"syncStateSetEpoch":2}'
    assert model.state() == (1, 1, [1, 2], 2)


def test_an_election_takes_who_is_in_sync_and_lives(model: Model) -> None:
    assert model.elect().code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    model.alter(1, 2)
    model.live(2, 3)
    elected = model.elect()
    assert (elected.code, elected.remark) == (ResponseCode.SUCCESS, None)
    assert json.loads(elected.body) == {
        "brokerMemberGroup": {"brokerAddrs": {"1": "h:1", "2": "h:2", "3": "h:3"}, "brokerName": "a", "cluster": "c"},
        "syncStateSet": [2],
    }
    assert elected.notice is not None and elected.notice.master_epoch == 2
    assert model.state() == (2, 2, [2], 3)


def test_nobody_outside_the_set_is_elected_without_leave_and_then_it_is_said(model: Model) -> None:
    model.live(2, 3)
    nobody = model.elect()
    assert nobody.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert model.state() == (None, 2, [1], 1)
    assert model.elect().event is None, "that nobody leads is written once"
    assert model.elect(2).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    model.live(1, 2, 3)
    assert model.elect(2).code == ResponseCode.SUCCESS
    assert model.state() == (1, 3, [1], 2), "who asks is not who wins"
    model.live(2, 3)
    model.unclean = True
    unclean = model.elect()
    assert model.state() == (2, 4, [2], 3)
    assert unclean.remark == "unclean election: broker 2 was not in sync ([1] were), messages may be lost"


def test_the_first_master_is_a_broker_of_the_set_and_no_stranger_ends_the_right_to_one() -> None:
    model = Model()
    assert model.elect(1).code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    model.apply(1)
    assert model.elect(7).code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert model.elect(-1).event is None
    model.tables.apply(ElectMasterEvent("a"))  # by a controller of RocketMQ
    assert model.elect(1).code == ResponseCode.SUCCESS
    assert model.state() == (1, 2, [1], 1)


def test_an_operator_chooses_among_those_in_sync(model: Model) -> None:
    assert model.elect(-1, designate=True).code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    model.alter(1, 2)
    assert model.elect(3, designate=True).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert model.elect(2, designate=True).code == ResponseCode.SUCCESS
    assert model.state() == (2, 2, [2], 3)


def test_what_lives_or_is_last_in_sync_is_not_cleaned(model: Model) -> None:
    invalid = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert model.clean().remark == "Broker a is still alive, clean up failure"
    assert model.clean("2;3").remark == "Broker [a,  2] is still alive, clean up failure"
    assert model.clean("2;x").code == invalid
    model.live()
    assert model.clean("1").code == invalid, "nobody in sync would be left"
    assert model.clean("2;3").code == ResponseCode.SUCCESS
    assert model.tables.get("a").replicas.addresses() == {1: "h:1"}  # type: ignore[union-attr]
    assert model.next_id() == 4
    assert model.clean(living=True).code == ResponseCode.SUCCESS
    assert model.clean(living=True).remark == "Broker a is not existed,clean broker data failure."
    assert (
        model.decisions.replica_info(GetReplicaInfoRequestHeader(broker_name="a")).code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
    )


def test_what_is_shown_of_a_set_is_rocketmqs_json(model: Model) -> None:
    model.live(1)
    assert json.loads(model.decisions.sync_state_data(["a", "b", "a"]).body) == {
        "replicasInfoTable": {
            "a": {
                "inSyncReplicas": [{"alive": True, "brokerAddress": "h:1", "brokerId": 1, "brokerName": "a"}],
                "masterAddress": "h:1",
                "masterBrokerId": 1,
                "masterEpoch": 1,
                "notInSyncReplicas": [
                    {"alive": False, "brokerAddress": "h:2", "brokerId": 2, "brokerName": "a"},
                    {"alive": False, "brokerAddress": "h:3", "brokerId": 3, "brokerName": "a"},
                ],
                "syncStateSetEpoch": 1,
            }
        }
    }


IDS = st.integers(1, 4)


class AnySequence(RuleBasedStateMachine):
    """Any registrations, deaths, set changes and elections."""

    @initialize()
    def begin(self) -> None:
        self.model = Model()
        self.epochs = (0, 0)
        self.masters: dict[int, int] = {}

    @rule(broker_id=IDS)
    def apply(self, broker_id: int) -> None:
        self.model.apply(broker_id)

    @rule(living=st.sets(IDS))
    def deaths(self, living: set[int]) -> None:
        self.model.live(*living)

    @rule(broker_id=st.integers(-1, 4), designate=st.booleans(), unclean=st.booleans())
    def elect(self, broker_id: int, designate: bool, unclean: bool) -> None:
        self.model.unclean = unclean
        found = self.model.tables.get("a")
        in_sync = found.sync.sync_state_set if found is not None else frozenset()
        decision = self.model.elect(broker_id, designate)
        if isinstance(decision.event, ElectMasterEvent) and decision.event.new_master_broker_id is not None and not unclean:
            assert not in_sync or decision.event.new_master_broker_id in in_sync

    @rule(ids=st.sets(IDS), stale=st.integers(0, 1))
    def alter(self, ids: set[int], stale: int) -> None:
        found = self.model.tables.get("a")
        if found is not None:
            master, epoch, _, set_epoch = self.model.state()
            decision = self.model.alter(*ids, master=master, epoch=epoch, set_epoch=set_epoch - stale)
            assert not (stale and decision.event)

    @rule(ids=st.sets(IDS, min_size=1), living=st.booleans())
    def clean(self, ids: set[int], living: bool) -> None:
        self.model.clean(";".join(map(str, ids)), living)
        found = self.model.tables.get("a")
        if found is None:
            self.epochs, self.masters = (0, 0), {}
        elif found.sync.master_broker_id in ids:
            self.masters.clear()

    @invariant()
    def epochs_grow_and_have_one_master_each(self) -> None:
        if self.model.tables.get("a") is None:
            return
        master, epoch, in_sync, set_epoch = self.model.state()
        assert (epoch, set_epoch) >= self.epochs
        self.epochs = (epoch, set_epoch)
        if master is not None:
            assert self.masters.setdefault(epoch, master) == master
            assert master in in_sync or master not in self.model.tables.get("a").replicas.by_id  # type: ignore[union-attr]

    def teardown(self) -> None:
        """A replay of the events gives the same tables."""
        again = ReplicasInfo()
        for entry in self.model.entries:
            event = decode_event(entry)
            assert event is not None
            again.apply(event)
        assert [vars_of(each) for each in again.sets()] == [vars_of(each) for each in self.model.tables.sets()]


def vars_of(found: Any) -> tuple[Any, Any]:
    return found.replicas, found.sync


AnySequence.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
test_any_sequence = AnySequence.TestCase
