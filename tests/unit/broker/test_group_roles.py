"""What a broker is to be as a member of a DLedger group: decisions, and a switch around a group of the test's own."""

from __future__ import annotations

from rocketpy.broker.group_roles import NOBODY, STALE_MS, ElectedRole
from rocketpy.broker.replica_state import Role
from rocketpy.dledger.member import Role as MemberRole

OWN, OTHER, THIRD = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


def test_the_leader_is_the_master_and_the_others_are_slaves_of_its_number() -> None:
    elected = ElectedRole(OWN)
    assert elected.take(MemberRole.LEADER, 3, "n0", 0) == Role(0, OWN, 3, is_master=True)
    assert elected.take(MemberRole.FOLLOWER, 4, "n2", 0) == Role(3, "", 4, is_master=False)


def test_who_stands_for_election_is_no_master_any_more_and_stays_a_slave() -> None:
    elected = ElectedRole(OWN)
    assert elected.take(MemberRole.CANDIDATE, 1, None, 0) == Role(NOBODY, "", 1, is_master=False)
    assert elected.take(MemberRole.CANDIDATE, 2, None, 0) is None
    elected.take(MemberRole.LEADER, 3, "n0", 0)
    assert elected.take(MemberRole.CANDIDATE, 3, None, 0) == Role(NOBODY, "", 3, is_master=False)


def test_the_masters_address_is_what_a_name_server_says_of_a_leader_that_is_known() -> None:
    elected = ElectedRole(OWN)
    assert elected.heard_of_master(OTHER, 0) == "", "nobody leads yet"
    elected.take(MemberRole.FOLLOWER, 1, "n1", 0)
    assert [elected.heard_of_master(each, 0) for each in (None, "", OWN)] == ["", "", ""]
    assert elected.heard_of_master(OTHER, 0) == OTHER
    assert elected.take(MemberRole.FOLLOWER, 2, "n1", 0) == Role(2, OTHER, 2, is_master=False), "the same leader, elected again"
    elected.take(MemberRole.LEADER, 3, "n0", 0)
    assert elected.heard_of_master(OTHER, 0) == "", "a master copies from nobody"


def test_a_name_server_that_still_names_the_master_before_is_not_believed_for_a_while() -> None:
    elected = ElectedRole(OWN)
    elected.take(MemberRole.FOLLOWER, 1, "n1", 0)
    elected.heard_of_master(OTHER, 0)
    elected.take(MemberRole.CANDIDATE, 1, None, 10)
    elected.take(MemberRole.FOLLOWER, 2, "n2", 10)
    assert elected.heard_of_master(OTHER, 20) == ""
    assert elected.heard_of_master(THIRD, 20) == THIRD
    elected.take(MemberRole.FOLLOWER, 3, "n1", 30)
    assert elected.heard_of_master(THIRD, 40) == "" and elected.heard_of_master(OTHER, 40) == OTHER, "and back"
    elected.take(MemberRole.FOLLOWER, 4, "n2", 50)
    assert elected.heard_of_master(OTHER, 50 + STALE_MS) == OTHER, "somebody else may have its address by then"
