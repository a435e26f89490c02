"""Users of brokers. RocketMQ: tools/command/auth/…User… (5.5.0). Brokers do not tell each other: -c goes to each of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import (
    CreateUserRequestHeader,
    DeleteUserRequestHeader,
    GetUserRequestHeader,
    ListUsersRequestHeader,
    UpdateUserRequestHeader,
)
from ..remoting.json_codec import write_json
from .command_line import Given
from .copies import Kind, copy_entries
from .errors import AdminError
from .output import Columns, Output
from .session import Session

USERS = Columns(
    "users",
    "%-16s  %-22s  %-22s  %-22s",
    "%-16s  %-22s  %-22s  %-22s",
    {"#UserName": "username", "#Password": "password", "#UserType": "userType", "#UserStatus": "userStatus"},
)


def _shown(out: Output, users: Sequence[dict[str, Any]]) -> None:
    """Prints users as brokers report them; what a broker says about passwords is shown as mqadmin shows it."""
    out.heading(USERS)
    for user in users:
        out.row(USERS, *(user.get(name) for name in USERS.names.values()))


async def find_user(session: Session, address: str, username: str) -> dict[str, Any] | None:
    """Raises AdminError."""
    try:
        value = await session.members(address, RequestCode.AUTH_GET_USER, GetUserRequestHeader(username=username))
    except AdminError as error:
        if error.code != ResponseCode.USER_NOT_EXIST:
            raise
        return None
    return value or None


async def find_users(session: Session, address: str, part: str | None = None) -> list[dict[str, Any]]:
    """Raises AdminError."""
    value = await session.value(address, RequestCode.AUTH_LIST_USER, ListUsersRequestHeader(filter=part))
    return sorted((each for each in value or () if isinstance(each, dict)), key=lambda user: str(user.get("username")))


async def create_user(session: Session, given: Given, out: Output) -> None:
    user = {"username": given.text("u"), "password": given.text("p"), "userType": given.maybe("t")}
    body = write_json({name: value for name, value in user.items() if value is not None})

    async def create(address: str) -> None:
        await session.call(address, RequestCode.AUTH_CREATE_USER, CreateUserRequestHeader(username=given.text("u")), body)
        out.done(f"create user to {address} success.", address=address, username=given.text("u"))

    await session.each(await session.brokers(given), create)


async def update_user(session: Session, given: Given, out: Output) -> None:
    user = {"username": given.text("u"), "password": given.maybe("p"), "userType": given.maybe("t"), "userStatus": given.maybe("s")}
    body = write_json({name: value for name, value in user.items() if value is not None})

    async def change(address: str) -> None:
        await session.call(address, RequestCode.AUTH_UPDATE_USER, UpdateUserRequestHeader(username=given.text("u")), body)
        out.done(f"update user to {address} success.", address=address, username=given.text("u"))

    await session.each(await session.brokers(given), change)


async def delete_user(session: Session, given: Given, out: Output) -> None:
    async def delete(address: str) -> None:
        await session.call(address, RequestCode.AUTH_DELETE_USER, DeleteUserRequestHeader(username=given.text("u")))
        out.done(f"delete user to {address} success.", address=address, username=given.text("u"))

    await session.each(await session.brokers(given), delete)


async def get_user(session: Session, given: Given, out: Output) -> None:
    found = await session.found_at_master(given, lambda address: find_user(session, address, given.text("u")))
    if found is not None:
        _shown(out, [found[1]])
        return
    raise AdminError(f"no user {given.text('u')}", remedy="listUser shows the users there are", code=ResponseCode.USER_NOT_EXIST)


async def list_user(session: Session, given: Given, out: Output) -> None:
    out.set(users=[])
    found = await session.found_at_master(given, lambda address: find_users(session, address, given.maybe("f")))
    if found is not None:
        _shown(out, found[1])
        if given.has("c"):
            out.line(f"get user from {found[0]} success.")


USER = Kind(
    "user",
    "username",
    find_user,
    find_users,
    lambda name, place: AdminError(f"no user {name} at {place}", code=ResponseCode.USER_NOT_EXIST),
    (RequestCode.AUTH_CREATE_USER, lambda name: CreateUserRequestHeader(username=name)),
    (RequestCode.AUTH_UPDATE_USER, lambda name: UpdateUserRequestHeader(username=name)),
)


async def copy_user(session: Session, given: Given, out: Output) -> None:
    names = given.named("u", "user") if given.has("u") else None
    await copy_entries(session, out, USER, given.text("f"), given.text("t"), names)
