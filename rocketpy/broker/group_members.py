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
    """All brokers under our name except ourselves. Name servers that do not answer, or do not know this question (4.x), contribute none."""
    known = frozenset[tuple[int, str]]().union(*await group_answers(client, name_servers, identity))
    return frozenset((broker_id, address) for broker_id, address in known if address not in ("", identity.address))


async def group_answers(client: GroupCaller, name_servers: Iterable[str], identity: Identity) -> list[Members]:
    """All brokers under our name, as each name server that answers knows them."""
    header = GetBrokerMemberGroupRequestHeader(cluster_name=identity.cluster_name, broker_name=identity.broker_name)
    answers = await client.invoke_all(name_servers, RequestCode.GET_BROKER_MEMBER_GROUP, header, timeout_s=TIMEOUT_S)
    known = [_members(answer) for answer in answers.values()]
    return [frozenset(members) for members in known if members is not None]


def _members(answer: Command | RocketpyError) -> list[tuple[int, str]] | None:
    """None: it is no answer."""
    if isinstance(answer, RocketpyError) or answer.code != ResponseCode.SUCCESS:
        return None
    try:
        addresses = read_json(answer.body)["brokerMemberGroup"]["brokerAddrs"]
        members = addresses.items() if isinstance(addresses, Mapping) else ()
        return [(int(broker_id), address) for broker_id, address in members if isinstance(address, str)]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
