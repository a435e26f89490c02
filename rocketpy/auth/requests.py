"""Requests about users and rights: create, change, delete, show, list.
RocketMQ: AdminBrokerProcessor (AUTH_*), UserConverter, AclConverter (5.5.0 broker/). The gate decides who may send them,
except that only a super user makes, changes or deletes a super user.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.credentials import ACCESS_KEY
from ..remoting.headers import (
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    GetAclRequestHeader,
    GetUserRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateAclRequestHeader,
    UpdateUserRequestHeader,
)
from ..remoting.json_codec import JsonError, read_object, write_fastjson
from ..remoting.service import Handler
from .acls import Acl, policy_type, subject_user
from .faults import AuthFault
from .metadata import AuthMetadata
from .resources import Resource
from .users import User

log = logging.getLogger(__name__)

T = TypeVar("T")

_BLANK_NAME: Final = Response(ResponseCode.INVALID_PARAMETER, "The username is blank")


class AuthAdmin:
    """Handlers of requests about users and rights. `save` returns when every earlier change is on disk. is_copy: users come from a master,
    which may have been told about one before us."""

    def __init__(self, metadata: AuthMetadata, save: Callable[[], Awaitable[None]], is_copy: Callable[[], bool]) -> None:
        self._metadata = metadata
        self._save = save
        self._is_copy = is_copy

    def handlers(self) -> Mapping[int, Handler]:
        return {
            RequestCode.AUTH_CREATE_USER: self._create_user,
            RequestCode.AUTH_UPDATE_USER: self._update_user,
            RequestCode.AUTH_DELETE_USER: self._delete_user,
            RequestCode.AUTH_GET_USER: self._get_user,
            RequestCode.AUTH_LIST_USER: self._list_users,
            RequestCode.AUTH_CREATE_ACL: self._create_acl,
            RequestCode.AUTH_UPDATE_ACL: self._update_acl,
            RequestCode.AUTH_DELETE_ACL: self._delete_acl,
            RequestCode.AUTH_GET_ACL: self._get_acl,
            RequestCode.AUTH_LIST_ACL: self._list_acls,
        }

    # ---- users ----

    async def _create_user(self, request: Request) -> Response:
        name = CreateUserRequestHeader.decode(request.fields).username
        if not name:
            return _BLANK_NAME
        user = _read(request, lambda value: User.from_json(value, name))
        if user.is_super and not self._is_by_super_user(request):
            return Response(ResponseCode.SYSTEM_ERROR, "The super user can only be create by super user")
        if self._is_copy() and self._metadata.users.has(user):  # mqadmin createUser -c asks the master and then us
            return Response()
        self._metadata.users.create(user)
        return await self._changed(request, f"create user {name!r}")

    async def _update_user(self, request: Request) -> Response:
        name = UpdateUserRequestHeader.decode(request.fields).username
        if not name:
            return _BLANK_NAME
        user = _read(request, lambda value: User.from_json(value, name))
        if user.is_super and not self._is_by_super_user(request):
            return Response(ResponseCode.SYSTEM_ERROR, "The super user can only be update by super user")
        known = self._metadata.users.get(name)
        if known is not None:
            self._check_super_user(known, request)
        self._metadata.users.update(user)
        return await self._changed(request, f"update user {name!r}")

    async def _delete_user(self, request: Request) -> Response:
        name = DeleteUserRequestHeader.decode(request.fields).username or ""
        known = self._metadata.users.get(name)
        if known is None:
            return Response()
        self._check_super_user(known, request)
        self._metadata.delete_user(name)
        return await self._changed(request, f"delete user {name!r}")

    def _get_user(self, request: Request) -> Response:
        name = GetUserRequestHeader.decode(request.fields).username or ""
        if not name.strip():
            return _BLANK_NAME
        user = self._metadata.users.get(name)
        return Response() if user is None else _shown(user.to_json())

    def _list_users(self, request: Request) -> Response:
        users = self._metadata.users.list(ListUsersRequestHeader.decode(request.fields).filter or "")
        return _shown([user.to_json() for user in users]) if users else Response()

    def _is_by_super_user(self, request: Request) -> bool:
        """Whether a super user sent the request. One that does not say who sent it reaches a handler only if identities are not checked.
        Raises AuthFault."""
        access_key = request.fields.get(ACCESS_KEY)
        return not access_key or self._metadata.users.is_super(access_key)

    def _check_super_user(self, known: User, request: Request) -> None:
        if known.is_super and not self._is_by_super_user(request):
            raise AuthFault("The super user can only be update by super user")

    # ---- rights ----

    async def _create_acl(self, request: Request) -> Response:
        return await self._put_acl(request, CreateAclRequestHeader.decode(request.fields).subject)

    async def _update_acl(self, request: Request) -> Response:
        return await self._put_acl(request, UpdateAclRequestHeader.decode(request.fields).subject)

    async def _put_acl(self, request: Request, subject: str | None) -> Response:
        """RocketMQ's two requests do the same: entries about new resources are added, those about known resources are replaced."""
        acl = _read(request, lambda value: _read_acl(value, subject))
        if self._metadata.users.get(acl.user) is None:
            raise AuthFault(f"The subject of {acl.subject} is not exist.")
        self._metadata.acls.update(acl)
        return await self._changed(request, f"change rights of {acl.user!r}")

    async def _delete_acl(self, request: Request) -> Response:
        header = DeleteAclRequestHeader.decode(request.fields)
        user = self._subject_user(header.subject)
        resource = Resource.parse(header.resource)
        if resource is None and (header.resource or "").strip():
            raise AuthFault("The resource is null.")  # RocketMQ takes a resource it cannot read for none, and deletes all rights
        self._metadata.acls.delete(user, policy_type(header.policy_type), resource)
        return await self._changed(request, f"delete rights of {user!r} on {header.resource or 'everything'!r}")

    def _get_acl(self, request: Request) -> Response:
        acl = self._metadata.acls.get(self._subject_user(GetAclRequestHeader.decode(request.fields).subject))
        return Response() if acl is None else _shown(acl.to_json())

    def _list_acls(self, request: Request) -> Response:
        header = ListAclsRequestHeader.decode(request.fields)
        acls = self._metadata.acls.list(header.subject_filter or "", header.resource_filter or "")
        return _shown([acl.to_json() for acl in acls]) if acls else Response()

    def _subject_user(self, subject: str | None) -> str:
        """The user that a request names. Raises AuthFault."""
        user = subject_user(subject)
        if user is None:
            raise AuthFault("The subject is null.")
        if self._metadata.users.get(user) is None:
            raise AuthFault("The subject is not exist.")
        return user

    async def _changed(self, request: Request, what: str) -> Response:
        """A change is in force at once, and on disk before it is acknowledged."""
        log.info("%s, by %r from %s", what, request.fields.get(ACCESS_KEY), request.remote_address)
        self._metadata.publish()
        await self._save()
        return Response()


def _read_acl(value: Mapping[str, Any], subject: str | None) -> Acl:
    if not value.get("policies"):
        raise CommandError(ResponseCode.SYSTEM_ERROR, "The body of acl is null")
    return Acl.from_json(value, subject)


def _read(request: Request, decode: Callable[[Mapping[str, Any]], T]) -> T:
    """The request's body as `decode` reads it. An error about a bad one quotes nothing of it. Raises CommandError."""
    try:
        value = read_object(request.body)
    except JsonError:
        raise CommandError(ResponseCode.SYSTEM_ERROR, "the body of the request is no JSON object") from None
    try:
        return decode(value)
    except ValueError as error:
        raise CommandError(ResponseCode.SYSTEM_ERROR, f"the body of the request cannot be read: {error}") from None


def _shown(value: Any) -> Response:
    return Response(body=write_fastjson(value))
