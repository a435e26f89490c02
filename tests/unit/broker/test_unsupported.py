"""Requests of RocketMQ that this broker does not answer yet: each is refused by name, with what is missing."""

from __future__ import annotations

from pathlib import Path

from rocketpy.broker import unsupported
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .running import run, running


def test_what_is_missing_is_said_of_each(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            for code in unsupported.handlers():
                answer = await peer.ask(code)
                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                assert answer.remark is not None and answer.remark.startswith(f"{RequestCode(code).name}: this broker does not support ")

    run(test)
