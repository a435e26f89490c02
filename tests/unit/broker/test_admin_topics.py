"""Requests of operators about topics where the disk does not play along; test_service.py has them where it does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest

from rocketpy._core.errors import StoreIOError
from rocketpy.broker.admin_topics import TopicAdmin
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.command import CommandError


def test_a_topic_whose_queues_cannot_be_deleted_does_not_come_back_with_the_next_start() -> None:
    parts = Mock()
    parts.settings = SimpleNamespace(validate_system_topic=False, clear_retry_topics=False)
    parts.store.delete_topic.side_effect = StoreIOError("the disk says no")
    parts.saved = SimpleNamespace(topics=SimpleNamespace(save=AsyncMock()), offsets=SimpleNamespace(save=AsyncMock()))
    delete = TopicAdmin(parts).handlers()[RequestCode.DELETE_TOPIC_IN_BROKER]
    request = cast(Any, SimpleNamespace(fields={"topic": "t"}, remote_address="127.0.0.1:1"))
    with pytest.raises(CommandError, match=r"queues of topic t could not be deleted: .*the disk says no"):
        asyncio.run(cast(Any, delete(request)))
    parts.topics.delete.assert_called_once_with("t")
    parts.saved.topics.save.assert_awaited_once()
    parts.saved.offsets.save.assert_awaited_once()
