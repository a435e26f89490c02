"""The native pull client against a scripted broker: order, guesses that fail, holes, refusals, nonsense, silence."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rocketpy._core.arrow import QueueReader, column_mask
from rocketpy._core.errors import Busy, InvalidArgument, NetworkError, NotFound, OffsetOutOfRange, ProtocolError, StoreCorrupt, TimedOut
from rocketpy._core.remoting import Command, decode_command, encode_command
from tests.unit.core.test_arrow import record

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

SUCCESS, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21
Answer = tuple[int, int, bytes]
Script = Callable[[int, int], Answer]
"""(offset, count asked for) -> (code, next offset, body)."""


class Broker:
    """Answers pulls of one connection by a script; `held` makes it answer in reverse order in groups of that many."""

    def __init__(self, script: Script, *, low: int = 0, high: int = 1000, held: int = 1) -> None:
        self.script, self.low, self.high, self.held = script, low, high, held
        self.asked: list[int] = []
        self.theirs, self.ours = socket.socketpair()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        waiting: list[bytes] = []
        with self.ours:
            self.ours.settimeout(0.02)  # then an answer is held no longer
            while True:
                try:
                    frame = self._frame()
                except TimeoutError:
                    self._flush(waiting)
                    continue
                except OSError:
                    return
                if frame is None:
                    return
                request = decode_command(frame)
                try:
                    waiting.append(self._answer(request))
                except EOFError:
                    return
                if len(waiting) >= self.held:
                    self._flush(waiting)

    def _flush(self, waiting: list[bytes]) -> None:
        try:
            for frame in reversed(waiting):
                self.ours.sendall(frame)
        except OSError:
            pass
        waiting.clear()

    def _frame(self) -> bytes | None:
        frame, size = b"", 4
        while len(frame) < size:
            part = self.ours.recv(size - len(frame))
            if not part:
                return None
            frame += part
            if len(frame) == 4:
                size += struct.unpack(">I", frame)[0]
        return frame

    def _answer(self, request: Command) -> bytes:
        offset = int(request.fields["queueOffset"])
        self.asked.append(offset)
        code, next_offset, body = self.script(offset, int(request.fields["maxMsgNums"]))
        fields = {"nextBeginOffset": str(next_offset), "minOffset": str(self.low), "maxOffset": str(self.high), "suggestWhichBrokerId": "0"}
        return encode_command(code, fields, body, opaque=request.opaque, flag=1, remark="as scripted")


def steady(step: int = 10, high: int = 1000) -> Script:
    """A queue of whole records, step of them at once."""

    def answer(offset: int, count: int) -> Answer:
        end = min(offset + min(step, count), high)
        return SUCCESS, end, b"".join(record(number) for number in range(offset, end))

    return answer


@pytest.fixture
def read() -> Iterator[Callable[..., list[int]]]:
    readers: list[QueueReader] = []

    def run(broker: Broker, begin: int = 0, end: int = 1000, *, timeout_s: float = 10, **options: Any) -> list[int]:
        batch = {"column_mask": column_mask(["queueOffset"]), "rows_max": options.pop("rows_max", 10_000)}
        chosen = {"consumer_group": "g", "topic": "TopicTest", "queue_id": 3, "begin_offset": begin, "end_offset": end, **options}
        reader = QueueReader(broker.theirs.detach(), batch, **chosen)  # type: ignore[arg-type]
        readers.append(reader)
        offsets: list[int] = []
        while (found := reader.next_batch(timeout_s)) is not None:
            offsets += pa.record_batch(found).column("queueOffset").to_pylist()
        run.progress = reader.progress()  # type: ignore[attr-defined]
        return offsets

    yield run
    for reader in readers:
        reader.close()


def test_a_range_is_read_whole_and_in_order(read: Any) -> None:
    assert read(Broker(steady()), 5, 777) == list(range(5, 777))
    assert read.progress["wasted_responses"] == 0


def test_answers_in_another_order_change_nothing(read: Any) -> None:
    assert read(Broker(steady(), held=4), 0, 500) == list(range(500))


def test_small_batches_pause_inside_of_an_answer(read: Any) -> None:
    assert read(Broker(steady(32)), 0, 500, rows_max=7) == list(range(500))


def test_irregular_answers_waste_guesses_but_no_row(read: Any) -> None:
    def script(offset: int, count: int) -> Answer:
        return steady(3 + offset * 7919 % 23)(offset, count)

    assert read(Broker(script, held=2), 0, 1000) == list(range(1000))
    assert read.progress["wasted_responses"] > 0


def test_filtered_stretches_are_passed(read: Any) -> None:
    def script(offset: int, count: int) -> Answer:
        if 100 <= offset < 400:
            return RETRY, offset + 100, b""
        return steady()(offset, count)

    assert read(Broker(script), subscription="red") == [*range(100), *range(400, 1000)]


def test_deleted_offsets_are_an_error_or_counted(read: Any) -> None:
    def script(offset: int, count: int) -> Answer:
        return (MOVED, 50, b"") if offset < 50 else steady()(offset, count)

    with pytest.raises(OffsetOutOfRange, match=r"offsets 0 to 49 .* are gone"):
        read(Broker(script, low=50))
    assert read(Broker(script, low=50), fail_on_data_loss=0) == list(range(50, 1000))
    assert read.progress["lost_offsets"] == 50


def test_a_queue_that_ends_early_is_an_error_and_no_endless_wait(read: Any) -> None:
    def script(offset: int, count: int) -> Answer:
        return steady(high=200)(offset, count) if offset < 200 else (NOT_FOUND, offset, b"")

    with pytest.raises(OffsetOutOfRange, match="ends at offset 200"):
        read(Broker(script, high=200), patience_ms=200)


@pytest.mark.parametrize("code", [RETRY, MOVED])
def test_a_replica_that_is_behind_is_waited_for_though_it_answers_at_once(read: Any, code: int) -> None:
    """A broker holds no pull for what lies behind its end."""

    def script(offset: int, count: int) -> Answer:
        if offset >= 200 and broker.asked.count(200) < 6:
            return code, 150, b""
        return steady()(offset, count)

    broker = Broker(script, high=150)
    began = time.monotonic()
    assert read(broker) == list(range(1000))
    assert time.monotonic() - began >= 0.3  # beside guesses: with pauses between


def test_a_replica_that_stays_behind_is_an_error_when_patience_is_over(read: Any) -> None:
    began = time.monotonic()
    broker = Broker(lambda offset, count: (RETRY, 200, b""), high=200)
    with pytest.raises(OffsetOutOfRange, match="ends at offset 200 on this broker, and offsets 500 to 999 were wanted of it for 400 ms"):
        read(broker, 500, patience_ms=400)
    assert time.monotonic() - began >= 0.4
    assert len(broker.asked) <= 8


def test_a_connection_that_is_lost_between_two_questions_is_an_error(read: Any) -> None:
    def script(offset: int, count: int) -> Answer:
        if len(broker.asked) > 1:
            raise EOFError
        return RETRY, 0, b""

    broker = Broker(script, high=0)
    with pytest.raises(NetworkError):
        read(broker, 500)


def test_a_refusal_carries_the_brokers_words(read: Any) -> None:
    with pytest.raises(NotFound, match=r"CODE: 17 .*as scripted"):
        read(Broker(lambda offset, count: (17, 0, b"")))


def test_a_refusal_that_passes_is_told_from_one_that_stays(read: Any) -> None:
    with pytest.raises(Busy, match=r"CODE: 2 "):
        read(Broker(lambda offset, count: (2, 0, b"")))


def test_a_closed_connection_is_an_error(read: Any) -> None:
    def script(offset: int, count: int) -> Answer:
        if offset >= 100:
            raise EOFError
        return steady()(offset, count)

    with pytest.raises(NetworkError):
        read(Broker(script))


def test_silence_is_an_error_after_the_time_limit(read: Any) -> None:
    with pytest.raises(TimedOut, match=r"did not answer for 0\.3 s"):
        read(_Silent(), timeout_s=0.3)


class _Silent(Broker):
    def __init__(self) -> None:
        self.theirs, self.ours = socket.socketpair()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((SUCCESS, 0, record(0)), ProtocolError),
        ((SUCCESS, 1, record(0)[:-3]), StoreCorrupt),
        ((SUCCESS, 1, struct.pack(">I", 7) + record(0)[4:]), StoreCorrupt),
        ((SUCCESS, 1, b"\xff" * 400), StoreCorrupt),
    ],
)
def test_nonsense_is_refused(read: Any, answer: Answer, error: type[Exception]) -> None:
    with pytest.raises(error):
        read(Broker(lambda offset, count: answer))


@pytest.mark.parametrize("wrong", [{"no_such": 1}, {"depth": 99}, {"rows_max": -1}])
def test_the_socket_is_closed_when_the_reader_cannot_be_made(read: Any, wrong: dict[str, Any]) -> None:
    silent = _Silent()
    with pytest.raises(InvalidArgument):
        read(silent, **wrong)
    assert silent.ours.recv(1) == b""


def test_a_reader_that_is_opened_again_closes_the_socket_and_reads_on() -> None:
    silent, broker = _Silent(), Broker(steady())
    options: dict[str, Any] = {"consumer_group": "g", "topic": "TopicTest", "queue_id": 3, "end_offset": 100}
    with QueueReader(broker.theirs.detach(), **options) as reader:
        silent.ours.settimeout(10)
        with pytest.raises(InvalidArgument, match="opened once"):
            reader.__init__(silent.theirs.detach(), **options)  # type: ignore[misc]
        assert silent.ours.recv(1) == b""
        batch = reader.next_batch(10)
        assert batch is not None and batch.rows == 100


def test_success_without_messages_is_refused_and_skips_nothing(read: Any) -> None:
    def script(offset: int, count: int) -> Answer:
        return (SUCCESS, offset + 10, b"") if offset < 100 else steady()(offset, count)

    with pytest.raises(ProtocolError, match="found messages at offset 0 and sent none"):
        read(Broker(script))


def test_a_frame_of_impossible_size_is_refused(read: Any) -> None:
    silent = _Silent()
    silent.ours.sendall(b"\x7f\xff\xff\xff rest")
    with pytest.raises(ProtocolError):
        read(silent)
