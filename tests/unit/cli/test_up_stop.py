"""`rocketpy up`: what several services in one process owe each other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import DiskFull, RocketpyError
from rocketpy.cli.up import Embedded, UpOptions, configs_of
from rocketpy.config import load_config
from rocketpy.logs import NativeLog


class Stopped:
    """A service that notes its stop, and may fail in it."""

    config = load_config("broker", None, {})

    def __init__(self, name: str, stopped: list[str], fault: Exception | None = None) -> None:
        self.name, self.stopped, self.fault = name, stopped, fault

    async def stop(self) -> None:
        self.stopped.append(self.name)
        if self.fault is not None:
            raise self.fault


def test_a_broker_that_cannot_save_does_not_keep_the_others_from_closing_their_stores(tmp_path: Path) -> None:
    async def scenario() -> None:
        stopped: list[str] = []
        namesrv_config, _ = configs_of(UpOptions(tmp_path, namesrv_port=0, broker_port=0), tmp_path)
        native_log = NativeLog()
        embedded: Any = Embedded(namesrv_config, [], native_log)
        embedded.namesrv = Stopped("name server", stopped)
        embedded.brokers = [
            Stopped("broker-a", stopped, OSError("no thread")),
            Stopped("broker-b", stopped),
            Stopped("broker-c", stopped, DiskFull("no space", file="topics.json")),
        ]
        with pytest.raises(RocketpyError, match=r"broker-c: no space \[topics.json\]; broker-a: no thread"):
            await embedded.stop()
        assert stopped == ["broker-c", "broker-b", "broker-a", "name server"]
        native_log.close()

    asyncio.run(scenario())
