"""Rights of users. RocketMQ: tools/command/auth/…Acl… (5.5.0). Brokers do not tell each other: -c goes to each of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import (
    CreateAclRequestHeader,
    DeleteAclRequestHeader,
    GetAclRequestHeader,
    ListAclsRequestHeader,
    UpdateAclRequestHeader,
)
from ..remoting.json_codec import write_json
from .command_line import Given
from .copies import Kind, copy_entries
from .errors import AdminError
from .output import Columns, Output, Shown
from .session import Session
from .texts import java

ACLS = Columns(
    "acls",
    "%-16s  %-10s  %-22s  %-20s  %-24s  %-10s",
    "%-16s  %-10s  %-22s  %-20s  %-24s  %-10s",
    {
        "#Subject": "subject",
        "#PolicyType": "policyType",
        "#Resource": "resource",
        "#Actions": "actions",
        "#SourceIp": "sourceIps",
        "#Decision": "decision",
    },
)


def acl_of(given: Given) -> dict[str, Any]:
    """The body that asks for rights: one entry per resource, all in one policy (AclInfo.of)."""
    entries = [
        {
            "resource": resource,
            "actions": given.words("a"),
            **({"sourceIps": given.words("i")} if given.has("i") else {}),
            "decision": given.text("d"),
        }
        for resource in given.words("r")
    ]
    return {"subject": given.text("s"), "policies": [{"entries": entries}]}


def _shown(out: Output, acls: Sequence[dict[str, Any]]) -> None:
    out.heading(ACLS)
    for acl in acls:
        policies = acl.get("policies") or []
        if not policies:
            out.row(ACLS, acl.get("subject"), *[Shown(None, "")] * 5)
        for policy in policies:
            for entry in policy.get("entries") or ():
                actions, addresses = (Shown(entry.get(name), java(entry.get(name))) for name in ("actions", "sourceIps"))
                out.row(
                    ACLS, acl.get("subject"), policy.get("policyType"), entry.get("resource"), actions, addresses, entry.get("decision")
                )


async def find_acl(session: Session, address: str, subject: str) -> dict[str, Any] | None:
    """Raises AdminError."""
    try:
        return await session.members(address, RequestCode.AUTH_GET_ACL, GetAclRequestHeader(subject=subject)) or None
    except AdminError as error:
        if error.code != ResponseCode.POLICY_NOT_EXIST:
            raise
        return None


async def find_acls(session: Session, address: str, subject: str | None = None, resource: str | None = None) -> list[dict[str, Any]]:
    """Raises AdminError."""
    header = ListAclsRequestHeader(subject_filter=subject, resource_filter=resource)
    value = await session.value(address, RequestCode.AUTH_LIST_ACL, header)
    return sorted((each for each in value or () if isinstance(each, dict)), key=lambda acl: str(acl.get("subject")))


async def create_acl(session: Session, given: Given, out: Output) -> None:
    body = write_json(acl_of(given))

    async def create(address: str) -> None:
        await session.call(address, RequestCode.AUTH_CREATE_ACL, CreateAclRequestHeader(subject=given.text("s")), body)
        out.done(f"create acl to {address} success.", address=address, subject=given.text("s"))

    await session.each(await session.brokers(given), create)


async def update_acl(session: Session, given: Given, out: Output) -> None:
    body = write_json(acl_of(given))

    async def change(address: str) -> None:
        await session.call(address, RequestCode.AUTH_UPDATE_ACL, UpdateAclRequestHeader(subject=given.text("s")), body)
        out.done(f"update acl to {address} success.", address=address, subject=given.text("s"))

    await session.each(await session.brokers(given), change)


async def delete_acl(session: Session, given: Given, out: Output) -> None:
    header = DeleteAclRequestHeader(subject=given.text("s"), resource=given.maybe("r"))

    async def delete(address: str) -> None:
        await session.call(address, RequestCode.AUTH_DELETE_ACL, header)
        out.done(f"delete acl to {address} success.", address=address, subject=given.text("s"))

    await session.each(await session.brokers(given), delete)


async def get_acl(session: Session, given: Given, out: Output) -> None:
    found = await session.found_at_master(given, lambda address: find_acl(session, address, given.text("s")))
    if found is not None:
        _shown(out, [found[1]])
        return
    raise AdminError(f"{given.text('s')} has no rights", remedy="listAcl shows the rights there are", code=ResponseCode.POLICY_NOT_EXIST)


async def list_acl(session: Session, given: Given, out: Output) -> None:
    out.set(acls=[])
    subject, resource = given.maybe("s"), given.maybe("r")
    found = await session.found_at_master(given, lambda address: find_acls(session, address, subject, resource))
    if found is not None:
        _shown(out, found[1])


ACL = Kind(
    "acl",
    "subject",
    find_acl,
    find_acls,
    lambda name, place: AdminError(f"{name} has no rights at {place}", code=ResponseCode.POLICY_NOT_EXIST),
    (RequestCode.AUTH_CREATE_ACL, lambda name: CreateAclRequestHeader(subject=name)),
    (RequestCode.AUTH_UPDATE_ACL, lambda name: UpdateAclRequestHeader(subject=name)),
)


async def copy_acl(session: Session, given: Given, out: Output) -> None:
    names = given.named("s", "subject") if given.has("s") else None
    await copy_entries(session, out, ACL, given.text("f"), given.text("t"), names)
