"""A broker that asks who every request is from and what that user may do."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from rocketpy.auth.metadata import AUTH_FILE
from rocketpy.broker.service import BrokerService
from rocketpy.config import ConfigError
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.credentials import Credentials
from tests.unit.auth.rocksdb_writer import batch, record_file, write_rocksdb
from tests.unit.broker.pair import pair
from tests.unit.broker.running import Peer, Running, broker_config, eventually, run, running
from tests.unit.broker.test_metrics import PROM, scrape, value
from tests.unit.remoting.test_tls import context_of

ASKING = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"secret-of-root"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"secret-of-inner"}',
}
ROOT, INNER, ALICE = (Credentials(name, f"secret-of-{name}") for name in ("root", "inner", "alice"))
REFUSED = ResponseCode.NO_PERMISSION
UNKNOWN_CODE = 9999


async def done(peer: Peer, code: int, fields: dict[str, Any], body: Any = b"") -> None:
    answer = await peer.ask(code, fields, body)
    assert answer.code == 0, f"{answer.code}: {answer.remark}"


async def make_alice(root: Peer, *resources: str, actions: tuple[str, ...] = ("Pub", "Sub")) -> None:
    await done(root, RequestCode.AUTH_CREATE_USER, {"username": "alice"}, {"password": "secret-of-alice"})
    entries = [{"resource": resource, "actions": list(actions), "decision": "Allow"} for resource in resources]
    if entries:
        await done(root, RequestCode.AUTH_CREATE_ACL, {"subject": "User:alice"}, {"policies": [{"entries": entries}]})


async def codes(peer: Peer) -> dict[str, int]:
    """What becomes of a request of each way through the broker: answered by reactors, come up, come up to make a topic, unknown."""
    return {
        "send": (await peer.send("orders")).code,
        "pull": (await peer.pull("readers", "orders")).code,
        "heartbeat": (await peer.heartbeat("client", "readers", "orders")).code,
        "topics": (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**TOPIC, "topic": "bills"})).code,
        "unknown": (await peer.ask(UNKNOWN_CODE)).code,
    }


TOPIC = {"defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG"}


def test_every_way_into_the_broker_asks_who_is_there(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            await make_alice(at.peer(ROOT), "Topic:orders", "Group:readers")
            for stranger in (None, Credentials("root", "secret"), Credentials("bob", "secret-of-bob")):
                assert set((await codes(at.peer(stranger))).values()) == {REFUSED}
            not_there = int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
            assert await codes(at.peer(ALICE)) == {"send": 0, "pull": 0, "heartbeat": 0, "topics": REFUSED, "unknown": not_there}
            assert await codes(at.peer(ROOT)) == {"send": 0, "pull": 0, "heartbeat": 0, "topics": 0, "unknown": not_there}
            await done(at.peer(ROOT), RequestCode.AUTH_UPDATE_USER, {"username": "alice"}, {"userStatus": "disable"})
            assert set((await codes(at.peer(ALICE))).values()) == {REFUSED}

    run(test)


def test_a_change_of_rights_counts_when_it_is_acknowledged(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root, alice = at.peer(ROOT), at.peer(ALICE)
            await make_alice(root, "Topic:orders")
            assert (await alice.send("orders")).code == 0
            rights = {"policies": [{"entries": [{"resource": "Topic:orders", "actions": ["Pub"], "decision": "Deny"}]}]}
            await done(root, RequestCode.AUTH_UPDATE_ACL, {"subject": "User:alice"}, rights)
            answer = await alice.send("orders")
            assert answer.code == REFUSED
            assert answer.remark == "User:alice has no permission to access Topic:orders from 127.0.0.1, the decision is deny."
            await done(root, RequestCode.AUTH_DELETE_USER, {"username": "alice"})
            assert (await alice.send("orders")).remark == "User:alice is not found."

    run(test)


def test_users_outlive_the_broker_in_a_file_for_its_owner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            await make_alice(at.peer(ROOT), "Topic:orders")
            await done(at.peer(ROOT), RequestCode.AUTH_UPDATE_USER, {"username": "inner"}, {"userStatus": "disable"})
            await done(at.peer(ROOT), RequestCode.AUTH_UPDATE_USER, {"username": "root"}, {"password": "secret-of-root-2"})
        file = tmp_path / "store/config" / AUTH_FILE
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        caplog.set_level(logging.INFO)
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(ALICE).send("orders")).code == 0
            assert (await at.peer(ROOT).send("orders")).remark == "check signature failed."
            assert (await at.peer(Credentials("root", "secret-of-root-2")).send("orders")).code == 0
        file = tmp_path / "store/config" / AUTH_FILE
        refused, counts = "what is signed with it is refused here: user", f"({file}), and that counts"
        levels = {record.getMessage().partition(". Put")[0]: record.levelname for record in caplog.records}
        assert levels[f"initAuthenticationUser: {refused} 'root' has another password {counts}"] == "INFO", "as it should"
        assert levels[f"innerClientAuthenticationCredentials: {refused} 'inner' is disabled {counts}"] == "WARNING"
        assert "mqadmin updateUser -b THIS_BROKER -u inner -s enable" in caplog.text

    run(test)


def test_a_start_tries_its_own_credentials(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        asking = {**ASKING, "innerClientAuthenticationCredentials": '{"accessKey":"in ner","secretKey":"secret-of-inner"}'}
        async with running(tmp_path, **asking) as at:
            assert "refused here" not in caplog.text
            await done(at.peer(ROOT), RequestCode.AUTH_UPDATE_USER, {"username": "in ner"}, {"userType": "Normal"})
        for switches in ({"authorizationEnabled": "false"}, {"authenticationEnabled": "false", "authorizationEnabled": "false"}):
            async with running(tmp_path, **{**asking, **switches}):
                assert "refused here" not in caplog.text, "nobody asks"
        async with running(tmp_path, **asking):
            assert "refused here: user 'in ner' is no super user any more" in caplog.text and "-u 'in ner' -t Super" in caplog.text
        asking["innerClientAuthenticationCredentials"] = asking["innerClientAuthenticationCredentials"].replace("secret-of", "other-of")
        caplog.clear()
        async with running(tmp_path, **{**asking, "authenticationEnabled": "false"}):
            assert "is no super user any more" in caplog.text, "its signature, nobody asks for"

    run(test)


def test_without_the_two_switches_nobody_is_asked_and_users_are_made_for_later(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            await make_alice(at.peer(), "Topic:orders")
            assert (await at.peer(Credentials("bob", "whatever")).send("orders")).code == 0
        async with running(tmp_path, authenticationEnabled="true") as at:
            assert (await at.peer(ALICE).send("anything")).code == 0, "rights are not asked for"
            assert (await at.peer().send("orders")).remark == "username cannot be null."

    run(test)


def test_what_comes_by_tls_is_asked_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING, **{"tls.config.file": "/dev/null"}) as at:
            await make_alice(at.peer(ROOT), "Topic:orders")
            for who, code in ((None, REFUSED), (ALICE, 0), (Credentials("alice", "secret"), REFUSED)):
                async with RemotingClient(tls=context_of(), credentials=who) as client:
                    peer = Peer(at.broker.address)
                    peer.client = client
                    assert (await peer.send("orders")).code == code

    run(test)


def test_whitelisted_requests_are_let_in(tmp_path: Path) -> None:
    async def test() -> None:
        send = str(int(RequestCode.SEND_MESSAGE_V2))
        async with running(tmp_path, **ASKING, authenticationWhitelist=f"{send}, x", authorizationWhitelist=send) as at:
            assert (await at.peer().send("orders")).code == 0
            assert (await at.peer().pull("readers", "orders")).code == REFUSED

    run(test)


def test_refusals_are_counted_for_prometheus(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING, **PROM) as at:
            await make_alice(at.peer(ROOT))
            for who in (None, Credentials("alice", "secret"), ALICE):
                assert (await at.peer(who).send("orders")).code == REFUSED
            samples = await scrape(at.broker.metrics_port)
            assert value(samples, "rocketmq_auth_refused_total", check="authentication") == 2
            assert value(samples, "rocketmq_auth_refused_total", check="authorization") == 1

    run(test)


def test_no_secret_is_shown_or_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root = at.peer(ROOT)
            await make_alice(root, "Topic:orders")
            answer = await root.ask(RequestCode.GET_BROKER_CONFIG)
            assert answer.code == 0 and b"initAuthenticationUser" in answer.body and b"secret-of" not in answer.body
            assert (await at.peer(Credentials("alice", "secret-of-nobody")).send("orders")).code == REFUSED
            await root.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b'initAuthenticationUser={"username":"x","password":"secret-of-x"}')

    with caplog.at_level(logging.DEBUG):
        run(test)
    assert "secret-of" not in caplog.text


def test_a_slave_copies_from_a_master_that_asks_who_it_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, ASKING, ASKING, ROOT) as brokers:
            await brokers.settled()
            await done(brokers.master, RequestCode.UPDATE_AND_CREATE_TOPIC, {**TOPIC, "topic": "orders"})
            await brokers.copy_tables()
            parts = brokers.slave_service.parts
            assert parts is not None
            await eventually(lambda: "orders" in parts.topics, "the slave knows the topic")

    run(test)


def test_a_slave_that_its_master_does_not_know_says_what_to_put_right(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    others = {**ASKING, "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"secret-of-another"}'}

    async def test() -> None:
        async with pair(tmp_path, ASKING, others, ROOT) as brokers:
            await brokers.copy_tables()
            told = [message for message in caplog.messages if message.startswith("topic config could not be copied from master")]
            assert told and "check signature failed." in told[0] and "innerClientAuthenticationCredentials have to be" in told[0]

    run(test)


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({"authenticationEnabled": "true"}, "there are no users, every request is refused"),
        ({"authenticationEnabled": "true"}, "innerClientAuthenticationCredentials is not set"),
        ({"authorizationEnabled": "true"}, "whoever names a user has that user's rights"),
        ({"authenticationEnabled": "true"}, "mqadmin copyUser -f"),
        ({}, ""),
        (ASKING, "mqadmin copyAcl"),
    ],
)
def test_the_start_says_what_an_operator_may_not_know(
    settings: dict[str, str], warning: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "store/config/users").mkdir(parents=True)
    (tmp_path / "store/config/users/CURRENT").write_text("nothing")

    async def test() -> None:
        async with running(tmp_path, **settings):
            pass

    run(test)
    said = [message for message in caplog.messages if "Auth" in message or "authentication" in message or "mqadmin copy" in message]
    assert any(warning in message for message in said) if warning else not said


def rocketmq_users(tmp_path: Path, sequence: int, *names: str, **more: Any) -> None:
    """As a RocketMQ broker leaves them: all may send to `orders`. `more`: members of these rights."""
    users, acls = [], []
    for name in names:
        user = {"username": name, "password": f"secret-of-{name}", "userType": 2, "userStatus": 1}
        resource = {"resourceType": 4, "resourcePattern": 2, "resourceName": "orders"}
        entry = {"resource": resource, "actions": [3], "environment": {}, "decision": 1, **more}
        policies = [{"policyType": 1, "entries": [entry]}]
        users.append((name.encode(), json.dumps(user).encode()))
        acls.append((f"User:{name}".encode(), json.dumps({"policies": policies}).encode()))
    for directory, changes in (("users", users), ("acls", acls)):
        write_rocksdb(tmp_path / "store/config" / directory, {4: record_file([batch(sequence, *changes)])}, {})


def test_users_of_rocketmq_are_taken_over_and_again_when_it_has_changed_them(tmp_path: Path) -> None:
    bob = Credentials("bob", "secret-of-bob")
    rocketmq_users(tmp_path, 1, "alice")

    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(ALICE).send("orders")).code == 0
            assert (await at.peer(ALICE).send("bills")).code == REFUSED
            assert (await at.peer(ROOT).send("orders")).code == 0, "the configuration's users are there, too"
            await done(at.peer(ROOT), RequestCode.AUTH_DELETE_USER, {"username": "alice"})
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(ALICE).send("orders")).code == REFUSED, "RocketMQ changed nothing since: deleted is deleted"
        rocketmq_users(tmp_path, 9, "alice")
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(ALICE).send("orders")).code == REFUSED, "it has written the same once more"
        rocketmq_users(tmp_path, 1, "alice", "bob")
        async with running(tmp_path, **ASKING) as at:
            assert {(await at.peer(user).send("orders")).code for user in (ALICE, bob, ROOT)} == {0}
        rocketmq_users(tmp_path, 1, "bob")
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(ALICE).send("orders")).code == REFUSED, "RocketMQ had deleted her"
            assert (await at.peer(bob).send("orders")).code == 0

    run(test)


def test_users_that_were_made_here_first_stay(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            await make_alice(at.peer(ROOT), "Topic:orders")
        rocketmq_users(tmp_path, 1, "bob")
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(ALICE).send("orders")).code == 0
            assert (await at.peer(Credentials("bob", "secret-of-bob")).send("orders")).code == REFUSED
            await done(at.peer(ROOT), RequestCode.AUTH_DELETE_USER, {"username": "alice"})
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(Credentials("bob", "secret-of-bob")).send("orders")).code == REFUSED, "nor when the last of them is gone"

    run(test)


@pytest.mark.parametrize(
    "more",
    [
        {"environment": {"sourceIps": [f"10.0.{i >> 8}.{i & 255}" for i in range(1025)]}},
        {"resource": {"resourceType": 4, "resourcePattern": 2, "resourceName": "o" * 5000}},
    ],
)
def test_rights_of_rocketmq_that_have_no_room_here_are_told_and_change_nothing(
    tmp_path: Path, more: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    rocketmq_users(tmp_path, 1, "alice")

    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(ALICE).send("orders")).code == 0
        rocketmq_users(tmp_path, 1, "bob", "carol", **more)
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(ALICE).send("orders")).code == (await at.peer(ROOT).send("orders")).code == 0
            assert (await at.peer(Credentials("bob", "secret-of-bob")).send("orders")).code == REFUSED
        assert sum("are not taken over: User:bob: " in message for message in caplog.messages) == 1
        rocketmq_users(tmp_path, 1, "carol")
        async with running(tmp_path, **ASKING) as at:
            assert (await at.peer(Credentials("carol", "secret-of-carol")).send("orders")).code == 0
            assert (await at.peer(ALICE).send("orders")).code == REFUSED

    run(test)


PLAIN_ACL = """
accounts:
  - accessKey: alice
    secretKey: secret-of-alice
    whiteRemoteAddress: 192.168.0.*
    defaultTopicPerm: DENY
    topicPerms:
      - orders=PUB
  - accessKey: root
    secretKey: other
    admin: false
"""


def test_accounts_of_4x_are_taken_over_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/plain_acl.yml").write_text(PLAIN_ACL)
    settings = {**ASKING, "migrateAuthFromV1Enabled": "true", "rocketmqHome": str(tmp_path)}

    async def test() -> None:
        async with running(tmp_path, **settings) as at:
            assert (await at.peer(ALICE).send("orders")).code == 0
            assert (await at.peer(ALICE).send("bills")).code == REFUSED
            assert (await at.peer(ROOT).send("bills")).code == 0
            await done(at.peer(ROOT), RequestCode.AUTH_UPDATE_USER, {"username": "alice"}, {"password": "secret-of-alice-2"})
        async with running(tmp_path, **settings) as at:
            assert (await at.peer(ALICE).send("orders")).code == REFUSED
            assert (await at.peer(Credentials("alice", "secret-of-alice-2")).send("orders")).code == 0

    run(test)
    assert "white lists are not taken over" in caplog.text and "secret-of" not in caplog.text


@pytest.mark.parametrize("text", ["accounts: nonsense", "accounts:\n  - accessKey: a", "accounts:\n  - secretKey: &secret x", "\xff"])
def test_accounts_that_cannot_be_read_end_the_start(text: str, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/plain_acl.yml").write_bytes(text.encode("latin-1"))

    async def test() -> None:
        service = BrokerService(broker_config(tmp_path, migrateAuthFromV1Enabled="true", rocketmqHome=str(tmp_path)))
        with pytest.raises(ConfigError, match=r"migrateAuthFromV1Enabled: .*plain_acl\.yml: "):
            await service.start()

    run(test)


def test_a_first_user_that_cannot_be_read_ends_the_start(tmp_path: Path) -> None:
    async def test() -> None:
        service = BrokerService(broker_config(tmp_path, initAuthenticationUser="root:secret"))
        with pytest.raises(ConfigError, match="initAuthenticationUser: is no JSON object") as fault:
            await service.start()
        assert "secret" not in str(fault.value)

    run(test)


def test_users_that_a_full_table_refuses_are_not_acknowledged(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            await too_long(at)

    run(test)


async def too_long(at: Running) -> None:
    """Names and lists are bounded by the native table, whose error is the answer."""
    root = at.peer(ROOT)
    answer = await root.ask(RequestCode.AUTH_CREATE_USER, {"username": "x" * 5000}, {"password": "x"})
    assert answer.code != 0 and answer.remark
    await make_alice(root)
    entries = [{"resource": f"Topic:{number}", "actions": ["Pub"], "decision": "Allow"} for number in range(20_000)]
    answer = await root.ask(RequestCode.AUTH_CREATE_ACL, {"subject": "User:alice"}, {"policies": [{"entries": entries}]})
    assert answer.code != 0 and answer.remark
    assert (await root.ask(RequestCode.AUTH_GET_ACL, {"subject": "User:alice"})).body == b""
