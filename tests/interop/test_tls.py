"""TLS between both products: the Java client by it, brokers under name servers by it, certificates asked for and shown."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Certificate, make_certificate

from .javaenv import CURRENT, JavaClients, JavaError, Jvm
from .products import Cluster, NameServer, Peer, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
MakeCluster = Callable[..., Cluster]
MakeClients = Callable[..., JavaClients]
LARGE = b"".join(hashlib.sha512(number.to_bytes(4)).digest() for number in range(3_000_000 // 64))


class TlsPeer(Peer):
    """RocketMQ, which takes these keys as system properties."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        super().__init__()
        self._keys = keys

    def _command(self, home: Path, main: str, *arguments: str) -> list[str]:
        java, *rest = super()._command(home, main, *arguments)
        return [java, *system_properties(self._keys), *rest]


def system_properties(keys: Mapping[str, str]) -> list[str]:
    return [f"-D{name}={value}" for name, value in keys.items()]


def with_keys(product: Product, keys: dict[str, str]) -> tuple[Product, dict[str, str]]:
    """What to start, and with which settings of its file."""
    return (TlsPeer(keys), {}) if isinstance(product, Peer) else (product, keys)


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    """Vouches for itself, and is trusted by whoever is told to."""
    return make_certificate(tmp_path, "own")


def server_keys(certificate: Certificate, **more: str) -> dict[str, str]:
    """PKCS #8, which Java wants, is what openssl writes."""
    keys = {"tls.test.mode.enable": "false", "tls.server.certPath": certificate.files[0], "tls.server.keyPath": certificate.files[1]}
    return keys | {f"tls.{name.replace('_', '.')}": value for name, value in more.items()}


def send_and_receive(java: JavaClients, topic: str, group: str, tls: bool = True) -> None:
    """Small messages and one of MBs, there and back, by a push consumer and by a pull from the beginning."""
    producer = java.producer(useTLS=tls)
    sent = [f"message {number}".encode() for number in range(40)]
    for each in (*sent[:20], LARGE, *sent[20:]):
        assert producer.send(topic, each, timeout=60)[0]["status"] == "SEND_OK"
    consumer = java.push(group, topic, useTLS=tls)
    assert sorted(each["body"] for each in consumer.received(41, timeout=60)) == sorted([*sent, LARGE])


@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
def test_a_client_sends_and_consumes_by_tls_where_others_do_not(
    cluster: Cluster, clients: MakeClients, topic: str, group: str, serialize: str
) -> None:
    """Test mode and permissive, the defaults of both products."""
    java = clients(cluster, CURRENT, serialize)
    send_and_receive(java, topic, group)
    send_and_receive(clients(cluster), topic + "-clear", group + "-clear", tls=False)


def test_an_enforcing_broker_hears_nobody_in_the_clear(
    new_cluster: MakeCluster, clients: MakeClients, product: Product, certificate: Certificate, group: str
) -> None:
    """And it speaks TLS to its name server."""
    server, settings = with_keys(product, server_keys(certificate, server_mode="enforcing"))
    cluster = new_cluster(brokers=[server], **settings)
    send_and_receive(clients(cluster), "enforced", group)
    with pytest.raises(JavaError):
        clients(cluster).producer(useTLS=False).send("enforced", "in the clear")


@pytest.fixture
def strict_jvm(tmp_path: Path, certificate: Certificate) -> Iterator[Jvm]:
    """Its clients show that certificate, and want to see it."""
    keys = {
        "tls.test.mode.enable": "false",
        "tls.client.certPath": certificate.files[0],
        "tls.client.keyPath": certificate.files[1],
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": certificate.files[0],
    }
    jvm = Jvm(CURRENT, tmp_path / "strict-jvm", options=system_properties(keys))
    yield jvm
    jvm.close()


def test_certificates_are_asked_for_and_shown(
    clients: MakeClients, strict_jvm: Jvm, product: Product, certificate: Certificate, tmp_path: Path, group: str
) -> None:
    """By the name server too."""
    keys = server_keys(certificate, server_need_client_auth="require", server_authClient="true", server_trustCertPath=certificate.files[0])
    server, settings = with_keys(product, keys)
    cluster = Cluster(NameServer(server, tmp_path / "namesrv", settings).start())
    try:
        cluster.add_brokers(tmp_path, [server], settings)
        java = JavaClients(strict_jvm, cluster.address)
        send_and_receive(java, "shown", group)
        java.close()
        with pytest.raises(JavaError):
            clients(cluster).producer(useTLS=True).send("shown", "by nobody")
    finally:
        cluster.stop()


@pytest.mark.parametrize("ours", ["broker", "namesrv"])
def test_a_broker_speaks_tls_to_the_other_products_name_server(
    new_cluster: MakeCluster, clients: MakeClients, product: Product, peer: Product, ours: str, group: str
) -> None:
    keys: dict[str, Any] = {"tls.enable": "true"}
    server, settings = with_keys(product if ours == "broker" else peer, keys)
    cluster = new_cluster(namesrv=peer if ours == "broker" else product, brokers=[server], **settings)
    send_and_receive(clients(cluster), f"mixed-{ours}", group)
    cluster.broker.stop()
