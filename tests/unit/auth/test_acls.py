"""Rights: what a request may say, in RocketMQ's words where it may not; how changes of them join."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpy._core.errors import NoMemory
from rocketpy.auth.acls import Acl, AclTable
from rocketpy.auth.faults import AuthFault
from rocketpy.auth.resources import Resource, is_address_or_network
from tests.unit.auth.recorder import Recorder


def entry(resource: str | None = "Topic:t", *actions: str, decision: str | None = "Allow", **members: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": list(actions or ("Pub",)), "decision": decision, **members}


def info(*entries: dict[str, Any], subject: str | None = "User:alice", kind: str | None = None) -> dict[str, Any]:
    return {"subject": subject, "policies": [{"policyType": kind, "entries": list(entries)}]}


def acl(*entries: dict[str, Any], kind: str | None = None) -> Acl:
    return Acl.from_json(info(*entries, kind=kind))


@pytest.mark.parametrize(
    ("key", "resource"),
    [
        ("*", Resource("Any", "", "ANY")),
        ("Topic:*", Resource("Topic", "", "ANY")),
        ("topic:a", Resource("Topic", "a", "LITERAL")),
        ("GROUP:a*", Resource("Group", "a", "PREFIXED")),
        ("Topic:a*b*", Resource("Topic", "a", "PREFIXED")),
        ("Topic:a*b", Resource("Topic", "a*b", "LITERAL")),
        ("Topic:%RETRY%g:x", Resource("Topic", "%RETRY%g:x", "LITERAL")),
        ("Cluster", Resource("Cluster", "", "LITERAL")),
        ("Any:x", Resource("Any", "", "ANY")),
        ("Topic:**", Resource("Topic", "", "ANY")),
        ("Queue:a", None),
        (" ", None),
        (None, None),
    ],
)
def test_a_resource_is_read_as_rocketmq_reads_it(key: str | None, resource: Resource | None) -> None:
    assert Resource.parse(key) == resource
    assert resource is None or Resource.parse(resource.key) == resource


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("1.2.3.4", True),
        ("10.0.0.0/8", True),
        ("10.0.0.1/0", True),
        ("::1", True),
        ("fe80::/10", True),
        ("1.2.3.4/33", False),
        ("1.2.3", False),
        ("1.2.3.4/", False),
        ("1.2.3.4/-1", False),
        ("1.2.3.4/8/8", False),
        ("localhost", False),
        ("192.168.*", False),
    ],
)
def test_source_addresses_are_addresses_or_networks(text: str, is_one: bool) -> None:
    assert is_address_or_network(text) is is_one


@pytest.mark.parametrize(
    ("value", "remark"),
    [
        ({"subject": "User:alice"}, "The policies is empty."),
        (info(), "The policies is empty."),
        (info(entry(), subject="Role:x"), "The subject is null."),
        (info(entry("Queue:t")), "The resource is null."),
        (info(entry("Topic:t", "Fly")), "The actions is empty."),
        (info(entry("Topic:t", "Pub", "Any")), "The actions can not be Any."),
        (info(entry(sourceIps=[" "])), "The source ip is empty."),
        (info(entry(sourceIps=["1.2.3.4", "example.org"])), "The source ip is invalid."),
        (info(entry(decision="perhaps")), "The decision is null or illegal."),
        (info(entry(decision=None)), "The decision is null or illegal."),
    ],
)
def test_rights_that_are_none_are_refused_in_rocketmqs_words(value: dict[str, Any], remark: str) -> None:
    with pytest.raises(AuthFault) as fault:
        Acl.from_json(value)
    assert (fault.value.code, fault.value.remark) == (16, remark)


@pytest.mark.parametrize("value", [info(entry(7)), {"policies": [1]}, {"policies": {}}, info({"actions": "Pub"}), {"subject": []}])  # type: ignore[arg-type]
def test_members_of_other_types_are_no_crash(value: Any) -> None:
    with pytest.raises((AuthFault, ValueError)):
        Acl.from_json(value)


def test_the_body_names_the_subject_and_the_header_only_where_it_does_not() -> None:
    assert Acl.from_json(info(entry()), "User:bob").user == "alice"
    assert Acl.from_json(info(entry(), subject=None), "user:bob").user == "bob"


def test_what_is_written_is_read_again_as_the_same() -> None:
    whole = acl(entry("Topic:t", "Pub", "Sub", decision="deny", sourceIps=["10.0.0.0/8"]), entry("*", "All")).merged(
        acl(entry("Group:g*", "Sub"), kind="default")
    )
    assert Acl.from_json(whole.to_json()) == whole
    assert [policy["policyType"] for policy in whole.to_json()["policies"]] == ["Custom", "Default"]


def test_an_update_replaces_entries_of_the_same_resource_and_adds_others() -> None:
    sink = Recorder()
    table = AclTable(sink)
    table.update(acl(entry("Topic:a", "Pub"), entry("Topic:b", "Pub")))
    table.update(acl(entry("Topic:b", "Sub", decision="Deny"), entry("Topic:c", "Get")))
    known = table.get("alice")
    assert known is not None
    assert [(each.resource.key, each.actions, each.decision) for each in known.custom] == [
        ("Topic:a", ("Pub",), "Allow"),
        ("Topic:b", ("Sub",), "Deny"),
        ("Topic:c", ("Get",), "Allow"),
    ]
    assert sink.acls["alice"] == (known.custom, ())


def test_the_last_entry_takes_the_rights_with_it() -> None:
    sink = Recorder()
    table = AclTable(sink)
    table.update(acl(entry("Topic:a")))
    table.update(acl(entry("Topic:a"), kind="Default"))
    table.delete("alice", "Custom", Resource.parse("Topic:a"))
    assert sink.acls["alice"][0] == () and len(sink.acls["alice"][1]) == 1
    table.delete("alice", "Default", Resource.parse("Topic:a"))
    assert sink.acls == {} and table.get("alice") is None
    with pytest.raises(AuthFault, match="The acl is not exist"):
        table.delete("alice")


def test_a_list_shows_what_subject_or_resource_hold() -> None:
    table = AclTable(Recorder())
    table.update(acl(entry("Topic:orders"), entry("Group:g")))
    table.update(Acl.from_json(info(entry("Topic:bills"), subject="User:bob")))
    assert [each.subject for each in table.list()] == ["User:alice", "User:bob"]
    assert [each.subject for each in table.list("User:b")] == ["User:bob"]
    (found,) = table.list("", "orders")
    assert [each.resource.key for each in found.custom] == ["Topic:orders"]
    assert [len(each.custom) for each in table.list("", "alice")] == [2], "a filter that the subject holds hides nothing of it"


def test_what_the_native_table_refuses_is_not_in_this_one() -> None:
    sink = Recorder()
    table = AclTable(sink)
    sink.is_full = True
    with pytest.raises(NoMemory):
        table.update(acl(entry()))
    assert table.get("alice") is None and table.change_count == 0
