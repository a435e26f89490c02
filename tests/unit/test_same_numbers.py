"""Numbers that Python and C each write down for themselves are the same on both sides."""

from __future__ import annotations

import pytest

from rocketpy import logs
from rocketpy._core import remoting
from rocketpy.broker import client_requests, delay_offsets, heartbeat, names, native_options, send, settings, topics
from rocketpy.broker.transaction_checks import Fate
from rocketpy.cli import bench, check, numbers
from rocketpy.remoting import service
from tests.unit.native import ffi, lib

SAME = {
    "RP_LOG_NOTICE": logs.NOTICE,
    "RP_SUBSCRIPTION_CODES_MAX": heartbeat.TAGS_MAX,
    "RP_TOPIC_QUEUES_MAX": topics.QUEUES_MAX,
    "RP_OFFSET_QUEUES_ANYWAY": client_requests.QUEUES_ANYWAY,
    "RP_LITE_CLIENT_MAX": names.CLIENT_BYTES_MAX,
    "RP_DELAY_LEVELS_MAX": delay_offsets.LEVELS_MAX,
    "RP_ROLE_ASYNC_MASTER": settings.ROLES.index("ASYNC_MASTER"),
    "RP_ROLE_SYNC_MASTER": settings.ROLES.index("SYNC_MASTER"),
    "RP_ROLE_SLAVE": settings.ROLES.index("SLAVE"),
    "RP_FLUSH_ASYNC": native_options.FLUSH_MODES.index("ASYNC_FLUSH"),
    "RP_FLUSH_SYNC": native_options.FLUSH_MODES.index("SYNC_FLUSH"),
    "RP_FLUSH_BACKEND_AUTO": native_options.FLUSH_BACKENDS.index("AUTO"),
    "RP_FLUSH_BACKEND_SYSCALL": native_options.FLUSH_BACKENDS.index("SYSCALL"),
    "RP_FLUSH_BACKEND_IO_URING": native_options.FLUSH_BACKENDS.index("IO_URING"),
    "RP_REQUEST_COMMAND": remoting.KIND_COMMAND,
    "RP_REQUEST_RESPONSE": remoting.KIND_RESPONSE,
    "RP_REQUEST_OPENED": remoting.KIND_OPENED,
    "RP_REQUEST_CLOSED": remoting.KIND_CLOSED,
    "RP_LOAD_SEND": bench.SEND,
    "RP_LOAD_PULL": bench.PULL,
    "RP_LOAD_BOTH": check.MODE_BOTH,
    "RP_LOAD_MESSAGE_SIZE_MAX": numbers.BODY_MAX,
    "RP_HALF_IS_ASKED_FOR": Fate.ASKED_FOR,
    "RP_HALF_IS_IMMUNE": Fate.IMMUNE,
    "RP_HALF_IS_GIVEN_UP": Fate.GIVEN_UP,
    "RP_HALF_IS_RESUMED": Fate.RESUMED,
    "RP_SEND_CAN_BE_STORED": send.CAN_BE_STORED,
    "RP_SEND_IS_DEAD_LETTER": send.IS_DEAD_LETTER,
    "RP_PUSH_OPAQUE": service.OPAQUE_MAX + 1,
}


@pytest.mark.parametrize("name", SAME)
def test_a_number_is_the_same_in_python_and_in_c(name: str) -> None:
    assert getattr(lib, name) == SAME[name]


@pytest.mark.parametrize("topic", sorted(names.SYSTEM_TOPICS | names.SEND_FORBIDDEN_TOPICS))
def test_the_same_topics_are_forbidden_in_python_and_in_c(topic: str) -> None:
    text = ffi.new("uint8_t[]", topic.encode())
    assert lib.rp_topic_is_forbidden({"data": text, "size": len(topic)}) == (topic in names.SEND_FORBIDDEN_TOPICS)
