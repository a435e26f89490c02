"""What a native broker refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy._core.broker import Broker
from rocketpy._core.errors import InvalidArgument
from rocketpy._core.store import MessageStore


def test_offsets_of_nobody_in_particular_are_not_deleted(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "store", commit_log_file_size=64 * 1024) as store, Broker(store) as broker:
        with pytest.raises(InvalidArgument, match="all offsets would go"):
            broker.delete_offsets()
        broker.delete_offsets("group")
        broker.delete_offsets(topic="topic")
