"""Users, rights and the gate as Python sees them; and bodies: the gate shows every name that Python's reader finds."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import select
import socket
from collections.abc import Iterator

import pytest

from rocketpy._core.auth import (
    ACTION_PUB,
    ACTION_SUB,
    PATTERN_ANY,
    PATTERN_LITERAL,
    PATTERN_PREFIXED,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    AclEntry,
    AuthTable,
    sign,
)
from rocketpy._core.errors import Busy, Closed, InvalidArgument, TooLarge
from rocketpy._core.remoting import KIND_COMMAND, Command, Server, decode_command, encode_command, scan_frame
from rocketpy.broker.heartbeat import Heartbeat
from rocketpy.remoting.json_codec import read_json
from tests.processes import PATIENCE_S

SEND, HEART_BEAT, NO_PERMISSION = 310, 34, 16


@pytest.fixture
def table() -> Iterator[AuthTable]:
    with AuthTable() as table:
        table.put_user("alice", b"12345678")
        table.put_acl("alice", [AclEntry(False, RESOURCE_TOPIC, PATTERN_PREFIXED, "to", ACTION_PUB, ("127.0.0.0/8",), False)])
        table.set_options(authenticate=True, authorize=True, cluster_name="c")
        table.publish()
        yield table


@pytest.fixture
def server(table: AuthTable) -> Iterator[Server]:
    with Server(bind_address="127.0.0.1") as server:
        server.set_gate(table)
        server.start()
        yield server


class Asker:
    """Sends requests and says which of them came up to Python."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        self._buffer = b""

    def close(self) -> None:
        self._socket.close()

    def ask(self, *frames: bytes) -> tuple[dict[int, Command], set[int]]:
        """Answers by opaque, and the opaques of what was let in; the frames have different ones."""
        self._socket.sendall(b"".join(frames))
        answers: dict[int, Command] = {}
        admitted: set[int] = set()
        while len(answers) + len(admitted) < len(frames):
            readable, _, _ = select.select([self._server.event_fd, self._socket], [], [], PATIENCE_S)
            assert readable, "neither answered nor let in"
            admitted |= {request.opaque for request in self._server.take() if request.kind == KIND_COMMAND}
            if self._socket in readable:
                self._buffer += self._socket.recv(1 << 20)
            while (size := scan_frame(self._buffer)) != 0:
                answer, self._buffer = decode_command(self._buffer[:size]), self._buffer[size:]
                answers[answer.opaque] = answer
        return answers, admitted


@pytest.fixture
def asker(server: Server) -> Iterator[Asker]:
    asker = Asker(server)
    yield asker
    asker.close()


def signed(fields: dict[str, str], secret: bytes, body: bytes = b"", *, code: int = SEND, serialize_type: int = 0) -> bytes:
    content = "".join(value for _, value in sorted(fields.items())).encode() + body
    return encode_command(code, fields | {"Signature": sign(secret, content)}, body, opaque=1, serialize_type=serialize_type)


def test_sign_is_base64_of_hmac_sha1() -> None:
    for secret in (b"", b"k", b"x" * 64, b"y" * 65):
        expected = base64.b64encode(hmac.new(secret, b"content", hashlib.sha1).digest()).decode()
        assert sign(secret, b"content") == expected


def test_who_has_signed_is_let_in_and_others_are_told_why(asker: Asker, table: AuthTable) -> None:
    fields = {"a": "group", "b": "topic", "AccessKey": "alice"}
    for serialize_type in (0, 1):
        answers, admitted = asker.ask(signed(fields, b"12345678", b"body", serialize_type=serialize_type))
        assert not answers and admitted == {1}
        answers, _ = asker.ask(signed(fields, b"12345679", b"body", serialize_type=serialize_type))
        assert (answers[1].code, answers[1].remark) == (NO_PERMISSION, "check signature failed.")
        answers, _ = asker.ask(signed(fields | {"b": "x"}, b"12345678", serialize_type=serialize_type))
        assert answers[1].remark == "User:alice has no permission to access Topic:x from 127.0.0.1, no matched policies."
    stats = table.stats()
    assert (stats["authenticated"], stats["authorized"], stats["unauthenticated"], stats["unauthorized"]) == (4, 2, 2, 2)
    assert (stats["users"], stats["acls"]) == (1, 1)


def test_what_was_put_counts_from_the_next_publish_on(asker: Asker, table: AuthTable) -> None:
    frame = signed({"b": "topic", "AccessKey": "alice"}, b"12345678")
    assert table.delete_user("alice") and not table.delete_user("alice")
    assert asker.ask(frame) == ({}, {1})
    table.publish()
    assert asker.ask(frame)[0][1].remark == "User:alice is not found."
    table.set_options(authenticate=True, authorize=True, cluster_name="c", authentication_whitelist=[SEND], authorization_whitelist={SEND})
    table.publish()
    assert asker.ask(frame) == ({}, {1})
    assert table.delete_acl("alice") and not table.delete_acl("alice")


def test_what_is_none_is_refused_and_changes_nothing(table: AuthTable) -> None:
    entry = AclEntry(False, RESOURCE_GROUP, PATTERN_LITERAL, "g", ACTION_SUB, (), False)
    for wrong in (entry._replace(resource_type=9), entry._replace(pattern=0), entry._replace(actions=1 << 12)):
        with pytest.raises(InvalidArgument, match="entry 1: there is no such"):
            table.put_acl("alice", [entry, wrong])
    with pytest.raises(InvalidArgument, match="entry 0: a source"):
        table.put_acl("alice", [entry._replace(sources=("10.0.0.0/8", "localhost"))])
    with pytest.raises(InvalidArgument):
        table.put_user("", b"secret")
    with pytest.raises(TooLarge):
        table.put_user("x" * 5000, b"secret")
    table.publish()
    assert (table.stats()["users"], table.stats()["acls"]) == (1, 1)


def test_a_table_closes_after_its_servers(table: AuthTable) -> None:
    server = Server(bind_address="127.0.0.1")
    server.set_gate(table)
    with pytest.raises(Busy):
        server.set_gate(table)
    with pytest.raises(Busy):
        table.close()
    server.close()
    table.close()
    table.close()
    with pytest.raises(Closed):
        table.publish()
    with Server(bind_address="127.0.0.1") as late:
        late.start()
        with AuthTable() as other, pytest.raises(Busy):
            late.set_gate(other)


BODIES = (
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t"}]}],"producerDataSet":[]}',
    b'{"consumerDataSet":[],"clientID":"c"}',
    b"{'clientID':'c','consumerDataSet':[{'groupName':'g'}]}",
    b'{"clientID":"c","x":{"groupName":"g"},"consumerDataSet":[{"$ref":"$.x"}]}',
    b'{clientID:"c",consumerDataSet:Set[{groupName:"g"}],}',
    b'{"clientID":"c"/*x*/,"consumerDataSet":[{"groupName":"g"}]}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g"}]}{}',
    b'{"clientID":"c",0:{"a":1},"consumerDataSet":[{"groupName":"g",1:2}]}',
)
PIECES = (
    *(b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b"\\", b"(", b")", b";", b"/*", b"*/", b"//"),
    *(b"\\u0022", b'\\"', b"\\x22", b"null", b"12L", b"undefined", b"Set[", b"new", b"\n", b"\0", b"\xef\xbb\xbf"),
    *(b'"consumerDataSet"', b"consumerDataSet", b'"groupName"', b'"$ref"', b'"x":'),
)


def mutated(chance: random.Random) -> bytes:
    body = bytearray(chance.choice(BODIES))
    for _ in range(chance.choice((0, 1, 1, 2, 3, 5))):
        at, other = chance.randrange(len(body) + 1), chance.choice(BODIES)
        start = chance.randrange(len(other))
        body[at : at + chance.choice((0, 0, 1, 5))] = chance.choice((chance.choice(PIECES), b"", other[start : start + 20]))
    return bytes(body)


def groups_in(body: bytes) -> list[str]:
    try:
        return [data.group for data in Heartbeat.from_json(read_json(body)).consumers]
    except ValueError:
        return []


def test_no_name_that_python_reads_passes_the_gate_unseen(asker: Asker, table: AuthTable) -> None:
    """Of somebody without rights, only bodies without names are let in."""
    table.put_user("nobody", b"")
    table.set_options(authenticate=False, authorize=True, cluster_name="c")
    table.publish()
    chance = random.Random(seed := random.randrange(1 << 32))
    named = passed = 0
    for _ in range(10):
        bodies = [mutated(chance) for _ in range(200)]
        frames = [encode_command(HEART_BEAT, {"AccessKey": "nobody"}, body, opaque=i) for i, body in enumerate(bodies)]
        _, admitted = asker.ask(*frames)
        groups = [groups_in(body) for body in bodies]
        unseen = [body for i, body in enumerate(bodies) if i in admitted and groups[i]]
        assert not unseen, f"seed {seed}: {unseen}"
        named += sum(map(bool, groups))
        passed += len(admitted)
    assert named > 20 and passed > 20, f"seed {seed}: the bodies have become too odd to say anything"


def test_entries_for_all_are_for_names_that_are_missing_too(asker: Asker, table: AuthTable) -> None:
    table.put_acl("alice", [AclEntry(True, RESOURCE_TOPIC, PATTERN_ANY, "", ACTION_PUB, (), False)])
    table.publish()
    assert asker.ask(signed({"a": "group", "AccessKey": "alice"}, b"12345678")) == ({}, {1})
