"""Servers that answer nonsense: every command ends, with its exit status and in lines, whatever it was told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from rocketpy._core.remoting import decode_command, encode_command
from rocketpy.admin.commands import COMMANDS
from rocketpy.cli.admin import run_admin
from rocketpy.remoting.codes import FLAG_RESPONSE, RequestCode
from tests.processes import PATIENCE_S

UNENDING = ("clusterRT", "startMonitoring")
BODIES = (
    b"\xff\xfe",
    b'[{"username":5,"policies":[7]},3]',
    b'{"offsetTable":{"x":1},"table":[1],"data":{"g":[1]},"connectionSet":[{"version":"x"}],"topicConfigTable":{"T":3}}',
    b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:{"brokerOffset":"many"}},"consumeStatsList":[{"g":[5]}],'
    b'"subscriptionTable":{"T":null},"queueData":[1],"haConnectionInfo":[{"transferredByteInSecond":"x"}],"replicasInfoTable":{"b":1}}',
    b'{"consumeTps":1e999,"topicPutTps":NaN,"table":{"msgPutTotalTodayNow":"Infinity"},"statsMinute":{"sum":1e999},"totalDiff":1e999,'
    b'"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:{"brokerOffset":1e999,"maxOffset":1e999}},"liteTopicCount":1e999}',
    b'{"consumerRunningInfo":%s,"table":%s,"groups":%s}' % ((b"[" * 600 + b"]" * 600,) * 3),
)
VALUES = {
    "i": "1",
    "q": "0",
    "o": "0",
    "b": "{server}",
    "a": "{server}",
    "s": "0",
    "f": "{server}",
    "m": "put",
    "e": "F",
    "t": "T",
    "p": "4",
}


class Stranger:
    """Answers every request with SUCCESS and the body of the moment; routes and clusters lead to itself."""

    def __init__(self) -> None:
        self.body = b""
        self.knows_routes = True
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stranger")

    def __enter__(self) -> Stranger:
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop).result(PATIENCE_S)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    async def _hang_up(self) -> None:
        conversations = asyncio.all_tasks() - {asyncio.current_task()}
        for each in conversations:
            each.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = await reader.readexactly(4)
                request = decode_command(size + await reader.readexactly(int.from_bytes(size, "big")))
                fields = {"offset": "x", "nextBeginOffset": "x", "controllerLeaderAddress": self.address, "wipeTopicCount": "²"}
                writer.write(encode_command(0, opaque=request.opaque, flag=FLAG_RESPONSE, fields=fields, body=self._body_for(request.code)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _body_for(self, code: int) -> bytes:
        address = self.address.encode()
        if self.knows_routes and code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            broker = b'{"brokerName":"b","cluster":"C","brokerAddrs":{"0":"%s"}}' % address
            return b'{"brokerDatas":[%s],"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":1}]}' % broker
        if self.knows_routes and code == RequestCode.GET_BROKER_CLUSTER_INFO:
            broker = b'{"b":{"brokerName":"b","cluster":"C","brokerAddrs":{"0":"%s"}}}' % address
            return b'{"brokerAddrTable":%s,"clusterAddrTable":{"C":["b"]}}' % broker
        return self.body


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    with Stranger() as found:
        yield found


@pytest.mark.parametrize("command", ["cleanUnusedTopic", "getSyncStateSet"])
def test_who_knows_no_broker_has_done_nothing(stranger: Stranger, capsys: pytest.CaptureFixture[str], command: str) -> None:
    stranger.body, stranger.knows_routes = b"{}", False
    more = ["-a", stranger.address, "-b", "no-such-broker"] if command == "getSyncStateSet" else []
    assert run_admin([command, "-n", stranger.address, *more]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_cluster_without_brokers_is_named(stranger: Stranger, capsys: pytest.CaptureFixture[str]) -> None:
    stranger.body, stranger.knows_routes = b'{"brokerAddrTable":{"b":{"brokerName":"b"}},"clusterAddrTable":{"C":[],"D":["b"]}}', False
    assert run_admin(["cleanUnusedTopic", "-n", stranger.address, "-c", "C"]) == 1
    assert "the name servers know no broker of cluster C; " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "status", "shown", "said"),
    [(b'{"b":{"masterBrokerId":1}}', 0, 1, ""), (b"{}", 1, 0, "the controllers know no broker of cluster C\n")],
)
def test_brokers_without_a_controller_are_passed_over_beside_others(
    stranger: Stranger, capsys: pytest.CaptureFixture[str], table: bytes, status: int, shown: int, said: str
) -> None:
    stranger.body, stranger.knows_routes = b'{"clusterAddrTable":{"C":["a","b"]},"replicasInfoTable":%s}' % table, False
    assert run_admin(["getSyncStateSet", "-n", stranger.address, "-a", stranger.address, "-c", "C"]) == status
    out, err = capsys.readouterr()
    assert (out.count("#brokerName\tb\n"), bool(err), err.endswith(said)) == (shown, bool(said), True)


@pytest.mark.parametrize(("body", "knows_routes"), [*((body, True) for body in BODIES), (b"[]", False)])
def test_every_command_ends_in_lines(
    stranger: Stranger, body: bytes, knows_routes: bool, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger.body, stranger.knows_routes = body, knows_routes
    list_file = tmp_path_factory.mktemp("list") / "list.json"
    list_file.write_text('[{"topicName":"T"}]')
    for command in COMMANDS:
        if command.name in UNENDING:
            continue
        words = [command.name, "-n", stranger.address, "--timeout", "5", "--output", "json"]
        grouped: set[str] = set()
        for option in command.options():
            is_due = option.mark == "!" or (option.mark in "|?/" and option.mark not in grouped)
            if is_due:
                grouped.add(option.mark)
                value = str(list_file) if option.name in ("filename", "file") else VALUES.get(option.letter, "x")
                words += [f"-{option.letter}", value.replace("{server}", stranger.address)]
        if "filePath" in {option.name for option in command.options()}:
            words += ["-f", str(list_file.parent)]
        capsys.readouterr()
        status = run_admin(words)
        said = capsys.readouterr()
        assert status in (0, 1, 2), words
        assert (status == 0) == (said.err == ""), f"{words}: {said.err}"
        assert all(line.startswith("rocketpy admin ") for line in said.err.splitlines()), said.err
