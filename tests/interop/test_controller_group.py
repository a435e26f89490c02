"""Three controllers and two of our brokers: the leading controller is killed, then the master. One of the three may be RocketMQ's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_until

from . import wire
from .products import Broker, Controller, NameServer, Product
from .test_controller import send

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

GET_METADATA, GET_SYNC_STATE_DATA, GET_NEXT_BROKER_ID, NOT_LEADER = 1005, 1006, 1012, 2007
NAME = "broker-a"
PATIENT_S = 150.0
ENTRY_HEAD = 48


class Group:
    """The controllers, of whom some run."""

    def __init__(self, products: list[Product], home: Path) -> None:
        settings = {"scanInactiveMasterInterval": 500, "scanNotActiveBrokerInterval": 500}
        self.members = [Controller(product, home / f"n{number}", settings) for number, product in enumerate(products)]
        peers = ";".join(f"n{number}-{each.address}" for number, each in enumerate(self.members))
        for number, each in enumerate(self.members):
            each.settings |= {"controllerDLegerPeers": peers, "controllerDLegerSelfId": f"n{number}"}

    @property
    def addresses(self) -> str:
        return ";".join(each.address for each in self.members)

    @property
    def running(self) -> list[Controller]:
        return [each for each in self.members if each.is_running]

    def _leader(self) -> Controller | None:
        said = {wire.call(each.address, GET_METADATA).fields.get("controllerLeaderAddress") for each in self.running}
        return next((each for each in self.running if said == {each.address}), None)

    def leader(self) -> Controller:
        """Whom all that run call so."""
        return wait_until(lambda: self._leader(), PATIENT_S, "one leader", every=0.1, not_yet=OSError)

    def replicas(self) -> dict[str, Any]:
        """RocketMQ: ReplicasInfo; empty while nobody leads or knows the set."""
        leader = self._leader()
        if leader is None:
            return {}
        reply = wire.call(leader.address, GET_SYNC_STATE_DATA, body=f'["{NAME}"]'.encode())
        return (reply.json()["replicasInfoTable"].get(NAME) or {}) if reply.code == 0 else {}

    def await_replicas(self, master: Broker, *in_sync: Broker) -> dict[str, Any]:
        wanted = {each.address for each in in_sync}

        def look() -> dict[str, Any] | None:
            found = self.replicas()
            members = {each["brokerAddress"] for each in found.get("inSyncReplicas", ())}
            return found if found.get("masterAddress") == master.address and members == wanted else None

        found = wait_until(look, PATIENT_S, f"{master.address} leads {wanted}", every=0.1, not_yet=(OSError, AssertionError))
        assert found is not None
        return found


def log_of(controller: Controller) -> bytes:
    """A stopped member's entries, each with what every member must agree about: all of its head but the CRC of its body."""
    data = (controller.home / "log" / f"dledger-{controller.settings['controllerDLegerSelfId']}" / "data" / f"{0:020d}").read_bytes()
    at, entries = 0, b""
    while (size := int.from_bytes(data[at + 4 : at + 8], "big")) >= ENTRY_HEAD:
        entry = data[at : at + size]
        entries += entry[:40] + entry[44:]
        at += size
    return entries


@pytest.mark.parametrize("members", ["ours", "one-theirs"])
def test_a_killed_leader_and_a_killed_master_are_both_followed(product: Product, peer: Product, tmp_path: Path, members: str) -> None:
    group = Group([product, product, product if members == "ours" else peer], tmp_path)
    namesrv = NameServer(product, tmp_path / "namesrv").start()
    settings = {
        "enableControllerMode": True,
        "controllerAddr": group.addresses,
        "brokerId": -1,
        "allAckInSyncStateSet": True,
        "syncBrokerMetadataPeriod": 500,
        "checkSyncStateSetPeriod": 500,
        "syncControllerMetadataPeriod": 500,
        "brokerHeartbeatInterval": 500,
    }
    one, two = (Broker(product, tmp_path / name, namesrv.address, settings, NAME) for name in ("one", "two"))
    try:
        for each in group.members:
            each.start()
        first = group.leader()
        for follower in (each for each in group.members if each is not first):
            refused = wire.call(follower.address, GET_NEXT_BROKER_ID, {"clusterName": "c", "brokerName": NAME})
            assert refused.code == NOT_LEADER, refused
        one.launch()
        group.await_replicas(one, one)
        two.launch()
        before = group.await_replicas(one, one, two)
        wait_until(lambda: send(one.address, b"first") == 0, PATIENT_S, "a send acknowledged", every=0.2)

        first.kill()
        second = group.leader()
        assert second is not first
        after = group.await_replicas(one, one, two)
        assert after["masterEpoch"] == before["masterEpoch"], "a master that lives stays"
        assert send(one.address, b"second") == 0

        one.kill()
        promoted = group.await_replicas(two, two)
        assert promoted["masterEpoch"] > after["masterEpoch"]
        wait_until(lambda: send(two.address, b"third") == 0, PATIENT_S, "the new master takes sends", every=0.2)

        first.start()
        one.launch()
        group.await_replicas(two, one, two)
        assert len(group.running) == 3 and group.leader() is not None
        wait_until(lambda: send(two.address, b"fourth") == 0, PATIENT_S, "a send acknowledged by both", every=0.2)

        third, theirs = group.leader(), group.members[2]
        third.kill()
        group.leader()
        third.start()
        theirs.kill()
        theirs.product = product  # in the directory of RocketMQ's
        theirs.start()
        next(each for each in group.members if each is not theirs).kill()
        known = group.await_replicas(two, one, two)
        assert known["masterEpoch"] == promoted["masterEpoch"]
    finally:
        for broker in (one, two):
            broker.kill()
        for each in group.members:
            each.kill()
        namesrv.kill()
    logs = sorted((log_of(each) for each in group.members), key=len)
    assert len(logs[0]) > 5 * ENTRY_HEAD
    assert all(log.startswith(logs[0]) for log in logs), "two logs"
