"""Users and rights as a replica takes them over from its master."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpy._core.errors import NoMemory
from rocketpy.auth.metadata import AuthMetadata
from rocketpy.auth.users import User
from rocketpy.broker.copied_users import CopiedUsers
from tests.unit.auth.recorder import Recorder

INNER = User("inner", "secret-of-inner", "Super", "enable")


def user(name: str, password: str = "secret", status: str = "enable") -> dict[str, Any]:
    return {"username": name, "password": password, "userType": "Normal", "userStatus": status}


def rights(name: str, *topics: str) -> dict[str, Any]:
    entries = [{"resource": f"Topic:{topic}", "actions": ["Pub"], "decision": "Allow"} for topic in topics]
    return {"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": entries}]}


class Replica:
    def __init__(self) -> None:
        self.sink = Recorder()
        self.metadata = AuthMetadata(self.sink)
        self.metadata.users.create(INNER)
        self.copied = CopiedUsers(self.metadata, lambda: {"inner"})

    def take(self, users: Any, acls: Any) -> bool:
        """One round of copying."""
        assert not self.copied.take_users(users)
        return self.copied.take_rights(acls)


def test_they_become_the_masters_and_change_nothing_twice() -> None:
    replica = Replica()
    assert replica.take([user("a"), user("b")], [rights("a", "t"), rights("b", "t")])
    assert set(replica.sink.users) == {"inner", "a", "b"} and set(replica.sink.acls) == {"a", "b"} and replica.sink.published == 1
    assert not replica.take([user("a"), user("b")], [rights("a", "t"), rights("b", "t")]) and replica.sink.published == 1
    assert replica.take([user("a", "other", "disable")], [rights("a", "u")])
    assert set(replica.sink.users) == {"inner", "a"} and replica.sink.users["a"] == ("other", False, False)
    acl = replica.metadata.acls.get("a")
    assert acl is not None and [entry.resource.name for entry in acl.custom] == ["u"], "in place of those it had"
    assert replica.take([user("a", "other", "disable")], None) and not replica.sink.acls


def test_a_master_without_users_takes_nobody_away_and_one_half_of_a_round_does_nothing() -> None:
    replica = Replica()
    replica.take([user("a")], [rights("a", "t")])
    for users in (None, []):
        assert not replica.take(users, None) and set(replica.sink.users) == {"inner", "a"}
    replica.copied.take_users([user("b")])
    assert set(replica.sink.users) == {"inner", "a"}, "they count with their rights"
    replica.copied.take_rights([])
    assert not replica.copied.take_rights([rights("a", "t")]), "whose users were not heard of"
    assert set(replica.sink.users) == {"inner", "b"}


@pytest.mark.parametrize(("users", "acls"), [("x", []), ([{"username": "a"}], []), ([1], []), ([user("a")], [{"subject": "a"}])])
def test_an_answer_that_cannot_be_read_changes_nothing(users: Any, acls: Any) -> None:
    replica = Replica()
    with pytest.raises(ValueError):
        replica.take(users, acls)
    assert set(replica.sink.users) == {"inner"} and not replica.sink.published


def test_what_found_no_memory_is_taken_with_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    replica.sink.is_full = True
    with pytest.raises(NoMemory):
        replica.take([user("a")], [])
    replica.sink.is_full = False

    def refuses() -> None:
        raise NoMemory("no memory")

    with monkeypatch.context() as patches, pytest.raises(NoMemory):
        patches.setattr(replica.sink, "publish", refuses)
        replica.take([user("a")], [])
    assert replica.take([user("a")], []) and set(replica.sink.users) == {"inner", "a"} and replica.sink.published == 1
