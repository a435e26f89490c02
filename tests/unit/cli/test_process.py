"""What the processes of both servers share."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from rocketpy._core.errors import DiskFull, RocketpyError
from rocketpy.cli import process, servers
from rocketpy.cli.process import StopSignal, ready_executor
from tests.processes import ROCKETPY, ROOT
from tests.unit.cli.processes import WAIT_S

THREADS = 4


def refuse_threads(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """As a system does at its limit: so many more, and no others."""
    real, started = threading.Thread.start, 0

    def start(thread: threading.Thread) -> None:
        nonlocal started
        started += 1
        if started > more:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)


def test_a_process_that_reads_nothing_again_says_so_to_whoever_asks_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """A proxy: `systemctl reload` succeeded, and its file was not read."""
    caplog.set_level("INFO")
    StopSignal([])._reload()
    assert caplog.messages == ["SIGHUP: nothing of this process is read again; a start reads its file"]


def test_a_thread_that_lingers_takes_no_signal_that_would_end_the_process() -> None:
    with ready_executor(THREADS) as executor:
        at_once = threading.Barrier(THREADS)

        def blocked() -> set[int]:
            at_once.wait()
            return set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))

        for each in [work.result() for work in [executor.submit(blocked) for _ in range(THREADS)]]:
            assert {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} <= each
            assert not {signal.SIGBUS, signal.SIGSEGV} & each, "its own faults are told where they happen"


def test_work_beside_the_loop_goes_on_when_no_more_threads_are_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    with ready_executor(THREADS) as executor:
        refuse_threads(monkeypatch, 0)
        at_once = threading.Barrier(THREADS)
        for _ in range(3):
            assert sorted(work.result() for work in [executor.submit(at_once.wait) for _ in range(THREADS)]) == list(range(THREADS))


@pytest.mark.parametrize("more", range(THREADS))
def test_a_process_that_gets_too_few_threads_says_so(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    before = set(threading.enumerate())  # with those of other tests that are about to end
    refuse_threads(monkeypatch, more)
    with pytest.raises(RocketpyError, match="no more threads; raise the limit"):
        ready_executor(THREADS)
    assert set(threading.enumerate()) <= before


def test_a_limit_of_addresses_in_which_no_thread_fits_is_told_with_its_remedy(tmp_path: Path) -> None:
    """RLIMIT_AS: glibc answers a stack that does not fit as it does a thread too many."""
    program = """if True:
        import resource, sys
        from rocketpy._core.store import MessageStore
        (size,) = (int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize"))
        limit = (size + 6 * 1024) * 1024  # less than a stack of 8 MiB
        resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        MessageStore(sys.argv[1], commit_log_file_size=1 << 20)
    """
    command = [sys.executable, "-c", program, str(tmp_path / "store")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert "cannot start the" in done.stderr and "no more threads; raise its limit (ulimit -u and -v" in done.stderr, done.stderr


def test_a_reader_who_has_seen_enough_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rocketpy broker -p | head`: what is left in the buffer is nobody's, and the interpreter shall not try it at its end."""
    forgotten: list[bool] = []
    monkeypatch.setattr(servers, "say", Mock(side_effect=BrokenPipeError))
    monkeypatch.setattr(servers, "forget_output", lambda: forgotten.append(True))
    assert servers.run_server("broker", ["-p"], "rocketpy broker") == 0 and forgotten == [True]


@pytest.mark.parametrize("command", ["doctor", "broker -p", "version"])
def test_a_full_disk_behind_standard_output_is_one_line(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*ROCKETPY, *command.split()], stdout=full, stderr=subprocess.PIPE, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stderr) == (1, "rocketpy: No space left on device\n")


@pytest.mark.parametrize("command", ["doctor", "broker -p", "version", "--help"])
def test_standard_output_and_error_may_be_closed(command: str) -> None:
    script = f"{shlex.join([*ROCKETPY, *command.split()])} >&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", script], timeout=WAIT_S, check=False).returncode == 0


def test_what_ends_a_process_resumes_nothing_by_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "report_faults", Mock())
    full = DiskFull("no space: free disk space or add a disk, writing resumes by itself")

    def make(_: object) -> list[process.Service]:
        raise full

    signals = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        assert process.run("rocketpy broker", [], make, lambda: None) == 1
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    says = "no space: free disk space or add a disk, then start again"
    assert f"rocketpy broker ends: {says}" in caplog.messages and capfd.readouterr().err == f"rocketpy broker: {says}\n"


def test_what_a_server_has_loaded_is_not_looked_through_again() -> None:
    """A full collection looks at every object: with 20,000 topics and 80,000 offsets that was 0.1 s of the event loop, again and again."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert int(done.stdout) >= 100_000


LOADED = """
import gc
from unittest.mock import Mock
from rocketpy.cli.process import run

class Tables:
    async def start(self):
        self.rows = [[] for _ in range(100_000)]
    async def stop(self): ...

async def work(stop):
    print(gc.get_freeze_count(), flush=True)
    return 0

run("tables", [], lambda log: [Tables()], lambda: None, work)
"""
