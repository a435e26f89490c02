"""Which broker id a controller has given this store: two small files beside it, RocketMQ's to the byte.
RocketMQ: BrokerMetadata, TempBrokerMetadata, MetadataFile (5.3.3 store/ha/autoswitch/).

    brokerIdentity-temp  CLUSTER#NAME#ID#CODE   an id that was asked for; the code tells the controller who asks again after a crash
    brokerIdentity       CLUSTER#NAME#ID        the id, for good; the other file goes when this one is on disk

An id belongs to a store: if an empty store had the id, the controller would take it for the log that it knows. So a file that cannot be
read ends the start; RocketMQ takes a new id.

Threads  one at a time. Blocks on the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._core.errors import StoreCorrupt, StoreIOError
from ..state_file import StateFile

TEMPORARY: Final = "-temp"
ID_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """Whose store this is. check_code is set only until the controller has confirmed that the id is ours."""

    cluster_name: str
    broker_name: str
    broker_id: int
    check_code: str = ""

    def encode(self) -> str:
        return "#".join(part for part in (self.cluster_name, self.broker_name, str(self.broker_id), self.check_code) if part)

    @staticmethod
    def decode(text: str, *, is_temporary: bool) -> BrokerMetadata:
        """Raises ValueError."""
        parts = text.strip().split("#")
        count = 4 if is_temporary else 3
        if len(parts) != count or not all(parts):
            raise ValueError(f"expected {'CLUSTER#NAME#ID#CODE' if is_temporary else 'CLUSTER#NAME#ID'}, found {text[:80]!r}")
        number = parts[2]
        if not (number.isascii() and number.isdigit() and int(number) <= ID_MAX):
            raise ValueError(f"{number[:80]!r} is not a broker id")
        return BrokerMetadata(parts[0], parts[1], int(number), parts[3] if is_temporary else "")


class BrokerMetadataFiles:
    """The two files of a store, final and temporary."""

    def __init__(self, path: Path) -> None:
        """path: the value of storePathBrokerIdentity."""
        self.path = path
        self.temporary_path = path.with_name(path.name + TEMPORARY)

    def read(self) -> tuple[BrokerMetadata | None, BrokerMetadata | None]:
        """(contents of the final file, contents of the temporary file). Raises StoreCorrupt, StoreIOError."""
        return _read(self.path, is_temporary=False), _read(self.temporary_path, is_temporary=True)

    def write_temporary(self, metadata: BrokerMetadata) -> None:
        """Raises StoreIOError, DiskFull."""
        StateFile(self.temporary_path).write(metadata.encode())

    def write(self, metadata: BrokerMetadata) -> None:
        """Writes the final file and removes the temporary one. Raises StoreIOError, DiskFull."""
        StateFile(self.path).write(metadata.encode())
        self.forget_temporary()

    def forget_temporary(self) -> None:
        """Raises StoreIOError."""
        try:
            self.temporary_path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreIOError(
                f"it cannot be removed: {error.strerror}", file=str(self.temporary_path), os_errno=error.errno or 0
            ) from error


def mismatch(metadata: BrokerMetadata, cluster_name: str, broker_name: str) -> str:
    """Why the store is another broker's; empty if it is this broker's."""
    if metadata.cluster_name != cluster_name:
        return f"it is of cluster {metadata.cluster_name}, brokerClusterName is {cluster_name}"
    if metadata.broker_name != broker_name:
        return f"it is of broker {metadata.broker_name}, brokerName is {broker_name}"
    return ""


def _read(path: Path, *, is_temporary: bool) -> BrokerMetadata | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "it is not text"
        raise StoreIOError(f"the broker's id cannot be read: {cause}", file=str(path), os_errno=getattr(error, "errno", 0) or 0) from error
    try:
        return BrokerMetadata.decode(text, is_temporary=is_temporary)
    except ValueError as error:
        if is_temporary:  # nothing is known to be ours by it: another id is asked for
            return None
        raise StoreCorrupt(
            f"the broker id that the controller gave this store is damaged: {error}; write it again (CLUSTER#NAME#ID, mqadmin "
            "getSyncStateSet shows who is missing), or move the file away for a new id",
            file=str(path),
        ) from error
