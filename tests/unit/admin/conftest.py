"""A name server and a broker in this process for commands to talk to: one pair for each file, so its tests bring their own names."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpy.cli.admin import run_admin
from tests.processes import PATIENCE_S
from tests.unit.broker.running import Running, running

Admin = Callable[..., tuple[int, str, str]]


class Cluster:
    """Runs in a loop of its own: a command has one, too."""

    def __init__(self, home: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster")
        self._thread.start()
        self._context = running(home)
        try:
            self.both: Running = self.wait(self._context.__aenter__())
        except BaseException:
            self._end()
            raise

    def wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    @property
    def broker(self) -> str:
        return self.both.broker.address

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.both.namesrv.port}"

    def stop(self) -> None:
        try:
            self.wait(self._context.__aexit__(None, None, None))
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture
def admin(cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Admin:
    """(exit status, standard output, standard error) of a command; {broker} and {namesrv} stand for their addresses."""
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    for name in ("ROCKETMQ_HOME", "ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    known = {"{broker}": cluster.broker, "{namesrv}": cluster.namesrv}

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run_admin([known.get(word, word) for word in words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.fixture
def document(admin: Admin) -> Callable[..., Any]:
    """The JSON of a command that succeeds."""

    def run(*words: str) -> Any:
        status, out, err = admin(*words, "--output", "json")
        assert (status, err) == (0, ""), err
        return json.loads(out)

    return run
