"""Tables of the broker that live in a file of `config/`: written when they changed, many changes in one write.
RocketMQ: ConfigManager.persist (5.3.3 common/), which rewrites the file for every change while the request waits.

Threads  one event loop; files are written in its default executor. Errors: StoreIOError, DiskFull from `save`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from .._core.errors import InvalidArgument, RocketpyError, TooLarge, Unsupported
from ..remoting.json_codec import DEPTH_MAX, JsonError, is_deeper, read_json, write_fastjson
from ..state_file import StateFile

log = logging.getLogger(__name__)

T = TypeVar("T")

TELL_AGAIN_S: Final = 60.0
"""A file that cannot be written is tried again every few seconds, or every second."""


def pretty_text(value: Any) -> str:
    """A table as RocketMQ writes it into `config/`."""
    return write_fastjson(value, pretty=True).decode()


class SavedState:
    """A table that is written to its file when it has changed. Changes that are made while a write is under way share the next one.

    `snapshot` copies the table as it is at that moment; `version` is any value that differs when the table does. `encode` makes the text of
    a snapshot in a thread of the executor, so that a large table does not hold up requests.
    """

    def __init__(
        self,
        path: Path,
        snapshot: Callable[[], Any],
        version: Callable[[], object],
        encode: Callable[[Any], str] = pretty_text,
        monotonic_s: Callable[[], float] = time.monotonic,
        *,
        is_private: bool = False,
    ) -> None:
        self.file = StateFile(path, is_private=is_private)
        self._snapshot = snapshot
        self._encode = encode
        self._version = version
        self._saved_version: object = None
        self._begun = 0  # writes so far; the number of the last one that succeeded is _written
        self._written = 0
        self._lock = asyncio.Lock()
        self.failures = 0
        self._monotonic_s = monotonic_s
        self._untold = 0  # failures since the last line about one
        self._told_s: float | None = None  # when that was; None: nothing is wrong as far as the log tells

    def load(self, from_json: Callable[[Any], T], use: Callable[[T], object]) -> bool:
        """Reads the file or its backup and passes it to `use`. False if there is nothing to read. from_json raises ValueError.

        Raises StoreIOError for a file that cannot be read, Unsupported for contents that from_json or `use` does not accept.
        """
        value = self.read(from_json)
        if value is None:
            return False
        try:
            use(value)
        except (InvalidArgument, TooLarge, Unsupported) as error:
            cause = f"what it holds cannot be taken: {error}; correct it, or move it away to begin without it"
            raise Unsupported(cause, file=str(self.file.path)) from error
        if not self.file.faults:
            self._saved_version = self._version()
        return True

    def read(self, from_json: Callable[[Any], T]) -> T | None:
        """As load, for a caller that takes over only a part of the file."""
        return self.file.read(lambda text: from_json(_read(text)))

    def mark_saved(self) -> None:
        """The table as it is needs no file, because every broker begins with it."""
        self._saved_version = self._version()

    @property
    def is_dirty(self) -> bool:
        return self._version() != self._saved_version

    async def save(self) -> None:
        """Returns when every change made before the call is on disk. Raises StoreIOError, DiskFull.

        A write that began after the call contains them, even if the table has changed again since. A caller that waited for its turn does
        not write once more for the changes of others, which may never end.
        """
        begun_before = self._begun
        async with self._lock:
            if self._written > begun_before or not self.is_dirty:
                return
            self._begun += 1
            number = self._begun
            version, value = self._version(), self._snapshot()
            writing = asyncio.get_running_loop().run_in_executor(None, self._write, value)
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await asyncio.wait([writing])  # the lock is held until the thread is done: the next write uses the same temporary file
                raise
            except RocketpyError:
                self.failures += 1
                raise
            self._saved_version = version
            self._written = number
            if self._told_s is not None:
                log.warning("persist file %s: it is written again", self.file.path)
            self._told_s, self._untold = None, 0

    def _write(self, value: Any) -> None:
        self.file.write(self._encode(value))

    async def save_or_log(self) -> bool:
        """As save, for periodic tasks: a failure is logged, from time to time while it lasts, and the write is tried again next time."""
        try:
            await self.save()
        except RocketpyError as error:
            self._tell(error)
            return False
        return True

    def _tell(self, error: RocketpyError) -> None:
        now_s = self._monotonic_s()
        if self._told_s is not None and now_s - self._told_s < TELL_AGAIN_S:
            self._untold += 1
            return
        again = f" ({self._untold} more times since this was said last)" if self._untold else ""
        log.error("persist file %s exception: %s; it is tried again%s", self.file.path, error, again)
        self._told_s, self._untold = now_s, 0


def _read(text: str) -> Any:
    """Raises JsonError, also for a text that could not be written again."""
    value = read_json(text, tolerant_max=None)
    if is_deeper(value, DEPTH_MAX):
        raise JsonError(f"nested deeper than {DEPTH_MAX}")
    return value


async def save_for_good(states: Iterable[SavedState], is_uncommitted: Callable[[RocketpyError], bool]) -> list[Exception]:
    """At the stop: every table that its file does not hold yet; why those stay behind that cannot be written. One that rests on what is not
    committed stays as it was written last."""
    faults: list[Exception] = []
    for saved in states:
        try:
            await saved.save()
        except RocketpyError as error:
            if is_uncommitted(error):
                log.warning("%s stays as it was written last: what it rests on is not committed: %s", saved.file.path, error)
            else:
                faults.append(error)
    return faults
