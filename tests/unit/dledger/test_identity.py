"""Which process is the member: who is reached at its address, and who else answers there."""

from __future__ import annotations

from pathlib import Path

from rocketpy.dledger.bodies import MetadataResponse
from rocketpy.dledger.identity import ADDRESSES_MAX, ASK_MS, Identity, Question
from rocketpy.dledger.settings import GroupSettings

PEERS = {"n0": "a:1", "n1": "b:1", "n2": "c:1"}
SELF = Question("n0", "a:1")


def identity_of(peers: dict[str, str] = PEERS) -> Identity:
    return Identity(GroupSettings("g", "n0", peers, Path("/nowhere")), "ours")


def answer_of(peers: dict[str, str] = PEERS, instance: str | None = None, group: str = "g") -> MetadataResponse:
    return MetadataResponse(group=group, peers=dict(peers), instance=instance)


def test_who_answers_itself_is_reached() -> None:
    identity = identity_of()
    assert set(identity.due(0)) == {SELF, Question("n1", "b:1"), Question("n2", "c:1")} and not identity.is_reached
    identity.answered(SELF, answer_of(instance="ours"))
    assert identity.is_reached and not identity.fault
    assert identity.due(ASK_MS - 1) == []
    assert set(identity.due(ASK_MS)) == {Question("n1", "b:1"), Question("n2", "c:1")}


def test_another_process_at_our_address_is_told_until_we_answer_there() -> None:
    for instance in ("theirs", None):
        identity = identity_of()
        identity.due(0)
        identity.answered(SELF, answer_of(instance=instance))
        assert not identity.is_reached and "a:1" in identity.fault and "n0" in identity.fault
        assert SELF in identity.due(ASK_MS)
        identity.answered(SELF, answer_of(instance="ours"))
        assert identity.is_reached and not identity.fault


def test_the_address_by_which_another_member_knows_us_is_asked_too() -> None:
    identity = identity_of()
    identity.due(0)
    identity.answered(SELF, answer_of(instance="ours"))
    identity.answered(Question("n1", "b:1"), answer_of({**PEERS, "n0": "elsewhere:1"}))
    elsewhere = Question("n0", "elsewhere:1")
    assert elsewhere in identity.due(1)
    identity.answered(elsewhere, answer_of(instance="theirs"))
    assert "elsewhere:1" in identity.fault
    identity.answered(elsewhere, answer_of(instance="ours"))
    assert not identity.fault, "it is ours under another name"


def test_a_question_of_another_member_says_that_we_are_reached() -> None:
    identity = identity_of()
    for stranger in (None, "n0", "n7"):
        identity.addressed(stranger)
        assert not identity.is_reached
    identity.addressed("n2")
    assert identity.is_reached


def test_who_is_alone_needs_nobody_to_reach_it() -> None:
    assert identity_of({"n0": "a:1"}).is_reached


def test_hostile_answers_are_no_addresses_and_not_without_bound() -> None:
    identity = identity_of()
    others = Question("n1", "b:1")
    for address in ("", "nowhere", "host:", "host:x", "host:99999", "a:1"):
        identity.answered(others, answer_of({"n0": address}))
    identity.answered(others, answer_of({"n0": "stranger:1"}, group="other"))
    identity.answered(others, MetadataResponse())
    assert {question.address for question in identity.due(0)} == {"a:1", "c:1"}
    for number in range(100):
        identity.answered(others, answer_of({"n0": f"host:{number}"}))
    assert len(identity.due(ASK_MS)) <= ADDRESSES_MAX + len(PEERS)
