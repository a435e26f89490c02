"""Whoever reads what a server prints stops reading, but does not go away: a log driver that waits, a pager, Ctrl-S. Nothing of the server
waits for it: it starts, answers, and ends when it is told to."""

from __future__ import annotations

import fcntl
import os
import re
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy._core.remoting import encode_command
from rocketpy.error_lines import ErrorLines
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.crash.broker_process import BrokerProcess
from tests.processes import PATIENCE_S, ROCKETPY, ROOT, port_accepts, wait_until

from .requests_wire import Wire
from .test_bad_input import SEND

PIPE_BYTES = 4096


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Reading end, writing end; small."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def started(broker: BrokerProcess, *, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([*ROCKETPY, "broker", "-c", str(broker.config)], stdout=stdout, stderr=stderr, env=environment)


def answers(port: int) -> bool:
    """A request that Python answers."""
    with Wire(port) as wire:
        wire.write(encode_command(RequestCode.GET_BROKER_CONFIG, {}, opaque=1))
        answer = wire.read()
        return answer is not None and answer.code == ResponseCode.SUCCESS


def serves_and_ends(process: subprocess.Popen[bytes], port: int) -> None:
    try:
        wait_until(lambda: port_accepts(port), what="the listener")
        assert answers(port)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_broker_starts_serves_and_ends_with_a_full_pipe_that_nobody_reads(tmp_path: Path, pipe: tuple[int, int], stream: str) -> None:
    os.write(pipe[1], bytes(PIPE_BYTES))
    broker = BrokerProcess(tmp_path)
    outputs = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: pipe[1]}
    serves_and_ends(started(broker, **outputs), broker.port)


def test_a_broker_whose_log_nobody_reads_any_more_goes_on(tmp_path: Path, pipe: tuple[int, int]) -> None:
    broker = BrokerProcess(tmp_path, logPath="")
    process = started(broker, stdout=pipe[1], stderr=pipe[1])
    try:
        wait_until(lambda: port_accepts(broker.port), what="the listener")
        with Wire(broker.port) as wire:
            for number in range(40):  # two records each
                wire.write(encode_command(310, {**SEND, "b": f"Topic{number}"}, b"body", opaque=number))
                answer = wire.read()
                assert answer is not None and answer.code == ResponseCode.SUCCESS
    finally:
        serves_and_ends(process, broker.port)


def test_lines_for_a_reader_that_comes_back_are_whole_and_in_order_and_lost_ones_are_counted(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    lines = ErrorLines(writing, bytes_max=10 * PIPE_BYTES)
    for number in range(5000):
        lines.write(b"line %04d\n" % number)
    assert not lines.settle(0.0)
    text = b""
    while b"lost here" not in text:
        text += os.read(reading, PIPE_BYTES)
    found = text.splitlines()
    assert found[:-1] == [b"line %04d" % number for number in range(len(found) - 1)]
    assert found[-1] == b"nobody read standard error: %d lines were lost here" % (5000 - len(found) + 1)
    assert lines.settle(PATIENCE_S)
    lines.close()


def test_lines_that_come_behind_lost_ones_stand_behind_their_count(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    lines = ErrorLines(writing, bytes_max=10 * PIPE_BYTES)
    for number in range(5000):
        lines.write(b"line %04d\n" % number)
    text, later = b"", 0
    while not re.search(rb"later \d+\n", text):
        text += os.read(reading, PIPE_BYTES)
        lines.write(b"later %03d\n" % later)
        later += 1
    found = text[: text.rindex(b"\n")].splitlines()
    gap = next(place for place, line in enumerate(found) if b"lost here" in line)
    assert found[:gap] == [b"line %04d" % number for number in range(gap)]
    lost_later = int(found[gap + 1].removeprefix(b"later "))
    assert found[gap] == b"nobody read standard error: %d lines were lost here" % (5000 - gap + lost_later)
    lines.close()


def test_lines_that_wait_together_are_written_together_as_far_as_a_pipe_keeps_them_whole(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    monkeypatch.setattr("rocketpy.error_lines.os.write", lambda descriptor, data: written.append(bytes(data)) or len(data))
    lines = ErrorLines(pipe[1])
    said = [b"line %04d\n" % number for number in range(1000)] + [b"x" * select.PIPE_BUF + b"\n", b"last\n"]
    with lines._changed:
        for line in said:
            lines.write(line)
    assert lines.settle(PATIENCE_S)
    lines.close()
    assert b"".join(written) == b"".join(said) and len(written) == 5
    assert all(piece.endswith(b"\n") and (len(piece) <= select.PIPE_BUF or piece in said) for piece in written)


def test_a_closed_descriptor_costs_the_lines_and_nothing_else(pipe: tuple[int, int]) -> None:
    reading, writing = os.pipe()
    lines = ErrorLines(writing)
    os.close(reading)
    lines.write(b"into nothing\n")
    assert lines.settle(PATIENCE_S)
    lines.close()
    os.close(writing)
