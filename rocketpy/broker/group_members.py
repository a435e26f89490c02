"""Who goes by this broker's name, as name servers know it: its slaves, its master, and others that should not.
RocketMQ: BrokerOuterAPI.syncBrokerMemberGroup (5.3.3 broker/).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from .._core.errors import RocketpyError
from .._core.remoting import Command
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import GetBrokerMemberGroupRequestHeader
from ..remoting.json_codec import read_json
from .addresses import Identity
from .callers import GroupCaller

TIMEOUT_S: Final = 1.0

Members = frozenset[tuple[int, str]]
"""(broker id, address); an id may have several addresses while name servers disagree."""


async def group_members(client: GroupCaller, name_servers: Iterable[str], identity: Identity) -> Members:
    """Everybody under our name but ourselves. Name servers that do not answer, or not this question (4.x), know nobody."""
    header = GetBrokerMemberGroupRequestHeader(cluster_name=identity.cluster_name, broker_name=identity.broker_name)
    answers = await client.invoke_all(name_servers, RequestCode.GET_BROKER_MEMBER_GROUP, header, timeout_s=TIMEOUT_S)
    known = (member for answer in answers.values() for member in _members(answer))
    return frozenset((broker_id, address) for broker_id, address in known if address not in ("", identity.address))


def _members(answer: Command | RocketpyError) -> list[tuple[int, str]]:
    if isinstance(answer, RocketpyError) or answer.code != ResponseCode.SUCCESS:
        return []
    try:
        addresses = read_json(answer.body)["brokerMemberGroup"]["brokerAddrs"]
        members = addresses.items() if isinstance(addresses, Mapping) else ()
        return [(int(broker_id), address) for broker_id, address in members if isinstance(address, str)]
    except (ValueError, LookupError, TypeError, RecursionError):
        return []
