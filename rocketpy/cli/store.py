"""`rocketpy store …`: look into, check, mend and export a stopped store directory of rocketpy or RocketMQ."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from rocketpy._core.errors import NotFound, StoreCorrupt, StoreLocked
from rocketpy._core.inspect import Damage, LogScan, verify_store
from rocketpy._core.options import MessageStoreOptions
from rocketpy._core.store import Message, MessageStore
from rocketpy.broker.names import LIGHT_QUEUE_PREFIX
from rocketpy.cli.numbers import COUNT_MAX, INT_MAX
from rocketpy.cli.tables import output, table_of
from rocketpy.cli.terminal import complain, say
from rocketpy.remoting.json_codec import read_object
from rocketpy.store.compaction import KIND as COMPACTION
from rocketpy.store.compaction import (
    POSITIONS,
    CompactedQueue,
    compacted_names,
    compacted_queues,
    damaged_queue,
    kept_messages,
    queue_directories,
)
from rocketpy.store.directory import QUEUE_DIRECTORIES, TIMER_COUNTS, StoreDirectory, StoreSummary, batch_topics, file_size, has_messages

store_app = typer.Typer(help=__doc__, no_args_is_help=True)
EXIT_DAMAGED = 3
LOG_FILE_MIN = 4096
"""Bytes of a commit log file: a store is opened with no less."""
DAMAGES_SHOWN = 50
STAYS = {
    "commitlog": "commit log damage stays",
    "timer": "damage of timed messages stays, until rocketpy's broker starts and makes their files again from their queue",
}
"""What is said about damage that a repair leaves as it is, by kind."""

Root = Annotated[Path, typer.Argument(help="The store's root directory (storePathRootDir).", show_default=False)]
LogPath = Annotated[Path | None, typer.Option("--commitlog", help="The log, where it is not ROOT/commitlog or ROOT/dledger-ID/data.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
SlotCount = Annotated[int, typer.Option(min=1, max=INT_MAX, help="maxHashSlotNum the index was made with.")]
EntryCount = Annotated[int, typer.Option(min=1, max=INT_MAX, help="maxIndexNum the index was made with.")]
Compacted = Annotated[bool, typer.Option("--compacted", help="What compacted topics have kept, instead of the commit log.")]
DelayLevels = Annotated[str | None, typer.Option(help="messageDelayLevel of the store's broker, where it is not RocketMQ's own.")]


@store_app.command()
def info(root: Root, commitlog: LogPath = None, as_json: AsJson = False) -> None:
    """What lies in a store: files, offsets, queues, checkpoint, what compacted topics have kept, who holds it."""
    summary, compacted = StoreDirectory(root, commitlog).summary(), list(compacted_queues(root))
    if as_json:
        say(json.dumps(asdict(summary) | {"compacted_queues": [asdict(queue) for queue in compacted]}))
    else:
        _print_summary(summary)
        _print_compacted(compacted)


@store_app.command()
def verify(
    root: Root,
    commitlog: LogPath = None,
    check_crc: Annotated[bool, typer.Option("--crc/--no-crc", help="Read every body and compare its CRC.")] = True,
    slot_count: SlotCount = 5_000_000,
    entry_count: EntryCount = 20_000_000,
    as_json: AsJson = False,
) -> None:
    """Checks every record, queue entry and index entry, the files of timed messages and of compacted topics.

    Exit status 3 when something is damaged."""
    counts, damages = _verify(root, commitlog, check_crc, slot_count, entry_count, quiet=as_json)
    if as_json:
        say(json.dumps({"counts": counts, "damages": [damage._asdict() for damage in damages]}))
    else:
        _print_verdict(counts, damages)
    raise typer.Exit(EXIT_DAMAGED if counts["damages"] else 0)


@store_app.command()
def repair(
    root: Root,
    commitlog: LogPath = None,
    slot_count: SlotCount = 5_000_000,
    entry_count: EntryCount = 20_000_000,
    delay_levels: DelayLevels = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would be done.")] = False,
) -> None:
    """Sets damaged queue and index files aside and builds them again from the commit log. What is whole in the log is never changed.

    A damaged copy of a compacted queue is set aside while the log still has all of that queue: the broker's next start makes it again."""
    console = output()
    directory = StoreDirectory(root, commitlog)
    if holder := directory.lock_holder():
        raise StoreLocked(f"the store is in use by process {holder}; stop it, nothing was changed", file=str(root / "lock"))
    counts, damages = _verify(root, commitlog, True, slot_count, entry_count, quiet=False)
    if not has_messages(directory.commit_log_path) and any(damage.kind == "consumequeue" for damage in damages):
        cause = "the commit log has no messages, and nothing is built again of that: mount its disk, or put its files back"
        raise NotFound(f"{cause}; nothing was changed", file=str(directory.commit_log_path))
    derived = {_derived_path(root, damage) for damage in damages if damage.kind not in STAYS and damage.kind != COMPACTION}
    copies, why_kept = _copies_to_make_again(directory, damages)
    targets = sorted(derived | copies)
    for damage in damages:
        if stays := why_kept.get(damage) or STAYS.get(damage.kind):
            console.print(f"[red]{escape(stays)}[/red]: {escape(damage.file)} at {damage.offset}: {escape(damage.cause)}")
    for target in targets:
        console.print(f"{'setting aside' if yes else 'would set aside'} {escape(str(target))}")
    if not yes or not targets:
        if not damages:
            _print_verdict(counts, damages)
        elif targets:
            console.print("nothing was changed: --yes does it")
        raise typer.Exit(EXIT_DAMAGED if damages else 0)
    options = _as_written(root, commitlog)
    if derived and options.get("commit_log_file_size", LOG_FILE_MIN) < LOG_FILE_MIN:
        cause = f"the first file of the commit log is shorter than any is ({LOG_FILE_MIN} bytes): put it back; nothing was changed"
        raise StoreCorrupt(cause, file=str(directory.log_files()[0]))
    options |= {"index_slot_count": slot_count, "index_entry_count_max": entry_count, "delay_levels": delay_levels, "rebuild_queues": 1}
    kept = _topics(root)
    with directory.locked():  # the check took its time: a broker may have been started since
        for target in targets:
            if target.exists():
                target.rename(_free_name(root, target))
    if derived:
        with MessageStore(str(root), **options) as store:
            for deleted in {topic for topic, _ in store.queues()} - kept:
                store.delete_topic(deleted)
            console.print("built again from the commit log")
    if any(copy.name != POSITIONS for copy in copies):
        console.print("what compacted topics have kept is copied from the commit log again when their broker starts")
    counts, damages = _verify(root, commitlog, True, slot_count, entry_count, quiet=False)
    _print_verdict(counts, damages)
    raise typer.Exit(EXIT_DAMAGED if counts["damages"] else 0)


@store_app.command()
def dump(
    root: Root,
    commitlog: LogPath = None,
    begin: Annotated[int, typer.Option("--from", min=0, max=COUNT_MAX, help="Physical offset to start at.")] = 0,
    count: Annotated[int, typer.Option(min=0, max=COUNT_MAX, help="Messages to show.")] = 20,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    compacted: Compacted = False,
    as_json: AsJson = False,
) -> None:
    """Shows records of the commit log, or of what compacted topics have kept, damage included."""
    if compacted and begin > 0:
        raise typer.BadParameter("an offset of the commit log says nothing of what compacted topics have kept", param_hint="--from")
    table = table_of("offset", "size", "topic", "queue", "queue offset", "stored", "properties", "body")
    for record in islice(_messages(StoreDirectory(root, commitlog), begin, topic, compacted=compacted), count):
        if as_json:
            say(json.dumps(_as_json(record)))
        elif isinstance(record, Damage):
            table.add_row(str(record.offset), str(record.size), Text(record.cause, "red"))
        else:
            table.add_row(*map(Text, _cells(record)))
    if not as_json:
        output().print(table)


@store_app.command()
def export(
    root: Root,
    target: Annotated[Path, typer.Argument(help="File of JSON lines to write; - for standard output.", show_default=False)],
    commitlog: LogPath = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    compacted: Compacted = False,
) -> None:
    """Writes messages as JSON lines, bodies in base64. Exit status 3 when something damaged was passed over."""
    damaged = 0
    directory = StoreDirectory(root, commitlog)  # before target is emptied: there may be none
    with nullcontext(sys.stdout) if str(target) == "-" else target.open("w") as out:
        for record in _messages(directory, 0, topic, compacted=compacted):
            damaged += isinstance(record, Damage)
            out.write(json.dumps(_as_json(record)) + "\n")
    raise typer.Exit(EXIT_DAMAGED if damaged else 0)


def _verify(
    root: Path, commitlog: Path | None, check_crc: bool, slot_count: int, entry_count: int, *, quiet: bool
) -> tuple[dict[str, int], list[Damage]]:
    if holder := StoreDirectory(root, commitlog).lock_holder():
        complain("rocketpy", StoreLocked(f"process {holder} is writing to this store: what is not finished looks damaged"))
    damages: list[Damage] = []
    columns = (TextColumn("checking"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        task = progress.add_task("checking", total=None)
        counts = verify_store(
            str(root),
            commit_log_path=str(StoreDirectory(root, commitlog).commit_log_path),
            check_crc=check_crc,
            slot_count=slot_count,
            entry_count_max=entry_count,
            on_damage=damages.append,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    if fault := StoreDirectory(root, commitlog).timer_counts_fault():
        damages.append(Damage("timer", str(root / TIMER_COUNTS), -1, 0, fault))
        counts["damages"] += 1
    return counts, damages


def _as_written(root: Path, commitlog: Path | None) -> MessageStoreOptions:
    """Options that open the store as it was written: file sizes are taken from the files, because the broker's configuration is not
    known."""
    directory = StoreDirectory(root, commitlog)
    options: MessageStoreOptions = {"commit_log_path": str(directory.commit_log_path), "batch_topics": batch_topics(root)}
    if index := directory.ledger_index_path:
        options |= {"ledger_index_path": str(index), "ledger_committed_index": directory.committed_index()}
        if size := _written_size(sorted(index.glob("[0-9]" * 20))):
            options["ledger_index_file_size"] = size
    if log_files := directory.log_files():
        options["commit_log_file_size"] = log_files[0].stat().st_size
    if size := _written_size(sorted((root / "consumequeue").glob("*/*/" + "[0-9]" * 20))):
        options["consume_queue_file_size"] = size
    if size := _written_size(sorted((root / "batchconsumequeue").glob("*/*/" + "[0-9]" * 20))):
        options["batch_queue_file_size"] = size
    if any((root / "consumequeue").glob(LIGHT_QUEUE_PREFIX + "*")):  # those that are set aside are made again
        options["light_queues_max"] = 2**31 - 1
    return options


def _written_size(files: list[Path]) -> int:
    """The size of the first file that has one: a kill may leave an empty file that was about to be preallocated."""
    return next(filter(None, (file.stat().st_size for file in files)), 0)


def _topics(root: Path) -> set[str]:
    """The topics that have queues, or that their broker knows. The log may also hold messages of others: of topics that were deleted."""
    with_queues = {path.name for directory in QUEUE_DIRECTORIES for path in (root / directory).glob("*") if path.is_dir()}
    try:
        table = read_object((root / "config" / "topics.json").read_text(encoding="utf-8"), tolerant_max=None)["topicConfigTable"]
    except (OSError, ValueError, LookupError, TypeError):
        return with_queues
    return with_queues | set(table)


def _copies_to_make_again(directory: StoreDirectory, damages: list[Damage]) -> tuple[set[Path], dict[Damage, str]]:
    """Which files in compaction/ are set aside, and why the other damaged ones stay. A copy may be all that is left of its messages: it is
    set aside only if the log is undamaged and has the queue from its first message on, as an undamaged consume queue says."""
    targets: set[Path] = set()
    kept: dict[Damage, str] = {}
    is_log_whole = all(damage.kind != "commitlog" for damage in damages)
    damaged = {_derived_path(directory.root, damage) for damage in damages if damage.kind == "consumequeue"}
    for damage in damages:
        if damage.kind != COMPACTION:
            continue
        queue = damaged_queue(directory.root, damage)
        if queue is None:  # how far each queue was compacted: what it does not say is compacted once more
            targets.add(Path(damage.file))
        elif is_log_whole and directory.queue_path(*queue) not in damaged and directory.begins_in_log(*queue):
            targets.update(path for path in queue_directories(directory.root, *queue) if path.exists())
        else:
            topic, queue_id = queue
            kept[damage] = (
                f"it is not sure that the log still has all of {topic}/{queue_id}, so its copy stays: what is damaged is lost, "
                "the rest is read"
            )
    return targets, kept


def _derived_path(root: Path, damage: Damage) -> Path:
    """The path that a repair builds again: the directory of a queue, or the index or one of its files."""
    path = Path(damage.file)
    if damage.kind == "index":
        return path
    return path if path.is_absolute() or path.exists() else root / path


def _free_name(root: Path, path: Path) -> Path:
    """A name beside `path` that nothing has yet. The store does not see it, because it only reads names of digits."""
    parent = path.parent if path.is_file() or path.parent == root else path.parent.parent.parent
    base = f"damaged-{path.parent.name}-{path.name}"
    return next(
        candidate
        for candidate in (parent / f"{base}{suffix}" for suffix in ("", *(f".{n}" for n in range(1, 1000))))
        if not candidate.exists()
    )


def _messages(directory: StoreDirectory, begin: int, topic: str | None, *, compacted: bool) -> Iterator[Message | Damage]:
    if compacted:
        return kept_messages(directory.root, topic)
    if any(topic in (None, name) for name, _, _ in compacted_names(directory.root)):
        Console(stderr=True).print("compacted topics keep messages that the commit log has lost: --compacted shows those")
    return _records(directory, begin, topic)


def _records(directory: StoreDirectory, begin: int, topic: str | None) -> Iterator[Message | Damage]:
    for path in directory.log_files():
        size = file_size(path)
        if size is None or int(path.name) + size <= begin:
            continue
        with LogScan(str(path), begin_offset=begin) as scan:
            for record in scan:
                if isinstance(record, Damage):
                    yield record._replace(file=str(path))
                elif topic is None or record.topic == topic:
                    yield record


def _as_json(record: Message | Damage) -> dict[str, Any]:
    if isinstance(record, Damage):
        return {"damage": record._asdict()}
    return {**record._asdict(), "body": base64.b64encode(record.body).decode()}


def _cells(message: Message) -> list[str]:
    body = message.body[:48].decode("utf-8", "backslashreplace")
    return [
        str(message.commit_log_offset),
        str(message.size),
        message.topic,
        str(message.queue_id),
        str(message.queue_offset),
        str(message.store_timestamp_ms),
        " ".join(f"{name}={value}" for name, value in message.properties.items())[:64],
        body,
    ]


def _print_summary(summary: StoreSummary) -> None:
    console = output()
    state = "open or not closed cleanly" if summary.is_running_or_died else "closed"
    holder = f", locked by process {summary.lock_holder}" if summary.lock_holder else ""
    console.print(f"{escape(summary.root)}: {state}{holder}")
    console.print(f"commit log: {len(summary.log_files)} files for offsets {summary.log_min_offset} to {summary.log_end_of_files}")
    console.print("checkpoint: " + (", ".join(f"{name}={value}" for name, value in summary.checkpoint.items()) or "none"))
    console.print(f"index: {len(summary.index_files)} files; config: {escape(', '.join(summary.config_files)) or 'none'}")
    if summary.timer_checkpoint or summary.timer_log_files:
        reached = ", ".join(f"{name}={value}" for name, value in summary.timer_checkpoint.items()) or "no checkpoint"
        console.print(
            f"timed messages: {len(summary.timer_log_files)} timer log files of {summary.timer_log_bytes} bytes, "
            f"timing wheel of {summary.timer_wheel_bytes} bytes; {reached}"
        )
    table = table_of("topic", "queue", "min", "max", "files")
    for queue in summary.queues:
        table.add_row(escape(queue.topic), str(queue.queue_id), str(queue.min_offset), str(queue.max_offset), str(queue.file_count))
    console.print(table)


def _print_compacted(queues: list[CompactedQueue]) -> None:
    if not queues:
        return
    table = table_of("compacted topic", "queue", "min", "max", "kept", "files", "bytes", "")
    for queue in queues:
        state = "files are being moved" if queue.is_being_moved else ""
        numbers = (queue.queue_id, queue.min_offset, queue.max_offset, queue.messages, queue.file_count, queue.bytes)
        table.add_row(escape(queue.topic), *map(str, numbers), state)
    output().print(table)


def _print_verdict(counts: dict[str, int], damages: list[Damage]) -> None:
    console = output()
    console.print(
        f"{counts['messages']} messages in {counts['log_files']} files, {counts['queue_entries']} entries of {counts['queues']} queues, "
        f"{counts['index_entries']} index entries; log {counts['log_min_offset']} to {counts['log_max_offset']}"
    )
    if counts["timer_records"]:
        console.print(f"timed messages: {counts['timer_records']} timer log records, {counts['timer_slots']} slots hold some that wait")
    if counts["compacted_queues"]:
        console.print(f"compacted topics: {counts['compacted_messages']} messages are kept of {counts['compacted_queues']} queues")
    if counts["compactions_unfinished"]:
        console.print(
            f"{counts['compactions_unfinished']} compacted queues were not looked into: their files were being moved, which their broker's "
            "next start finishes"
        )
    if counts["uncommitted"]:
        console.print(f"{counts['uncommitted']} messages at the log's end are in no queue: they were not committed yet")
    if counts["orphans"]:
        console.print(
            f"{counts['orphans']} messages are in no queue: their topics were deleted, they were not confirmed behind a controller, or the "
            "queues' directories are missing"
        )
    if not damages:
        console.print("[green]whole[/green]")
        return
    table = table_of("what", "where", "offset", "bytes", "damage")
    for damage in damages[:DAMAGES_SHOWN]:
        table.add_row(damage.kind, Text(damage.file), str(damage.offset), str(damage.size), Text(damage.cause))
    console.print(table)
    if any(damage.kind == "index" and "maxIndexNum" in damage.cause for damage in damages):
        console.print("an index made with other maxHashSlotNum and maxIndexNum is checked with --slot-count and --entry-count")
    hidden = len(damages) - DAMAGES_SHOWN
    console.print(f"[red]{len(damages)} damaged places[/red]{f', {hidden} not shown (--json shows all)' if hidden > 0 else ''}")
