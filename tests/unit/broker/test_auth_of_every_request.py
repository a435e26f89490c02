"""Which requests a broker lets in, of all that there are: none of a stranger, and of a user without rights no more than stand here."""

from __future__ import annotations

from pathlib import Path

from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.broker.running import Peer, run, running
from tests.unit.broker.test_auth import ALICE, ASKING, ROOT, make_alice

NAMES = (
    "topic", "b", "parentTopic", "topicList", "group", "consumerGroup", "groupName", "compareGroup", "filterGroups", "destGroup",
    "producerGroup", "clusterName", "brokerClusterName", "subject", "username",
)  # fmt: skip
QUEUE = {"topic": "t", "group": "g", "topicName": "t", "groupName": "g", "c": "g", "t": "t"}
LISTS = ("topicConfigList", "groupConfigList", "acks", "subscriptionSet", "mqSet", "consumerDataSet")
BODY = {**QUEUE, "consumerGroup": "g", **{name: [{**QUEUE, "subscriptionDataSet": [QUEUE]}] for name in LISTS}}
READ = {
    "GET_ALL_TOPIC_CONFIG", "GET_BROKER_CONFIG", "GET_BROKER_RUNTIME_INFO", "GET_ALL_CONSUMER_OFFSET", "GET_ALL_DELAY_OFFSET",
    "GET_TIMER_CHECK_POINT", "GET_TIMER_METRICS", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
    "GET_ALL_MESSAGE_REQUEST_MODE", "GET_BROKER_HA_STATUS", "GET_BROKER_EPOCH_CACHE", "GET_COLD_DATA_FLOW_CTR_INFO",
}  # fmt: skip
"""What slaves and tools read; no secret is in it."""
OF_CLIENTS = {
    "CHECK_CLIENT_CONFIG", "QUERY_ASSIGNMENT", "SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2",
}  # fmt: skip
"""What is for one client, the asking one or another, and keeps nothing at the broker."""


async def let_in(peer: Peer) -> set[str]:
    """What is not refused, and not unknown either."""
    fields = dict.fromkeys(NAMES, "x")
    refused = (ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    return {code.name for code in RequestCode if (await peer.ask(code, fields, BODY)).code not in refused}


def test_of_all_requests_a_stranger_makes_none_and_a_user_without_rights_reads_tables(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            await make_alice(at.peer(ROOT))
            stranger = at.peer()
            assert {(await stranger.ask(code, {"topic": "x"}, BODY)).code for code in RequestCode} == {ResponseCode.NO_PERMISSION}
            assert await let_in(at.peer(ALICE)) == READ | OF_CLIENTS

    run(test)
