"""The user that a call says it comes from, and the signature that proves it. Both are gRPC metadata.
RocketMQ: DefaultAuthenticationContextBuilder (5.3.3 auth/authentication/builder/). Decisions only.

    authorization: MQv2-HMAC-SHA1 Credential=USER/…, SignedHeaders=x-mq-date-time, Signature=HEX
    x-mq-date-time: what is signed; nobody compares it with the clock

Nothing of the request itself is signed: TLS is what keeps it from being changed.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from .status import ProxyError

CREDENTIAL, SIGNATURE = "Credential", "Signature"
HEADER_MAX: Final = 8192


@dataclass(frozen=True, slots=True)
class Claim:
    """Who a caller claims to be. An empty `user`: the caller names nobody. `signature` is base64."""

    user: str = ""
    content: bytes = b""
    signature: str = ""


def claim_of(authorization: str, date_time: str) -> Claim:
    """The claim in a call's metadata. Raises ProxyError UNAUTHORIZED if it cannot be read."""
    if not authorization:
        return Claim()
    if not date_time:
        raise _refused("datetime is null.")
    if len(authorization) > HEADER_MAX:
        raise _refused("authentication header is too long.")
    _, blank, pairs = authorization.partition(" ")
    if not blank:
        raise _refused("authentication header is incorrect.")
    user = signature = ""
    for pair in pairs.split(","):
        name, equals, value = pair.strip().partition("=")
        if not equals:
            raise _refused("authentication keyValues length is incorrect, actual length=1.")
        if name == CREDENTIAL:
            user = value.partition("/")[0]
        elif name == SIGNATURE:
            signature = _base64_of(value)
    return Claim(user, date_time.encode(), signature)


def _base64_of(digits: str) -> str:
    try:
        return base64.b64encode(binascii.unhexlify(digits)).decode()
    except ValueError:
        raise _refused("create authentication context error.") from None


def _refused(text: str) -> ProxyError:
    return ProxyError("UNAUTHORIZED", text)
