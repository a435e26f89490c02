"""Requests about users and rights: RocketMQ's codes and remarks, who may touch super users, what is saved and what is said."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.auth.metadata import AuthMetadata
from rocketpy.auth.requests import AuthAdmin
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError, Response
from tests.unit.auth.recorder import Recorder

SUCCESS, SYSTEM_ERROR, NO_PERMISSION, INVALID = 0, 1, ResponseCode.NO_PERMISSION, ResponseCode.INVALID_PARAMETER

Answer = tuple[int, str | None, Any]
"""(code, remark, JSON of the body)."""


@dataclass
class Asked:
    """As much of a request as handlers look at."""

    code: int
    fields: Mapping[str, str]
    body: bytes
    remote_address: str = "127.0.0.1:1"


@dataclass
class Stage:
    """The handlers, and how often what they changed was to be saved."""

    sink: Recorder = field(default_factory=Recorder)
    saves: int = 0
    is_copy: bool = False

    def __post_init__(self) -> None:
        self.metadata = AuthMetadata(self.sink)
        self._handlers = AuthAdmin(self.metadata, self._save, lambda: self.is_copy).handlers()

    async def _save(self) -> None:
        self.saves += 1

    def ask(
        self, code: int, fields: Mapping[str, str] | None = None, body: Any = b"", by: str | None = None
    ) -> tuple[int, str | None, Any]:
        whole = {**(fields or {}), **({} if by is None else {"AccessKey": by})}
        request: Any = Asked(code, whole, body if isinstance(body, bytes) else json.dumps(body).encode())

        async def handle() -> Response:
            try:
                answer = self._handlers[code](request)
                response = await answer if isawaitable(answer) else answer
            except CommandError as error:
                return Response(error.code, error.remark)
            assert isinstance(response, Response)
            return response

        response = asyncio.run(handle())
        return int(response.code), response.remark, json.loads(response.body) if response.body else None

    def create(self, name: str, by: str | None = None, **members: Any) -> Answer:
        return self.ask(RequestCode.AUTH_CREATE_USER, {"username": name}, {"password": f"secret-of-{name}", **members}, by)


ENTRY = {"resource": "Topic:t*", "actions": ["Pub", "sub"], "decision": "Allow", "sourceIps": ["10.0.0.0/8"]}
RIGHTS = {"policies": [{"entries": [ENTRY]}]}


def test_a_user_is_made_shown_changed_and_deleted() -> None:
    stage = Stage()
    assert stage.create("alice") == (SUCCESS, None, None)
    shown = {"username": "alice", "password": "secret-of-alice", "userType": "Normal", "userStatus": "enable"}
    assert stage.ask(RequestCode.AUTH_GET_USER, {"username": "alice"}) == (SUCCESS, None, shown)
    assert stage.ask(RequestCode.AUTH_UPDATE_USER, {"username": "alice"}, {"userStatus": "disable"})[0] == SUCCESS
    assert stage.sink.users == {"alice": ("secret-of-alice", False, False)}
    assert stage.ask(RequestCode.AUTH_LIST_USER, {"filter": "ali"})[2] == [{**shown, "userStatus": "disable"}]
    assert stage.ask(RequestCode.AUTH_DELETE_USER, {"username": "alice"})[0] == SUCCESS
    assert (stage.saves, stage.sink.published, stage.sink.users) == (3, 3, {})
    for code in (RequestCode.AUTH_GET_USER, RequestCode.AUTH_LIST_USER, RequestCode.AUTH_DELETE_USER):
        assert stage.ask(code, {"username": "alice"}) == (SUCCESS, None, None), "nobody is no error, and no body"
    assert stage.saves == 3


def test_a_copys_user_who_came_from_the_master_is_made_once_more_without_a_fault() -> None:
    stage = Stage(is_copy=True)
    assert stage.create("alice")[0] == 0 and stage.create("alice", userType="normal")[0] == 0 and stage.saves == 1
    assert stage.create("alice", password="x")[:2] == (NO_PERMISSION, "The user is existed")


@pytest.mark.parametrize(
    ("code", "fields", "body", "answer"),
    [
        (RequestCode.AUTH_CREATE_USER, {}, {}, (INVALID, "The username is blank")),
        (RequestCode.AUTH_UPDATE_USER, {"username": ""}, {}, (INVALID, "The username is blank")),
        (RequestCode.AUTH_GET_USER, {"username": " "}, {}, (INVALID, "The username is blank")),
        (RequestCode.AUTH_DELETE_USER, {}, {}, (NO_PERMISSION, "username can not be blank")),
        (RequestCode.AUTH_CREATE_USER, {"username": " "}, {"password": "x"}, (NO_PERMISSION, "username can not be blank")),
        (RequestCode.AUTH_CREATE_USER, {"username": "bob"}, {}, (NO_PERMISSION, "password can not be blank")),
        (RequestCode.AUTH_CREATE_USER, {"username": "alice"}, {"password": "x"}, (NO_PERMISSION, "The user is existed")),
        (RequestCode.AUTH_UPDATE_USER, {"username": "bob"}, {"password": "x"}, (NO_PERMISSION, "The user is not exist")),
        (RequestCode.AUTH_CREATE_ACL, {"subject": "User:alice"}, {}, (SYSTEM_ERROR, "The body of acl is null")),
        (RequestCode.AUTH_CREATE_ACL, {"subject": "User:bob"}, RIGHTS, (NO_PERMISSION, "The subject of User:bob is not exist.")),
        (RequestCode.AUTH_UPDATE_ACL, {"subject": "User:bob"}, RIGHTS, (NO_PERMISSION, "The subject of User:bob is not exist.")),
        (RequestCode.AUTH_GET_ACL, {}, b"", (NO_PERMISSION, "The subject is null.")),
        (RequestCode.AUTH_GET_ACL, {"subject": "User:bob"}, b"", (NO_PERMISSION, "The subject is not exist.")),
        (RequestCode.AUTH_DELETE_ACL, {"subject": "Role:x"}, b"", (NO_PERMISSION, "The subject is null.")),
        (RequestCode.AUTH_DELETE_ACL, {"subject": "User:bob"}, b"", (NO_PERMISSION, "The subject is not exist.")),
        (RequestCode.AUTH_DELETE_ACL, {"subject": "User:alice"}, b"", (NO_PERMISSION, "The acl is not exist.")),
    ],
)
def test_what_cannot_be_done_is_answered_in_rocketmqs_words(code: int, fields: dict[str, str], body: Any, answer: tuple[int, str]) -> None:
    stage = Stage()
    stage.create("alice")
    assert stage.ask(code, fields, body)[:2] == answer
    assert stage.saves == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"{", b'{"password":7}', b"null"])
def test_a_body_that_cannot_be_read_is_an_error_that_shows_nothing_of_it(body: bytes) -> None:
    stage = Stage()
    for code in (RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_CREATE_ACL):
        answer, remark, _ = stage.ask(code, {"username": "x", "subject": "User:x"}, body)
        assert answer in (SYSTEM_ERROR, NO_PERMISSION) and remark
    assert stage.saves == 0


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "Topic:t", "*", "Pub", "Allow", "10.0.0.0/8", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["policies", "entries", "resource", "actions", "decision", "sourceIps", "policyType", "subject", "password", "userType"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_body_is_a_crash(body: Any) -> None:
    stage = Stage()
    stage.create("alice")
    for code in (RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL):
        answer, remark, _ = stage.ask(code, {"username": "bob", "subject": "User:alice"}, body)
        assert answer == SUCCESS or remark


def test_only_super_users_make_change_and_delete_super_users() -> None:
    stage = Stage()
    assert stage.create("root", userType="Super")[0] == SUCCESS, "nobody is named: nobody was asked for"
    assert stage.create("alice", by="root")[0] == SUCCESS
    assert stage.create("mallory", by="alice", userType="super")[:2] == (SYSTEM_ERROR, "The super user can only be create by super user")
    update = (RequestCode.AUTH_UPDATE_USER, {"username": "alice"}, {"userType": "Super"})
    assert stage.ask(*update, by="alice")[:2] == (SYSTEM_ERROR, "The super user can only be update by super user")
    refused = (NO_PERMISSION, "The super user can only be update by super user")
    assert stage.ask(RequestCode.AUTH_UPDATE_USER, {"username": "root"}, {"password": "mine"}, by="alice")[:2] == refused
    assert stage.ask(RequestCode.AUTH_DELETE_USER, {"username": "root"}, by="alice")[:2] == refused
    assert stage.ask(RequestCode.AUTH_DELETE_USER, {"username": "root"}, by="nobody")[:2] == (NO_PERMISSION, "User:nobody is not found")
    assert stage.ask(*update, by="root")[0] == SUCCESS
    assert stage.ask(RequestCode.AUTH_DELETE_USER, {"username": "root"}, by="alice")[0] == SUCCESS


def test_rights_are_given_shown_and_taken() -> None:
    stage = Stage()
    stage.create("alice")
    assert stage.ask(RequestCode.AUTH_GET_ACL, {"subject": "User:alice"}) == (SUCCESS, None, None)
    assert stage.ask(RequestCode.AUTH_CREATE_ACL, {"subject": "User:alice"}, RIGHTS)[0] == SUCCESS
    shown = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [{**ENTRY, "actions": ["Pub", "Sub"]}]}]}
    assert stage.ask(RequestCode.AUTH_GET_ACL, {"subject": "User:alice"}) == (SUCCESS, None, shown)
    assert stage.ask(RequestCode.AUTH_LIST_ACL, {"subjectFilter": "ali", "resourceFilter": "Topic"})[2] == [shown]
    assert stage.ask(RequestCode.AUTH_LIST_ACL, {"subjectFilter": "bob"}) == (SUCCESS, None, None)
    one = {"subject": "User:alice", "resource": "Topic:t*"}
    assert stage.ask(RequestCode.AUTH_DELETE_ACL, one)[0] == SUCCESS
    assert stage.ask(RequestCode.AUTH_DELETE_ACL, one)[:2] == (NO_PERMISSION, "The acl is not exist.")
    assert stage.saves == 4 - 1 == stage.sink.published


def test_a_misspelt_resource_deletes_nothing() -> None:
    """RocketMQ deletes all rights of the user, those that deny among them."""
    stage = Stage()
    stage.create("alice")
    stage.ask(RequestCode.AUTH_CREATE_ACL, {"subject": "User:alice"}, RIGHTS)
    answer = stage.ask(RequestCode.AUTH_DELETE_ACL, {"subject": "User:alice", "resource": "Topci:t"})
    assert answer[:2] == (NO_PERMISSION, "The resource is null.") and stage.metadata.acls.get("alice") is not None


def test_the_log_says_who_changed_what_and_no_password(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    with caplog.at_level(logging.INFO):
        stage.create("root", userType="Super")
        stage.create("alice\n[evil]", by="root")
        stage.ask(RequestCode.AUTH_UPDATE_USER, {"username": "root"}, {"password": "secret-new"}, by="root")
    assert "create user 'alice\\n[evil]', by 'root' from 127.0.0.1:1" in caplog.messages
    assert "secret" not in caplog.text
