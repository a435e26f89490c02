"""A stream into a lake that is killed again and again, beside the other tests: what takes its time is starting Spark. ROCKETPY_KILLS times
(default 10).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.processes import ROOT
from tests.spark.servers import Cluster
from tests.spark.test_batch import numbered

KILLS = int(os.environ.get("ROCKETPY_KILLS", "10"))
ROUND_MESSAGES = 1600


def batches(directory: Path) -> int:
    return len(list((directory / "checkpoint" / "commits").glob("[0-9]*"))) if (directory / "checkpoint" / "commits").exists() else 0


class Jobs:
    """Streams as programs of their own, killed with their JVMs; the next ones start up while one runs."""

    def __init__(self, name_server: str, topic: str, directory: Path) -> None:
        self.command = [sys.executable, "-m", "tests.spark.lake_job", name_server, topic, str(directory)]
        self.log = directory / "job.log"
        self.waiting: deque[subprocess.Popen[bytes]] = deque()

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *_: object) -> None:
        while self.waiting:
            kill_job(self.waiting.popleft())

    def prepare(self, count: int) -> None:
        """With an environment of their own: the process' is changed meanwhile by the Spark that starts beside us, and exec would fail on
        it (EFAULT)."""
        while len(self.waiting) < count:
            with self.log.open("ab") as output:
                self.waiting.append(
                    subprocess.Popen(
                        self.command,
                        cwd=ROOT,
                        env=dict(os.environ),
                        stdin=subprocess.PIPE,
                        stdout=output,
                        stderr=output,
                        start_new_session=True,
                    )
                )

    def begin(self) -> subprocess.Popen[bytes]:
        self.prepare(1)
        running = self.waiting.popleft()
        assert running.stdin is not None
        with running.stdin as line:
            line.write(b"begin\n")
        return running


def kill_job(running: subprocess.Popen[bytes]) -> None:
    os.killpg(running.pid, 9)  # the job is the leader of a session of its own: its JVM goes too
    running.wait(30)


class KilledLake:
    """Sends and kills on a thread of its own from start to result."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.name_server, self.directory, self.topic = cluster.name_server, directory, "KilledLake"
        self.seed = int(os.environ.get("ROCKETPY_SEED", random.randrange(2**31)))
        self._cluster = cluster
        self._ended = threading.Event()
        self._executor = ThreadPoolExecutor(1)
        self._done: Future[tuple[int, int]] | None = None

    def start(self) -> None:
        self._cluster.create_topic(self.topic)
        self._done = self._executor.submit(self._kill_streams)

    def stop(self) -> None:
        self._ended.set()
        self._executor.shutdown()

    def result(self) -> tuple[int, int]:
        """(kills, rounds of messages sent) once the last one is dead."""
        assert self._done is not None
        return self._done.result(1500)

    def _kill_streams(self) -> tuple[int, int]:
        dice = random.Random(self.seed)
        sent = kills = 0
        with Jobs(self.name_server, self.topic, self.directory) as jobs:
            while kills < KILLS and not self._ended.is_set():
                jobs.prepare(min(KILLS - kills, 2))
                self._cluster.send(self.topic, numbered(ROUND_MESSAGES))
                sent += 1
                running = jobs.begin()
                wanted = batches(self.directory) + dice.randrange(1, 5)
                while running.poll() is None and batches(self.directory) < wanted and not self._ended.wait(0.01):
                    pass
                self._ended.wait(dice.random() / 2)
                if running.poll() is None:
                    kill_job(running)
                    kills += 1
                assert sent <= 3 * KILLS, jobs.log.read_text()[-3000:]
        return kills, sent
