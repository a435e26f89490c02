"""`rocketpy doctor`: checks everything of this machine that matters to a broker; for each fault it shows the command that mends it.

A check returns a finding: ok, note (works, could be better) or bad (the broker will not run, or will not keep its promises). After a bad
one the exit code is 3.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from .. import __version__
from ..broker.store_directory import is_mounted_read_only, opening_command
from ..config import found_memory, home_directory, local_address, reach_warning
from .place import existing, file_system_kind

EXIT_UNHEALTHY = 3
Grade = Literal["ok", "note", "bad"]
NOFILE_WANTED = 65536
MAP_COUNT_WANTED = 65530
DISK_BYTES_WANTED = 3 * 1024**3  # two commit log files and their queues
DISK_RATIO_MAX = 0.90  # diskSpaceWarningLevelRatio: above it sends are refused
MEMORY_BYTES_WANTED = 512 * 1024**2
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p"})


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    grade: Grade
    text: str


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def check_versions(directory: Path) -> Finding:
    return Finding("version", "ok", f"rocketpy {__version__}, CPython {platform.python_version()}, {platform.machine()}")


def check_native(directory: Path) -> Finding:
    try:
        from .._core.base import crc32, crc32_implementation
    except ImportError as error:
        return Finding("native core", "bad", f"does not load ({error}); build it: make build, or pip install .")
    if crc32(b"123456789") != 0xCBF43926:
        return Finding("native core", "bad", "computes a wrong CRC; build it again: make clean build")
    implementation = crc32_implementation()
    return Finding("native core", "ok" if implementation != "portable" else "note", f"loaded, CRC by {implementation}")


def check_kernel(directory: Path) -> Finding:
    release = platform.release()
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    if platform.system() != "Linux":
        return Finding("kernel", "bad", f"{platform.system()}: rocketpy runs on Linux only")
    if numbers < (5, 14):
        return Finding("kernel", "note", f"{release}: before 5.14 files cannot be faulted in ahead of the writer, sends see page faults")
    return Finding("kernel", "ok", release)


def check_sync(directory: Path) -> Finding:
    """Times a small write and its sync both ways in the store's future directory, as flushBackend=AUTO does at start-up with SYNC_FLUSH."""
    from .._core.errors import RocketpyError
    from .._core.liburing import liburing_path
    from .._core.store import measure_sync
    from .servers import BACKENDS

    place, library = existing(directory), liburing_path()
    try:
        times = measure_sync(place, library)
    except RocketpyError as error:
        return Finding("sync", "bad", f"{place}: {error}")
    by_calls = f"{times.syscall_ns / 1000:,.0f} µs by {BACKENDS['SYSCALL']}"
    if times.refusal:
        return Finding("sync", "ok", f"{by_calls}; no io_uring: {times.refusal} (nothing is lost without it)")
    by_ring = f"{times.io_uring_ns / 1000:,.0f} µs by io_uring ({library})" if times.io_uring_ns >= 0 else f"not by io_uring ({library})"
    return Finding("sync", "ok", f"{by_calls}, {by_ring}: the flusher uses {BACKENDS[times.taken]} (flushBackend)")


def check_grpc(directory: Path) -> Finding:
    from .._core.errors import RocketpyError
    from .._core.grpc import Grpc

    try:
        Grpc([]).close()
    except RocketpyError as error:
        return Finding("gRPC", "note", f"no proxy here: {error}")
    return Finding("gRPC", "ok", "libnghttp2 is there, for the proxy")


def _nofile_remedy() -> str:
    if os.geteuid() == 0:
        return f"raise it: ulimit -Hn {NOFILE_WANTED}, or LimitNOFILE={NOFILE_WANTED} in a systemd unit"
    return f"root can raise it: LimitNOFILE={NOFILE_WANTED} in a systemd unit, or a hard nofile line in /etc/security/limits.conf"


def check_open_files(directory: Path) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < NOFILE_WANTED:
        return Finding("open files", "note", f"at most {hard}: fewer connections than connectionsMax; {_nofile_remedy()}")
    return Finding("open files", "ok", f"{soft}, up to {hard} (servers raise it themselves)")


def check_maps(directory: Path) -> Finding:
    text = _read("/proc/sys/vm/max_map_count")
    if text.isdigit() and int(text) < MAP_COUNT_WANTED:
        return Finding(
            "vm.max_map_count", "note", f"{text}: a store with many queues maps more files; sudo sysctl -w vm.max_map_count=655360"
        )
    return Finding("vm.max_map_count", "ok", text or "unknown")


def check_memory(directory: Path) -> Finding:
    values = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines() if ":" in line)
    available = int(values.get("MemAvailable", "0 kB").split()[0]) * 1024
    found = found_memory()
    text = f"{found} to plan with (--memory changes it), {available / 1024**3:.1f} GiB available on this machine"
    small = min(available, found.size) < MEMORY_BYTES_WANTED
    return Finding("memory", "note" if small else "ok", text + (": little is left for the page cache" if small else ""))


def check_directory(directory: Path) -> Finding:
    """Which directory the following findings are about: for a misspelt path they describe the disk and file system of the directory above
    it."""
    place = existing(directory)
    if place == directory:
        return Finding("store", "ok", str(directory))
    below = place / directory.relative_to(place).parts[0]
    if os.path.lexists(below):
        return Finding("store", "bad", f"{below} is not a directory; mend it, or choose another storePathRootDir")
    text = f"{directory} is not there: a broker makes it at its first start; looked at {place} instead"
    return Finding("store", "ok" if directory == default_directory() else "note", text)


def check_disk(directory: Path) -> Finding:
    place = existing(directory)
    if is_mounted_read_only(place):
        return Finding(
            "disk", "bad", f"{place}: mounted read-only; mount it for writing (look at dmesg first), or choose another storePathRootDir"
        )
    if not os.access(place, os.W_OK | os.X_OK):  # what was there before the store is given to nobody: it may be /var/lib
        remedy = opening_command(place) if place == directory else f"sudo install -d -o $USER {directory}"
        return Finding("disk", "bad", f"{place} cannot be written by this user; choose storePathRootDir elsewhere or: {remedy}")
    usage = shutil.disk_usage(place)
    if usage.total == 0:
        return Finding("disk", "note", f"{place}: does not say how large it is: the broker never takes it for full")
    used = usage.used / max(1, usage.used + usage.free)  # as df and the broker see it: what root keeps for itself is nobody's
    text = f"{place}: {usage.free / 1024**3:.1f} GiB free, {used:.0%} used"
    if usage.free < DISK_BYTES_WANTED:
        return Finding("disk", "bad", f"{text}: a store starts with files of 1 GiB (mappedFileSizeCommitLog); free some space")
    if used > DISK_RATIO_MAX:
        return Finding("disk", "note", f"{text}: above diskSpaceWarningLevelRatio (0.90) the broker takes no messages")
    return Finding("disk", "ok", text)


def check_file_system(directory: Path) -> Finding:
    kind = file_system_kind(directory, _read("/proc/self/mounts"))
    if kind in NETWORK_FILE_SYSTEMS:
        return Finding("file system", "note", f"{kind}: syncs over the network are slow, and locks may not hold between machines")
    if kind == "tmpfs":
        return Finding("file system", "note", "tmpfs: what is stored here is gone after a reboot")
    return Finding("file system", "ok", kind)


def check_address(directory: Path) -> Finding:
    address = local_address()
    warning = reach_warning(address)
    return Finding("address", "note" if warning else "ok", f"brokers register {address}{f': {warning}; set advertise' if warning else ''}")


CHECKS: tuple[Callable[[Path], Finding], ...] = (
    check_versions,
    check_native,
    check_kernel,
    check_sync,
    check_grpc,
    check_open_files,
    check_maps,
    check_memory,
    check_directory,
    check_disk,
    check_file_system,
    check_address,
)


def print_findings(findings: Sequence[Finding], *, as_json: bool = False) -> int:
    """Prints the findings and returns the exit code: 3 if one of them is bad."""
    from rich.table import Table
    from rich.text import Text

    from .tables import output
    from .terminal import printable, say

    code = EXIT_UNHEALTHY if any(finding.grade == "bad" for finding in findings) else 0
    if as_json:
        say(json.dumps([asdict(finding) for finding in findings]))
        return code
    findings = [Finding(printable(finding.name), finding.grade, printable(finding.text)) for finding in findings]
    if not sys.stdout.isatty():  # a line each, with nothing behind it
        width = max(len(finding.name) for finding in findings)
        say("\n".join(f"{finding.grade:<4}  {finding.name:<{width}}  {finding.text}" for finding in findings))
        return code
    colours = {"ok": "green", "note": "yellow", "bad": "red"}
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in findings:
        table.add_row(f"[{colours[finding.grade]}]{finding.grade}[/]", Text(finding.name), Text(finding.text, overflow="fold"))
    output().print(table)
    return code


def default_directory() -> Path:
    """The default of storePathRootDir."""
    return home_directory() / "store"


def run_doctor(directory: Path | None, *, as_json: bool = False) -> int:
    place = default_directory() if directory is None else directory.absolute()
    return print_findings([check(place) for check in CHECKS], as_json=as_json)
