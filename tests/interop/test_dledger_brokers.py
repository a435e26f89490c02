"""Groups of brokers whose commit log is DLedger's: who leads, what is acknowledged, and what of it is there when the leader is killed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rocketpy.dledger.codes import DLedgerRequestCode, DLedgerResponseCode
from rocketpy.dledger.settings import parse_peers
from rocketpy.dledger.term_file import TermFile
from tests.processes import wait_until

from . import wire
from .dledger_group import FILE_SIZE, Group, dledger_group, knows, log_bytes, log_files
from .javaenv import JavaClients
from .products import Broker, Peer, Product
from .stored import queue_end, records
from .test_controller_mode import FIELDS, SEND, TOPIC, Load, acknowledges_more, send
from .test_pairs import log_end

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MEMBERS = {"theirs": "TTT", "ours": "OOO", "one of ours": "TTO", "two of ours": "OOT"}
"""Who the members are, T: RocketMQ's, O: the product under test."""
SMALL_HEAP = "256m"
LARGE = 256 << 10


@pytest.fixture
def theirs(peer: Product) -> Peer:
    heavy = Peer(heap=SMALL_HEAP)
    heavy.starts_within = 180.0  # three of them at once
    return heavy


@pytest.fixture
def group(product: Product, theirs: Peer, tmp_path: Path) -> Iterator[Callable[..., Group]]:
    """group("TTO", **settings of all): its members, none running."""
    with ExitStack() as stack:

        def make(members: str, **settings: Any) -> Group:
            products = [theirs if member == "T" else product for member in members]
            return stack.enter_context(dledger_group(product, products, tmp_path, settings))

        yield make


def bodies(member: Broker) -> list[bytes]:
    return [each.body for each in records(member.address, TOPIC, 0)]


def await_same_log(group: Group, *members: Broker) -> None:
    """Until all of them hold the leader's log to its end, and their queues all of it."""
    leader = group.await_master()
    for member in members:
        wait_until(lambda member=member: log_end(member) == log_end(leader) > 0, 90, f"{member.address} follows")
    end = log_end(leader)
    for member in members:
        assert log_bytes(member, end) == log_bytes(leader, end), "two logs"
    stored = bodies(leader)
    for member in members:
        wait_until(lambda member=member: knows(member, TOPIC), 60, "the topic at a follower")
        wait_until(lambda member=member: bodies(member) == stored, 60, "a follower's queue")


@pytest.mark.parametrize("who", MEMBERS)
def test_nothing_acknowledged_is_missing_when_the_leader_is_killed(group: Callable[..., Group], who: str) -> None:
    leaders_are_killed_under_load(group(MEMBERS[who]))


def test_batches_of_entries_and_syncs_change_nothing_of_that(group: Callable[..., Group]) -> None:
    leaders_are_killed_under_load(group("OOT", enableBatchPush=True, flushDiskType="SYNC_FLUSH"))


def leaders_are_killed_under_load(brokers: Group) -> None:
    brokers.start()
    brokers.await_roles()
    load = Load(brokers)
    load.start()
    acknowledges_more(load)
    for _ in range(2):
        killed = brokers.await_master()
        killed.kill()
        brokers.await_master(other_than=killed)
        acknowledges_more(load)
        brokers.start(killed)
        acknowledges_more(load)
    acked = load.end()
    leader = brokers.await_roles()
    stored = bodies(leader)
    assert set(acked) <= set(stored), sorted(set(acked) - set(stored))[:10]
    was_acked = set(acked)
    assert [body for body in stored if body in was_acked] == acked, "the order in which they were sent"
    await_same_log(brokers, *(member for member in brokers.members if member is not leader))


@pytest.mark.parametrize("who", MEMBERS)
def test_a_member_with_an_empty_disk_gets_everything(group: Callable[..., Group], who: str) -> None:
    brokers = group(MEMBERS[who])
    first, second, late = brokers.members
    brokers.start(first, second)
    leader = brokers.await_roles()
    wait_until(lambda: send(leader, b"first"), 60, "the first message")
    for _ in range(3 * FILE_SIZE // LARGE):
        assert wire.call(leader.address, SEND, {**FIELDS, "i": ""}, os.urandom(LARGE)).code == 0
    brokers.start(late)
    brokers.await_roles()
    await_same_log(brokers, late)
    assert len(log_files(late)) > 2, "it rolled over files"


def hand_over(brokers: Group, to: Broker) -> int:
    """As DLedger's command line asks the leader for it; DLedger's code."""
    leader = brokers.await_master()
    peers = parse_peers(leader.settings["dLegerPeers"])
    own, other = (f"n{member.broker_id - 1}" for member in (leader, to))
    promises = TermFile(leader.store / f"dledger-{own}" / "currterm")
    assert promises.read()
    named = {"group": leader.settings["dLegerGroup"], "remoteId": own, "localId": own}
    asked = {**named, "term": promises.term, "transferId": own, "transfereeId": other}
    return int(wire.call(peers[own], DLedgerRequestCode.LEADERSHIP_TRANSFER, body=json.dumps(asked).encode()).json()["code"])


@pytest.mark.parametrize("who", ["OTT", "OOT"])
def test_the_lead_goes_from_one_product_to_the_other_and_back(group: Callable[..., Group], who: str) -> None:
    brokers = group(who)
    brokers.start()
    leader = brokers.await_roles()
    load = Load(brokers)
    load.start()
    acknowledges_more(load)
    ours, theirs = brokers.members[0], brokers.members[-1]
    for target in (theirs, ours, theirs) if leader is ours else (ours, theirs, ours):
        if brokers.await_master() is not target:
            assert hand_over(brokers, target) == DLedgerResponseCode.SUCCESS
        wait_until(lambda target=target: brokers.master() is target, 60, f"{target.address} is the master")
        acknowledges_more(load)
    acked = load.end()
    assert set(acked) <= set(bodies(brokers.await_roles())), "nothing acknowledged is lost on the way"


@pytest.mark.parametrize("who", MEMBERS)
def test_clients_send_and_read_through_a_failover(group: Callable[..., Group], who: str, clients: Callable[..., JavaClients]) -> None:
    brokers = group(MEMBERS[who])
    brokers.start()
    leader = brokers.await_roles()
    wait_until(lambda: send(leader, b"there is a topic"), 60, "the first message")
    wait_until(lambda: len(brokers.cluster.route(TOPIC)) > 0, 60, "its route")
    java = clients(brokers.cluster)
    consumer = java.push("GID-failover", TOPIC)
    producer = java.producer()
    sent = [f"before {number}" for number in range(30)]
    producer.send(TOPIC, *sent)
    consumer.received(31)
    leader.kill()
    brokers.await_master(other_than=leader)
    java.close()
    java = clients(brokers.cluster)
    consumer = java.push("GID-failover", TOPIC)
    after = [f"after {number}" for number in range(30)]
    java.producer().send(TOPIC, *after)
    wait_until(lambda: {each["body"].decode() for each in consumer.received()} >= set(after), 90, "what was sent afterwards")


@pytest.mark.parametrize("way", ["theirs-ours", "ours-theirs"])
def test_a_store_changes_hands(product: Product, theirs: Peer, tmp_path: Path, way: str) -> None:
    """A group of one: what one product wrote the other one reads and goes on writing, and back again."""
    one, other = {"theirs-ours": (theirs, product), "ours-theirs": (product, theirs)}[way]
    with dledger_group(product, [one], tmp_path) as brokers:
        (member,) = brokers.members
        wanted: list[bytes] = []
        for product_now in (one, other, one):
            member.product = product_now
            brokers.start()
            brokers.await_roles()
            wait_until(lambda: queue_end(member.address, TOPIC, 0) == len(wanted), 60, "all messages of before")
            assert not wanted or bodies(member) == wanted
            for number in range(200):
                body = b"%d of %s" % (number, product_now.name.encode())
                wait_until(lambda body=body: send(member, body), 60, "a message acknowledged")
                wanted.append(body)
            assert bodies(member) == wanted
            member.stop() if product_now is one else member.kill()
        shutil.rmtree(member.store)
