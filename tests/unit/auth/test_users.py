"""Users, and the file of users and rights."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import NoMemory
from rocketpy.auth.acls import Acl
from rocketpy.auth.faults import AuthFault
from rocketpy.auth.metadata import AUTH_FILE, AuthMetadata, SavedAuth
from rocketpy.auth.users import User, UserTable
from rocketpy.broker.persistence import SavedState
from tests.unit.auth.recorder import Recorder

ALICE = User("alice", "secret-of-alice")
RIGHTS = Acl.from_json(
    {"subject": "User:alice", "policies": [{"entries": [{"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"}]}]}
)


def saved(metadata: AuthMetadata, directory: Path) -> SavedState:
    return SavedState(directory / AUTH_FILE, metadata.snapshot, lambda: metadata.change_count, SavedAuth.text, is_private=True)


def test_a_new_user_is_normal_and_enabled() -> None:
    sink = Recorder()
    table = UserTable(sink)
    table.create(ALICE)
    assert table.get("alice") == User("alice", "secret-of-alice", "Normal", "enable")
    assert sink.users == {"alice": ("secret-of-alice", False, True)}


@pytest.mark.parametrize(
    ("user", "remark"),
    [
        (User(" ", "x"), "username can not be blank"),
        (User("bob", " "), "password can not be blank"),
        (User("alice", "x"), "The user is existed"),
    ],
)
def test_a_user_that_cannot_be_made_is_refused_in_rocketmqs_words(user: User, remark: str) -> None:
    table = UserTable(Recorder())
    table.create(ALICE)
    with pytest.raises(AuthFault) as fault:
        table.create(user)
    assert (fault.value.code, fault.value.remark) == (16, remark)


def test_an_update_changes_only_what_it_names() -> None:
    sink = Recorder()
    table = UserTable(sink)
    table.create(ALICE)
    table.update(User("alice", "", None, "disable"))
    assert sink.users["alice"] == ("secret-of-alice", False, False)
    table.update(User("alice", "other", "Super", None))
    assert sink.users["alice"] == ("other", True, False)
    with pytest.raises(AuthFault, match="The user is not exist"):
        table.update(User("bob", "x"))


def test_constants_are_found_whatever_their_case_and_unknown_ones_are_none() -> None:
    assert User.from_json({"username": "a", "userType": "SUPER", "userStatus": "Disable"}).type == "Super"
    assert User.from_json({"username": "a", "userType": "root"}).type is None
    with pytest.raises(ValueError, match="password is int, expected a text"):
        User.from_json({"password": 12345})


def test_no_text_of_a_user_shows_the_password() -> None:
    assert "secret" not in repr(ALICE) and "secret" not in str(ALICE)


def test_users_are_listed_by_name() -> None:
    table = UserTable(Recorder())
    for name in ("carol", "alice", "bob"):
        table.create(User(name, "x"))
    assert [user.name for user in table.list()] == ["alice", "bob", "carol"]
    assert [user.name for user in table.list("o")] == ["bob", "carol"]


def test_who_is_deleted_takes_the_rights_along() -> None:
    metadata = AuthMetadata(Recorder())
    metadata.users.create(ALICE)
    metadata.acls.update(RIGHTS)
    metadata.delete_user("alice")
    metadata.users.create(ALICE)
    assert metadata.acls.get("alice") is None
    metadata.delete_user("nobody")


def test_what_the_native_table_refuses_is_not_in_this_one() -> None:
    sink = Recorder()
    table = UserTable(sink)
    sink.is_full = True
    with pytest.raises(NoMemory):
        table.create(ALICE)
    assert table.get("alice") is None and table.change_count == 0


def test_the_file_is_for_its_owner_only_and_read_again_as_the_same(tmp_path: Path) -> None:
    metadata = AuthMetadata(Recorder())
    metadata.users.create(ALICE)
    metadata.acls.update(RIGHTS)
    path = tmp_path / AUTH_FILE
    path.write_text("{}")
    path.chmod(0o644)

    async def save() -> None:
        state = saved(metadata, tmp_path)
        await state.save()
        metadata.users.create(User("bob", "x"))
        await state.save()

    asyncio.run(save())
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.with_name(path.name + ".bak"))] == [0o600, 0o600]
    sink = Recorder()
    other = AuthMetadata(sink)
    assert saved(other, tmp_path).load(SavedAuth.from_json, other.load)
    assert other.snapshot() == metadata.snapshot()
    assert sink.users.keys() == {"alice", "bob"} and sink.acls.keys() == {"alice"}


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"users": [{"username": "a"}]},
        {"users": [{"username": "a", "password": "secret", "userType": "root", "userStatus": "enable"}]},
        {"users": [{"username": "a", "password": ["secret"], "userType": "Super", "userStatus": "enable"}]},
        {"acls": [{"subject": "User:a", "policies": [{"entries": [{"resource": "Topic:t", "actions": ["secret"]}]}]}]},
        {"acls": [7]},
    ],
)
def test_a_file_that_says_something_unknown_is_damaged_as_a_whole(value: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Half of somebody's rights may be the half that allows."""
    (tmp_path / AUTH_FILE).write_text(json.dumps(value))
    metadata = AuthMetadata(Recorder())
    assert not saved(metadata, tmp_path).load(SavedAuth.from_json, metadata.load)
    assert len(metadata.users) == 0 and "starting empty" in caplog.text and "secret" not in caplog.text
    assert (tmp_path / (AUTH_FILE + ".damaged")).exists()


def test_what_is_said_of_a_torn_file_shows_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = SavedAuth((User("alice", "secret", "Normal", "enable"),), ()).text()
    for end in range(text.index("password"), len(text) - 1):
        (tmp_path / AUTH_FILE).write_text(text[:end])
        metadata = AuthMetadata(Recorder())
        assert not saved(metadata, tmp_path).load(SavedAuth.from_json, metadata.load)
    assert "string without end at line" in caplog.text and "secr" not in caplog.text
