"""Members over sockets and files: alone, three of them, with a disk that fails, and strangers' bytes on the port."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketpy._core.errors import Closed, InvalidArgument, RocketpyError, StoreCorrupt, StoreIOError
from rocketpy.dledger import DLedgerNode, GroupSettings, NotLeader, Role, parse_peers
from rocketpy.dledger.bodies import HeartBeatResponse, Message, MetadataResponse, PushResponse, VoteRequest, VoteResponse
from rocketpy.dledger.codes import DLedgerRequestCode, DLedgerResponseCode, VoteResult
from rocketpy.dledger.entry_store import EntryStore
from rocketpy.dledger.replica import Replica
from rocketpy.remoting.client import RemotingClient
from tests.processes import PATIENCE_S, free_port


class Applied:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def apply(self, index: int, body: bytes) -> object:
        if body == b"fails":
            raise ValueError("as asked")
        self.bodies.append(body)
        return len(self.bodies)


def node_of(path: Path, peers: dict[str, str], self_id: str = "n0") -> tuple[DLedgerNode, Applied]:
    settings = GroupSettings(
        "g", self_id, peers, path, heartbeat_interval_ms=200, heartbeats_missed_max=5, vote_interval_min_ms=50, vote_interval_max_ms=250,
        append_timeout_ms=int(PATIENCE_S * 1000), data_file_size=1 << 20, index_file_size=32 << 10,
    )  # fmt: skip
    machine = Applied()
    return DLedgerNode(settings, machine, bind_address="127.0.0.1"), machine


def peers_of(count: int) -> dict[str, str]:
    return {f"n{number}": f"127.0.0.1:{free_port()}" for number in range(count)}


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - several members in one loop, and no event for what a test looks at
            await asyncio.sleep(0.01)


async def append_to(nodes: list[DLedgerNode], body: bytes) -> DLedgerNode:
    """Appends to whoever leads, again until it is committed: on a machine that stands still leaders come and go. Returns who led."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await until(lambda: any(node.is_leader for node in nodes))
            try:
                leader = next(node for node in nodes if node.is_leader)
                await leader.append(body)
            except NotLeader:
                continue
            return leader


def once_each(bodies: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(bodies))


@asynccontextmanager
async def running(*nodes: DLedgerNode) -> AsyncIterator[None]:
    try:
        for node in nodes:
            await node.start()
        yield
    finally:
        for node in nodes:
            await node.stop()


def test_one_member_appends_applies_and_remembers(tmp_path: Path) -> None:
    async def scenario() -> None:
        peers = peers_of(1)
        node, machine = node_of(tmp_path, peers)
        roles: list[tuple[Role, int]] = []
        node.on_role_change.append(lambda role, term: roles.append((role, term)))
        async with running(node):
            await until(lambda: node.is_leader)
            assert await asyncio.gather(*(node.append(b"%d" % number) for number in range(5))) == [1, 2, 3, 4, 5]
            with pytest.raises(ValueError, match="as asked"):
                await node.append(b"fails")
            assert await node.append(b"") is None
            assert roles == [(Role.LEADER, node.term)]
            assert (node.leader_id, node.leader_address) == ("n0", peers["n0"])
            term = node.term
        again, replayed = node_of(tmp_path, peers)
        async with running(again):
            await until(lambda: again.is_leader and len(replayed.bodies) == 5)
            assert replayed.bodies == machine.bodies
            assert again.term > term

    asyncio.run(scenario())


def test_what_fails_as_its_asker_gives_up_leaves_no_log_line(tmp_path: Path) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        untold: list[str] = []
        loop.set_exception_handler(lambda loop, context: untold.append(context["message"]))
        node, _ = node_of(tmp_path, peers_of(1))
        for has_failed in (True, False):
            future = loop.create_future()
            asking = asyncio.create_task(node._outcome(future, "had the entry"))
            await asyncio.sleep(0)
            if has_failed:
                future.set_exception(NotLeader("n0 stopped to lead", "", ""))
            asking.cancel()  # in the same turn, as by Leadership.role_changed
            await asyncio.wait([asking])
            assert asking.cancelled() and future.done()
            del future, asking
        gc.collect()
        assert untold == []

    asyncio.run(scenario())


def test_three_members_agree_and_go_on_without_their_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        peers = peers_of(3)
        pairs = [node_of(tmp_path, peers, name) for name in peers]
        nodes = [node for node, _ in pairs]
        async with running(*nodes):
            leader = await append_to(nodes, b"first")
            await until(lambda: any(node.role is Role.FOLLOWER for node in nodes))
            follower = next(node for node in nodes if node.role is Role.FOLLOWER)
            with pytest.raises(NotLeader):
                await follower.append(b"no")
            await leader.stop()
            rest = [node for node in nodes if node is not leader]
            await append_to(rest, b"second")
            back, machine = node_of(tmp_path, peers, leader.settings.self_id)
            async with running(back):
                await until(lambda: once_each(machine.bodies) == [b"first", b"second"])
            for node, applied in pairs:
                await until(lambda node=node, applied=applied: node is leader or once_each(applied.bodies) == [b"first", b"second"])

    asyncio.run(scenario())


def test_a_leader_is_certain_that_it_leads_while_a_majority_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        peers = peers_of(3)
        nodes = [node_of(tmp_path, peers, name)[0] for name in peers]
        async with running(*nodes):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        leader = await append_to(nodes, b"one")
                        await asyncio.gather(*(leader.confirm() for _ in range(100)))
                        break
                    except NotLeader:
                        continue
            rest = [node for node in nodes if node is not leader]
            with pytest.raises(NotLeader):
                await rest[0].confirm()
            for node in rest:
                await node.stop()
            with pytest.raises(NotLeader):
                await leader.confirm()

    asyncio.run(scenario())


def test_whoever_is_stopped_while_it_waits_leaves_no_error_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        node, _ = node_of(tmp_path, peers_of(1))
        async with running(node):
            await until(lambda: node.is_leader)
            monkeypatch.setattr(DLedgerNode, "_write_appends", lambda self: None)
            waiting = asyncio.create_task(node.append(b"one"))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            del waiting  # its frames hold what it waited for
        gc.collect()
        assert complaints == []

    asyncio.run(scenario())


def test_who_is_alone_is_certain_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, _ = node_of(tmp_path, peers_of(1))
        async with running(node):
            await until(lambda: node.is_leader)
            await node.confirm()
        with pytest.raises(Closed):
            await node.confirm()

    asyncio.run(scenario())


def test_a_disk_that_fails_takes_the_member_out_and_one_that_works_again_brings_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("rocketpy.dledger.node.HEAL_MS", 50)
        node, machine = node_of(tmp_path, peers_of(1))

        def fails(self: EntryStore) -> None:
            raise StoreIOError("the sync failed")

        async with running(node):
            await until(lambda: node.is_leader)
            await node.append(b"before")
            with monkeypatch.context() as broken:
                broken.setattr(EntryStore, "sync", fails)
                with pytest.raises(StoreIOError):
                    await node.append(b"lost or not")
                assert not node.is_leader
                assert isinstance(node.fault, StoreIOError)
            await until(lambda: node.is_leader and node.fault is None)
            await node.append(b"after")
            assert machine.bodies[0] == b"before"
            assert machine.bodies[-1] == b"after"

    asyncio.run(scenario())


def test_a_member_ticks_on_behind_a_fault_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("rocketpy.dledger.node.HEAL_MS", 50)
        node, machine = node_of(tmp_path, peers_of(1))

        def fails(self: Replica, now: int) -> None:
            raise ValueError("nobody thought of this")

        async with running(node):
            await until(lambda: node.is_leader)
            with monkeypatch.context() as broken:
                broken.setattr(Replica, "tick", fails)
                await until(lambda: node.fault is not None)
                assert not node.is_leader
            await until(lambda: node.is_leader and node.fault is None)
            await node.append(b"after")
            assert machine.bodies == [b"after"]

    asyncio.run(scenario())


def test_a_mistake_while_an_entry_is_written_is_told_to_who_waits_for_it_and_is_not_the_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("rocketpy.dledger.node.HEAL_MS", 50)
        node, _ = node_of(tmp_path, peers_of(1))
        strays: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: strays.append(context))

        def fails(self: Replica, bodies: list[bytes]) -> int:
            raise ValueError("nobody thought of this")

        async with running(node):
            await until(lambda: node.is_leader)
            with monkeypatch.context() as broken:
                broken.setattr(Replica, "append", fails)
                with pytest.raises(RocketpyError, match="files are not to blame: ValueError: nobody thought of this") as caught:
                    await node.append(b"never written")
            assert not isinstance(caught.value, StoreCorrupt) and not strays
            await until(lambda: node.is_leader and node.fault is None)

    asyncio.run(scenario())


def test_strangers_are_refused_with_dledgers_codes(tmp_path: Path) -> None:
    async def scenario() -> None:
        peers = peers_of(1)
        node, _ = node_of(tmp_path, peers)
        async with running(node), RemotingClient() as client:
            await until(lambda: node.is_leader)

            async def ask(code: int, body: bytes, kind: type[Message]) -> Message:
                return kind.decode((await client.invoke(peers["n0"], code, None, body, timeout_s=PATIENCE_S)).body)

            for body in (b"", b"[]", b"{", b'{"term":1e999}', b'{"term":99999999999999999999}', b'{"entry":{}}', b"[" * 5000):
                answer = await ask(DLedgerRequestCode.PUSH, body, PushResponse)
                assert answer.code == DLedgerResponseCode.UNEXPECTED_ARGUMENT
            vote = VoteRequest(group="g", remote_id="n0", local_id="n9", leader_id="n9", term=1 << 62)
            result = await ask(DLedgerRequestCode.VOTE, vote.encode(), VoteResponse)
            assert isinstance(result, VoteResponse)
            assert result.vote_result is VoteResult.REJECT_UNKNOWN_LEADER
            vote.group = "h"
            assert (await ask(DLedgerRequestCode.VOTE, vote.encode(), VoteResponse)).code == DLedgerResponseCode.UNKNOWN_GROUP
            vote.remote_id = "n1"
            assert (await ask(DLedgerRequestCode.HEART_BEAT, vote.encode(), HeartBeatResponse)).code == DLedgerResponseCode.UNKNOWN_MEMBER
            assert (await ask(DLedgerRequestCode.APPEND, b"{}", Message)).code == DLedgerResponseCode.UNSUPPORTED
            metadata = await ask(DLedgerRequestCode.METADATA, b"{}", MetadataResponse)
            assert isinstance(metadata, MetadataResponse)
            assert (metadata.peers, metadata.leader_id) == (peers, "n0")
            assert node.is_leader

    asyncio.run(scenario())


def test_peers_are_read_as_dledger_reads_them() -> None:
    assert parse_peers("n0-127.0.0.1:1;n1-a-host:2;") == {"n0": "127.0.0.1:1", "n1": "a-host:2"}
    for text in ("", "n0", "n0-host", "n0-a:1;n0-b:2", "-a:1"):
        with pytest.raises(InvalidArgument):
            parse_peers(text)
