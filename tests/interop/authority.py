"""A cluster whose brokers ask who every request is from and what that user may do; users and rights made by its first super user."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.credentials import Credentials
from tests.processes import wait_until

from . import wire
from .products import Broker, Cluster

_PROVIDERS = "org.apache.rocketmq.auth"
SETTINGS: dict[str, Any] = {
    "authenticationEnabled": True,
    "authenticationProvider": f"{_PROVIDERS}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled": True,
    "authorizationProvider": f"{_PROVIDERS}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": '{"username":"root","password":"secret-of-root"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"secret-of-inner"}',
}
PROXY_SETTINGS: dict[str, Any] = {
    **{
        name: SETTINGS[name]
        for name in ("authenticationEnabled", "authenticationProvider", "authorizationEnabled", "authorizationProvider")
    },
    "authenticationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthorizationMetadataProvider",
    "innerClientAuthenticationCredentials": SETTINGS["innerClientAuthenticationCredentials"],
    "enableAclRpcHookForClusterMode": True,
}
"""Of a proxy, which asks the brokers for users and rights, and signs what it passes on with its own."""
NO_PERMISSION = 16
ROOT = Credentials("root", "secret-of-root")


def credentials(user: str) -> Credentials:
    """Those of a user that `Authority.user` made."""
    return Credentials(user, f"secret-of-{user}")


def java(user: str) -> dict[str, str]:
    """The same for a Java client."""
    return {"accessKey": user, "secretKey": f"secret-of-{user}"}


def entry(resource: str, *actions: str, decision: str = "Allow", source_ips: list[str] | None = None) -> dict[str, Any]:
    return {"resource": resource, "actions": list(actions), "sourceIps": source_ips, "decision": decision}


def signed(address: str, code: int, fields: dict[str, str] | None = None, body: Any = b"", user: Credentials | None = ROOT) -> wire.Reply:
    """What a server answers to a request of that user, or of nobody; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return wire.call(address, code, fields if user is None else user.signed(fields, data), data)


@dataclass
class Authority:
    """The super user of one broker."""

    broker: Broker

    @property
    def address(self) -> str:
        return self.broker.address

    def ask(self, code: int, fields: dict[str, str] | None = None, body: Any = b"") -> wire.Reply:
        return signed(self.address, code, fields, body)

    def done(self, code: int, fields: dict[str, str] | None = None, body: Any = b"") -> wire.Reply:
        reply = self.ask(code, fields, body)
        assert reply.code == 0, reply
        return reply

    def user(self, name: str, *entries: dict[str, Any], default: list[dict[str, Any]] | None = None, kind: str = "Normal") -> None:
        """A new user with these rights."""
        self.done(RequestCode.AUTH_CREATE_USER, {"username": name}, {"password": f"secret-of-{name}", "userType": kind})
        policies = [{"policyType": "Custom", "entries": list(entries)}] if entries else []
        if default:
            policies.append({"policyType": "Default", "entries": default})
        if policies:
            self.done(RequestCode.AUTH_CREATE_ACL, {"subject": f"User:{name}"}, {"subject": f"User:{name}", "policies": policies})

    def topic(self, name: str, cluster: Cluster, queues: int = 4, attributes: str = "") -> None:
        fields = {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        self.done(RequestCode.UPDATE_AND_CREATE_TOPIC, {**fields, **({"attributes": attributes} if attributes else {})})
        wait_until(lambda: cluster.route(name), 20, f"route of {name}")
