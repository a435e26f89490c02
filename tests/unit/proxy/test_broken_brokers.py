"""Brokers that are gone for a while: what was not known then is no answer afterwards."""

from __future__ import annotations

import asyncio

import pytest

from rocketpy._core.errors import Closed
from rocketpy._core.remoting import Command
from rocketpy.proxy.service import ProxyService
from rocketpy.remoting.codes import RequestCode
from tests.unit.proxy.test_native_service import Broker, Client, running


def test_a_topic_that_could_not_be_asked_about_is_asked_about_again() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        answers, is_gone = broker._answer, True

        def answer(request: Command, writer: object) -> bool:
            return not (is_gone and request.code == RequestCode.GET_TOPIC_CONFIG) and answers(request, writer)  # type: ignore[arg-type]

        broker._answer = answer  # type: ignore[method-assign, assignment]
        code, response = await client.send()
        assert code == "INTERNAL_SERVER_ERROR" and "no broker answers GET_TOPIC_CONFIG" in response.status.message
        is_gone = False
        assert (await client.send())[0] == (await client.send())[0] == "OK"
        assert broker.kinds == "PN"

    running(test)


def test_who_stops_a_proxy_that_stops_waits_for_that() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        assert (await client.send())[0] == "OK" and proxy.native is not None
        handler = proxy.native.handler
        await asyncio.gather(proxy.stop(), proxy.stop())
        with pytest.raises(Closed):
            handler.stats()

    running(test)
