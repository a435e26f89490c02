"""Messages in and out: senders that remember what was acknowledged, a probe, the load generator, auditors who read whole queues."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from rocketpy._core.load import Load
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.processes import PATIENCE_S

from .course import Course
from .ledger import HEAD_BYTES_MAX, Ledger, Place, QueueCheck, body_of
from .names import LASTING_TOPICS, LOAD_TOPIC, PROBE_TOPIC, QUEUES, TAGS
from .wire import LATER, ask, batch_body, messages_of, properties_of, pull_fields, queue_bound, send_fields

BATCH_MAX = 16
READS_MAX = 50
"""How often a queue is read again because retention took its beginning meanwhile."""
BOTH = 3  # enum rp_load_mode


class Sender:
    """One producer, one request at a time: what it sends to a queue lies there in its order."""

    def __init__(self, course: Course, ledger: Ledger, address: str, producer: int) -> None:
        self._course = course
        self._ledger = ledger
        self._address = address
        self._producer = producer
        self._topic = LASTING_TOPICS[producer % len(LASTING_TOPICS)]
        self._dice = course.dice(f"sender {producer}")

    async def run(self) -> None:
        async with RemotingClient(frame_size_max=64 << 20) as client:
            async for number in self._course.turns("sends", 0.02, 120):
                chance = self._dice.random()
                if chance < 0.15:
                    await self._send_batch(client)
                elif chance < 0.25:
                    await self._send_oneway(client)
                else:
                    code = RequestCode.SEND_MESSAGE if chance < 0.4 else RequestCode.SEND_MESSAGE_V2
                    await self._send(client, code, self._size(number))

    def _size(self, number: int) -> int:
        if number % self._course.extent.large_bytes_every == self._producer:
            return self._dice.randrange(1 << 19, 1 << 20)
        return self._dice.choice((HEAD_BYTES_MAX, 200, 1024, 1024, 4000, 16_000))

    def _message(self, sequence: int, size: int) -> tuple[bytes, str]:
        tag = TAGS[sequence % len(TAGS)]
        return body_of(self._producer, sequence, size), properties_of(f"k{self._producer}-{sequence} other", tag)

    async def _send(self, client: RemotingClient, code: int, size: int) -> None:
        sequence = self._ledger.take(self._producer)
        body, properties = self._message(sequence, size)
        await self._settle(client, code, properties, body, sequence, [size])

    async def _send_batch(self, client: RemotingClient) -> None:
        count = self._dice.randrange(1, BATCH_MAX)
        first = self._ledger.take(self._producer, count)
        sizes = [self._dice.randrange(HEAD_BYTES_MAX, 2000) for _ in range(count)]
        body = batch_body([self._message(first + number, size) for number, size in enumerate(sizes)])
        await self._settle(client, RequestCode.SEND_BATCH_MESSAGE, "", body, first, sizes)

    async def _settle(self, client: RemotingClient, code: int, properties: str, body: bytes, first: int, sizes: list[int]) -> None:
        queue_id = self._dice.randrange(QUEUES)
        fields = send_fields(self._topic, queue_id, properties, code=code)
        answer = await ask(self._course, client, self._address, code, fields, body)
        if answer is None or answer.code in LATER:
            self._ledger.refused[-1 if answer is None else answer.code] += 1
            if not self._course.is_long:  # its turns are counted: they shall not be used up meanwhile
                await self._course.quiet.wait()
        else:
            assert answer.code == ResponseCode.SUCCESS, f"{RequestCode(code).name} to {self._topic}: {answer.code} {answer.remark}"
            place = (self._topic, int(answer.fields["queueId"]))
            offset = int(answer.fields["queueOffset"])
            for number, size in enumerate(sizes):
                self._ledger.acknowledge(place, offset + number, self._producer, first + number, size)

    async def _send_oneway(self, client: RemotingClient) -> None:
        body, properties = self._message(self._ledger.take(self._producer), 300)
        restarts = self._course.restarts
        try:
            fields = send_fields(self._topic, self._dice.randrange(QUEUES), properties)
            await client.invoke_oneway(self._address, RequestCode.SEND_MESSAGE_V2, fields, body, timeout_s=PATIENCE_S)
        except Exception as error:
            assert self._course.may_fail(restarts), f"oneway: {error!r}"


@dataclass
class Probe:
    """One small message at a time, to a topic of its own: how long the broker takes over the run."""

    course: Course
    address: str
    latencies: list[tuple[float, float]] = field(default_factory=list)

    async def run(self) -> None:
        async with RemotingClient() as client:
            async for _ in self.course.turns("probes", 0.2, 40):
                began_s = self.course.elapsed_s
                restarts = self.course.restarts
                answer = await ask(
                    self.course, client, self.address, RequestCode.SEND_MESSAGE_V2, send_fields(PROBE_TOPIC, 0, ""), b"x" * 100
                )
                if answer is not None and answer.code == ResponseCode.SUCCESS and not self.course.may_fail(restarts):
                    self.latencies.append((began_s, self.course.elapsed_s - began_s))


@dataclass
class NativeLoad:
    """The load generator, run after run: it verifies every message it reads by itself (csrc/load/load.h)."""

    course: Course
    address: str
    acknowledged: int = 0
    received: int = 0

    async def run(self) -> None:
        async for _ in self.course.turns("runs of the load generator", 5.0, 1, until=0.95):
            await self._run_once()

    async def _run_once(self) -> None:
        extent = self.course.extent
        options = {
            "mode": BOTH, "queue_count": QUEUES, "connections": 2, "in_flight": 2, "message_size": 1024, "count": extent.load_count,
            "rate": extent.load_rate, "reconnect_timeout_ms": 60_000, "request_timeout_ms": int(PATIENCE_S * 1000), "suspend_ms": 3000,
            "drain_timeout_ms": int(PATIENCE_S * 1000), "tags": "A",
        }  # fmt: skip
        with Load(address=self.address, topic=LOAD_TOPIC, **options) as load:  # type: ignore[typeddict-item]
            load.start()
            try:
                await asyncio.to_thread(load.wait, 600.0)
            finally:
                load.stop()
                await asyncio.to_thread(load.wait, 60.0)
            result = load.result()
        totals = result["totals"]
        assert totals["failures"] == 0, f"load generator: {result['first_offender']}"
        unknown = [each for each in result["error_codes"] if each["code"] >= 0 and each["code"] not in LATER]
        assert not unknown, f"load generator: {unknown}"
        self.acknowledged += totals["acknowledged"]
        self.received += totals["received"]


class Auditor:
    """Reads a queue from its beginning to its end and compares with the ledger."""

    def __init__(self, course: Course, ledger: Ledger, address: str) -> None:
        self._course = course
        self._ledger = ledger
        self._address = address
        self._dice = course.dice("auditor")

    async def run(self) -> None:
        async with RemotingClient(frame_size_max=64 << 20) as client:
            async for _ in self._course.turns("audits", 3.0, 8):
                place = self._dice.choice(LASTING_TOPICS), self._dice.randrange(QUEUES)
                await self.read(client, place)

    async def read_all(self) -> None:
        async with RemotingClient(frame_size_max=64 << 20) as client:
            for topic in LASTING_TOPICS:
                for queue_id in range(QUEUES):
                    assert await self.read(client, (topic, queue_id), forget=False), f"{topic} {queue_id} of {self._address} was not read"

    async def read(self, client: RemotingClient, place: Place, *, forget: bool = True) -> bool:
        """False: a restart came in between."""
        for _ in range(READS_MAX):
            begin = await queue_bound(self._course, client, self._address, RequestCode.GET_MIN_OFFSET, *place)
            expected = max(self._ledger.acknowledged[place], default=-1) + 1
            end = await queue_bound(self._course, client, self._address, RequestCode.GET_MAX_OFFSET, *place)
            if begin is None or end is None:
                return False
            assert end >= expected, f"{place} ends at {end} on {self._address}, acknowledged was up to {expected}"
            if forget:
                self._ledger.forget_below(place, begin)
            check = QueueCheck(self._ledger, place, begin)
            is_whole = await self._read_from(client, place, check, begin, end)
            if is_whole is None:
                return False
            if is_whole:
                check.finish(end)
                return True
        raise AssertionError(f"{place}: its beginning moved {READS_MAX} times while it was read")

    async def _read_from(self, client: RemotingClient, place: Place, check: QueueCheck, begin: int, end: int) -> bool | None:
        """False: retention took messages that were still to be read; None: a restart."""
        offset = begin
        while offset < end:
            fields = pull_fields("soak-auditor", *place, offset)
            restarts = self._course.restarts
            answer = await ask(self._course, client, self._address, RequestCode.PULL_MESSAGE, fields)
            if answer is None or (answer.code != ResponseCode.SUCCESS and self._course.may_fail(restarts)):
                return None
            messages = list(messages_of(answer)) if answer.code == ResponseCode.SUCCESS else []
            if not messages or messages[0].queue_offset > offset:
                found = f"{answer.code} {answer.remark}, {len(messages)} messages"
                await self._await_retention(
                    client, place, messages[0].queue_offset if messages else offset + 1, f"pull at {offset}: {found}"
                )
                return False
            check.see(messages)
            offset = int(answer.fields["nextBeginOffset"])
        return True

    async def _await_retention(self, client: RemotingClient, place: Place, least: int, what: str) -> None:
        """Until the queue begins at `least`: what lay below is gone with its log file, and a pull that met that passed over it, as
        RocketMQ's does; the queue's beginning follows. Raises AssertionError when it does not."""
        end_s = self._course.clock() + PATIENCE_S
        while True:
            low = await queue_bound(self._course, client, self._address, RequestCode.GET_MIN_OFFSET, *place)
            if low is None or low >= least:
                return
            assert self._course.clock() < end_s, f"{place} begins at {low}, what is below {least} was not given out; {what}"
            await asyncio.sleep(0.05)


def some_key(dice: random.Random, ledger: Ledger) -> tuple[Place, str] | None:
    """Of a message that was acknowledged not long ago."""
    places = [place for place, held in ledger.acknowledged.items() if held]
    if not places:
        return None
    place = dice.choice(places)
    held = ledger.acknowledged[place]
    producer, sequence, _ = held[max(held)]
    return place, f"k{producer}-{sequence}"
