"""Seeded damage of store directories, and what opening one may do afterwards. Run as a program it works through a range of seeds, so that
a crash of the native code ends this process and not the test's.

    python -m tests.property.store_mutations TEMPLATE WORK FIRST_SEED COUNT

Opening a damaged store either refuses with one of our errors or comes up with messages that are all original: nothing is invented, and
what verification called whole beforehand loses nothing. Every second store is opened with its queues made again: then each record that is
whole in the log is found, whatever lies damaged before it, as long as the checkpoint can say what was synced. What a compacted topic has
kept is held to the same: only what was sent, and all of it where verification saw no damage, but for one case (_gone_beside_the_gap).
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from rocketpy._core.broker import Broker
from rocketpy._core.errors import RocketpyError
from rocketpy._core.inspect import Damage, LogScan, verify_store
from rocketpy._core.options import MessageStoreOptions
from rocketpy._core.store import MessageStore, decode_message
from rocketpy.store.compaction import kept_messages, queue_directories
from rocketpy.store.directory import offset_files
from tests.processes import wait_until

LOG_FILE_SIZE = 64 * 1024
QUEUES = 3
INDEX_SLOTS = 101
INDEX_ENTRIES = 1001
OPTIONS: MessageStoreOptions = {
    "commit_log_file_size": LOG_FILE_SIZE,
    "consume_queue_file_size": 100 * 20,
    "populate_ahead_bytes": 4096,
    "index_slot_count": INDEX_SLOTS,
    "index_entry_count_max": INDEX_ENTRIES,
    "compaction_file_size": 8192,
    "compaction_queue_file_size": 21 * 46,
}
KEPT, KEPT_SENT, KEPT_KEYS = "Kept", 100, 60


def build_template(root: Path, messages: int = 400) -> None:
    """A cleanly closed store of several files, with keys and tags."""
    dice = random.Random(7)
    with MessageStore(root, **OPTIONS) as store:
        for number in range(messages):
            properties = f"KEYS\x01k{number}\x02TAGS\x01t{number % 3}\x02UNIQ_KEY\x01U{number}\x02"
            store.append("Fuzz", number % QUEUES, dice.randbytes(dice.randrange(600)), properties, born_timestamp_ms=1_700_000_000_000)
    with MessageStore(root, **OPTIONS, compaction_interval_ms=20) as store, Broker(store) as broker:
        broker.put_topic(KEPT, 1, 1, 6, compacted=True)
        for number in range(KEPT_SENT):
            store.append(KEPT, 0, _kept_body(number), f"KEYS\x01k{number % KEPT_KEYS}\x02", born_timestamp_ms=1_700_000_000_000)

        def is_compacted() -> bool:
            stats = store.compaction_stats()
            return stats["behind"] == 0 and stats["dropped"] > 0

        wait_until(is_compacted, what="the topic is compacted")


def _kept_body(number: int) -> bytes:
    return b"kept %d" % number


def kept(root: Path) -> dict[int, bytes]:
    """By its offset, what can be read of what is kept."""
    return {message.queue_offset: message.body for message in kept_messages(root) if not isinstance(message, Damage)}


def originals(root: Path) -> dict[int, bytes]:
    """Every record of a store, by its offset."""
    records = {}
    with MessageStore(root, read_only=1, **OPTIONS) as store:
        for topic, queue_id in store.queues():
            for offset, size, _ in store.entries(topic, queue_id, 0, store.max_offset(topic, queue_id)):
                records[offset] = store.read(offset, size)
    return records


def _files(root: Path, dice: random.Random) -> Path | None:
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.name not in ("lock", "abort") and path.stat().st_size > 0)
    return dice.choice(files) if files else None


def flip_bits(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(dice.randrange(1, 8)):
        data[_place(data, dice)] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def trash_block(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    start = _place(data, dice)
    size = min(len(data) - start, dice.choice((1, 4, 20, 512, 4096)))
    data[start : start + size] = dice.choice((bytes(size), dice.randbytes(size), b"\xff" * size))
    path.write_bytes(data)


def swap_blocks(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    size = min(len(data) // 3, dice.choice((20, 512, 4096)))
    first, second = sorted((_place(data, dice), _place(data, dice)))
    if size and first + size <= second <= len(data) - size:
        data[first : first + size], data[second : second + size] = data[second : second + size], data[first : first + size]
        path.write_bytes(data)


def truncate(path: Path, dice: random.Random) -> None:
    with path.open("r+b") as file:
        file.truncate(dice.randrange(path.stat().st_size))


def remove(path: Path, dice: random.Random) -> None:
    path.unlink()


def duplicate(path: Path, dice: random.Random) -> None:
    """A copy under the name of a neighbour, as a botched restore leaves it."""
    if path.name.isdigit() and len(path.name) == 20:
        step = LOG_FILE_SIZE if path.parent.name == "commitlog" else 2000
        shutil.copyfile(path, path.with_name(f"{int(path.name) + step * dice.choice((1, 2)):020d}"))


def forget_clean_stop(path: Path, dice: random.Random) -> None:
    """The same directory after a crash: recovery goes the long way."""
    root = next(parent for parent in path.parents if (parent / "commitlog").is_dir())
    (root / "abort").write_bytes(b"")


MUTATIONS: tuple[Callable[[Path, random.Random], None], ...] = (
    flip_bits, flip_bits, trash_block, trash_block, swap_blocks, truncate, remove, duplicate, forget_clean_stop,
)  # fmt: skip


def _place(data: bytearray, dice: random.Random) -> int:
    """Mostly in written bytes: large files end in zeros."""
    end = len(data.rstrip(b"\0")) or len(data)
    return dice.randrange(min(len(data), end + 64))


def mutate(root: Path, dice: random.Random) -> list[str]:
    """What was done, for the report."""
    done = []
    for _ in range(dice.randrange(1, 4)):
        path = _files(root, dice)
        if path is None:
            break
        mutation = dice.choice(MUTATIONS)
        mutation(path, dice)
        done.append(f"{mutation.__name__} {path.relative_to(root)}")
    return done


def check_one(template: Path, work: Path, seed: int, records: dict[int, bytes]) -> str:
    """ "recovered" or "refused". Raises AssertionError that says what was done to the store."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(template, work)
    done = mutate(work, random.Random(seed))
    expected = {offset for offset in records if offset >= _log_begin(work)}
    damages: list[Damage] = []
    verify_store(str(work), slot_count=INDEX_SLOTS, entry_count_max=INDEX_ENTRIES, on_damage=damages.append)
    is_anew = seed % 2 == 1
    whole = _must_be_found(template, work, records) if is_anew else set()
    try:
        with MessageStore(work, **OPTIONS, rebuild_queues=is_anew) as store, Broker(store) as broker:
            found = _read_back(store, records, f"seed {seed}: {done}")
            broker.put_topic(KEPT, 1, 1, 6, compacted=True)
            if not damages:  # what its last file lacks is copied once more
                wait_until(lambda: store.compaction_stats()["behind"] == 0, what="all is copied")
    except RocketpyError as error:
        assert str(error).strip(), f"seed {seed}: refused without a word after {done}"
        return "refused"
    lost = expected - found
    assert damages or not lost, f"seed {seed}: {len(lost)} messages are lost though verify saw no damage: {done}"
    bodies = kept(work)
    assert set(bodies.values()) <= {_kept_body(number) for number in range(KEPT_SENT)}, f"seed {seed}: a kept message was invented: {done}"
    lost = kept(template).keys() - bodies.keys() - _gone_beside_the_gap(template, work)
    assert damages or not lost, f"seed {seed}: {len(lost)} kept messages are lost though verify saw no damage: {done}"
    lost = whole - found
    assert not lost, f"seed {seed}: {len(lost)} messages that are whole in the log are in no queue, {min(lost)} is the first: {done}"
    return "recovered"


def _gone_beside_the_gap(template: Path, work: Path) -> set[int]:
    """The messages of the last segment that was compacted, when both of its files are gone. A compaction that needs fewer files leaves a
    gap among their names behind it: nothing says that it was shorter."""
    records, entries = queue_directories(template, KEPT, 0)
    last = next(path for path, after in pairwise(offset_files(records)) if int(after.name) - int(path.name) > path.stat().st_size)
    if any((work / path.relative_to(template)).exists() for path in (last, entries / last.name)):
        return set()
    data = (entries / last.name).read_bytes()
    each = (data[at : at + 46] for at in range(0, len(data), 46))
    return {int.from_bytes(entry[28:36], "big") for entry in each if any(entry[8:12])}


def _must_be_found(template: Path, work: Path, records: dict[int, bytes]) -> set[int]:
    """Records that are as they were. None of them when the checkpoint is not, or when another changed where no CRC tells."""
    checkpoint = work / "checkpoint"
    if not checkpoint.exists() or checkpoint.read_bytes() != (template / "checkpoint").read_bytes():
        return set()
    read: dict[int, bytes] = {}
    for path in sorted((work / "commitlog").iterdir()):
        data = path.read_bytes()
        with LogScan(str(path)) as scan:
            for record in scan:
                if not isinstance(record, Damage):
                    at = record.commit_log_offset - int(path.name)
                    read[record.commit_log_offset] = data[at : at + int.from_bytes(data[at : at + 4], "big")]
    return set(read) if all(records.get(offset) == record for offset, record in read.items()) else set()


def _log_begin(root: Path) -> int:
    """Missing first files are what retention leaves: nothing says there was more."""
    return min((int(path.name) for path in (root / "commitlog").iterdir()), default=1 << 62)


def _read_back(store: MessageStore, records: dict[int, bytes], what: str) -> set[int]:
    found: set[int] = set()
    for topic, queue_id in store.queues():
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        for offset, size, _ in store.entries(topic, queue_id, low, max(0, high - low)):
            record = _whole_record(store, offset, size)
            if record is None:
                continue
            assert offset in records, f"{what}: a message at {offset} was invented"
            is_same = _without_undetectable(record) == _without_undetectable(records[offset])
            assert is_same, f"{what}: the message at {offset} came back changed"
            found.add(offset)
    return found


def _whole_record(store: MessageStore, offset: int, size: int) -> bytes | None:
    """What a consumer takes for a message: it decodes, its CRC is right and it lies where it says."""
    try:
        record = store.read(offset, size)
        return record if decode_message(record).commit_log_offset == offset else None
    except RocketpyError:
        return None


def _without_undetectable(record: bytes) -> bytes:
    """Size, magic, CRC and body: what RocketMQ's layout lets a reader check without enabledAppendPropCRC."""
    body_size = int.from_bytes(record[84:88], "big")
    return record[:12] + record[88 : 88 + body_size]


def main() -> None:
    template, work, first, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    records = originals(template)
    outcomes: dict[str, int] = {}
    for seed in range(first, first + count):
        sys.stderr.write(f"seed {seed}\n")  # the last line names the seed of a crash
        outcome = check_one(template, work, seed, records)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    sys.stdout.write(f"{outcomes}\n")


if __name__ == "__main__":
    main()
