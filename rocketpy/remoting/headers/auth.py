"""Headers of users and access control lists.
RocketMQ: remoting/protocol/header/** (5.3.3, with the additions of 5.5.0). Attribute names are the wire names in snake case.
"""

from __future__ import annotations

from ..codes import RequestCode
from .base import Header, wire_header


@wire_header(RequestCode.AUTH_CREATE_ACL)
class CreateAclRequestHeader(Header):
    subject: str | None = None


@wire_header(RequestCode.AUTH_CREATE_USER)
class CreateUserRequestHeader(Header):
    username: str | None = None


@wire_header(RequestCode.AUTH_DELETE_ACL)
class DeleteAclRequestHeader(Header):
    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


@wire_header(RequestCode.AUTH_DELETE_USER)
class DeleteUserRequestHeader(Header):
    username: str | None = None


@wire_header(RequestCode.AUTH_GET_ACL)
class GetAclRequestHeader(Header):
    subject: str | None = None


@wire_header(RequestCode.AUTH_GET_USER)
class GetUserRequestHeader(Header):
    username: str | None = None


@wire_header(RequestCode.AUTH_LIST_ACL)
class ListAclsRequestHeader(Header):
    subject_filter: str | None = None
    resource_filter: str | None = None


@wire_header(RequestCode.AUTH_LIST_USER)
class ListUsersRequestHeader(Header):
    filter: str | None = None


@wire_header(RequestCode.AUTH_UPDATE_ACL)
class UpdateAclRequestHeader(Header):
    subject: str | None = None


@wire_header(RequestCode.AUTH_UPDATE_USER)
class UpdateUserRequestHeader(Header):
    username: str | None = None
