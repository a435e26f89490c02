"""Whatever bytes a stranger sends to a running broker or name server: each request is answered in RocketMQ's codes with a remark, each
broken frame ends in a logged close, nothing crashes or grows, and the clients beside it never notice.

ROCKETPY_SEED repeats the random part of a failed run.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from rocketpy._core.remoting import encode_command
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.headers import header_for
from tests.crash.broker_process import BrokerProcess, NameServerProcess, Server
from tests.processes import wait_until

from .requests_wire import Outcome, Wire

SEED = int(os.environ.get("ROCKETPY_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
GROWTH_BYTES_MAX = 48 << 20
IDLE_CONNECTIONS = 10_000
IDLE_ADDRESSES = ("127.0.0.2", "127.0.0.3")  # nobody else comes from there

SEND_LONG = {
    "producerGroup": "p", "topic": "CrashTest", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0",
    "bornTimestamp": "1", "flag": "0", "properties": "", "reconsumeTimes": "0", "unitMode": "false",
}  # fmt: skip
SEND = {
    "a": "p", "b": "CrashTest", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0", "k": "false",
    "m": "false",
}  # fmt: skip
PULL = {
    "consumerGroup": "g", "topic": "CrashTest", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
    "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
}  # fmt: skip
OFFSET = {"consumerGroup": "g", "topic": "CrashTest", "queueId": "0", "commitOffset": "0"}
HOT = {10: SEND_LONG, 310: SEND, 320: SEND, 11: PULL, 361: PULL, 14: OFFSET, 15: OFFSET, 30: OFFSET, 31: OFFSET}

CODES = (*range(403), 513, *range(900, 1014), *range(2000, 2005), *range(3000, 3011), 5001, -1, 32767)
WIDE_CODES = (*range(200050, 200078), 2147483647)  # no room for these in the header of ROCKETMQ
VALUES = ("", "x", "-1", "0", "1", str(2**31 - 1), str(2**63 - 1), str(-(2**63)), "9" * 40, "true", "y" * 300, "\x00\x01\x02", "日本")
LONG_WAITS = (str(2**31 - 1), str(2**63 - 1))
BODIES = (
    b"", b"x", b"{}", b"[]", b"null", b"1e999", b'{"a":"\xff"}', b"[" * 2000, bytes(range(256)),
    b'{"mqSet":[[]],"topicConfigTable":[1]}',
    b"productEnvName=\\ud800\nregionId=\\ud800",
    b'{"clientID":"\\ud800","groupName":"\\ud800","topicName":"\\ud800","topicConfigTable":{"\\ud800":{"topicName":"\\ud800"}}}',
    b'{"clientID":5,"consumerDataSet":{"a":1},"producerDataSet":[1],"groupName":[],"topicName":7,"mqSet":3,"subscriptionData":3}',
)  # fmt: skip


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    home = tmp_path_factory.mktemp("bad_input")
    print(f"ROCKETPY_SEED={SEED}")
    namesrv = NameServerProcess(home / "namesrv")
    broker = BrokerProcess(home / "broker", namesrvAddr=namesrv.address, stallTimeoutMillis=2000)
    try:
        namesrv.start()
        broker.start()
        yield broker, namesrv
    finally:
        broker.stop()
        namesrv.stop()


@pytest.fixture(params=("broker", "namesrv"))
def server(request: pytest.FixtureRequest, servers: tuple[Server, Server]) -> Iterator[Server]:
    """Each server, and afterwards: it is the same process, answers others, has logged no trace of a fault and has not grown."""
    chosen = servers[("broker", "namesrv").index(request.param)]
    process = psutil.Process(chosen.pid)
    before = process.memory_info().rss
    yield chosen
    assert_unharmed(chosen)
    assert process.memory_info().rss - before < GROWTH_BYTES_MAX
    assert "Traceback" not in chosen.log.read_text(errors="replace")


@pytest.fixture
def broker(servers: tuple[Server, Server]) -> Iterator[Server]:
    yield servers[0]
    assert_unharmed(servers[0])


def assert_unharmed(server: Server) -> None:
    code, fields = (310, SEND) if server.role == "broker" else (RequestCode.GET_BROKER_CLUSTER_INFO, {})
    with Wire(server.port) as wire:
        wire.write(encode_command(code, fields, b"still there", opaque=7))
        answer = wire.read()
    assert answer is not None and (answer.code, answer.opaque) == (0, 7)


def logged(server: Server, text: str) -> bool:
    logs = [server.log, *sorted((server.directory / "logs").rglob("*.log"))]
    return any(text in log.read_text(errors="replace") for log in logs if log.exists())


def field_names(code: int) -> list[str]:
    header = header_for(code)
    return sorted({*SEND, *SEND_LONG, *PULL, *OFFSET, *(field.wire_name for field in header.plan)} if header else {*SEND, *PULL})


def whole_requests(code: int, random_source: random.Random) -> Iterator[tuple[dict[str, str], bytes]]:
    """No field, all fields with one value, every body, mixtures; for the hot codes a good request with one bad field as well."""
    names = field_names(code)
    yield {}, b""
    for value in VALUES:
        yield dict.fromkeys(names, value), random_source.choice(BODIES)
    for body in BODIES:
        yield dict.fromkeys(names, "1"), body
    for _ in range(4):
        mixed = {name: random_source.choice(VALUES) for name in names if random_source.random() < 0.9}
        if mixed.get("pollTime") in LONG_WAITS:  # of a topic that an earlier request may have made: whoever waits is right to get no answer
            mixed["pollTime"] = "1"
        yield mixed, random_source.choice(BODIES)
    for name in HOT.get(code, {}):
        for value in VALUES:
            yield {**HOT[code], name: value}, b"body"
        yield {key: value for key, value in HOT[code].items() if key != name}, b"body"


def ask_everything(
    server: Server, codes: tuple[int, ...], serialize_type: int
) -> Iterator[tuple[int, dict[str, str], bytes, Outcome, int]]:
    random_source = random.Random(SEED)
    for code in codes:
        asked = list(whole_requests(code, random_source))
        frames = b"".join(
            encode_command(code, fields, body, opaque=opaque, serialize_type=serialize_type) for opaque, (fields, body) in enumerate(asked)
        )
        with Wire(server.port) as wire:
            outcome = wire.exchange(frames, range(len(asked)))
        for opaque, (fields, body) in enumerate(asked):
            yield code, fields, body, outcome, opaque


@pytest.mark.parametrize("encoding", ("JSON", "ROCKETMQ"))
def test_every_code_with_every_kind_of_nonsense_is_answered_with_a_code_and_a_remark(server: Server, encoding: str) -> None:
    serialize_type = ("JSON", "ROCKETMQ").index(encoding)
    codes = CODES if serialize_type else CODES + WIDE_CODES
    for code, fields, body, outcome, opaque in ask_everything(server, codes, serialize_type):
        asked = f"code {code}, fields {fields}, body {body[:40]!r}, seed {SEED}"
        answer = outcome.answers.get(opaque)
        assert answer is not None, f"{'closed' if outcome.is_closed else 'no answer'}: {asked}"
        assert answer.serialize_type == serialize_type, asked
        assert answer.code == ResponseCode.SUCCESS or answer.remark, f"{answer.code} without a remark: {asked}"


def frame(size: int, header_word: int, rest: bytes = b"") -> bytes:
    return struct.pack(">II", size, header_word) + rest


GOOD = encode_command(RequestCode.GET_MAX_OFFSET, {"topic": "CrashTest", "queueId": "0"}, opaque=1)
BINARY_HEAD = struct.pack(">hBhii", 10, 3, 479, 1, 0)
"""Code, language, version, opaque and flag; the sizes of remark and fields follow."""
BROKEN = {
    "zero length": b"\x00\x00\x00\x00" * 2,
    "length of three": frame(3, 0),
    "negative length": frame(0xFFFFFFFF, 0),
    "largest length": frame(0x7FFFFFFF, 8),
    "one byte over the limit": frame(16 * 1024 * 1024 - 3, 8),
    "header longer than the frame": frame(20, 17, b"x" * 16),
    "header of sixteen megabytes": frame(20, 0xFFFFFF, b"x" * 16),
    "unknown serialize type": frame(8, 0x07000004, b"{}  "),
    "text of another protocol": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a TLS hello": bytes.fromhex("1603010200010001fc0303") + bytes(64),
    "JSON cut short": frame(14, 10, b'{"code":10'),
    "JSON that is a list": frame(6, 2, b"[]"),
    "JSON that is a number": frame(5, 1, b"7"),
    "no JSON": frame(12, 8, b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8"),
    "JSON with a text for a code": frame(4 + 21, 21, b'{"code":"x","flag":0}'),
    "JSON nested without end": frame(4 + 9000, 9000, b'{"extFields":' + b"[" * 8987),
    "a code past 32 bits": frame(4 + 26, 26, b'{"code":99999999999999999}'),
    "binary header cut short": frame(4 + 5, 0x01000005, b"\x00\x0a\x03\x00\x00"),
    "binary remark longer than the header": frame(25, 0x01000015, BINARY_HEAD + b"\x7f\xff\xff\xff" + bytes(4)),
    "binary fields longer than the header": frame(25, 0x01000015, BINARY_HEAD + bytes(4) + b"\x7f\xff\xff\xff"),
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_frame_is_closed_with_a_line_in_the_log_however_good_the_one_before_it_was(server: Server, broken: bytes) -> None:
    with Wire(server.port) as wire:
        address = f"127.0.0.1:{wire.local_port}"
        wire.write(GOOD)
        answer = wire.read()
        assert answer is not None and answer.opaque == 1
        wire.write(broken)
        wire.end_of_writing()
        assert wire.read() is None
    wait_until(lambda: logged(server, address), 5, f"a line about {address} in {server.directory}")


def test_good_frames_with_random_bytes_changed_or_cut_away_never_hurt(server: Server) -> None:
    random_source = random.Random(SEED)
    good = [encode_command(code, fields, b"body" * 9, opaque=3, serialize_type=kind) for code, fields in HOT.items() for kind in (0, 1)]
    for _ in range(600):
        data = bytearray(random_source.choice(good))
        for _ in range(random_source.randrange(1, 6)):
            data[random_source.randrange(len(data))] = random_source.randrange(256)
        with Wire(server.port) as wire:
            wire.write(bytes(data[: random_source.randrange(1, len(data) + 1)]))
            wire.end_of_writing()


def test_a_good_frame_that_comes_byte_by_byte_is_answered(server: Server) -> None:
    with Wire(server.port) as wire:
        for byte in GOOD:
            wire.write(bytes([byte]))
        answer = wire.read()
    assert answer is not None and answer.opaque == 1


@contextlib.contextmanager
def idle_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    try:
        for number in range(count):
            connection = socket.socket()
            opened.append(connection)
            connection.bind((IDLE_ADDRESSES[number % 2], 0))
            connection.connect(("127.0.0.1", port))
        yield opened
    finally:
        for connection in opened:
            connection.close()


def test_ten_thousand_idle_connections_cost_little_and_leave_nothing_behind(server: Server) -> None:
    process = psutil.Process(server.pid)
    handles, memory = process.num_fds(), process.memory_info().rss  # with what the test before has left to be closed

    def accepted() -> int:
        return sum(1 for each in process.net_connections("tcp4") if each.raddr and each.raddr.ip in IDLE_ADDRESSES)

    with idle_connections(server.port, IDLE_CONNECTIONS):
        wait_until(lambda: accepted() == IDLE_CONNECTIONS, 20, "all of them accepted")
        assert_unharmed(server)
        cost = (process.memory_info().rss - memory) / IDLE_CONNECTIONS
        assert cost < 4096, f"{cost:.0f} bytes a connection"
    wait_until(lambda: process.num_fds() <= handles + 8, 20, "all of them closed")


def test_a_storm_of_connections_that_come_and_go_leaves_nothing_behind(server: Server) -> None:
    process = psutil.Process(server.pid)
    handles = process.num_fds()
    for number in range(2000):
        with Wire(server.port) as wire:
            wire.write(GOOD[: number % len(GOOD)])
            if number % 3 == 0:
                wire.reset()
    wait_until(lambda: process.num_fds() <= handles + 8, 20, "all of them closed")


def test_a_client_that_never_reads_is_closed_and_holds_no_more_than_its_share(broker: Server) -> None:
    body = b"x" * 60_000
    with Wire(broker.port) as wire:
        for opaque in range(40):
            wire.write(encode_command(310, {**SEND, "b": "NeverRead"}, body, opaque=opaque))
        assert all(answer is not None and answer.code == 0 for answer in (wire.read() for _ in range(40)))
    process = psutil.Process(broker.pid)
    before = process.memory_info().rss
    pull = encode_command(11, {**PULL, "topic": "NeverRead"}, opaque=1)
    with Wire(broker.port, receive_buffer=4096) as wire:
        assert closes(wire, lambda: wire.write(pull)), "it went on taking pulls"
        assert_unharmed(broker)
        assert process.memory_info().rss - before < GROWTH_BYTES_MAX
    wait_until(lambda: logged(broker, f"127.0.0.1:{wire.local_port}"), 5, "a line about the close")


def closes(wire: Wire, write: Callable[[], None]) -> bool:
    """Whether the server closes while we only ever write. A write that would block waits for the close."""
    try:
        for _ in range(100_000):
            write()
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return False


def test_a_broker_that_gets_nothing_but_oneway_nonsense_stays_silent(broker: Server) -> None:
    with Wire(broker.port) as wire:
        for code in range(400):
            wire.write(encode_command(code, {"topic": "x", "queueId": "-1"}, b"?", opaque=code + 10, flag=2))
        wire.write(GOOD)
        answer = wire.read()
    assert answer is not None and answer.opaque == 1


def test_asking_about_names_that_do_not_exist_leaves_nothing_behind(broker: Server) -> None:
    process = psutil.Process(broker.pid)
    asked = range(500)  # the ring of punted requests takes that many at once

    def ask() -> None:
        number = random.getrandbits(60)
        fields = [{**OFFSET, "consumerGroup": f"group-{number}-{each}", "topic": f"topic-{number}-{each}"} for each in asked]
        frames = b"".join(encode_command(RequestCode.QUERY_CONSUMER_OFFSET, fields[each], opaque=each) for each in asked)
        with Wire(broker.port) as wire:
            outcome = wire.exchange(frames, asked)
        assert [answer.code for answer in outcome.answers.values()] == [ResponseCode.QUERY_NOT_FOUND] * len(asked)

    def left_by_each() -> float:
        before = process.memory_info().rss
        for _ in range(20):
            ask()
        return (process.memory_info().rss - before) / (20 * len(asked))

    # What so many requests at once need stays the process's, 11 MB in all; what is left of each name would be left every time.
    wait_until(lambda: left_by_each() < 100, what="asking that leaves nothing behind")


def test_a_response_nobody_asked_for_is_dropped(server: Server) -> None:
    with Wire(server.port) as wire:
        wire.write(encode_command(0, {"x": "y"}, b"", opaque=99, flag=1) + GOOD)
        answer = wire.read()
    assert answer is not None and answer.opaque == 1


def test_the_log_of_a_flood_of_broken_frames_stays_small(servers: tuple[Server, Server], tmp_path: Path) -> None:
    broker = servers[0]
    logs = [broker.log, *sorted((broker.directory / "logs").rglob("*.log"))]
    before = sum(log.stat().st_size for log in logs)
    for _ in range(1000):
        with Wire(broker.port) as wire:
            wire.write(b"\x00" * 8)
    grown = sum(log.stat().st_size for log in logs) - before
    assert grown < 400_000, f"{grown} bytes for 1000 broken frames"
