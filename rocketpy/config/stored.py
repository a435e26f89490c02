"""Writes updates of a configuration to the file that it came from. RocketMQ: Configuration.persist (5.3.3 remoting/).

Threads  one event loop; the file is written in its executor, one update after the other, even when two services share a configuration (a
         name server and the controller in it do). A disk that hangs delays only the requests that change the configuration.
Errors   StoreIOError, DiskFull.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from .._core.errors import StoreIOError
from ..state_file import StateFile
from .loader import Config
from .properties import file_bytes, properties_text


class StoredConfig:
    """Writes updates of `config` into its file and keeps the comments. The file's previous content is kept beside it as `.bak`."""

    def __init__(self, config: Config, path: Path | None = None) -> None:
        """path: the file for a configuration that was not read from one. If there is neither, updates last until the process ends."""
        self._config = config
        self._path = path

    @property
    def path(self) -> Path | None:
        return self._config.file or self._path

    async def store(self, changes: Mapping[str, str]) -> None:
        """Returns when the changes are on disk."""
        path = self.path
        if path is None:
            return
        async with self._config.file_lock:
            await asyncio.to_thread(self._write, path, changes)

    def _write(self, path: Path, changes: Mapping[str, str]) -> None:
        try:
            text = properties_text(path.read_bytes()) if path.exists() else ""
        except OSError as error:
            raise StoreIOError(f"the configuration cannot be read: {error}", file=str(path)) from error
        StateFile(path.resolve(), is_whole=True).write_bytes(file_bytes(self._config.stored_text(text, changes)))
