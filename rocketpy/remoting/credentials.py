"""Whom a client's requests are from, and the signature that proves it.
RocketMQ: SessionCredentials, AclClientRPCHook, AclUtils.combineRequestContent, AclSigner (5.5.0 client/, remoting/).

    signature = base64(HMAC-SHA1(secret, values of all fields but the signature, by name, one after the other, then the body))
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from .json_codec import JsonError, read_object

ACCESS_KEY, SIGNATURE, SECURITY_TOKEN = "AccessKey", "Signature", "SecurityToken"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and secret. The token, if there is one, is one more field that is signed."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    @staticmethod
    def from_json(text: str) -> Credentials:
        """Reads {"accessKey": …, "secretKey": …}. Raises ValueError, whose text never contains the secret."""
        try:
            value = read_object(text)
        except JsonError:
            raise ValueError('is no JSON object such as {"accessKey":"…","secretKey":"…"}') from None
        access_key, secret_key, token = (value.get(name) for name in ("accessKey", "secretKey", "securityToken"))
        if not isinstance(access_key, str) or not access_key.strip():
            raise ValueError("accessKey is missing, or no text")
        if not isinstance(secret_key, str) or not secret_key.strip():
            raise ValueError("secretKey is missing, or no text")
        if token is not None and not isinstance(token, str):
            raise ValueError("securityToken is not a text")
        return Credentials(access_key, secret_key, token)

    def signed(self, fields: Mapping[str, str] | None, body: bytes) -> dict[str, str]:
        """The fields of a request with the user's name added, and the signature over all of them and the body."""
        whole = {name: value for name, value in (fields or {}).items() if name != SIGNATURE}
        whole[ACCESS_KEY] = self.access_key
        if self.security_token is not None:
            whole[SECURITY_TOKEN] = self.security_token
        return {**whole, SIGNATURE: signature(self.secret_key, whole, body)}


def signature(secret_key: str, fields: Mapping[str, str], body: bytes) -> str:
    """The signature over `fields`, which must not contain one, and the body."""
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    return base64.b64encode(hmac.digest(secret_key.encode(), content, hashlib.sha1)).decode()
