"""A broker at a controller of the test's own: ids, roles, sets and leases, over a clock that the test turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rocketpy._core.errors import RocketpyError
from rocketpy.broker.broker_metadata import BrokerMetadata, BrokerMetadataFiles
from rocketpy.broker.controller_calls import ControllerCalls
from rocketpy.broker.replica_state import Role
from rocketpy.broker.replicas_manager import Replicas, ReplicaSettings
from rocketpy.broker.role_switch import RoleStep, RoleSteps
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .running import eventually, run
from .stand_in import CONTROLLER, Controller, Log

ADDRESS = "127.0.0.1:10911"


@dataclass
class Bench:
    """One broker's standing, and what it did."""

    home: Path
    controller: Controller = field(default_factory=Controller)
    log: Log = field(default_factory=Log)
    now_ms: int = 1000
    roles: list[Role] = field(default_factory=list)
    leases: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)

    def replicas(self) -> Replicas:
        settings = ReplicaSettings("c", "b", ADDRESS, (CONTROLLER,), check_set_ms=0)
        calls = ControllerCalls(self.controller, "c", "b", ADDRESS)
        return Replicas(
            settings, calls, self.files, self.log, self.leases.append, self.cuts.append, lambda: self.now_ms, lambda: 1_700_000_000_000
        )

    @property
    def files(self) -> BrokerMetadataFiles:
        return BrokerMetadataFiles(self.home / "brokerIdentity")

    def steps(self, replicas: Replicas) -> RoleSteps:
        async def lead(role: Role) -> None:
            self.log.is_slave, self.log.last_epoch = False, role.epoch
            await replicas.led(role)
            self.roles.append(role)

        async def follow(role: Role) -> None:
            self.log.is_slave = True
            self.roles.append(role)

        async def close() -> None: ...

        return RoleSteps([RoleStep("lead", lead)], [RoleStep("follow", follow)], close)


@asynccontextmanager
async def started(bench: Bench) -> AsyncIterator[Replicas]:
    replicas = bench.replicas()
    await replicas.start(bench.steps(replicas))
    try:
        yield replicas
    finally:
        await replicas.stop()


async def asked_again(bench: Bench, replicas: Replicas) -> None:
    """The controller is asked once more for what it knows, and its answer is taken."""
    count = bench.controller.requests.count(RequestCode.CONTROLLER_GET_REPLICA_INFO)

    def is_asked() -> bool:
        bench.now_ms += 20  # a hint that comes while one is asked for is due a little later, and nobody else turns the clock
        replicas.hint()
        return bench.controller.requests.count(RequestCode.CONTROLLER_GET_REPLICA_INFO) > count

    await eventually(is_asked, "the request")


def test_an_empty_store_becomes_the_master_and_keeps_its_id(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench) as replicas:
            await eventually(lambda: bench.roles, "a role")
            assert bench.roles[0].is_master and bench.log.broker_id == 1
            assert bench.files.read() == (BrokerMetadata("c", "b", 1), None)
            assert bench.controller.ids == {1: f"{ADDRESS};1700000000000"}
            beat = bench.controller.beats[0]
            assert (beat["brokerId"], beat["maxOffset"], beat["confirmOffset"]) == ("1", "7", "5")
            assert replicas.counters()["replicaState"] == "RUNNING"
        bench.controller.requests.clear()
        async with started(bench):
            await eventually(lambda: len(bench.roles) > 1, "the role again")
        assert RequestCode.CONTROLLER_APPLY_BROKER_ID not in bench.controller.requests

    run(test)


def test_an_id_whose_answer_was_lost_is_asked_for_again_by_its_code(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        bench.controller.loses_answers = {RequestCode.CONTROLLER_APPLY_BROKER_ID}
        async with started(bench):
            await eventually(lambda: bench.controller.ids, "the id at the controller")
        assert bench.files.read()[0] is None and not bench.roles
        bench.controller.loses_answers = set()
        async with started(bench):
            await eventually(lambda: bench.roles, "a role")
        assert set(bench.controller.ids) == {1} and bench.log.broker_id == 1

    run(test)


def test_an_id_that_was_given_away_is_replaced(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        bench.files.write_temporary(BrokerMetadata("c", "b", 1, "an old code"))
        bench.controller.ids[1] = "another code"
        async with started(bench):
            await eventually(lambda: bench.roles, "a role")
        assert bench.log.broker_id == 2

    run(test)


def test_the_store_of_another_broker_ends_the_start(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        bench.files.write(BrokerMetadata("c", "other", 1))
        with pytest.raises(RocketpyError, match="broker other"):
            await bench.replicas().start(bench.steps(bench.replicas()))

    run(test)


def test_a_notice_is_only_a_hint(tmp_path: Path) -> None:
    """Of a stranger's nothing comes; of a controller's, what the controller says."""

    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench) as replicas:
            await eventually(lambda: bench.roles, "a role")
            await asked_again(bench, replicas)
            assert len(bench.roles) == 1
            bench.controller.addresses[2] = "127.0.0.1:10921"
            bench.controller.elect(2)
            await asked_again(bench, replicas)
            await eventually(lambda: len(bench.roles) == 2, "the new role")
            assert not bench.roles[1].is_master and bench.roles[1].master_address == "127.0.0.1:10921"
            replicas.heard_of_master("127.0.0.1:10911", "127.0.0.1:1")
            replicas.heard_of_master("127.0.0.1:10921", "127.0.0.1:10922")
            assert bench.log.followed == ["127.0.0.1:10922"], "whom the controller does not name is not followed"

    run(test)


def test_a_slave_joins_the_set_and_leaves_it(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench):
            await eventually(lambda: bench.roles, "a role")
            bench.log.slave(2)
            await eventually(lambda: bench.controller.known.ids == {1, 2}, "the set")
            await eventually(lambda: bench.log.sets[-1] == ("agreed", [1, 2]), "the set natively")
            assert ("proposed", [1, 2]) in bench.log.sets
            bench.log.slaves.clear()
            bench.log.set_changed()
            await eventually(lambda: bench.controller.known.ids == {1}, "the smaller set")

    run(test)


@pytest.mark.parametrize("how", ["loses_answers", "gives_up"])
def test_a_set_whose_answer_says_nothing_is_waited_for_until_the_controller_says(tmp_path: Path, how: str) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench) as replicas:
            await eventually(lambda: bench.roles, "a role")
            setattr(bench.controller, how, {RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET})
            bench.log.slave(2)
            await eventually(lambda: bench.controller.known.ids == {1, 2}, "the set at the controller")
            setattr(bench.controller, how, set())
            await asked_again(bench, replicas)  # which it may have done by itself already
            await eventually(lambda: bench.log.sets[-1] == ("agreed", [1, 2]), "the set natively")
            since = bench.log.sets.index(("proposed", [1, 2]))
            assert ("agreed", [1]) not in bench.log.sets[since:]

    run(test)


REFUSALS = "CONTROLLER_ALTER_SYNC_STATE_SET_FAILED CONTROLLER_BROKER_NOT_ALIVE CONTROLLER_FENCED_MASTER_EPOCH "
REFUSALS += "CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH CONTROLLER_INVALID_MASTER CONTROLLER_INVALID_REPLICAS CONTROLLER_INVALID_REQUEST "
REFUSALS += "SYSTEM_BUSY REQUEST_CODE_NOT_SUPPORTED NO_PERMISSION"
OPEN = "SYSTEM_ERROR CONTROLLER_NOT_LEADER"


@pytest.mark.parametrize(("name", "is_open"), [*((name, False) for name in REFUSALS.split()), *((name, True) for name in OPEN.split())])
def test_a_refusal_leaves_the_set_as_it_was_and_an_answer_that_says_nothing_leaves_both(tmp_path: Path, name: str, is_open: bool) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench) as replicas:
            await eventually(lambda: bench.roles, "a role")
            bench.controller.fails = {RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: ResponseCode[name]}
            bench.log.slave(2)
            await eventually(lambda: ("proposed", [1, 2]) in bench.log.sets, "the proposal natively")
            await eventually(lambda: RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET in bench.controller.requests, "the request")
            states = replicas._states
            assert states is not None
            await eventually(lambda: states.is_open or states.waited_for == {1}, "what became of it")
            assert states.waited_for == ({1, 2} if is_open else {1})

    run(test)


def test_a_slave_that_goes_before_the_controller_has_taken_it_in_is_not_waited_for(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench):
            await eventually(lambda: bench.roles, "a role")
            bench.controller.fails = {RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: ResponseCode.SYSTEM_ERROR}
            bench.log.slave(2)
            await eventually(lambda: RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET in bench.controller.requests, "the request")
            bench.log.slaves.clear()
            bench.controller.fails = {}
            bench.log.set_changed()

            def is_left_out() -> bool:
                bench.now_ms += 1000  # perhaps it was asked for once more, and is waited for to hold what is confirmed
                return bench.log.sets[-1] == ("agreed", [1])

            await eventually(is_left_out, "the set without it")

    run(test)


def test_a_controller_that_does_not_know_the_broker_does_not_say_what_its_set_is(tmp_path: Path) -> None:
    """RocketMQ's answers with the code of a set that is equal."""

    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench):
            await eventually(lambda: bench.roles, "a role")
            alter = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
            bench.controller.fails = {alter: ResponseCode.SYSTEM_ERROR}
            bench.log.slave(2)
            await eventually(lambda: alter in bench.controller.requests, "the request")
            bench.log.slaves.clear()
            bench.controller.fails = {alter: ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED}
            bench.log.set_changed()
            until_ms, before = bench.now_ms + 90_000, bench.controller.requests.count(alter)

            def is_asked_for_long() -> bool:
                bench.now_ms += 1000
                return bench.now_ms > until_ms and bench.controller.requests.count(alter) > before + 3

            await eventually(is_asked_for_long, "questions")
            assert bench.log.sets[-1] == ("proposed", [1, 2])

    run(test)


def test_a_leader_that_is_lost_while_the_set_is_looked_at_does_not_keep_the_set_as_it_is(tmp_path: Path) -> None:
    """The request begins a turn of the loop later; the controller and a slave may have gone at once, with their machine."""

    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench) as replicas:
            await eventually(lambda: bench.roles, "a role")
            bench.log.slave(2)
            replicas._tick(bench.now_ms)
            replicas.state.lost_leader(CONTROLLER)
            await eventually(lambda: bench.controller.known.ids == {1, 2}, "the set")

    run(test)


def test_an_isolated_master_loses_its_lease_and_gets_it_back(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench) as replicas:
            await eventually(lambda: bench.roles, "a role")
            bench.log.slave(2)
            await eventually(lambda: bench.log.sets[-1] == ("agreed", [1, 2]), "the set")
            bench.controller.is_away = True
            bench.now_ms += 20_000
            seen = len(bench.leases)
            bench.log.slave(2, age_ms=60_000)
            await eventually(lambda: len(bench.leases) > seen and 0 <= bench.leases[-1] <= bench.now_ms, "the lease's end")
            bench.controller.is_away = False
            bench.now_ms += 2000
            replicas.hint()
            await eventually(lambda: bench.leases[-1] > bench.now_ms, "the lease")

    run(test)


def test_a_controller_that_has_forgotten_us_is_told_again(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench) as replicas:
            await eventually(lambda: bench.roles, "a role")
            bench.controller.master = None
            await asked_again(bench, replicas)
            await eventually(lambda: len(bench.roles) == 2, "another election")
            assert bench.roles[1].epoch == 2

    run(test)


def test_a_controller_whose_epochs_are_behind_the_log_gives_no_role(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path, log=Log(last_epoch=7))
        async with started(bench) as replicas:
            await eventually(lambda: replicas.state.role is not None, "the answer")
            assert not bench.roles
            bench.controller.epoch = 7
            bench.controller.master = None
            await asked_again(bench, replicas)
            await eventually(lambda: bench.roles, "a role of an epoch that is later")

    run(test)


def test_a_log_that_its_master_does_not_have_is_cut_once(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path, controller=Controller(master=2, epoch=3, addresses={2: "127.0.0.1:1"}, ids={2: "code", 1: "code"}))
        bench.files.write(BrokerMetadata("c", "b", 1))
        bench.log.cut_offset = 77
        async with started(bench) as replicas:
            await eventually(lambda: bench.cuts, "the cut")
            for _ in range(3):
                replicas.hint()
                await asked_again(bench, replicas)
            assert bench.cuts == [77]

    run(test)


def test_an_id_that_was_cleaned_at_the_controller_is_told_with_what_helps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also behind another failure of the same request, and once."""

    async def test() -> None:
        bench = Bench(tmp_path)
        bench.files.write(BrokerMetadata("c", "b", 2))
        register = RequestCode.CONTROLLER_REGISTER_BROKER
        bench.controller.fails = {register: ResponseCode.SYSTEM_ERROR}
        async with started(bench) as replicas:
            await eventually(lambda: register in bench.controller.requests, "a first failure")
            bench.controller.fails = {register: ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED}
            bench.controller.remark = "BrokerId: 2 hasn't been registered in broker-set: b"
            before = bench.controller.requests.count(register)

            def is_asked_again() -> bool:
                bench.now_ms += 500
                return bench.controller.requests.count(register) > before + 3

            await eventually(is_asked_again, "questions")
            told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
            assert len(told) == 1 and bench.controller.remark in told[0] and str(bench.files.path) in told[0]
            failure = replicas.counters()["roleFailure"]
            assert failure in told[0] and "cleanBrokerMetadata" in failure
            assert bench.files.read()[0] == BrokerMetadata("c", "b", 2) and not bench.roles
            bench.controller.fails = {}
            await eventually(lambda: is_asked_again() and bench.roles, "the role of a controller that knows it again")
            assert replicas.counters()["roleFailure"] == ""

    run(test)


def test_a_master_whose_set_the_controller_has_no_more_registers_before_it_asks_for_a_set(tmp_path: Path) -> None:
    async def test() -> None:
        bench = Bench(tmp_path)
        async with started(bench):
            await eventually(lambda: bench.roles, "a role")
            alter, register = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, RequestCode.CONTROLLER_REGISTER_BROKER
            bench.controller.requests.clear()
            bench.controller.fails = {
                alter: ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
                register: ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            }
            bench.controller.remark = "Broker metadata is not existed"
            bench.log.slave(2)

            def is_registering() -> bool:
                bench.now_ms += 1000
                return bench.controller.requests.count(register) > 3

            await eventually(is_registering, "registrations")
            assert bench.controller.requests.count(alter) == 1, "nobody takes a set of a stranger"
            bench.controller.fails = {}
            await eventually(lambda: is_registering() and bench.controller.known.ids == {1, 2}, "the set")

    run(test)
