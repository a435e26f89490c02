"""The same requests to this broker and to RocketMQ 5.5.0, both with authentication and authorization on: who is let in, what each request
asks rights on, which entry of a user's rights decides, and what requests about users and rights are answered.
"""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.credentials import Credentials
from rocketpy.remoting.headers import header_for

from .authority import NO_PERMISSION, ROOT, SETTINGS, Authority, credentials, entry, signed
from .products import Product, side_by_side
from .wire import Reply, call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEND = RequestCode.SEND_MESSAGE_V2


def send_fields(topic: str, group: str = "PID") -> dict[str, str]:
    return {
        "a": group,
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": "",
        "j": "0",
        "k": "false",
        "m": "false",
    }


@pytest.fixture(scope="module")
def sides(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Authority]]:
    """Both products."""
    with side_by_side(product, peer, tmp_path_factory, SETTINGS) as both:
        sides = [Authority(cluster.broker) for cluster in both]
        for side in sides:
            side.user("nobody")
            side.user("topical", entry("Topic:*", "All"))
            side.user("grouper", entry("Group:*", "All"))
            side.user("clusterer", entry("Cluster:*", "All"))
            side.user("reader", entry("*", "Get", "Sub", "List"))
            side.user("writer", entry("*", "Pub", "Create", "Update", "Delete"))
            side.user("super", kind="Super")
        yield sides


def evened(reply: Reply) -> tuple[int, str]:
    """Code and remark; a success of RocketMQ's that nobody has given a remark says so."""
    remark = (reply.remark or "").replace("not set any response code", "") if reply.code == 0 else reply.remark or ""
    return reply.code, re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", remark)


def ask(side: Authority, code: int, fields: dict[str, str], body: Any = b"", user: Credentials | None = ROOT) -> tuple[int, str]:
    return evened(signed(side.address, code, fields, body, user))


# ---- who it is from ----


def test_who_is_let_in(sides: list[Authority]) -> None:
    for side in sides:
        side.user("disabled", entry("*", "All"))
        side.done(RequestCode.AUTH_UPDATE_USER, {"username": "disabled"}, {"userStatus": "disable"})
    who = {
        "the right secret": credentials("super"),
        "a wrong secret": Credentials("super", "secret"),
        "an unknown user": credentials("stranger"),
        "a disabled user": credentials("disabled"),
        "another case": Credentials("Super", "secret-of-super"),
        "a token": Credentials("super", "secret-of-super", "token"),
        "no name": Credentials("", "secret-of-super"),
        "nobody": None,
    }
    answers = [{name: ask(side, SEND, send_fields("t"), b"x", user)[:2] for name, user in who.items()} for side in sides]
    assert answers[0] == answers[1]
    assert [name for name, (code, _) in answers[0].items() if code != NO_PERMISSION] == ["the right secret", "a token"]


def test_a_signature_is_of_all_fields_and_the_body(sides: list[Authority]) -> None:
    fields = {**send_fields("t"), "unknown": "field", "nonAscii": "naïve 名", "empty": ""}
    whole = credentials("super").signed(fields, b"body")
    changed = {
        "nothing": (whole, b"body"),
        "the body": (whole, b"bodY"),
        "a field": ({**whole, "unknown": "other"}, b"body"),
        "one more field": ({**whole, "z": "1"}, b"body"),
        "one field less": ({name: value for name, value in whole.items() if name != "unknown"}, b"body"),
        "an empty field less": ({name: value for name, value in whole.items() if name != "empty"}, b"body"),
        "the signature": ({**whole, "Signature": whole["Signature"].lower()}, b"body"),
        "no signature": ({name: value for name, value in whole.items() if name != "Signature"}, b"body"),
        "an empty signature": ({**whole, "Signature": ""}, b"body"),
    }
    answers = [{name: ask(side, SEND, given, body, None) for name, (given, body) in changed.items()} for side in sides]
    assert answers[0] == answers[1]
    assert [name for name, (code, _) in answers[0].items() if code == 0] == ["nothing", "an empty field less"]


# ---- what requests ask rights on ----

QUEUES_OF_GROUP = {"consumerGroup": "g1", "clientId": "c", "mqSet": [{"topic": "t1", "brokerName": "broker-a", "queueId": 0}]}
BODIES: dict[int, Any] = {
    RequestCode.HEART_BEAT: {
        "clientID": "c",
        "producerDataSet": [{"groupName": "p1"}],
        "consumerDataSet": [
            {
                "groupName": "g1", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
                "subscriptionDataSet": [{"topic": "t1", "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1}],
            }
        ],
    },
    RequestCode.LOCK_BATCH_MQ: QUEUES_OF_GROUP,
    RequestCode.UNLOCK_BATCH_MQ: QUEUES_OF_GROUP,
    RequestCode.AUTH_CREATE_USER: {"password": "x"},
    RequestCode.AUTH_UPDATE_USER: {"password": "x"},
    RequestCode.AUTH_CREATE_ACL: {"policies": [{"entries": [entry("Topic:x", "Pub")]}]},
    RequestCode.AUTH_UPDATE_ACL: {"policies": [{"entries": [entry("Topic:x", "Pub")]}]},
}  # fmt: skip
STRICTER = {
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
    RequestCode.POP_LITE_MESSAGE,
    RequestCode.LITE_SUBSCRIPTION_CTL,
    RequestCode.GET_BROKER_LITE_INFO,
    RequestCode.GET_PARENT_TOPIC_INFO,
    RequestCode.GET_LITE_TOPIC_INFO,
    RequestCode.GET_LITE_CLIENT_INFO,
    RequestCode.GET_LITE_GROUP_INFO,
    RequestCode.TRIGGER_LITE_DISPATCH,
}
"""RocketMQ lets every user do these, whatever the rights (docs/design-auth.md)."""

UNANSWERED = {RequestCode.END_TRANSACTION}
"""RocketMQ's clients send it and wait for nothing."""


def sample(name: str) -> str:
    lowered = name.lower()
    if name == "topicFilterType":
        return "SINGLE_TAG"
    if name == "b" or "topic" in lowered:
        return "t1"
    return "g1" if name == "a" or "group" in lowered else "x"


def fields_of(code: int) -> dict[str, str]:
    """Every field of the request's header, in the form RocketMQ reads."""
    header = header_for(code)
    fields = {}
    for field in header.plan if header is not None else ():
        for text in (sample(field.wire_name), "0", "false"):
            try:
                field.read(field.wire_name, text)
            except ValueError:
                continue
            fields[field.wire_name] = text
            break
    return fields


@pytest.mark.parametrize("user", ["nobody", "topical", "grouper", "clusterer", "reader", "writer"])
def test_each_request_asks_the_same_rights(sides: list[Authority], user: str) -> None:
    """Only whether and why it is refused is compared: what it does where it is not is the matter of other tests."""
    different = {}
    for code in RequestCode:
        if code in STRICTER:
            continue
        ours, theirs = (refusal(side, code, user) for side in sides)
        if ours != theirs:
            different[code.name] = (ours, theirs)
    assert not different


def refusal(side: Authority, code: int, user: str) -> str:
    """What the gate says; "" for a request that passes, whatever then becomes of it."""
    data = json.dumps(BODIES.get(code, {})).encode()
    try:
        reply = call(side.address, code, credentials(user).signed(fields_of(code), data), data, timeout=10)
    except TimeoutError:
        assert code in UNANSWERED
        return ""
    remark = reply.remark or ""
    found = "to access the message from" in remark  # after it has passed (rocketpy/broker/message_rights.py)
    return evened(reply)[1] if reply.code == NO_PERMISSION and "has no permission" in remark and not found else ""


# ---- transactions ----

PREPARED = "TRAN_MSG\x01true\x02PGROUP\x01PID\x02UNIQ_KEY\x01AB\x02"
QUEUE_OFFSET_AT, BODY_AT = 20, 88
"""In a record."""


def prepared(side: Authority, topic: str, user: str, body: bytes = b"money") -> dict[str, str]:
    """What ends it."""
    fields = {**send_fields(topic), "f": "4", "g": str(time.time_ns() // 1_000_000), "i": PREPARED}
    reply = call(side.address, SEND, credentials(user).signed(fields, body), body)
    assert reply.code == 0, reply.remark
    place, queue_offset = str(int(reply.fields["msgId"][16:], 16)), reply.fields["queueOffset"]
    end = {"producerGroup": "PID", "tranStateTableOffset": queue_offset, "commitLogOffset": place, "commitOrRollback": "8"}
    return {**end, "fromTransactionCheck": "false", "msgId": "AB"}


def ended(side: Authority, user: str, end: dict[str, str]) -> tuple[int, bool]:
    """The answer, and whether it is about rights on the message."""
    reply = call(side.address, RequestCode.END_TRANSACTION, credentials(user).signed(end, b""))
    return reply.code, "no matched policies" in (reply.remark or "")


def test_rocketmq_lets_everybody_end_a_transaction(sides: list[Authority]) -> None:
    ours, theirs = sides
    ends = [prepared(side, "secret", "topical") for side in sides]
    assert ended(ours, "nobody", ends[0]) == (NO_PERMISSION, True)
    assert ended(theirs, "nobody", ends[1]) == (0, False)
    assert ended(ours, "topical", ends[0]) == (0, False)


def test_rocketmq_ends_what_looks_like_a_prepared_message(sides: list[Authority]) -> None:
    """It lies in the body of another one, and names a queue offset that is not its own."""
    codes = []
    for side in sides:
        victim, own = prepared(side, "secret", "topical"), prepared(side, "own", "topical")
        record = bytearray(
            call(side.address, RequestCode.VIEW_MESSAGE_BY_ID, credentials("super").signed({"offset": own["commitLogOffset"]}, b"")).body
        )
        place = int(own["commitLogOffset"]) + len(record) + BODY_AT
        struct.pack_into(">QQ", record, QUEUE_OFFSET_AT, int(victim["tranStateTableOffset"]), place)
        carrier = prepared(side, "own", "topical", bytes(record))
        assert int(carrier["commitLogOffset"]) + BODY_AT == place, "something else was stored between"
        end = {**own, "tranStateTableOffset": victim["tranStateTableOffset"], "commitLogOffset": str(place)}
        codes.append(ended(side, "topical", end)[0])
    assert codes == [1, 0]


# ---- which entry decides ----

RULES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "literal": ([entry("Topic:orders", "Pub")], []),
    "literal of another": ([entry("Topic:order", "Pub")], []),
    "prefix": ([entry("Topic:ord*", "Pub")], []),
    "prefix of another": ([entry("Topic:xord*", "Pub")], []),
    "any topic": ([entry("Topic:*", "Pub")], []),
    "anything": ([entry("*", "Pub")], []),
    "any group": ([entry("Group:*", "Pub")], []),
    "all actions": ([entry("Topic:orders", "All")], []),
    "another action": ([entry("Topic:orders", "Sub", "Get", "Update")], []),
    "one of several": ([entry("Topic:orders", "Sub", "Pub")], []),
    "deny": ([entry("Topic:orders", "Pub", decision="Deny")], []),
    "deny of another action": ([entry("Topic:orders", "Sub", decision="Deny"), entry("Topic:ord*", "Pub")], []),
    "literal before prefix": ([entry("Topic:ord*", "Pub", decision="Deny"), entry("Topic:orders", "Pub")], []),
    "literal deny before prefix": ([entry("Topic:orders", "Pub", decision="Deny"), entry("Topic:ord*", "Pub")], []),
    "longer prefix first": ([entry("Topic:o*", "Pub"), entry("Topic:order*", "Pub", decision="Deny")], []),
    "longer prefix allows": ([entry("Topic:order*", "Pub"), entry("Topic:o*", "Pub", decision="Deny")], []),
    "prefix before any": ([entry("Topic:*", "Pub", decision="Deny"), entry("Topic:o*", "Pub")], []),
    "a type before any type": ([entry("*", "Pub", decision="Deny"), entry("Topic:*", "Pub")], []),
    "any type denies": ([entry("*", "All", decision="Deny")], []),
    "custom before default": ([entry("Topic:*", "Pub")], [entry("Topic:orders", "Pub", decision="Deny")]),
    "custom denies before default": ([entry("Topic:*", "Pub", decision="Deny")], [entry("Topic:orders", "Pub")]),
    "default where custom says nothing": ([entry("Topic:bills", "Pub")], [entry("Topic:orders", "Pub")]),
    "default alone": ([], [entry("Topic:*", "Pub")]),
    "its address": ([entry("Topic:orders", "Pub", source_ips=["127.0.0.1"])], []),
    "another address": ([entry("Topic:orders", "Pub", source_ips=["127.0.0.2"])], []),
    "its network": ([entry("Topic:orders", "Pub", source_ips=["10.0.0.0/8", "127.0.0.0/8"])], []),
    "another network": ([entry("Topic:orders", "Pub", source_ips=["10.0.0.0/8", "128.0.0.0/8"])], []),
    "deny from another network": ([entry("Topic:orders", "Pub", decision="Deny", source_ips=["10.0.0.0/8"]), entry("Topic:o*", "Pub")], []),
}


def test_the_same_entry_decides(sides: list[Authority]) -> None:
    answers: list[dict[str, tuple[int, str]]] = []
    for side in sides:
        answers.append({})
        for number, (name, (custom, default)) in enumerate(RULES.items()):
            user = f"ruled{number:02}"
            side.user(user, *custom, default=default)
            answers[-1][name] = ask(side, SEND, send_fields("orders"), b"x", credentials(user))
    assert answers[0] == answers[1]
    codes = {code for code, _ in answers[0].values()}
    assert codes == {0, NO_PERMISSION}
    assert answers[0]["deny"][1].endswith("the decision is deny.")


@pytest.mark.parametrize("topic", ["%RETRY%g1", "%DLQ%g1", "TBW102", "RMQ_SYS_TRANS_HALF_TOPIC"])
@pytest.mark.parametrize("user", ["topical", "grouper"])
def test_topics_that_stand_for_groups_ask_for_those(sides: list[Authority], topic: str, user: str) -> None:
    requests = {
        "send": (SEND, send_fields(topic, "other-group"), b"x"),
        "route": (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, b""),
        "pull": (RequestCode.PULL_MESSAGE, {**fields_of(RequestCode.PULL_MESSAGE), "topic": topic}, b""),
        "max offset": (RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"}, b""),
        "offset": (RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "g1", "topic": topic, "queueId": "0"}, b""),
    }
    answers = [
        {name: ask(side, code, fields, body, credentials(user)) for name, (code, fields, body) in requests.items()} for side in sides
    ]
    refused = [{name: remark for name, (code, remark) in each.items() if "has no permission" in remark} for each in answers]
    assert refused[0] == refused[1]


# ---- requests about users and rights ----

ACL = {"policies": [{"entries": [entry("Topic:t*", "pub", "SUB", source_ips=["10.0.0.0/8"])]}]}


def acl(*entries: dict[str, Any], kind: str | None = None) -> dict[str, Any]:
    return {"policies": [{"policyType": kind, "entries": list(entries)}]}


ALICE, SUBJECT = {"username": "alice"}, {"subject": "User:alice"}
STEPS: list[tuple[int, dict[str, str], Any]] = [
    (RequestCode.AUTH_GET_USER, ALICE, b""),
    (RequestCode.AUTH_CREATE_USER, {"username": ""}, {"password": "x"}),
    (RequestCode.AUTH_CREATE_USER, {"username": " "}, {"password": "x"}),
    (RequestCode.AUTH_CREATE_USER, ALICE, {"password": " "}),
    (RequestCode.AUTH_CREATE_USER, ALICE, {"password": "one", "userType": "whatever"}),
    (RequestCode.AUTH_CREATE_USER, ALICE, {"password": "one"}),
    (RequestCode.AUTH_GET_USER, ALICE, b""),
    (RequestCode.AUTH_GET_USER, {"username": " "}, b""),
    (RequestCode.AUTH_UPDATE_USER, {}, {"password": "two"}),
    (RequestCode.AUTH_UPDATE_USER, {"username": "bob"}, {"password": "two"}),
    (RequestCode.AUTH_UPDATE_USER, ALICE, {"password": "two"}),
    (RequestCode.AUTH_UPDATE_USER, ALICE, {"userStatus": "DISABLE", "userType": "none"}),
    (RequestCode.AUTH_GET_USER, ALICE, b""),
    (RequestCode.AUTH_CREATE_USER, {"username": "Älice 名"}, {"password": "pässword", "userType": "super", "userStatus": "disable"}),
    (RequestCode.AUTH_LIST_USER, {"filter": "lice"}, b""),
    (RequestCode.AUTH_LIST_USER, {"filter": "nobody there"}, b""),
    (RequestCode.AUTH_GET_ACL, SUBJECT, b""),
    (RequestCode.AUTH_GET_ACL, {"subject": "User:bob"}, b""),
    (RequestCode.AUTH_GET_ACL, {"subject": "Role:alice"}, b""),
    (RequestCode.AUTH_CREATE_ACL, {"subject": "User:bob"}, ACL),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, {"policies": [{"entries": []}]}),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(entry("Queue:t", "Pub"))),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(entry("Topic:t", "Any"))),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(entry("Topic:t", "Fly"))),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(entry("Topic:t", "Pub", source_ips=["1.2.3"]))),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(entry("Topic:t", "Pub", source_ips=[""]))),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(entry("Topic:t", "Pub", decision="Perhaps"))),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, ACL),
    (RequestCode.AUTH_GET_ACL, SUBJECT, b""),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(entry("Topic:t*", "Get", decision="DENY"), entry("Group:g", "Sub"), entry("*", "All"))),
    (RequestCode.AUTH_UPDATE_ACL, SUBJECT, acl(entry("Cluster:c*", "Get", "List"), kind="default")),
    (RequestCode.AUTH_GET_ACL, SUBJECT, b""),
    (RequestCode.AUTH_LIST_ACL, {"subjectFilter": "alice"}, b""),
    (RequestCode.AUTH_LIST_ACL, {"subjectFilter": "alice", "resourceFilter": "Group"}, b""),
    (RequestCode.AUTH_LIST_ACL, {"subjectFilter": "alice", "resourceFilter": "nothing"}, b""),
    (RequestCode.AUTH_DELETE_ACL, {**SUBJECT, "resource": "Topic:t"}, b""),
    (RequestCode.AUTH_DELETE_ACL, {**SUBJECT, "resource": "Topic:t*"}, b""),
    (RequestCode.AUTH_DELETE_ACL, {**SUBJECT, "resource": "Cluster:c*", "policyType": "Default"}, b""),
    (RequestCode.AUTH_GET_ACL, SUBJECT, b""),
    (RequestCode.AUTH_DELETE_ACL, SUBJECT, b""),
    (RequestCode.AUTH_DELETE_ACL, SUBJECT, b""),
    (RequestCode.AUTH_CREATE_ACL, SUBJECT, ACL),
    (RequestCode.AUTH_DELETE_USER, ALICE, b""),
    (RequestCode.AUTH_DELETE_USER, ALICE, b""),
    (RequestCode.AUTH_DELETE_USER, {"username": " "}, b""),
    (RequestCode.AUTH_CREATE_USER, ALICE, {"password": "one"}),
    (RequestCode.AUTH_GET_ACL, SUBJECT, b""),
]


def test_requests_about_users_and_rights_are_answered_alike(sides: list[Authority]) -> None:
    for code, fields, body in STEPS:
        replies = [signed(side.address, code, fields, body) for side in sides]
        answers = [(*evened(reply), reply.json() if reply.body else None) for reply in replies]
        assert answers[0] == answers[1], (RequestCode(code).name, fields, body)


def test_only_super_users_touch_super_users(sides: list[Authority]) -> None:
    for code, body in (
        (RequestCode.AUTH_CREATE_USER, {"password": "x", "userType": "Super"}),
        (RequestCode.AUTH_UPDATE_USER, {"userType": "Super"}),
        (RequestCode.AUTH_UPDATE_USER, {"password": "x"}),
        (RequestCode.AUTH_DELETE_USER, b""),
    ):
        for name in ("new", "topical", "super"):
            if code != RequestCode.AUTH_DELETE_USER or name == "super":
                answers = [ask(side, code, {"username": name}, body, credentials("clusterer")) for side in sides]
                assert answers[0] == answers[1], (code, name, body)
