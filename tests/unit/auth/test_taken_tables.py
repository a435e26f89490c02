"""RocketMQ's users and rights, as a broker finds them beside its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketpy.auth.metadata import SavedAuth
from rocketpy.auth.taken_tables import read_taken_tables
from tests.unit.auth.rocksdb_writer import batch, record_file, write_rocksdb

ALICE = {"password": "secret", "subjectType": 1, "userStatus": 2, "userType": 1, "username": "alice"}


def entry(**more: Any) -> dict[str, Any]:
    resource = {"resourcePattern": 3, "resourceType": 4, "resourceName": "orders"}
    return {"actions": [3, 9], "decision": 2, "environment": {"sourceIps": ["10.0.0.0/8"]}, "resource": resource, **more}


def rights(*entries: dict[str, Any], kind: Any = 1) -> dict[str, Any]:
    return {"policies": [{"entries": list(entries), "policyType": kind}], "subject": {"subjectType": 1, "username": "alice"}}


def write(directory: Path, users: dict[str, Any], acls: dict[str, Any]) -> Path:
    for name, rows in (("users", users), ("acls", acls)):
        changes = [(key.encode(), value if isinstance(value, bytes) else json.dumps(value).encode()) for key, value in rows.items()]
        write_rocksdb(directory / name, {4: record_file([batch(1, *changes)])}, {})
    return directory


def test_users_and_rights_are_those_that_rocketmq_lists(tmp_path: Path) -> None:
    everything = entry(resource={"resourcePattern": 1, "resourceType": 1}, environment={}, actions=[1], decision="ALLOW")
    write(tmp_path, {"alice": ALICE}, {"User:alice": rights(entry(), everything), "User:none": {"policies": []}, "Team:x": rights(entry())})
    found = read_taken_tables(tmp_path)
    assert found is not None
    assert [user.to_json() for user in found.users] == [
        {"password": "secret", "userStatus": "disable", "userType": "Super", "username": "alice"}
    ]
    assert [acl.to_json() for acl in found.acls] == [
        {
            "policies": [
                {
                    "entries": [
                        {"actions": ["Pub", "List"], "decision": "Deny", "resource": "Topic:orders*", "sourceIps": ["10.0.0.0/8"]},
                        {"actions": ["All"], "decision": "Allow", "resource": "*", "sourceIps": None},
                    ],
                    "policyType": "Custom",
                }
            ],
            "subject": "User:alice",
        }
    ]
    assert SavedAuth.from_json(json.loads(found.text())) == found


def test_where_rocketmq_kept_none_there_is_nothing_to_take(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    assert read_taken_tables(tmp_path) is None


@pytest.mark.parametrize(
    ("users", "acls", "cause"),
    [
        ({"alice": b"{"}, {}, "users: alice: no JSON"),
        ({"alice": []}, {}, "users: alice: "),
        ({"alice": {**ALICE, "userType": 3}}, {}, "alice: userType is 3"),
        ({"alice": {**ALICE, "password": 5}}, {}, "alice: password is int"),
        ({"alice": {**ALICE, "password": ""}}, {}, "users: alice: a user without name or password"),
        ({"alice": b"[" * 100_000}, {}, "alice: no JSON"),
        ({"alice": {**ALICE, "username": "alice\ud800"}}, {}, "users: alice: "),
        ({"alice": ALICE}, {"User:alice": rights(entry(environment={"sourceIps": ["\ud800"]}))}, "acls: User:alice: "),
        ({"alice": ALICE}, {"User:alice": rights(entry(actions=7))}, "acls: User:alice: "),
        ({"alice": ALICE}, {"User:alice": rights(entry(actions=[12]))}, "acls: User:alice: action is 12"),
        ({"alice": ALICE}, {"User:alice": rights(entry(decision=None))}, "decision is None"),
        ({"alice": ALICE}, {"User:alice": rights(entry(), kind=9)}, "policyType is 9"),
        ({"alice": ALICE}, {"User:alice": rights(entry(environment={"sourceIps": ["x"]}))}, "User:alice: The source ip is invalid"),
        ({"alice": ALICE}, {"User:alice": rights(entry(resource={"resourceType": 8}))}, "is None, which is not known"),
    ],
)
def test_a_user_or_a_right_that_cannot_be_read_is_not_left_out(
    tmp_path: Path, users: dict[str, Any], acls: dict[str, Any], cause: str
) -> None:
    with pytest.raises(ValueError) as error:
        read_taken_tables(write(tmp_path, users, acls))
    assert cause in str(error.value) and "secret" not in str(error.value)


def test_tables_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    """A kill sets RocksDB's sequence numbers back, and changes get them again."""

    def taken(name: str, sequence: int, **users: Any) -> Any:
        changes = [(key.encode(), json.dumps(value).encode()) for key, value in users.items()]
        write_rocksdb(tmp_path / name / "users", {4: record_file([batch(sequence, *changes)])}, {})
        found = read_taken_tables(tmp_path / name)
        assert found is not None and found.taken is not None
        return found.taken

    bob = {**ALICE, "username": "bob"}
    first = taken("first", 5, alice=ALICE, bob=bob)
    assert first == taken("later", 9, alice=ALICE, bob=bob) == taken("turned", 5, bob=bob, alice=ALICE)
    others = [taken("other", 5, alice=ALICE, bob={**bob, "userStatus": 1}), taken("less", 5, alice=ALICE), taken("none", 5)]
    assert len({each.users for each in (first, *others)}) == 4 and len({each.acls for each in (first, *others)}) == 1
