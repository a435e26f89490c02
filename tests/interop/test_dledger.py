"""Groups of our members and DLedger's own (0.3.2, the one of RocketMQ 5.5.0): both lead, follow, catch up, and read each other's files."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.dledger import DLedgerNode, GroupSettings, NotLeader
from rocketpy.dledger.entry_store import EntryStore
from tests.interop.javaenv import MODULE_OPTIONS, QUICK_JVM, UTF_8, java, library
from tests.processes import PATIENCE_S, Process, free_port

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).resolve().parent / "dledger" / "DLedgerMember.java"
FILE_SIZE = 1 << 20
INDEX_FILE_SIZE = 32 * 5 * 1024 * 1024
PATIENCE = 2 * PATIENCE_S
JARS = ("dledger", "commons", "fastjson", "guava", "metrics", "netty", "opentelemetry", "rocketmq-common", "rocketmq-remoting", "slf4j")


class Applied:
    def __init__(self) -> None:
        self.bodies: list[str] = []

    def apply(self, index: int, body: bytes) -> object:
        self.bodies.append(body.decode())
        return index


class Group:
    """Three members' addresses and one directory; each member is ours or DLedger's, as it is started."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.peers = {f"n{number}": f"127.0.0.1:{free_port()}" for number in range(3)}
        self._starts = 0

    def settings(self, self_id: str) -> GroupSettings:
        return GroupSettings(
            "g", self_id, self.peers, self.home, heartbeat_interval_ms=500, data_file_size=FILE_SIZE, index_file_size=INDEX_FILE_SIZE
        )

    def ours(self, self_id: str) -> tuple[DLedgerNode, Applied]:
        machine = Applied()
        return DLedgerNode(self.settings(self_id), machine, bind_address="127.0.0.1"), machine

    def theirs(self, self_id: str, appends: int) -> Process:
        """appends: how many entries it appends when it leads."""
        jars = library()
        names = [str(path) for path in sorted(jars.glob("*.jar")) if path.name.startswith((*JARS, "rocketmq-slf4j-api"))]
        peers = ";".join(f"{member}-{address}" for member, address in self.peers.items())
        arguments = ["g", self_id, peers, str(self.home), str(FILE_SIZE), "500", str(appends)]
        self._starts += 1
        path = os.pathsep.join([str(self._compiled(names)), *names])
        command = [java(), *QUICK_JVM, "-Xmx256m", *MODULE_OPTIONS, "-cp", path, "rocketpy.interop.DLedgerMember", *arguments]
        return Process(f"DLedger {self_id}", command, self.home / f"{self_id}-{self._starts}.log")

    def _compiled(self, jars: list[str]) -> Path:
        """Apart from the other programs: clients of 4.x come without a DLedger."""
        target = self.home / "classes"
        if not target.exists():
            command = ["javac", "-nowarn", "-d", str(target), "-cp", os.pathsep.join(jars), str(SOURCE)]
            subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **UTF_8})
        return target

    def bodies(self, self_id: str) -> list[tuple[int, int, bytes]]:
        """What is in a stopped member's files."""
        store = EntryStore(self.settings(self_id))
        store.open()
        try:
            entries = [store.get(index) for index in range(store.end_index + 1)]
            return [(entry.term, entry.pos, entry.body) for entry in entries]
        finally:
            store.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - of a process's output nobody is told
            await asyncio.sleep(0.05)


def applied_by(process: Process) -> list[str]:
    lines = [line.split(" ", 2) for line in process.output().splitlines() if line.startswith("applied ")]
    return once_each([parts[2] for parts in lines if len(parts) == 3 and parts[2]])


def once_each(bodies: list[str]) -> list[str]:
    """An append that is repeated may have been written before; DLedger repeats what it applies when it is told of more than it has."""
    return list(dict.fromkeys(bodies))


async def append_to(nodes: list[DLedgerNode], text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                for node in nodes:
                    if node.is_leader:
                        await node.append(text.encode())
                        return
            except (NotLeader, TimeoutError):
                continue
            await asyncio.sleep(0.05)


def test_theirs_follows_ours_catches_up_after_kill_9_and_goes_on_with_our_files(tmp_path: Path) -> None:
    async def scenario() -> None:
        group = Group(tmp_path)
        pairs = [group.ours("n0"), group.ours("n1")]
        nodes = [node for node, _ in pairs]
        for node in nodes:
            await node.start()
        with group.theirs("n2", 0) as member:
            await until(lambda: "started" in member.output())
            for number in range(30):
                await append_to(nodes, f"a{number}")
            await until(lambda: "a29" in applied_by(member))
            member.kill()
        for number in range(30):
            await append_to(nodes, f"b{number}")
        with group.theirs("n2", 0) as member:
            await until(lambda: "b29" in applied_by(member))
            await until(lambda: applied_by(member) == once_each(pairs[0][1].bodies))
            await nodes[0].stop()
            with group.theirs("n0", 0) as moved:  # DLedger in the directory of ours
                await until(lambda: "b29" in applied_by(moved))
            assert dict.fromkeys(applied_by(moved)).keys() >= {"a0", "a29", "b0", "b29"}
        await nodes[1].stop()
        ours, theirs = group.bodies("n1"), group.bodies("n2")
        shorter = min(len(ours), len(theirs))
        assert shorter >= 60
        assert ours[:60] == theirs[:60]

    asyncio.run(scenario())


def test_ours_follows_theirs_and_takes_over_from_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        group = Group(tmp_path)
        with group.theirs("n1", 20) as first, group.theirs("n2", 20) as second:
            await until(lambda: "appended 200" in first.output() + second.output())
            node, machine = group.ours("n0")
            await node.start()
            leads, follows = (first, second) if "role LEADER" in first.output() else (second, first)
            await until(lambda: len(machine.bodies) >= 20)
            assert once_each(machine.bodies)[:20] == applied_by(leads)[:20]
            leads.kill()
            await until(lambda: node.is_leader or "role LEADER" in follows.output())
            if node.is_leader:
                await node.append(b"ours")
                await until(lambda: "ours" in applied_by(follows))
            else:
                await until(lambda: len(machine.bodies) > 20)
            assert applied_by(follows)[:20] == once_each(machine.bodies)[:20]
            await node.stop()

    asyncio.run(scenario())
