"""Who may do what by way of the proxy: the decisions, and a whole proxy that copies its users from a broker."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.auth.acls import Acl
from rocketpy.auth.users import User
from rocketpy.proxy import schema
from rocketpy.proxy.brokers import Brokers
from rocketpy.proxy.claims import Claim, claim_of
from rocketpy.proxy.copied_users import CopiedUsers
from rocketpy.proxy.requested_rights import Right, requested_rights
from rocketpy.proxy.service import ProxyService
from rocketpy.proxy.settings import NO_PORT, ProxySettings
from rocketpy.proxy.status import ProxyError
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError
from rocketpy.testing import LocalRocketMQ
from tests.unit.native import ffi, lib

from .test_native_sending import slice_of
from .test_service import HEADERS, Peer, code, consumer, message, running

TIME = "20261126T041500Z"
CHECKS: dict[str, Any] = {"authentication_enabled": True, "authorization_enabled": True}


def signed_by(user: str, secret: str, **further: str) -> tuple[tuple[str, str], ...]:
    """Metadata as RocketMQ's clients make it."""
    digest = hmac.digest(secret.encode(), TIME.encode(), hashlib.sha1).hex().upper()
    text = f"MQv2-HMAC-SHA1 Credential={user}//Rocketmq, SignedHeaders=x-mq-date-time, Signature={digest}"
    return (*HEADERS, ("authorization", text), ("x-mq-date-time", TIME), *further.items())


# ---- decisions ----


def test_a_claim_is_read_or_refused() -> None:
    assert claim_of("", "") == Claim()
    assert claim_of("X Credential=a/b/c, Signature=00ff", "T") == Claim("a", b"T", "AP8=")
    for text, time in (("X Credential=a", ""), ("X", "T"), ("X a", "T"), ("X Signature=xy", "T"), ("X a=b," * 9999, "T")):
        with pytest.raises(ProxyError) as raised:
            claim_of(text, time)
        assert raised.value.code == "UNAUTHORIZED"


def claim_by_c(text: str) -> tuple[str, str] | None:
    """(user, signature in base64); None: that is left to Python."""
    keep: list[Any] = []
    user, digest = ffi.new("rp_slice *"), ffi.new("uint8_t[20]")
    if not lib.rp_call_claim_read(slice_of(text.encode("latin-1"), keep), user, digest):
        return None
    return bytes(ffi.buffer(user.data, user.size)).decode("latin-1"), base64.b64encode(bytes(ffi.buffer(digest))).decode()


CLAIM = f"MQv2-HMAC-SHA1 Credential=alice/x, SignedHeaders=x-mq-date-time, Signature={'0aF9' * 10}"


def test_a_usual_claim_is_read_natively_too() -> None:
    claim = claim_of(CLAIM, "T")
    assert claim_by_c(CLAIM) == (claim.user, claim.signature) == ("alice", base64.b64encode(bytes.fromhex("0af9" * 10)).decode())
    for odd in (
        "",
        "X",
        "X a",
        CLAIM.replace("alice/x", ""),
        CLAIM[:-1],
        CLAIM + "00",
        CLAIM + ",",
        CLAIM[:-1] + "g",
        CLAIM + ", a=b" * 9999,
    ):
        assert claim_by_c(odd) is None


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, len(CLAIM) - 1), st.sampled_from(" ,=/\t+ABCDEFabcdef019xg")), min_size=1, max_size=4))
def test_any_claim_that_is_read_natively_says_what_the_python_way_reads(changes: list[tuple[int, str]]) -> None:
    changed = list(CLAIM)
    for place, character in changes:
        changed[place] = character
    native = claim_by_c("".join(changed))
    if native is not None:
        claim = claim_of("".join(changed), "T")
        assert native == (claim.user, claim.signature)


def asked(name: str, **fields: Any) -> list[Right]:
    return requested_rights(schema.message(name)(**fields))


def test_every_request_asks_for_what_it_touches() -> None:
    topic, group = Right("Topic", "t", ("Pub",)), Right("Group", "g", ("Sub",))
    reads = Right("Topic", "t", ("Sub",))
    of = {"topic": {"name": "t"}, "group": {"name": "g"}}
    assert asked("SendMessageRequest", messages=[message("t"), message("t"), message("u")]) == [topic, Right("Topic", "u", ("Pub",))]
    assert asked("EndTransactionRequest", topic=of["topic"]) == asked("RecallMessageRequest", topic=of["topic"]) == [topic]
    assert asked("QueryRouteRequest", topic=of["topic"]) == [Right("Topic", "t", ("Pub", "Sub"))]
    for name in ("AckMessage", "ForwardMessageToDeadLetterQueue", "ChangeInvisibleDuration", "QueryAssignment"):
        assert asked(f"{name}Request", **of) == [group, reads]
    assert asked("ReceiveMessageRequest", group=of["group"], message_queue={"topic": of["topic"]}) == [group, reads]
    assert asked("HeartbeatRequest", group=of["group"], client_type=1) == [] and asked("NotifyClientTerminationRequest") == []
    assert asked("HeartbeatRequest", group=of["group"], client_type=2) == [group]
    assert asked("TelemetryCommand", settings=consumer("t", "g")) == [group, reads]
    assert asked("TelemetryCommand", settings={"publishing": {"topics": [of["topic"]]}}) == [topic]
    assert asked("TelemetryCommand", thread_stack_trace={}) == []
    for name in ("SendMessageRequest", "QueryRouteRequest", "ReceiveMessageRequest", "AckMessageRequest"):
        with pytest.raises(ProxyError):
            asked(name)


def test_what_brokers_list_is_in_force_and_nothing_else() -> None:
    settings = ProxySettings(namesrv_addr="127.0.0.1:1", **CHECKS)
    users = CopiedUsers(settings, Brokers(settings, lambda address, request: None))
    rights = {"policies": [{"entries": [{"resource": "Topic:t*", "actions": ["Pub"], "decision": "Allow"}]}], "subject": "User:alice"}
    try:
        users.put([User("alice", "a"), User("x" * 5000, "too long")], [Acl.from_json(rights)])
        assert len(users) == 1 and users.tables.judge("alice", "Topic", "top", ("Pub",), "127.0.0.1") == 0
        users.put([User("alice", "b"), User("root", "r", "Super")], [])
        assert users.tables.judge("alice", "Topic", "top", ("Pub",), "127.0.0.1") == 2
        assert users.tables.judge("root", "Topic", "top", ("Pub",), "127.0.0.1") == 0
        users.put([], [])
        assert len(users) == 0 and users.tables.judge("root", "Topic", "top", ("Pub",), "127.0.0.1") == 2
    finally:
        users.close()


def test_a_proxy_that_brokers_refuse_says_what_to_put_right(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(brokers: Brokers, cluster: str) -> list[str]:
        raise CommandError(ResponseCode.NO_PERMISSION, "check signature failed.")

    monkeypatch.setattr(Brokers, "masters_of", refuse)

    async def test() -> None:
        settings = ProxySettings(namesrv_addr="127.0.0.1:1", **CHECKS)
        users = CopiedUsers(settings, Brokers(settings, lambda address, request: None))
        await users.copy()
        users.close()

    asyncio.run(test())
    (told,) = caplog.messages
    assert "check signature failed.; enableAclRpcHookForClusterMode=true has it sign with innerClientAuthenticationCredentials" in told


def test_who_is_refused_while_a_copy_is_made_waits_for_the_next(quick_copies: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one under way has asked before he was there."""

    async def test() -> None:
        listed, asked, answered = [[User("a", "a")], [User("a", "a"), User("b", "b")]], asyncio.Event(), asyncio.Event()

        async def ask(users: CopiedUsers) -> tuple[list[User], list[Acl]]:
            answer = listed.pop(0)
            asked.set()
            await answered.wait()
            return answer, []

        monkeypatch.setattr(CopiedUsers, "_ask", ask)
        settings = ProxySettings(namesrv_addr="127.0.0.1:1", **CHECKS)
        users = CopiedUsers(settings, Brokers(settings, lambda address, request: None))
        first = asyncio.ensure_future(users.copy())
        await asked.wait()
        refused = asyncio.ensure_future(users.copy_for_refused())
        await asyncio.sleep(0)  # he waits
        answered.set()
        await first
        assert "b" not in users
        assert await refused and "b" in users
        users.close()

    asyncio.run(test())


# ---- a proxy and a broker ----


@pytest.fixture
def quick_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine where one takes long: who was refused would be refused as he is, until more of the time is over."""
    monkeypatch.setattr("rocketpy.proxy.copied_users.PAUSE_S", 0.01)
    monkeypatch.setattr("rocketpy.proxy.copied_users.SHARE", 1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalRocketMQ]:
    """A broker that has users, and asks nobody."""
    with LocalRocketMQ() as rocketmq:
        yield rocketmq


async def tell(cluster: LocalRocketMQ, request: RequestCode, fields: dict[str, str], body: Any = None) -> None:
    async with RemotingClient() as client:
        await client.call(cluster.broker, request, fields, json.dumps(body).encode() if body is not None else b"")


async def new_user(cluster: LocalRocketMQ, name: str, *entries: tuple[str, str, str], kind: str = "Normal") -> None:
    await tell(cluster, RequestCode.AUTH_CREATE_USER, {"username": name}, {"password": f"secret of {name}", "userType": kind})
    if entries:
        listed = [{"resource": resource, "actions": [action], "decision": decision} for resource, action, decision in entries]
        body = {"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": listed}]}
        await tell(cluster, RequestCode.AUTH_CREATE_ACL, {"subject": f"User:{name}"}, body)


def test_a_user_does_what_he_may_and_nothing_else(cluster: LocalRocketMQ, quick_copies: None) -> None:
    topic = cluster.make_topic("Guarded")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        await new_user(cluster, "sender", (f"Topic:{topic}", "Pub", "Allow"))
        await new_user(
            cluster, "reader", ("Topic:*", "Sub", "Allow"), ("Group:readers*", "Sub", "Allow"), (f"Topic:{topic}", "Pub", "Deny")
        )
        send = {"name": "SendMessage", "messages": [message(topic)]}
        sender, reader = signed_by("sender", "secret of sender"), signed_by("reader", "secret of reader")
        assert code(await peer.ask(**send, headers=sender)) == "OK", "he is newer than the proxy's copy"
        nobody = f"has no permission to access Topic:{topic} from 127.0.0.1"
        for headers, why in (
            (HEADERS, "username cannot be null."),
            (signed_by("nobody", "x"), "User:nobody is not found."),
            (signed_by("sender", "wrong"), "check signature failed."),
            (reader, f"User:reader {nobody}, the decision is deny."),
            ((*reader, ("x-mq-authorization-ak", "sender")), f"User:reader {nobody}, the decision is deny."),
        ):
            refused = await peer.ask(**send, headers=headers)
            assert (code(refused), refused.status.message) == ("UNAUTHORIZED", why)
        of = {"topic": {"name": topic}, "group": {"name": "others"}}
        assert code(await peer.ask("QueryAssignment", headers=reader, **of)) == "UNAUTHORIZED"
        assert code(await peer.ask("QueryRoute", headers=reader, topic={"name": cluster.make_topic("Open")})) == "OK"
        async with peer.telemetry(headers=reader, **consumer(topic, "others")) as stream:
            assert code(stream.answer) == "UNAUTHORIZED"
        async with peer.telemetry(headers=reader, **consumer(topic, "readers-1")) as stream:
            assert code(stream.answer) == "OK"
            sender = signed_by("sender", "secret of sender")
            for headers, group in ((sender, {}), (reader, {"group": {"name": "others"}}), (HEADERS, {})):
                assert code(await peer.ask("NotifyClientTermination", headers=headers, **group)) == "UNAUTHORIZED"
            assert code(await peer.ask("NotifyClientTermination", headers=reader)) == "OK", "without a group it is the client's"
            assert code(await peer.ask("NotifyClientTermination", headers=sender)) == "UNRECOGNIZED_CLIENT_TYPE"

    running(cluster, test, **CHECKS)


def test_a_password_that_is_changed_counts_and_a_copy_outlives_its_broker(cluster: LocalRocketMQ, quick_copies: None) -> None:
    topic = cluster.make_topic("Kept")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        await new_user(cluster, "admin", kind="Super")
        route = {"name": "QueryRoute", "topic": {"name": topic}}
        assert code(await peer.ask(**route, headers=signed_by("admin", "secret of admin"))) == "OK"
        await tell(cluster, RequestCode.AUTH_UPDATE_USER, {"username": "admin"}, {"password": "new", "userType": "Super"})
        new = signed_by("admin", "new")
        assert code(await peer.ask(**route, headers=new)) == "OK"
        await asyncio.to_thread(cluster.stop)
        try:
            assert code(await peer.ask("AckMessage", topic={"name": topic}, group={"name": "g"}, headers=new)) != "UNAUTHORIZED"
            assert code(await peer.ask("AckMessage", topic={"name": topic}, group={"name": "g"}, headers=HEADERS)) == "UNAUTHORIZED"
        finally:
            await asyncio.to_thread(cluster.start)

    running(cluster, test, **CHECKS)


def test_without_any_users_nobody_is_let_in() -> None:
    async def run() -> None:
        ports: dict[str, Any] = {"grpc_server_port": 0, "remoting_listen_port": NO_PORT, "local_serve_addr": "127.0.0.1"}
        proxy = ProxyService(ProxySettings(namesrv_addr="127.0.0.1:1", tls_test_mode_enable=False, **ports, **CHECKS))
        await proxy.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
                refused = await Peer(channel).ask("QueryRoute", headers=signed_by("a", "b"), topic={"name": "t"})
                assert code(refused) == "INTERNAL_SERVER_ERROR" and "not known yet" in refused.status.message
        finally:
            await proxy.stop()

    asyncio.run(run())
