"""The commit log as a DLedger group's: who is in it, where its files are, what the native store is told of it.
RocketMQ: DLedgerCommitLog, MessageStoreConfig.getStorePathDLedgerCommitLog (5.3.3 store/).

    storePathRootDir/dledger-n0/data (or storePathDLedgerCommitLog), /index, /checkpoint, /currterm
"""

from __future__ import annotations

from pathlib import Path

from .._core.errors import StoreIOError
from .._core.options import MessageStoreOptions
from ..config import Config
from ..dledger.entry import HEADER
from ..dledger.log_node import committed_index
from ..dledger.settings import GroupSettings, parse_peers


def member_settings(config: Config) -> GroupSettings:
    """Patience and intervals are DLedger's own: no key of the broker changes them, and members have to agree about them."""
    return GroupSettings(
        config.text("dLegerGroup"),
        config.text("dLegerSelfId"),
        parse_peers(config.text("dLegerPeers")),
        Path(config.text("storePathRootDir")),
        data_file_size=config.integer("mappedFileSizeCommitLog"),
        preferred_leaders=frozenset(filter(None, config.text("preferredLeaderId").split(";"))),
    )


def ledger_path(config: Config) -> Path:
    """The directory of the log's data files."""
    return Path(config.text("storePathDLedgerCommitLog") or member_settings(config).directory / "data")


def log_directory(config: Config) -> Path:
    """The directory of the messages, whatever replicates them."""
    if config.boolean("enableDLegerCommitLog"):
        return ledger_path(config)
    return Path(config.text("storePathCommitLog") or Path(config.text("storePathRootDir")) / "commitlog")


def record_distance(config: Config) -> int:
    """The distance in bytes from the start of an entry to the record in it."""
    return HEADER.size if config.boolean("enableDLegerCommitLog") else 0


def with_ledger(options: MessageStoreOptions, config: Config) -> MessageStoreOptions:
    """The store's options, with DLedger's log as commit log."""
    settings = member_settings(config)
    return {
        **options,
        "commit_log_path": str(ledger_path(config)),
        "ledger_index_path": str(settings.directory / "index"),
        "ledger_index_file_size": settings.index_file_size,
        "ledger_committed_index": committed_index(settings),
    }


def check_no_other_log(config: Config) -> None:
    """Raises StoreIOError for a store that has a log from before DLedger. RocketMQ continues after it; here it would be hidden."""
    before = Path(config.text("storePathCommitLog") or Path(config.text("storePathRootDir")) / "commitlog")
    if before.is_dir() and any(before.iterdir()):
        raise StoreIOError(
            f"{before} holds messages of before enableDLegerCommitLog, which this release does not read together with a DLedger log: "
            f"begin with an empty storePathRootDir (and storePathCommitLog), and let consumers finish what is there at another broker"
        )
