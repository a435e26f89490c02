"""TLS as clients and operators meet it: a name server and a broker by their keys, certificates that change, and outgoing connections."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import InvalidArgument, NetworkError, NotFound, RocketpyError, Unsupported
from rocketpy._core.remoting import Server, decode_command, encode_command
from rocketpy.config import Config, ConfigError, load_config
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, SerializeType
from rocketpy.remoting.tls import FileWatch, client_context, look_at, tls_settings
from tests.certificates import Certificate, make_certificate
from tests.processes import PATIENCE_S
from tests.unit.broker.running import eventually, running

PLAIN_CODE = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture
def own(tmp_path: Path, authority: Certificate) -> Certificate:
    """Of a server or client of the test."""
    return make_certificate(tmp_path, "own", signer=authority)


def tls_config(file: str = "/dev/null", **keys: str) -> Config:
    """useTLS=…, server_mode=enforcing for tls.server.mode, and so on."""
    named = {key.replace("_", ".") if "_" in key else key: value for key, value in keys.items()}
    named = {key if key == "useTLS" else f"tls.{key}": value for key, value in named.items()}
    return load_config("namesrv", None, {"listenPort": "0", "bindAddress": "127.0.0.1", "tls.config.file": file, **named})


@asynccontextmanager
async def name_server(home: Path, **keys: str) -> AsyncIterator[str]:
    config = tls_config(**keys)
    config.override("kvConfigPath", str(home / "kv.json"))
    server = NameServer(config)
    try:
        await server.start()
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop()


def context_of(**keys: str) -> ssl.SSLContext | None:
    config = tls_config(useTLS="true", **keys)
    return client_context(config, tls_settings(config))


async def ask(address: str, tls: ssl.SSLContext | None, serialize_type: SerializeType = SerializeType.JSON) -> int:
    async with RemotingClient(tls=tls, serialize_type=serialize_type) as client:
        return (await client.invoke(address, PLAIN_CODE, timeout_s=PATIENCE_S)).code


def test_anybody_may_speak_tls_to_a_server_that_was_told_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as address:
            for kind in SerializeType:
                assert await ask(address, context_of(), kind) == 0
                assert await ask(address, None, kind) == 0

    asyncio.run(scenario())


def test_an_enforcing_server_speaks_to_nobody_in_the_clear_and_shows_its_certificate(
    tmp_path: Path, own: Certificate, authority: Certificate
) -> None:
    async def scenario() -> None:
        keys = {"test_mode_enable": "false", "server_certPath": own.files[0], "server_keyPath": own.files[1]}
        async with name_server(tmp_path, server_mode="enforcing", **keys) as address:
            with pytest.raises(NetworkError, match="was lost before the response"):
                await ask(address, None)
            trusting = context_of(test_mode_enable="false", client_authServer="true", client_trustCertPath=authority.files[0])
            assert await ask(address, trusting) == 0
            strict = context_of(test_mode_enable="false", client_authServer="true")  # whom the system trusts
            with pytest.raises(NetworkError, match=r"TLS: CERTIFICATE_VERIFY_FAILED"):
                await ask(address, strict)

    asyncio.run(scenario())


def test_a_server_that_requires_certificates_lets_in_who_has_one(tmp_path: Path, own: Certificate, authority: Certificate) -> None:
    async def scenario() -> None:
        stranger = make_certificate(tmp_path, "stranger", password="secret")
        keys = {
            "test_mode_enable": "false",
            "server_certPath": own.files[0],
            "server_keyPath": own.files[1],
            "server_need_client_auth": "require",
            "server_authClient": "true",
            "server_trustCertPath": authority.files[0],
        }
        off = {"test_mode_enable": "false"}
        async with name_server(tmp_path, **keys) as address:
            assert await ask(address, context_of(**off, client_certPath=own.files[0], client_keyPath=own.files[1])) == 0
            for client in (
                context_of(**off),
                context_of(**off, client_certPath=stranger.files[0], client_keyPath=stranger.files[1], client_keyPassword="secret"),
            ):
                with pytest.raises(NetworkError):
                    await ask(address, client)

    asyncio.run(scenario())


def fingerprint(address: str) -> bytes:
    """Of the certificate that a new connection is shown."""
    host, port = address.split(":")
    context = context_of()
    assert context is not None
    with socket.create_connection((host, int(port)), PATIENCE_S) as plain, context.wrap_socket(plain) as connection:
        shown = connection.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def test_a_renewed_certificate_is_shown_to_new_connections(tmp_path: Path, own: Certificate, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "new").mkdir()
    renewed = make_certificate(tmp_path / "new", "renewed")

    async def scenario() -> None:
        keys = {"test_mode_enable": "false", "server_certPath": own.files[0], "server_keyPath": own.files[1]}
        async with name_server(tmp_path, **keys) as address, RemotingClient(tls=context_of()) as early:
            await early.call(address, PLAIN_CODE)
            before = await asyncio.to_thread(fingerprint, address)
            shutil.copy(renewed.path, own.path)  # without its key: what was read before stays
            await eventually(lambda: any("the ones before stay" in message for message in caplog.messages), "a line about the pair")
            assert await asyncio.to_thread(fingerprint, address) == before
            shutil.copy(renewed.key, own.key)
            await eventually(lambda: any("reloaded" in message for message in caplog.messages), "a line about the new certificate")
            assert await asyncio.to_thread(fingerprint, address) != before
            await early.call(address, PLAIN_CODE)

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())


def test_files_are_read_anew_when_they_are_all_there_and_at_rest(tmp_path: Path) -> None:
    watch = FileWatch(["certificate 1", "key 1"])
    looks: list[tuple[list[str | None], bool]] = [
        (["certificate 1", "key 1"], False),
        (["certificate 2", "key 1"], False),  # the key is being copied
        ([None, "key 2"], False),
        ([None, "key 2"], False),
        (["certificate 2", "key 2"], False),
        (["certificate 2", "key 2"], True),
        (["certificate 2", "key 2"], False),
        (["certificate 1", "key 1"], False),
        (["certificate 1", "key 1"], True),
    ]
    assert [watch.is_due(look) for look, _ in looks] == [is_due for _, is_due in looks]
    link = tmp_path / "link"
    for name in ("old", "new"):
        (tmp_path / name).write_text("the same")
    link.symlink_to("old")
    before = look_at([str(link), str(tmp_path / "gone")])
    assert before[1] is None
    link.unlink()
    link.symlink_to("new")
    assert look_at([str(link)])[0] != before[0]


def test_a_file_of_tls_keys_wins_over_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(
        "tls.test.mode.enable=false\ntls.server.need.client.auth=optional\ntls.server.certPath=/a\ntls.server.keyPath=/b\n"
        "tls.server.keyPassword=secret\ntls.server.authClient=true\ntls.server.trustCertPath=/c\ntls.server.mode=disabled\n"
    )
    settings = tls_settings(tls_config(str(file), server_certPath="/given", server_mode="enforcing"))
    assert (settings.mode, settings.server.files) == ("enforcing", ("/a", "/b", "/c"))
    assert settings.listener_options() == {
        "certificate_path": "/a",
        "key_path": "/b",
        "key_password": "secret",
        "trust_path": "/c",
        "client_auth": 1,
        "verifies_clients": 1,
    }
    assert caplog.messages == [f"{file}:8: tls.server.mode is not a key of this file and has no effect"]
    file.write_text("tls.test.mode.enable=perhaps\n\ntls.server.need.client.auth=maybe\n")
    with pytest.raises(ConfigError) as refusal:
        tls_settings(tls_config(str(file)))
    assert [(problem.file, problem.line) for problem in refusal.value.problems] == [(str(file), 1), (str(file), 3)]


def test_certificates_that_test_mode_leaves_idle_are_told(caplog: pytest.LogCaptureFixture) -> None:
    settings = tls_settings(tls_config(server_certPath="/a", server_keyPath="/b"))
    assert settings.listener_options() == {}
    assert caplog.messages == ["tls.test.mode.enable is true, its default: /a and /b not used; set it to false"]


@pytest.mark.parametrize(
    ("keys", "uses"),
    [
        ({}, False),
        ({"enable": "true"}, True),
        ({"server_mode": "enforcing"}, True),
        ({"server_mode": "enforcing", "useTLS": "false"}, False),
        ({"useTLS": "true"}, True),
    ],
)
def test_outgoing_connections_follow_the_keys(keys: dict[str, str], uses: bool) -> None:
    config = tls_config(**keys)
    assert (client_context(config, tls_settings(config)) is not None) == uses
    assert config.shown()["useTLS"] == str(uses).lower()


def test_what_cannot_be_promised_refuses_the_start(tmp_path: Path, own: Certificate, caplog: pytest.LogCaptureFixture) -> None:
    async def refusal(**keys: str) -> Exception:
        with pytest.raises((RocketpyError, ConfigError)) as refused:
            async with name_server(tmp_path, test_mode_enable="false", **keys):
                pass
        return refused.value

    async def scenario() -> None:
        gone = {"server_certPath": own.files[0], "server_keyPath": str(tmp_path / "gone.key")}
        assert isinstance(error := await refusal(**gone), NotFound)
        assert "gone.key cannot be read: No such file" in str(error)
        assert isinstance(error := await refusal(server_certPath=own.files[0]), InvalidArgument)
        assert "name both" in str(error)
        assert "names no certificate" in str(await refusal(server_mode="enforcing"))
        error = await refusal(useTLS="true", client_certPath=own.files[1])
        assert "tls.client.certPath" in str(error)
        error = await refusal(useTLS="true", client_authServer="true", client_trustCertPath=str(tmp_path / "gone.pem"))
        assert "gone.pem cannot be used: No such file" in str(error)
        async with name_server(tmp_path, test_mode_enable="false") as address:  # permissive: those in the clear are served
            assert await ask(address, None) == 0
            with pytest.raises(NetworkError):
                await ask(address, context_of())

    asyncio.run(scenario())
    assert any("Failed to create SSLContext for server" in message for message in caplog.messages)


def test_without_openssl_who_was_promised_nothing_is_served_in_the_clear(
    tmp_path: Path, own: Certificate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Without(Server):
        def load_tls(self, **options: Any) -> None:
            raise Unsupported("TLS needs OpenSSL; install it")

    monkeypatch.setattr("rocketpy.namesrv.service.Server", Without)

    async def scenario() -> None:
        async with name_server(tmp_path) as address:
            assert await ask(address, None) == 0
        for keys in (
            {"server_mode": "enforcing"},
            {"test_mode_enable": "false", "server_certPath": own.files[0], "server_keyPath": own.files[1]},
        ):
            with pytest.raises(Unsupported, match="install it"):
                async with name_server(tmp_path, **keys):
                    pass

    asyncio.run(scenario())
    assert caplog.messages == ["clients cannot speak TLS: TLS needs OpenSSL; install it"]


def test_a_password_is_not_shown() -> None:
    shown = tls_config(server_keyPassword="secret", client_keyPassword="secret").shown()
    assert "secret" not in shown.values()


def test_a_broker_that_enforces_tls_registers_by_it_and_sends_and_is_pulled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, **{"tls.server.mode": "enforcing", "tls.config.file": "/dev/null"}) as both:
            route = await both.namesrv_route("TBW102")
            assert [broker["brokerName"] for broker in route["brokerDatas"]] == ["broker-a"]
            assert both.broker.config.boolean("useTLS")
            peer = both.peer()
            peer.client = RemotingClient(tls=context_of())
            body = bytes(range(256)) * 8000  # of many records
            sent = await peer.send("t", body)
            assert sent.code == 0, sent.remark
            assert body in (await peer.pull("g", "t")).body
            with pytest.raises(NetworkError):
                await both.peer().ask(PLAIN_CODE)

    asyncio.run(scenario())


def test_frames_come_out_of_records_of_any_size(tmp_path: Path) -> None:
    """Byte by byte, several at once, and a large one, on one blocking socket."""

    def talk(address: str) -> None:
        host, port = address.split(":")
        context = context_of()
        assert context is not None
        frames = [encode_command(PLAIN_CODE, {}, bytes(size), opaque=size) for size in (0, 1, 20_000, 3_000_000)]
        with socket.create_connection((host, int(port)), PATIENCE_S) as plain, context.wrap_socket(plain) as connection:
            for byte in frames[0]:
                connection.sendall(bytes([byte]))
            connection.sendall(b"".join(frames[1:]))
            with connection.makefile("rb") as answers:
                for opaque in (0, 1, 20_000, 3_000_000):
                    head = answers.read(4)
                    answer = decode_command(head + answers.read(int.from_bytes(head, "big")))
                    assert (answer.opaque, answer.code) == (opaque, 0)

    async def scenario() -> None:
        async with name_server(tmp_path, server_mode="enforcing") as address:
            await asyncio.to_thread(talk, address)

    asyncio.run(scenario())
